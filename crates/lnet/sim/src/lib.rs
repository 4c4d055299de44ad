//! Simulates many LNet cores on a virtual fabric: seeded faults, virtual time, checked invariants.
//!
//! ```text
//!   scenario (YAML) ─┐
//!   seed ────────────┴▶ Plan ──▶ Sim ──▶ Outcome: summary, violation, trace
//!                        ▲         │
//!                        └─ shrink ┘  when an invariant is violated
//! ```
//!
//! Each node is the real `lnet-core`, driven as a running node drives it. A driver that implements the [`lnd::Lnd`]
//! trait connects the core to the fabric. The simulation runs in one thread without a clock, and all random numbers
//! come from [`Random`], whose sequences never change. Two runs of the same plan are identical to the byte. A
//! failure is therefore reported by its seed, and its plan can be reduced to the parts that the failure needs
//! ([`shrink`]).
//!
//! This crate must never use sockets, threads or files.

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
