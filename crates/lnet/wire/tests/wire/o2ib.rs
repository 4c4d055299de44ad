//! The messages of the o2ib LND: each field at its offset, in both byte orders, and every bad one.

use lnet_types::Nid;
use lnet_wire::o2ib::*;
use lnet_wire::{Body as LnetBody, Get, Handle, Header, Problem};
use proptest::prelude::*;

use crate::hex;

/// The envelope of the vectors: from 10.7.0.1@o2ib to 10.7.0.2@o2ib, 3 credits.
const ENVELOPE: &str = "91 1b e9 0b  12 00";
const NIDS: &str = "01 00 07 0a 00 00 05 00  08 07 06 05 04 03 02 01
                    02 00 07 0a 00 00 05 00  18 17 16 15 14 13 12 11";
/// A GET of 10.7.0.1 for 1 MiB at 10.7.0.2.
const GET: &str = "02 00 07 0a 00 00 05 00  01 00 07 0a 00 00 05 00  39 30 00 00  39 30 00 00
                   02 00 00 00  00 00 00 00  01 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00
                   03 00 00 00 00 00 00 00  04 00 00 00  00 00 00 00  00 00 10 00  00 00 00 00";

fn envelope() -> Envelope {
    Envelope {
        credits: 3,
        source: "10.7.0.1@o2ib".parse().unwrap(),
        source_incarnation: 0x0102_0304_0506_0708,
        destination: "10.7.0.2@o2ib".parse().unwrap(),
        destination_incarnation: 0x1112_1314_1516_1718,
    }
}

fn get() -> Header {
    Header {
        dest_nid: "10.7.0.2@o2ib".parse().unwrap(),
        src_nid: "10.7.0.1@o2ib".parse().unwrap(),
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: 0,
        body: LnetBody::Get(Get {
            return_wmd: Handle {
                interface: 1,
                object: 2,
            },
            match_bits: 3,
            ptl_index: 4,
            src_offset: 0,
            sink_length: 1 << 20,
        }),
    }
}

/// The bytes of a message of this type and length, with this body.
fn vector(kind: &str, length: &str, body: &str) -> Vec<u8> {
    hex(&format!(
        "{ENVELOPE} {kind} 03 {length} 00 00 00 00 {NIDS} {body}"
    ))
}

fn descriptor() -> Descriptor {
    let fragment = |length, address| Fragment { length, address };
    Descriptor {
        rkey: 0x0000_abcd,
        fragments: vec![fragment(0x1000, 0x7f00_0000_0010), fragment(0x20, 0x30)],
    }
}

const DESCRIPTOR: &str = "cd ab 00 00  02 00 00 00  00 10 00 00 10 00 00 00 00 7f 00 00
                          20 00 00 00 30 00 00 00 00 00 00 00";

fn put_ack() -> (Vec<u8>, Body<'static>) {
    let cookie = 0x2122_2324_2526_2728;
    let cookie_bytes = "28 27 26 25 24 23 22 21";
    (
        vector(
            "d4",
            "60 00 00 00",
            &format!("{cookie_bytes} 01 00 00 00 00 00 00 80 {DESCRIPTOR}"),
        ),
        Body::PutAck {
            source_cookie: cookie,
            sink_cookie: 0x8000_0000_0000_0001,
            descriptor: descriptor(),
        },
    )
}

fn getting() -> (Vec<u8>, Body<'static>) {
    let cookie = 0x2122_2324_2526_2728;
    let cookie_bytes = "28 27 26 25 24 23 22 21";
    (
        vector(
            "d6",
            "a0 00 00 00",
            &format!("{GET} {cookie_bytes} {DESCRIPTOR}"),
        ),
        Body::GetReq {
            header: get(),
            cookie,
            descriptor: descriptor(),
        },
    )
}

