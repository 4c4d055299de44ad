//! The stack of a node: the state machine (`lnet-core`), the socket LND (`lnet-tcp`) and the memory that programs
//! lend, behind one interface.
//!
//! ```text
//!          calls, time          events: EventSink
//!               │                   ▲
//!        ┌──────▼───────────────────┴──────────────┐
//!        │  Core ◀── header, arrived, sent ── Socklnd │◀──▶ Network: sockets of the system,
//!        │    └── outputs: transmit, resume ──▶       │      or streams of a simulation
//!        │  Memory: descriptors, router buffers       │
//!        └────────────────────────────────────────────┘
//! ```
//!
//! From the first o2ib interface on, the o2ib LND ([`Rdma`]) stands beside the socket LND.
//!
//! A running node (`lnet-node`) and the simulator (`lnet-sim::stacks`) drive the same [`Stack`]. The stack has no
//! thread, no socket and no clock: each call passes the time, and bytes move in [`lnet_tcp::Job`]s that the driver
//! runs.

mod event;
mod loopback;
mod memory;
mod rdma;
mod tap;
mod turn;

pub use event::{EventSink, NodeEvent};
pub use lnet_verbs::{Landing, Payload};
pub use memory::{Foreign, Md, Memory, MemoryTable, Registered, Scrap};
pub use rdma::{Rdma, RdmaDevice};
pub use tap::{Shown, Watcher};
#[cfg(test)]
pub(crate) use tap::{Tap, WAITING_MAX};
pub use turn::{OUTPUTS_PER_TURN, Side, Stack};
