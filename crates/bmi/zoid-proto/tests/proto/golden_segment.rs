//! The segment's first page.

use proptest::prelude::*;
use zoid_proto::{DaemonState, Extent, SegmentHeader, ServerStatistics};

use crate::hex;

const HEADER: SegmentHeader = SegmentHeader {
    total: 512 << 20,
    unexpected: 1 << 20,
    max_unexpected: 8192,
    max_expected: 128 << 20,
    epoch: 0xE,
    daemon_pid: 17,
    state: DaemonState::READY,
    heartbeat_ns: 5,
    session: 0x51,
    unexpected_ready: 6,
    regions: 0,
};

fn encoded() -> [u8; SegmentHeader::LEN] {
    let mut bytes = [0xEE; SegmentHeader::LEN];
    assert_eq!(HEADER.encode(&mut bytes), Ok(SegmentHeader::LEN));
    bytes
}

// [SEG-3]
#[test]
fn r51_the_header_page() {
    let expected = hex(
        "5a424d4953484d31 01000000 00100000 0000002000000000 0000100000000000
         0020000000000000 0000000800000000 0e00000000000000 11000000 01000000
         0500000000000000 5100000000000000 06000000 00000000",
    );
    assert_eq!(encoded(), *expected);
    assert_eq!(SegmentHeader::decode(&expected), Ok(HEADER));
}

// [SEG-1]
#[test]
fn r49_the_unexpected_region_comes_first_and_the_two_fill_the_total() {
    assert_eq!(HEADER.unexpected_region(), 0..1 << 20);
    assert_eq!(HEADER.expected_region(), 1 << 20..512 << 20);
}

// [SEG-4]
#[test]
fn the_words_that_change_stand_where_the_constants_say() {
    let bytes = encoded();
    assert_eq!(bytes[SegmentHeader::STATE_AT], 1);
    assert_eq!(bytes[SegmentHeader::HEARTBEAT_AT], 5);
    assert_eq!(bytes[SegmentHeader::SESSION_AT], 0x51);
    assert_eq!(bytes[SegmentHeader::UNEXPECTED_READY_AT], 6);
}

// [SEG-6]
#[test]
fn the_servers_statistics_stand_in_the_header_page_behind_the_header() {
    let words = std::array::from_fn(|at| at as u64 + 1);
    let statistics = ServerStatistics::from_words(words);
    assert_eq!((statistics.copies, statistics.protocol_errors), (1, 8));
    assert_eq!(statistics.words(), words);
    let end = ServerStatistics::AT + 8 * ServerStatistics::COUNT;
    assert!(ServerStatistics::AT >= SegmentHeader::LEN && end <= zoid_proto::SEGMENT_HEADER_LEN);
}

// [SEG-3]
#[test]
fn a_bad_page_is_refused_where_it_is_bad() {
    let cases: [(usize, u8, &str); 6] = [
        (0, 0xFF, "bad magic"),
        (8, 2, "unknown version 2"),
        (13, 0x20, "header size"),
        (23, 0xFF, "total"),
        (31, 1, "unexpected size"),
        (48, 0, "epoch"),
    ];
    for (at, value, complaint) in cases {
        let mut bytes = encoded();
        bytes[at] = value;
        let error = SegmentHeader::decode(&bytes).unwrap_err();
        assert!(error.to_string().contains(complaint), "{at}: {error}");
    }
    for cut in 0..SegmentHeader::LEN {
        assert!(SegmentHeader::decode(&encoded()[..cut]).is_err());
    }
}

#[test]
fn an_extent_is_inside_with_both_ends_and_outside_when_it_overflows() {
    let region = 100..200;
    let inside = |offset, len| Extent { offset, len }.is_inside(&region);
    assert!(inside(100, 100) && inside(150, 0) && inside(200, 0));
    assert!(!inside(99, 1) && !inside(100, 101) && !inside(201, 0));
    assert!(!inside(150, u64::MAX));
}

proptest! {
    #[test]
    fn random_pages_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = bytes;
        let _ = SegmentHeader::decode(&bytes);
        for (to, from) in bytes.iter_mut().zip(encoded()).take(16) {
            *to = from;
        }
        let _ = SegmentHeader::decode(&bytes);
    }
}
