//! Simulates many nodes in one thread: seeded faults, virtual time, checked invariants.
//!
//! ```text
//!   seed, scenario ──▶ plan ──▶ run ──▶ Outcome: summary, violation, trace
//!                       ▲        │
//!                       └ shrink ┘  when an Invariant is violated, down to a Failure
//! ```
//!
//! Two simulators have the agenda of events, the invariants, the reduction and the reports in common:
//!
//! * [`cores`] runs the state machine alone, on large fabrics with every LND, through thousands of faults.
//! * [`stacks`] runs everything that a node has except sockets, threads and a clock, with real bytes on virtual
//!   streams.
//!
//! All random numbers come from [`Random`], whose sequences never change. Two runs of the same plan are identical to
//! the byte. A failure is therefore reported by its seed, and its plan can be reduced to the parts that the failure
//! needs ([`shrink`]).
//!
//! This crate must never use sockets, threads or files.

mod agenda;
pub mod cores;
mod failure;
mod invariant;
mod random;
mod rest;
mod shrink;
pub mod stacks;
mod summary;

pub use failure::Failure;
pub use invariant::{Invariant, Violation};
pub use random::Random;
pub use shrink::{Schedule, Shrunk, shrink};
pub use summary::{Outcome, Rail, Summary};
