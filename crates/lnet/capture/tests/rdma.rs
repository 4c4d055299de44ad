//! LNet over RDMA in captures: what is decoded of healthy conversations, of lost and repeated packets, of rejections, and
//! of bytes that nobody should send.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use lnet_capture::{LNET_PORT, Summary, decode_capture, render};
use lnet_wire::o2ib::{Body, Parameters, Rejection, RejectionReason};
use proptest::prelude::{any, proptest};

use common::capture::pcap;
use common::roce::{
    self, CLIENT, SEND_FIRST, SEND_LAST, SEND_ONLY, SERVER, WRITE_FIRST, WRITE_LAST, WRITE_MIDDLE,
    acknowledged, connected, descriptor, immediate, memory, message, put_req, sent,
};

/// The link types of raw IP packets and of InfiniBand frames.
const RAW: u32 = 101;
const INFINIBAND: u32 = 247;

/// Returns the lines of a capture, without times, and its summary.
fn lines(link_type: u32, packets: &[Vec<u8>]) -> (Vec<String>, Summary) {
    let (mut printer, mut out) = (render::LinePrinter::default(), Vec::new());
    let file = pcap(link_type, packets);
    let (summary, read) = decode_capture(&file[..], &[LNET_PORT], |message| {
        printer.write(&mut out, message)?;
        // Every form of output reads every field.
        render::write_fields(&mut std::io::sink(), message)?;
        render::write_json(&mut std::io::sink(), message)
    });
    read.expect("the capture is whole");
    let text = String::from_utf8(out).expect("text");
    let without_time = |line: &str| line[12..].to_owned();
    (text.lines().map(without_time).collect(), summary)
}

/// Returns the names of the messages in a capture of raw IP packets.
fn names(packets: &[Vec<u8>]) -> (Vec<String>, Summary) {
    let (lines, summary) = lines(RAW, packets);
    let name = |line: &String| {
        let words = line.split_whitespace().nth(4);
        words.unwrap_or_default().to_owned()
    };
    (lines.iter().map(name).collect(), summary)
}

/// A PUT of 2,500 bytes by RDMA from the client, its packets 0 to 5, and one message of the server.
fn large_put() -> Vec<Vec<u8>> {
    let asks = put_req(CLIENT, SERVER, 2500);
    let gives = Body::PutAck {
        source_cookie: 1,
        sink_cookie: 2,
        descriptor: descriptor(1),
    };
    let done = Body::PutDone {
        cookie: 2,
        status: 0,
    };
    let first = [memory(0x7000, 9, 2500), vec![7; 1024]].concat();
    vec![
        sent(CLIENT, SERVER, SEND_ONLY, 0, &asks),
        sent(
            SERVER,
            CLIENT,
            SEND_ONLY,
            0,
            &message(SERVER, CLIENT, gives),
        ),
        sent(CLIENT, SERVER, WRITE_FIRST, 1, &first),
        sent(CLIENT, SERVER, WRITE_MIDDLE, 2, &[7; 1024]),
        sent(CLIENT, SERVER, WRITE_LAST, 3, &[7; 452]),
        sent(CLIENT, SERVER, SEND_ONLY, 4, &message(CLIENT, SERVER, done)),
        acknowledged(SERVER, CLIENT, 0, 4),
    ]
}

