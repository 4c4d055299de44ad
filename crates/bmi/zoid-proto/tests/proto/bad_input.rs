//! Every wrong length and every number outside its range is rejected, with its offset.

use proptest::prelude::*;
use zoid_proto::ctl::{
    CTL_MESSAGE_LEN, Completion, INLINE_IDS, INLINE_SEGMENTS, Init, InitReply, Opcode, Post,
    PostOutcome, Reply, ReplyHeader, Request, RequestHeader, Test, TestReply, TestSelection,
    UnexpectedMessage, UnexpectedTest,
};
use zoid_proto::fwd::{
    Caps, Data, Event, Frame, FrameHeader, FrameType, Grant, Hello, MAX_CHUNK, MemoryPart,
    MessageKind, Place, Places, Readiness, RecvReply, RecvReq, SendInline, SendReq, TestEntry,
    TestReq, Welcome,
};
use zoid_proto::{Array, DecodeError, EncodeError, Extent, List, Status};

use crate::{command, decode_command, decode_frame, decode_reply, frame, reply};

const SEGMENTS: &[Extent] = &[Extent {
    offset: 0x10_0000,
    len: 300,
}];

const POST: Post<'static> = Post {
    bmi_id: 11,
    peer: 4,
    tag: 1,
    not_immediate: false,
    total: 300,
    segments: Array::inline(SEGMENTS),
};

fn commands() -> Vec<Vec<u8>> {
    let init = Init {
        unix_pid: 17,
        uid: 1000,
        library_version: 1,
        reply_queue: "/zbmi.a.rep.17.0",
    };
    let test = |selection| {
        Request::Test(Test {
            timeout_ms: 1000,
            wake_on_unexpected: true,
            selection,
        })
    };
    let spilled = Post {
        segments: Array::Spilled(Extent { offset: 0, len: 16 }),
        ..POST
    };
    [
        Request::Init(init),
        Request::UnexpectedTest(UnexpectedTest {
            capacity: 1,
            class: 0,
            idle_ms: 0,
        }),
        Request::UnexpectedFree { offset: 0 },
        Request::PostSend(POST),
        Request::PostRecv(spilled),
        test(TestSelection::Any { capacity: 3 }),
        test(TestSelection::These(Array::inline(&[1, 2]))),
        Request::Cancel { plugin_id: 1 },
        Request::Fini,
        Request::Stat { first: 0 },
        Request::DropPeer {
            peer: 0,
            disconnect: false,
        },
        Request::Wake,
        Request::Recall { bmi_id: 1 },
    ]
    .iter()
    .map(command)
    .collect()
}

fn replies() -> Vec<Vec<u8>> {
    let message = UnexpectedMessage {
        peer: 1,
        tag: 2,
        class: 0,
        generation: 0,
        offset: 0,
        size: 1,
    };
    let completions = [Completion {
        bmi_id: 1,
        outcome: Ok(1),
    }];
    let test = TestReply {
        unexpected_pending: false,
        woken: false,
        completions: List::new(&completions),
    };
    let init = InitReply {
        session: 1,
        epoch: 1,
        total: 1,
        unexpected: 0,
        max_unexpected: 0,
        max_expected: 0,
        heartbeat_ms: 0,
        pset_capacity: 0,
    };
    let registered = PostOutcome::Registered { plugin_id: 1 };
    vec![
        reply(Opcode::INIT, &Reply::Init(init)),
        reply(
            Opcode::UNEXP_TEST,
            &Reply::UnexpectedTest(List::new(&[message])),
        ),
        reply(Opcode::POST_RECV, &Reply::Post(registered)),
        reply(Opcode::TEST, &Reply::Test(test)),
        reply(
            Opcode::STAT,
            &Reply::Stat {
                counters: 1,
                values: List::new(&[1]),
            },
        ),
        reply(Opcode::FINI, &Reply::Empty),
    ]
}

const SEND: SendReq = SendReq {
    kind: MessageKind::Expected,
    class: 0,
    tag: 0,
    total: 0,
    timeout_ms: 0,
    order: 0,
};

