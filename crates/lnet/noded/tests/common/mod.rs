//! Starts nodes on loopback addresses, each test on its own port.

#![allow(dead_code, reason = "every test file uses its own part")]
#![expect(clippy::unwrap_used, reason = "test code")]

use std::time::Duration;

use lnet_node::NodeOptions;
use lnet_noded::ManagedNode;
use lnet_types::Nid;

/// Longer than any test here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// Starts a node with one interface for each NID, in the order given, and further sections of configuration.
pub(crate) fn start(port: u16, nids: &[&str], rest: &str) -> ManagedNode {
    let mut yaml = String::from("net:\n");
    for text in nids {
        let net = text.split_once('@').unwrap().1;
        yaml += &format!("- net type: {net}\n  local NI(s):\n  - nid: {text}\n");
    }
    let config = lnet_config::parse(&(yaml + rest)).unwrap();
    let options = NodeOptions {
        port,
        ..NodeOptions::default()
    };
    lnet_noded::start(&config, options).unwrap()
}
