//! Many LNet cores on a virtual fabric: seeded faults, virtual time, checked invariants.
//!
//! ```text
//!   scenario (YAML) ─┐
//!   seed ────────────┴▶ Plan ──▶ Sim ──▶ Outcome: summary, violation, trace
//!                        ▲         │
//!                        └─ shrink ┘  when an invariant is broken
//! ```
//!
//! Each node is the real `lnet-core`, driven as a running node drives it; between it and the fabric
//! stands a driver behind the [`lnd::Lnd`] trait. The world is arithmetic: one thread, no clock, and no
//! chance but [`Random`], whose numbers are the same for ever. The same plan gives the same run to the
//! byte, so a failure is told by its seed, and its plan can be made smaller until only what it needs is
//! left ([`shrink`]).
//!
//! This crate may never know of sockets, threads or files.

mod check;
mod draw;
mod fabric;
pub mod lnd;
mod plan;
mod random;
mod report;
mod scenario;
mod shrink;
mod sim;
mod summary;
mod trace;

pub use check::{Violation, unrest};
pub use draw::{Limits, draw};
pub use plan::{
    Fault, NiSpec, NodeSpec, Operation, OperationKind, Plan, PortId, Speed, SwitchLink, Trouble,
    World,
};
pub use random::Random;
pub use report::Failure;
pub use scenario::{BUILTIN, Builtin, Scenario, ScenarioError};
pub use shrink::{Shrunk, shrink, smallest};
#[cfg(feature = "broken")]
pub use sim::Sabotage;
pub use sim::{Options, Sim};
pub use summary::{Outcome, Rail, Summary};
