//! Tests of a node's own health over real sockets, of the length of a turn, and of when a call's time is read.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use lnet_core::{Health, NiId, PutRequest};

use super::*;
use crate::engine::NiSettings;

/// Longer than any test here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a node with one interface.
fn started() -> Node {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let options = NodeOptions {
        port,
        ..NodeOptions::default()
    };
    let nid = "127.0.0.1@tcp".parse().unwrap();
    let node = Node::start(options).unwrap();
    node.with_engine(|engine, now| engine.add_interface(nid, NiSettings::default(), now))
        .unwrap();
    node
}

/// Starts a node with one interface whose health is half of the full health.
fn half_well() -> Node {
    let node = started();
    let half = Health::new(500).unwrap();
    let set = node.with_engine(|engine, now| engine.core_mut().set_ni_health(NiId(1), half, now));
    assert_eq!(set, Ok(()));
    node
}

fn health(node: &Node) -> Health {
    let engine = node.shared.engine();
    let ni = engine.core().nis().nth(1).unwrap();
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

#[test]
fn a_turn_ends_however_much_the_core_wants() {
    let node = started();
    let queue = node.event_queue();
    let md = node.bind(&queue, Md::source(vec![0; 8])).unwrap();
    let put = PutRequest {
        md,
        ack: false,
        source: None,
        target: ProcessId::lustre(node.primary_nid()),
        portal: 1,
        match_bits: 0,
        offset: 0,
        hdr_data: 0,
    };
    let mut engine = node.shared.engine();
    let now = engine.now();
    for _ in 0..5000 {
        engine.core_mut().put(put, now).unwrap();
    }
    let mut turns = 1;
    while engine.stack.decide(now) {
        turns += 1;
    }
    assert!(
        turns >= 5,
        "{turns} turns for 5000 messages and their events"
    );
}

#[test]
fn the_time_of_a_call_is_read_after_it_has_waited() {
    let node = started();
    let mut engine = node.shared.engine();
    let caller = node.clone();
    let called = std::thread::spawn(move || caller.with_engine(|_, now| now));
    while !node.shared.engine.is_awaited() {
        std::thread::yield_now();
    }
    let held = engine.now();
    drop(engine);
    assert!(called.join().unwrap() > held);
}
