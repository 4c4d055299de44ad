//! Tests many connections at the same time.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use std::time::Duration;

use lnet_types::{Nid, ProcessId};
use lnet_wire::{Ctype, Hello};

use common::{Node, Raw, config, hello, opening, run, until};

/// As many as the usual limit of descriptors allows, since both ends are in this process.
const CONNECTIONS: u32 = 400;

#[test]
fn hundreds_of_idle_peers_are_kept_and_each_is_reached() {
    let mut node = Node::new(config());
    let mut raws = Vec::new();
    for n in 0..CONNECTIONS {
        let mut raw = Raw::connect(&node);
        let nid = Nid::from_number(node.nid.net(), 0x0A00_0000 + n);
        let hello = Hello {
            src_nid: nid,
            ..hello(node.nid, Ctype::CONTROL)
        };
        raw.write(&opening(node.nid, &hello));
        raws.push((nid, raw));
        node.turn();
    }
    until(&mut node, |node| {
        (node.open() == u64::from(CONNECTIONS)).then_some(())
    });
    node.pass(Duration::from_secs(29));
    assert_eq!(node.open(), u64::from(CONNECTIONS));
    for (nid, _) in &raws {
        node.send(ProcessId::lustre(*nid), vec![7]);
    }
    for (_, raw) in &mut raws {
        assert_eq!(raw.expect(&mut node, 56 + 97).last(), Some(&7));
    }
}

#[test]
fn a_flood_of_silent_clients_keeps_no_node_out() {
    let mut few = config();
    few.limits.handshakes_max = 16;
    let mut node = Node::new(few);
    let mut other = Node::new(config());
    let silent: Vec<Raw> = (0..100)
        .map(|_| {
            let raw = Raw::connect(&node);
            node.turn();
            raw
        })
        .collect();
    assert!(node.lnd.stats().handshakes_open <= 16);
    let tx = other.send(node.id(), vec![1]);
    run(&mut [&mut node, &mut other], |nodes| {
        nodes[1].result(tx).is_some()
    });
    assert_eq!(other.result(tx), Some(Ok(())));
    drop(silent);
}
