//! Tests two LNDs against each other over loopback.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use std::time::Duration;

use lnet_tcp::{
    CloseReason, DialFailure, Failure, LndNi, NiId, NiTuning, Refusal, SocklndConfig, Staging,
    TxId, Unsent,
};
use lnet_types::{Net, Nid, ProcessId};
use lnet_wire::{Ctype, HelloVersion};

use common::{NI, Node, Policy, address, config, pattern, run};

const ALL_TYPES: [Ctype; 3] = [Ctype::CONTROL, Ctype::BULK_IN, Ctype::BULK_OUT];

/// Returns two nodes with all connections between them; the first has sent the second a small message.
fn connected_pair() -> (Node, Node) {
    let (mut a, mut b) = (Node::new(config()), Node::new(config()));
    a.send(b.id(), vec![1]);
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[0].open() == 3 && nodes[1].open() == 3 && nodes[1].upper.received.len() == 1
    });
    (a, b)
}

// [SET-3]
#[test]
fn a_message_arrives_and_three_typed_connections_are_made() {
    let (a, b) = connected_pair();
    assert_eq!(a.types(), ALL_TYPES);
    assert_eq!(b.types(), ALL_TYPES);
    assert_eq!(a.upper.changes, [(b.id(), true)]);
    assert_eq!(b.upper.changes, [(a.id(), true)]);
    assert_eq!(b.upper.headers[0].0, a.id());
    assert_eq!(b.upper.landed(b.upper.headers[0].2), [1]);
}

#[test]
fn the_first_message_travels_on_control_before_the_bulk_connections_exist() {
    let (mut a, mut b) = (Node::new(config()), Node::new(config()));
    let tx = a.send(b.id(), pattern(5000));
    run(&mut [&mut a, &mut b], |nodes| nodes[0].result(tx).is_some());
    assert_eq!(a.lnd.connections().next().unwrap().ctype, Ctype::CONTROL);
    assert!(
        a.open() < 3,
        "the message waited for {} connections",
        a.open()
    );
}

#[test]
fn the_answer_uses_the_connections_of_the_one_who_dialled() {
    let (mut a, mut b) = connected_pair();
    b.send(a.id(), vec![2]);
    b.send(a.id(), pattern(100_000));
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[0].upper.received.len() == 2
    });
    assert_eq!(b.lnd.stats().dialled, 0);
    assert_eq!(b.open(), 3);
}

// [FRAME-13]
#[test]
fn large_payloads_arrive_whole_and_are_never_copied() {
    let (mut a, mut b) = connected_pair();
    let copied = |node: &common::Node| node.lnd.stats().copied_payload_bytes;
    let before = [copied(&a), copied(&b)];
    let payload = pattern(1 << 20);
    for _ in 0..20 {
        a.send(b.id(), payload.clone());
        b.send(a.id(), payload.clone());
    }
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[0].upper.received.len() == 20 && nodes[1].upper.received.len() == 21
    });
    for node in [&a, &b] {
        for (_, header, rx) in &node.upper.headers {
            if header.payload_length > 1 {
                assert!(node.upper.landed(*rx) == payload);
            }
        }
        assert_eq!(node.lnd.stats().discarded_payload_bytes, 0);
        assert!(node.upper.sent.iter().all(|sent| sent.1 == Ok(())));
    }
    assert_eq!([copied(&a), copied(&b)], before);
}

#[test]
fn many_queued_frames_leave_in_few_system_calls() {
    let (mut a, mut b) = connected_pair();
    let before = a.lnd.stats().writes;
    for _ in 0..640 {
        a.send(b.id(), vec![0; 64]);
    }
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[1].upper.received.len() == 641
    });
    let writes = a.lnd.stats().writes - before;
    assert!(writes <= 20, "{writes} writes for 640 messages");
}

#[test]
fn a_steady_stream_takes_about_one_read_a_message() {
    let (mut a, mut b) = connected_pair();
    let before = b.lnd.stats().reads;
    for _ in 0..1000 {
        a.send(b.id(), vec![0; 4096]);
    }
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[1].upper.received.len() == 1001
    });
    let reads = b.lnd.stats().reads - before;
    assert!(reads <= 1200, "{reads} reads for 1000 messages");
}

