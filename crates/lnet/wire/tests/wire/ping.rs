//! Ping infos as nodes send them, truncated, and malformed.

use lnet_types::Nid;
use lnet_wire::{
    DecodeError, EncodeError, NiStatus, PingFeatures, PingInfo, PingInfoError, PingInfoRepr,
    PingNi, Problem,
};

use crate::hex;

const LOOPBACK: &str = "0000000000000900 02000000";
const SMALL: &str = "0100010a00000200 dec0aa15 00000000";
const LARGE: &str = "dec0aa15 0c020000 fd00000a000000000000000000000002";

/// The info of a kernel node with one IPv6 interface.
fn only_large() -> Vec<u8> {
    hex(&format!(
        "676e6970 7e000000 39300000 01000000 {LOOPBACK} 38000000 {LARGE}"
    ))
}

/// One interface of each kind.
fn mixed() -> Vec<u8> {
    hex(&format!(
        "676e6970 3e000000 39300000 02000000 {LOOPBACK} 48000000 {SMALL} {LARGE}"
    ))
}

fn nids(info: &PingInfo<'_>) -> Vec<String> {
    info.nids().map(|nid| nid.to_string()).collect()
}

fn rejected(bytes: &[u8]) -> DecodeError {
    PingInfo::parse(bytes).expect_err("accepted")
}

// [LARGE-11] [LARGE-12]
#[test]
fn node_with_one_large_nid_has_one_entry_and_one_record() {
    let bytes = only_large();
    let info = PingInfo::parse(&bytes).unwrap();
    assert_eq!(nids(&info), ["0@lo", "fd00:a::2@tcp"]);
    assert_eq!(info.primary_nid().unwrap().to_string(), "fd00:a::2@tcp");
    assert_eq!(
        (info.sequence(), info.info_size(), info.is_truncated()),
        (Some(2), 56, false)
    );
    assert_eq!(info.validate(200), Ok(()));
}

// [LARGE-11] [PING-7]
#[test]
fn small_primary_stands_before_large_records() {
    let bytes = mixed();
    let info = PingInfo::parse(&bytes).unwrap();
    assert_eq!(nids(&info), ["0@lo", "10.1.0.1@tcp", "fd00:a::2@tcp"]);
    assert_eq!(info.primary_nid().unwrap().to_string(), "10.1.0.1@tcp");
    assert_eq!(
        info.nis().map(|ni| ni.status).collect::<Vec<_>>(),
        [NiStatus::UP; 2]
    );
}

// [PING-14]
#[test]
fn slack_behind_the_info_is_ignored() {
    let mut bytes = mixed();
    bytes.extend([0xFF; 40]);
    assert_eq!(nids(&PingInfo::parse(&bytes).unwrap()).len(), 3);
}

// [PING-15]
#[test]
fn reply_cut_anywhere_gives_what_is_whole_and_the_size_to_ask_for() {
    let bytes = mixed();
    for cut in 16..bytes.len() {
        let info = PingInfo::parse(&bytes[..cut]).unwrap();
        let whole = match cut {
            0..32 => 0,
            32..48 => 1,
            _ => 2,
        };
        assert_eq!(nids(&info).len(), whole, "cut at {cut}");
        assert!(info.is_truncated(), "cut at {cut}");
        assert_eq!(
            info.info_size(),
            if cut < 32 { 48 } else { 72 },
            "cut at {cut}"
        );
    }
}

#[test]
fn reply_cut_between_an_only_entry_and_its_size_is_truncated() {
    let bytes = only_large();
    let info = PingInfo::parse(&bytes[..28]).unwrap();
    assert!(info.is_truncated());
    assert_eq!(info.validate(200), Err(PingInfoError::NoWholeEntry));
}

#[test]
fn fewer_than_16_bytes_are_no_info() {
    let error = rejected(&mixed()[..15]);
    assert_eq!(
        (error.offset, error.problem),
        (
            15,
            Problem::Truncated {
                needed: 16,
                available: 15
            }
        )
    );
}

// [LARGE-13]
#[test]
fn low_two_bits_of_the_size_do_not_count() {
    let mut bytes = mixed();
    bytes[28] |= 3;
    assert_eq!(PingInfo::parse(&bytes).unwrap().info_size(), 72);
}

#[test]
fn size_smaller_than_the_entries_is_rejected() {
    let mut bytes = mixed();
    bytes[28] = 44;
    assert_eq!(rejected(&bytes).offset, 28);
}

// [LARGE-14]
#[test]
fn record_that_leaves_the_info_is_rejected() {
    let mut bytes = mixed();
    bytes[28] = 68;
    let error = rejected(&bytes);
    assert_eq!(
        (error.offset, error.problem),
        (
            48,
            Problem::Truncated {
                needed: 72,
                available: 68
            }
        )
    );
}

