//! Handshakes and messages between a raw client, a raw server and a daemon, three real parties.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use testkit::QueueTurn;
use zoid_proto::ctl::PostOutcome;
use zoid_proto::fwd::{
    Caps, Event, Frame, FrameHeader, FrameType, Hello, MessageKind, RecvReq, TestEntry,
};
use zoid_proto::{DaemonState, Extent, Status};

use common::client::{Client, encode, introduction};
use common::server::Server;
use common::{Process, be_a_daemon, eventually};

#[test]
fn daemon_for_the_other_tests() {
    be_a_daemon();
}

fn extent(offset: u64, len: u64) -> Extent {
    Extent { offset, len }
}

/// Bytes that show when they are in the wrong place.
fn pattern(len: usize) -> Vec<u8> {
    let byte = |i: usize| (i % 251) as u8 ^ (i / 251 % 256) as u8;
    (0..len).map(byte).collect()
}

const MIB: u64 = 1 << 20;

#[test]
fn r04_both_sides_learn_the_sizes_and_limits_from_the_daemon() {
    let _turn = QueueTurn::take();
    let settings = [
        ("total", "24M"),
        ("unexp", "2M"),
        ("max-unexpected", "4096"),
        ("max-expected", "8M"),
        ("heartbeat-ms", "50000"),
    ];
    let daemon = Process::start(&settings);
    let server = Server::attach(&daemon);
    let init = server.init.unwrap();
    assert_eq!((init.total, init.unexpected), (24 * MIB, 2 * MIB));
    assert_eq!((init.max_unexpected, init.max_expected), (4096, 8 * MIB));
    let header = server.header();
    assert_eq!(
        (header.total, header.unexpected),
        (init.total, init.unexpected)
    );
    assert_eq!((header.epoch, header.session), (init.epoch, init.session));
    assert_eq!(header.state, DaemonState::READY);
    let mut client = Client::connect(&daemon);
    let welcome = client.hello(introduction()).unwrap();
    assert_eq!(
        (welcome.max_unexpected, welcome.max_expected),
        (4096, 8 * MIB)
    );
    assert_eq!(
        (welcome.epoch, welcome.server_session),
        (init.epoch, init.session)
    );
    assert_eq!(
        (welcome.pid, welcome.credits, welcome.heartbeat_ms),
        (0, 0, 50_000)
    );
    assert_eq!(client.unexpected(1, &[0; 4097]), Status::MESSAGE_SIZE);
    assert_eq!(client.unexpected(1, &[0; 4096]), Status::DONE);
}

// [FWD-13]
#[test]
fn the_handshake_in_bytes() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut client = Client::connect(&daemon);
    client.hello(introduction()).unwrap();
    // 32 of header and 48 of HELLO; 32 of header and 56 of WELCOME.
    assert_eq!((client.bytes_out, client.bytes_in), (80, 88));
}

// [SEG-5]
#[test]
fn the_heartbeat_beats() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let server = Server::attach(&daemon);
    let first = server.header().heartbeat_ns;
    assert!(first > 0);
    for beats in 1..4 {
        eventually("another heartbeat", || {
            server.header().heartbeat_ns > first + beats * 40_000_000
        });
    }
}

#[test]
fn r28_an_expected_message_lands_in_the_posted_buffer() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut server = Server::attach(&daemon);
    let mut client = Client::attach(&daemon);
    let message = pattern(100_000);
    // In three pieces, out of order.
    let places = [
        extent(3 * MIB, 50_000),
        extent(2 * MIB, 1),
        extent(4 * MIB, 60_000),
    ];
    let outcome = server.post_recv(client.pid, 5, 77, &places).unwrap();
    assert!(
        matches!(outcome, PostOutcome::Registered { .. }),
        "{outcome:?}"
    );
    assert_eq!(
        client.send(MessageKind::Expected, 5, &message, 0),
        Status::DONE
    );
    let done = server.test(60_000);
    assert_eq!((done[0].bmi_id, done[0].outcome), (77, Ok(100_000)));
    let mut found = server.memory(3 * MIB, 50_000).to_vec();
    found.extend(server.memory(2 * MIB, 1).to_vec());
    found.extend(server.memory(4 * MIB, 49_999).to_vec());
    assert_eq!(found, message);
    // A short message leaves the rest untouched.
    assert_eq!(
        server.memory(4 * MIB + 49_999, 10_001).to_vec(),
        vec![0; 10_001]
    );
}

