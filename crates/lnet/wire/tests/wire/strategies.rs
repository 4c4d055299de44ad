//! Random values of every structure.

use std::net::{IpAddr, Ipv6Addr};

use lnet_types::{LndType, Net, Nid};
use lnet_wire::{
    Ack, Body, Connreq, ConnreqVersion, Ctype, FrameType, Get, Handle, Header, HeaderForm, Hello,
    HelloVersion, KsockHeader, LNET_MTU, NiStatus, PingFeatures, PingNi, Put, Reply,
};
use proptest::prelude::*;

pub(crate) fn small_nid() -> impl Strategy<Value = Nid> {
    (0u8..0xFF, any::<u16>(), any::<u32>()).prop_map(|(lnd, number, address)| {
        Nid::from_number(Net::new(LndType(lnd), number), address)
    })
}

pub(crate) fn large_nid() -> impl Strategy<Value = Nid> {
    (any::<u16>(), any::<u128>()).prop_map(|(number, address)| {
        Nid::from_ip(Net::tcp(number), IpAddr::V6(Ipv6Addr::from_bits(address)))
    })
}

pub(crate) fn nid() -> impl Strategy<Value = Nid> {
    prop_oneof![small_nid(), large_nid()]
}

pub(crate) fn connreq() -> impl Strategy<Value = Connreq> {
    let v1 = small_nid().prop_map(|target| Connreq {
        version: ConnreqVersion::V1,
        target,
    });
    let v2 = nid().prop_map(|target| Connreq {
        version: ConnreqVersion::V2,
        target,
    });
    prop_oneof![v1, v2]
}

pub(crate) fn ctype() -> impl Strategy<Value = Ctype> {
    prop_oneof![4 => (0u32..4).prop_map(Ctype), 1 => any::<u32>().prop_map(Ctype)]
}

/// A HELLO of version 2, 3 or 4.
pub(crate) fn hello() -> impl Strategy<Value = Hello> {
    let versions = prop_oneof![Just(HelloVersion::V2), Just(HelloVersion::V3)];
    let v2_v3 = hello_with(versions, small_nid(), small_nid());
    let v4 = hello_with(Just(HelloVersion::V4), nid(), nid());
    prop_oneof![v2_v3, v4]
}

pub(crate) fn hello_v1() -> impl Strategy<Value = Hello> {
    let hello = hello_with(Just(HelloVersion::V1), small_nid(), Just(Nid::ANY));
    hello.prop_map(|hello| Hello {
        dst_pid: 0,
        dst_incarnation: 0,
        ..hello
    })
}

fn hello_with(
    version: impl Strategy<Value = HelloVersion>,
    src: impl Strategy<Value = Nid>,
    dst: impl Strategy<Value = Nid>,
) -> impl Strategy<Value = Hello> {
    (
        version,
        src,
        dst,
        any::<[u32; 2]>(),
        any::<[u64; 2]>(),
        ctype(),
    )
        .prop_map(
            |(version, src_nid, dst_nid, pids, incarnations, ctype)| Hello {
                version,
                src_nid,
                dst_nid,
                src_pid: pids[0],
                dst_pid: pids[1],
                src_incarnation: incarnations[0],
                dst_incarnation: incarnations[1],
                ctype,
            },
        )
}

pub(crate) fn ksock_header() -> impl Strategy<Value = KsockHeader> {
    let frame_type = prop_oneof![Just(FrameType::Noop), Just(FrameType::Lnet)];
    (frame_type, any::<u32>(), any::<[u64; 2]>()).prop_map(|(frame_type, csum, cookies)| {
        KsockHeader {
            frame_type,
            csum,
            cookies,
        }
    })
}

fn handle() -> impl Strategy<Value = Handle> {
    let some = any::<[u64; 2]>().prop_map(|[interface, object]| Handle { interface, object });
    prop_oneof![4 => some, 1 => Just(Handle::NONE)]
}

fn body() -> impl Strategy<Value = Body> {
    let numbers = (handle(), any::<[u64; 2]>(), any::<[u32; 3]>());
    (0u32..4, numbers).prop_map(
        |(which, (handle, [match_bits, hdr_data], [x, y, z]))| match which {
            0 => Body::Ack(Ack {
                dst_wmd: handle,
                match_bits,
                mlength: x,
            }),
            1 => Body::Put(Put {
                ack_wmd: handle,
                match_bits,
                hdr_data,
                ptl_index: x,
                offset: y,
            }),
            2 => Body::Get(Get {
                return_wmd: handle,
                match_bits,
                ptl_index: x,
                src_offset: y,
                sink_length: z,
            }),
            _ => Body::Reply(Reply { dst_wmd: handle }),
        },
    )
}

/// A header and a form that can express it.
pub(crate) fn header() -> impl Strategy<Value = (HeaderForm, Header)> {
    let nid4 = header_with(small_nid(), small_nid()).prop_map(|header| (HeaderForm::Nid4, header));
    let nid16 = header_with(nid(), nid()).prop_map(|header| (HeaderForm::Nid16, header));
    prop_oneof![nid4, nid16]
}

fn header_with(
    dest: impl Strategy<Value = Nid>,
    src: impl Strategy<Value = Nid>,
) -> impl Strategy<Value = Header> {
    (dest, src, any::<[u32; 2]>(), 0..=LNET_MTU, body()).prop_map(
        |(dest_nid, src_nid, pids, payload, body)| Header {
            dest_nid,
            src_nid,
            dest_pid: pids[0],
            src_pid: pids[1],
            payload_length: payload.min(body.message_type().payload_max()),
            body,
        },
    )
}

pub(crate) fn nis() -> impl Strategy<Value = Vec<PingNi>> {
    let status = prop_oneof![
        Just(NiStatus::UP),
        Just(NiStatus::DOWN),
        Just(NiStatus::INVALID)
    ];
    let ni = (nid(), status).prop_map(|(nid, status)| PingNi { nid, status });
    proptest::collection::vec(ni, 0..8)
}

/// Feature bits without those that follow from the interfaces and without METADATA, which is never
/// written.
pub(crate) fn features() -> impl Strategy<Value = PingFeatures> {
    let decided = PingFeatures::LARGE_ADDR | PingFeatures::PRIMARY_LARGE | PingFeatures::METADATA;
    any::<u32>().prop_map(move |bits| PingFeatures::from_bits_retain(bits) - decided)
}
