//! The byte-exact examples of `docs/protocol/vectors.md` decode as described there and encode to the same bytes.

use lnet_types::Nid;
use lnet_wire::{
    Ack, Body, Connreq, ConnreqVersion, Ctype, FrameType, Get, Handle, Header, HeaderForm, Hello,
    HelloVersion, KsockHeader, NiStatus, PING_MATCH_BITS, PingFeatures, PingInfo, PingInfoRepr,
    PingNi, Put, Reply, ZcAck,
};

use crate::hex;

const INCARNATION: u64 = 0x18a1_b2c3_d4e5_f607;

fn a() -> Nid {
    "192.168.1.10@tcp".parse().unwrap()
}

fn b() -> Nid {
    "192.168.1.20@tcp".parse().unwrap()
}

/// A GET, REPLY, PUT or ACK between A and B in the form in which they write it.
fn header(dest_nid: Nid, src_nid: Nid, payload_length: u32, body: Body) -> Header {
    Header {
        dest_nid,
        src_nid,
        dest_pid: 12345,
        src_pid: 12345,
        payload_length,
        body,
    }
}

fn assert_frame_is(bytes: &[u8], expected: Header) {
    let (ksock, lnet) = bytes.split_at(KsockHeader::LEN);
    assert_eq!(ksock, KsockHeader::LNET.to_bytes());
    assert_eq!(Header::decode(HeaderForm::Nid4, lnet).unwrap(), expected);
    let mut encoded = [0xAA; 72];
    assert_eq!(expected.encode(HeaderForm::Nid4, &mut encoded).unwrap(), 72);
    assert_eq!(encoded, lnet[..72]);
}

// [REQ-1] [REQ-2] [TYPE-1]
#[test]
fn connection_request_version_1() {
    let bytes = hex("0071ceac 01000000 1401a8c0 00000200");
    let connreq = Connreq {
        version: ConnreqVersion::V1,
        target: b(),
    };
    assert_eq!(Connreq::decode(&bytes).unwrap(), connreq);
    assert_eq!(Connreq::to(b()), connreq);
    let mut encoded = [0xAA; 16];
    assert_eq!(connreq.encode(&mut encoded).unwrap(), 16);
    assert_eq!(encoded, *bytes);
}

