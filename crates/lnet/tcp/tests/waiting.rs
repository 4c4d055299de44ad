//! Tests connections without progress, and messages that expire.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use std::time::Duration;

use lnet_tcp::{CloseReason, Failure};
use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::{Ctype, HelloVersion, KsockHeader};

use common::{Node, Raw, config, control, frame, hello, pattern, put, until};

// [FRAME-8]
#[test]
fn a_stalled_frame_closes_after_the_socket_timeout() {
    let mut node = Node::new(config());
    let mut raw = control(&mut node);
    raw.write(&frame(0, &put(node.nid, node.nid, 400), &[0; 100]));
    until(&mut node, |node| {
        (node.upper.headers.len() == 1).then_some(())
    });
    node.pass(Duration::from_secs(49));
    assert_eq!(node.open(), 1);
    node.pass(Duration::from_secs(14));
    assert_eq!(node.lnd.stats().closed.of(CloseReason::FrameStalled), 1);
    assert_eq!(node.upper.received[0].1, Err(Failure::NetworkTimeout));
}

// [FRAME-8]
#[test]
fn a_frame_that_goes_on_slowly_does_not_stall() {
    let mut node = Node::new(config());
    let mut raw = control(&mut node);
    for byte in frame(0, &put(node.nid, node.nid, 8), &[1; 8]) {
        raw.write(&[byte]);
        let before = node.lnd.stats().bytes_in;
        until(&mut node, |node| {
            (node.lnd.stats().bytes_in > before).then_some(())
        });
        node.pass(Duration::from_secs(30));
    }
    assert_eq!(node.upper.received, [(node.upper.headers[0].2, Ok(()))]);
    assert_eq!(node.open(), 1);
}

// [FRAME-9] [KEEP-1] [KEEP-2]
#[test]
fn an_idle_connection_stays_and_gets_keepalives_at_least_ten_seconds_apart() {
    let mut node = Node::new(config());
    let mut raw = control(&mut node);
    let begin = node.now;
    let mut times: Vec<Time> = Vec::new();
    for _ in 0..240 {
        node.pass(Duration::from_secs(1));
        if node.lnd.stats().keepalives_out > times.len() as u64 {
            times.push(node.now);
            assert_eq!(raw.expect(&mut node, 24), KsockHeader::KEEPALIVE.to_bytes());
        }
    }
    assert_eq!(node.open(), 1);
    let first = times[0] - begin;
    assert!((30..44).contains(&first.as_secs()), "{first:?}");
    assert!(
        times
            .windows(2)
            .all(|pair| pair[1] - pair[0] >= Duration::from_secs(10))
    );
    assert!((5..9).contains(&times.len()), "{times:?}");
}

// [KEEP-4]
#[test]
fn version_2_has_no_keepalive() {
    let mut node = Node::new(config());
    let mut old = hello(node.nid, Ctype::ANY);
    old.version = HelloVersion::V2;
    let _raw = Raw::establish(&mut node, &old);
    node.pass(Duration::from_secs(120));
    assert_eq!(node.lnd.stats().keepalives_out, 0);
    assert_eq!(node.open(), 1);
}

// [FRAME-11]
#[test]
fn a_peer_that_takes_nothing_is_given_up_after_the_socket_timeout() {
    let mut node = Node::new(config());
    let raw = control(&mut node);
    let peer = ProcessId::lustre(hello(node.nid, Ctype::CONTROL).src_nid);
    for _ in 0..20 {
        node.send(peer, vec![0; 1 << 20]);
    }
    for _ in 0..100 {
        node.turn();
    }
    let sent = node.upper.sent.len();
    assert!(sent < 20, "the socket took everything");
    node.pass(Duration::from_secs(49));
    assert_eq!(node.open(), 1);
    node.pass(Duration::from_secs(14));
    assert_eq!(node.open(), 0);
    assert_eq!(node.lnd.stats().closed.of(CloseReason::SendStalled), 1);
    assert_eq!(node.upper.sent.len(), 20);
    assert!(
        node.upper.sent[sent..]
            .iter()
            .all(|(_, result)| *result == Err(Failure::NetworkTimeout))
    );
    drop(raw);
}

