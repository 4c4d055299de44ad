//! The items of a capture, one [`Message`] for each.

use std::net::SocketAddr;

use lnet_types::Time;
use lnet_wire::o2ib::{self, Rejection};
use lnet_wire::{
    Connreq, Ctype, DecodeError, Header, HeaderForm, HelloVersion, KsockHeader, MessageType,
    ReceivedHello,
};

use crate::payload::Payload;

/// One item of a conversation: a structure of the protocol, or what prevented its decoding.
///
/// A message borrows from the decoder's buffers, so it is valid only during the call that delivers
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Time of the capture of its last byte, since the Unix epoch.
    pub time: Time,
    /// The connection, as far as it is known at this time.
    pub connection: &'a Connection,
    /// The sending side.
    pub direction: Direction,
    /// Offset of its first byte from the first byte that this side sent (or from the first captured
    /// one).
    pub offset: u64,
    /// Its length on the stream in bytes, payload included.
    pub length: u64,
    /// Its bytes without an opaque payload; for [`Kind::Broken`], the bytes that are present.
    pub raw: &'a [u8],
    /// The structure, or the reason why there is none.
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
    /// An acceptor request.
    Connreq(Connreq),
    /// The acceptor's 16-byte answer to a request that it does not understand.
    Rejection,
    /// A HELLO; one of type NONE from the acceptor is a rejection.
    Hello(ReceivedHello<'a>),
    /// A NOOP frame: an acknowledgement of zero-copy requests, or a keepalive.
    Noop(KsockHeader),
    /// A frame with an LNet message.
    Lnet(Lnet<'a>),
    /// Bytes that are not a structure of the protocol. In a handshake, the connection counts as
    /// rejected; later, the search for the next frame boundary follows.
    Broken(DecodeError),
    /// The connection or the capture ended inside a frame whose beginning is valid.
    Cut {
        /// Its frame header, if that is complete.
        frame: Option<KsockHeader>,
        /// Bytes of its headers.
        needed: usize,
    },
    /// Bytes that are not in the capture.
    Gap {
        /// The number of missing bytes.
        lost: u64,
        /// Captured bytes of a structure that the gap interrupts, which cannot be decoded.
        undecoded: u64,
    },
    /// A message of the connection manager, over RDMA.
    Cm(Cm<'a>),
    /// A message of the o2ib LND.
    O2ib(&'a o2ib::Message<'a>),
    /// Payload that one end wrote into the memory of the other.
    Write(RdmaWrite),
    /// A negative acknowledgement.
    Nak(Nak),
    /// Packets of a queue pair that are not in the capture.
    PacketsLost {
        /// The number of packets.
        packets: u32,
        /// Captured bytes of a message that they interrupt, which cannot be decoded.
        undecoded: u64,
    },
    /// A search for a frame boundary ended.
    Resumed {
        /// The reason for the search.
        reason: Reason,
        /// False if the stream ended, or a gap followed, before a boundary was found.
        found: bool,
        /// Bytes skipped, from the offset of the message on.
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
            Self::Gap { .. } | Self::PacketsLost { .. } => "GAP",
            Self::Cm(cm) => cm.step.name(),
            Self::O2ib(message) => o2ib_name(message.body.kind()),
            Self::Write(_) => "RDMA_WRITE",
            Self::Nak(_) => "NAK",
            Self::Resumed { found: false, .. } => "SKIPPED",
            Self::Resumed {
                reason: Reason::Joined,
                ..
            } => "JOINED",
            Self::Resumed { .. } => "RESUMED",
        }
    }
}

/// Returns the name of a type of message of the o2ib LND.
pub(crate) const fn o2ib_name(kind: o2ib::MessageKind) -> &'static str {
    match kind {
        o2ib::MessageKind::Connreq => "IB_CONNREQ",
        o2ib::MessageKind::Connack => "IB_CONNACK",
        o2ib::MessageKind::Noop => "IB_NOOP",
        o2ib::MessageKind::Immediate => "IMMEDIATE",
        o2ib::MessageKind::PutReq => "PUT_REQ",
        o2ib::MessageKind::PutNak => "PUT_NAK",
        o2ib::MessageKind::PutAck => "PUT_ACK",
        o2ib::MessageKind::PutDone => "PUT_DONE",
        o2ib::MessageKind::GetReq => "GET_REQ",
        o2ib::MessageKind::GetDone => "GET_DONE",
    }
}