fn vectors() -> Vec<(Vec<u8>, Body<'static>)> {
    let parameters = Parameters {
        queue_depth: 8,
        fragments: 257,
        message_size: 4096,
    };
    let (cookie, header) = (0x2122_2324_2526_2728, get());
    let cookie_bytes = "28 27 26 25 24 23 22 21";
    let asked = "08 00 01 01 00 10 00 00";
    vec![
        (
            vector("c0", "38 00 00 00", asked),
            Body::Connreq(parameters),
        ),
        (
            vector("c1", "38 00 00 00", asked),
            Body::Connack(parameters),
        ),
        (vector("d0", "30 00 00 00", ""), Body::Noop),
        (
            vector("d1", "7a 00 00 00", &format!("{GET} aa bb")),
            Body::Immediate {
                header,
                payload: &[0xaa, 0xbb],
            },
        ),
        (
            vector("d2", "80 00 00 00", &format!("{GET} {cookie_bytes}")),
            Body::PutReq { header, cookie },
        ),
        (
            vector("d3", "3c 00 00 00", &format!("{cookie_bytes} f4 ff ff ff")),
            Body::PutNak {
                cookie,
                status: -12,
            },
        ),
        put_ack(),
        (
            vector("d5", "3c 00 00 00", &format!("{cookie_bytes} 00 00 00 00")),
            Body::PutDone { cookie, status: 0 },
        ),
        getting(),
        (
            vector("d7", "3c 00 00 00", &format!("{cookie_bytes} 00 00 10 00")),
            Body::GetDone {
                cookie,
                status: 1 << 20,
            },
        ),
    ]
}

// [IB-5]
#[test]
fn o2ib_each_type_has_its_bytes() {
    let all = vectors();
    let kinds: Vec<MessageKind> = all.iter().map(|(_, body)| body.kind()).collect();
    assert_eq!(kinds, MessageKind::ALL);
    for (bytes, body) in all {
        let envelope = envelope();
        let message = Message { envelope, body };
        let mut encoded = [0; MESSAGE_MAX];
        let len = message.encode(&mut encoded).unwrap();
        assert_eq!(encoded[..len], bytes, "{message:?}");
        assert_eq!(Message::decode(&bytes), Ok(message));
    }
}

// [IB-7]
#[test]
fn o2ib_each_prefix_of_a_message_is_rejected_and_bytes_behind_it_are_ignored() {
    for (bytes, body) in vectors() {
        for cut in 0..bytes.len() {
            let error = Message::decode(&bytes[..cut]).unwrap_err();
            assert!(error.offset <= cut, "{body:?} cut at {cut}: {error}");
        }
        let padded = [bytes.as_slice(), &[0; 140]].concat();
        assert_eq!(Message::decode(&padded).unwrap().body, body);
    }
}

/// Returns the problem of the IMMEDIATE vector with these bytes at this offset.
fn problem(kind: MessageKind, at: usize, put: &[u8]) -> Problem {
    let all = vectors();
    let (mut bytes, _) = all
        .into_iter()
        .find(|(_, body)| body.kind() == kind)
        .unwrap();
    bytes[at..at + put.len()].copy_from_slice(put);
    Message::decode(&bytes).unwrap_err().problem
}

