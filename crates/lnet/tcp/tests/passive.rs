//! Tests accepting, with dialling peers that the test plays: the bytes of `docs/protocol/vectors.md` and
//! bad input.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use std::net::Shutdown;
use std::time::Duration;

use lnet_tcp::{AcceptMode, CloseReason, Failure, ProtocolError, Refusal, SocklndConfig};
use lnet_types::{Nid, ProcessId};
use lnet_wire::{Connreq, ConnreqVersion, Ctype, FrameChecksum, Hello, HelloVersion, KsockHeader};

use common::{Node, Policy, Raw, config, control, frame, get, hello, opening, pattern, put, until};

/// Sends `bytes` to a new node. Returns the bytes that the node sends before it closes, and why it closed.
fn refused(bytes: impl FnOnce(&Node) -> Vec<u8>) -> (Vec<u8>, Vec<Refusal>) {
    let mut node = Node::new(config());
    let mut raw = Raw::connect(&node);
    let bytes = bytes(&node);
    raw.write(&bytes);
    let said = raw.expect_close(&mut node);
    let refused = &node.lnd.stats().refused;
    let reasons = refused.iter().map(|(reason, _)| reason).collect();
    assert_eq!((node.open(), node.upper.changes.len()), (0, 0));
    (said, reasons)
}

/// Sends `bytes` on a new connection. Returns why the node closes the connection.
fn closed(bytes: impl FnOnce(&Node) -> Vec<u8>) -> Vec<CloseReason> {
    let mut node = Node::new(config());
    let mut raw = control(&mut node);
    let bytes = bytes(&node);
    raw.write(&bytes);
    raw.expect_close(&mut node);
    let closed = &node.lnd.stats().closed;
    let reasons = closed.iter().map(|(reason, _)| reason).collect();
    assert_eq!(node.open(), 0);
    reasons
}

const NONE_AT: std::ops::Range<usize> = 48..52;
const SILENCE: Vec<u8> = Vec::new();

// [HELLO-2] [HELLO-5] [HELLO-6] [REQ-4]
#[test]
fn the_handshake_of_section_14_is_answered_field_by_field() {
    let mut node = Node::new(config());
    let mut raw = Raw::connect(&node);
    let mut dialled = hello(node.nid, Ctype::BULK_IN);
    dialled.dst_pid = 11;
    dialled.dst_incarnation = 12;
    raw.write(&opening(node.nid, &dialled));
    let bytes = raw.expect(&mut node, 56);
    let reply = Hello::decode(&bytes).unwrap().hello;
    let expected = Hello {
        version: HelloVersion::V3,
        src_nid: node.nid,
        dst_nid: dialled.src_nid,
        src_pid: 12345,
        dst_pid: 11,
        src_incarnation: 1,
        dst_incarnation: 12,
        ctype: Ctype::BULK_OUT,
    };
    assert_eq!(reply, expected);
}

// [CONN-8]
#[test]
fn a_handshake_that_dribbles_in_is_accepted() {
    let mut node = Node::new(config());
    let mut raw = Raw::connect(&node);
    let mut bytes = opening(node.nid, &hello(node.nid, Ctype::CONTROL));
    bytes.extend(frame(0, &put(node.nid, node.nid, 3), &[1, 2, 3]));
    for byte in bytes {
        raw.write(&[byte]);
        node.turn();
    }
    until(&mut node, |node| {
        (!node.upper.received.is_empty()).then_some(())
    });
    assert_eq!(node.upper.landed(node.upper.headers[0].2), [1, 2, 3]);
}

