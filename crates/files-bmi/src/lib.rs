//! File operations over BMI: the forwarder on an I/O node, and its clients.
//!
//! ```text
//!   BmiFiles (a FileSystem) ──▶ bmi ═══ any method ═══ bmi ──▶ Forwarder ──▶ any FileSystem
//! ```
//!
//! An exchange has one tag of its own (bmi-zoid specification, section 6.2):
//!
//! ```text
//!   client                                                    forwarder
//!     unexpected   head 64, request, short data ──────────────▶
//!     expected     the request, where it was too long ────────▶  into a buffer, when there is one
//!     expected     a piece of what is written ────────────────▶  written while the next one arrives
//!     expected     ◀────────────────── head 32, a piece of what is read
//!     expected     ◀────────────────── head 32, the last piece, reply
//! ```
//!
//! A small operation is two messages: the request, with up to some 8000 bytes to write, and the answer, with
//! what was read. Requests and replies are those of [`files::wire`].
//!
//! **Exactly once.** A call has a place at the forwarder: the client's name (16 random bytes), a slot, and the
//! slot's sequence number. A client whose exchange was lost with the daemon between them makes it again, as another
//! attempt at the same place. The forwarder keeps the answer of the last call of each slot where carrying the call
//! out twice could do harm, and drops attempts that come late. Where the forwarder itself was started anew,
//! such a call ends with [`files::OUTCOME_UNKNOWN`].
//!
//! **Who pays.** Whatever a client can cause at the forwarder has a limit and a counter: exchanges, memory, time.
//! Buffers that wait for a client that does not move are taken from it while others want them.
//!
//! The crate knows no method of BMI. For the zoid method, posts must not wait: set `zoid::Options::pipelined`;
//! [`BmiFiles`] asks for it too, and makes its posts wait in the daemon (`PostTimeout`), which saves a round trip.

mod client;
mod counters;
mod forwarder;
mod options;
mod proto;

pub use client::BmiFiles;
pub use counters::{ClientCounters, ClientCounts, Counters, Counts, Dropped};
pub use forwarder::{Forwarder, Standing};
pub use options::{ClientOptions, ForwarderOptions, SLOTS_MAX, Schedule};

/// The rules of the heads of messages, for arbitrary bytes.
#[doc(hidden)]
pub fn fuzz_heads(message: &[u8]) {
    proto::fuzz_heads(message);
}

/// The setting of the zoid method by which posts do not wait; other methods pass over it.
pub const PIPELINED: bmi::Setting = bmi::Setting::Other(0x7A21);