// [IB-4] [IB-5] [IB-24]
#[test]
fn conversation_is_decoded_from_the_request_for_a_connection_to_its_end() {
    let small = immediate(SERVER, CLIENT, &[3; 1500]);
    let (head, tail) = small.split_at(1024);
    let packets = [
        connected(),
        large_put(),
        vec![
            sent(SERVER, CLIENT, SEND_FIRST, 1, head),
            sent(SERVER, CLIENT, SEND_LAST, 2, tail),
            roce::step(CLIENT, SERVER, 0x15),
            roce::step(SERVER, CLIENT, 0x16),
        ],
    ]
    .concat();
    let (lines, summary) = lines(RAW, &packets);
    let due = [
        "c0   10.0.0.1@o2ib -> 10.0.0.2@o2ib   CM_REQ   queue depth 8, 257 fragments, messages of 4096 bytes, incarnation 0x1",
        "c0   10.0.0.2@o2ib -> 10.0.0.1@o2ib   CM_REP   queue depth 8, 257 fragments, messages of 4096 bytes, incarnation 0x1",
        "c0   10.0.0.1:1023 -> 10.0.0.2:987    CM_RTU",
        "c0   10.0.0.1@o2ib -> 10.0.0.2@o2ib   PUT_REQ  PUT portal 4 match 0x5 2500 bytes at 0 cookie 0x1",
        "c0   10.0.0.2@o2ib -> 10.0.0.1@o2ib   PUT_ACK  cookie 0x1 sink 0x2; 2500 bytes in 1 fragments, rkey 0x9",
        "c0   10.0.0.1:1023 -> 10.0.0.2:987    RDMA_WRITE 2500 bytes to 0x7000, rkey 0x9",
        "c0   10.0.0.1@o2ib -> 10.0.0.2@o2ib   PUT_DONE cookie 0x2 status 0",
        "c0   10.0.0.2@o2ib -> 10.0.0.1@o2ib   IMMEDIATE PUT portal 4 match 0x5 1500 bytes at 0",
        "c0   10.0.0.1:1023 -> 10.0.0.2:987    CM_DREQ",
        "c0   10.0.0.2:987 -> 10.0.0.1:1023    CM_DREP",
    ];
    assert_eq!(lines, due);
    assert!(summary.is_complete());
    assert_eq!(
        (summary.connections, summary.joined, summary.rejected),
        (1, 0, 0)
    );
    assert_eq!((summary.packets_repeated, summary.packets_lost), (0, 0));
    // Three messages with their descriptor, the write, the one of 1,500 bytes, and two private data.
    let bytes = 128 + 84 + 60 + 2500 + 1620 + 2 * 56;
    assert_eq!(summary.bytes.decoded, bytes);
}

#[test]
fn packets_that_are_sent_again_count_once() {
    let mut packets = [connected(), large_put()].concat();
    let whole = names(&packets).0;
    // A request, a reply, a message and a part of the write come twice.
    for at in [8, 5, 4, 1, 0] {
        packets.insert(at + 1, packets[at].clone());
    }
    let (names, summary) = names(&packets);
    assert_eq!(names, whole);
    assert_eq!((summary.packets_repeated, summary.packets_lost), (5, 0));
    assert!(summary.is_complete());
}

/// The receiver drops what comes behind a lost packet, and the sender begins again there.
#[test]
fn packet_that_is_lost_on_the_wire_loses_nothing() {
    let whole = [connected(), large_put()].concat();
    let mut packets = whole.clone();
    let lost = packets.remove(6);
    let again = [lost, packets[6].clone(), packets[7].clone()];
    let nak = acknowledged(SERVER, CLIENT, 0x60, 2);
    packets.splice(8..8, [vec![nak], again.to_vec()].concat());
    let (mut told, summary) = names(&packets);
    assert_eq!(told.iter().filter(|name| *name == "NAK").count(), 1);
    told.retain(|name| name != "NAK");
    assert_eq!(told, names(&whole).0);
    assert_eq!(summary.packets_lost, 0);
    assert!(summary.is_complete());
}

/// Each time, all packets behind the lost one come again.
#[test]
fn packet_that_is_lost_on_the_wire_several_times_loses_nothing() {
    let first = [memory(0x7000, 9, 300 * 1024), vec![7; 1024]].concat();
    let write: Vec<Vec<u8>> = (0..300)
        .map(|index| match index {
            0 => sent(CLIENT, SERVER, WRITE_FIRST, index, &first),
            299 => sent(CLIENT, SERVER, WRITE_LAST, index, &[7; 1024]),
            _ => sent(CLIENT, SERVER, WRITE_MIDDLE, index, &[7; 1024]),
        })
        .collect();
    let nak = acknowledged(SERVER, CLIENT, 0x60, 3);
    let mut packets = [connected(), write[..3].to_vec()].concat();
    for _ in 0..3 {
        packets.extend_from_slice(&write[4..130]);
        packets.push(nak.clone());
    }
    packets.extend_from_slice(&write[3..]);
    let (names, summary) = names(&packets);
    assert_eq!(names.last().map(String::as_str), Some("RDMA_WRITE"));
    assert_eq!(summary.packets_lost, 0);
    assert!(summary.is_complete());
}

