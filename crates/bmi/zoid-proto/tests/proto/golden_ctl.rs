//! Commands and replies, byte for byte.

use zoid_proto::ctl::{
    Completion, Init, InitReply, Opcode, Post, PostOutcome, Reply, ReplyHeader, Request,
    RequestHeader, Test, TestReply, TestSelection, UnexpectedMessage, UnexpectedTest,
};
use zoid_proto::{Array, Extent, List, Status};

use crate::{command, decode_command, decode_reply, hex, reply};

/// Checks a command of [`command`]: opcode, length, slot, and the body after the header.
fn check_command(request: &Request<'_>, start: &str, flags: &str, body: &str) {
    let expected = hex(&format!(
        "5a424d31 0100 {start} 5100000000000000 0900000000000000 {flags} {body}"
    ));
    assert_eq!(command(request), expected, "{request:?}");
    assert_eq!(decode_command(&expected).as_ref(), Ok(request));
}

/// Checks a reply of [`reply`].
fn check_reply(opcode: Opcode, body: &Reply<'_>, start: &str, rest: &str) {
    let expected = hex(&format!(
        "5a425231 0100 {start} 00000000 5100000000000000 0900000000000000 0e00000000000000 {rest}"
    ));
    assert_eq!(reply(opcode, body), expected, "{body:?}");
    assert_eq!(decode_reply(&expected).as_ref(), Ok(body));
}

const NO_FLAGS: &str = "0000000000000000";
const SPILL: &str = "0100000000000000";

// [CTL-10]
#[test]
fn r51_init() {
    let init = Init {
        unix_pid: 17,
        uid: 1000,
        library_version: 1,
        reply_queue: "/zbmi.a.rep.17.0",
    };
    check_command(
        &Request::Init(init),
        "0100 46000000 02000000",
        NO_FLAGS,
        "11000000 e8030000 01000000 1000 2f7a626d692e612e7265702e31372e30",
    );
    let init = InitReply {
        session: 0x51,
        epoch: 0xE,
        total: 512 << 20,
        unexpected: 1 << 20,
        max_unexpected: 8192,
        max_expected: 128 << 20,
        heartbeat_ms: 2000,
        pset_capacity: 256,
    };
    check_reply(
        Opcode::INIT,
        &Reply::Init(init),
        "0180 60000000",
        "5100000000000000 0e00000000000000 0000002000000000 0000100000000000
         0020000000000000 0000000800000000 d0070000 00010000",
    );
}

#[test]
fn r51_unexpected_test() {
    let test = UnexpectedTest {
        capacity: 5,
        class: 3,
        idle_ms: 1000,
    };
    check_command(
        &Request::UnexpectedTest(test),
        "0200 34000000 02000000",
        NO_FLAGS,
        "05000000 03 000000 e8030000",
    );
    let message = UnexpectedMessage {
        peer: 4,
        tag: -2,
        class: 3,
        generation: 6,
        offset: 8192,
        size: 300,
    };
    check_reply(
        Opcode::UNEXP_TEST,
        &Reply::UnexpectedTest(List::new(&[message])),
        "0280 50000000",
        "01000000 00000000 04000000 feffffff 03 000000 06000000
         0020000000000000 2c01000000000000",
    );
}

#[test]
fn r51_unexpected_free() {
    check_command(
        &Request::UnexpectedFree { offset: 8192 },
        "0300 30000000 ffffffff",
        NO_FLAGS,
        "0020000000000000",
    );
}

#[test]
fn r58_a_post_is_registered() {
    let segments = [
        Extent {
            offset: 0x10_0000,
            len: 300,
        },
        Extent {
            offset: 0x10_1000,
            len: 4,
        },
    ];
    let post = Post {
        bmi_id: 0xB,
        peer: 4,
        tag: -2,
        not_immediate: true,
        total: 304,
        segments: Array::inline(&segments),
    };
    let body = "0b00000000000000 04000000 feffffff 01000000 02000000 3001000000000000
                0000100000000000 2c01000000000000 0010100000000000 0400000000000000";
    let start = "68000000 02000000";
    check_command(
        &Request::PostSend(post),
        &format!("0400 {start}"),
        NO_FLAGS,
        body,
    );
    check_command(
        &Request::PostRecv(post),
        &format!("0500 {start}"),
        NO_FLAGS,
        body,
    );
}