// [HELLO-1] [HELLO-3]
#[test]
fn hello_version_3_of_the_dialler() {
    let bytes = hex("63697245 03000000 0a01a8c0 00000200
                     1401a8c0 00000200 39300000 00000000
                     07f6e5d4 c3b2a118 00000000 00000000
                     01000000 00000000");
    let received = Hello::decode(&bytes).unwrap();
    assert_eq!(
        received.hello,
        Hello::dial(a(), b(), INCARNATION, Ctype::CONTROL)
    );
    assert_eq!(received.hello.version, HelloVersion::V3);
    assert_eq!((received.len, received.addresses.len()), (56, 0));
    let mut encoded = [0xAA; 56];
    assert_eq!(received.hello.encode(&mut encoded).unwrap(), 56);
    assert_eq!(encoded, *bytes);
}

// [HELLO-5] [HELLO-6] [HELLO-9]
#[test]
fn hello_version_3_of_the_acceptor_and_its_rejection() {
    let mut bytes = hex("63697245 03000000 1401a8c0 00000200
                         0a01a8c0 00000200 39300000 00000000
                         01000000 0000a018 00000000 00000000
                         01000000 00000000");
    let dialled = Hello::dial(a(), b(), INCARNATION, Ctype::CONTROL);
    let mut encoded = [0xAA; 56];
    dialled
        .reply(b(), 0x18a0_0000_0000_0001, Ctype::CONTROL)
        .encode(&mut encoded)
        .unwrap();
    assert_eq!(encoded, *bytes);
    dialled
        .reply(b(), 0x18a0_0000_0000_0001, Ctype::NONE)
        .encode(&mut encoded)
        .unwrap();
    bytes[0x30..0x34].fill(0xFF);
    assert_eq!(encoded, *bytes);
}

// [FRAME-1] [MSG-1]
#[test]
fn ping_get() {
    let bytes = hex("c1000000 00000000 00000000 00000000
                     00000000 00000000 1401a8c0 00000200
                     0a01a8c0 00000200 39300000 39300000
                     02000000 00000000 07f6e5d4 c3b2a118
                     11000000 00000080 00000000 00000080
                     00000000 00000000 10010000 00000000");
    let get = Get {
        return_wmd: Handle {
            interface: INCARNATION,
            object: 0x8000_0000_0000_0011,
        },
        match_bits: PING_MATCH_BITS,
        ptl_index: 0,
        src_offset: 0,
        sink_length: 272,
    };
    assert_frame_is(&bytes, header(b(), a(), 0, Body::Get(get)));
}

const PING_INFO: &str = "676e6970 1e000000 39300000 02000000
                         00000000 00000900 01000000 00000000
                         1401a8c0 00000200 dec0aa15 00000000";

#[test]
fn ping_reply() {
    let bytes = hex("c1000000 00000000 00000000 00000000
                     00000000 00000000 0a01a8c0 00000200
                     1401a8c0 00000200 39300000 39300000
                     03000000 30000000 07f6e5d4 c3b2a118
                     11000000 00000080 00000000 00000000
                     00000000 00000000 00000000 00000000");
    let dst_wmd = Handle {
        interface: INCARNATION,
        object: 0x8000_0000_0000_0011,
    };
    assert_frame_is(&bytes, header(a(), b(), 48, Body::Reply(Reply { dst_wmd })));
}

// [PING-5] [PING-6] [PING-7]
#[test]
fn ping_info_of_a_node_with_one_interface() {
    let bytes = hex(PING_INFO);
    let info = PingInfo::parse(&bytes).unwrap();
    assert_eq!(info.features().bits(), 0x1e);
    assert_eq!(
        (info.pid(), info.nnis(), info.sequence()),
        (12345, 2, Some(1))
    );
    let nis = [PingNi {
        nid: b(),
        status: NiStatus::UP,
    }];
    assert_eq!(info.nis().collect::<Vec<_>>(), nis);
    assert_eq!(info.validate(16), Ok(()));

    let features = PingFeatures::from_bits_retain(0x1e);
    let repr = PingInfoRepr {
        features,
        pid: 12345,
        sequence: 1,
        nis: &nis,
    };
    let mut encoded = [0xAA; 48];
    assert_eq!(repr.with_large_bits().encode(&mut encoded).unwrap(), 48);
    assert_eq!(encoded, *bytes);
}

// [DATA-2]
#[test]
fn push_and_its_acknowledgement() {
    let handle = Handle {
        interface: 0x1122_3344_5566_7788,
        object: 0x21,
    };
    let push = hex("c1000000 00000000 00000000 00000000
                    00000000 00000000 0a01a8c0 00000200
                    1401a8c0 00000200 39300000 39300000
                    01000000 30000000 88776655 44332211
                    21000000 00000000 00000000 00000080
                    00000000 00000000 00000000 00000000");
    let put = Put {
        ack_wmd: handle,
        match_bits: PING_MATCH_BITS,
        hdr_data: 0,
        ptl_index: 0,
        offset: 0,
    };
    assert_frame_is(&push, header(a(), b(), 48, Body::Put(put)));

    let answer = hex("c1000000 00000000 00000000 00000000
                      00000000 00000000 1401a8c0 00000200
                      0a01a8c0 00000200 39300000 39300000
                      00000000 00000000 88776655 44332211
                      21000000 00000000 00000000 00000080
                      30000000 00000000 00000000 00000000");
    let ack = Ack {
        dst_wmd: handle,
        match_bits: PING_MATCH_BITS,
        mlength: 48,
    };
    assert_frame_is(&answer, header(b(), a(), 0, Body::Ack(ack)));
}

// [KEEP-1] [ZC-4]
#[test]
fn keepalive_and_zero_copy_acknowledgement() {
    let keepalive = hex("c0000000 00000000 0000000000000000 0100000000000000");
    assert_eq!(KsockHeader::KEEPALIVE.to_bytes(), *keepalive);
    assert_eq!(KsockHeader::KEEPALIVE.zc_ack(), Ok(ZcAck::Keepalive));
    let ack = hex("c0000000 00000000 0000000000000000 2a00000000000000");
    assert_eq!(KsockHeader::ack(42).to_bytes(), *ack);
    let decoded = KsockHeader::decode(lnet_wire::ByteOrder::Little, &ack).unwrap();
    assert_eq!(
        (decoded.frame_type, decoded.zc_ack()),
        (FrameType::Noop, Ok(ZcAck::One(42)))
    );
}

// [LARGE-1] [LARGE-6]
#[test]
fn large_nid_in_a_version_2_request() {
    let target: Nid = "fd00::1@tcp".parse().unwrap();
    let connreq = Connreq::to(target);
    assert_eq!(connreq.version, ConnreqVersion::V2);
    let mut encoded = [0xAA; Connreq::MAX_LEN];
    assert_eq!(connreq.encode(&mut encoded).unwrap(), 28);
    let expected = hex("0071ceac 02000000 0c020000 fd00 00000000000000000000000000 01");
    assert_eq!(encoded, *expected);
    assert_eq!(Connreq::decode(&encoded).unwrap(), connreq);
}