#[test]
fn packet_that_the_capture_lacks_is_a_gap_up_to_its_acknowledgement() {
    let mut packets = [connected(), large_put()].concat();
    packets.remove(3);
    packets.push(sent(
        CLIENT,
        SERVER,
        SEND_ONLY,
        5,
        &immediate(CLIENT, SERVER, b"x"),
    ));
    let (names, summary) = names(&packets);
    let due = ["CM_REQ", "CM_REP", "CM_RTU", "PUT_ACK", "GAP", "IMMEDIATE"];
    assert_eq!(names, due);
    assert_eq!(summary.packets_lost, 5);
}

#[test]
fn capture_of_one_direction_goes_on_behind_a_gap() {
    let message = immediate(CLIENT, SERVER, b"x");
    let indices = (0..3).chain(4..2400);
    let only = |index| sent(CLIENT, SERVER, SEND_ONLY, index, &message);
    let packets: Vec<Vec<u8>> = indices.map(only).collect();
    let (names, summary) = names(&packets);
    assert_eq!(names.iter().filter(|name| *name == "GAP").count(), 1);
    assert_eq!(summary.joined, 1);
    let decoded = names.iter().filter(|name| *name == "IMMEDIATE").count() as u64;
    assert_eq!(decoded + summary.packets_lost, 2400);
    assert!(decoded > 1300, "{decoded}");
}

#[test]
fn connection_that_began_before_the_capture_is_joined_at_a_message() {
    let (names, summary) = names(&large_put());
    assert_eq!(names, ["PUT_REQ", "PUT_ACK", "RDMA_WRITE", "PUT_DONE"]);
    // Each direction is one.
    assert_eq!((summary.connections, summary.joined), (2, 2));
}

#[test]
fn connections_to_other_services_are_not_ours() {
    let packets = [
        roce::request(CLIENT, SERVER, 4420),
        roce::reply(SERVER, CLIENT),
        sent(CLIENT, SERVER, SEND_ONLY, 0, b"another protocol"),
    ];
    let (names, summary) = names(&packets);
    assert_eq!((names.len(), summary.connections), (0, 0));
}

// [IB-17]
#[test]
fn rejection_says_lnets_reason_or_that_of_the_connection_manager() {
    let parameters = Parameters {
        queue_depth: 4,
        fragments: 257,
        message_size: 4096,
    };
    let rejection = Rejection {
        version: 0x12,
        reason: RejectionReason::MsgQueueSize,
        incarnation: 3,
        parameters,
    };
    for (reason, text) in [
        (
            28,
            "rejected: MsgQueueSize; the most is queue depth 4, 257 fragments, messages of 4096 bytes",
        ),
        (
            8,
            "rejected: nobody listens at this port (invalid service ID)",
        ),
    ] {
        let packets = [
            roce::request(CLIENT, SERVER, 987),
            roce::rejection(SERVER, CLIENT, reason, &rejection),
        ];
        let (lines, summary) = lines(RAW, &packets);
        assert!(lines[1].ends_with(text), "{}", lines[1]);
        assert_eq!(summary.rejected, 1);
    }
}

#[test]
fn message_that_is_broken_is_named_and_counts_as_not_decoded() {
    let mut message = immediate(CLIENT, SERVER, b"x");
    message[6] = 0x77;
    let packets = [
        connected(),
        vec![sent(CLIENT, SERVER, SEND_ONLY, 0, &message)],
    ]
    .concat();
    let (names, summary) = names(&packets);
    assert_eq!(names.last().map(String::as_str), Some("BROKEN"));
    assert_eq!(summary.bytes.undecoded, message.len() as u64);
}

