//! Tests of traffic alone: nothing happens that a message or a call does not cause.

use std::time::Duration;

use lnet_types::{Nid, ProcessId, Time};

use crate::fabric::select::Exact;
use crate::ground::config::{NiConfig, Tunables};
use crate::ground::event::EventKind;
use crate::ground::io::Output;
use crate::ground::md::{MdOptions, MdSpec};
use crate::ground::status::MessageStatus;
use crate::ground::timer::Queue;
use crate::tests::net::config;
use crate::traffic::Traffic;
use crate::traffic::portals::descriptor::Owner;
use crate::traffic::portals::lifecycle::Later;
use crate::traffic::portals::put_get::{GetRequest, PutRequest, SendHints};

const NOW: Time = Time::from_secs(100);

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// Makes traffic with one interface, 10.0.0.1@tcp.
fn traffic() -> Traffic {
    let mut traffic = Traffic::new(config(1), NOW);
    let (nid, tunables) = (nid("10.0.0.1@tcp"), Tunables::default());
    let added = traffic.fabric.insert_ni(NiConfig { nid, tunables }, NOW);
    added.unwrap();
    traffic
}

fn source(length: u32) -> MdSpec {
    MdSpec {
        length,
        threshold: Some(2),
        max_size: 0,
        options: MdOptions::empty(),
        unlink_when_exhausted: true,
        user: 5,
    }
}

#[test]
fn a_put_goes_to_the_lnd_and_ends_with_its_event() {
    let mut traffic = traffic();
    let md = traffic.bind_md(source(8), Owner::User).unwrap();
    let put = PutRequest {
        md,
        ack: false,
        source: None,
        target: ProcessId::lustre(nid("10.0.0.2@tcp")),
        portal: 30,
        match_bits: 7,
        offset: 0,
        hdr_data: 0,
    };
    let waiting = traffic.start_put(put, SendHints::default(), NOW).unwrap();
    assert!(waiting.is_none());
    let Some(Output::Transmit(message)) = traffic.fabric.ground.outputs.pop_front() else {
        panic!("nothing to send")
    };
    traffic.sent(message.tx, MessageStatus::Ok, NOW);
    let Some(Output::Event(event)) = traffic.fabric.ground.outputs.pop_front() else {
        panic!("no event")
    };
    assert_eq!((event.kind, event.status), (EventKind::Send, Ok(())));
    assert!(traffic.tx.is_empty());
}

#[test]
fn an_event_of_the_nodes_own_ping_waits_with_its_memory() {
    let mut traffic = traffic();
    let buffer = traffic.buffers.insert(vec![0; 16]);
    let owner = Owner::NetCheck(buffer);
    let md = traffic.bind_md(source(16), owner).unwrap();
    let get = GetRequest {
        md,
        source: None,
        // No interface and no route leads there.
        target: ProcessId::lustre(nid("10.1.0.2@tcp1")),
        portal: 0,
        match_bits: 1,
        offset: 0,
    };
    let (hints, timeout) = (SendHints::default(), Duration::from_secs(1));
    let started = traffic.start_get(get, hints, timeout, Exact::Always, NOW);
    assert!(started.unwrap().is_none());

    let Some(Later::Event { owner: of, event }) = traffic.later.pop_front() else {
        panic!("no event waits")
    };
    assert_eq!(of, owner);
    assert!(event.status.is_err());
    assert!(
        traffic.fabric.ground.outputs.is_empty(),
        "no event of a caller"
    );
    assert!(traffic.mds.get(md).is_none(), "the descriptor is gone");
    assert_eq!(traffic.buffers.data(buffer).len(), 16, "its memory is not");
}

#[test]
fn a_queue_in_order_is_looked_at_up_to_its_first_message_that_is_not_late() {
    let mut traffic = traffic();
    let target = nid("10.0.0.2@tcp");
    let credits = Tunables::default().peer_credits as usize;
    for _ in 0..credits + 3 {
        let md = traffic.bind_md(source(8), Owner::User).unwrap();
        let put = PutRequest {
            md,
            ack: false,
            source: None,
            target: ProcessId::lustre(target),
            portal: 30,
            match_bits: 7,
            offset: 0,
            hdr_data: 0,
        };
        traffic.start_put(put, SendHints::default(), NOW).unwrap();
    }
    let peer = traffic.fabric.peers.id_of(target).unwrap();
    let peer_ni = traffic.fabric.peers.get(peer).unwrap();
    let waiting: Vec<_> = peer_ni.credits.waiting().iter().copied().collect();
    assert_eq!(waiting.len(), 3);

    // The last one is late, which cannot be in a queue in order: a look behind the second would find it.
    traffic.tx.get_mut(waiting[0]).unwrap().deadline = NOW;
    traffic.tx.get_mut(waiting[2]).unwrap().deadline = NOW;
    traffic.check_queue(Queue::Peer(peer), NOW);
    let is_there = |id| traffic.tx.get(id).is_some();
    assert_eq!(
        [0, 1, 2].map(|at| is_there(waiting[at])),
        [false, true, true]
    );

    // In a queue that is not in order all are looked at.
    let peer_ni = traffic.fabric.peers.get_mut(peer).unwrap();
    peer_ni.credits.in_order_until = None;
    traffic.check_queue(Queue::Peer(peer), NOW);
    assert!(traffic.tx.get(waiting[2]).is_none());
}
