//! Tests that a restarted router tells the peers that used it.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::path::Path;
use std::time::{Duration, Instant};

use lnet_node::{AcceptMode, NodeOptions};
use lnet_noded::{ManagedNode, UsersFile};

/// A limit that only a deadlock reaches.
const PATIENCE: Duration = Duration::from_secs(30);

fn start(yaml: &str, port: u16) -> ManagedNode {
    let options = NodeOptions {
        accept: Some(AcceptMode::All),
        port,
        ..NodeOptions::default()
    };
    lnet_noded::start(&lnet_config::parse(yaml).unwrap(), options).unwrap()
}

fn router(port: u16, discovery: bool) -> ManagedNode {
    let yaml = format!(
        "net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n- net type: tcp1\n  local NI(s):\n  \
         - nid: 127.0.0.2@tcp1\nrouting:\n  enable: 1\nglobal:\n  discovery: {}\n",
        u8::from(discovery)
    );
    start(&yaml, port)
}

/// Starts a client that never checks its gateway, as if the next check were far away.
fn client(port: u16) -> ManagedNode {
    let yaml = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.3@tcp\nroute:\n- net: tcp1\n  gateway: \
                127.0.0.1@tcp\nglobal:\n  alive_router_check_interval: 0\n";
    start(yaml, port)
}

/// Runs a router that the client uses, ends it, and returns when the client has heard from the next router.
fn comes_back(discovery: bool) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users");
    let port = testkit::port();
    let client = client(port);
    let used = router(port, discovery);
    let users = UsersFile::open(&used, &file).unwrap();
    let gateway = "127.0.0.1@tcp".parse().unwrap();
    client.node().ping(gateway, None, PATIENCE).unwrap();
    drop(users);
    used.node().shutdown(PATIENCE);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "127.0.0.3@tcp\n");
    let heard = client.node().stats().recv_count;
    let back = router(port, discovery);
    let _users = UsersFile::open(&back, &file).unwrap();
    let begun = Instant::now();
    while client.node().stats().recv_count == heard {
        assert!(begun.elapsed() < PATIENCE, "the router says nothing");
        std::thread::yield_now();
    }
}

#[test]
fn a_router_that_comes_back_discovers_those_who_used_it() {
    comes_back(true);
}

#[test]
fn a_router_that_discovers_nobody_pings_those_who_used_it() {
    comes_back(false);
}

#[test]
fn a_file_that_is_no_list_of_nids_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users");
    std::fs::write(&file, "no NID\n").unwrap();
    let router = router(testkit::port(), true);
    let refused = UsersFile::open(&router, &file).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidData);
    let nowhere = Path::new("/dev/null/users");
    assert!(UsersFile::open(&router, nowhere).is_err());
}