// [SET-4]
#[test]
fn a_lone_control_connection_is_answered() {
    let mut node = Node::new(config());
    let mut raw = control(&mut node);
    let peer = hello(node.nid, Ctype::CONTROL).src_nid;
    raw.write(&frame(0, &get(peer, node.nid), &[]));
    until(&mut node, |node| {
        (node.upper.headers.len() == 1).then_some(())
    });
    node.send(ProcessId::lustre(peer), pattern(2000));
    let bytes = raw.expect(&mut node, 96 + 2000);
    assert_eq!(bytes, frame(0, &put(node.nid, peer, 2000), &pattern(2000)));
    assert_eq!(node.lnd.stats().dial_failures.total(), 0);
}

// [CONN-3]
#[test]
fn an_unprivileged_source_port_is_refused_when_accept_is_secure() {
    let mut node = Node::new(lnet_tcp::SocklndConfig {
        accept: AcceptMode::Secure,
        ..config()
    });
    let mut raw = Raw::connect(&node);
    assert_eq!(raw.expect_close(&mut node), SILENCE);
    assert_eq!(node.lnd.stats().refused.of(Refusal::SourcePort), 1);
}

// [CONN-5] [CONN-6]
#[test]
fn a_silent_client_is_closed_in_time_and_delays_nobody() {
    let mut node = Node::new(config());
    let mut silent = Raw::connect(&node);
    until(&mut node, |node| {
        (node.lnd.stats().handshakes_open == 1).then_some(())
    });
    let _quick = control(&mut node);
    node.pass(Duration::from_millis(4999));
    assert_eq!(node.lnd.stats().handshakes_open, 1);
    node.pass(Duration::from_millis(1));
    assert_eq!(silent.expect_close(&mut node), SILENCE);
    assert_eq!(node.lnd.stats().refused.of(Refusal::TooSlow), 1);
    assert_eq!(node.open(), 1);
}

// [CONN-5]
#[test]
fn a_slow_hello_is_closed() {
    let mut node = Node::new(config());
    let mut raw = Raw::connect(&node);
    raw.write(&opening(node.nid, &hello(node.nid, Ctype::CONTROL))[..40]);
    until(&mut node, |node| {
        (node.lnd.stats().handshakes_open == 1).then_some(())
    });
    node.pass(Duration::from_secs(5));
    assert_eq!(raw.expect_close(&mut node), SILENCE);
    assert_eq!(node.lnd.stats().refused.of(Refusal::TooSlow), 1);
}

// [LIMIT-2]
#[test]
fn the_oldest_unfinished_handshake_makes_room_for_a_new_one() {
    let mut few = config();
    few.limits.handshakes_max = 2;
    let mut node = Node::new(few);
    let mut clients: Vec<Raw> = (0..3).map(|_| Raw::connect(&node)).collect();
    until(&mut node, |node| {
        (node.lnd.stats().refused.total() == 1).then_some(())
    });
    assert_eq!(node.lnd.stats().refused.of(Refusal::TooManyHandshakes), 1);
    assert_eq!(node.lnd.stats().handshakes_open, 2);
    assert_eq!(clients[0].expect_close(&mut node), SILENCE);
}

// [LIMIT-2]
#[test]
fn a_connection_beyond_the_limit_is_refused() {
    let mut one = config();
    one.limits.connections_max = 1;
    let mut node = Node::new(one);
    let _first = control(&mut node);
    let mut second = Raw::connect(&node);
    assert_eq!(second.expect_close(&mut node), SILENCE);
    assert_eq!(node.lnd.stats().refused.of(Refusal::TooManyConnections), 1);
}

// [REQ-5]
#[test]
fn a_first_word_that_is_no_magic_closes_in_silence() {
    let (said, why) = refused(|_| b"GET / HTTP/1.0\r\n\r\n".to_vec());
    assert_eq!((said, why), (SILENCE, vec![Refusal::RequestMagic]));
}

// [REQ-6]
#[test]
fn the_lnet_magic_in_place_of_a_request_is_told_so() {
    let (said, why) = refused(|_| 0x4572_6963_u32.to_le_bytes().to_vec());
    assert_eq!(
        (said, why),
        (Connreq::REJECTION.to_vec(), vec![Refusal::RequestMagic])
    );
}