#[test]
fn r32_a_posted_send_is_fetched_and_completes_when_acknowledged() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut server = Server::attach(&daemon);
    let mut client = Client::attach(&daemon);
    let message = pattern(9 * MIB as usize);
    server.memory(2 * MIB, message.len()).copy_in(&message);
    let places = [extent(2 * MIB, 4 * MIB), extent(6 * MIB, 5 * MIB)];
    server.post_send(client.pid, -5, 78, &places).unwrap();
    assert_eq!(client.recv(-5, 9 * MIB, 0).unwrap(), message);
    let done = server.test(60_000);
    assert_eq!((done[0].bmi_id, done[0].outcome), (78, Ok(9 * MIB)));
}

// [FWD-22]
#[test]
fn messages_without_bytes_match_and_complete() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut server = Server::attach(&daemon);
    let mut client = Client::attach(&daemon);
    server.post_recv(client.pid, 1, 1, &[]).unwrap();
    assert_eq!(client.send(MessageKind::Expected, 1, &[], 0), Status::DONE);
    server.post_send(client.pid, 2, 2, &[]).unwrap();
    assert_eq!(client.recv(2, 0, 0).unwrap(), b"");
    assert_eq!(client.unexpected(3, &[]), Status::DONE);
    let mut done = server.test(60_000);
    done.extend(server.test(if done.len() < 2 { 60_000 } else { 0 }));
    assert_eq!(done.len(), 2);
    assert_eq!(server.unexpected(10, 60_000)[0].size, 0);
}

#[test]
fn r05_exactly_128_messages_of_8192_bytes_fit_and_the_129th_waits() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut client = Client::attach(&daemon);
    let message = pattern(8192);
    for tag in 0..128 {
        assert_eq!(client.unexpected(tag, &message), Status::DONE, "{tag}");
    }
    assert_eq!(client.unexpected(128, &message), Status::NO_MEMORY);
    assert_eq!(
        daemon.metric("zoidd_unexpected_pool_used_bytes"),
        1_048_576.0
    );
    // R14: what came before any server is delivered to the first one, in order.
    let mut server = Server::attach(&daemon);
    let first = server.unexpected(100, 0);
    let second = server.unexpected(100, 0);
    let tags: Vec<i32> = first.iter().chain(&second).map(|m| m.tag).collect();
    assert_eq!(tags, (0..128).collect::<Vec<_>>());
    assert!(
        first
            .iter()
            .all(|m| server.memory(m.offset, 8192).to_vec() == message)
    );
    // R53: a freed slot takes another message; R29: a waiting one gets it.
    client.ask_send(MessageKind::Unexpected, 128, 8192, 60_000);
    daemon.until("zoidd_waiting", 1.0);
    server.free(first[40].offset);
    let grant = client.granted().unwrap();
    client.data(grant, &message);
    assert_eq!(client.send_done(), Status::DONE);
    let last = server.unexpected(100, 60_000);
    assert_eq!((last[0].tag, last[0].offset), (128, first[40].offset));
}

#[test]
fn r30_refused_attempts_cost_headers_and_an_accepted_one_its_size() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[("total", "160M")]);
    let mut server = Server::attach(&daemon);
    let mut client = Client::attach(&daemon);
    let (out, into) = (client.bytes_out, client.bytes_in);
    for _ in 0..100 {
        client.ask_send(MessageKind::Expected, 5, 128 * MIB, 0);
        assert_eq!(client.granted(), Err(Status::NO_MEMORY));
    }
    let moved = client.bytes_out - out + client.bytes_in - into;
    assert!(moved < 100 * 256, "{moved}");
    let message = pattern(128 * MIB as usize);
    server
        .post_recv(client.pid, 5, 1, &[extent(2 * MIB, 128 * MIB)])
        .unwrap();
    let out = client.bytes_out;
    assert_eq!(
        client.send(MessageKind::Expected, 5, &message, 0),
        Status::DONE
    );
    let overhead = client.bytes_out - out - message.len();
    assert!(overhead < 4096, "{overhead}");
    assert_eq!(server.test(60_000)[0].outcome, Ok(128 * MIB));
    assert!(server.memory(2 * MIB, message.len()).to_vec() == message);
}