// [IB-6] [IB-7]
#[test]
fn o2ib_each_hostile_field_is_rejected_with_its_reason() {
    use MessageKind::{GetReq, Immediate, Noop, PutAck};
    assert_eq!(problem(Noop, 0, &[0]), Problem::BadMagic(0x0be9_1b00));
    assert_eq!(problem(Noop, 4, &[0x11]), Problem::UnknownVersion(0x11));
    let unknown = |value| Problem::UnknownValue {
        field: "type",
        value,
    };
    assert_eq!(problem(Noop, 6, &[0xd8]), unknown(0xd8));
    assert_eq!(problem(Noop, 6, &[0xc2]), unknown(0xc2));
    for length in [0u32, 47, 49, u32::MAX] {
        let found = problem(Noop, 8, &length.to_le_bytes());
        assert!(
            matches!(
                found,
                Problem::OutOfRange {
                    field: "length",
                    ..
                }
            ),
            "{found}"
        );
    }
    assert_eq!(problem(Noop, 12, &[1]), Problem::BadChecksum(1));
    assert_eq!(problem(Noop, 16, &[0xff; 8]), Problem::BadNid);
    assert_eq!(problem(Noop, 23, &[1]), Problem::BadNid);
    let short = Problem::Truncated {
        needed: 120,
        available: 48,
    };
    assert_eq!(problem(Noop, 6, &[0xd1]), short);
    // A PUT with more payload than follows.
    let found = problem(Immediate, 48 + 24, &[1, 0, 0, 0, 3]);
    assert_eq!(
        found,
        Problem::Truncated {
            needed: 123,
            available: 122
        }
    );
    for (kind, at) in [(PutAck, 68), (GetReq, 132)] {
        for count in [0u32, 258, u32::MAX] {
            let found = problem(kind, at, &count.to_le_bytes());
            assert!(
                matches!(
                    found,
                    Problem::OutOfRange {
                        field: "fragments",
                        ..
                    }
                ),
                "{found}"
            );
        }
        let found = problem(kind, at, &[3]);
        assert!(matches!(found, Problem::Truncated { .. }), "{found}");
        let found = problem(kind, at + 8, &[0xff; 8]);
        let wraps = matches!(
            found,
            Problem::OutOfRange {
                field: "fragment address",
                ..
            }
        );
        assert!(wraps, "{found}");
    }
}

/// The same message as a big-endian sender writes it: everything swapped but the LNet header.
fn swapped(bytes: &[u8], body: &Body<'_>) -> Vec<u8> {
    let mut fields = vec![
        (0, 4),
        (4, 2),
        (8, 4),
        (12, 4),
        (16, 8),
        (24, 8),
        (32, 8),
        (40, 8),
    ];
    let descriptor = |at| {
        [
            (at, 4),
            (at + 4, 4),
            (at + 8, 4),
            (at + 12, 8),
            (at + 20, 4),
            (at + 24, 8),
        ]
    };
    match body {
        Body::Connreq(_) | Body::Connack(_) => fields.extend([(48, 2), (50, 2), (52, 4)]),
        Body::Noop | Body::Immediate { .. } => {}
        Body::PutReq { .. } => fields.push((120, 8)),
        Body::PutNak { .. } | Body::PutDone { .. } | Body::GetDone { .. } => {
            fields.extend([(48, 8), (56, 4)]);
        }
        Body::PutAck { .. } => {
            fields.extend([(48, 8), (56, 8)]);
            fields.extend(descriptor(64));
        }
        Body::GetReq { .. } => {
            fields.push((120, 8));
            fields.extend(descriptor(128));
        }
    }
    let mut bytes = bytes.to_vec();
    for (at, len) in fields {
        bytes[at..at + len].reverse();
    }
    bytes
}

// [IB-4]
#[test]
fn o2ib_a_big_endian_sender_is_understood_and_the_lnet_header_is_never_swapped() {
    for (bytes, body) in vectors() {
        let swapped = swapped(&bytes, &body);
        assert_ne!(swapped, bytes);
        let decoded = Message::decode(&swapped).unwrap();
        assert_eq!((decoded.envelope, decoded.body), (envelope(), body));
    }
}

// [IB-8]
#[test]
fn o2ib_a_checksum_rotates_and_adds_signed_bytes_and_is_never_zero() {
    assert_eq!(checksum(&[1, 2]), 4);
    assert_eq!(checksum(&[0xff]), u32::MAX);
    assert_eq!(checksum(&[1, 0xfe]), 1, "2 - 2 = 0 becomes 1");
    let (mut bytes, body) = vectors().swap_remove(3);
    seal(&mut bytes);
    assert_ne!(bytes[12..16], [0; 4]);
    assert_eq!(Message::decode(&bytes).unwrap().body, body);
    for at in (0..12).chain(16..bytes.len()) {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x40;
        assert!(Message::decode(&wrong).is_err(), "byte {at} may change");
    }
    let mut foreign = *b"GET / HTTP/1.1\r\n";
    seal(&mut foreign);
    assert_eq!(&foreign, b"GET / HTTP/1.1\r\n");
}