// [REQ-6]
#[test]
fn an_unknown_request_version_is_told_so() {
    let (said, why) = refused(|node| {
        let mut bytes = opening(node.nid, &hello(node.nid, Ctype::CONTROL));
        bytes[4] = 9;
        bytes
    });
    assert_eq!(
        (said, why),
        (Connreq::REJECTION.to_vec(), vec![Refusal::RequestVersion])
    );
}

// [REQ-7]
#[test]
fn a_request_for_a_nid_that_is_not_here_closes_in_silence() {
    let other: Nid = "10.1.2.3@tcp".parse().unwrap();
    let (said, why) = refused(|_| opening(other, &hello(other, Ctype::CONTROL)));
    assert_eq!((said, why), (SILENCE, vec![Refusal::NoSuchNi]));
}

// [REQ-7]
#[test]
fn a_request_for_another_net_of_the_same_address_closes_in_silence() {
    let (_, why) = refused(|node| {
        let other = Nid::from_ip(lnet_types::Net::tcp(9), node.nid.ip().unwrap());
        opening(other, &hello(other, Ctype::CONTROL))
    });
    assert_eq!(why, [Refusal::NoSuchNi]);
}

// [REQ-7]
#[test]
fn a_request_for_loopback_closes_in_silence() {
    let (_, why) = refused(|node| opening(Nid::LOOPBACK, &hello(node.nid, Ctype::CONTROL)));
    assert_eq!(why, [Refusal::NoSuchNi]);
}

/// Sends a valid opening in which some bytes of the HELLO are replaced.
fn spoiled(at: usize, bytes: &'static [u8]) -> (Vec<u8>, Vec<Refusal>) {
    refused(|node| {
        let mut all = opening(node.nid, &hello(node.nid, Ctype::CONTROL));
        all[16 + at..16 + at + bytes.len()].copy_from_slice(bytes);
        all
    })
}

// [HELLO-15]
#[test]
fn a_hello_with_a_bad_magic_closes_in_silence() {
    assert_eq!(spoiled(0, &[1]), (SILENCE, vec![Refusal::HelloMalformed]));
}

// [HELLO-16]
#[test]
fn a_hello_of_an_unknown_version_is_answered_with_none() {
    let (said, why) = spoiled(4, &[99]);
    assert_eq!(why, [Refusal::HelloVersion]);
    assert_eq!(said.len(), 56);
    let answer = Hello::decode(&said).unwrap().hello;
    assert_eq!(
        (answer.version, answer.ctype),
        (HelloVersion::V3, Ctype::NONE)
    );
    assert_eq!(answer.src_nid, answer.dst_nid);
}

#[test]
fn a_hello_of_version_1_closes_in_silence() {
    let (said, why) = refused(|node| {
        let mut old = hello(node.nid, Ctype::CONTROL);
        old.version = HelloVersion::V1;
        opening(node.nid, &old)
    });
    assert_eq!((said, why), (SILENCE, vec![Refusal::HelloVersion1]));
}

// [HELLO-13]
#[test]
fn a_hello_with_17_addresses_closes_in_silence() {
    assert_eq!(spoiled(52, &[17]), (SILENCE, vec![Refusal::HelloMalformed]));
}

// [HELLO-13]
#[test]
fn a_hello_with_a_zero_address_closes_in_silence() {
    let (said, why) = refused(|node| {
        let mut bytes = opening(node.nid, &hello(node.nid, Ctype::CONTROL));
        bytes[16 + 52] = 1;
        bytes.extend([0; 4]);
        bytes
    });
    assert_eq!((said, why), (SILENCE, vec![Refusal::HelloMalformed]));
}

// [HELLO-14]
#[test]
fn a_hello_from_anybody_closes_in_silence() {
    assert_eq!(
        spoiled(8, &[0xFF; 8]),
        (SILENCE, vec![Refusal::HelloMalformed])
    );
}

