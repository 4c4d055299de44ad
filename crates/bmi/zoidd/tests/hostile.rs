//! Parties that break every rule, beside one that keeps them and must not notice.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use proptest::prelude::RngExt as _;
use proptest::test_runner::{TestRng, TestRunner};
use testkit::QueueTurn;
use zoid_proto::ctl::{Request, RequestHeader, Test, TestSelection};
use zoid_proto::fwd::{
    Caps, Data, Frame, FrameHeader, FrameType, Hello, MAX_CHUNK, MessageKind, RecvReply, SendReq,
};
use zoid_proto::{Extent, Status};

use common::client::{Client, encode, introduction};
use common::server::Server;
use common::{Process, be_a_daemon, eventually};

#[test]
fn daemon_for_the_other_tests() {
    be_a_daemon();
}

const MIB: u64 = 1 << 20;

fn send_request(request: u32) -> Vec<u8> {
    let send = SendReq {
        kind: MessageKind::Unexpected,
        class: 0,
        tag: 1,
        total: 100,
        timeout_ms: 0,
        order: 0,
    };
    encode(
        FrameHeader::new(FrameType::SEND_REQ, request),
        &Frame::SendReq(send),
        &[],
    )
}

fn hello() -> Vec<u8> {
    let frame = Frame::Hello(introduction());
    encode(FrameHeader::new(FrameType::HELLO, 1), &frame, &[])
}

/// Uniform bytes, different in each call: those of proptest, whose seed can be set.
fn random(source: &mut TestRng, len: usize) -> Vec<u8> {
    (0..len).map(|_| source.random()).collect()
}

/// The rule-keeping pair: a message goes through.
fn goes_on(client: &mut Client, server: &mut Server) {
    assert_eq!(client.unexpected(1, b"still here"), Status::DONE);
    let got = server.unexpected(100, 60_000);
    let last = got.last().unwrap();
    assert_eq!(server.memory(last.offset, 10).to_vec(), b"still here");
    for message in got {
        server.free(message.offset);
    }
}

// [FWD-7]
#[test]
fn frames_with_any_byte_flipped_end_at_most_their_own_connection() {
    let _turn = QueueTurn::take();
    let mut daemon = Process::start(&[]);
    let (mut client, mut server) = (Client::attach(&daemon), Server::attach(&daemon));
    for (first, frame) in [(Vec::new(), hello()), (hello(), send_request(9))] {
        for index in 0..frame.len() {
            let mut bad = frame.clone();
            bad[index] ^= 0xFF;
            let mut hostile = Client::connect(&daemon);
            hostile.raw(&first);
            hostile.raw(&bad);
        }
        goes_on(&mut client, &mut server);
    }
    daemon.until("zoidd_clients", 1.0);
    daemon.until("zoidd_unexpected_pool_used_bytes", 0.0);
    assert!(daemon.metric("zoidd_violations_total{rule=\"malformed\"}") > 50.0);
    assert!(daemon.is_alive());
}

// [DEATH-8]
#[test]
fn connections_that_end_at_any_byte_leave_nothing() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let (mut client, mut server) = (Client::attach(&daemon), Server::attach(&daemon));
    let conversation = [hello(), send_request(9)].concat();
    for len in 0..conversation.len() {
        let mut hostile = Client::connect(&daemon);
        hostile.raw(&conversation[..len]);
    }
    // After the grant, amid the payload.
    for sent in [0, 1, 47, 48, 49, 147] {
        let mut hostile = Client::attach(&daemon);
        hostile.raw(&send_request(9));
        let grant = hostile.granted().unwrap();
        let data = Frame::Data(Data { grant, offset: 0 });
        let bytes = encode(FrameHeader::new(FrameType::DATA, 0), &data, &[7; 100]);
        hostile.raw(&bytes[..sent]);
    }
    daemon.until("zoidd_clients", 1.0);
    daemon.until("zoidd_transfers", 0.0);
    daemon.until("zoidd_unexpected_pool_used_bytes", 0.0);
    goes_on(&mut client, &mut server);
}

// [SAFE-4]
#[test]
fn random_bytes_on_both_carriers_end_at_most_their_own_connection() {
    let _turn = QueueTurn::take();
    let mut daemon = Process::start(&[("listen", "127.0.0.1:0")]);
    let (mut client, mut server) = (Client::attach(&daemon), Server::attach(&daemon));
    let mut source = TestRunner::default().new_rng();
    for round in 0..200 {
        let mut hostile = match round % 2 {
            0 => Client::connect(&daemon),
            _ => Client::connect_tcp(&daemon),
        };
        let mut bytes = random(&mut source, 1 + round * 7);
        if round % 3 == 0 {
            // Beyond the first check.
            bytes = [&hello()[..], b"ZFW1\x01", &bytes].concat();
        }
        hostile.raw(&bytes);
    }
    goes_on(&mut client, &mut server);
    assert!(daemon.is_alive());
}

