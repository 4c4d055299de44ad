//! An adapter that falls silent for a while, its link up all the time: soon after its return messages arrive again,
//! whatever TCP's own pauses have become.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use common::netns::{End, Lab};

/// Pings that fail while the adapter is silent, of two seconds each: TCP's next attempt is more than twenty seconds
/// away then.
const SILENT_PINGS: u32 = 14;

/// Pings that may fail after the return.
const LATE_PINGS: u32 = 4;

const DOCUMENT: &str = "net:\n- net type: tcp\n  local NI(s):\n  - interfaces:\n      0: eth0\n";

const NODES: [(&str, &str); 2] = [("a", "10.66.0.1"), ("b", "10.66.0.2")];

fn socket(directory: &Path, node: &str) -> PathBuf {
    directory.join(format!("{node}.sock"))
}

/// The name of a room's port at the bridge.
fn port(room: &str) -> String {
    format!("port-{room}")
}

/// Pings a node from another one; returns whether it answered within two seconds.
fn ping(lab: &Lab, directory: &Path, from: &str, to: &str) -> bool {
    let socket = socket(directory, from);
    let nid = format!("{to}@tcp");
    let socket = socket.to_str().unwrap();
    let args = ["ctl", "--node", socket, "ping", "--timeout", "2", &nid];
    lab.run(from, &args).status.success()
}

#[test]
fn a_peer_that_was_silent_for_long_is_reached_soon_after_its_return() {
    let Some(lab) = Lab::build(&["a", "b", "switch"]) else {
        return;
    };
    let directory = TempDir::new().unwrap();
    lab.ip("switch", &["link", "add", "br0", "type", "bridge"]);
    lab.ip("switch", &["link", "set", "br0", "up"]);
    let mut nodes = Vec::new();
    for (room, address) in NODES {
        let address = format!("{address}/24");
        let end = End {
            room,
            interface: "eth0",
            address: &address,
        };
        lab.plug(&end, ["switch", "br0", &port(room)]);
        let document = directory.path().join(format!("{room}.yaml"));
        fs::write(&document, DOCUMENT).unwrap();
        let socket = socket(directory.path(), room);
        let [document, socket] = [&document, &socket].map(|path| path.to_str().unwrap());
        nodes.push(lab.start(room, &["node", "--config", document, "--control", socket]));
    }
    let [(a, from_a), (b, from_b)] = NODES;
    let ping = |from, to| ping(&lab, directory.path(), from, to);
    assert!(ping(a, from_b) && ping(b, from_a));

    lab.ip("switch", &["link", "set", &port(b), "nomaster"]);
    for number in 0..SILENT_PINGS {
        assert!(!ping(a, from_b), "ping {number} through a silent adapter");
    }
    lab.ip("switch", &["link", "set", &port(b), "master", "br0"]);

    for (from, to) in [(a, from_b), (b, from_a)] {
        let late = (0..20).take_while(|_| !ping(from, to)).count();
        assert!(
            late <= LATE_PINGS as usize,
            "{late} pings from {from} failed"
        );
    }
}
