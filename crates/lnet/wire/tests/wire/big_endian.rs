//! Senders of the other byte order: the tests reverse every integer of a
//! little-endian encoding, field by field, and expect the same values.

use lnet_wire::{
    ByteOrder, Connreq, ConnreqVersion, Hello, HelloVersion, KsockHeader, PingInfo, PingInfoRepr,
};
use proptest::prelude::*;

use crate::strategies;

/// Reverses consecutive fields of these sizes; a field with a negative size stays as it is.
fn turn_around(bytes: &mut [u8], fields: &[isize]) {
    let mut at = 0;
    for &field in fields {
        let end = at + field.unsigned_abs();
        if field > 0 {
            bytes[at..end].reverse();
        }
        at = end;
    }
    assert_eq!(at, bytes.len(), "the fields cover the structure");
}

fn hello_fields(version: HelloVersion) -> &'static [isize] {
    match version {
        HelloVersion::V4 => &[4, 4, -20, -20, 4, 4, 8, 8, 4, 4],
        _ => &[4, 4, 8, 8, 4, 4, 8, 8, 4, 4],
    }
}

proptest! {
    // [REQ-3]
    #[test]
    fn connection_request(connreq in strategies::connreq()) {
        let mut bytes = vec![0; connreq.version.wire_len()];
        connreq.encode(&mut bytes).unwrap();
        match connreq.version {
            ConnreqVersion::V1 => turn_around(&mut bytes, &[4, 4, 8]),
            ConnreqVersion::V2 => turn_around(&mut bytes, &[4, 4, -20]),
        }
        prop_assert_eq!(Connreq::needed(&bytes), Ok(bytes.len()));
        prop_assert_eq!(Connreq::decode(&bytes).unwrap(), connreq);
    }

    // [HELLO-4]
    #[test]
    fn hello_shows_the_order_of_the_frames_to_come(hello in strategies::hello()) {
        let mut bytes = vec![0; hello.version.base_len()];
        hello.encode(&mut bytes).unwrap();
        turn_around(&mut bytes, hello_fields(hello.version));
        prop_assert_eq!(Hello::needed(&bytes), Ok(bytes.len()));
        let received = Hello::decode(&bytes).unwrap();
        prop_assert_eq!((received.hello, received.order), (hello, ByteOrder::Big));
    }

    #[test]
    fn frame_header(header in strategies::ksock_header()) {
        let mut bytes = header.to_bytes();
        turn_around(&mut bytes, &[4, 4, 8, 8]);
        prop_assert_eq!(KsockHeader::decode(ByteOrder::Big, &bytes).unwrap(), header);
    }

    // [PING-13]
    #[test]
    fn ping_info(features in strategies::features(), pid: u32, nis in strategies::nis()) {
        let repr = PingInfoRepr { features, pid, sequence: 9, nis: &nis }.with_large_bits();
        let mut bytes = vec![0; repr.encoded_len()];
        repr.encode(&mut bytes).unwrap();
        let little = PingInfo::parse(&bytes).unwrap().nis().collect::<Vec<_>>();
        let small = nis.iter().filter(|ni| !ni.nid.is_large()).count();
        let mut fields = vec![4; 4];
        fields.extend([8, 4, 4].repeat(1 + small));
        fields.extend([4, -20].repeat(nis.len() - small));
        turn_around(&mut bytes, &fields);
        let big = PingInfo::parse(&bytes).unwrap();
        prop_assert_eq!(big.order(), ByteOrder::Big);
        prop_assert_eq!((big.features(), big.pid(), big.sequence()), (repr.features, pid, Some(9)));
        prop_assert_eq!(big.nis().collect::<Vec<_>>(), little);
    }
}

#[test]
fn addresses_of_a_big_endian_hello_are_turned_too() {
    let hello = crate::hex(
        "45726963 00000003 00020000c0a8010a 00020000c0a80114
                            00003039 00000000 0000000000000007 0000000000000000
                            00000001 00000001 0a000001",
    );
    let received = Hello::decode(&hello).unwrap();
    assert_eq!(received.hello.src_nid.to_string(), "192.168.1.10@tcp");
    let addresses: Vec<_> = received
        .addresses
        .iter()
        .map(|address| address.to_string())
        .collect();
    assert_eq!(addresses, ["10.0.0.1"]);
}

#[test]
fn version_1_is_little_endian_only() {
    assert!(Hello::needed(&lnet_wire::HELLO_V1_MAGIC.to_be_bytes()).is_err());
}
