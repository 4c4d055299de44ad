//! What crosses the border of the core: verdicts on arriving messages, outputs, and the names that tie
//! them to the caller's buffers and connections.
//!
//! The core never touches payload. It says where payload is to be put ([`Landing`]) or taken from
//! ([`Payload`]) in terms of a [`Place`]; the caller owns the memory behind most places.

pub use lnd::{NiId, RxId, TxId};
use lnet_types::{Nid, ProcessId, Time};
use lnet_wire::Header;

use crate::event::Event;
use crate::portals::md::MdHandle;
use crate::status::{DropReason, IllegalMessage};

/// A buffer of one of the router pools. The caller allocates its memory when it first sees the index
/// and keeps it for the next message that is given the same buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouterBuffer {
    /// Which pool.
    pub pool: RouterPool,
    /// Index within the pool, below the pool's number of buffers; lowest free index first.
    pub index: u32,
}

/// The router's buffer pools (section 8.6).
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
    /// Bytes of one buffer.
    #[must_use]
    pub const fn buffer_len(self) -> usize {
        match self {
            Self::Tiny => 0,
            Self::Small => 4096,
            Self::Large => 1 << 20,
        }
    }
}

/// A small buffer that the core owns: ping information going out or coming in. Read and written
/// through [`crate::Core::core_buffer`] and [`crate::Core::core_buffer_mut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreBuffer(pub u32);

/// Whose memory a payload is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The memory that the caller registered with this memory descriptor.
    Md(MdHandle),
    /// A router buffer of the caller's.
    Router(RouterBuffer),
    /// A buffer inside the core.
    Core(CoreBuffer),
}

/// Where the wanted part of an arriving payload goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    /// Whose memory.
    pub place: Place,
    /// Offset within that memory, in bytes.
    pub offset: u32,
    /// Bytes wanted; what the message carries beyond them is read and thrown away.
    pub length: u32,
}

/// Where the payload of a message to be sent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Whose memory.
    pub place: Place,
    /// Offset within that memory, in bytes.
    pub offset: u32,
    /// Bytes to send; equals the header's `payload_length`.
    pub length: u32,
}

/// What to do with a message whose header arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Read the payload into `landing`, then call [`crate::Core::arrived`]. Also for messages without
    /// payload: the landing's length is then 0 and `arrived` is called at once.
    Receive {
        /// Names the message until it has arrived.
        rx: RxId,
        /// Where the payload goes.
        landing: Landing,
    },
    /// Read nothing more from this connection until [`Output::Resume`] names this message.
    Hold {
        /// Names the message until it has arrived.
        rx: RxId,
    },
    /// Read the payload and throw it away. The drop is already counted.
    Discard(DropReason),
    /// The peer broke the protocol: close this connection and its siblings.
    Refuse(IllegalMessage),
}

/// A message to put on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Names the message until [`crate::Core::sent`] reports its fate.
    pub tx: TxId,
    /// Over which local interface.
    pub ni: NiId,
    /// Next hop: the process whose connections carry it.
    pub to: ProcessId,
    /// The header as it goes on the wire.
    pub header: Header,
    /// The payload, if there is any.
    pub payload: Option<Payload>,
    /// Not worth sending after this point.
    pub deadline: Time,
}

/// Something that the core wants done. Taken with [`crate::Core::poll_output`].
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Put this message on the wire; `ni` = [`NiId::LOOPBACK`] means: give it back to the core as a
    /// message from `0@lo`.
    Transmit(Transmit),
    /// A held message may go on: into `landing`, or to be thrown away (already counted). To be ignored
    /// when the message was reported as failed between this output's making and its taking.
    Resume {
        /// The held message.
        rx: RxId,
        /// Where its payload goes now, or `None` to discard it.
        landing: Option<Landing>,
    },
    /// The payload of this message is not wanted any more: write no further byte of it into its landing, read the rest
    /// into nowhere, and report the message as failed at once. To be ignored when the message was reported as arrived
    /// between this output's making and its taking.
    Cancel {
        /// The message.
        rx: RxId,
    },
    /// Something happened to a memory descriptor.
    Event(Event),
    /// A gateway was found alive or dead.
    Gateway {
        /// The gateway's NID.
        nid: Nid,
        /// Alive or dead.
        alive: bool,
    },
}
