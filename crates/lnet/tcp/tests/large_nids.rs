//! Tests messages with NIDs of IPv6 addresses to peers with IPv4 addresses: routed messages whose far side has the
//! other kind of address.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use std::net::TcpListener;

use lnet_tcp::{Failure, SendRequest, SocklndConfig, TxId, Unsent};
use lnet_types::{Nid, ProcessId};
use lnet_wire::{Connreq, Ctype, Hello, HelloVersion};

use common::{NI, Node, Raw, accept, config, hello, pattern, put, raw_peer, run, until};

/// Sends a message as a router that forwards it from a client with a large NID.
fn forward(node: &mut Node, to: Nid, tx: u64, bytes: usize) -> TxId {
    let header = put("fd00::1@tcp1".parse().unwrap(), to, bytes);
    let payload = (bytes > 0).then(|| lnet_tcp::Source::Shared(pattern(bytes).into()));
    let tx = TxId(1000 + tx);
    let request = SendRequest {
        tx,
        ni: NI,
        to: ProcessId::lustre(to),
        header,
        payload,
        deadline: node.now + std::time::Duration::from_secs(100),
    };
    node.lnd.send(request, node.now, &mut node.upper);
    tx
}

fn versions(node: &Node) -> Vec<HelloVersion> {
    let mut versions: Vec<_> = node.lnd.connections().map(|link| link.version).collect();
    versions.sort_unstable();
    versions
}

/// Accepts the next connection to a peer that the test plays, and reads its HELLO of `length` bytes.
fn next(node: &mut Node, listener: &TcpListener, length: usize) -> (Raw, Hello) {
    let mut raw = accept(node, listener);
    let request = raw.expect(node, 16);
    assert!(Connreq::decode(&request).is_ok());
    let bytes = raw.expect(node, length);
    (raw, Hello::decode(&bytes).unwrap().hello)
}

fn say(raw: &mut Raw, hello: &Hello) {
    let mut bytes = [0; Hello::MAX_LEN];
    let len = hello.encode(&mut bytes).unwrap();
    raw.write(&bytes[..len]);
}

/// Returns a node, and a peer that has connected to the node and whose release does not know version 4.
fn old_peer(config: SocklndConfig) -> (Node, TcpListener, Nid, Raw) {
    let (listener, peer) = raw_peer();
    let mut node = Node::new(config);
    let theirs = Hello {
        src_nid: peer,
        ..hello(node.nid, Ctype::CONTROL)
    };
    let raw = Raw::establish(&mut node, &theirs);
    (node, listener, peer, raw)
}

/// Answers a HELLO of version 4 as release 2.15 does.
fn reject(raw: &mut Raw, asked: &Hello, peer: Nid) {
    let mut answer = asked.reply(peer, 77, Ctype::NONE);
    answer.version = HelloVersion::V3;
    say(raw, &answer);
}

// [LARGE-8]
#[test]
fn a_peer_with_a_small_nid_is_met_in_version_4_when_a_message_needs_it() {
    let (mut a, mut b) = (Node::new(config()), Node::new(config()));
    let tx = forward(&mut a, b.nid, 0, 100_000);
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[0].result(tx) == Some(Ok(())) && nodes[1].upper.received.len() == 1
    });
    run(&mut [&mut a, &mut b], |nodes| nodes[0].open() == 3);
    assert_eq!(versions(&a), [HelloVersion::V4; 3]);
    assert_eq!(b.upper.landed(b.upper.headers[0].2), pattern(100_000));
}

#[test]
fn connections_of_version_3_get_others_of_version_4_beside_them_which_then_carry_everything() {
    let (mut a, mut b) = (Node::new(config()), Node::new(config()));
    a.send(b.id(), vec![1]);
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[0].open() == 3 && nodes[1].upper.received.len() == 1
    });
    let tx = forward(&mut b, a.nid, 0, 10);
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[1].result(tx) == Some(Ok(())) && nodes[1].open() == 6 && nodes[0].open() == 6
    });
    let (three, four) = (HelloVersion::V3, HelloVersion::V4);
    assert_eq!(versions(&a), [three, three, three, four, four, four]);
    a.send(b.id(), pattern(50_000));
    a.send(b.id(), vec![3]);
    let busy = a.lnd.connections().filter(|link| link.queued_frames > 0);
    let busy: Vec<_> = busy.map(|link| link.version).collect();
    assert_eq!(busy, [four, four]);
    run(&mut [&mut a, &mut b], |nodes| {
        nodes[1].upper.received.len() == 3
    });
    assert_eq!(a.lnd.stats().refused.total(), 0);
}