#[test]
fn a_prefix_is_received_and_the_rest_thrown_away() {
    let (mut a, mut b) = connected_pair();
    b.upper.policy = Policy::Wanted(100);
    let payload = pattern(300_000);
    a.send(b.id(), payload.clone());
    a.send(b.id(), payload.clone());
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[1].upper.received.len() == 3
            && nodes[1].lnd.stats().discarded_payload_bytes == 2 * 299_900
    });
    let rx = b.upper.headers[2].2;
    assert_eq!(b.upper.landed(rx), &payload[..100]);
}

// [FRAME-7]
#[test]
fn a_discarded_message_does_not_disturb_the_next() {
    let (mut a, mut b) = connected_pair();
    b.upper.policy = Policy::Drop;
    a.send(b.id(), pattern(200_000));
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[1].upper.headers.len() == 2
    });
    b.upper.policy = Policy::Receive;
    a.send(b.id(), pattern(2000));
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[1].upper.received.len() == 2
    });
    assert_eq!(b.upper.landed(b.upper.headers[2].2), pattern(2000));
}

#[test]
fn a_held_message_stops_its_connection_until_it_is_resumed() {
    let (mut a, mut b) = connected_pair();
    b.upper.policy = Policy::Hold;
    a.send(b.id(), pattern(5000));
    a.send(b.id(), pattern(6000));
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[1].upper.headers.len() == 2
    });
    for _ in 0..100 {
        a.turn();
        b.turn();
    }
    assert_eq!(b.upper.headers.len(), 2, "the connection was read on");
    b.pass(Duration::from_secs(500));
    assert_eq!(b.open(), 3, "what we hold does not stall");

    let first = b.upper.headers[1].2;
    let destination = b.upper.set_destination(first, 5000);
    b.lnd.resume(first, destination, b.now);
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[1].upper.headers.len() == 3
    });
    assert_eq!(b.upper.landed(first), pattern(5000));

    let second = b.upper.headers[2].2;
    b.lnd.resume(second, None, b.now);
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[1].upper.received.len() == 3
    });
    assert_eq!(b.lnd.stats().discarded_payload_bytes, 6000);
}

// [SET-5]
#[test]
fn simultaneous_dials_end_with_one_set_of_connections() {
    for _ in 0..10 {
        let (mut a, mut b) = (Node::new(config()), Node::new(config()));
        let (to_b, to_a) = (b.id(), a.id());
        let sent = (a.send(to_b, vec![1]), b.send(to_a, vec![2]));
        run(&mut [&mut a, &mut b], |nodes| {
            nodes[0].open() >= 3
                && nodes[0].open() == nodes[1].open()
                && nodes[0].upper.received.len() == 1
                && nodes[1].upper.received.len() == 1
        });
        a.pass(Duration::from_secs(2));
        b.pass(Duration::from_secs(2));
        run(&mut [&mut a, &mut b], |nodes| {
            nodes[0].open() == nodes[1].open()
        });
        assert_eq!(
            (a.result(sent.0), b.result(sent.1)),
            (Some(Ok(())), Some(Ok(())))
        );
        assert_eq!((a.open(), a.types()), (3, ALL_TYPES.to_vec()));
        assert_eq!(b.types(), ALL_TYPES);
        // The lower NID is rejected by the higher one, and never for another reason.
        let (low, high) = if a.nid < b.nid { (&a, &b) } else { (&b, &a) };
        assert_eq!(
            high.lnd.stats().refused.total(),
            high.lnd.stats().refused.of(Refusal::Race)
        );
        assert_eq!(low.lnd.stats().refused.total(), 0);
        assert_eq!(high.lnd.stats().dial_failures.total(), 0);
    }
}