/// What a client that attached says wrong, given a grant of 100 bytes that it has.
fn wrong_frames(grant: u64) -> Vec<(&'static str, Vec<u8>)> {
    let data = |grant, offset, len: usize| {
        let data = Frame::Data(Data { grant, offset });
        encode(FrameHeader::new(FrameType::DATA, 0), &data, &vec![1; len])
    };
    let plain =
        |kind, request, frame: &Frame<'_>| encode(FrameHeader::new(kind, request), frame, &[]);
    let reply = Frame::RecvReply(RecvReply::NOTHING);
    vec![
        ("introduction", hello()),
        ("payload", data(grant + 1, 0, 10)),
        ("payload", data(grant, 1, 10)),
        ("payload", data(grant, 0, 101)),
        (
            "grant",
            plain(FrameType::ABORT, 0, &Frame::Abort { grant: 999 }),
        ),
        (
            "grant",
            plain(FrameType::RECV_ACK, 0, &Frame::RecvAck { grant }),
        ),
        ("request_id", send_request(0)),
        ("malformed", plain(FrameType::RECV_REPLY, 9, &reply)),
    ]
}

// [FWD-7] [FWD-10] [FWD-21]
#[test]
fn every_broken_rule_is_told_counted_and_ends_the_connection() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let (mut client, mut server) = (Client::attach(&daemon), Server::attach(&daemon));
    for index in 0..wrong_frames(0).len() {
        let mut hostile = Client::attach(&daemon);
        hostile.raw(&send_request(5));
        let grant = hostile.granted().unwrap();
        let (rule, bytes) = wrong_frames(grant).remove(index);
        let metric = format!("zoidd_violations_total{{rule=\"{rule}\"}}");
        let before = daemon.metric(&metric);
        hostile.raw(&bytes);
        let mut told = false;
        while let Some(got) = hostile.next() {
            told |= got.header.status == Status::PROTOCOL;
        }
        assert!(told, "{index}");
        daemon.until(&metric, before + 1.0);
    }
    daemon.until("zoidd_transfers", 0.0);
    daemon.until("zoidd_unexpected_pool_used_bytes", 0.0);
    goes_on(&mut client, &mut server);
}

// [FWD-21]
#[test]
fn payload_that_came_before_its_grant_was_given_is_refused() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut client = Client::attach(&daemon);
    client.raw(&send_request(5));
    let grant = client.granted().unwrap();
    client.data(grant, &[1; 100]);
    assert_eq!(client.send_done(), Status::DONE);
    // Its number is easy to guess; the bytes are there before the grant is.
    let guess = Frame::Data(Data {
        grant: grant + 1,
        offset: 0,
    });
    let data = encode(FrameHeader::new(FrameType::DATA, 0), &guess, &[2; 100]);
    client.raw(&[send_request(6), data].concat());
    assert!(client.is_closed());
    daemon.until("zoidd_violations_total{rule=\"payload\"}", 1.0);
    daemon.until("zoidd_transfers", 0.0);
}

// [FWD-20]
#[test]
fn a_request_number_in_use_is_refused() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut client = Client::attach(&daemon);
    let request = client.ask_send(MessageKind::Expected, 1, 10, 60_000);
    client.raw(&send_request(request));
    assert!(client.is_closed());
    daemon.until("zoidd_violations_total{rule=\"request_id\"}", 1.0);
}

// [FWD-10]
#[test]
fn anything_but_an_introduction_first_is_refused() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut client = Client::connect(&daemon);
    client.raw(&send_request(1));
    assert_eq!(client.next().unwrap().header.status, Status::PROTOCOL);
    assert!(client.is_closed());
}

// [FWD-26]
#[test]
fn a_client_that_asks_and_never_reads_is_not_answered_without_end() {
    let _turn = QueueTurn::take();
    let mut daemon = Process::start(&[("heartbeat-ms", "1000")]);
    // The others may come to their turn late: on a busy machine it is not they who are silent.
    let mut client = Client::connect(&daemon);
    let hello = Hello {
        caps: Caps::MULTIPLEX | Caps::QUIET,
        ..introduction()
    };
    client.hello(hello).unwrap();
    let mut server = Server::attach(&daemon);
    let mut deaf = Client::attach(&daemon);
    let ping = encode(FrameHeader::new(FrameType::PING, 1), &Frame::Ping, &[]);
    let pings = ping.repeat(4096);
    // Until the daemon reads no more and, silence following, ends the connection.
    let flood = std::thread::spawn(move || while deaf.raw(&pings) {});
    for _ in 0..20 {
        goes_on(&mut client, &mut server);
    }
    daemon.until("zoidd_clients", 1.0);
    assert!(client.ping());
    flood.join().unwrap();
    assert!(daemon.is_alive());
}

