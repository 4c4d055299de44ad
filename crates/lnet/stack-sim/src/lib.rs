//! Simulates many node stacks on virtual streams: seeded faults, virtual time, checked invariants.
//!
//! ```text
//!   seed ──▶ Plan ──▶ World ──▶ Outcome: summary, violation, trace
//!              ▲        │
//!              └ smallest when an invariant is violated
//!
//!   machine: programs ─▶ Stack: core, LND, memory ─▶ driver's jobs ─▶ Port ─┐
//!   machine: ...                                                     Port ──┤ Fabric: lines, listeners
//! ```
//!
//! `lnet-sim` runs the state machine alone, on large fabrics. This crate runs everything that a node has except
//! sockets, threads and a clock: [`lnet_node::stack::Stack`] with the socket LND, real bytes, and the jobs of several
//! threads in progress at the same time. Streams split written data, delay it and reorder connections. Machines are
//! cut off, reject connections, stand still, are killed or lose power. Hostile machines answer in the names of
//! others. The table in `check.rs` lists the invariants.
//!
//! The simulation runs in one thread without a clock, and all random numbers come from [`lnet_sim::Random`]. Two
//! runs of the same plan are identical to the byte.

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