#[test]
fn a_queued_message_whose_time_is_up_fails_and_the_begun_one_goes_on() {
    let mut node = Node::new(config());
    let _raw = control(&mut node);
    let peer = ProcessId::lustre(hello(node.nid, Ctype::CONTROL).src_nid);
    for _ in 0..20 {
        let deadline = node.now + Duration::from_secs(20);
        node.send_before(peer, vec![0; 1 << 20], deadline);
    }
    for _ in 0..100 {
        node.turn();
    }
    let sent = node.upper.sent.len();
    node.pass(Duration::from_secs(26));
    assert_eq!(node.open(), 1);
    assert_eq!(node.upper.sent.len(), 19);
    assert!(
        node.upper.sent[sent..]
            .iter()
            .all(|(_, result)| *result == Err(Failure::NetworkTimeout))
    );
}

#[test]
fn what_is_cancelled_is_read_into_nowhere_and_the_next_message_lands() {
    let mut node = Node::new(config());
    let mut raw = control(&mut node);
    let header = put("10.9.9.9@tcp".parse().unwrap(), node.nid, 1000);
    let bytes = frame(0, &header, &pattern(1000));
    raw.write(&bytes[..500]);
    let rx = until(&mut node, |node| Some(node.upper.headers.first()?.2));

    node.lnd.cancel(rx, node.now, &mut node.upper);
    assert_eq!(node.upper.received, [(rx, Err(Failure::LocalError))]);
    node.lnd.cancel(rx, node.now, &mut node.upper);
    node.upper.set_destination(rx, 0);
    raw.write(&bytes[500..]);
    raw.write(&bytes);
    until(&mut node, |node| {
        (node.upper.received.len() == 2).then_some(())
    });
    let (next, result) = node.upper.received[1];
    assert_eq!(result, Ok(()));
    assert_eq!(node.upper.landed(next), pattern(1000));
}

/// Sends more than a peer takes that reads nothing.
fn stuck(node: &mut Node) -> (Raw, lnet_tcp::TxId, Nid) {
    let peer: Nid = "10.9.9.9@tcp".parse().unwrap();
    let hello = hello(node.nid, Ctype::CONTROL);
    let raw = Raw::connect_narrow(node).greet(node, &hello);
    let send = |_| node.send(ProcessId::lustre(peer), pattern(1 << 20));
    let tx = (0..16).map(send).last().unwrap();
    for _ in 0..1000 {
        node.turn();
    }
    assert_eq!(node.result(tx), None);
    (raw, tx, peer)
}

// [SET-16]
#[test]
fn a_doubted_peer_whose_connection_stands_still_is_parted_from_and_another_one_is_not() {
    let mut node = Node::new(config());
    let (_raw, tx, peer) = stuck(&mut node);
    // What was acknowledged so far is seen now.
    node.lnd.doubt(peer, node.now, &mut node.upper);
    node.lnd.doubt(node.nid, node.now, &mut node.upper);
    node.pass(Duration::from_millis(1900));
    node.lnd.doubt(peer, node.now, &mut node.upper);
    assert_eq!((node.open(), node.result(tx)), (1, None));
    node.pass(Duration::from_millis(200));
    node.lnd.doubt(peer, node.now, &mut node.upper);
    assert_eq!(node.open(), 0);
    assert_eq!(node.result(tx), Some(Err(Failure::NetworkTimeout)));
    assert_eq!(node.lnd.stats().closed.of(CloseReason::Silent), 1);
}

// [SET-16]
#[test]
fn a_doubted_peer_that_owes_no_acknowledgement_keeps_its_connection() {
    let mut node = Node::new(config());
    let _raw = control(&mut node);
    node.pass(Duration::from_secs(20));
    let peer = "10.9.9.9@tcp".parse().unwrap();
    node.lnd.doubt(peer, node.now, &mut node.upper);
    assert_eq!(node.open(), 1);
}

// [SET-15]
#[test]
fn the_end_of_a_second_connection_that_carried_nothing_parts_no_sibling() {
    let mut node = Node::new(config());
    let mut one = control(&mut node);
    let bulk = hello(node.nid, Ctype::BULK_OUT);
    let _bulk = Raw::establish(&mut node, &bulk);
    let unused = Raw::establish(&mut node, &bulk);
    let to = ProcessId::lustre("10.9.9.9@tcp".parse().unwrap());
    drop(unused);
    until(&mut node, |node| {
        (node.lnd.stats().closed.of(CloseReason::Eof) == 1).then_some(())
    });
    let tx = node.send(to, vec![1, 2, 3]);
    assert_eq!(until(&mut node, |node| node.result(tx)), Ok(()));
    one.expect(&mut node, 24 + 72 + 3);
    assert_eq!(node.open(), 2);
    assert!(node.upper.changes.iter().all(|change| change.1));
}