#[test]
fn r52_unexpected_messages_are_named_and_lie_in_their_region() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut server = Server::attach(&daemon);
    let mut client = Client::attach(&daemon);
    let before = server.header().unexpected_ready;
    assert_eq!(client.unexpected(i32::MIN, b"lowest"), Status::DONE);
    assert_eq!(client.unexpected(i32::MAX, b"highest"), Status::DONE);
    assert_eq!(server.header().unexpected_ready, before + 2);
    let one = server.unexpected(1, 60_000);
    let two = server.unexpected(9, 60_000);
    assert_eq!((one.len(), two.len()), (1, 1));
    assert_eq!((one[0].tag, one[0].peer), (i32::MIN, client.pid));
    assert_eq!(two[0].tag, i32::MAX);
    assert!(one[0].offset + 6 <= MIB && two[0].offset + 7 <= MIB);
    assert_eq!(server.memory(two[0].offset, 7).to_vec(), b"highest");
    // Freeing twice, or what was never delivered, is counted and does no harm.
    server.free(one[0].offset);
    server.free(one[0].offset);
    server.free(12_345);
    daemon.until("zoidd_refusals_total{reason=\"bad_free\"}", 2.0);
}

// [BMI-22]
#[test]
fn a_sleeping_server_test_returns_when_a_client_comes() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut server = Server::attach(&daemon);
    let mut client = Client::attach(&daemon);
    let peer = client.pid;
    server
        .post_recv(peer, 5, 9, &[extent(2 * MIB, 10)])
        .unwrap();
    let waiting = std::thread::spawn(move || server.test(60_000));
    assert_eq!(
        client.send(MessageKind::Expected, 5, b"here", 0),
        Status::DONE
    );
    assert_eq!(waiting.join().unwrap()[0].outcome, Ok(4));
}

#[test]
fn r39_a_clients_test_returns_when_the_server_posts() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut server = Server::attach(&daemon);
    let mut client = Client::attach(&daemon);
    let peer = client.pid;
    let entry = TestEntry::Send {
        tag: 5,
        multiplicity: 3,
    };
    assert_eq!(client.test(&[entry], 0), [0]);
    let waiting = std::thread::spawn(move || (client.test(&[entry], 60_000), client));
    daemon.until("zoidd_client_tests_total", 2.0);
    server
        .post_recv(peer, 5, 9, &[extent(2 * MIB, 10)])
        .unwrap();
    assert_eq!(waiting.join().unwrap().0, [1]);
}

// [ZOID-50]
#[test]
fn a_message_longer_than_the_buffer_fails_on_both_sides_and_moves_nothing() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut server = Server::attach(&daemon);
    let mut client = Client::attach(&daemon);
    server
        .post_recv(client.pid, 5, 1, &[extent(2 * MIB, 10)])
        .unwrap();
    client.ask_send(MessageKind::Expected, 5, 11, 0);
    assert_eq!(client.granted(), Err(Status::MESSAGE_SIZE));
    assert_eq!(server.test(60_000)[0].outcome, Err(Status::MESSAGE_SIZE));
}

// [CTL-15]
#[test]
fn posts_that_point_outside_the_expected_region_are_refused() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut server = Server::attach(&daemon);
    let client = Client::attach(&daemon);
    let end = 16 * MIB;
    for bad in [
        extent(0, 8),
        extent(MIB - 1, 8),
        extent(end - 7, 8),
        extent(u64::MAX, 8),
    ] {
        let refused = server.post_recv(client.pid, 5, 1, &[bad]);
        assert_eq!(refused, Err(Status::INVALID), "{bad:?}");
    }
    let stranger = server.post_recv(client.pid + 1, 5, 1, &[extent(MIB, 8)]);
    assert_eq!(stranger, Err(Status::CONNECTION_RESET));
    assert!(
        server
            .post_recv(client.pid, 5, 1, &[extent(end - 8, 8)])
            .is_ok()
    );
}

// [FWD-1]
#[test]
fn clients_over_tcp_are_clients_too() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[("listen", "127.0.0.1:0")]);
    let mut server = Server::attach(&daemon);
    let mut client = Client::connect_tcp(&daemon);
    client.hello(introduction()).unwrap();
    let message = pattern(10 * MIB as usize);
    let place = [extent(2 * MIB, 10 * MIB)];
    server.post_recv(client.pid, 5, 1, &place).unwrap();
    assert_eq!(
        client.send(MessageKind::Expected, 5, &message, 0),
        Status::DONE
    );
    assert!(server.memory(2 * MIB, message.len()).to_vec() == message);
    assert_eq!(server.test(60_000).len(), 1);
    server.post_send(client.pid, 5, 2, &place).unwrap();
    assert!(client.recv(5, 16 * MIB, 0).unwrap() == message);
}