fn frames() -> Vec<Vec<u8>> {
    let entries = [TestEntry::Recv {
        tag: 1,
        multiplicity: 1,
    }];
    let hello = Hello {
        version_min: 1,
        version_max: 1,
        caps: Caps::empty(),
        uuid: [0; 16],
        unix_pid: 1,
        previous_epoch: 0,
        previous_pid: -1,
        job: 0,
    };
    let recv = RecvReq {
        tag: 0,
        capacity: 0,
        timeout_ms: 0,
        order: 0,
    };
    [
        Frame::Hello(hello),
        Frame::Welcome(Welcome::default()),
        Frame::SendReq(SEND),
        Frame::Grant(Grant {
            grant: 1,
            place: Place::Memory,
        }),
        Frame::Data(Data {
            grant: 1,
            offset: 0,
        }),
        Frame::Abort { grant: 1 },
        Frame::SendDone,
        Frame::RecvReq(recv),
        Frame::RecvReply(RecvReply {
            total: 300,
            grant: 1,
            place: Place::Memory,
        }),
        Frame::RecvAck { grant: 1 },
        Frame::TestReq(TestReq {
            timeout_ms: 0,
            entries: List::new(&entries),
        }),
        Frame::TestReply(Readiness {
            ready: 1,
            counts: List::new(&[1]),
        }),
        Frame::Event(Event::Draining),
        Frame::Bye,
        Frame::Places(Places {
            grant: 1,
            parts: List::new(&[MemoryPart { address: 8, len: 4 }]),
        }),
        Frame::SendInline(SendInline {
            request: SendReq { total: 3, ..SEND },
            message: b"abc",
        }),
    ]
    .iter()
    .map(|body| frame(body, Status::NONE))
    .collect()
}

/// Sets the length field of a command or reply to its actual length.
fn relength(bytes: &mut [u8]) {
    let len = u32::try_from(bytes.len()).unwrap();
    if let Some(field) = bytes.get_mut(8..12) {
        field.copy_from_slice(&len.to_le_bytes());
    }
}

// [CTL-14]
#[test]
fn commands_and_replies_cut_or_prolonged_at_any_byte_are_refused() {
    for good in commands() {
        for len in (0..good.len()).chain([good.len() + 1, good.len() + 16]) {
            let mut bad = good.clone();
            bad.resize(len, 0);
            assert!(decode_command(&bad).is_err(), "length field, {len}");
            relength(&mut bad);
            let error = decode_command(&bad).unwrap_err();
            assert!(error.offset <= len, "{error}");
        }
    }
    for good in replies() {
        for len in (0..good.len()).chain([good.len() + 1, good.len() + 16]) {
            let mut bad = good.clone();
            bad.resize(len, 0);
            relength(&mut bad);
            let error = decode_reply(&bad).unwrap_err();
            assert!(error.offset <= len, "{error}");
        }
    }
}

// [FWD-4]
#[test]
fn frames_cut_or_prolonged_at_any_byte_are_refused() {
    for good in frames() {
        for cut in 0..FrameHeader::LEN {
            assert_eq!(FrameHeader::decode(&good[..cut]).unwrap_err().offset, cut);
        }
        for len in (FrameHeader::LEN..good.len()).chain([good.len() + 1, good.len() + 24]) {
            let mut bad = good.clone();
            bad.resize(len, 0);
            let error = decode_frame(&bad).unwrap_err();
            assert!(error.offset <= len - FrameHeader::LEN, "{error}");
        }
    }
}

/// Returns `bytes` with `value` at `at`.
fn with<const N: usize>(bytes: &[u8], at: usize, value: [u8; N]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + N].copy_from_slice(&value);
    bytes
}

