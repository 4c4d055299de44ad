//! Tests `Node::discover` between nodes, driven by a thread or by the caller.

mod common;

use std::time::Duration;

use lnet_node::{Globals, Node, NodeOptions, PingError, Progress};

use common::{PATIENCE, nid, start_so};

const HERE: [&str; 1] = ["127.0.0.2@tcp"];
const THERE: [&str; 2] = ["127.0.0.3@tcp", "127.0.0.4@tcp"];

fn node(port: u16, nids: &[&str], progress: Progress, discovery: bool) -> Node {
    let options = NodeOptions {
        port,
        progress,
        globals: Globals {
            discovery,
            ..Globals::default()
        },
        ..NodeOptions::default()
    };
    start_so(nids, &[], options)
}

#[test]
fn a_peer_is_discovered_by_a_thread_and_by_a_caller_that_drives_its_node() {
    for progress in [Progress::Thread, Progress::Caller] {
        let port = testkit::port();
        let here = node(port, &HERE, progress, true);
        let there = node(port, &THERE, Progress::Thread, true);
        let peer = here.discover(nid(THERE[1]), PATIENCE).unwrap();
        let nids: Vec<_> = peer.nis.iter().map(|ni| ni.nid).collect();
        assert_eq!((peer.multi_rail, nids), (true, THERE.map(nid).to_vec()));
        drop(there);
    }
}

#[test]
fn a_discovery_that_cannot_be_says_why() {
    let port = testkit::port();
    let off = node(port, &HERE, Progress::Thread, false);
    let refused = off.discover(nid(THERE[0]), PATIENCE);
    assert_eq!(refused, Err(PingError::DiscoveryOff));
    drop(off);
    let here = node(port, &HERE, Progress::Thread, true);
    let nobody = here.discover(nid(THERE[0]), PATIENCE);
    assert!(
        matches!(nobody, Err(PingError::Failed { .. })),
        "{nobody:?}"
    );
}

#[test]
fn a_peer_that_stands_still_costs_the_time_that_was_given() {
    let port = testkit::port();
    // The system accepts connections on this address, but no process answers.
    let _still = std::net::TcpListener::bind(("127.0.0.3", port)).unwrap();
    let here = node(port, &HERE, Progress::Caller, true);
    let still = here.discover(nid(THERE[0]), Duration::from_millis(300));
    assert!(
        matches!(still, Err(PingError::TimedOut { .. })),
        "{still:?}"
    );
}