// [IB-2] [IB-16]
#[test]
fn o2ib_a_rejection_has_its_bytes_and_padding_behind_them_is_ignored() {
    let parameters = Parameters {
        queue_depth: 16,
        fragments: 32,
        message_size: 4096,
    };
    for (reason, number) in RejectionReason::ALL.into_iter().zip(1u8..) {
        let rejection = Rejection::new(reason, 0x0102_0304_0506_0708, parameters);
        let mut bytes = hex(&format!(
            "91 1b e9 0b 12 00 {number:02x} 00 08 07 06 05 04 03 02 01 10 00 20 00 00 10 00 00"
        ));
        assert_eq!(rejection.to_bytes().as_slice(), bytes);
        bytes.resize(148, 0);
        assert_eq!(Rejection::decode(&bytes), Ok(rejection));
        for (at, len) in [(0, 4), (4, 2), (8, 8), (16, 2), (18, 2), (20, 4)] {
            bytes[at..at + len].reverse();
        }
        assert_eq!(Rejection::decode(&bytes), Ok(rejection));
    }
    for wrong in [0, 10, 255] {
        let mut bytes = Rejection::new(RejectionReason::Fatal, 0, parameters).to_bytes();
        bytes[6] = wrong;
        assert!(Rejection::decode(&bytes).is_err());
    }
    assert!(
        Rejection::decode(&[0; 148]).is_err(),
        "no private data at all"
    );
    assert!(Rejection::decode(&[]).is_err());
}

// [IB-27]
#[test]
fn o2ib_what_does_not_fit_is_not_written() {
    let mut buffer = [0; MESSAGE_MAX];
    let header = Header {
        payload_length: IMMEDIATE_MAX as u32 + 1,
        ..get()
    };
    assert!(encode_immediate(&envelope(), &header, &mut buffer).is_err());
    let header = get();
    let most = [7; IMMEDIATE_MAX + 1];
    for (len, fits) in [(IMMEDIATE_MAX, true), (IMMEDIATE_MAX + 1, false)] {
        let payload = &most[..len];
        let message = Message {
            envelope: envelope(),
            body: Body::Immediate { header, payload },
        };
        assert_eq!(message.encode(&mut buffer).is_ok(), fits, "{len}");
    }
    let fragment = Fragment {
        length: 4096,
        address: 0,
    };
    for (count, fits) in [(0, false), (1, true), (257, true), (258, false)] {
        let fragments = vec![fragment; count];
        let descriptor = Descriptor { rkey: 1, fragments };
        let body = Body::GetReq {
            header,
            cookie: 1,
            descriptor,
        };
        let envelope = envelope();
        let encoded = Message { envelope, body }.encode(&mut buffer);
        assert_eq!(encoded.is_ok(), fits, "{count} fragments");
    }
    let large: Nid = "2001:db8::1@tcp".parse().unwrap();
    let envelope = Envelope {
        source: large,
        ..envelope()
    };
    let body = Body::Noop;
    assert!(Message { envelope, body }.encode(&mut buffer).is_err());
}

proptest! {
    #[test]
    fn o2ib_any_bytes_decode_or_are_rejected_inside_them(
        start in 0usize..10, edits in prop::collection::vec((0usize..160, any::<u8>()), 0..8), len in 0usize..200,
    ) {
        let (mut bytes, _) = vectors().swap_remove(start);
        for (at, byte) in edits {
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        bytes.resize(len.max(6), 0);
        match Message::decode(&bytes) {
            Ok(message) => {
                let mut buffer = [0; MESSAGE_MAX];
                // A malformed destination cannot be decoded, so that everything decoded can be written.
                let len = message.encode(&mut buffer).unwrap();
                prop_assert_eq!(Message::decode(&buffer[..len]), Ok(message));
            }
            Err(error) => prop_assert!(error.offset <= bytes.len(), "{}", error),
        }
    }
}
