//! The socket LND: handshake, typed connections, framing, zero-copy acknowledgements.
//!
//! ```text
//!        the node above: Upper          threads that move bytes
//!   send, resume |      ^ header,        |            ^
//!                |      | received,      | Staging    | Job: a read or a write,
//!                v      | sent           v            | with the memory it needs
//!   +------------------ Socklnd --------------------------------+
//!   | peers: connections, dialling, waiting messages             |
//!   | handshakes: connreq and HELLO in both roles                |
//!   | connections: CONTROL, BULK_IN, BULK_OUT                    |
//!   +--- readiness --- time from the caller --- Network ---------+
//!                          Sockets, or streams of a simulation
//! ```
//!
//! [`Socklnd`] decides what to read and write, and [`Job`]s move the bytes; the documentation of
//! [`Socklnd`] says how a node drives both. Large payloads are written from the node's memory and
//! read into it. Small ones are read many at a time, and copied once.
//!
//! The LND believes the NID and the process id in a peer's HELLO. As with kernel nodes, only the
//! source port is evidence, if [`AcceptMode::Secure`] demands a privileged one.
//!
//! This crate reads no clock and decides nothing about routes, matching or resending. It never
//! holds more of a peer's data than [`Limits`] says, and nothing that a peer sends makes it panic.
//! Tags in comments cite the rules of the wire protocol in `docs/protocol`.

mod admit;
mod choose;
mod config;
mod connection;
mod dialling;
mod error;
mod handshake;
mod invariant;
mod job;
mod limit;
mod network;
mod peer;
mod reader;
mod receive;
mod sockets;
mod socklnd;
mod stats;
#[cfg(test)]
mod stream_tests;
mod transmit;
mod view;

pub use config::{AcceptMode, Limits, LndNi, NiTuning, SocklndConfig, SourcePorts};
pub use error::AddNiError;
pub use job::{Above, Destination, Job, Source, Staging};
pub use lnd::{Disposition, Failure, NiId, RxId, TxId, Upper};
pub use network::{Network, Readiness, Stream};
pub use sockets::Sockets;
pub use socklnd::Socklnd;
pub use stats::{CloseReason, Counts, DialFailure, ProtocolError, Refusal, SocklndStats, Unsent};
pub use view::ConnectionView;

/// A message for [`Socklnd::send`].
pub type SendRequest = lnd::SendRequest<Source>;
