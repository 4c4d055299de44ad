//! Nodes on loopback addresses, for the tests in this directory.

#![allow(dead_code, reason = "every test file uses its own part")]
#![expect(clippy::unwrap_used, reason = "test code")]

use std::time::Duration;

use lnet_node::{Globals, Node, NodeOptions};
use lnet_noded::ManagedNode;
use lnet_rpc::{Client, ClientOptions, Entropy};
use lnet_types::Nid;

/// Far longer than anything in these tests takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// Returns a configuration of these interfaces and further sections.
pub(crate) fn configuration(nids: &[&str], more: &str) -> lnet_config::Config {
    let mut yaml = String::from("net:\n");
    for nid in nids {
        let (_, net) = nid.split_once('@').unwrap();
        yaml.push_str(&format!(
            "  - net type: {net}\n    local NI(s):\n      - nid: {nid}\n"
        ));
    }
    yaml.push_str(more);
    lnet_config::parse(&yaml).unwrap()
}

/// Starts a node with these interfaces and further sections of configuration.
pub(crate) fn start(port: u16, nids: &[&str], more: &str) -> Node {
    start_managed(port, nids, more).into_node()
}

/// Starts such a node, to be controlled from outside.
pub(crate) fn start_managed(port: u16, nids: &[&str], more: &str) -> ManagedNode {
    let options = NodeOptions {
        port,
        globals: Globals {
            // Routers die in these tests.
            alive_router_check_interval: Duration::from_secs(1),
            ..Globals::default()
        },
        ..NodeOptions::default()
    };
    lnet_noded::start(&configuration(nids, more), options).unwrap()
}

/// Makes a client whose attempts expire quickly.
pub(crate) fn quick_client(node: &Node, server: &str, seed: u8) -> Client {
    let options = ClientOptions {
        attempt_timeout: Duration::from_millis(500),
        ..ClientOptions::default()
    };
    Client::new(node.clone(), nid(server), Entropy::new([seed; 32]), options)
}

/// Makes a client whose attempts last as long as a busy machine may need.
pub(crate) fn client_with_long_timeouts(node: &Node, server: &str, seed: u8) -> Client {
    let options = ClientOptions {
        attempt_timeout: PATIENCE,
        ..ClientOptions::default()
    };
    Client::new(node.clone(), nid(server), Entropy::new([seed; 32]), options)
}
