//! Nodes on loopback addresses, for the tests in this directory.

#![allow(dead_code, reason = "every test file uses its own part")]
#![expect(clippy::unwrap_used, reason = "test code")]

use std::time::Duration;

use lnet_node::{Globals, Node, NodeOptions};
use lnet_rpc::{Client, ClientOptions, Entropy};
use lnet_types::Nid;

/// Far longer than anything in these tests takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// Starts a node with these interfaces and further sections of configuration.
pub(crate) fn start(port: u16, nids: &[&str], more: &str) -> Node {
    let mut yaml = String::from("net:\n");
    for nid in nids {
        let (_, net) = nid.split_once('@').unwrap();
        yaml.push_str(&format!(
            "  - net type: {net}\n    local NI(s):\n      - nid: {nid}\n"
        ));
    }
    yaml.push_str(more);
    let config = lnet_config::parse(&yaml).unwrap();
    let options = NodeOptions {
        port,
        globals: Globals {
            // Routers die in these tests.
            alive_router_check_interval: Duration::from_secs(1),
            ..Globals::default()
        },
        ..NodeOptions::default()
    };
    lnet_noded::start(&config, options).unwrap().into_node()
}

/// Makes a client whose attempts expire quickly.
pub(crate) fn quick_client(node: &Node, server: &str, seed: u8) -> Client {
    let options = ClientOptions {
        attempt_timeout: Duration::from_millis(500),
        ..ClientOptions::default()
    };
    Client::new(node.clone(), nid(server), Entropy::new([seed; 32]), options)
}
