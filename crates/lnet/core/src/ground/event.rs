//! Events: reports of what happened to a memory descriptor.

use lnet_types::{Nid, ProcessId};
use lnet_wire::MessageType;

use crate::ground::md::MdHandle;

/// The kinds of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// An attached descriptor served a GET; the REPLY was sent.
    Get,
    /// A payload landed in an attached descriptor.
    Put,
    /// A payload landed in the bound descriptor of a GET of this node.
    Reply,
    /// The ACK to a PUT of this node arrived.
    Ack,
    /// A PUT or GET of this node was sent, or failed. The ACK or REPLY of a fast peer may be reported before this
    /// event.
    Send,
    /// The ACK or REPLY did not arrive in time. The last event of the descriptor follows.
    Timeout,
    /// The descriptor was removed, and no other event reported the removal.
    Unlink,
}

/// The errno of the failure that an event reports, with the number that LNet users know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Not permitted.
    pub const EPERM: Self = Self(1);
    /// No such object.
    pub const ENOENT: Self = Self(2);
    /// Input/output error.
    pub const EIO: Self = Self(5);
    /// A table has reached its limit.
    pub const ENOMEM: Self = Self(12);
    /// Busy.
    pub const EBUSY: Self = Self(16);
    /// Exists already.
    pub const EEXIST: Self = Self(17);
    /// No such device.
    pub const ENODEV: Self = Self(19);
    /// Invalid argument.
    pub const EINVAL: Self = Self(22);
    /// The peer violated the protocol.
    pub const EPROTO: Self = Self(71);
    /// Name not unique.
    pub const ENOTUNIQ: Self = Self(76);
    /// Would invalidate the routing configuration.
    pub const EUSERS: Self = Self(87);
    /// The next hop reads no form of header that can name the message's NIDs.
    pub const EAFNOSUPPORT: Self = Self(97);
    /// The interface is down.
    pub const ENETDOWN: Self = Self(100);
    /// Timed out.
    pub const ETIMEDOUT: Self = Self(110);
    /// No path to the destination.
    pub const EHOSTUNREACH: Self = Self(113);
    /// Cancelled.
    pub const ECANCELED: Self = Self(125);
}

/// An event of a memory descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The kind of the event.
    pub kind: EventKind,
    /// The descriptor that the event is about.
    pub md: MdHandle,
    /// The value that the caller gave with the descriptor.
    pub user: u64,
    /// `Ok`, or the reason why the operation failed.
    pub status: Result<(), Errno>,
    /// True on the last event of a descriptor: the descriptor no longer exists, and the caller may reuse its memory.
    pub unlinked: bool,
    /// Target of the operation.
    pub target: ProcessId,
    /// Initiator of the operation: the primary NID of the source's peer, with its pid.
    pub initiator: ProcessId,
    /// Source as the header names it.
    pub source: ProcessId,
    /// The last hop of a message that arrived; the next hop of a message that was sent (SEND, TIMEOUT).
    pub sender: Nid,
    /// Type of the message that caused the event; `None` for UNLINK.
    pub message_type: Option<MessageType>,
    /// Portal (GET, PUT, SEND).
    pub portal: u32,
    /// Match bits.
    pub match_bits: u64,
    /// Requested length, in bytes.
    pub rlength: u32,
    /// Bytes moved.
    pub mlength: u32,
    /// Offset in the descriptor (GET, PUT) or remote offset (SEND), in bytes.
    pub offset: u32,
    /// Header data of a PUT.
    pub hdr_data: u64,
}