// [SET-6] [SET-8]
#[test]
fn three_pairs_against_one_are_settled() {
    let (x, y) = (address(), address());
    let mut a = Node::at(x, config(), 3, 1);
    let mut b = Node::at(y, config(), 1, 1);
    a.send(b.id(), vec![1]);
    b.send(a.id(), vec![2]);
    // The node that lost the last race waits up to a second before it goes on.
    let end = a.now + Duration::from_secs(20);
    run(&mut [&mut a, &mut b], |nodes| nodes[0].open() >= 3);
    while a.open() < 7 {
        a.pass(Duration::from_secs(1));
        b.pass(Duration::from_secs(1));
        for _ in 0..1000 {
            a.turn();
            b.turn();
        }
        assert!(a.now < end, "{} connections", a.open());
    }
    run(&mut [&mut a, &mut b], |nodes| nodes[1].open() == 7);
    let count = |ctype| a.types().iter().filter(|known| **known == ctype).count();
    assert_eq!(count(Ctype::CONTROL), 1);
    assert_eq!(count(Ctype::BULK_IN), 3);
    assert_eq!(count(Ctype::BULK_OUT), 3);
}

#[test]
fn more_connections_per_peer_come_with_the_next_message_and_the_others_stay() {
    let (mut a, mut b) = (Node::new(config()), Node::new(config()));
    a.send(b.id(), vec![1]);
    run(&mut [&mut a, &mut b], |nodes| nodes[0].open() == 3);
    let tuning = NiTuning {
        conns_per_peer: 2,
        ..NiTuning::default()
    };
    assert!(a.lnd.tune(common::NI, tuning));
    assert!(!a.lnd.tune(NiId(77), tuning));
    a.send(b.id(), vec![2]);
    run(&mut [&mut a, &mut b], |nodes| nodes[0].open() == 5);
    assert_eq!(a.lnd.stats().dialled, 5, "none was closed");
}

#[test]
fn a_restarted_node_replaces_its_old_connections() {
    let (mut a, b) = connected_pair();
    let place = b.nid.ip().unwrap();
    let old = b;
    // The old life ends without a FIN: it is neither driven nor closed; only its port becomes free.
    let mut old = old;
    let mut silent = config();
    silent.accept = lnet_tcp::AcceptMode::None;
    let mut reborn = Node::at(place, silent, 1, 2);
    reborn.send(a.id(), vec![9]);
    run(&mut [&mut a, &mut reborn], |nodes| {
        nodes[0].upper.received.len() == 1
    });
    run(&mut [&mut a, &mut reborn], |nodes| {
        nodes[1].open() == 3 && nodes[0].open() == 3
    });
    assert_eq!(a.lnd.stats().closed.of(CloseReason::PeerRestarted), 3);
    assert_eq!(
        a.upper.changes,
        [
            (reborn.id(), true),
            (reborn.id(), false),
            (reborn.id(), true)
        ]
    );
    old.turn();
    assert_eq!(old.open(), 0);
}

// [SET-10]
#[test]
fn when_one_side_closes_the_other_reports_everything_once() {
    let (mut a, mut b) = connected_pair();
    b.lnd.close_all(b.now, &mut b.upper);
    assert_eq!(b.open(), 0);
    assert_eq!(b.upper.changes.last(), Some(&(a.id(), false)));
    run(&mut [&mut a, &mut b], |nodes| nodes[0].open() == 0);
    assert_eq!(a.upper.changes.last(), Some(&(b.id(), false)));
    assert_eq!(a.lnd.stats().closed.of(CloseReason::Eof), 1);
    assert_eq!(a.lnd.stats().closed.of(CloseReason::Sibling), 2);
}

/// Makes a peer read a message and close all its connections while the sender's write of this message is still in
/// progress.
fn close_during_a_write(length: usize) -> (Node, TxId) {
    let (mut a, mut b) = connected_pair();
    let tx = a.send(b.id(), pattern(length));
    let mut write = a.lnd.next_write().unwrap();
    write.run(&mut Staging::default());
    run(&mut [&mut b], |nodes| nodes[0].upper.received.len() == 2);
    b.lnd.close_all(b.now, &mut b.upper);
    run(&mut [&mut a], |nodes| nodes[0].open() <= 1);
    for _ in 0..10 {
        a.turn();
    }
    assert_eq!(a.result(tx), None, "nothing of the write is known yet");
    let now = a.now;
    a.lnd
        .finish(write, &mut Staging::default(), now, &mut a.upper);
    run(&mut [&mut a], |nodes| nodes[0].open() == 0);
    (a, tx)
}