#[test]
fn a_hello_from_another_net_closes_in_silence() {
    let (said, why) = refused(|node| {
        let mut foreign = hello(node.nid, Ctype::CONTROL);
        foreign.src_nid = "10.9.9.9@tcp7".parse().unwrap();
        opening(node.nid, &foreign)
    });
    assert_eq!((said, why), (SILENCE, vec![Refusal::HelloNet]));
}

#[test]
fn where_addresses_have_to_agree_a_borrowed_nid_is_refused_and_an_own_one_is_not() {
    let mut node = Node::new(SocklndConfig {
        match_addresses: true,
        ..config()
    });
    let mut raw = Raw::connect(&node);
    raw.write(&opening(node.nid, &hello(node.nid, Ctype::CONTROL)));
    assert_eq!(raw.expect_close(&mut node), SILENCE);
    assert_eq!(node.lnd.stats().refused.of(Refusal::HelloAddress), 1);
    let mut own = hello(node.nid, Ctype::CONTROL);
    own.src_nid = Nid::from_ip(node.nid.net(), raw.stream.local_addr().unwrap().ip());
    Raw::establish(&mut node, &own);
    assert_eq!(node.open(), 1);
}

// [HELLO-11]
#[test]
fn a_hello_with_an_undefined_type_closes_in_silence() {
    assert_eq!(spoiled(48, &[4]), (SILENCE, vec![Refusal::HelloType]));
    assert_eq!(spoiled(48, &[0xFF; 4]), (SILENCE, vec![Refusal::HelloType]));
}

#[test]
fn a_client_that_leaves_in_the_middle_is_counted() {
    let mut node = Node::new(config());
    let mut raw = Raw::connect(&node);
    raw.write(&opening(node.nid, &hello(node.nid, Ctype::CONTROL))[..30]);
    drop(raw);
    until(&mut node, |node| {
        (node.lnd.stats().refused.total() == 1).then_some(())
    });
    assert_eq!(node.lnd.stats().refused.of(Refusal::Disconnected), 1);
}

// [HELLO-7] [HELLO-12]
#[test]
fn a_hello_with_addresses_and_a_wrong_destination_is_accepted() {
    let mut node = Node::new(config());
    let mut raw = Raw::connect(&node);
    let elsewhere = "10.3.3.3@tcp".parse().unwrap();
    let mut bytes = opening(node.nid, &hello(elsewhere, Ctype::CONTROL));
    bytes[16 + 52] = 2;
    bytes.extend([1, 2, 3, 4, 5, 6, 7, 8]);
    bytes.extend(frame(0, &put(node.nid, node.nid, 0), &[]));
    raw.write(&bytes);
    raw.expect(&mut node, 56);
    until(&mut node, |node| {
        (node.upper.received.len() == 1).then_some(())
    });
}

// [LARGE-9]
#[test]
fn a_request_of_version_2_for_a_small_nid_is_accepted() {
    let mut node = Node::new(config());
    let mut raw = Raw::connect(&node);
    let mut bytes = [0; 28];
    let request = Connreq {
        version: ConnreqVersion::V2,
        target: node.nid,
    };
    request.encode(&mut bytes).unwrap();
    raw.write(&bytes);
    raw.write(&opening(node.nid, &hello(node.nid, Ctype::CONTROL))[16..]);
    raw.expect(&mut node, 56);
}

