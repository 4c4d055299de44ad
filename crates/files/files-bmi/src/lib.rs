//! File operations over BMI: the forwarder on an I/O node, and its clients.
//!
//! ```text
//!   BmiFiles (a FileSystem) ──▶ bmi ═══ any method ═══ bmi ──▶ Forwarder ──▶ any FileSystem
//! ```
//!
//! An exchange is one attempt to execute an operation. It has a tag of its own:
//!
//! ```text
//!   client                                                    forwarder
//!     unexpected   head 64, request, short data ──────────────▶
//!     expected     the request, if it was too long ───────────▶  into a buffer, once one is free
//!     expected     a piece of the data to write ──────────────▶  written while the next piece arrives
//!     expected     ◀────────────────── head 32, a piece of the data read
//!     expected     ◀────────────────── head 32, the last piece, reply
//! ```
//!
//! A small operation is two messages: the request, with up to about 8000 bytes to write, and the answer, with
//! the data that was read. Requests and replies are those of [`files::wire`].
//!
//! **Exactly once.** A call is identified by three values: the client's name (16 random bytes), a slot, and the
//! slot's sequence number. If the daemon between client and forwarder is lost, the client starts a new exchange:
//! another attempt of the same call. The forwarder keeps the answer of the last call of each slot if a second
//! execution of the call could do harm, and drops attempts that arrive late. If the forwarder itself was restarted,
//! such a call completes with [`files::OUTCOME_UNKNOWN`].
//!
//! **Limits.** Everything that a client can use at the forwarder has a limit and a counter: exchanges, memory, time.
//! If a client makes no progress while others wait for memory, the forwarder takes its buffers back.
//!
//! The crate depends on no particular method of BMI. With the zoid method, posts must not wait for each other: set
//! `zoid::Options::pipelined`. [`BmiFiles`] requests this setting too, and lets its posts wait in the daemon
//! (`PostTimeout`), which saves a round trip.

mod client;
mod counters;
mod forwarder;
mod options;
mod proto;

pub use client::BmiFiles;
pub use counters::{ClientCounters, ClientCounts, Counters, Counts, Dropped};
pub use forwarder::{Forwarder, Standing};
pub use options::{ClientOptions, ForwarderOptions, SLOTS_MAX, Schedule};

/// Checks the rules for the heads of messages, for arbitrary bytes.
#[doc(hidden)]
pub fn fuzz_heads(message: &[u8]) {
    proto::fuzz_heads(message);
}

/// The setting of the zoid method with which posts do not wait for each other. Other methods ignore this setting.
pub const PIPELINED: bmi::Setting = bmi::Setting::Other(0x7A21);