// [DEATH-7]
#[test]
fn a_silent_client_is_lost_after_three_heartbeats_and_one_that_answers_is_not() {
    let _turn = QueueTurn::take();
    // A busy machine may keep the lively one from answering, too: then again, with more time.
    let is_shown = ["100", "1000", "10000"]
        .iter()
        .any(|heartbeat| loses_only_the_silent_one(heartbeat));
    assert!(is_shown);
}

// [DEATH-25]
#[test]
fn a_daemon_that_stood_still_loses_nobody_whom_it_did_not_ask() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[("heartbeat-ms", "1000")]);
    let server = Server::attach(&daemon);
    let mut client = Client::attach(&daemon);
    daemon.signal(Signal::SIGSTOP);
    // More than three heartbeats; nothing is said to the server.
    assert!(server.hear(0, Duration::from_millis(3500)).is_none());
    daemon.signal(Signal::SIGCONT);
    assert!(client.ping());
    assert_eq!(daemon.metric("zoidd_clients_silent_total"), 0.0);
    assert_eq!(daemon.metric("zoidd_standstill_losses_total"), 0.0);
}

// [DEATH-25]
#[test]
fn a_daemon_that_stood_still_says_whom_it_has_lost_by_that() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[("heartbeat-ms", "1000")]);
    let server = Server::attach(&daemon);
    let clients = [(); 3].map(|()| Client::attach(&daemon));
    daemon.signal(Signal::SIGSTOP);
    drop(clients);
    assert!(server.hear(0, Duration::from_millis(1500)).is_none());
    daemon.signal(Signal::SIGCONT);
    daemon.until("zoidd_standstill_losses_total", 3.0);
    assert_eq!(daemon.metric("zoidd_standstills_total"), 1.0);
    assert_eq!(daemon.metric("zoidd_clients_left_total"), 0.0);
}

// [FWD-15]
#[test]
fn a_client_that_says_goodbye_is_not_lost() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut client = Client::attach(&daemon);
    client.say(FrameHeader::new(FrameType::BYE, 0), &Frame::Bye, &[]);
    daemon.until("zoidd_clients_left_total", 1.0);
    assert_eq!(daemon.metric("zoidd_clients_lost_total"), 0.0);
}

// [DEATH-9]
#[test]
fn what_a_client_said_last_is_heard_though_it_reads_none_of_its_answers() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let mut deaf = Client::attach(&daemon);
    let ping = encode(FrameHeader::new(FrameType::PING, 1), &Frame::Ping, &[]);
    // More answers than the daemon keeps for the client, and few enough that the last words fit into the socket.
    let answers = 6 << 17;
    assert!(deaf.raw(&ping.repeat(answers / ping.len())));
    deaf.say(FrameHeader::new(FrameType::BYE, 0), &Frame::Bye, &[]);
    drop(deaf);
    daemon.until("zoidd_clients_left_total", 1.0);
    assert_eq!(daemon.metric("zoidd_clients_lost_total"), 0.0);
}

/// `false` if the lively client was lost as well, having been as silent for two heartbeats.
fn loses_only_the_silent_one(heartbeat_ms: &str) -> bool {
    let daemon = Process::start(&[("heartbeat-ms", heartbeat_ms)]);
    let _silent = Client::attach(&daemon);
    let mut lively = Client::attach(&daemon);
    let patience = 2 * Duration::from_millis(heartbeat_ms.parse().unwrap());
    let mut was_late = false;
    let mut last = Instant::now();
    eventually("a client is lost", || {
        let is_there = lively.ping();
        was_late |= std::mem::replace(&mut last, Instant::now()).elapsed() > patience;
        assert!(is_there || was_late, "lost though it answered");
        !is_there || daemon.metric("zoidd_clients_silent_total") > 0.0
    });
    let left = daemon.metric("zoidd_clients");
    was_late |= last.elapsed() > patience;
    assert!(left == 1.0 || was_late, "{left} clients are left");
    left == 1.0
}

