//! Nodes with IPv4 addresses, with IPv6 addresses, and with both: directly connected and through a router whose hops
//! use different forms of headers and HELLOs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use common::netns::{End, Lab};
use common::process::{Ended, Process, run};
use common::{eventually, pattern};

/// Rooms (namespaces), cables between them, and the files of the nodes.
struct Site {
    lab: Lab,
    directory: TempDir,
}

const SIX: &str = "fd00:1::1@tcp";
const ROUTER: [&str; 2] = ["fd00:1::254@tcp", "10.2.0.254@tcp1"];
const FOUR: &str = "10.2.0.9@tcp1";

/// Returns the configuration of a node with these NIDs and the lines of `rest`.
fn yaml(nids: &[&str], rest: &str) -> String {
    let mut text = String::from("net:\n");
    for nid in nids {
        let net = nid.split_once('@').unwrap().1;
        text += &format!("- net type: {net}\n  local NI(s):\n  - nid: {nid}\n");
    }
    text + rest
}

impl Site {
    /// Builds a client with IPv6, a router with both, and a server with IPv4.
    fn routed() -> Option<Self> {
        let lab = Lab::build(&["six", "router", "four"])?;
        let end = |room, interface, address| End {
            room,
            interface,
            address,
        };
        lab.connect([
            &end("six", "eth0", "fd00:1::1/64"),
            &end("router", "eth0", "fd00:1::254/64"),
        ]);
        lab.connect([
            &end("router", "eth1", "10.2.0.254/24"),
            &end("four", "eth0", "10.2.0.9/24"),
        ]);
        let site = Self::with(lab);
        let by = |net: &str, gateway: &str| format!("route:\n- net: {net}\n  gateway: {gateway}\n");
        site.write("six", &yaml(&[SIX], &by("tcp1", ROUTER[0])));
        site.write("router", &yaml(&ROUTER, "routing:\n  enable: 1\n"));
        site.write("four", &yaml(&[FOUR], &by("tcp", ROUTER[1])));
        Some(site)
    }

    /// Builds three machines on one wire: one with IPv4, one with IPv6, one with both on one net.
    fn direct() -> Option<Self> {
        let lab = Lab::build(&["switch", "four", "six", "both"])?;
        lab.ip("switch", &["link", "add", "br0", "type", "bridge"]);
        lab.ip("switch", &["link", "set", "br0", "up"]);
        for (room, address) in [
            ("four", "10.1.0.1/24"),
            ("six", "fd00:1::1/64"),
            ("both", "10.1.0.3/24"),
        ] {
            let end = End {
                room,
                interface: "eth0",
                address,
            };
            lab.plug(&end, ["switch", "br0", room]);
        }
        let more = ["address", "add", "fd00:1::3/64", "dev", "eth0", "nodad"];
        lab.ip("both", &more);
        let site = Self::with(lab);
        site.write("four", &yaml(&["10.1.0.1@tcp"], ""));
        site.write("six", &yaml(&["fd00:1::1@tcp"], ""));
        let both = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 10.1.0.3@tcp\n  - nid: fd00:1::3@tcp\n";
        site.write("both", both);
        Some(site)
    }