/// A message of the connection manager, with what LNet says in it.
#[derive(Clone, Copy, Debug)]
pub struct Cm<'a> {
    /// What the message does.
    pub step: CmStep,
    /// LNet's CONNREQ in a request, its CONNACK in a reply.
    pub message: Option<&'a o2ib::Message<'a>>,
    /// LNet's reason in a rejection.
    pub rejection: Option<Rejection>,
}

/// What a message of the connection manager does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmStep {
    /// Asks for a connection.
    Request,
    /// Agrees.
    Reply,
    /// Refuses, for this reason of the connection manager.
    Reject(u16),
    /// Begins to use the connection.
    Ready,
    /// Ends the connection.
    Disconnect,
    /// Confirms the end.
    Disconnected,
}

impl CmStep {
    /// The reason of a rejection that the peer itself gives.
    pub const BY_PEER: u16 = 28;

    /// Returns the name under which the message is printed and counted.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "CM_REQ",
            Self::Reply => "CM_REP",
            Self::Reject(_) => "CM_REJ",
            Self::Ready => "CM_RTU",
            Self::Disconnect => "CM_DREQ",
            Self::Disconnected => "CM_DREP",
        }
    }
}

/// A write into the memory of the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RdmaWrite {
    /// The address, as the other end gave it.
    pub address: u64,
    /// The key of the memory.
    pub rkey: u32,
    /// The number of bytes.
    pub length: u32,
}

/// Why an end does not accept a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nak {
    /// It has no receive buffer, and is to be asked again.
    ReceiverNotReady,
    /// A packet before is missing.
    SequenceError,
    /// The request is not valid.
    InvalidRequest,
    /// The memory may not be written: a wrong key, or beyond its bounds.
    RemoteAccess,
    /// The end cannot carry out the request.
    RemoteOperation,
    /// Another code.
    Other(u8),
}

/// The reason for the search of a frame boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The connection began before the capture.
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
    /// The payload, as far as it is decoded.
    pub payload: Payload<'a>,
}

impl Lnet<'_> {
    /// The message type's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        type_name(self.header.message_type())
    }
}

/// Returns the name of a type of LNet message.
pub(crate) const fn type_name(kind: MessageType) -> &'static str {
    match kind {
        MessageType::Ack => "ACK",
        MessageType::Put => "PUT",
        MessageType::Get => "GET",
        MessageType::Reply => "REPLY",
    }
}

/// The sending side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The side that opened the connection.
    FromInitiator,
    /// The side that accepted it.
    FromAcceptor,
}

impl Direction {
    /// Returns the other side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::FromInitiator => Self::FromAcceptor,
            Self::FromAcceptor => Self::FromInitiator,
        }
    }
}

/// One TCP connection, or one pair of RDMA queue pairs, that carries LNet. Of queue pairs whose connection began before
/// the capture, each direction is a connection of its own, with the ports 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Number in the capture, from 0 in order of appearance.
    pub id: u32,
    /// The side that opened it.
    pub initiator: SocketAddr,
    /// The side that accepted it.
    pub acceptor: SocketAddr,
    /// True if it began before the capture and was decoded from a frame boundary.
    pub joined: bool,
    /// True if its handshake was broken or rejected.
    pub rejected: bool,
    /// Its type as the initiator names it, once the initiator's HELLO was seen.
    pub ctype: Option<Ctype>,
    /// The protocol version: that of the acceptor's HELLO, and before it that of the initiator's.
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
