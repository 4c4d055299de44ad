//! Bad input of each codec: what is rejected, at which offset, and with which
//! message.

use lnet_types::Nid;
use lnet_wire::{
    Connreq, Ctype, DecodeError, Header, HeaderForm, Hello, KsockHeader, LNET_MTU, Problem,
};

use crate::hex;

fn connreq() -> Vec<u8> {
    hex("0071ceac 01000000 1401a8c0 00000200")
}

fn hello() -> Vec<u8> {
    let [a, b] = ["192.168.1.10@tcp", "192.168.1.20@tcp"].map(|text| text.parse().unwrap());
    let mut bytes = vec![0; 56];
    Hello::dial(a, b, 7, Ctype::CONTROL)
        .encode(&mut bytes)
        .unwrap();
    bytes
}

fn put() -> Vec<u8> {
    hex(
        "0a01a8c0 00000200 1401a8c0 00000200 39300000 39300000 01000000 30000000
         88776655 44332211 21000000 00000000 00000000 00000080 0000000000000000 00000000 00000000",
    )
}

/// `bytes` with the little-endian word at `at` replaced.
fn with_word(mut bytes: Vec<u8>, at: usize, word: u32) -> Vec<u8> {
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    bytes
}

fn rejected<T>(result: Result<T, DecodeError>) -> DecodeError {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => error,
    }
}

fn header_error(bytes: &[u8]) -> DecodeError {
    rejected(Header::decode(HeaderForm::Nid4, bytes))
}

// [REQ-5]
#[test]
fn request_with_a_foreign_first_word_is_closed_without_a_word() {
    let error = rejected(Connreq::decode(b"GET / HTTP/1.1\r\n\r\n"));
    assert_eq!(
        (error.offset, error.problem),
        (0, Problem::BadMagic(0x2054_4547))
    );
    assert!(!Connreq::deserves_rejection(&error));
    let v1_hello = with_word(connreq(), 0, lnet_wire::HELLO_V1_MAGIC);
    assert!(!Connreq::deserves_rejection(&rejected(Connreq::decode(
        &v1_hello
    ))));
}

// [REQ-6]
#[test]
fn request_that_begins_with_the_lnet_magic_in_either_order_deserves_a_rejection() {
    for magic in [lnet_wire::LNET_MAGIC, lnet_wire::LNET_MAGIC.swap_bytes()] {
        let error = rejected(Connreq::needed(&magic.to_le_bytes()));
        assert!(Connreq::deserves_rejection(&error));
    }
}

// [REQ-6]
#[test]
fn request_of_an_unknown_version_deserves_a_rejection() {
    for version in [0, 3, 99] {
        let error = rejected(Connreq::decode(&with_word(connreq(), 4, version)));
        assert_eq!(
            (error.offset, error.problem),
            (4, Problem::UnknownVersion(version))
        );
        assert!(Connreq::deserves_rejection(&error));
    }
}

#[test]
fn rejection_is_a_request_for_no_nid() {
    assert_eq!(
        Connreq::REJECTION,
        *hex("0071ceac 01000000 0000000000000000")
    );
}

// [LARGE-3]
#[test]
fn request_with_a_malformed_nid_is_rejected() {
    let error = rejected(Connreq::decode(&with_word(connreq(), 12, 0x0102_0000)));
    assert_eq!((error.offset, error.problem), (8, Problem::BadNid));
}

// [HELLO-15]
#[test]
fn hello_with_a_bad_magic_is_rejected() {
    let error = rejected(Hello::decode(&with_word(hello(), 0, 0xDEAD_BEEF)));
    assert_eq!(
        (error.offset, error.problem),
        (0, Problem::BadMagic(0xDEAD_BEEF))
    );
}

// [HELLO-16]
#[test]
fn hello_of_an_unknown_version_is_known_from_its_first_8_bytes() {
    for version in [0, 1, 5, 99] {
        let error = rejected(Hello::needed(&with_word(hello(), 4, version)[..8]));
        assert_eq!(
            (error.offset, error.problem),
            (4, Problem::UnknownVersion(version))
        );
    }
}

#[test]
fn hello_of_another_minor_version_1_is_rejected() {
    let bytes = hex("ed0dbcee 01000100");
    let error = rejected(Hello::needed(&bytes));
    assert_eq!(
        (error.offset, error.problem),
        (4, Problem::UnknownVersion(0x0001_0001))
    );
}

// [HELLO-13] [LIMIT-1]
#[test]
fn hello_with_more_than_16_addresses_is_rejected_before_they_are_read() {
    let error = rejected(Hello::needed(&with_word(hello(), 52, 17)));
    let problem = Problem::OutOfRange {
        field: "nips",
        value: 17,
        min: 0,
        max: 16,
    };
    assert_eq!((error.offset, error.problem), (52, problem));
    assert!(Hello::needed(&with_word(hello(), 52, u32::MAX)).is_err());
}

