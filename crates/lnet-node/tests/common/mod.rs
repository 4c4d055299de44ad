//! Nodes on loopback addresses, each test on a port of its own.

#![allow(dead_code, reason = "every test file uses its own part")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

pub(crate) mod raw;

use std::time::Duration;

use lnet_node::{EventKind, EventQueue, Node, NodeEvent, NodeOptions, Progress};
use lnet_types::Nid;

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// A node with one interface for each NID, in the order given.
pub(crate) fn start(port: u16, nids: &[&str], rest: &str) -> Node {
    start_with(port, nids, rest, Progress::Thread)
}

pub(crate) fn start_with(port: u16, nids: &[&str], rest: &str, progress: Progress) -> Node {
    let options = NodeOptions {
        port,
        progress,
        ..NodeOptions::default()
    };
    start_so(nids, rest, options)
}

pub(crate) fn start_so(nids: &[&str], rest: &str, options: NodeOptions) -> Node {
    let mut yaml = String::from("net:\n");
    for text in nids {
        let net = text.split_once('@').unwrap().1;
        yaml += &format!("- net type: {net}\n  local NI(s):\n  - nid: {text}\n");
    }
    let config = lnet_config::parse(&(yaml + rest)).unwrap();
    Node::start(&config, options).unwrap()
}

/// The next event, which must come.
pub(crate) fn next(queue: &EventQueue) -> NodeEvent {
    queue
        .wait(Some(PATIENCE))
        .unwrap_or_else(|error| panic!("after {PATIENCE:?}: {error}"))
}

/// Waits for an event of this kind, past others; every event on the way must be a success.
pub(crate) fn expect(queue: &EventQueue, kind: EventKind) -> NodeEvent {
    loop {
        let event = next(queue);
        assert_eq!(event.event.status, Ok(()), "{event:?}");
        if event.event.kind == kind {
            return event;
        }
    }
}