#[test]
fn a_message_is_sent_if_its_write_ends_after_the_peer_has_closed() {
    for length in [1, 100_000] {
        let (a, tx) = close_during_a_write(length);
        assert_eq!(a.result(tx), Some(Ok(())), "{length} bytes");
        assert_eq!(a.lnd.stats().unsent.of(Unsent::Closed), 0, "{length} bytes");
    }
}

#[test]
fn a_clean_shutdown_reports_what_is_queued_and_what_is_held() {
    let (mut a, mut b) = connected_pair();
    b.upper.policy = Policy::Hold;
    let tx = a.send(b.id(), pattern(5000));
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[1].upper.headers.len() == 2
    });
    let queued = b.send(a.id(), vec![1]);
    b.lnd.close_all(b.now, &mut b.upper);
    assert_eq!(b.result(queued), Some(Err(Failure::LocalError)));
    assert_eq!(b.upper.received.last().unwrap().1, Err(Failure::LocalError));
    assert_eq!(a.result(tx), Some(Ok(())));
    assert_eq!(b.lnd.next_deadline(), None);
}

#[test]
fn what_waits_at_an_interface_that_goes_down_fails_at_once_and_a_later_message_is_sent() {
    let (mut a, mut b) = connected_pair();
    // More than the sockets hold, because the peer is not driven: one is being written and others wait.
    let all: Vec<TxId> = (0..32).map(|_| a.send(b.id(), pattern(1 << 20))).collect();
    run(&mut [&mut a], |nodes| !nodes[0].lnd.has_work());
    let stuck: Vec<TxId> = all
        .into_iter()
        .filter(|tx| a.result(*tx).is_none())
        .collect();
    assert!(stuck.len() > 1);
    let now = a.now;
    a.lnd.ni_went_down(NI, now, &mut a.upper);
    for tx in stuck {
        assert_eq!(a.result(tx), Some(Err(Failure::LocalDropped)));
    }
    assert_eq!(a.open(), 0);
    assert_eq!(a.upper.changes.last(), Some(&(b.id(), false)));

    let later = a.send(b.id(), vec![7]);
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[0].result(later) == Some(Ok(()))
    });
}

#[test]
fn a_dial_from_an_interface_that_goes_down_ends_at_once() {
    let (mut a, b) = (Node::new(config()), Node::new(config()));
    // Nobody answers the HELLO: the peer is not driven.
    let tx = a.send(b.id(), vec![1]);
    a.turn();
    let now = a.now;
    a.lnd.ni_went_down(NI, now, &mut a.upper);
    assert_eq!(a.result(tx), Some(Err(Failure::RemoteDropped)));
}

// [REQ-8]
#[test]
fn interfaces_with_one_address_share_the_port() {
    let (mut a, mut b) = (Node::new(config()), Node::new(config()));
    let second = |node: &Node| Nid::from_ip(Net::tcp(5), node.nid.ip().unwrap());
    let ni = NiId(8);
    for node in [&mut a, &mut b] {
        let added = LndNi {
            ni,
            nid: second(node),
            tuning: NiTuning::default(),
            incarnation: 1,
        };
        node.lnd.add_ni(added).unwrap();
    }
    let deadline = a.now + Duration::from_secs(1000);
    let from = (ni, second(&a));
    a.send_over(from, ProcessId::lustre(second(&b)), vec![1], deadline);
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[1].upper.received.len() == 1
    });
    assert!(b.lnd.connections().all(|link| link.ni == NiId(8)));
    b.lnd.remove_ni(NiId(8), b.now, &mut b.upper);
    assert_eq!(b.open(), 0);
    a.send(b.id(), vec![1]);
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[1].upper.received.len() == 2
    });
}