/// InfiniBand frames with local addresses only, and with global ones.
#[test]
fn frames_of_infiniband_are_read_with_both_kinds_of_addresses() {
    let rdma = |ip: Vec<u8>| ip[28..].to_vec();
    let local = |ip: Vec<u8>| {
        let rdma = rdma(ip);
        let words = ((8 + rdma.len()) / 4) as u16;
        let mut frame = vec![0, 2, 0, 5];
        frame.extend(words.to_be_bytes());
        frame.extend([0, 6]);
        frame.extend(rdma);
        frame.extend([0, 0]);
        frame
    };
    let global = |ip: Vec<u8>| {
        let rdma = rdma(ip);
        let words = ((48 + rdma.len()) / 4) as u16;
        let mut frame = vec![0, 3, 0, 5];
        frame.extend(words.to_be_bytes());
        frame.extend([0, 6]);
        frame.extend([0x60; 8]);
        frame.extend([[0xFE; 16], [0xFD; 16]].concat());
        frame.extend(rdma);
        frame
    };
    let message = immediate(CLIENT, SERVER, b"abc");
    let packet = sent(CLIENT, SERVER, SEND_ONLY, 0, &message);
    let frames = [local(packet.clone()), global(packet)];
    let (lines, summary) = lines(INFINIBAND, &frames);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines
            .iter()
            .all(|line| line.contains("IMMEDIATE PUT portal 4"))
    );
    assert_eq!((summary.connections, summary.bytes.decoded), (2, 2 * 123));
}

/// Ethernet frames of RoCE version 1: a global route header behind the EtherType, with padding behind the packet.
#[test]
fn frames_of_roce_version_1_are_read() {
    let message = immediate(CLIENT, SERVER, b"abc");
    let rdma = sent(CLIENT, SERVER, SEND_ONLY, 0, &message).split_off(28);
    let mut frame = vec![0; 12];
    frame.extend([0x89, 0x15, 0x60, 0, 0, 0]);
    frame.extend((rdma.len() as u16).to_be_bytes());
    frame.extend([0x1B, 64]);
    frame.extend([[0xFE; 16], [0xFD; 16]].concat());
    frame.extend(rdma);
    frame.extend([0; 5]);
    const ETHERNET: u32 = 1;
    let (lines, summary) = lines(ETHERNET, &[frame]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("IMMEDIATE PUT portal 4"), "{lines:?}");
    assert_eq!(summary.bytes.decoded, 123);
}

#[test]
fn connections_and_messages_beyond_the_limits_are_forgotten() {
    let first = immediate(CLIENT, SERVER, &[1; 1500]);
    let begun = |qp| roce::packet(CLIENT, SERVER, SEND_FIRST, qp, 0, &first[..1024]);
    let packets: Vec<Vec<u8>> = (0..20_000).map(begun).collect();
    let (names, summary) = names(&packets);
    assert_eq!((names.len(), summary.connections), (0, 20_000));
    assert_eq!(summary.bytes.cut, 20_000 * 1024);
}

#[test]
fn every_beginning_of_every_packet_is_read_without_harm() {
    let packets = [connected(), large_put()].concat();
    for packet in &packets {
        for len in 0..packet.len() {
            let mut until = packets.clone();
            until.insert(3, packet[..len].to_vec());
            lines(RAW, &until);
        }
    }
}

proptest! {
    /// Any bytes behind the UDP header, among the packets of a conversation.
    #[test]
    fn any_packet_is_read_without_harm(opcode: u8, qp in 0_u32..0x30, psn: u32, rest in proptest::collection::vec(any::<u8>(), 0..400)) {
        let strange = roce::packet(CLIENT, SERVER, opcode, qp, psn & 0xFF_FFFF, &rest);
        let mut packets = [connected(), large_put()].concat();
        packets.insert(4, strange);
        lines(RAW, &packets);
    }
}
