//! Fine-grained routing: which LNet routers each client uses, and what that costs.
//!
//! ```text
//!   map, tables,      input            assign                 evaluate
//!   machine file ───▶ Draft ─check─▶ Machine ─Policy─▶ Plan ─────────▶ hops, cost, link loads,
//!                     every problem              primary and         balance, job efficiency,
//!                     with file and line         k backups           failures, bounds
//! ```
//!
//! A plan says, for each client and each net behind the routers, which router node it uses and
//! which ones take over. This crate is computation: it opens no file and no socket and has no clock.
//! Equal inputs give equal plans. Section numbers cite the planning description.

mod assign;
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
mod machine;
pub mod metrics;
mod names;
pub mod place;
mod plan;
mod policy;
mod presets;
mod problem;
mod random;
pub mod report;
mod rule;
mod transport;

pub use assign::assign;
pub use csv::write_csv;
pub use document::write_yaml;
pub use input::{
    ClientDraft, Draft, HostListError, MAX_INPUT_BYTES, MapNode, ModuleDraft, NodeDraft, Synthetic,
    hosts, read_machine, read_map, read_modules, read_node_table, read_plan, synthetic,
    synthetic_metadata, titan,
};
pub use machine::{Client, Group, Machine, Module, NetEntry, Origin, Role, Router};
pub use names::{Failed, NameError, clients, failed};
pub use plan::{Plan, PlanError, PlanWarning, Row};
pub use policy::{Cut, Disjoint, Metric, Options, Policy, TieRule};
pub use presets::{PRESETS, preset};
pub use problem::{InputError, Place, Problem, Reason};
pub use rule::Window;
