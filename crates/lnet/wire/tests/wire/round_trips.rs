//! Decoding an encoding returns the value, also if bytes follow it.

use lnet_types::Nid;
use lnet_wire::{
    ByteOrder, Connreq, ConnreqVersion, EncodeError, Header, HeaderForm, Hello, HelloVersion,
    KsockHeader, MessageType, PingInfo, PingInfoRepr,
};
use proptest::prelude::*;

use crate::strategies;

proptest! {
    #[test]
    fn connection_request(connreq in strategies::connreq()) {
        let mut buffer = [0xAA; 40];
        let len = connreq.encode(&mut buffer).unwrap();
        prop_assert_eq!(len, connreq.version.wire_len());
        prop_assert_eq!(Connreq::decode(&buffer).unwrap(), connreq);
    }

    #[test]
    fn hello(hello in prop_oneof![strategies::hello(), strategies::hello_v1()]) {
        let mut buffer = [0xAA; Hello::MAX_LEN];
        let len = hello.encode(&mut buffer).unwrap();
        let received = Hello::decode(&buffer).unwrap();
        prop_assert_eq!(received.hello, hello);
        prop_assert_eq!(received.len, len);
        prop_assert_eq!(received.order, ByteOrder::Little);
    }

    #[test]
    fn frame_header(header in strategies::ksock_header()) {
        let decoded = KsockHeader::decode(ByteOrder::Little, &header.to_bytes()).unwrap();
        prop_assert_eq!(decoded, header);
    }

    // [LARGE-2] [LARGE-7] [MSG-6]
    #[test]
    fn lnet_header((form, header) in strategies::header()) {
        let mut buffer = [0xAA; 120];
        prop_assert_eq!(header.encode(form, &mut buffer).unwrap(), form.len());
        prop_assert_eq!(Header::decode(form, &buffer).unwrap(), header);
        prop_assert!(Header::reserved_is_zero(form, &buffer));
    }

    #[test]
    fn ping_info(
        features in strategies::features(),
        pid: u32,
        sequence: u32,
        nis in strategies::nis(),
    ) {
        let repr = PingInfoRepr { features, pid, sequence, nis: &nis }.with_large_bits();
        let mut buffer = [0xAA; 512];
        let len = repr.encode(&mut buffer).unwrap();
        let info = PingInfo::parse(&buffer).unwrap();
        prop_assert_eq!((info.features(), info.pid(), info.info_size()), (repr.features, pid, len));
        prop_assert_eq!(info.sequence(), Some(sequence));
        prop_assert_eq!(info.primary_nid(), primary(&nis));
        let (large, small): (Vec<_>, Vec<_>) = nis.iter().partition(|ni| ni.nid.is_large());
        prop_assert!(info.nis().eq(small.into_iter().chain(large)));
    }

    #[test]
    fn a_buffer_one_byte_short_is_rejected_untouched((form, header) in strategies::header()) {
        let mut buffer = vec![0xAA; form.len() - 1];
        let (needed, available) = (form.len(), form.len() - 1);
        let rejected = Err(EncodeError::BufferTooSmall { needed, available });
        prop_assert_eq!(header.encode(form, &mut buffer), rejected);
        prop_assert!(buffer.iter().all(|&byte| byte == 0xAA));
    }

    // [LARGE-4]
    #[test]
    fn a_large_nid_does_not_fit_the_8_byte_forms(large in strategies::large_nid()) {
        let rejected = Err(EncodeError::LargeNid(large));
        let mut buffer = [0; 128];
        let connreq = Connreq { version: ConnreqVersion::V1, target: large };
        prop_assert_eq!(connreq.encode(&mut buffer), rejected);
        let dial = Hello::dial(large, Nid::LOOPBACK, 1, lnet_wire::Ctype::CONTROL);
        prop_assert_eq!(dial.version, HelloVersion::V4);
        let hello = Hello { version: HelloVersion::V3, ..dial };
        prop_assert_eq!(hello.encode(&mut buffer), rejected);
    }

    // [LARGE-4] [MSG-2]
    #[test]
    fn a_large_nid_does_not_fit_the_72_byte_header(
        (_, header) in strategies::header(),
        large in strategies::large_nid(),
    ) {
        let header = Header { dest_nid: large, ..header };
        let rejected = Err(EncodeError::LargeNid(large));
        prop_assert_eq!(header.encode(HeaderForm::Nid4, &mut [0; 128]), rejected);
    }

    #[test]
    fn a_payload_that_receivers_reject_is_not_written(
        (form, header) in strategies::header(),
        excess in 1u32..1000,
    ) {
        let max = header.message_type().payload_max();
        let header = Header { payload_length: max + excess, ..header };
        let rejected = matches!(
            header.encode(form, &mut [0; 128]),
            Err(EncodeError::TooLarge { field: "payload length", .. })
        );
        prop_assert!(rejected);
    }
}

/// The primary NID is the first interface's, in either form.
fn primary(nis: &[lnet_wire::PingNi]) -> Option<Nid> {
    nis.first().map(|ni| ni.nid)
}

// [MSG-3]
#[test]
fn message_types_have_their_numbers() {
    let types = [
        MessageType::Ack,
        MessageType::Put,
        MessageType::Get,
        MessageType::Reply,
    ];
    for (number, message_type) in (0u32..).zip(types) {
        assert_eq!(MessageType::from_number(number), Some(message_type));
        assert_eq!(message_type as u32, number);
    }
    assert_eq!(MessageType::from_number(4), None);
}
