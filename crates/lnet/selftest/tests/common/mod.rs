//! Test nodes on loopback addresses.

#![allow(dead_code, reason = "every test file uses its own part")]
#![expect(clippy::unwrap_used, reason = "test code")]

use std::error::Error;
use std::time::Duration;

use lnet_node::{Globals, NiSettings, Node, NodeOptions};
use lnet_selftest::TestNode;
use lnet_types::Nid;

pub(crate) fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// Starts a node with this NID and a short timeout for answers.
pub(crate) fn node(port: u16, text: &str) -> Node {
    start(port, text, Duration::from_secs(5))
}

/// Starts a node with this NID whose connections outlast a test, even while the peer reads nothing. A sender
/// closes a connection that makes no progress for its timeout.
pub(crate) fn node_with_long_timeouts(port: u16, text: &str) -> Node {
    start(port, text, testkit::TIME_LIMIT * 2)
}

fn start(port: u16, text: &str, transaction_timeout: Duration) -> Node {
    let options = NodeOptions {
        port,
        globals: Globals {
            transaction_timeout,
            retry_count: 0,
            ..Globals::default()
        },
        ..NodeOptions::default()
    };
    let node = Node::start_with(options, |engine, now| -> Result<(), Box<dyn Error>> {
        engine.add_interface(nid(text), NiSettings::default(), now)?;
        Ok(())
    });
    node.unwrap()
}

pub(crate) fn test_node(port: u16, text: &str) -> TestNode {
    TestNode::start(node(port, text)).unwrap()
}
