//! The o2ib LND: LNet over InfiniBand, RoCE and iWARP, in the protocol of kernel nodes.
//!
//! ```text
//!        the node above: Upper
//!   send, resume |      ^ header, received, sent
//!                v      |
//!   +----------- O2iblnd ----------------------------------+
//!   | peers: dialling, races, reconnections                 |
//!   | connections: credits, queues, transfers under way      |
//!   +--- Device: post, map ---- DeviceEvent ---- time -------+
//!          a driver of verbs, or the virtual fabric
//! ```
//!
//! The LND decides what to post and what to register, and a [`Device`] does it. Small messages are copied once at each
//! end. Larger payload is written by the source's device into the sink's memory, without a copy.
//!
//! Memory belongs to a message from the moment that it is mapped until the message is reported. If the connection
//! closes before, the message is reported only after the device has said that it touches nothing any more
//! ([`DeviceEvent::Drained`]).
//!
//! This crate does no I/O, reads no clock, and decides nothing about routes, matching or resending. It never holds more
//! of a peer's messages than the negotiated queue, and nothing that a peer sends makes it panic. Tags in comments cite
//! the rules of the wire protocol in `docs/protocol`.

mod config;
mod connection;
mod device;
mod event;
#[cfg(feature = "fabric")]
pub mod fabric;
mod machine;
mod peer;
mod stats;
mod table;
mod version;

pub use config::{Limits, LndNi, NiTuning, O2ibConfig};
pub use device::{
    CompletionError, ConnId, ConnectFailure, Device, DeviceError, DeviceEvent, Mapped, MappingId,
    PolledDevice, PortState, RequestId, Shape, Sink, Source, Write,
};
pub use event::Event;
pub use lnd::{Disposition, Failure, NiId, RxId, SendRequest, TxId, Upper};
#[cfg(feature = "defects")]
pub use machine::Defect;
pub use machine::{Above, AddNiError, ConnectionView, O2iblnd};
pub use stats::{CloseReason, Counts, O2ibStats};
pub use version::OtherVersion;
