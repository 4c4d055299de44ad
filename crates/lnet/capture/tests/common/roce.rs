//! Artificial captures of RoCE: the connection manager, and two queue pairs.

use std::net::Ipv4Addr;

use lnet_types::Nid;
use lnet_wire::o2ib::{
    Body, Descriptor, Envelope, Fragment, Message, Parameters, Rejection, SERVICE,
};
use lnet_wire::{Body as LnetBody, Get, Handle, Header, Put};

use super::capture::pcap;

pub(crate) const CLIENT: End = End {
    address: Ipv4Addr::new(10, 0, 0, 1),
    number: 0x11,
    qp: 0x21,
    first: 0xFF_FFFE,
};
pub(crate) const SERVER: End = End {
    address: Ipv4Addr::new(10, 0, 0, 2),
    number: 0x12,
    qp: 0x22,
    first: 7,
};

/// The operations of a reliable connection.
pub(crate) const SEND_FIRST: u8 = 0;
pub(crate) const SEND_LAST: u8 = 2;
pub(crate) const SEND_ONLY: u8 = 4;
pub(crate) const WRITE_FIRST: u8 = 6;
pub(crate) const WRITE_MIDDLE: u8 = 7;
pub(crate) const WRITE_LAST: u8 = 8;
const ACKNOWLEDGE: u8 = 0x11;
const DATAGRAM: u8 = 0x64;

/// One end of a connection: its address, its number for the connection manager, its queue pair, and its first sequence
/// number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) address: Ipv4Addr,
    number: u32,
    pub(crate) qp: u32,
    pub(crate) first: u32,
}

impl End {
    pub(crate) fn nid(self) -> Nid {
        format!("{}@o2ib", self.address).parse().expect("a NID")
    }

    /// Returns the sequence number of this end's packet with this index.
    pub(crate) fn psn(self, index: u32) -> u32 {
        (self.first + index) & 0xFF_FFFF
    }
}

/// Returns the bytes of a message of the LND from one end to the other.
pub(crate) fn message(from: End, to: End, body: Body<'_>) -> Vec<u8> {
    let envelope = Envelope {
        credits: 0,
        source: from.nid(),
        source_incarnation: 1,
        destination: to.nid(),
        destination_incarnation: 2,
    };
    let mut buffer = vec![0; 4096];
    let len = Message { envelope, body }
        .encode(&mut buffer)
        .expect("a message");
    buffer.truncate(len);
    buffer
}

fn word(value: u32) -> [u8; 4] {
    value.to_be_bytes()
}

/// Returns an IP packet with a packet of RDMA in it: headers behind the base transport header, and payload.
pub(crate) fn packet(from: End, to: End, opcode: u8, qp: u32, psn: u32, rest: &[u8]) -> Vec<u8> {
    let pad = rest.len().next_multiple_of(4) - rest.len();
    let mut rdma = vec![opcode, (pad as u8) << 4, 0xFF, 0xFF];
    rdma.extend(word(qp));
    rdma.extend(word(psn));
    rdma.extend(rest);
    rdma.resize(rdma.len() + pad + 4, 0);
    let udp_len = (8 + rdma.len()) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend((20 + udp_len).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    ip.extend(from.address.octets());
    ip.extend(to.address.octets());
    ip.extend(0xC000_u16.to_be_bytes());
    ip.extend(4791_u16.to_be_bytes());
    ip.extend(udp_len.to_be_bytes());
    ip.extend([0, 0]);
    ip.extend(rdma);
    ip
}

/// Returns the packet of an end with this index.
pub(crate) fn sent(from: End, to: End, opcode: u8, index: u32, rest: &[u8]) -> Vec<u8> {
    packet(from, to, opcode, to.qp, from.psn(index), rest)
}

/// Returns an acknowledgement of the packet of `to` with this index.
pub(crate) fn acknowledged(from: End, to: End, syndrome: u8, index: u32) -> Vec<u8> {
    let rest = word(u32::from(syndrome) << 24);
    packet(from, to, ACKNOWLEDGE, to.qp, to.psn(index), &rest)
}

/// Returns the header of a write.
pub(crate) fn memory(address: u64, rkey: u32, length: u32) -> Vec<u8> {
    let mut bytes = address.to_be_bytes().to_vec();
    bytes.extend(word(rkey));
    bytes.extend(word(length));
    bytes
}

fn datagram(from: End, to: End, attribute: u16, body: Vec<u8>) -> Vec<u8> {
    let mut rest = word(0x8001_0000).to_vec();
    rest.extend(word(1));
    rest.extend([1, 7, 2, 3]);
    rest.extend([0; 12]);
    rest.extend(attribute.to_be_bytes());
    rest.extend([0; 6]);
    rest.extend(body);
    packet(from, to, DATAGRAM, 1, 0, &rest)
}

fn body(data_at: usize, parts: &[(usize, &[u8])], data: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 232];
    for (at, part) in parts.iter().copied().chain([(data_at, data)]) {
        body[at..at + part.len()].copy_from_slice(part);
    }
    body
}

