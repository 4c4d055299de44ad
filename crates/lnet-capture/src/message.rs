//! What a capture says, one [`Message`] at a time.

use std::net::SocketAddr;

use lnet_types::Time;
use lnet_wire::{
    Connreq, Ctype, DecodeError, Header, HeaderForm, HelloVersion, KsockHeader, ReceivedHello,
};

use crate::payload::Payload;

/// One item of a conversation: a structure of the protocol, or what prevented its decoding.
///
/// Borrows from the decoder's buffers: valid only during the call that delivers it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// When its last byte was captured, since the Unix epoch.
    pub time: Time,
    /// The connection, as far as it is known by now.
    pub connection: &'a Connection,
    /// Who sent it.
    pub direction: Direction,
    /// Its first byte, counted from the first byte that this side sent (or that was seen of it).
    pub offset: u64,
    /// Its length on the stream in bytes, payload included.
    pub length: u64,
    /// Its bytes without an opaque payload; for [`Kind::Broken`], the bytes at hand.
    pub raw: &'a [u8],
    /// What it is.
    pub kind: Kind<'a>,
}

impl Message<'_> {
    /// The sender's socket address.
    #[must_use]
    pub const fn from(&self) -> SocketAddr {
        match self.direction {
            Direction::FromInitiator => self.connection.initiator,
            Direction::FromAcceptor => self.connection.acceptor,
        }
    }

    /// The receiver's socket address.
    #[must_use]
    pub const fn to(&self) -> SocketAddr {
        match self.direction {
            Direction::FromInitiator => self.connection.acceptor,
            Direction::FromAcceptor => self.connection.initiator,
        }
    }
}

/// The kinds of item.
#[derive(Clone, Copy, Debug)]
pub enum Kind<'a> {
    /// An acceptor request (section 2.3).
    Connreq(Connreq),
    /// The acceptor's 16-byte answer to a request that it does not understand (section 2.3).
    Rejection,
    /// A HELLO (section 2.4); from the acceptor with type NONE, a rejection.
    Hello(ReceivedHello<'a>),
    /// A NOOP frame: an acknowledgement of zero-copy requests, or a keepalive.
    Noop(KsockHeader),
    /// A frame with an LNet message.
    Lnet(Lnet<'a>),
    /// Bytes that are no structure of the protocol. In a handshake the connection counts as rejected;
    /// later the next frame boundary is searched for.
    Broken(DecodeError),
    /// The connection, or the capture, ended inside a frame whose beginning is right.
    Cut {
        /// Its frame header, when all of that came.
        frame: Option<KsockHeader>,
        /// Bytes of its headers.
        needed: usize,
    },
    /// Bytes that are not in the capture.
    Gap {
        /// How many are missing.
        lost: u64,
        /// Captured bytes of the structure that the gap cut through, which cannot be decoded.
        undecoded: u64,
    },
    /// A search for a frame boundary ended.
    Resumed {
        /// Why it was searched for.
        reason: Reason,
        /// False when the stream ended, or a gap came, before a boundary was found.
        found: bool,
        /// Bytes passed over; their first is at the message's offset.
        skipped: u64,
    },
}

impl Kind<'_> {
    /// The name under which the item is printed and counted.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Connreq(_) => "CONNREQ",
            Self::Rejection => "REFUSAL",
            Self::Hello(_) => "HELLO",
            Self::Noop(_) => "NOOP",
            Self::Lnet(lnet) => lnet.name(),
            Self::Broken(_) => "BROKEN",
            Self::Cut { .. } => "CUT",
            Self::Gap { .. } => "GAP",
            Self::Resumed { found: false, .. } => "SKIPPED",
            Self::Resumed {
                reason: Reason::Joined,
                ..
            } => "JOINED",
            Self::Resumed { .. } => "RESUMED",
        }
    }
}

/// Why a frame boundary was searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The connection began before the capture did.
    Joined,
    /// Bytes are missing from the capture.
    Gap,
    /// A frame could not be decoded.
    Damage,
}

/// An LNet message and its frame.
#[derive(Clone, Copy, Debug)]
pub struct Lnet<'a> {
    /// The frame header; connections of HELLO version 1 have none.
    pub frame: Option<KsockHeader>,
    /// The form in which `header` was written.
    pub form: HeaderForm,
    /// The LNet header.
    pub header: Header,
    /// What is known of the payload.
    pub payload: Payload<'a>,
}

impl Lnet<'_> {
    /// The message type's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self.header.message_type() {
            lnet_wire::MessageType::Ack => "ACK",
            lnet_wire::MessageType::Put => "PUT",
            lnet_wire::MessageType::Get => "GET",
            lnet_wire::MessageType::Reply => "REPLY",
        }
    }
}

/// Which side of a connection sent something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The side that opened the TCP connection.
    FromInitiator,
    /// The side that accepted it.
    FromAcceptor,
}

/// One TCP connection that carries LNet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Number in the capture, from 0 in order of appearance.
    pub id: u32,
    /// The side that opened it.
    pub initiator: SocketAddr,
    /// The side that accepted it.
    pub acceptor: SocketAddr,
    /// It began before the capture did, and was decoded from a frame boundary that was found.
    pub joined: bool,
    /// Its handshake was broken or rejected.
    pub rejected: bool,
    /// Its type in the initiator's naming, once the initiator's HELLO was seen.
    pub ctype: Option<Ctype>,
    /// The protocol version: the acceptor's HELLO decides, and until then the initiator's.
    pub version: Option<HelloVersion>,
    /// The form of its LNet headers, from the version or inferred from the first header found.
    pub form: Option<HeaderForm>,
}

impl Connection {
    pub(crate) const fn new(id: u32, initiator: SocketAddr, acceptor: SocketAddr) -> Self {
        Self {
            id,
            initiator,
            acceptor,
            joined: false,
            rejected: false,
            ctype: None,
            version: None,
            form: None,
        }
    }

    /// False only for HELLO version 1.
    pub(crate) fn has_frame_header(&self) -> bool {
        self.version.is_none_or(HelloVersion::has_frame_header)
    }
}
