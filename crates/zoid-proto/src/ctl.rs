//! Between server and plugin: commands and replies over message queues, at most
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
//! The header decodes alone, so that a reader with a bad body still knows whom to answer, and a
//! reader of replies drops those whose sequence is not the one it awaits.

mod header;
mod reply;
mod request;

pub use header::{Opcode, ReplyHeader, RequestHeader};
pub use reply::{Completion, InitReply, PostOutcome, Reply, TestReply, UnexpectedMessage};
pub(crate) use request::INIT_NAME_AT;
pub use request::{Init, Post, Request, Test, TestSelection, UnexpectedTest};

/// Bytes of the longest message in either direction.
pub const CTL_MESSAGE_LEN: usize = 4096;

/// Messages that the control queue holds.
pub const CONTROL_QUEUE_DEPTH: usize = 10;

/// Messages that a reply queue holds.
pub const REPLY_QUEUE_DEPTH: usize = 2;

/// Reply slots of one server; a 65th concurrent call waits for one to be free.
pub const REPLY_SLOTS: u32 = 64;

/// Segments that fit one command; longer lists stand in the segment.
pub const INLINE_SEGMENTS: usize = 250;

/// Operation ids that fit one command; longer lists stand in the segment.
pub const INLINE_IDS: usize = 500;

/// Unexpected messages that one reply names at most.
pub const UNEXPECTED_PER_REPLY: usize = 126;

/// Completed operations that one reply names at most.
pub const COMPLETIONS_PER_REPLY: usize = 252;

/// Counters that one reply holds at most.
pub const COUNTERS_PER_REPLY: usize = 500;
