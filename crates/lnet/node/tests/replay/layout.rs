//! Cuts the bytes of a message into named fields, with no byte left over.
//!
//! The cut is independent of the decoders on purpose: bytes that decoders skip or normalise (padding, unused words,
//! magics) are compared here, too.

use std::net::Ipv4Addr;
use std::ops::Range;

use lnet_types::{Net, Nid};

/// One message as it is on the stream: a connection request, a HELLO, or a whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message(pub(crate) Vec<u8>);

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) range: Range<usize>,
}

/// The names and byte counts of fields, in order.
type Layout = [(&'static str, usize)];

const CONNREQ_MAGIC: u32 = 0xACCE_7100;
const HELLO_MAGIC: u32 = 0x4572_6963;
const NOOP: u32 = 0xC0;
const LNET: u32 = 0xC1;

/// Offset of the payload in a frame: 24 bytes of frame header, 72 of LNet header.
const PAYLOAD_AT: usize = 96;
const DESTINATION_AT: usize = 24;
const SOURCE_AT: usize = 32;
const TYPE_AT: usize = 48;
const PAYLOAD_LENGTH_AT: usize = 52;

/// Returns whether `address` belongs to `node`: the addresses of a node on its nets end in the same byte.
pub(crate) fn is_of(address: Ipv4Addr, node: Ipv4Addr) -> bool {
    address.octets()[3] == node.octets()[3]
}

/// The place of the handle of the operation's initiator in every message.
const HANDLE: Range<usize> = 56..72;

/// The longest payload that is read, in bytes.
const PAYLOAD_MAX: usize = 1 << 20;

/// A connection request of version 1.
const CONNREQ: &Layout = &[("magic", 4), ("version", 4), ("target NID", 8)];

/// A HELLO of version 3 without addresses.
const HELLO: &Layout = &[
    ("magic", 4),
    ("version", 4),
    ("source NID", 8),
    ("destination NID", 8),
    ("source pid", 4),
    ("destination pid", 4),
    ("source incarnation", 8),
    ("destination incarnation", 8),
    ("type", 4),
    ("addresses", 4),
];

/// A frame header.
const FRAME: &Layout = &[
    ("frame type", 4),
    ("checksum", 4),
    ("zero-copy request", 8),
    ("zero-copy ack", 8),
];

/// The common part of a message header.
const HEADER: &Layout = &[
    ("destination NID", 8),
    ("source NID", 8),
    ("destination pid", 4),
    ("source pid", 4),
    ("type", 4),
    ("payload length", 4),
];

/// The last part of the header of a GET.
const GET: &Layout = &[
    ("handle interface", 8),
    ("handle object", 8),
    ("match bits", 8),
    ("portal", 4),
    ("source offset", 4),
    ("sink length", 4),
    ("unused", 4),
];

/// The last part of the header of a REPLY.
const REPLY: &Layout = &[
    ("handle interface", 8),
    ("handle object", 8),
    ("unused", 24),
];

/// The last part of the header of a PUT.
const PUT: &Layout = &[
    ("handle interface", 8),
    ("handle object", 8),
    ("match bits", 8),
    ("header data", 8),
    ("portal", 4),
    ("offset", 4),
];

/// The last part of the header of an ACK.
const ACK: &Layout = &[
    ("handle interface", 8),
    ("handle object", 8),
    ("match bits", 8),
    ("length", 4),
    ("unused", 12),
];

/// Ping information: the header and entry 0.
const PING_INFO: &Layout = &[
    ("info magic", 4),
    ("info features", 4),
    ("info pid", 4),
    ("info entries", 4),
    ("loopback NID", 8),
    ("info sequence", 4),
    ("info size", 4),
];

/// Ping information: the other entries.
const PING_ENTRY: &Layout = &[("entry NID", 8), ("entry status", 4), ("entry unused", 4)];

impl Message {
    /// Returns `CONNREQ`, `HELLO`, `NOOP`, or the LNet message type.
    pub(crate) fn name(&self) -> &'static str {
        match (self.word(0), self.word(TYPE_AT)) {
            (Some(CONNREQ_MAGIC), _) => "CONNREQ",
            (Some(HELLO_MAGIC), _) => "HELLO",
            (Some(NOOP), _) => "NOOP",
            (Some(LNET), Some(0)) => "ACK",
            (Some(LNET), Some(1)) => "PUT",
            (Some(LNET), Some(2)) => "GET",
            (Some(LNET), Some(3)) => "REPLY",
            _ => "UNKNOWN",
        }
    }

    /// Returns the fields, which cover all bytes of the message.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let layouts: &[&Layout] = match self.name() {
            "CONNREQ" => &[CONNREQ],
            "HELLO" => &[HELLO],
            "NOOP" => &[FRAME],
            "GET" => &[FRAME, HEADER, GET],
            "REPLY" => &[FRAME, HEADER, REPLY, PING_INFO],
            "PUT" => &[FRAME, HEADER, PUT, PING_INFO],
            "ACK" => &[FRAME, HEADER, ACK],
            _ => &[],
        };
        let mut fields = Vec::new();
        let mut at = 0;
        let mut lay = |layout: &Layout| {
            for &(name, length) in layout {
                let range = at..at + length;
                fields.push(Field { name, range });
                at += length;
            }
            at
        };
        let mut end = 0;
        for layout in layouts {
            end = lay(layout);
        }
        while matches!(self.name(), "REPLY" | "PUT") && end < self.0.len() {
            end = lay(PING_ENTRY);
        }
        if end < self.0.len() {
            let range = end..self.0.len();
            fields.push(Field {
                name: "further bytes",
                range,
            });
        }
        fields
    }

    /// Returns the length of the message that begins with these bytes; `None` if more bytes are needed to know it.
    pub(crate) fn length(start: &[u8]) -> Result<Option<usize>, String> {
        let start = Self(start.to_vec());
        match (start.word(0), start.word(PAYLOAD_LENGTH_AT)) {
            (None, _) | (Some(LNET), None) => Ok(None),
            (Some(CONNREQ_MAGIC), _) => Ok(Some(16)),
            (Some(HELLO_MAGIC), _) => Ok(Some(56)),
            (Some(NOOP), _) => Ok(Some(24)),
            (Some(LNET), Some(length)) if length as usize <= PAYLOAD_MAX => {
                Ok(Some(PAYLOAD_AT + length as usize))
            }
            _ => Err(format!("no message begins with {:02x?}", start.0)),
        }
    }

    /// Returns true for a HELLO of type NONE.
    pub(crate) fn is_refusal(&self) -> bool {
        self.name() == "HELLO" && self.word(48) == Some(u32::MAX)
    }

    /// Returns true for a message that a router forwards: its source is a node other than `node`.
    pub(crate) fn is_passed_on_by(&self, node: Ipv4Addr) -> bool {
        let source = self.word(SOURCE_AT).map(Ipv4Addr::from);
        self.word(0) == Some(LNET) && source.is_some_and(|source| !is_of(source, node))
    }

    /// Returns the address of the NID that an LNet message is for; `None` for other messages.
    pub(crate) fn destination(&self) -> Option<Ipv4Addr> {
        let is_lnet = self.word(0) == Some(LNET);
        self.word(DESTINATION_AT)
            .filter(|_| is_lnet)
            .map(Ipv4Addr::from)
    }

    /// Returns the NID that an LNet message is for.
    pub(crate) fn target(&self) -> Option<Nid> {
        // The upper half of the word is the type of the LND.
        let number = (self.word(DESTINATION_AT + 4)? & 0xFFFF) as u16;
        Some(Nid::from_ip(Net::tcp(number), self.destination()?.into()))
    }

    /// Returns the same HELLO with type NONE.
    pub(crate) fn refusing(mut self) -> Self {
        if let Some(place) = self.0.get_mut(48..52) {
            place.fill(0xFF);
        }
        self
    }

    /// Returns the handle in an LNet message.
    pub(crate) fn handle(&self) -> Option<&[u8]> {
        self.0.get(HANDLE).filter(|_| self.word(0) == Some(LNET))
    }

    /// Returns the same message with another handle.
    pub(crate) fn with_handle(mut self, handle: &[u8]) -> Self {
        if let Some(place) = self.0.get_mut(HANDLE) {
            place.copy_from_slice(handle);
        }
        self
    }

    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..at + 4)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    }
}
