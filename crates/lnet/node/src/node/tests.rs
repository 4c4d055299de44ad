//! Tests of a node's own health over real sockets, of the length of a turn, and of when a call's time is read.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lnd::RxId;
use lnet_core::{Health, NiId, PutRequest};
use lnet_types::Nid;
use lnet_wire::{Body, Handle, Header, Reply};

use super::*;
use crate::engine::NiSettings;
use crate::stack::{Shown, Tap, WAITING_MAX, Watcher};

/// Longer than any test here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a node with one interface.
fn started() -> Node {
    started_on(free_port(), "127.0.0.1@tcp")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn started_on(port: u16, nid: &str) -> Node {
    let options = NodeOptions {
        port,
        ..NodeOptions::default()
    };
    let nid = nid.parse().unwrap();
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

/// Wants every message, and counts those that it misses.
#[derive(Default)]
struct Everything {
    missed: Arc<AtomicUsize>,
}

impl Watcher for Everything {
    fn wants(&self, _: &Header) -> Option<usize> {
        Some(64)
    }

    fn take(&mut self, _: Shown<'_>) {}

    fn miss(&mut self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until the tap of a node has so many messages that are arriving.
fn await_waiting(node: &Node, count: usize) {
    let begin = Instant::now();
    let waiting = || {
        let engine = node.shared.engine();
        engine.stack.side.tap.as_ref().unwrap().waiting()
    };
    while waiting() != count {
        assert!(begin.elapsed() < PATIENCE, "{} and not {count}", waiting());
        std::thread::yield_now();
    }
}

/// A watched node that holds a message of another one at a lazy portal.
fn holding() -> [Node; 2] {
    let port = free_port();
    let nodes = ["127.0.0.2@tcp", "127.0.0.3@tcp"].map(|nid| started_on(port, nid));
    let [sender, holder] = &nodes;
    holder.with_engine(|engine, _| engine.watch_messages(Some(Box::<Everything>::default())));
    holder.set_lazy(7, true).unwrap();
    let queue = sender.event_queue();
    let md = sender.bind(&queue, Md::source(vec![0; 8])).unwrap();
    let put = PutRequest {
        md,
        ack: false,
        source: None,
        target: ProcessId::lustre(holder.primary_nid()),
        portal: 7,
        match_bits: 0,
        offset: 0,
        hdr_data: 0,
    };
    sender.put(put).unwrap();
    await_waiting(holder, 1);
    nodes
}

#[test]
fn the_tap_forgets_a_held_message_that_is_dropped() {
    let [sender, holder] = holding();
    holder.set_lazy(7, false).unwrap();
    await_waiting(&holder, 0);
    drop(sender);
}

/// A node reads nothing from the connection by which a held message came. The node notices that the peer has gone when
/// the peer's other connections end.
#[test]
fn the_tap_forgets_a_held_message_whose_connection_ends() {
    let [sender, holder] = holding();
    let begin = Instant::now();
    while holder.look(|engine| engine.connections().count()) < 3 {
        assert!(begin.elapsed() < PATIENCE, "three connections");
        std::thread::yield_now();
    }
    sender.shutdown(Duration::ZERO);
    await_waiting(&holder, 0);
}

#[test]
fn the_tap_tells_how_many_messages_it_cannot_hold() {
    let watcher = Everything::default();
    let missed = Arc::clone(&watcher.missed);
    let mut tap = Tap::new(Box::new(watcher));
    let header = Header {
        dest_nid: Nid::LOOPBACK,
        src_nid: Nid::LOOPBACK,
        dest_pid: 0,
        src_pid: 0,
        payload_length: 0,
        body: Body::Reply(Reply {
            dst_wmd: Handle::NONE,
        }),
    };
    for rx in 0..WAITING_MAX as u64 + 3 {
        tap.begin(RxId(rx), NiId(1), &header);
    }
    assert_eq!(
        (tap.waiting(), missed.load(Ordering::Relaxed)),
        (WAITING_MAX, 3)
    );
    tap.forget(RxId(5));
    tap.begin(RxId(5), NiId(1), &header);
    assert_eq!(missed.load(Ordering::Relaxed), 3);
}
