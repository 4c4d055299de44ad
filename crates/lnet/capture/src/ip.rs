//! Finds the TCP segment, or the RDMA packet, in a captured packet.
//!
//! ```text
//! Ethernet [VLAN…] ┐
//! Linux cooked v1, v2 ├─ EtherType ─ IPv4 | IPv6 [extension headers…] ┬─ TCP ─ payload
//! raw IP, null/loopback ┘                                             └─ UDP 4791 ─ RDMA
//! InfiniBand ─ LRH [GRH] ─ RDMA
//! ```
//!
//! Lengths are checked before use. A packet without either has a [`Skipped`] reason. A
//! packet that the snap length of the capture truncated has the present payload and the number of
//! missing bytes. Checksums are not verified, because with offloading the packets captured on the
//! sender have none.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::file::Packet;
use crate::rdma::packet::{self, RdmaPacket};

/// Why a packet has no readable TCP segment and no RDMA packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skipped {
    /// The capture's link type is not known.
    LinkType(u16),
    /// Neither IPv4 nor IPv6: ARP, LLDP, ….
    NotIp,
    /// IP, but neither TCP nor RDMA.
    OtherProtocol,
    /// A fragment of an IP packet; fragments are not reassembled.
    IpFragment,
    /// A header contradicts itself or is incomplete.
    Malformed,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkType(number) => write!(f, "unknown link type {number}"),
            Self::NotIp => f.write_str("not IP"),
            Self::OtherProtocol => f.write_str("neither TCP nor RDMA"),
            Self::IpFragment => f.write_str("IP fragment (unsupported)"),
            Self::Malformed => f.write_str("malformed"),
        }
    }
}

/// One TCP segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// Sequence number of the first payload byte, or of the SYN.
    pub(crate) sequence: u32,
    /// The acknowledgement number, if the ACK flag is set.
    pub(crate) acknowledged: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) payload: &'a [u8],
    /// Payload bytes at the end that the capture lacks.
    pub(crate) cut: usize,
}

/// What a packet carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Carried<'a> {
    Tcp(Segment<'a>),
    Rdma(RdmaPacket<'a>),
}

/// Finds what a packet carries.
pub(crate) fn carried<'a>(packet: &Packet<'a>) -> Result<Carried<'a>, Skipped> {
    if packet.link_type == LINK_INFINIBAND {
        return packet::of_infiniband(packet.data).map(Carried::Rdma);
    }
    let ip = match network_packet(packet)? {
        (ETHERTYPE_ROCE, data) => return packet::of_global_route(data).map(Carried::Rdma),
        (_, ip) => ip,
    };
    let transport = match ip.first().ok_or(Skipped::Malformed)? >> 4 {
        4 => ipv4(ip)?,
        6 => ipv6(ip)?,
        _ => return Err(Skipped::NotIp),
    };
    match transport.protocol {
        PROTOCOL_TCP => tcp(&transport).map(Carried::Tcp),
        PROTOCOL_UDP => roce(&transport).map(Carried::Rdma),
        _ => Err(Skipped::OtherProtocol),
    }
}

// LINKTYPE_ numbers of the pcap format.
const LINK_NULL: u16 = 0;
const LINK_ETHERNET: u16 = 1;
const LINK_RAW: [u16; 5] = [12, 14, 101, 228, 229];
const LINK_LOOP: u16 = 108;
const LINK_LINUX_SLL: u16 = 113;
const LINK_INFINIBAND: u16 = 247;
const LINK_LINUX_SLL2: u16 = 276;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86DD;
/// RDMA over Converged Ethernet, version 1: a global route header without IP.
const ETHERTYPE_ROCE: u16 = 0x8915;
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88A8, 0x9100];
/// The most VLAN tags; switches do not add more.
const VLAN_TAGS_MAX: usize = 4;

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
/// The UDP port of RDMA over Converged Ethernet, version 2.
const PORT_ROCE: u16 = 4791;
/// The most extension headers; hosts do not send more in an IPv6 packet.
const IPV6_EXTENSIONS_MAX: usize = 8;

/// The properties of a segment or datagram that the IP header shows.
struct Transport<'a> {
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    data: &'a [u8],
    cut: usize,
}

/// Returns the packet of the network layer with its EtherType; 0 where the capture says only that the packet is IP.
fn network_packet<'a>(packet: &Packet<'a>) -> Result<(u16, &'a [u8]), Skipped> {
    let data = packet.data;
    match packet.link_type {
        LINK_ETHERNET => behind_ethertype(data, 12),
        LINK_LINUX_SLL => behind_ethertype(data, 14),
        LINK_LINUX_SLL2 => {
            let ethertype = u16_at(data, 0)?;
            behind_vlan(ethertype, data.get(20..).ok_or(Skipped::Malformed)?)
        }
        LINK_NULL | LINK_LOOP => Ok((0, data.get(4..).ok_or(Skipped::Malformed)?)),
        raw if LINK_RAW.contains(&raw) => Ok((0, data)),
        unknown => Err(Skipped::LinkType(unknown)),
    }
}

fn behind_ethertype(data: &[u8], at: usize) -> Result<(u16, &[u8]), Skipped> {
    let ethertype = u16_at(data, at)?;
    behind_vlan(ethertype, data.get(at + 2..).ok_or(Skipped::Malformed)?)
}

fn behind_vlan(mut ethertype: u16, mut data: &[u8]) -> Result<(u16, &[u8]), Skipped> {
    for _ in 0..VLAN_TAGS_MAX {
        if !ETHERTYPES_VLAN.contains(&ethertype) {
            break;
        }
        ethertype = u16_at(data, 2)?;
        data = data.get(4..).ok_or(Skipped::Malformed)?;
    }
    match ethertype {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 | ETHERTYPE_ROCE => Ok((ethertype, data)),
        _ => Err(Skipped::NotIp),
    }
}