// [ZOID-51]
#[test]
fn r57_a_client_that_does_not_take_its_message_fails_only_that_transfer() {
    let _turn = QueueTurn::take();
    let settings = [("stall-ms", "300"), ("heartbeat-ms", "60000")];
    let daemon = Process::start(&settings);
    let (mut client, mut server) = (Client::attach(&daemon), Server::attach(&daemon));
    let mut slow = Client::attach(&daemon);
    let place = [Extent {
        offset: 2 * MIB,
        len: 8 * MIB,
    }];
    server.post_send(slow.pid, 5, 1, &place).unwrap();
    slow.ask_recv(5, 8 * MIB, 0);
    goes_on(&mut client, &mut server);
    assert_eq!(
        server.test(60_000)[0].outcome,
        Err(Status::CONNECTION_RESET)
    );
    // What was announced comes to its end, and then the bad news.
    let mut last = slow.hear();
    while last.header.frame_type == FrameType::DATA || last.header.status == Status::DONE {
        assert!(last.payload.len() as u64 <= MAX_CHUNK);
        last = slow.hear();
    }
    assert_eq!(last.header.status, Status::CONNECTION_RESET);
    assert!(slow.ping());
}

// [CTL-14] [SAFE-4]
#[test]
fn commands_with_any_byte_flipped_or_cut_off_end_nothing() {
    let _turn = QueueTurn::take();
    let mut daemon = Process::start(&[]);
    let (mut client, mut server) = (Client::attach(&daemon), Server::attach(&daemon));
    let header = RequestHeader {
        opcode: zoid_proto::ctl::Opcode::TEST,
        len: 0,
        slot: Some(0),
        session: server.session,
        sequence: 1 << 40,
        spilled: false,
    };
    let test = Request::Test(Test {
        timeout_ms: 0,
        wake_on_unexpected: false,
        selection: TestSelection::Any { capacity: 5 },
    });
    let mut bytes = vec![0; test.encoded_len()];
    test.encode(header, &mut bytes).unwrap();
    for index in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[index] ^= 0xFF;
        server.raw(&bad);
        server.raw(&bytes[..index]);
        // Some are answered, with an error or not.
        while server.hear(0, Duration::ZERO).is_some() {}
    }
    let mut source = TestRunner::default().new_rng();
    for len in 0..200 {
        server.raw(&random(&mut source, len));
        server.raw(&[&bytes[..24], &random(&mut source, len)].concat());
        while server.hear(0, Duration::ZERO).is_some() {}
    }
    assert!(daemon.metric("zoidd_bad_commands_total") > 100.0);
    eventually("the last answers are in", || {
        while server.hear(0, Duration::ZERO).is_some() {}
        daemon.metric("zoidd_commands_total") > 400.0
    });
    while server.hear(0, Duration::from_millis(50)).is_some() {}
    goes_on(&mut client, &mut server);
    assert!(daemon.is_alive());
}

// [CTL-22]
#[test]
fn a_server_that_never_reads_its_replies_delays_nobody_and_loses_nothing() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let (mut client, mut server) = (Client::attach(&daemon), Server::attach(&daemon));
    server.open_slot(1);
    let place = [Extent {
        offset: 2 * MIB,
        len: 8,
    }];
    server.post_recv(client.pid, 3, 42, &place).unwrap();
    assert_eq!(
        client.send(MessageKind::Expected, 3, b"once", 0),
        Status::DONE
    );
    // Slot 1 holds two replies; three more than that.
    for _ in 0..5 {
        server.ask(
            Some(1),
            &Request::Test(Test {
                timeout_ms: 0,
                wake_on_unexpected: false,
                selection: TestSelection::Any { capacity: 5 },
            }),
        );
    }
    goes_on(&mut client, &mut server);
    daemon.until("zoidd_commands_total", 9.0);
    // The completion is in exactly one of the replies that are read now.
    let mut found = 0;
    while let Some((header, bytes)) = server.hear(1, Duration::from_secs(2)) {
        match zoid_proto::ctl::Reply::decode(&header, &bytes).unwrap() {
            zoid_proto::ctl::Reply::Test(reply) => found += reply.completions.len(),
            other => panic!("{other:?}"),
        }
    }
    found += server.test(0).len();
    assert_eq!(found, 1);
}

// [WATCH-2]
#[test]
fn a_new_scrape_is_served_whatever_number_of_connections_say_nothing() {
    let _turn = QueueTurn::take();
    let daemon = Process::start(&[]);
    let path = daemon.metrics_socket();
    let silent: Vec<_> = (0..20)
        .map(|_| std::os::unix::net::UnixStream::connect(&path).unwrap())
        .collect();
    daemon.until("zoidd_commands_total", 0.0);
    drop(silent);
}
