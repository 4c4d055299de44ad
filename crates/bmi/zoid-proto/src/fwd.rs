//! The forwarding protocol (FWD) between client and daemon: frames on a reliable ordered byte stream.
//!
//! ```text
//!  0        4    5      6       8         12       16       20         24             32
//!  +--------+----+------+-------+---------+--------+--------+----------+--------------+------+---------+
//!  | "ZFW1" | 1  | type | flags | request | status | body   | checksum | payload      | body | payload |
//!  |        |    |      |       | id      |        | length | crc32c   | length       |      |         |
//!  +--------+----+------+-------+---------+--------+--------+----------+--------------+------+---------+
//! ```
//!
//! A client sends payload only if a GRANT or a credit names a reserved buffer, or in SEND_INLINE. The header
//! contains the lengths of body and payload, so that a reader of the stream stops at the end of a frame.

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

/// The longest body in bytes: 1 MiB.
// [FWD-3]
pub const MAX_BODY: u32 = 1 << 20;

/// The most payload of one DATA frame in bytes: 4 MiB, so that other frames wait for one chunk at most.
// [FWD-3]
pub const MAX_CHUNK: u64 = 4 << 20;

/// The longest message of SEND_INLINE in bytes: half of what a message queue carries in one message by
/// default.
// [FWD-32]
pub const INLINE_MAX: usize = 4096;

/// The most that the unanswered SEND_INLINE messages of a client may cost together, by [`inline_cost`]. The
/// daemon reserves as much memory for each client that has such messages in flight.
// [FWD-33]
pub const INLINE_WINDOW: usize = 64 << 10;

/// Returns the cost of a SEND_INLINE message: its bytes and a constant for bookkeeping, which limits empty
/// messages too.
#[must_use]
pub const fn inline_cost(bytes: usize) -> usize {
    bytes + 64
}

/// The send buffer that either end of a Unix-domain socket requests, in bytes. The system reduces a size
/// above its limit. With the system's default, writer and reader take turns after every fifth of a message of
/// 1 MiB.
pub const SEND_BUFFER: usize = 512 << 10;