fn ipv4(data: &[u8]) -> Result<Transport<'_>, Skipped> {
    let header_len = usize::from(byte_at(data, 0)? & 0x0F) * 4;
    if header_len < 20 {
        return Err(Skipped::Malformed);
    }
    const MORE_FRAGMENTS_AND_OFFSET: u16 = 0x3FFF;
    if u16_at(data, 6)? & MORE_FRAGMENTS_AND_OFFSET != 0 {
        return Err(Skipped::IpFragment);
    }
    let protocol = byte_at(data, 9)?;
    let from = IpAddr::V4(Ipv4Addr::from(array_at::<4>(data, 12)?));
    let to = IpAddr::V4(Ipv4Addr::from(array_at::<4>(data, 16)?));
    let total = usize::from(u16_at(data, 2)?);
    // With segmentation offload, packets that are captured before the split have length 0.
    let payload_len = match total {
        0 => None,
        total => Some(total.checked_sub(header_len).ok_or(Skipped::Malformed)?),
    };
    let payload = data.get(header_len..).ok_or(Skipped::Malformed)?;
    transport([from, to], protocol, payload, payload_len)
}

fn ipv6(data: &[u8]) -> Result<Transport<'_>, Skipped> {
    let from = IpAddr::V6(Ipv6Addr::from(array_at::<16>(data, 8)?));
    let to = IpAddr::V6(Ipv6Addr::from(array_at::<16>(data, 24)?));
    let mut next = byte_at(data, 6)?;
    let mut at = 40;
    for _ in 0..IPV6_EXTENSIONS_MAX {
        let Some(length) = ipv6_extension_len(next, data, at)? else {
            break;
        };
        next = byte_at(data, at)?;
        at += length;
    }
    // As for IPv4: 0 means a packet captured before its split, or a jumbogram.
    let payload_len = match usize::from(u16_at(data, 4)?) {
        0 => None,
        length => Some((length + 40).checked_sub(at).ok_or(Skipped::Malformed)?),
    };
    let payload = data.get(at..).ok_or(Skipped::Malformed)?;
    transport([from, to], next, payload, payload_len)
}

/// The length of the extension header at `at`; `None` if `next` is not an extension header.
fn ipv6_extension_len(next: u8, data: &[u8], at: usize) -> Result<Option<usize>, Skipped> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION: u8 = 60;
    match next {
        HOP_BY_HOP | ROUTING | DESTINATION => {
            Ok(Some((usize::from(byte_at(data, at + 1)?) + 1) * 8))
        }
        AUTHENTICATION => Ok(Some((usize::from(byte_at(data, at + 1)?) + 2) * 4)),
        FRAGMENT if u16_at(data, at + 2)? & 0xFFF9 == 0 => Ok(Some(8)),
        FRAGMENT => Err(Skipped::IpFragment),
        _ => Ok(None),
    }
}

/// Removes the padding of the link layer and counts the bytes that the capture lacks.
fn transport(
    [from, to]: [IpAddr; 2],
    protocol: u8,
    data: &[u8],
    length: Option<usize>,
) -> Result<Transport<'_>, Skipped> {
    let length = length.unwrap_or(data.len());
    let kept = length.min(data.len());
    let data = data.get(..kept).ok_or(Skipped::Malformed)?;
    Ok(Transport {
        from,
        to,
        protocol,
        data,
        cut: length - kept,
    })
}

fn tcp<'a>(ip: &Transport<'a>) -> Result<Segment<'a>, Skipped> {
    const FIN: u8 = 0x01;
    const SYN: u8 = 0x02;
    const RST: u8 = 0x04;
    const ACK: u8 = 0x10;
    let data = ip.data;
    let header_len = usize::from(byte_at(data, 12)? >> 4) * 4;
    if header_len < 20 {
        return Err(Skipped::Malformed);
    }
    let flags = byte_at(data, 13)?;
    Ok(Segment {
        from: SocketAddr::new(ip.from, u16_at(data, 0)?),
        to: SocketAddr::new(ip.to, u16_at(data, 2)?),
        sequence: u32::from_be_bytes(array_at(data, 4)?),
        acknowledged: match flags & ACK {
            0 => None,
            _ => Some(u32::from_be_bytes(array_at(data, 8)?)),
        },
        syn: flags & SYN != 0,
        fin: flags & FIN != 0,
        rst: flags & RST != 0,
        payload: data.get(header_len..).ok_or(Skipped::Malformed)?,
        cut: ip.cut,
    })
}

fn roce<'a>(ip: &Transport<'a>) -> Result<RdmaPacket<'a>, Skipped> {
    const HEADER_LEN: usize = 8;
    if u16_at(ip.data, 2)? != PORT_ROCE {
        return Err(Skipped::OtherProtocol);
    }
    let data = ip.data.get(HEADER_LEN..).ok_or(Skipped::Malformed)?;
    RdmaPacket::read([ip.from, ip.to], data, ip.cut)
}

pub(crate) fn byte_at(data: &[u8], at: usize) -> Result<u8, Skipped> {
    data.get(at).copied().ok_or(Skipped::Malformed)
}

pub(crate) fn u16_at(data: &[u8], at: usize) -> Result<u16, Skipped> {
    Ok(u16::from_be_bytes(array_at(data, at)?))
}

pub(crate) fn array_at<const N: usize>(data: &[u8], at: usize) -> Result<[u8; N], Skipped> {
    data.get(at..)
        .and_then(|tail| tail.first_chunk::<N>())
        .copied()
        .ok_or(Skipped::Malformed)
}
