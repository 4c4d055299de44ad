//! Frames, byte for byte.

use zoid_proto::fwd::{
    Caps, Data, Event, Frame, FrameFlags, FrameHeader, FrameType, Grant, Hello, MemoryPart,
    MessageKind, Place, Places, Readiness, RecvReply, RecvReq, SendInline, SendReq, TestEntry,
    TestReq, Welcome,
};
use zoid_proto::{List, Status};

use crate::{decode_frame, frame, hex};

/// Checks a frame of request 5: type, status, body length, and the body. The checksum is computed separately.
fn check(body: &Frame<'_>, status: Status, start: &str, len: &str, rest: &str) {
    let mut expected = hex(&format!(
        "5a465731 01 {start} 0000 05000000 {} {len} 00000000 0000000000000000 {rest}",
        hex_of(status)
    ));
    let sum = bitwise_crc32c(&[&expected[..20], &expected[24..32]].concat());
    expected[20..24].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(frame(body, status), expected, "{body:?}");
    assert_eq!(decode_frame(&expected).as_ref(), Ok(body));
    assert_eq!(FrameHeader::decode(&expected).unwrap().status, status);
}

fn hex_of(status: Status) -> String {
    status
        .0
        .to_le_bytes()
        .map(|byte| format!("{byte:02x}"))
        .concat()
}

/// The Castagnoli checksum by its definition, independent of the encoder's crate.
fn bitwise_crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg());
    !bytes
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

// [FWD-2]
#[test]
fn r51_the_checksum_is_the_published_one() {
    assert_eq!(bitwise_crc32c(b"123456789"), 0xE306_9283);
    let ping = frame(&Frame::Ping, Status::NONE);
    assert_eq!(
        ping[20..24],
        bitwise_crc32c(&[&ping[..20], &ping[24..]].concat()).to_le_bytes()
    );
}

#[test]
fn r51_hello_and_welcome() {
    let hello = Hello {
        version_min: 1,
        version_max: 2,
        caps: Caps::MULTIPLEX,
        uuid: *b"0123456789abcdef",
        unix_pid: 17,
        previous_epoch: 0xE,
        previous_pid: -1,
        job: 3,
    };
    check(
        &Frame::Hello(hello),
        Status::NONE,
        "01",
        "30000000",
        "0100 0200 01000000 30313233343536373839616263646566 11000000 00000000
         0e00000000000000 ffffffff 03000000",
    );
    let welcome = Welcome {
        pid: 4,
        epoch: 0xE,
        server_session: 0x51,
        max_unexpected: 8192,
        max_expected: 128 << 20,
        heartbeat_ms: 2000,
        credits: 2,
        caps: Caps::MULTIPLEX | Caps::QUIET,
        version: 1,
    };
    check(
        &Frame::Welcome(welcome),
        Status::NONE,
        "02",
        "38000000",
        "04000000 00000000 0e00000000000000 5100000000000000 0020000000000000
         0000000800000000 d0070000 02000000 05000000 0100 0000",
    );
}

#[test]
fn r51_the_frames_of_a_send() {
    let send = SendReq {
        kind: MessageKind::Unexpected,
        class: 3,
        tag: -2,
        total: 300,
        timeout_ms: 1000,
        order: 9,
    };
    check(
        &Frame::SendReq(send),
        Status::NONE,
        "03",
        "20000000",
        "01 03 0000 feffffff 2c01000000000000 e8030000 00000000 0900000000000000",
    );
    let grant = Grant {
        grant: 7,
        place: Place::Stream,
    };
    check(
        &Frame::Grant(grant),
        Status::NONE,
        "04",
        "10000000",
        "0700000000000000 00 000000 00000000",
    );
    let data = Data {
        grant: 7,
        offset: 100,
    };
    check(
        &Frame::Data(data),
        Status::NONE,
        "05",
        "10000000",
        "0700000000000000 6400000000000000",
    );
    let abort = Frame::Abort { grant: 7 };
    check(&abort, Status::NONE, "06", "08000000", "0700000000000000");
    check(&Frame::SendDone, Status::DONE, "07", "00000000", "");
    check(&Frame::SendDone, Status::NO_MEMORY, "07", "00000000", "");
}

#[test]
fn r51_the_frames_of_a_receive() {
    let recv = RecvReq {
        tag: 1,
        capacity: 4096,
        timeout_ms: 0,
        order: 9,
    };
    check(
        &Frame::RecvReq(recv),
        Status::NONE,
        "08",
        "20000000",
        "01000000 00000000 0010000000000000 00000000 00000000 0900000000000000",
    );
    let reply = RecvReply {
        total: 300,
        grant: 7,
        place: Place::Stream,
    };
    check(
        &Frame::RecvReply(reply),
        Status::DONE,
        "09",
        "18000000",
        "2c01000000000000 0700000000000000 00 000000 00000000",
    );
    let ack = Frame::RecvAck { grant: 7 };
    check(&ack, Status::DONE, "0a", "08000000", "0700000000000000");
}