// [HELLO-3] [HELLO-4] [MSG-1]
#[test]
fn a_big_endian_peer_is_answered_in_our_order_and_its_frames_are_read_in_its_own() {
    let mut node = Node::new(config());
    let mut raw = Raw::connect(&node);
    let mut bytes = opening(node.nid, &hello(node.nid, Ctype::CONTROL));
    for (at, len) in [
        (16, 4),
        (20, 4),
        (24, 8),
        (32, 8),
        (40, 4),
        (44, 4),
        (48, 8),
        (64, 4),
    ] {
        bytes[at..at + len].reverse();
    }
    let mut message = frame(0x55, &put(node.nid, node.nid, 5), b"hello");
    for (at, len) in [(0, 4), (8, 8)] {
        message[at..at + len].reverse();
    }
    raw.write(&bytes);
    raw.write(&message);
    let reply = raw.expect(&mut node, 56);
    assert_eq!(Hello::decode(&reply).unwrap().hello.ctype, Ctype::CONTROL);
    assert_eq!(raw.expect(&mut node, 24), KsockHeader::ack(0x55).to_bytes());
    assert_eq!(node.upper.landed(node.upper.headers[0].2), b"hello");
}

// [SET-6]
#[test]
fn one_connection_of_a_type_more_than_allowed_is_answered_with_none() {
    let mut few = config();
    few.limits.connections_per_type_max = 2;
    let mut node = Node::new(few);
    let _two = [control(&mut node), control(&mut node)];
    let mut third = Raw::connect(&node);
    third.write(&opening(node.nid, &hello(node.nid, Ctype::CONTROL)));
    let said = third.expect_close(&mut node);
    assert_eq!(said[NONE_AT], [0xFF; 4]);
    assert_eq!(node.lnd.stats().refused.of(Refusal::Duplicate), 1);
    assert_eq!(node.open(), 2);
}

