//! Short messages that come with their requests, and posts of the server that are not answered.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use testkit::QueueTurn;
use zoid_proto::ctl::{Completion, Post, Request};
use zoid_proto::fwd::{Caps, Frame, FrameHeader, FrameType, INLINE_MAX, MessageKind};
use zoid_proto::{Array, Extent, List, Status};

use common::client::{Client, introduction};
use common::server::Server;
use common::{Process, be_a_daemon};

#[test]
fn daemon_for_the_other_tests() {
    be_a_daemon();
}

const UNEXPECTED: u64 = 1 << 20;
const SOON: u32 = 50_000;

fn three() -> (Process, Server, Client) {
    let daemon = Process::start(&[("total", "24M"), ("heartbeat-ms", "50000")]);
    let server = Server::attach(&daemon);
    let mut client = Client::connect(&daemon);
    let mut hello = introduction();
    hello.caps = Caps::INLINE;
    let welcome = client.hello(hello).unwrap();
    assert!(welcome.caps.contains(Caps::INLINE));
    (daemon, server, client)
}

fn place(len: u64) -> [Extent; 1] {
    [Extent {
        offset: UNEXPECTED,
        len,
    }]
}

fn bytes(server: &Server, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    server.memory(UNEXPECTED, len).copy_out(&mut bytes);
    bytes
}

fn done(bmi_id: u64, len: u64) -> Completion {
    Completion {
        bmi_id,
        outcome: Ok(len),
    }
}

// [FWD-32]
#[test]
fn a_short_message_and_its_receive_meet_in_either_order() {
    let _turn = QueueTurn::take();
    let (daemon, mut server, mut client) = three();
    for message in [vec![], vec![1; 8], vec![2; INLINE_MAX]] {
        let len = message.len() as u64;
        server.post_recv(client.pid, 5, 1, &place(4096)).unwrap();
        client.ask_inline(MessageKind::Expected, 5, &message, 0);
        assert_eq!(client.send_done(), Status::DONE);
        assert_eq!(server.test(SOON), [done(1, len)]);
        assert_eq!(bytes(&server, message.len()), message);
        // It waits for the receive, in memory of the daemon's.
        client.ask_inline(MessageKind::Expected, 5, &message, SOON);
        assert!(client.ping());
        let posted = server.post_recv(client.pid, 5, 2, &place(4096)).unwrap();
        assert_eq!(posted, zoid_proto::ctl::PostOutcome::Immediate { len });
        assert_eq!(client.send_done(), Status::DONE);
        assert_eq!(bytes(&server, message.len()), message);
    }
    drop(daemon);
}

// [FWD-32]
#[test]
fn r26_a_short_message_without_a_receive_is_refused_and_leaves_nothing() {
    let _turn = QueueTurn::take();
    let (_daemon, mut server, mut client) = three();
    // More often than the window has room for.
    for _ in 0..100 {
        client.ask_inline(MessageKind::Expected, 5, &[7; INLINE_MAX], 0);
        assert_eq!(client.send_done(), Status::NO_MEMORY);
    }
    server.post_recv(client.pid, 5, 1, &place(8)).unwrap();
    assert_eq!(
        client.send(MessageKind::Expected, 5, &[1; 8], 0),
        Status::DONE
    );
    assert_eq!(server.test(SOON), [done(1, 8)]);
}

// [ZOID-50]
#[test]
fn a_short_message_that_is_longer_than_its_receive_fails_both() {
    let _turn = QueueTurn::take();
    let (_daemon, mut server, mut client) = three();
    server.post_recv(client.pid, 5, 1, &place(8)).unwrap();
    client.ask_inline(MessageKind::Expected, 5, &[7; 9], 0);
    assert_eq!(client.send_done(), Status::MESSAGE_SIZE);
    assert_eq!(server.test(SOON)[0].outcome, Err(Status::MESSAGE_SIZE));
    assert_eq!(bytes(&server, 9), [0; 9]);
}

// [FWD-32]
#[test]
fn r24_a_short_unexpected_message_may_come_with_its_request() {
    let _turn = QueueTurn::take();
    let (_daemon, mut server, mut client) = three();
    client.ask_inline(MessageKind::Unexpected, 9, b"hello", 0);
    assert_eq!(client.send_done(), Status::DONE);
    let found = server.unexpected(4, SOON);
    assert_eq!((found.len(), found[0].tag, found[0].size), (1, 9, 5));
    assert_eq!(server.memory(found[0].offset, 5).to_vec(), b"hello");
}

// [FWD-24]
#[test]
fn a_wake_gives_a_waiting_short_message_up() {
    let _turn = QueueTurn::take();
    let (_daemon, mut server, mut client) = three();
    let request = client.ask_inline(MessageKind::Expected, 5, &[7; 8], SOON);
    client.say(
        FrameHeader::new(FrameType::WAKE, request),
        &Frame::Wake,
        &[],
    );
    assert_eq!(client.send_done(), Status::NO_MEMORY);
    server.post_recv(client.pid, 5, 1, &place(8)).unwrap();
    assert_eq!(server.test(0), []);
    assert_eq!(bytes(&server, 8), [0; 8]);
}

// [FWD-33]
#[test]
fn a_client_with_more_short_messages_under_way_than_its_window_is_cut_off() {
    let _turn = QueueTurn::take();
    let (daemon, mut server, mut client) = three();
    let mut other = Client::attach(&daemon);
    for _ in 0..16 {
        client.ask_inline(MessageKind::Expected, 5, &[7; INLINE_MAX], SOON);
    }
    assert!(client.is_closed());
    daemon.until("zoidd_violations_total{rule=\"payload\"}", 1.0);
    server.post_recv(other.pid, 5, 1, &place(8)).unwrap();
    assert_eq!(
        other.send(MessageKind::Expected, 5, &[1; 8], 0),
        Status::DONE
    );
}

fn post(peer: i32, bmi_id: u64, segments: &[Extent]) -> Post<'_> {
    Post {
        bmi_id,
        peer,
        tag: 5,
        not_immediate: false,
        total: segments.iter().map(|extent| extent.len).sum(),
        segments: Array::Inline(List::new(segments)),
    }
}

// [CTL-21]
#[test]
fn r60_a_post_without_a_slot_is_registered_and_its_end_comes_by_a_test() {
    let _turn = QueueTurn::take();
    let (_daemon, mut server, mut client) = three();
    server.ask(None, &Request::PostRecv(post(client.pid, 1, &place(8))));
    server.ask(None, &Request::PostRecv(post(client.pid, 2, &place(8))));
    server.ask(None, &Request::Recall { bmi_id: 2 });
    assert_eq!(server.test(SOON)[0].outcome, Err(Status::CANCELLED));
    client.ask_inline(MessageKind::Expected, 5, &[3; 8], SOON);
    assert_eq!(client.send_done(), Status::DONE);
    assert_eq!(server.test(SOON), [done(1, 8)]);
    // What cannot be registered completes with what is wrong.
    server.ask(
        None,
        &Request::PostRecv(post(client.pid, 3, &[Extent { offset: 0, len: 8 }])),
    );
    server.ask(None, &Request::PostSend(post(77, 4, &place(8))));
    let mut found = server.test(SOON);
    if found.len() < 2 {
        found.extend(server.test(SOON));
    }
    let outcomes: Vec<_> = found.iter().map(|end| (end.bmi_id, end.outcome)).collect();
    let (invalid, gone) = (Err(Status::INVALID), Err(Status::CONNECTION_RESET));
    assert_eq!(outcomes, [(3, invalid), (4, gone)]);
}