    fn with(lab: Lab) -> Self {
        let directory = TempDir::with_prefix("finerail-test-").unwrap();
        Self { lab, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, node: &str, text: &str) {
        fs::write(self.path(&format!("{node}.yaml")), text).unwrap();
    }

    /// Returns a command with these words in the room of a node, with the node's configuration.
    fn command(&self, node: &str, words: &[&str]) -> Command {
        let mut command = self.lab.finerail(node, words);
        command.env("XDG_RUNTIME_DIR", self.directory.path());
        command.env("LST_SESSION", node);
        command
            .arg("--config")
            .arg(self.path(&format!("{node}.yaml")));
        command
    }

    fn start(&self, node: &str, words: &[&str]) -> Process {
        let mut command = self.command(node, words);
        command
            .arg("--control")
            .arg(self.path(&format!("{node}.sock")));
        command.args(["--router-check-interval", "1"]);
        let process = Process::start(command);
        process.wait_for_output("ready: ");
        process
    }

    /// Runs a control command for the node in a room.
    fn ctl(&self, node: &str, words: &[&str]) -> Ended {
        let socket = self.path(&format!("{node}.sock"));
        let called = ["ctl", "--node", socket.to_str().unwrap()];
        self.lab.run(node, &[&called, words].concat())
    }

    /// Runs a command of the session whose console is in a room.
    fn lst(&self, node: &str, words: &str) -> String {
        let words: Vec<&str> = ["lst"].into_iter().chain(words.split(' ')).collect();
        let mut command = self.lab.finerail(node, &words);
        command.env("XDG_RUNTIME_DIR", self.directory.path());
        command.env("LST_SESSION", node);
        run(command).expect_code(0).out
    }

    /// Waits until the routers are known to be alive, and both nodes can ping each other.
    fn ping_both_ways(&self, [one, other]: [(&str, &str); 2]) {
        for ((node, _), (_, nid)) in [(one, other), (other, one)] {
            eventually("a ping crosses", || {
                let ping = self.ctl(node, &["ping", "--timeout", "2000", nid]);
                ping.out
                    .contains(&format!("primary nid: {nid}"))
                    .then_some(())
            });
        }
    }

    /// Stores a file from a room without a node of its own in the service there, fetches it, and compares the
    /// contents.
    fn store(&self, from: &str, to: &str) {
        let data = pattern(3 << 20);
        let (sent, back) = (self.path("sent"), self.path("back"));
        fs::write(&sent, &data).unwrap();
        let _absent = fs::remove_file(&back);
        let stored = format!("lnet:{to}:/data");
        let put = ["files", "put", sent.to_str().unwrap(), &stored];
        run(self.command(from, &put)).expect_code(0);
        let get = ["files", "get", &stored, back.to_str().unwrap()];
        run(self.command(from, &get)).expect_code(0);
        assert!(fs::read(&back).unwrap() == data, "what came back differs");
    }

    /// Moves bulk in both directions between a console's node with IPv6 and a test node with IPv4.
    fn selftest(&self) {
        let console = "six";
        run(self.command(console, &["lst", "new_session", "mixed"])).expect_code(0);
        self.lst(console, &format!("add_group servers {FOUR}"));
        self.lst(console, &format!("add_group clients {SIX}"));
        let told = "add_test --from servers --to clients ping";
        let words: Vec<&str> = ["lst"].into_iter().chain(told.split(' ')).collect();
        let mut wrong = self.lab.finerail(console, &words);
        wrong.env("XDG_RUNTIME_DIR", self.directory.path());
        wrong.env("LST_SESSION", console);
        run(wrong)
            .expect_code(1)
            .expect_error("which a test cannot name as its destination; use a flow file");
        for bulk in ["read", "write"] {
            let flags = "--loop 10 --concurrency 2 --from clients --to servers";
            let test = format!("add_test {flags} brw {bulk} size=256K check=full");
            self.lst(console, &test);
        }
        self.lst(console, "run batch");
        eventually("the batch ends", || {
            (self.lst(console, "query") == "Batch is idle\n").then_some(())
        });
        for group in ["servers", "clients"] {
            let errors = self.lst(console, &format!("show_error {group}"));
            assert!(errors.contains("Total 0 error nodes"), "{errors}");
        }
        self.lst(console, "end_session");
        let socket = self.path(&format!("finerail/lst/{console}.sock"));
        eventually("the console ends", || (!socket.exists()).then_some(()));
    }
}

#[test]
fn nodes_with_ipv6_and_with_ipv4_reach_each_other_through_a_router_with_both() {
    let Some(site) = Site::routed() else { return };
    let router = site.start("router", &["node"]);
    let six = site.start("six", &["node", "--selftest"]);
    let four = site.start("four", &["node", "--selftest"]);
    site.ping_both_ways([("six", SIX), ("four", FOUR)]);
    for (node, nid) in [("six", FOUR), ("four", SIX)] {
        let found = site.ctl(node, &["discover", nid]).expect_code(0).out;
        assert!(found.contains("Multi-Rail: true"), "{found}");
        let peers = site.ctl(node, &["peer", "show", "--nid", nid]).out;
        assert!(peers.contains(&format!("primary nid: {nid}")), "{peers}");
    }
    // No interface has lost health, and no message was lost.
    for node in ["six", "router", "four"] {
        let shown = site.ctl(node, &["net", "show", "-v", "2"]).out;
        let healthy = |line: &&str| line.trim() == "health value: 1000";
        let real = if node == "router" { 2 } else { 1 };
        assert_eq!(shown.lines().filter(healthy).count(), real, "{shown}");
    }
    let counted = site.ctl("router", &["stats", "show"]).out;
    assert!(counted.contains("local_error_count: 0\n"), "{counted}");
    for process in [six, four, router] {
        process.stop().expect_code(0);
    }
}

#[test]
fn files_go_both_ways_through_a_router_with_both() {
    let Some(site) = Site::routed() else { return };
    let _router = site.start("router", &["node"]);
    let kept = site.path("kept");
    fs::create_dir(&kept).unwrap();
    for (client, server, nid) in [("six", "four", FOUR), ("four", "six", SIX)] {
        let words = [
            "store",
            "serve",
            "--identity",
            "server",
            kept.to_str().unwrap(),
        ];
        let service = site.start(server, &words);
        site.store(client, nid);
        service.stop().expect_code(0);
    }
}

#[test]
fn selftest_loads_both_ways_through_a_router_with_both() {
    let Some(site) = Site::routed() else { return };
    let _router = site.start("router", &["node"]);
    let serving = site.start("four", &["node", "--selftest"]);
    site.selftest();
    serving.stop().expect_code(0);
    // The protocol of tests has only 8 bytes for the NID of a server. Flows accept any NID.
    let serving = site.start("six", &["node", "--selftest"]);
    let flows = site.path("flows.yaml");
    let mix = "mix: { read: 1, write: 1, ping: 1 }\n    sizes: { 64K: 1, 1M: 1 }";
    let flow =
        format!("flows:\n  - name: x\n    to: {SIX}\n    {mix}\n    check: full\n    count: 30\n");
    fs::write(&flows, flow).unwrap();
    let words = ["lst", "run", "--json", flows.to_str().unwrap()];
    let ran = run(site.command("four", &words)).expect_code(0);
    let figures: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let done = |name: &str| figures["flows"][0][name]["done"].as_u64().unwrap();
    assert_eq!(done("read") + done("write") + done("ping"), 30, "{figures}");
    serving.stop().expect_code(0);
}

#[test]
fn a_node_with_both_talks_to_each_in_its_own_form_and_the_others_are_told_why_not() {
    let Some(site) = Site::direct() else { return };
    let _nodes = ["four", "six", "both"].map(|node| site.start(node, &["node"]));
    for (node, own, nid) in [
        ("four", "10.1.0.1@tcp", "10.1.0.3@tcp"),
        ("six", "fd00:1::1@tcp", "fd00:1::3@tcp"),
    ] {
        site.ping_both_ways([(node, own), ("both", nid)]);
        let found = site.ctl(node, &["discover", nid]).expect_code(0).out;
        for nid in ["10.1.0.3@tcp", "fd00:1::3@tcp"] {
            assert!(found.contains(&format!("nid: {nid}")), "{found}");
        }
        // After discovery, every NID of the peer leads to the peer, through the net that has a connection.
        for nid in ["10.1.0.3@tcp", "fd00:1::3@tcp"] {
            let ping = site.ctl(node, &["ping", nid]).expect_code(0).out;
            assert!(ping.contains("primary nid: "), "{ping}");
        }
    }
    for (node, nid) in [("four", "fd00:1::1@tcp"), ("six", "10.1.0.1@tcp")] {
        let ping = site.ctl(node, &["ping", nid]);
        let why = "byte address, and the interfaces here on tcp have ";
        assert!(ping.out.contains(why), "{ping:?}");
        ping.expect_code(1);
        let direct = run(site.command(node, &["ping", nid]));
        direct.expect_code(1).expect_error(why);
    }
}
