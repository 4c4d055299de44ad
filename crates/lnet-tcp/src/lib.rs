//! The socket LND: handshake, typed connections, framing, zero-copy acknowledgements.
//!
//! ```text
//!             the node above: Upper                      payload memory
//!   send, resume |          ^ header, received, sent        |    ^
//!                v          | peer_changed                  |    |
//!   +--------------------- Socklnd ---------------------+   |    |
//!   | peers: connections, dialling, waiting messages    |   |    |
//!   | handshakes: connreq and HELLO in both roles       |   |    |
//!   | connections: CONTROL, BULK_IN, BULK_OUT           |   |    |
//!   +--- readiness from mio ---- time from the caller --+   |    |
//!                |                                          v    |
//!                +------------------- sockets: writev from, readv into
//! ```
//!
//! [`Socklnd`] is one object without a thread of its own: its documentation says how a node drives it.
//! Payload is written from and read into memory of the node above, and is copied nowhere.
//!
//! Peers are believed what their HELLO says: NID and process id. As with kernel nodes, only the source
//! port vouches for them, where [`AcceptMode::Secure`] demands a privileged one (section 2.4).
//!
//! This crate reads no clock and decides nothing about routes, matching or resending. It may never hold
//! more of a peer's data than [`Limits`] says, and nothing that a peer sends makes it panic. Section
//! numbers are those of the LNet-over-TCP wire description that the project works from.

mod admit;
mod choose;
mod config;
mod connection;
mod dialling;
mod error;
mod handshake;
mod limit;
mod peer;
mod reader;
mod receive;
mod socket;
mod socklnd;
mod stats;
#[cfg(test)]
mod stream_tests;
mod transmit;
mod upper;
mod view;

pub use config::{AcceptMode, Limits, LndNi, NiTuning, SocklndConfig, SourcePorts};
pub use error::AddNiError;
pub use socklnd::Socklnd;
pub use stats::{CloseReason, Counts, DialFailure, ProtocolError, Refusal, SocklndStats, Unsent};
pub use upper::{Disposition, Failure, NiKey, RxToken, SendRequest, TxToken, Upper};
pub use view::ConnectionView;
