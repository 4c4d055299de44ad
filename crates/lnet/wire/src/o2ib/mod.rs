//! The messages of the o2ib LND (InfiniBand, RoCE, iWARP).
//!
//! ```text
//!  0        4    6  7  8       12      16      24      32      40      48
//!  +--------+----+--+--+-------+-------+-------+-------+-------+-------+--------------
//!  | magic  |vers|ty|cr| bytes | cksum | src   | src   | dest  | dest  | body
//!  |        |ion |pe|ed| in all| or 0  | NID   | incarn| NID   | incarn|
//!  +--------+----+--+--+-------+-------+-------+-------+-------+-------+--------------
//! ```
//!
//! Integers have the sender's byte order, which the magic number shows; the LNet header inside a message is always
//! little-endian. NIDs have the 8-byte form: the LND has no other.

mod checksum;
mod message;
mod rejection;

pub use checksum::{checksum, seal};
pub use message::{
    Body, Descriptor, Envelope, Fragment, Message, MessageKind, Parameters, encode_immediate,
};
pub use rejection::{REJECTION_LEN, Rejection, RejectionReason};

/// The RDMA CM service number (port) at which nodes listen.
// [IB-1]
pub const SERVICE: u16 = 987;

/// The first four bytes of each message and of each rejection.
pub const MAGIC: u32 = 0x0be9_1b91;

/// The version that all releases since 1.8 speak.
pub const VERSION: u16 = 0x12;

/// The version before it, which Finerail does not speak.
pub const VERSION_OLD: u16 = 0x11;

/// The most bytes of a message: the size of a receive buffer.
// [IB-4]
pub const MESSAGE_MAX: usize = 4096;

/// Bytes of the fields that all messages have.
pub const ENVELOPE_LEN: usize = 48;

/// The offset of the payload in an IMMEDIATE message.
pub const IMMEDIATE_PAYLOAD_AT: usize = 120;

/// The most bytes of payload in an IMMEDIATE message.
pub const IMMEDIATE_MAX: usize = MESSAGE_MAX - IMMEDIATE_PAYLOAD_AT;

/// The most fragments of a descriptor: the pages of 1 MiB, and one for an unaligned begin.
pub const FRAGMENTS_MAX: u16 = 257;
