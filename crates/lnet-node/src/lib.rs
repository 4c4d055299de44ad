//! A running LNet node.
//!
//! [`Node`] drives the stack (`lnet-stack`): the state machine, the socket LND and the memory that programs
//! register. It gives the stack real time, sockets and one event loop, and offers programs the Portals calls:
//! attach, bind, put, get, and queues of events.
//!
//! ```text
//!   program threads                    the thread that drives
//!   ---------------                    ----------------------
//!   Node::put ──┐                 ┌── epoll: sockets, timers
//!               ▼                 ▼
//!        ┌──────────── engine (one lock) ────────────┐
//!        │  Core  ◀── header, arrived, sent ── Socklnd │──▶ sockets
//!        │    └── outputs: transmit, event ─────▶      │
//!        │  Memory: descriptors, router buffers        │
//!        └──────────────────────────────────────────┘
//!                  │ events
//!                  ▼
//!            EventQueue::wait
//! ```
//!
//! **Why blocking calls and one lock, not async.** A put from a program's thread runs through the core
//! into the socket in that thread: no hand-over, which across cores costs more than everything else
//! together. What arrives is handled by whoever drives the loop: a thread of the node
//! ([`Progress::Thread`]) or the program's own thread while it waits ([`Progress::Caller`]). Programs
//! that are async wrap [`EventQueue::wait`] in a thread of their own.

mod alarm;
mod change;
mod changing;
mod clock;
mod control;
mod engine;
mod fair;
#[cfg(test)]
mod fair_tests;
mod links;
mod metrics;
mod node;
mod options;
mod ping;
mod queue;
mod rest;
mod rules;
mod serving;
mod setup;
mod stats;
mod sync;

pub use lnet_core::{
    Errno, Event, EventKind, GetRequest, InsertPosition, MdHandle, MdOptions, PortalError,
    PutRequest, SendHints,
};
pub use lnet_stack::{Md, Memory, NodeEvent};
pub use lnet_tcp::{AcceptMode, SourcePorts};

pub use control::{ControlEndpoint, ControlError, ControlOptions, ReconfigureError};
pub use metrics::{MetricsEndpoint, MetricsError, MetricsOptions};
pub use node::{MatchEntry, Node, NodeError, ShutdownReport};
pub use options::{NodeOptions, Progress};
pub use ping::{PingError, PingReply};
pub use queue::{EventQueue, WaitError};
pub use setup::StartError;
pub use stats::NodeStats;
