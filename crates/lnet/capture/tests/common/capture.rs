//! Artificial captures: TCP segments between two nodes, in any file format and link type.

use std::net::{IpAddr, Ipv4Addr};

/// The dialling node's socket: 10.0.0.1 port 1023.
pub(crate) const DIALLER: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1023);
/// The listening node's socket: 10.0.0.2 port 988.
pub(crate) const LISTENER: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 988);

pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// One TCP segment.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) from: (IpAddr, u16),
    pub(crate) to: (IpAddr, u16),
    pub(crate) sequence: u32,
    pub(crate) acknowledged: u32,
    pub(crate) flags: u8,
    pub(crate) payload: Vec<u8>,
}

impl Segment {
    pub(crate) fn from_dialler(sequence: u32, flags: u8, payload: &[u8]) -> Self {
        let (from, to, payload) = (DIALLER, LISTENER, payload.to_vec());
        Self {
            from,
            to,
            sequence,
            acknowledged: 0,
            flags,
            payload,
        }
    }

    pub(crate) fn from_listener(sequence: u32, flags: u8, payload: &[u8]) -> Self {
        let (from, to, payload) = (LISTENER, DIALLER, payload.to_vec());
        Self {
            from,
            to,
            sequence,
            acknowledged: 0,
            flags,
            payload,
        }
    }

    pub(crate) fn acknowledging(mut self, sequence: u32) -> Self {
        self.acknowledged = sequence;
        self.flags |= ACK;
        self
    }

    /// The IP packet, without checksums.
    pub(crate) fn ip_packet(&self) -> Vec<u8> {
        let tcp = self.tcp();
        match (self.from.0, self.to.0) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let total = (20 + tcp.len()) as u16;
                let mut packet = vec![0x45, 0];
                packet.extend(total.to_be_bytes());
                packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
                packet.extend(from.octets());
                packet.extend(to.octets());
                packet.extend(tcp);
                packet
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let mut packet = vec![0x60, 0, 0, 0];
                packet.extend((tcp.len() as u16).to_be_bytes());
                packet.extend([6, 64]);
                packet.extend(from.octets());
                packet.extend(to.octets());
                packet.extend(tcp);
                packet
            }
            _ => panic!("both ends are of one family"),
        }
    }

    fn tcp(&self) -> Vec<u8> {
        let mut tcp = Vec::new();
        tcp.extend(self.from.1.to_be_bytes());
        tcp.extend(self.to.1.to_be_bytes());
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.acknowledged.to_be_bytes());
        tcp.extend([0x50, self.flags, 0xFF, 0xFF, 0, 0, 0, 0]);
        tcp.extend(&self.payload);
        tcp
    }
}

/// A pcap file of raw IP packets, one microsecond apart.
pub(crate) fn pcap_of(segments: &[Segment]) -> Vec<u8> {
    let packets: Vec<_> = segments.iter().map(Segment::ip_packet).collect();
    pcap(101, &packets)
}

/// A little-endian pcap file with microseconds.
pub(crate) fn pcap(link_type: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    pcap_in(u32::to_le_bytes, 0xA1B2_C3D4, link_type, packets)
}

/// A pcap file in either byte order; `magic` decides between micro- and nanoseconds.
pub(crate) fn pcap_in(
    order: fn(u32) -> [u8; 4],
    magic: u32,
    link_type: u32,
    packets: &[Vec<u8>],
) -> Vec<u8> {
    // Version 2.4 as one word in the file's order.
    let version = if order(1) == [1, 0, 0, 0] {
        0x0004_0002
    } else {
        0x0002_0004
    };
    let mut file: Vec<u8> = [magic, version, 0, 0, 0x4_0000, link_type]
        .into_iter()
        .flat_map(order)
        .collect();
    for (index, packet) in packets.iter().enumerate() {
        let length = packet.len() as u32;
        file.extend(
            [1, index as u32, length, length]
                .into_iter()
                .flat_map(order),
        );
        file.extend(packet);
    }
    file
}

/// A pcapng file of one interface whose clock ticks in nanoseconds.
pub(crate) fn pcapng(link_type: u16, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut section = vec![0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0];
    section.extend([0xFF; 8]);
    block(&mut file, 0x0A0D_0D0A, &section);
    let mut interface = link_type.to_le_bytes().to_vec();
    interface.extend([0, 0, 0, 0, 4, 0]);
    const NANOSECONDS: [u8; 8] = [9, 0, 1, 0, 9, 0, 0, 0];
    interface.extend(NANOSECONDS);
    interface.extend([0; 4]);
    block(&mut file, 1, &interface);
    for (index, packet) in packets.iter().enumerate() {
        let length = packet.len() as u32;
        let ticks = 1_000_000_000 + 1000 * index as u64;
        let head = [0, (ticks >> 32) as u32, ticks as u32, length, length];
        let mut body: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
        body.extend(packet);
        body.resize(body.len().next_multiple_of(4), 0);
        block(&mut file, 6, &body);
    }
    file
}

fn block(file: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let length = (12 + body.len()) as u32;
    file.extend(kind.to_le_bytes());
    file.extend(length.to_le_bytes());
    file.extend(body);
    file.extend(length.to_le_bytes());
}
