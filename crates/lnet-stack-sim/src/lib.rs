//! Many node stacks on virtual streams: seeded faults, virtual time, checked invariants.
//!
//! ```text
//!   seed ──▶ Plan ──▶ World ──▶ Outcome: summary, violation, trace
//!              ▲        │
//!              └ smallest when an invariant is broken
//!
//!   machine: programs ─▶ Stack: core, LND, memory ─▶ driver's jobs ─▶ Port ─┐
//!   machine: ...                                                     Port ──┤ Fabric: lines, listeners
//! ```
//!
//! `lnet-sim` runs the state machine alone, on large fabrics; here runs all that a node has but sockets, threads
//! and clock: [`lnet_stack::Stack`], with the socket LND, real bytes, and jobs of several threads under way at the
//! same time. Streams split what is written, delay it and reorder connections; machines are cut off, refuse, stand
//! still, are killed or lose power; strangers answer in others' names. The table at the head of `check.rs` says what
//! must hold.
//!
//! The world is arithmetic: one thread, no clock, and no chance but [`lnet_sim::Random`]. The same plan gives the
//! same run to the byte.

mod agenda;
mod chaos;
mod check;
mod draw;
mod driver;
mod fabric;
mod line;
mod links;
mod mesh;
mod node;
mod plan;
mod port;
mod report;
mod stranger;
mod world;

pub use chaos::chaos;
pub use draw::draw;
pub use mesh::mesh;
pub use plan::{End, Fault, Kind, Machine, Operation, Plan, Program, Trouble, nid};
pub use report::failure;
pub use world::{NewRecorder, Options, Sabotage, World};
