//! The LNet message header.

mod codec;

use lnet_types::Nid;

/// The most payload that one message carries, in bytes.
// [MSG-5]
pub const LNET_MTU: u32 = 1 << 20;

/// A wire handle: 16 bytes that only their creator interprets; all other nodes copy
/// them.
///
/// Both words are read and written as little-endian, so the bytes stay the same whatever order
/// their creator used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Constant for one incarnation of the creator.
    pub interface: u64,
    /// Names the object. The creator never uses the value for a second object.
    pub object: u64,
}

impl Handle {
    /// No handle: in a PUT, no ACK is wanted.
    pub const NONE: Self = Self {
        interface: u64::MAX,
        object: u64::MAX,
    };
}

/// The form of NIDs in a header; the HELLO version of the connection determines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderForm {
    /// 72 bytes with 8-byte NIDs (HELLO versions 1 to 3).
    Nid4,
    /// 96 bytes with 20-byte NIDs (HELLO version 4).
    Nid16,
}

impl HeaderForm {
    /// Bytes of a header in this form.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a form is not a container")]
    pub const fn len(self) -> usize {
        match self {
            Self::Nid4 => 72,
            Self::Nid16 => 96,
        }
    }
}

/// The header of one LNet message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Final destination; differs from the connection's peer when the message is routed.
    pub dest_nid: Nid,
    /// Originator.
    pub src_nid: Nid,
    /// Process id at the destination; not checked on reception.
    pub dest_pid: u32,
    /// Process id of the originator.
    pub src_pid: u32,
    /// Payload bytes behind the header; 0 for ACK and GET, at most [`LNET_MTU`] otherwise.
    pub payload_length: u32,
    /// The fields that depend on the type.
    pub body: Body,
}

/// The types of LNet messages. (HELLO occurs only inside a version 1 handshake.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum MessageType {
    /// Acknowledges a PUT.
    Ack = 0,
    /// Sends data into a match entry.
    Put = 1,
    /// Asks for data from a match entry.
    Get = 2,
    /// Answers a GET with data.
    Reply = 3,
}

/// The 40-byte union at the end of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Acknowledges a PUT.
    Ack(Ack),
    /// Sends data into a match entry.
    Put(Put),
    /// Asks for data from a match entry.
    Get(Get),
    /// Answers a GET with data.
    Reply(Reply),
}

impl Body {
    /// The message type.
    #[must_use]
    pub const fn message_type(&self) -> MessageType {
        match self {
            Self::Ack(_) => MessageType::Ack,
            Self::Put(_) => MessageType::Put,
            Self::Get(_) => MessageType::Get,
            Self::Reply(_) => MessageType::Reply,
        }
    }
}

/// Fields of an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Copied from the PUT's `ack_wmd`.
    pub dst_wmd: Handle,
    /// Copied from the PUT.
    pub match_bits: u64,
    /// Bytes accepted.
    pub mlength: u32,
}

/// Fields of a PUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// [MSG-8]
pub struct Put {
    /// Handle to echo in the ACK; [`Handle::NONE`] when no ACK is wanted.
    pub ack_wmd: Handle,
    /// Selects the match entry.
    pub match_bits: u64,
    /// A value for the event at the target, which receives it unchanged.
    pub hdr_data: u64,
    /// Portal, 0 to 63.
    pub ptl_index: u32,
    /// Offset in the target's memory descriptor, in bytes (with `MANAGE_REMOTE`).
    pub offset: u32,
}

/// Fields of a GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get {
    /// Handle to echo in the REPLY.
    pub return_wmd: Handle,
    /// Selects the match entry.
    pub match_bits: u64,
    /// Portal, 0 to 63.
    pub ptl_index: u32,
    /// Offset in the target's memory descriptor, in bytes (with `MANAGE_REMOTE`).
    pub src_offset: u32,
    /// Bytes wanted: the length of the initiator's buffer.
    pub sink_length: u32,
}

/// Fields of a REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Copied from the GET's `return_wmd`.
    pub dst_wmd: Handle,
}
