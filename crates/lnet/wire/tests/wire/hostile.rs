//! No input causes a panic; the offset of an error is inside the input, and no decoder reads beyond
//! a complete structure.

use lnet_wire::{
    ByteOrder, Connreq, DecodeError, Header, HeaderForm, Hello, KsockHeader, PingInfo,
};
use proptest::prelude::*;

/// A ping info with only the loopback entry; the tests fill in its counts and features.
const EMPTY: &str = "676e6970 00000000 39300000 00000000 0000000000000900 01000000 00000000";

/// Runs every decoder on the same bytes and returns the errors.
fn complaints(bytes: &[u8]) -> Vec<DecodeError> {
    let little = ByteOrder::Little;
    [
        Connreq::decode(bytes).err(),
        Connreq::needed(bytes).err(),
        Hello::decode(bytes).err(),
        Hello::needed(bytes).err(),
        KsockHeader::decode(little, bytes).err(),
        KsockHeader::decode(little, bytes)
            .ok()
            .and_then(|header| header.zc_ack().err()),
        KsockHeader::decode(ByteOrder::Big, bytes).err(),
        Header::decode(HeaderForm::Nid4, bytes).err(),
        Header::decode(HeaderForm::Nid16, bytes).err(),
        PingInfo::parse(bytes).err(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Random bytes after one of the beginnings that decoders accept.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let beginning = prop_oneof![
        Just(vec![]),
        Just(vec![0x00, 0x71, 0xCE, 0xAC, 1, 0, 0, 0]),
        Just(vec![0xAC, 0xCE, 0x71, 0x00, 0, 0, 0, 2]),
        (2u8..5).prop_map(|version| vec![0x63, 0x69, 0x72, 0x45, version, 0, 0, 0]),
        (2u8..5).prop_map(|version| vec![0x45, 0x72, 0x69, 0x63, 0, 0, 0, version]),
        Just(vec![0xED, 0x0D, 0xBC, 0xEE, 1, 0, 0, 0]),
        any::<u8>().prop_map(|features| vec![0x67, 0x6E, 0x69, 0x70, features, 0, 0, 0]),
        any::<u8>().prop_map(|features| vec![0x70, 0x69, 0x6E, 0x67, 0, 0, 0, features]),
    ];
    // Small values in most bytes make NIDs, counts and sizes often valid.
    let byte = prop_oneof![3 => Just(0u8), 2 => 0u8..32, 1 => any::<u8>()];
    let rest = proptest::collection::vec(byte, 0..200);
    (beginning, rest).prop_map(|(mut bytes, rest)| {
        bytes.extend(rest);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn complaints_point_into_the_input(bytes in bytes()) {
        for complaint in complaints(&bytes) {
            prop_assert!(complaint.offset <= bytes.len(), "{complaint} of {} bytes", bytes.len());
        }
    }

    // [PING-15]
    #[test]
    fn a_cut_ping_info_yields_a_prefix_of_the_whole(bytes in bytes(), cut in 0usize..200) {
        let Ok(whole) = PingInfo::parse(&bytes) else { return Ok(()) };
        let cut = cut.clamp(16, bytes.len());
        let part = PingInfo::parse(&bytes[..cut]).unwrap();
        let (part, whole): (Vec<_>, Vec<_>) = (part.nids().collect(), whole.nids().collect());
        prop_assert!(whole.starts_with(&part), "{part:?} of {whole:?}");
    }

    // [LIMIT-1]
    #[test]
    fn an_announced_count_is_never_believed(nnis: u32, features: u8, size: u32) {
        let mut bytes = crate::hex(EMPTY);
        bytes[4] = features;
        bytes[12..16].copy_from_slice(&nnis.to_le_bytes());
        bytes[28..32].copy_from_slice(&size.to_le_bytes());
        if let Ok(info) = PingInfo::parse(&bytes) {
            prop_assert!(info.nids().count() <= 1);
            prop_assert!(info.info_size() <= 1 << 20);
        }
    }
}
