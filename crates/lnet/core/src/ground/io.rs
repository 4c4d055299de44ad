//! The interface between the core and its driver: verdicts on arriving messages, outputs, and the names that connect
//! them to the driver's buffers and connections.
//!
//! The core never touches payload. It says where to put a payload ([`Landing`]) or where to take a payload from
//! ([`Payload`]), both in terms of a [`Place`]. The driver owns the memory behind most places.

use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::Header;

use crate::ground::event::Event;
use crate::ground::md::MdHandle;
use crate::ground::status::{DropReason, IllegalMessage};
pub use lnd::{NiId, RxId, TxId};

/// A buffer of one of the router pools. The driver allocates the memory when it first sees the index, and keeps the
/// memory for the next message that is given the same buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouterBuffer {
    /// The pool.
    pub pool: RouterPool,
    /// Index within the pool, less than the number of buffers in the pool. The lowest free index is used first.
    pub index: u32,
}

/// The router's buffer pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouterPool {
    /// Messages without payload.
    Tiny,
    /// 1 to 4096 bytes.
    Small,
    /// 4097 bytes to 1 MiB.
    Large,
}

impl RouterPool {
    /// Returns the size of one buffer, in bytes.
    #[must_use]
    pub const fn buffer_len(self) -> usize {
        match self {
            Self::Tiny => 0,
            Self::Small => 4096,
            Self::Large => 1 << 20,
        }
    }
}

/// A small buffer that the core owns, for ping information that is sent or received. Read and write it through
/// [`crate::Core::core_buffer`] and [`crate::Core::core_buffer_mut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreBuffer(pub u32);

/// The memory that a payload is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The memory that the caller registered with this memory descriptor.
    Md(MdHandle),
    /// A router buffer, which the driver owns.
    Router(RouterBuffer),
    /// A buffer that the core owns.
    Core(CoreBuffer),
}

/// Where to put the wanted part of an arriving payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    /// The memory.
    pub place: Place,
    /// Offset within that memory, in bytes.
    pub offset: u32,
    /// Bytes wanted. The driver reads and drops the bytes that the message carries beyond them.
    pub length: u32,
}

/// Where to take the payload of a message that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The memory.
    pub place: Place,
    /// Offset within that memory, in bytes.
    pub offset: u32,
    /// Bytes to send; equals the header's `payload_length`.
    pub length: u32,
}

/// What to do with a message whose header arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Read the payload into `landing`, then call [`crate::Core::arrived`]. For a message without payload the length
    /// of the landing is 0, and the driver calls `arrived` at once.
    Receive {
        /// Name of the message until it has arrived.
        rx: RxId,
        /// Where the payload goes.
        landing: Landing,
    },
    /// Read nothing more from this connection until [`Output::Resume`] names this message.
    Hold {
        /// Name of the message until it has arrived.
        rx: RxId,
    },
    /// Read the payload and drop it. The core has already counted the drop.
    Drop(DropReason),
    /// The peer violated the protocol: close this connection and the other connections to the same peer process.
    Reject(IllegalMessage),
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Name of the message until [`crate::Core::sent`] reports its result.
    pub tx: TxId,
    /// The local interface to send from.
    pub ni: NiId,
    /// The next hop: the process whose connections carry the message.
    pub to: ProcessId,
    /// The header as it is sent.
    pub header: Header,
    /// The payload; `None` if the message has none.
    pub payload: Option<Payload>,
    /// The time after which the message is no longer worth sending.
    pub deadline: Time,
}

/// An instruction or report to the driver, taken with [`crate::Core::poll_output`].
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send this message. If `ni` is [`NiId::LOOPBACK`], give the message back to the core as a message from `0@lo`.
    Transmit(Transmit),
    /// Continue to receive a held message: read the payload into `landing`, or read and drop it (the drop is already
    /// counted). Ignore this output if you have reported the message as failed since the core made the output.
    Resume {
        /// The held message.
        rx: RxId,
        /// Where to put the payload; `None` to drop it.
        landing: Option<Landing>,
    },
    /// The payload of this message is no longer wanted: write no further byte of it into its landing, read and drop
    /// the rest, and report the message as failed at once. Ignore this output if you have reported the message as
    /// arrived since the core made the output.
    Cancel {
        /// The message.
        rx: RxId,
    },
    /// No response came in time through this next hop: close its connections that have stopped moving bytes, so that
    /// the next message makes new ones. A connection that was cut off for a while would wait much longer.
    Doubt {
        /// The NID of the next hop.
        nid: Nid,
    },
    /// An event of a memory descriptor.
    Event(Event),
    /// A gateway was found to be alive or dead.
    Gateway {
        /// The gateway's NID.
        nid: Nid,
        /// True if the gateway is alive.
        alive: bool,
    },
}