fn check(error: DecodeError, offset: usize, text: &str) {
    assert_eq!(error.offset, offset, "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn bad_headers_of_commands_are_refused_where_they_are_bad() {
    let good = command(&Request::Fini);
    let refused = |bytes: &[u8]| decode_command(bytes).unwrap_err();
    check(refused(&with(&good, 0, [0xFF])), 0, "bad magic");
    check(refused(&with(&good, 4, [2])), 4, "unknown version 2");
    check(refused(&with(&good, 8, [41])), 8, "length 41");
    check(refused(&with(&good, 6, [13])), 6, "unknown opcode 0xd");
    let mut long = good.clone();
    long.resize(CTL_MESSAGE_LEN + 1, 0);
    relength(&mut long);
    check(refused(&long), CTL_MESSAGE_LEN, "1 bytes too many");
    let header = RequestHeader::decode(&with(&good, 6, [13])).unwrap();
    assert_eq!(header.opcode.to_string(), "opcode 13");
}

#[test]
fn bad_headers_of_replies_are_refused_where_they_are_bad() {
    let good = reply(Opcode::FINI, &Reply::Empty);
    let refused = |bytes: &[u8]| decode_reply(bytes).unwrap_err();
    check(refused(&with(&good, 0, [0xFF])), 0, "bad magic");
    check(refused(&with(&good, 7, [0])), 6, "reply opcode");
    check(refused(&with(&good, 6, [7])), 6, "unknown reply opcode");
    let status = Status::INVALID.0.to_le_bytes();
    let with_body = reply(Opcode::POST_SEND, &Reply::Post(PostOutcome::NoMemory));
    check(
        refused(&with(&with_body, 12, status)),
        40,
        "16 bytes too many",
    );
    assert!(ReplyHeader::decode(&good).is_ok());
}

#[test]
fn numbers_of_commands_outside_their_range_are_refused_where_they_stand() {
    let refused = |index: usize, at, value: u32| {
        decode_command(&with(&commands()[index], at, value.to_le_bytes())).unwrap_err()
    };
    check(refused(0, 52, 0x2F00_0000), 52, "name length 0");
    check(refused(0, 52, 0x2F00_0100), 52, "name length 256");
    check(refused(1, 40, 0), 40, "capacity 0");
    check(refused(1, 48, u32::MAX), 48, "idle ms -1");
    check(refused(3, 60, 0), 72, "16 bytes too many");
    check(refused(3, 60, 251), 60, "segment count 251");
    check(refused(3, 64, 299), 64, "total says 299, the rest says 300");
    check(
        refused(4, 60, 2),
        80,
        "segment count says 32, the rest says 16",
    );
    check(refused(5, 40, 1 << 31), 40, "timeout ms -2147483648");
    check(refused(5, 44, 0), 44, "id count 0");
    check(refused(5, 44, 1 << 31), 44, "id count -2147483648");
    check(refused(6, 44, 501), 44, "id count 501");
    check(refused(6, 44, 1), 64, "8 bytes too many");
}

#[test]
fn a_name_that_is_no_text_is_refused() {
    let bad = with(&commands()[0], 55, [0xFF]);
    check(
        decode_command(&bad).unwrap_err(),
        54,
        "malformed reply queue name",
    );
}

#[test]
fn totals_that_overflow_or_have_no_segments_are_refused() {
    let segment = |len| Extent { offset: 0, len };
    let segments = [segment(u64::MAX), segment(2)];
    let post = Post {
        total: 1,
        segments: Array::inline(&segments),
        ..POST
    };
    let overflow = command(&Request::PostSend(post));
    check(decode_command(&overflow).unwrap_err(), 64, "total says 1");
    for segments in [
        Array::inline(&[]),
        Array::Spilled(Extent { offset: 0, len: 0 }),
    ] {
        let nothing = command(&Request::PostSend(Post { segments, ..POST }));
        check(decode_command(&nothing).unwrap_err(), 64, "total says 300");
    }
}

// [CTL-17]
#[test]
fn numbers_of_replies_outside_their_range_are_refused_where_they_stand() {
    let refused = |index: usize, at, value: u64| {
        decode_reply(&with(&replies()[index], at, value.to_le_bytes())).unwrap_err()
    };
    check(refused(1, 40, 127), 40, "count 127");
    check(refused(2, 40, (-2_i64).cast_unsigned()), 40, "plugin id -2");
    check(refused(3, 40, 253), 40, "count 253");
    check(refused(3, 56, 1 << 63), 56, "length -9223372036854775808");
    check(refused(4, 40, 501), 40, "count 501");
    let immediate = reply(
        Opcode::POST_SEND,
        &Reply::Post(PostOutcome::Immediate { len: 1 }),
    );
    let negative = decode_reply(&with(&immediate, 48, [0xFF; 8])).unwrap_err();
    check(negative, 48, "length -1");
}

/// Returns the error for the frame at `index` of [`frames`] with four bytes of its body replaced.
fn refused_body(index: usize, at: usize, value: u32) -> DecodeError {
    let bytes = with(&frames()[index], FrameHeader::LEN + at, value.to_le_bytes());
    decode_frame(&bytes).unwrap_err()
}

// [FWD-4]
#[test]
fn numbers_of_frames_outside_their_range_are_refused_where_they_stand() {
    check(refused_body(0, 0, 2 | 1 << 16), 2, "newest version 1");
    check(refused_body(2, 0, 2), 0, "unknown kind 0x2");
    check(refused_body(2, 16, u32::MAX), 16, "timeout ms -1");
    check(refused_body(3, 8, 3), 8, "unknown mode 0x3");
    check(refused_body(3, 8, 1), 8, "unknown mode 0x1");
    check(refused_body(7, 16, 1 << 31), 16, "timeout ms");
    check(refused_body(8, 16, 1), 16, "unknown mode 0x1");
    check(refused_body(10, 0, u32::MAX), 0, "timeout ms -1");
    check(refused_body(10, 4, 43_691), 4, "count 43691");
    check(refused_body(10, 12, 3), 12, "unknown direction 0x3");
    check(
        refused_body(10, 12, 2 | 1 << 8),
        12,
        "unknown direction 0x2",
    );
    check(refused_body(10, 12, 1 | 2 << 8), 13, "unknown kind 0x2");
    check(refused_body(10, 12, 1 | 1 << 8), 16, "size -1");
    check(refused_body(10, 16, 5), 16, "size");
    check(refused_body(10, 24, 0), 24, "multiplicity 0");
    check(refused_body(11, 4, 43_691), 4, "count 43691");
    check(refused_body(14, 8, 65_536), 8, "part count 65536");
    let credits = frame(&Frame::Event(Event::Credits(1)), Status::NONE);
    let bad = with(&credits, FrameHeader::LEN + 12, [1]);
    check(decode_frame(&bad).unwrap_err(), 8, "credits");
}

// [FWD-3]
#[test]
fn bad_frame_headers_are_refused_where_they_are_bad() {
    let good = frame(&Frame::Ping, Status::NONE);
    let unsummed = with(&good, 20, [0; 4]);
    let refused = |bytes: &[u8]| FrameHeader::decode(bytes).unwrap_err();
    check(refused(&with(&good, 0, [0])), 0, "bad magic");
    check(refused(&with(&good, 4, [2])), 4, "unknown version 2");
    check(refused(&with(&good, 8, [6])), 20, "checksum");
    check(
        refused(&with(&unsummed, 16, [1, 0, 0x10])),
        16,
        "body length 1048577",
    );
    check(refused(&with(&unsummed, 24, [1])), 24, "payload length 1");
    let data = with(&unsummed, 5, [FrameType::DATA.0]);
    assert!(FrameHeader::decode(&with(&data, 24, MAX_CHUNK.to_le_bytes())).is_ok());
    let over = with(&data, 24, (MAX_CHUNK + 1).to_le_bytes());
    check(refused(&over), 24, "payload length 4194305");
    let unknown = FrameHeader::decode(&with(&unsummed, 5, [99])).unwrap();
    assert_eq!(unknown.frame_type.to_string(), "frame type 99");
    check(
        Frame::decode(&unknown, &[]).unwrap_err(),
        0,
        "unknown frame type 0x63",
    );
}

// [FWD-2]
#[test]
fn every_flipped_bit_of_a_frame_header_is_noticed() {
    let good = frame(&Frame::Wake, Status::DONE);
    for bit in 0..FrameHeader::LEN * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(FrameHeader::decode(&bad).is_err(), "bit {bit}");
    }
}

