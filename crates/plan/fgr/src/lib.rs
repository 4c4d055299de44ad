//! Fine-grained routing: which LNet routers each client uses, and what that costs.
//!
//! ```text
//!   map, tables,      input            assign                 evaluate
//!   machine file ───▶ Draft ─check─▶ Machine ─Policy─▶ Plan ─────────▶ hops, cost, link loads,
//!                     every problem              primary and         balance, job efficiency,
//!                     with file and line         k backups           failures, bounds
//! ```
//!
//! A plan says, for each client and each net behind the routers, which router node the client uses
//! and which router nodes are its backups.
//!
//! # Example
//!
//! ```
//! use fgr::evaluate::{Evaluation, Gateways};
//! use fgr::{Options, Policy, assign, read_machine};
//!
//! // A ring of four switches with one client each, and two modules of one router.
//! let machine = read_machine(
//!     "ring.yaml",
//!     "
//! machine: ring
//! fabric:
//!   kind: torus
//!   dimensions:
//!     - {name: x, size: 4, cost: 1, capacity: [10]}
//! clients: {per-vertex: 1}
//! groups:
//!   - name: A
//!     nets: [o2ib201]
//!     sub-groups:
//!       - modules:
//!           - {blade: a1, at: [0], nodes: [1001]}
//!           - {blade: a2, at: [2], nodes: [1002]}
//! ",
//! )?;
//! let plan = assign(&machine, Policy::suited(&machine), &Options::default())?;
//! let evaluation = Evaluation::new(&machine, &plan, Gateways::Primary);
//! assert_eq!(evaluation.unserved, 0);
//! assert!(evaluation.hops.max <= 2.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! This crate calculates only: it opens no file and no socket, and reads no clock. Equal inputs give
//! equal plans. Inputs are at most [`MAX_INPUT_BYTES`] long, and a machine has fewer than 65,535
//! routers. Section numbers cite the planning description.

mod assign;
pub mod chain;
pub mod check;
pub mod config;
mod costs;
mod csv;
pub mod diff;
mod document;
pub mod evaluate;
pub mod import;
mod input;
pub mod job;
pub mod links;
mod machine;
pub mod metrics;
mod names;
pub mod place;
mod plan;
mod policy;
mod presets;
mod problem;
pub mod rails;
mod random;
pub mod rates;
pub mod report;
mod rule;
pub mod serves;
pub mod topology;
mod transport;

pub use assign::assign;
pub use csv::{CSV_HEADER, write_csv};
pub use document::write_yaml;
pub use input::{
    ClientDraft, Draft, HostListError, MAX_INPUT_BYTES, MapNode, ModuleDraft, NodeDraft, Synthetic,
    hosts, read_machine, read_map, read_modules, read_node_table, read_plan, synthetic,
    synthetic_metadata, titan,
};
pub use machine::{Client, Details, Group, Machine, Module, NetEntry, Nic, Origin, Role, Router};
pub use names::{Failed, NameError, clients, failed};
pub use plan::{Plan, PlanError, PlanWarning, Row};
pub use policy::{Cut, Disjoint, Metric, Options, Policy, TieRule};
pub use presets::{PRESETS, preset};
pub use problem::{InputError, Place, Problem, Reason};
pub use rule::Window;