#[test]
fn a_peer_that_closes_what_it_had_and_says_none_as_kernels_do_is_met_again() {
    let (mut node, listener, peer, theirs) = old_peer(config());
    let tx = forward(&mut node, peer, 0, 10);
    let (mut raw, asked) = next(&mut node, &listener, 80);
    assert_eq!(asked.version, HelloVersion::V4);
    drop(theirs);
    say(&mut raw, &asked.reply(peer, 77, Ctype::NONE));
    until(&mut node, |node| (node.open() == 0).then_some(()));
    node.pass(std::time::Duration::from_secs(1));
    let (mut raw, asked) = next(&mut node, &listener, 80);
    assert_eq!(asked.version, HelloVersion::V4);
    say(&mut raw, &asked.reply(peer, 77, Ctype::CONTROL));
    assert_eq!(until(&mut node, |node| node.result(tx)), Ok(()));
}

// [LARGE-8]
#[test]
fn a_peer_that_does_not_know_version_4_keeps_its_connections_and_gets_the_rest() {
    let (mut node, listener, peer, _theirs) = old_peer(config());
    let large = forward(&mut node, peer, 0, 10);
    let small = node.send(ProcessId::lustre(peer), vec![1]);
    let (mut raw, asked) = next(&mut node, &listener, 80);
    reject(&mut raw, &asked, peer);
    let failed = until(&mut node, |node| node.result(large));
    assert_eq!(failed, Err(Failure::Unwritable));
    assert_eq!(until(&mut node, |node| node.result(small)), Ok(()));
    // The peer is not asked a second time while it is connected, and it is dialled in version 3 as before.
    let again = forward(&mut node, peer, 1, 10);
    assert_eq!(node.result(again), Some(Err(Failure::Unwritable)));
    assert_eq!(node.lnd.stats().unsent.of(Unsent::NotEncodable), 2);
    let (_raw, asked) = next(&mut node, &listener, 56);
    assert_eq!(asked.version, HelloVersion::V3);
}

#[test]
fn a_peer_whose_refusal_is_lost_counts_as_one_that_does_not_know_version_4() {
    let (mut node, listener, peer, _theirs) = old_peer(config());
    let large = forward(&mut node, peer, 0, 10);
    let (raw, _) = next(&mut node, &listener, 80);
    drop(raw);
    let failed = until(&mut node, |node| node.result(large));
    assert_eq!(failed, Err(Failure::Unwritable));
    assert_eq!(node.open(), 1);
}

#[test]
fn a_peer_that_answers_in_version_3_is_not_dialled_for_ever() {
    let (mut node, listener, peer, _theirs) = old_peer(config());
    let large = forward(&mut node, peer, 0, 10);
    let (mut raw, asked) = next(&mut node, &listener, 80);
    let mut answer = asked.reply(peer, 77, asked.ctype.inverse().unwrap());
    answer.version = HelloVersion::V3;
    say(&mut raw, &answer);
    let failed = until(&mut node, |node| node.result(large));
    assert_eq!(failed, Err(Failure::Unwritable));
}

// [LARGE-10]
#[test]
fn a_peer_that_cannot_be_dialled_in_version_4_is_not_to_blame() {
    let (mut node, listener, peer, _theirs) = old_peer(config());
    drop(listener);
    let large = forward(&mut node, peer, 0, 10);
    let failed = until(&mut node, |node| node.result(large));
    assert_eq!(failed, Err(Failure::Unwritable));
    // The same holds in the pause before the next attempt.
    let again = forward(&mut node, peer, 1, 10);
    assert_eq!(node.result(again), Some(Err(Failure::Unwritable)));
    assert_eq!(node.open(), 1);
    assert_eq!(node.upper.changes.len(), 1);
}

#[test]
fn a_refusal_is_forgotten_with_the_connections() {
    let (mut node, listener, peer, theirs) = old_peer(config());
    let large = forward(&mut node, peer, 0, 10);
    let (mut raw, asked) = next(&mut node, &listener, 80);
    reject(&mut raw, &asked, peer);
    let failed = until(&mut node, |node| node.result(large));
    assert_eq!(failed, Err(Failure::Unwritable));
    drop((raw, theirs));
    let (raw, asked) = next(&mut node, &listener, 56);
    assert_eq!(asked.version, HelloVersion::V3);
    drop((raw, listener));
    until(&mut node, |node| (node.open() == 0).then_some(()));
    node.pass(std::time::Duration::from_secs(5));
    let listener = TcpListener::bind((peer.ip().unwrap(), common::PORT)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let again = forward(&mut node, peer, 1, 10);
    let (mut raw, asked) = next(&mut node, &listener, 80);
    say(&mut raw, &asked.reply(peer, 78, Ctype::CONTROL));
    assert_eq!(until(&mut node, |node| node.result(again)), Ok(()));
}
