//! File operations over LNet: the gateway and its client.
//!
//! ```text
//!   RemoteFiles (a FileSystem) ──▶ lnet-rpc ═══ LNet ═══ lnet-rpc ──▶ FileGateway ──▶ any FileSystem
//! ```
//!
//! A call of `lnet-rpc` carries one request of [`files::wire`] as its body and the encoded reply back. The bytes of
//! files are the call's bulk, in pieces of at most [`PIECE`]; a longer read or write is several calls.
//!
//! ```text
//! opcode           request body    bulk                               reply body
//! 256 file         request         bytes of the file, either way      reply
//!                  request         room for a long reply (write)      nothing where the reply is in the bulk
//! 257 long file    -               request (read)                     reply
//! ```
//!
//! What is not idempotent is called with [`lnet_rpc::Idempotence::Once`]: within one session of the
//! server it is executed at most once, however often the network loses and repeats messages. With a
//! [`ReplyLog`] sessions outlive the gateway. Where the session ended before the answer came, or nobody can say
//! what became of the operation, it ends with [`files::OUTCOME_UNKNOWN`].

mod busy;
mod evidence;
mod gateway;
mod log;
mod remote;
mod step;

pub use gateway::FileGateway;
pub use log::{LogCounters, LogError, ReplyLog, fuzz_log};
pub use remote::RemoteFiles;
pub use step::Step;

/// A request in the body.
pub(crate) const FILE: u32 = 256;
/// A request that is too long for a body.
pub(crate) const LONG_FILE: u32 = 257;

/// Most bytes of a file in one call: what a worker of the gateway holds in memory.
pub const PIECE: u64 = 4 << 20;
/// Most segments in one call, so that their list fits into a body.
pub(crate) const SEGMENTS: usize = 64;