// [FRAME-6]
#[test]
fn an_untyped_node_uses_one_connection_for_everything() {
    let mut a = Node::new(SocklndConfig {
        typed: false,
        ..config()
    });
    let mut b = Node::new(config());
    a.send(b.id(), pattern(50_000));
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[1].upper.received.len() == 1
    });
    b.send(a.id(), pattern(60_000));
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[0].upper.received.len() == 1
    });
    assert_eq!(
        (a.types(), b.types()),
        (vec![Ctype::CONTROL], vec![Ctype::CONTROL])
    );
    assert_eq!(b.lnd.stats().dialled, 0);
}

// [HELLO-19]
#[test]
fn a_user_space_process_is_answered_on_its_connection_and_never_dialled() {
    let quiet = SocklndConfig {
        typed: false,
        user_pid: true,
        accept: lnet_tcp::AcceptMode::None,
        ..config()
    };
    let mut tool = Node::new(quiet);
    let mut node = Node::new(config());
    tool.send(node.id(), vec![1]);
    run(&mut [&mut tool, &mut node], |nodes| {
        nodes[1].upper.received.len() == 1
    });
    let id = node.upper.headers[0].0;
    assert!(id.is_userspace(), "{id}");
    assert_eq!(
        id.pid & 0xFFFF,
        u32::from(tool.lnd.connections().next().unwrap().local.port())
    );
    node.send(id, vec![2]);
    run(&mut [&mut tool, &mut node], |nodes| {
        nodes[0].upper.received.len() == 1
    });

    tool.lnd.close_all(tool.now, &mut tool.upper);
    run(&mut [&mut tool, &mut node], |nodes| nodes[1].open() == 0);
    let tx = node.send(id, vec![3]);
    assert_eq!(node.result(tx), Some(Err(Failure::RemoteError)));
    assert_eq!(node.lnd.stats().dial_failures.total(), 0);
}

// [LARGE-6] [LARGE-7]
#[test]
fn nodes_with_ipv6_addresses_speak_hello_version_4() {
    // This address is the same for all tests: only one node of this test binary may use it.
    let place = "::1".parse().unwrap();
    let here = SocklndConfig {
        port: 10_000 + (std::process::id() % 20_000) as u16,
        ..config()
    };
    let mut node = Node::at(place, here, 1, 1);
    // A node can also be its own peer.
    node.send(node.id(), pattern(10_000));
    run(&mut [&mut node], |nodes| nodes[0].upper.received.len() == 1);
    assert!(
        node.lnd
            .connections()
            .all(|link| link.version == HelloVersion::V4)
    );
    assert_eq!(node.upper.landed(node.upper.headers[0].2), pattern(10_000));
}

// [SET-12]
#[test]
fn nobody_there_fails_the_message_and_the_next_until_the_pause_is_over() {
    let mut a = Node::new(config());
    let nobody = ProcessId::lustre(Nid::from_ip(Net::tcp(0), address()));
    let first = a.send(nobody, vec![1]);
    run(&mut [&mut a], |nodes| nodes[0].result(first).is_some());
    assert_eq!(a.result(first), Some(Err(Failure::RemoteDropped)));
    assert_eq!(a.lnd.stats().dial_failures.of(DialFailure::Refused), 1);

    let during = a.send(nobody, vec![1]);
    assert_eq!(a.result(during), Some(Err(Failure::RemoteError)));
    a.pass(Duration::from_millis(999));
    let still = a.send(nobody, vec![1]);
    assert_eq!(a.result(still), Some(Err(Failure::RemoteError)));
    a.pass(Duration::from_millis(1));
    let after = a.send(nobody, vec![1]);
    run(&mut [&mut a], |nodes| nodes[0].result(after).is_some());
    assert_eq!(a.result(after), Some(Err(Failure::RemoteDropped)));
    assert_eq!(a.lnd.stats().dial_failures.of(DialFailure::Refused), 2);
}

#[test]
fn a_queue_has_an_end() {
    let mut small = config();
    small.limits.queued_messages_max = 3;
    let (mut a, b) = (Node::new(small), Node::new(config()));
    let last = (0..4).map(|_| a.send(b.id(), vec![1])).last().unwrap();
    assert_eq!(a.result(last), Some(Err(Failure::LocalError)));
    assert_eq!(a.upper.sent.len(), 1);
}