#[test]
fn encoders_refuse_what_receivers_refuse() {
    let too_large = |result: Result<usize, EncodeError>, name: &str| {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("is above") && text.contains(name), "{text}");
    };
    let mut buffer = vec![0; 1 << 21];
    let header = RequestHeader::decode(&command(&Request::Fini)).unwrap();
    let segments = vec![Extent::default(); INLINE_SEGMENTS + 8];
    let post = Post {
        total: 0,
        segments: Array::inline(&segments),
        ..POST
    };
    too_large(
        Request::PostSend(post).encode(header, &mut buffer),
        "command length",
    );
    let ids = vec![0; INLINE_IDS + 20];
    let test = Test {
        timeout_ms: 0,
        wake_on_unexpected: false,
        selection: TestSelection::These(Array::inline(&ids)),
    };
    too_large(
        Request::Test(test).encode(header, &mut buffer),
        "command length",
    );
    let idle = UnexpectedTest {
        capacity: 1,
        class: 0,
        idle_ms: 1 << 31,
    };
    too_large(
        Request::UnexpectedTest(idle).encode(header, &mut buffer),
        "timeout ms",
    );
    let payload = FrameHeader {
        payload_len: 1,
        ..FrameHeader::new(FrameType::PING, 1)
    };
    too_large(Frame::Ping.encode(payload, &mut buffer), "payload length");
}

