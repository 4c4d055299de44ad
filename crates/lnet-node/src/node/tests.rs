//! A node's own health, over real sockets.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use lnet_core::{Health, NiId};

use super::*;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a node with one interface and sets that to half health.
fn half_well() -> Node {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let yaml = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n";
    let config = lnet_config::parse(yaml).unwrap();
    let options = NodeOptions {
        port,
        ..NodeOptions::default()
    };
    let node = Node::start(&config, options).unwrap();
    let half = Health::new(500).unwrap();
    let set = node.shared.with_engine(|engine, now| {
        let done = engine.side.core.set_ni_health(NiId(1), half, now);
        assert_eq!(done, Ok(()));
        Ok(())
    });
    set.unwrap();
    node
}

fn health(node: &Node) -> Health {
    let engine = node.shared.engine();
    let ni = engine.side.core.nis().nth(1).unwrap();
    ni.health.health
}

#[test]
fn an_interface_recovers_by_pings_to_itself_over_a_socket() {
    let node = half_well();
    let begin = Instant::now();
    while !health(&node).is_full() {
        assert!(begin.elapsed() < PATIENCE, "{:?}", health(&node));
        std::thread::yield_now();
    }
}