/// Returns a request for a connection to a service.
pub(crate) fn request(from: End, to: End, service: u16) -> Vec<u8> {
    let parameters = Parameters {
        queue_depth: 8,
        fragments: 257,
        message_size: 4096,
    };
    let mut data = vec![0, 0x40];
    data.extend(1023_u16.to_be_bytes());
    data.extend([0; 12]);
    data.extend(from.address.octets());
    data.extend([0; 12]);
    data.extend(to.address.octets());
    data.extend(message(from, to, Body::Connreq(parameters)));
    let parts = [
        (0, &word(from.number)[..]),
        (12, &word(0x0106_0000 + u32::from(service))),
        (32, &word(from.qp << 8)),
        (44, &word(to.first << 8)),
    ];
    datagram(from, to, 0x10, body(140, &parts, &data))
}

/// Returns the reply to a request.
pub(crate) fn reply(from: End, to: End) -> Vec<u8> {
    let parameters = Parameters {
        queue_depth: 8,
        fragments: 257,
        message_size: 4096,
    };
    let data = message(from, to, Body::Connack(parameters));
    let parts = [
        (0, &word(from.number)[..]),
        (4, &word(to.number)),
        (12, &word(from.qp << 8)),
        (20, &word(to.first << 8)),
    ];
    datagram(from, to, 0x13, body(36, &parts, &data))
}

/// Returns a rejection of a request, for a reason of the connection manager or, with 28, LNet's.
pub(crate) fn rejection(from: End, to: End, reason: u16, rejection: &Rejection) -> Vec<u8> {
    let parts = [(4, &word(to.number)[..]), (10, &reason.to_be_bytes())];
    datagram(from, to, 0x12, body(84, &parts, &rejection.to_bytes()))
}

/// Returns a message of the connection manager without data: 0x14 ready, 0x15 disconnect, 0x16 disconnected.
pub(crate) fn step(from: End, to: End, attribute: u16) -> Vec<u8> {
    let parts = [(0, &word(from.number)[..])];
    datagram(from, to, attribute, body(4, &parts, &word(to.number)))
}

/// Returns the packets by which two ends connect.
pub(crate) fn connected() -> Vec<Vec<u8>> {
    vec![
        request(CLIENT, SERVER, SERVICE),
        reply(SERVER, CLIENT),
        step(CLIENT, SERVER, 0x14),
    ]
}

fn put(from: End, to: End, payload_length: u32) -> Header {
    Header {
        dest_nid: to.nid(),
        src_nid: from.nid(),
        dest_pid: 12345,
        src_pid: 12345,
        payload_length,
        body: LnetBody::Put(Put {
            ack_wmd: Handle::NONE,
            match_bits: 5,
            hdr_data: 0,
            ptl_index: 4,
            offset: 0,
        }),
    }
}

/// Returns an IMMEDIATE message with a PUT to portal 4.
pub(crate) fn immediate(from: End, to: End, payload: &[u8]) -> Vec<u8> {
    let header = put(from, to, payload.len() as u32);
    message(from, to, Body::Immediate { header, payload })
}

/// Returns a PUT_REQ for a PUT to portal 4.
pub(crate) fn put_req(from: End, to: End, payload_length: u32) -> Vec<u8> {
    let header = put(from, to, payload_length);
    message(from, to, Body::PutReq { header, cookie: 1 })
}

/// Returns the memory of 2,500 bytes in some fragments.
pub(crate) fn descriptor(fragments: u32) -> Descriptor {
    let each = 2500 / fragments;
    let fragment = |index: u32| Fragment {
        length: each,
        address: 0x7000 + u64::from(index * each),
    };
    Descriptor {
        rkey: 9,
        fragments: (0..fragments).map(fragment).collect(),
    }
}

/// Returns a capture with a message of every type, and one that was sent again.
pub(crate) fn every_message() -> Vec<u8> {
    let get = Header {
        body: LnetBody::Get(Get {
            return_wmd: Handle::NONE,
            match_bits: 5,
            ptl_index: 4,
            src_offset: 0,
            sink_length: 2500,
        }),
        ..put(SERVER, CLIENT, 0)
    };
    let asks = |payload_length, cookie| Body::PutReq {
        header: put(CLIENT, SERVER, payload_length),
        cookie,
    };
    let gives = Body::PutAck {
        source_cookie: 1,
        sink_cookie: 2,
        descriptor: descriptor(2),
    };
    let (header, descriptor) = (get, descriptor(1));
    let fetches = Body::GetReq {
        header,
        cookie: 3,
        descriptor,
    };
    let by_client = |body| (CLIENT, message(CLIENT, SERVER, body));
    let by_server = |body| (SERVER, message(SERVER, CLIENT, body));
    let said = [
        by_client(asks(2500, 1)),
        by_server(gives),
        by_client(Body::PutDone {
            cookie: 2,
            status: -5,
        }),
        by_server(fetches),
        by_client(Body::GetDone {
            cookie: 3,
            status: 2500,
        }),
        by_client(asks(4000, 1)),
        by_server(Body::PutNak {
            cookie: 1,
            status: 0,
        }),
        by_client(Body::Noop),
        (SERVER, immediate(SERVER, CLIENT, b"payload")),
        (CLIENT, immediate(CLIENT, SERVER, b"")),
    ];
    let mut packets = connected();
    let mut indices = [0; 2];
    for (from, message) in said {
        let (to, index) = match from.qp == CLIENT.qp {
            true => (SERVER, &mut indices[0]),
            false => (CLIENT, &mut indices[1]),
        };
        packets.push(sent(from, to, SEND_ONLY, *index, &message));
        *index += 1;
    }
    packets.extend(packets.last().cloned());
    pcap(101, &packets)
}
