//! The control protocol (CTL) between server and plugin: commands and replies over message queues, at most
//! [`CTL_MESSAGE_LEN`] bytes each.
//!
//! ```text
//!           0        4     6         8        12       16        24        32        40
//!           +--------+-----+---------+--------+--------+---------+---------+---------+------
//!  request  | "ZBM1" | 1   | opcode  | length | slot   | session | sequence| flags   | body
//!  reply    | "ZBR1" | 1   | |0x8000 | length | status | session | sequence| epoch   | body
//!           +--------+-----+---------+--------+--------+---------+---------+---------+------
//! ```
//!
//! The header is decoded separately from the body: the plugin can then answer a command with an invalid body,
//! and the server can drop replies that do not have the expected sequence.

mod header;
mod reply;
mod request;

pub use header::{Opcode, ReplyHeader, RequestHeader};
pub use reply::{Completion, InitReply, PostOutcome, Reply, TestReply, UnexpectedMessage};
pub(crate) use request::INIT_NAME_AT;
pub use request::{Init, Post, Request, Test, TestSelection, UnexpectedTest};

/// The longest message in either direction, in bytes.
// [CTL-1]
pub const CTL_MESSAGE_LEN: usize = 4096;

/// The number of messages that the control queue holds.
// [CTL-3]
pub const CONTROL_QUEUE_DEPTH: usize = 10;

/// The number of messages that a reply queue holds.
// [CTL-3]
pub const REPLY_QUEUE_DEPTH: usize = 2;

/// The number of reply slots of a server. A 65th concurrent call waits until a slot is free.
pub const REPLY_SLOTS: u32 = 64;

/// The most segments that fit in a command; a longer list is written to the segment.
// [CTL-16]
pub const INLINE_SEGMENTS: usize = 250;

/// The most operation ids that fit in a command; a longer list is written to the segment.
pub const INLINE_IDS: usize = 500;

/// The most unexpected messages in one reply.
// [CTL-17]
pub const UNEXPECTED_PER_REPLY: usize = 126;

/// The most completed operations in one reply.
// [CTL-17]
pub const COMPLETIONS_PER_REPLY: usize = 252;

/// The most counters in one reply.
pub const COUNTERS_PER_REPLY: usize = 500;