#[test]
fn a_short_buffer_is_refused_and_untouched() {
    let mut buffer = [0xEE; 63];
    let short = EncodeError::BufferTooSmall {
        needed: 64,
        available: 63,
    };
    let recv = Frame::RecvReq(RecvReq {
        tag: 0,
        capacity: 0,
        timeout_ms: 0,
        order: 0,
    });
    let header = FrameHeader::new(FrameType::RECV_REQ, 1);
    assert_eq!(recv.encode(header, &mut buffer), Err(short));
    assert_eq!(buffer, [0xEE; 63]);
}

proptest! {
    #[test]
    fn random_bytes_behind_a_good_header_never_panic(
        index in 0..12_usize,
        edits in prop::collection::vec((40..4096_usize, any::<u8>()), 1..6),
        len in 40..4096_usize,
    ) {
        let mut bytes = commands()[index].clone();
        bytes.resize(len, 0);
        relength(&mut bytes);
        for (at, value) in edits {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        if let Err(error) = decode_command(&bytes) {
            prop_assert!(error.offset <= bytes.len());
        }
    }

    #[test]
    fn random_bodies_of_frames_never_panic(kind: u8, body in prop::collection::vec(any::<u8>(), 0..200)) {
        let header = FrameHeader::new(FrameType(kind % 20), 1);
        if let Err(error) = Frame::decode(&header, &body) {
            prop_assert!(error.offset <= body.len());
        }
    }
}

#[test]
fn memory_beyond_the_last_address_is_refused_and_sums_do_not_wrap() {
    let part = |address, len| MemoryPart { address, len };
    let encoded = |parts: &[MemoryPart]| {
        let parts = List::new(parts);
        let places = Frame::Places(Places { grant: 1, parts });
        let mut bytes = vec![0; places.encoded_len()];
        let header = FrameHeader::new(FrameType::PLACES, 0);
        places.encode(header, &mut bytes).map(|_| bytes)
    };
    assert!(encoded(&[part(u64::MAX, 1)]).is_err());
    let mut bytes = encoded(&[part(8, 8)]).unwrap();
    bytes[FrameHeader::LEN + 16..][..8].fill(0xFF);
    check(decode_frame(&bytes).unwrap_err(), 24, "length 8");
    let halves = [part(0, u64::MAX), part(0, 1)];
    let places = Places {
        grant: 1,
        parts: List::new(&halves),
    };
    assert_eq!(places.total(), None);
    let many = vec![part(8, 1); Places::PARTS_MAX + 1];
    assert!(encoded(&many).is_err());
    assert!(encoded(&many[1..]).is_ok());
}
