//! Events: what happened to a memory descriptor (section 5.5).

use lnet_types::{Nid, ProcessId};
use lnet_wire::MessageType;

use crate::portals::md::MdHandle;

/// The kinds of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// An attached descriptor served a GET; the REPLY was sent.
    Get,
    /// Data landed in an attached descriptor.
    Put,
    /// Data landed in the bound descriptor of our GET.
    Reply,
    /// The ACK for our PUT arrived.
    Ack,
    /// Our PUT or GET left, or failed to. The ACK or REPLY of a fast peer may be reported before this.
    Send,
    /// The ACK or REPLY did not come in time. The last event of the descriptor follows.
    Timeout,
    /// The descriptor was removed and no other event said so.
    Unlink,
}

/// The failure that an event reports, as the errno LNet users know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Not permitted.
    pub const EPERM: Self = Self(1);
    /// No such object.
    pub const ENOENT: Self = Self(2);
    /// Input/output error.
    pub const EIO: Self = Self(5);
    /// A bounded table is full.
    pub const ENOMEM: Self = Self(12);
    /// Busy.
    pub const EBUSY: Self = Self(16);
    /// Exists already.
    pub const EEXIST: Self = Self(17);
    /// No such device.
    pub const ENODEV: Self = Self(19);
    /// Invalid argument.
    pub const EINVAL: Self = Self(22);
    /// The peer does not keep to the protocol.
    pub const EPROTO: Self = Self(71);
    /// Name not unique.
    pub const ENOTUNIQ: Self = Self(76);
    /// Would invalidate the routing configuration.
    pub const EUSERS: Self = Self(87);
    /// The next hop reads no form in which the message's NIDs can be written.
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

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// To which descriptor.
    pub md: MdHandle,
    /// The value the caller gave with the descriptor.
    pub user: u64,
    /// `Ok`, or why the operation failed.
    pub status: Result<(), Errno>,
    /// True on the last event of a descriptor: it has ceased, and its memory is the caller's again.
    pub unlinked: bool,
    /// Target of the operation.
    pub target: ProcessId,
    /// Initiator of the operation: the primary NID of the source's peer, with its pid.
    pub initiator: ProcessId,
    /// Source as the header names it.
    pub source: ProcessId,
    /// Last hop of what arrived; next hop of what was sent (SEND, TIMEOUT).
    pub sender: Nid,
    /// Wire type that the event stems from; `None` for UNLINK.
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
