//! Between client and daemon: frames on a reliable ordered byte stream.
//!
//! ```text
//!  0        4    5      6       8         12       16       20         24             32
//!  +--------+----+------+-------+---------+--------+--------+----------+--------------+------+---------+
//!  | "ZFW1" | 1  | type | flags | request | status | body   | checksum | payload      | body | payload |
//!  |        |    |      |       | id      |        | length | crc32c   | length       |      |         |
//!  +--------+----+------+-------+---------+--------+--------+----------+--------------+------+---------+
//! ```
//!
//! A frame with payload is sent only against a GRANT or a credit that names a reserved buffer. The
//! header says where a frame ends, so that a reader of a stream takes no byte of the next one.

mod frame;
mod header;
mod memory;
mod session;
mod test;
mod transfer;

pub use frame::Frame;
pub use header::{FrameFlags, FrameHeader, FrameType};
pub use memory::{MemoryPart, Places};
pub use session::{Caps, Event, Hello, PROTOCOL_VERSION, Welcome};
pub use test::{Readiness, TestEntry, TestReq};
pub use transfer::{Data, Grant, MessageKind, Place, RecvReply, RecvReq, SendInline, SendReq};

/// Bytes of the longest body: 1 MiB.
pub const MAX_BODY: u32 = 1 << 20;

/// Bytes of payload in one DATA frame at most: 4 MiB, so that nothing waits longer than one chunk.
pub const MAX_CHUNK: u64 = 4 << 20;

/// Bytes of the longest message that SEND_INLINE carries: half of what a message queue carries.
pub const INLINE_MAX: usize = 4096;

/// What the unanswered SEND_INLINE of a client may cost together ([`inline_cost`]). The daemon keeps as
/// much memory for each client that has such messages under way.
pub const INLINE_WINDOW: usize = 64 << 10;

/// What a message of SEND_INLINE costs: its bytes, and something for what is kept beside them, so that
/// empty messages are limited too.
#[must_use]
pub const fn inline_cost(bytes: usize) -> usize {
    bytes + 64
}

/// Bytes that either end of a Unix socket asks the system to hold for the other. What is more than
/// the system allows, it takes down; with its default, the two take turns after every fifth of a
/// message of 1 MiB.
pub const SEND_BUFFER: usize = 512 << 10;
