//! Many cores on a virtual fabric.
//!
//! ```text
//!   scenario (YAML) ─┐
//!   seed ────────────┴▶ Plan ──▶ Sim ──▶ Outcome
//! ```
//!
//! Each node is the real `lnet-core`, driven as a running node drives it. A driver, [`lnd::Lnd`], connects
//! the core to the fabric.

mod check;
mod draw;
mod fabric;
pub mod lnd;
mod plan;
mod scenario;
mod schedule;
mod sim;
mod tally;
mod trace;

pub use draw::{Limits, draw};
pub use plan::{
    Fault, NiSpec, NodeSpec, Operation, OperationKind, Plan, PortId, Speed, SwitchLink, Trouble,
    World,
};
pub use scenario::{BUILTIN, Builtin, Scenario, ScenarioError};
pub use schedule::Part;
#[cfg(feature = "defects")]
pub use sim::Defect;
pub use sim::{Options, Sim};