#[test]
fn r38_a_test_carries_tag_direction_size_and_timeout() {
    let entries = [
        TestEntry::Send {
            tag: 1,
            multiplicity: 1,
        },
        TestEntry::Recv {
            tag: -2,
            multiplicity: 5,
        },
        TestEntry::Unexpected {
            tag: 3,
            class: 4,
            size: 8192,
            multiplicity: 2,
        },
    ];
    let test = TestReq {
        timeout_ms: 1000,
        entries: List::new(&entries),
    };
    check(
        &Frame::TestReq(test),
        Status::NONE,
        "0b",
        "50000000",
        "e8030000 03000000
         01000000 01 00 00 00 ffffffffffffffff 01000000 00000000
         feffffff 02 00 00 00 ffffffffffffffff 05000000 00000000
         03000000 01 01 04 00 0020000000000000 02000000 00000000",
    );
    let readiness = Readiness {
        ready: 3,
        counts: List::new(&[1, 0, 2]),
    };
    check(
        &Frame::TestReply(readiness),
        Status::NONE,
        "0c",
        "14000000",
        "03000000 03000000 01000000 00000000 02000000",
    );
}

#[test]
fn r51_the_frames_without_an_answer() {
    let empty = |frame, start| check(&frame, Status::NONE, start, "00000000", "");
    empty(Frame::Wake, "0d");
    empty(Frame::Ping, "0f");
    empty(Frame::Pong, "10");
    empty(Frame::Bye, "11");
    let events = [
        (
            Event::ServerAttached(0x51),
            "01000000 00000000 5100000000000000",
        ),
        (
            Event::ServerGone(0x51),
            "02000000 00000000 5100000000000000",
        ),
        (Event::Draining, "03000000 00000000 0000000000000000"),
        (Event::Credits(4), "04000000 00000000 0400000000000000"),
        (Event::Mark(0x51), "05000000 00000000 5100000000000000"),
        (Event::Kept(-2), "06000000 00000000 feffffff00000000"),
        (Event::Unknown(9, 1), "09000000 00000000 0100000000000000"),
    ];
    for (event, body) in events {
        check(&Frame::Event(event), Status::NONE, "0e", "10000000", body);
    }
}

#[test]
fn r51_the_frames_of_a_copy_by_the_daemon() {
    let grant = Grant {
        grant: 7,
        place: Place::Memory,
    };
    check(
        &Frame::Grant(grant),
        Status::NONE,
        "04",
        "10000000",
        "0700000000000000 02 000000 00000000",
    );
    let parts = [MemoryPart {
        address: 0x7000_0000_1000,
        len: 300,
    }];
    let places = Places {
        grant: 7,
        parts: List::new(&parts),
    };
    check(
        &Frame::Places(places),
        Status::NONE,
        "12",
        "20000000",
        "0700000000000000 01000000 00000000 0010000000700000 2c01000000000000",
    );
}

#[test]
fn a_short_message_comes_with_its_request() {
    let request = SendReq {
        kind: MessageKind::Expected,
        class: 0,
        tag: -2,
        total: 3,
        timeout_ms: 500,
        order: 9,
    };
    let message = b"abc";
    check(
        &Frame::SendInline(SendInline { request, message }),
        Status::NONE,
        "13",
        "23000000",
        "00 00 0000 feffffff 0300000000000000 f4010000 00000000 0900000000000000 616263",
    );
}

// [FWD-5]
#[test]
fn unknown_flags_and_caps_survive() {
    let header = FrameHeader {
        flags: FrameFlags::from_bits_retain(0x8001),
        ..FrameHeader::new(FrameType::PING, 5)
    };
    let mut bytes = [0; 32];
    Frame::Ping.encode(header, &mut bytes).unwrap();
    assert_eq!(FrameHeader::decode(&bytes).unwrap().flags.bits(), 0x8001);
    assert_eq!(Caps::from_bits_retain(0x8000_0001).bits(), 0x8000_0001);
}

// [FWD-2]
#[test]
fn a_header_without_a_checksum_is_accepted() {
    let mut bytes = frame(&Frame::Ping, Status::NONE);
    bytes[20..24].fill(0);
    assert_eq!(decode_frame(&bytes), Ok(Frame::Ping));
}
