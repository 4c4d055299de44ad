//! File operations over LNet: the gateway and its client.
//!
//! ```text
//!   RemoteFiles (a FileSystem) ──▶ lnet-rpc ═══ LNet ═══ lnet-rpc ──▶ FileGateway ──▶ any FileSystem
//! ```
//!
//! A call of `lnet-rpc` carries one request of [`files::wire`] as its body, and the encoded reply back. The
//! bytes of files are the bulk of the call, at most [`PIECE`] bytes. A longer read or write takes several
//! calls.
//!
//! ```text
//! opcode           request body    bulk                               reply body
//! 256 file         request         bytes of the file, either way      reply
//!                  request         room for a long reply (write)      nothing where the reply is in the bulk
//! 257 long file    -               request (read)                     reply
//! 258 short file   length of the   room for the bytes of a longer     length of the reply (4), reply,
//!                  request (4),    read (write)                       bytes that were read
//!                  request, bytes
//!                  to write
//! ```
//!
//! A write whose bytes fit into the body rides in its request, and a read of few bytes in its reply. Such a call costs
//! one round trip.
//!
//! A client calls an operation that is not idempotent with [`lnet_rpc::Idempotence::Once`]. Within one session
//! the server executes such an operation at most once, however often the network loses and repeats messages.
//! With a [`ReplyLog`], sessions outlive the gateway. An operation fails with [`files::OUTCOME_UNKNOWN`] if the
//! session ended before the answer came, or if a restarted gateway cannot tell whether the operation was
//! executed.

mod busy;
mod evidence;
mod gateway;
mod log;
mod remote;
mod sealed;
mod step;

pub use gateway::FileGateway;
pub use log::{LogCounters, LogError, ReplyLog, fuzz_log};
pub use remote::RemoteFiles;
pub use step::Step;

/// Opcode of a request that is in the body.
pub(crate) const FILE: u32 = 256;
/// Opcode of a request that is too long for a body and is in the bulk.
pub(crate) const LONG_FILE: u32 = 257;

/// Opcode of a read, or of a write with its bytes in the body.
pub(crate) const SHORT_FILE: u32 = 258;

/// The limit of bytes that ride in the reply of a read. The rest of a body has room for the reply.
pub(crate) const SHORT_READ: u64 = lnet_rpc::REPLY_BODY_MAX as u64 - 64;

/// Returns the body of a short file: a message, and bytes of the file behind it.
pub(crate) fn join(message: &[u8], bytes: &[u8]) -> Vec<u8> {
    // A message has at most `REPLY_MAX` bytes, so the length fits into 32 bits.
    let length = (message.len() as u32).to_le_bytes();
    [&length[..], message, bytes].concat()
}

/// Splits the body of a short file into the message and the bytes behind it; `None` if the body is too short.
pub(crate) fn split(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = body.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// The limit of file bytes in one call. A worker of the gateway holds at most this much in memory.
pub const PIECE: u64 = 4 << 20;
/// The limit of segments in one call, so that their list fits into a body.
pub(crate) const SEGMENTS: usize = 64;