// [HELLO-13]
#[test]
fn hello_with_a_zero_address_is_rejected_where_it_stands() {
    let mut bytes = with_word(hello(), 52, 3);
    bytes.extend([1, 0, 0, 10, 0, 0, 0, 0, 2, 0, 0, 10]);
    assert_eq!(rejected(Hello::decode(&bytes)).offset, 60);
}

// [HELLO-14]
#[test]
fn hello_from_the_wildcard_is_rejected() {
    let mut bytes = hello();
    bytes[8..16].fill(0xFF);
    let error = rejected(Hello::decode(&bytes));
    assert_eq!((error.offset, error.problem), (8, Problem::BadNid));
}

// [HELLO-7]
#[test]
fn hello_to_a_malformed_nid_is_accepted() {
    let bytes = with_word(hello(), 20, 0x0A00_0000);
    assert_eq!(Hello::decode(&bytes).unwrap().hello.dst_nid, Nid::ANY);
}

// [HELLO-11]
#[test]
fn hello_with_an_undefined_type_decodes_and_has_no_inverse() {
    for ctype in [4, 99, u32::MAX] {
        let received = Hello::decode(&with_word(hello(), 48, ctype))
            .unwrap()
            .hello
            .ctype;
        assert_eq!((received, received.inverse()), (Ctype(ctype), None));
    }
}

#[test]
fn short_hello_is_rejected_with_its_end() {
    let error = rejected(Hello::decode(&hello()[..55]));
    let problem = Problem::Truncated {
        needed: 56,
        available: 55,
    };
    assert_eq!((error.offset, error.problem), (55, problem));
}

#[test]
fn version_4_announced_over_a_56_byte_body_waits_for_the_rest() {
    assert_eq!(Hello::needed(&with_word(hello(), 4, 4)), Ok(80));
}

// [FRAME-2]
#[test]
fn frame_of_an_unknown_type_is_rejected() {
    let bytes = with_word(KsockHeader::LNET.to_bytes().to_vec(), 0, 0xC2);
    let error = rejected(KsockHeader::decode(lnet_wire::ByteOrder::Little, &bytes));
    let problem = Problem::UnknownValue {
        field: "type",
        value: 0xC2,
    };
    assert_eq!((error.offset, error.problem), (0, problem));
}

#[test]
fn short_header_is_rejected_with_its_end() {
    let error = header_error(&put()[..71]);
    assert_eq!(
        error.to_string(),
        "LNet header: needs 72 bytes, has 71 at offset 71"
    );
}

// [MSG-3]
#[test]
fn hello_as_a_message_and_unknown_types_are_rejected() {
    for message_type in [4, 5, u32::MAX] {
        let error = header_error(&with_word(put(), 24, message_type));
        let problem = Problem::UnknownValue {
            field: "message type",
            value: message_type,
        };
        assert_eq!((error.offset, error.problem), (24, problem));
    }
}

// [MSG-4]
#[test]
fn ack_and_get_with_a_payload_are_rejected() {
    for message_type in [0, 2] {
        let error = header_error(&with_word(put(), 24, message_type));
        let problem = Problem::OutOfRange {
            field: "payload length",
            value: 48,
            min: 0,
            max: 0,
        };
        assert_eq!((error.offset, error.problem), (28, problem));
    }
}

// [MSG-5]
#[test]
fn put_and_reply_carry_a_mebibyte_and_not_a_byte_more() {
    for message_type in [1, 3] {
        let bytes = with_word(put(), 24, message_type);
        let full = with_word(bytes.clone(), 28, LNET_MTU);
        assert!(Header::decode(HeaderForm::Nid4, &full).is_ok());
        assert_eq!(header_error(&with_word(bytes, 28, LNET_MTU + 1)).offset, 28);
    }
}

// [LARGE-3]
#[test]
fn header_with_a_malformed_nid_is_rejected() {
    assert_eq!(header_error(&with_word(put(), 4, 0x0102_0000)).offset, 0);
    assert_eq!(header_error(&with_word(put(), 12, 0x0102_0000)).offset, 8);
}

#[test]
fn portal_out_of_range_is_not_a_protocol_error() {
    assert!(Header::decode(HeaderForm::Nid4, &with_word(put(), 64, 64)).is_ok());
}

// [MSG-7]
#[test]
fn unused_bytes_are_tolerated_and_told() {
    let reply = with_word(put(), 24, 3);
    assert!(Header::decode(HeaderForm::Nid4, &reply).is_ok());
    assert!(
        !Header::reserved_is_zero(HeaderForm::Nid4, &reply),
        "match bits in a reply"
    );
    assert!(Header::reserved_is_zero(HeaderForm::Nid4, &put()));
    assert!(
        !Header::reserved_is_zero(HeaderForm::Nid4, &put()[..71]),
        "short"
    );
}
