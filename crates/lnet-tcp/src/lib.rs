//! The socket LND: handshake, typed connections, framing, zero-copy acknowledgements.

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
mod transmit;
mod upper;
mod view;

pub use config::{AcceptMode, Limits, LndNi, SocklndConfig, SourcePorts};
pub use error::AddNiError;
pub use socklnd::Socklnd;
pub use stats::{CloseReason, Counts, DialFailure, ProtocolError, Refusal, SocklndStats, Unsent};
pub use upper::{Disposition, Failure, NiKey, RxToken, SendRequest, TxToken, Upper};
pub use view::ConnectionView;