// [CTL-16]
#[test]
fn r58_a_long_list_of_segments_stands_in_the_segment() {
    let place = Extent {
        offset: 0x20_0000,
        len: 16 * 1000,
    };
    let post = Post {
        bmi_id: 0xB,
        peer: 4,
        tag: 1,
        not_immediate: false,
        total: 304,
        segments: Array::Spilled(place),
    };
    check_command(
        &Request::PostRecv(post),
        "0500 58000000 02000000",
        SPILL,
        "0b00000000000000 04000000 01000000 00000000 e8030000 3001000000000000
         0000200000000000 803e000000000000",
    );
}

#[test]
fn r58_what_became_of_a_post() {
    let outcomes = [
        (PostOutcome::NoMemory, "0000000000000000 0000000000000000"),
        (
            PostOutcome::Immediate { len: 300 },
            "ffffffffffffffff 2c01000000000000",
        ),
        (
            PostOutcome::Registered { plugin_id: 7 },
            "0700000000000000 0000000000000000",
        ),
    ];
    for (outcome, body) in outcomes {
        check_reply(
            Opcode::POST_SEND,
            &Reply::Post(outcome),
            "0480 38000000",
            body,
        );
    }
}

#[test]
fn r51_test_of_these_operations() {
    let test = Test {
        timeout_ms: 1000,
        wake_on_unexpected: true,
        selection: TestSelection::These(Array::inline(&[0xB, 0xC])),
    };
    check_command(
        &Request::Test(test),
        "0600 48000000 02000000",
        NO_FLAGS,
        "e8030000 02000000 01000000 00000000 0b00000000000000 0c00000000000000",
    );
}

// [CTL-18]
#[test]
fn r64_test_of_any_operations_has_a_negative_count() {
    let test = Test {
        timeout_ms: 0,
        wake_on_unexpected: false,
        selection: TestSelection::Any { capacity: 64 },
    };
    check_command(
        &Request::Test(test),
        "0600 38000000 02000000",
        NO_FLAGS,
        "00000000 c0ffffff 00000000 00000000",
    );
}

// [CTL-20]
#[test]
fn r59_completions_carry_the_servers_ids() {
    let completions = [
        Completion {
            bmi_id: 0xB,
            outcome: Ok(300),
        },
        Completion {
            bmi_id: 0xC,
            outcome: Err(Status::CANCELLED),
        },
    ];
    let test = TestReply {
        unexpected_pending: true,
        woken: true,
        completions: List::new(&completions),
    };
    check_reply(
        Opcode::TEST,
        &Reply::Test(test),
        "0680 50000000",
        "02000000 03000000 0b00000000000000 2c01000000000000
         0c00000000000000 7fffff9fffffffff",
    );
}

// [CTL-20]
#[test]
fn r51_the_small_commands() {
    check_command(
        &Request::Cancel { plugin_id: 7 },
        "0700 30000000 ffffffff",
        NO_FLAGS,
        "0700000000000000",
    );
    check_command(&Request::Fini, "0800 28000000 02000000", NO_FLAGS, "");
    check_command(
        &Request::Stat { first: 3 },
        "0900 2c000000 02000000",
        NO_FLAGS,
        "03000000",
    );
    check_command(
        &Request::DropPeer {
            peer: -1,
            disconnect: true,
        },
        "0a00 30000000 02000000",
        NO_FLAGS,
        "ffffffff 01000000",
    );
    check_command(&Request::Wake, "0b00 28000000 ffffffff", NO_FLAGS, "");
    check_command(
        &Request::Recall { bmi_id: 7 },
        "0c00 30000000 ffffffff",
        NO_FLAGS,
        "0700000000000000",
    );
    check_reply(Opcode::FINI, &Reply::Empty, "0880 28000000", "");
    check_reply(Opcode::DROP_PEER, &Reply::Empty, "0a80 28000000", "");
    let stat = Reply::Stat {
        counters: 9,
        values: List::new(&[1, 2]),
    };
    check_reply(
        Opcode::STAT,
        &stat,
        "0980 40000000",
        "02000000 09000000 0100000000000000 0200000000000000",
    );
}

#[test]
fn a_refusal_names_the_command_it_answers_and_has_no_body() {
    let request = command(&Request::Stat { first: 0 });
    let header = RequestHeader::decode(&request).unwrap();
    let mut bytes = [0; ReplyHeader::LEN];
    let rejection = ReplyHeader::rejection(&header, Status::INVALID, 0xE);
    assert_eq!(rejection.encode(&mut bytes), Ok(40));
    let expected = hex(
        "5a425231 0100 0980 28000000 71ffffbf 5100000000000000 0900000000000000 0e00000000000000",
    );
    assert_eq!(bytes, *expected);
    assert_eq!(decode_reply(&bytes), Ok(Reply::Empty));
}
