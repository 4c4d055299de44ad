//! A running LNet node.
//!
//! [`Node`] drives a [`stack::Stack`]: the state machine, the socket LND and the memory that programs
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
//! **Why blocking calls and one lock, not async.** A put from a program's thread runs through the core into the
//! socket in that thread. There is no hand-over, which across cores costs more than everything else together.
//! Messages that arrive are handled by the thread that drives the loop: a thread of the node
//! ([`Progress::Thread`]), or the program's own thread while it waits ([`Progress::Caller`]). Async programs
//! await [`EventQueue::next`].
//!
//! Most programs need no more than [`Initiator`], [`Inbox`] and [`Window`]: see the README.
//!
//! A program can embed a node without any document. `lnet-noded` runs a node that is configured by documents,
//! controlled from outside and watched.
//!
//! ```
//! use std::error::Error;
//! use std::time::Duration;
//!
//! use lnet_node::{AcceptMode, NiSettings, Node, NodeOptions};
//! use lnet_types::Nid;
//!
//! fn main() -> Result<(), Box<dyn Error>> {
//!     let nid: Nid = "127.0.0.1@tcp".parse()?;
//!     let options = NodeOptions {
//!         // The node of this example talks to itself only. It needs no port.
//!         accept: Some(AcceptMode::None),
//!         ..NodeOptions::default()
//!     };
//!     let node = Node::start_with(options, |engine, now| -> Result<(), Box<dyn Error>> {
//!         engine.add_interface(nid, NiSettings::default(), now)?;
//!         Ok(())
//!     })?;
//!     let reply = node.ping(nid, None, Duration::from_secs(10))?;
//!     assert_eq!(reply.primary_nid, nid);
//!     node.shutdown(Duration::from_secs(1));
//!     Ok(())
//! }
//! ```

mod alarm;
mod clock;
mod discover;
mod ends;
mod engine;
mod fair;
#[cfg(test)]
mod fair_tests;
mod herald;
mod links;
mod news;
mod node;
mod options;
mod ping;
mod queue;
mod rest;
pub mod shares;
pub mod stack;
mod stats;
mod sync;

pub use lnet_core::{
    ConfigError, Core, Errno, Event, EventKind, GetRequest, Globals, InsertPosition, MdHandle,
    MdOptions, NiId, NoPath, PortalError, PutRequest, Route, RouteFault, RouterBuffers, SendHints,
    Tunables,
};
pub use lnet_o2ib::NiTuning as O2ibTuning;
pub use lnet_o2ib::{ConnectFailure, O2ibStats};
pub use lnet_tcp::{AcceptMode, AddNiError, ConnectionView, NiTuning, SourcePorts};
pub use stack::{Foreign, Md, Memory, NodeEvent, Scrap};

pub use ends::{Access, Address, Inbox, Initiator, Message, OperationError, Window};
pub use engine::{Engine, InterfaceError, NiSettings, has_driver, has_o2ib_listener};
pub use news::NewsLimit;
pub use node::operations::ManyError;
pub use node::{MatchEntry, Node, NodeError, ShutdownReport, StartError};
pub use options::{NodeOptions, Progress};
pub use ping::{PingError, PingReply};
pub use queue::{EventQueue, WaitError};
pub use stats::{NodeStats, reason_name};

/// The README's program compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