// [LARGE-3]
#[test]
fn record_with_a_size_above_12_is_rejected() {
    let mut bytes = mixed();
    bytes[52] = 13;
    let error = rejected(&bytes);
    assert_eq!((error.offset, error.problem), (52, Problem::BadNid));
}

#[test]
fn record_with_a_4_byte_address_takes_12_bytes() {
    let record = "acefadde 000d0000 0000001b";
    let bytes = hex(&format!(
        "676e6970 3e000000 39300000 01000000 {LOOPBACK} 44000000 {record} {LARGE}"
    ));
    assert_eq!(
        nids(&PingInfo::parse(&bytes).unwrap()),
        ["0@lo", "27@gni", "fd00:a::2@tcp"]
    );
}

#[test]
fn malformed_entry_is_rejected_where_it_stands() {
    let mut bytes = mixed();
    bytes[39] = 1;
    let error = rejected(&bytes);
    assert_eq!((error.offset, error.problem), (32, Problem::BadNid));
}

// [LARGE-15]
#[test]
fn metadata_behind_the_records_is_skipped() {
    let mut bytes = mixed();
    bytes[4] |= 0x80;
    bytes.extend([2, 0, 0, 0]);
    bytes.extend([7; 80]);
    bytes.extend([0; 8]);
    let info = PingInfo::parse(&bytes).unwrap();
    assert_eq!(nids(&info).len(), 3);
    assert_eq!(info.metadata(), [7; 80]);
}

#[test]
fn metadata_longer_than_the_input_is_cut() {
    let mut bytes = mixed();
    bytes[4] |= 0x80;
    assert!(PingInfo::parse(&bytes).unwrap().metadata().is_empty());
    bytes.extend([0xFF; 4]);
    bytes.extend([7; 50]);
    assert_eq!(PingInfo::parse(&bytes).unwrap().metadata(), [7; 50]);
}

// [PING-11] [PING-12]
#[test]
fn each_validation_rule_has_its_name_and_errno() {
    let case = |at: usize, word: u32| {
        let mut bytes = mixed();
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        bytes
    };
    let validated = |bytes: &[u8], max| PingInfo::parse(bytes).unwrap().validate(max).unwrap_err();
    assert_eq!(validated(&case(4, 0x3c), 16), PingInfoError::NoNiStatus);
    assert_eq!(
        validated(&case(12, 0), 16),
        PingInfoError::EntryCount { nnis: 0, max: 16 }
    );
    assert_eq!(
        validated(&mixed(), 1),
        PingInfoError::EntryCount { nnis: 2, max: 1 }
    );
    assert_eq!(validated(&mixed()[..31], 16), PingInfoError::NoWholeEntry);
    let not_loopback = validated(&case(20, 0x0002_0000), 16);
    assert_eq!(
        not_loopback,
        PingInfoError::FirstNotLoopback("0.0.0.0@tcp".parse().unwrap())
    );
    assert_eq!(not_loopback.errno(), 71);
    assert_eq!(validated(&mixed(), 1).errno(), 34);
}

#[test]
fn more_entries_than_a_message_carries_are_rejected() {
    let mut bytes = mixed();
    bytes[12..16].fill(0xFF);
    assert_eq!(rejected(&bytes).offset, 12);
}

// [LARGE-11]
#[test]
fn large_interfaces_need_their_feature_bit() {
    let nid: Nid = "fd00:a::2@tcp".parse().unwrap();
    let nis = [PingNi {
        nid,
        status: NiStatus::UP,
    }];
    let features = PingFeatures::from_bits_retain(0x1e);
    let repr = PingInfoRepr {
        features,
        pid: 12345,
        sequence: 2,
        nis: &nis,
    };
    assert_eq!(repr.encode(&mut [0; 64]), Err(EncodeError::LargeNid(nid)));
    let mut encoded = [0; 56];
    assert_eq!(repr.with_large_bits().encode(&mut encoded), Ok(56));
    assert_eq!(encoded, *only_large());
}

#[test]
fn info_longer_than_a_message_is_not_written() {
    let ni = PingNi {
        nid: "10.0.0.1@tcp".parse().unwrap(),
        status: NiStatus::UP,
    };
    let nis = vec![ni; 65_535];
    let features = PingFeatures::NI_STATUS;
    let repr = PingInfoRepr {
        features,
        pid: 12345,
        sequence: 2,
        nis: &nis,
    };
    let too_large = EncodeError::TooLarge {
        field: "info size",
        value: 1_048_592,
        max: 1_048_576,
    };
    assert_eq!(repr.encode(&mut []), Err(too_large));
}