// [ZC-1] [ZC-3] [ZC-4]
#[test]
fn every_zero_copy_request_is_acknowledged_once_on_its_connection_and_after_its_payload() {
    let mut node = Node::new(config());
    let mut raw = control(&mut node);
    let header = put(node.nid, node.nid, 20_000);
    let message = frame(42, &header, &pattern(20_000));
    raw.write(&message[..20_000]);
    until(&mut node, |node| {
        (node.upper.headers.len() == 1).then_some(())
    });
    for _ in 0..50 {
        node.turn();
    }
    assert_eq!(node.lnd.stats().zc_acks, 0);
    raw.write(&message[20_000..]);
    let ack = raw.expect(&mut node, 24);
    let expected = [
        &[0xC0, 0, 0, 0, 0, 0, 0, 0][..],
        &[0; 8],
        &[0x2A, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(ack, expected);
    assert_eq!(node.lnd.stats().zc_acks, 1);

    node.upper.policy = Policy::Drop;
    raw.write(&frame(43, &header, &pattern(20_000)));
    assert_eq!(raw.expect(&mut node, 24), KsockHeader::ack(43).to_bytes());
}

// [LIMIT-2]
#[test]
fn acknowledgements_that_nobody_reads_stop_the_reading() {
    let mut node = Node::new(config());
    node.upper.policy = Policy::Drop;
    let hello = hello(node.nid, Ctype::CONTROL);
    let mut raw = Raw::connect_narrow(&node).greet(&mut node, &hello);
    let message = frame(9, &put(node.nid, node.nid, 0), &[]);
    let mut written = 0;
    let mut stuck = 0;
    // Write until nothing moves any more on either side.
    while stuck < 200 {
        match std::io::Write::write(&mut raw.stream, &message[written % message.len()..]) {
            Ok(count) => (written, stuck) = (written + count, 0),
            Err(_) => stuck += 1,
        }
        node.turn();
    }
    let view = node.lnd.connections().next().unwrap();
    assert!(
        view.queued_frames <= 256,
        "{} acknowledgements are held",
        view.queued_frames
    );
    assert!(node.lnd.stats().frames_in < (written / message.len()) as u64);

    let expected = node.lnd.stats().frames_in;
    until(&mut node, |node| {
        raw.poll();
        (node.lnd.stats().frames_in > expected
            && node.lnd.stats().frames_in == (written / message.len()) as u64)
            .then_some(())
    });
}

// [KEEP-3]
#[test]
fn keepalives_are_accepted_and_empty_noops_too() {
    let mut node = Node::new(config());
    let mut raw = control(&mut node);
    raw.write(&KsockHeader::KEEPALIVE.to_bytes());
    raw.write(&KsockHeader::ack(0).to_bytes());
    raw.write(&frame(0, &put(node.nid, node.nid, 0), &[]));
    until(&mut node, |node| {
        (node.upper.received.len() == 1).then_some(())
    });
    assert_eq!(node.lnd.stats().keepalives_in, 1);
    assert_eq!(node.lnd.stats().frames_in, 3);
}

fn protocol(error: ProtocolError) -> Vec<CloseReason> {
    vec![CloseReason::Protocol(error)]
}

// [FRAME-2]
#[test]
fn an_undefined_frame_type_closes() {
    let why = closed(|_| vec![0xC2; 24]);
    assert_eq!(why, protocol(ProtocolError::FrameType));
}

// [ZC-6]
#[test]
fn an_acknowledgement_that_nobody_asked_for_closes() {
    assert_eq!(
        closed(|_| KsockHeader::ack(2).to_bytes().to_vec()),
        protocol(ProtocolError::UnknownAck)
    );
    let range = KsockHeader {
        cookies: [5, 9],
        ..KsockHeader::ack(0)
    };
    assert_eq!(
        closed(|_| range.to_bytes().to_vec()),
        protocol(ProtocolError::UnknownAck)
    );
}

// [ZC-6]
#[test]
fn an_acknowledgement_on_a_message_closes_too() {
    let why = closed(|node| {
        let mut bytes = frame(0, &put(node.nid, node.nid, 0), &[]);
        bytes[16] = 7;
        bytes
    });
    assert_eq!(why, protocol(ProtocolError::UnknownAck));
}

// [ZC-7]
#[test]
fn the_keepalive_cookie_with_another_one_closes() {
    let mixed = KsockHeader {
        cookies: [7, 1],
        ..KsockHeader::ack(0)
    };
    assert_eq!(
        closed(|_| mixed.to_bytes().to_vec()),
        protocol(ProtocolError::MixedKeepalive)
    );
}

// [MSG-3]
#[test]
fn an_undefined_message_type_closes() {
    for message_type in [4, 5, 0xFF] {
        let why = closed(|node| {
            let mut bytes = frame(0, &put(node.nid, node.nid, 0), &[]);
            bytes[48] = message_type;
            bytes
        });
        assert_eq!(why, protocol(ProtocolError::LnetHeader));
    }
}

// [MSG-4]
#[test]
fn a_get_with_payload_closes() {
    let why = closed(|node| {
        let mut bytes = frame(0, &get(node.nid, node.nid), &[]);
        bytes[52] = 1;
        bytes
    });
    assert_eq!(why, protocol(ProtocolError::LnetHeader));
}

// [MSG-5]
#[test]
fn a_put_of_more_than_a_mebibyte_closes() {
    let why = closed(|node| {
        let mut bytes = frame(0, &put(node.nid, node.nid, 0), &[]);
        bytes[52..56].copy_from_slice(&((1_u32 << 20) + 1).to_le_bytes());
        bytes
    });
    assert_eq!(why, protocol(ProtocolError::LnetHeader));
}

// [FRAME-10]
#[test]
fn an_end_inside_a_frame_is_a_protocol_error_and_one_between_frames_is_not() {
    for (bytes, reason) in [
        (0, CloseReason::Eof),
        (10, CloseReason::Protocol(ProtocolError::Truncated)),
    ] {
        let mut node = Node::new(config());
        let mut raw = control(&mut node);
        raw.write(&vec![0xC1; bytes]);
        drop(raw);
        until(&mut node, |node| (node.open() == 0).then_some(()));
        assert_eq!(node.lnd.stats().closed.of(reason), 1, "{bytes}");
    }
}

#[test]
fn what_came_before_the_end_is_delivered_before_the_close() {
    let mut node = Node::new(config());
    let mut raw = control(&mut node);
    raw.write(&frame(0, &put(node.nid, node.nid, 4), b"last"));
    raw.write(&frame(0, &put(node.nid, node.nid, 4), b"word"));
    drop(raw);
    until(&mut node, |node| (node.open() == 0).then_some(()));
    let received = node.upper.received.iter();
    let results: Vec<_> = received.map(|(_, result)| *result).collect();
    assert_eq!(results, [Ok(()), Ok(())]);
}

/// Makes a control and a bulk connection of one peer. A message is half written on the bulk connection, and the
/// control connection is closed.
fn half_parted(node: &mut Node) -> (Raw, Vec<u8>) {
    let one = control(node);
    let bulk = hello(node.nid, Ctype::BULK_OUT);
    let mut other = Raw::establish(node, &bulk);
    let payload = pattern(100_000);
    let bytes = frame(0, &put(node.nid, node.nid, payload.len()), &payload);
    let (first, second) = bytes.split_at(50_000);
    other.write(first);
    until(node, |node| (node.upper.headers.len() == 1).then_some(()));
    drop(one);
    until(node, |node| {
        (node.lnd.stats().closed.of(CloseReason::Eof) == 1).then_some(())
    });
    (other, second.to_vec())
}

#[test]
fn what_a_peer_sent_before_it_ended_arrives_although_another_connection_ended_first() {
    let mut node = Node::new(config());
    let (mut other, rest) = half_parted(&mut node);
    assert_eq!(
        node.upper.changes.last().map(|change| change.1),
        Some(false)
    );
    other.write(&rest);
    drop(other);
    until(&mut node, |node| (node.open() == 0).then_some(()));
    let [(rx, result)] = node.upper.received[..] else {
        panic!("{:?}", node.upper.received);
    };
    assert_eq!(result, Ok(()));
    assert!(node.upper.landed(rx) == pattern(100_000));
    let closed = &node.lnd.stats().closed;
    assert_eq!(closed.of(CloseReason::Sibling), 1);
}

#[test]
fn a_connection_whose_sibling_ended_is_closed_after_a_while() {
    let mut node = Node::new(config());
    let (mut other, _) = half_parted(&mut node);
    node.pass(Duration::from_millis(1900));
    assert_eq!((node.open(), node.upper.received.len()), (1, 0));
    node.pass(Duration::from_millis(600));
    assert_eq!(node.open(), 0);
    other.expect_close(&mut node);
    let received = node.upper.received.iter();
    let results: Vec<_> = received.map(|(_, result)| *result).collect();
    assert_eq!(results, [Err(Failure::RemoteDropped)]);
    let downs = node.upper.changes.iter().filter(|change| !change.1).count();
    assert_eq!(downs, 1);
}

#[test]
fn a_peer_that_connects_and_closes_again_and_again_does_not_keep_its_old_connections() {
    let mut node = Node::new(config());
    let (_first, _) = half_parted(&mut node);
    node.pass(Duration::from_millis(1500));
    let one = control(&mut node);
    let bulk = hello(node.nid, Ctype::BULK_OUT);
    let _second = Raw::establish(&mut node, &bulk);
    drop(one);
    until(&mut node, |node| {
        (node.lnd.stats().closed.of(CloseReason::Eof) == 2).then_some(())
    });
    assert_eq!(node.open(), 2);
    node.pass(Duration::from_millis(700));
    assert_eq!(node.open(), 0);
}

#[test]
fn an_end_that_comes_with_the_handshake_is_seen() {
    let mut node = Node::new(config());
    let mut raw = Raw::connect(&node);
    until(&mut node, |node| {
        (node.lnd.stats().handshakes_open == 1).then_some(())
    });
    node.turn();
    let opening = opening(node.nid, &hello(node.nid, Ctype::CONTROL));
    raw.write(&[opening, frame(0, &put(node.nid, node.nid, 4), b"last")].concat());
    raw.stream.shutdown(Shutdown::Write).unwrap();
    until(&mut node, |node| {
        (node.lnd.stats().closed.of(CloseReason::Eof) == 1).then_some(())
    });
    assert_eq!(node.upper.received.len(), 1);
}

#[test]
fn a_message_cut_off_is_reported_as_failed() {
    let mut node = Node::new(config());
    let mut raw = control(&mut node);
    raw.write(&frame(0, &put(node.nid, node.nid, 400), &[0; 100]));
    until(&mut node, |node| {
        (node.upper.headers.len() == 1).then_some(())
    });
    drop(raw);
    until(&mut node, |node| (node.open() == 0).then_some(()));
    assert_eq!(node.upper.received.len(), 1);
    assert_eq!(node.upper.received[0].1, Err(Failure::LocalError));
}

// [SET-10]
#[test]
fn a_message_that_is_refused_above_closes_the_siblings_too() {
    let mut node = Node::new(config());
    node.upper.policy = Policy::Reject;
    let mut one = control(&mut node);
    let bulk = hello(node.nid, Ctype::BULK_OUT);
    let mut other = Raw::establish(&mut node, &bulk);
    one.write(&frame(0, &put(node.nid, node.nid, 0), &[]));
    one.expect_close(&mut node);
    other.expect_close(&mut node);
    assert_eq!(
        node.lnd
            .stats()
            .closed
            .of(CloseReason::Protocol(ProtocolError::Refused)),
        1
    );
    assert_eq!(node.lnd.stats().closed.of(CloseReason::Sibling), 1);
}

/// Makes a connection of version 2 with a message whose checksum has wrong bits as in `spoil`.
fn checksummed(spoil: u32) -> (Node, Raw) {
    let mut node = Node::new(config());
    let mut old = hello(node.nid, Ctype::ANY);
    old.version = HelloVersion::V2;
    let mut raw = Raw::establish(&mut node, &old);
    let mut bytes = frame(0, &put(node.nid, node.nid, 5), b"hello");
    let mut checksum = FrameChecksum::new(bytes.first_chunk().unwrap());
    checksum.update(&bytes[24..]);
    bytes[4..8].copy_from_slice(&(checksum.finish() ^ spoil).to_le_bytes());
    raw.write(&bytes);
    until(&mut node, |node| {
        (node.upper.received.len() == 1).then_some(())
    });
    (node, raw)
}

// [FRAME-4]
#[test]
fn a_right_checksum_of_version_2_is_accepted() {
    let (node, _raw) = checksummed(0);
    assert_eq!(node.upper.received[0].1, Ok(()));
    assert_eq!(node.open(), 1);
}

// [FRAME-4]
#[test]
fn a_wrong_checksum_of_version_2_fails_the_message_and_closes() {
    let (node, _raw) = checksummed(1);
    assert_eq!(node.upper.received[0].1, Err(Failure::RemoteError));
    assert_eq!(
        node.lnd
            .stats()
            .closed
            .of(CloseReason::Protocol(ProtocolError::Checksum)),
        1
    );
}

// [FRAME-4]
#[test]
fn a_noop_of_version_2_with_a_wrong_checksum_closes() {
    let mut node = Node::new(config());
    let mut old = hello(node.nid, Ctype::CONTROL);
    old.version = HelloVersion::V2;
    let mut raw = Raw::establish(&mut node, &old);
    raw.write(
        &KsockHeader {
            csum: 1,
            ..KsockHeader::KEEPALIVE
        }
        .to_bytes(),
    );
    raw.expect_close(&mut node);
    let closed = &node.lnd.stats().closed;
    assert_eq!(closed.of(CloseReason::Protocol(ProtocolError::Checksum)), 1);
}
