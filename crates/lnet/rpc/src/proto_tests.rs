//! Tests of the two messages.

use proptest::prelude::*;

use super::*;

fn request() -> impl Strategy<Value = RequestHeader> {
    let ids = (any::<[u8; 16]>(), 1..u64::MAX, any::<u64>(), any::<u64>());
    let bits = (any::<u64>(), any::<u64>(), any::<u32>(), any::<u64>());
    let kinds = prop_oneof![
        Just(BulkKind::None),
        Just(BulkKind::Read),
        Just(BulkKind::Write)
    ];
    let rest = (kinds, 1..u32::MAX, any::<u32>(), any::<u64>());
    (ids, bits, rest).prop_map(|(ids, bits, rest)| RequestHeader {
        client: ClientId(ids.0),
        xid: ids.1,
        lowest: ids.2 % (ids.1 + 1),
        incarnation: ids.3,
        session: bits.3,
        reply_bits: bits.0,
        bulk_bits: bits.1,
        bulk_len: bits.2,
        bulk: rest.0,
        attempt: rest.1,
        opcode: rest.2,
        deadline: rest.3,
    })
}

fn reply() -> impl Strategy<Value = ReplyHeader> {
    let outcome = prop::sample::select(&Outcome::ALL);
    (
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        outcome,
        any::<i32>(),
        any::<u32>(),
    )
        .prop_map(
            |(xid, incarnation, clock, outcome, status, bulk_len)| ReplyHeader {
                xid,
                incarnation,
                clock,
                outcome,
                status,
                bulk_len,
            },
        )
}

proptest! {
    #[test]
    fn a_request_reads_back(header in request(), body in prop::collection::vec(any::<u8>(), 0..REQUEST_BODY_MAX)) {
        let bytes = encode_request(&header, &body);
        prop_assert_eq!(decode_request(&bytes), Ok((header, &body[..])));
    }

    #[test]
    fn a_reply_reads_back(header in reply(), body in prop::collection::vec(any::<u8>(), 0..REPLY_BODY_MAX)) {
        let bytes = encode_reply(&header, &body);
        prop_assert_eq!(decode_reply(&bytes), Ok((header, &body[..])));
    }

    #[test]
    fn every_cut_of_a_request_is_refused(header in request(), body in prop::collection::vec(any::<u8>(), 0..64)) {
        let bytes = encode_request(&header, &body);
        for end in 0..bytes.len() {
            let short = matches!(decode_request(&bytes[..end]), Err(DecodeError::Short { .. }));
            prop_assert!(short);
        }
    }

    #[test]
    fn one_changed_byte_of_a_request_never_panics(
        header in request(),
        at in 0..REQUEST_HEADER_LEN,
        value in any::<u8>(),
    ) {
        let mut bytes = encode_request(&header, b"body");
        bytes[at] = value;
        refuse_or_repeat(&bytes);
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_encode_back(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        refuse_or_repeat(&bytes);
    }
}

fn plain() -> RequestHeader {
    RequestHeader {
        client: ClientId([7; 16]),
        xid: 3,
        lowest: 2,
        incarnation: 9,
        session: 8,
        reply_bits: 1,
        bulk_bits: 2,
        bulk_len: 5,
        bulk: BulkKind::Read,
        attempt: 1,
        opcode: 77,
        deadline: 1000,
    }
}

#[test]
fn the_layout_of_a_request_is_the_drawing() {
    let bytes = encode_request(&plain(), b"xy");
    assert_eq!(&bytes[..8], b"FRPC\x02\x00\x01\x00");
    assert_eq!(bytes[24], 3);
    assert_eq!(bytes[72..80], 1000_u64.to_le_bytes());
    assert_eq!(bytes[80], 5);
    assert_eq!(bytes[84], 1);
    assert_eq!(bytes[96], 2);
    assert_eq!(&bytes[100..], b"xy");
}

#[test]
fn a_reply_that_is_sent_again_tells_the_time_of_then() {
    let header = ReplyHeader {
        xid: 1,
        incarnation: 2,
        clock: 3,
        outcome: Outcome::Done,
        status: 4,
        bulk_len: 5,
    };
    let again = with_clock(&encode_reply(&header, b"body"), 9);
    let expected = ReplyHeader { clock: 9, ..header };
    assert_eq!(decode_reply(&again), Ok((expected, &b"body"[..])));
}

#[test]
fn a_lowest_above_the_xid_is_refused_with_its_offset() {
    let bytes = encode_request(
        &RequestHeader {
            lowest: 4,
            ..plain()
        },
        b"",
    );
    let refused = DecodeError::Field {
        field: "lowest xid",
        offset: 32,
        value: 4,
    };
    assert_eq!(decode_request(&bytes), Err(refused));
}

#[test]
fn an_unknown_version_is_refused_with_its_offset() {
    let mut bytes = encode_request(&plain(), b"");
    bytes[4] = 1;
    let refused = DecodeError::Field {
        field: "version",
        offset: 4,
        value: 1,
    };
    assert_eq!(decode_request(&bytes), Err(refused));
}

#[test]
fn a_reply_is_not_a_request() {
    let header = ReplyHeader {
        xid: 1,
        incarnation: 2,
        clock: 3,
        outcome: Outcome::Done,
        status: 0,
        bulk_len: 0,
    };
    let bytes = encode_reply(&header, &[0; 64]);
    let refused = DecodeError::Field {
        field: "kind",
        offset: 6,
        value: 2,
    };
    assert_eq!(decode_request(&bytes), Err(refused));
}

#[test]
fn bytes_behind_the_body_are_refused() {
    let mut bytes = encode_request(&plain(), b"");
    bytes.push(0);
    assert_eq!(
        decode_request(&bytes),
        Err(DecodeError::Long {
            end: 100,
            have: 101
        })
    );
}

/// Checks that bytes are either rejected, or decode to a message that encodes to the same bytes.
fn refuse_or_repeat(bytes: &[u8]) {
    if let Ok((header, body)) = decode_request(bytes) {
        assert_eq!(encode_request(&header, body), bytes);
    }
    if let Ok((header, body)) = decode_reply(bytes) {
        assert_eq!(encode_reply(&header, body), bytes);
    }
}