// [FWD-30]
#[test]
fn a_message_against_a_credit_needs_no_question() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[("credits", "2")]);
    let mut server = Server::attach(&daemon);
    let mut client = Client::connect(&daemon);
    assert_eq!(client.hello(introduction()).unwrap().credits, 2);
    let message = pattern(8192);
    let out = client.bytes_out;
    assert_eq!(client.inline(5, &message), Status::DONE);
    assert_eq!(client.bytes_out - out, 64 + 8192);
    assert_eq!(client.inline(6, b"short"), Status::DONE);
    // Without a credit it is refused, and what follows is understood.
    assert!(client.inline(7, &message).is_error());
    assert!(client.ping());
    let got = server.unexpected(10, 60_000);
    assert_eq!(got.len(), 2);
    assert!(server.memory(got[0].offset, 8192).to_vec() == message);
    assert_eq!(server.memory(got[1].offset, 5).to_vec(), b"short");
}

#[test]
fn frames_that_come_together_are_all_read_though_none_is_answered() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[("credits", "1"), ("heartbeat-ms", "600000")]);
    for count in 1..=64 {
        let mut client = Client::attach(&daemon);
        let mut burst = Vec::new();
        for request in 2..2 + count {
            let receive = Frame::RecvReq(RecvReq {
                tag: 1,
                capacity: 8,
                timeout_ms: 600_000,
                order: 0,
            });
            let header = FrameHeader::new(FrameType::RECV_REQ, request);
            burst.extend(encode(header, &receive, &[]));
        }
        let ping = FrameHeader::new(FrameType::PING, 7);
        burst.extend(encode(ping, &Frame::Ping, &[]));
        assert!(client.raw(&burst));
        let got = client.next().map(|got| got.header.frame_type);
        assert_eq!(got, Some(FrameType::PONG), "behind {count} requests");
    }
}

// [FWD-40]
#[test]
fn a_client_that_asks_for_the_segment_does_not_get_it() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut client = Client::connect(&daemon);
    // Before this version, bit 1 asked for the segment.
    let hello = Hello {
        caps: Caps::from_bits_retain(2),
        ..introduction()
    };
    assert_eq!(client.hello(hello).unwrap().caps, Caps::empty());
}

// [FWD-14]
#[test]
fn clients_hear_of_servers_that_come_and_go() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut client = Client::attach(&daemon);
    let mut server = Server::attach(&daemon);
    let session = server.session;
    server.fini();
    let event = |client: &mut Client| {
        let got = client.next().unwrap();
        match got.frame() {
            Frame::Event(event) => (event, got.header.status),
            other => panic!("{other:?}"),
        }
    };
    let attached = (Event::ServerAttached(session), Status::NONE);
    assert_eq!(event(&mut client), attached);
    assert_eq!(
        event(&mut client),
        (Event::ServerGone(session), Status::NONE)
    );
}

// [FWD-11]
#[test]
fn versions_that_do_not_meet_are_told_so() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut client = Client::connect(&daemon);
    let hello = Hello {
        version_min: 2,
        version_max: 9,
        ..introduction()
    };
    assert_eq!(client.hello(hello), Err(Status::PROTOCOL));
    assert!(client.is_closed());
}

// [FWD-12]
#[test]
fn the_client_after_the_last_is_told_that_the_daemon_is_busy() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[("max-clients", "2")]);
    let _first = Client::attach(&daemon);
    let second = Client::attach(&daemon);
    let mut third = Client::connect(&daemon);
    assert_eq!(third.hello(introduction()), Err(Status::BUSY));
    drop(second);
    daemon.until("zoidd_clients", 1.0);
    let mut fourth = Client::connect(&daemon);
    assert!(fourth.hello(introduction()).is_ok());
}

// [BOUND-9]
#[test]
fn clients_are_served_each_its_own() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut server = Server::attach(&daemon);
    let mut clients: Vec<Client> = (0..256).map(|_| Client::attach(&daemon)).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        let text = format!("client {index}");
        assert_eq!(client.unexpected(client.pid, text.as_bytes()), Status::DONE);
    }
    let mut messages = Vec::new();
    while messages.len() < 256 {
        messages.extend(server.unexpected(100, 60_000));
    }
    let pids: std::collections::BTreeSet<i32> = messages.iter().map(|m| m.peer).collect();
    assert_eq!(pids.len(), 256);
    for (index, message) in messages.iter().enumerate() {
        assert_eq!(message.peer, message.tag);
        let text = server.memory(message.offset, usize::try_from(message.size).unwrap());
        assert_eq!(text.to_vec(), format!("client {index}").as_bytes());
        let place = [extent(2 * MIB + 64 * index as u64, 64)];
        server
            .post_send(message.peer, 1, index as u64, &place)
            .unwrap();
    }
    for client in &mut clients {
        assert_eq!(client.recv(1, 64, 0).unwrap().len(), 64);
    }
}
