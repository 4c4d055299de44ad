//! The socket LND: handshake, typed connections, framing, zero-copy acknowledgements.

mod config;
mod error;
mod socket;
mod socklnd;
mod stats;
mod upper;
mod view;

pub use config::{AcceptMode, Limits, LndNi, SocklndConfig, SourcePorts};
pub use error::AddNiError;
pub use socklnd::Socklnd;
pub use stats::{CloseReason, Counts, DialFailure, ProtocolError, Refusal, SocklndStats, Unsent};
pub use upper::{Disposition, Failure, NiKey, RxToken, SendRequest, TxToken, Upper};
pub use view::ConnectionView;
