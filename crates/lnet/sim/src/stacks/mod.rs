//! Many node stacks on virtual streams.
//!
//! ```text
//!   seed ──▶ Plan ──▶ World ──▶ Outcome
//!
//!   machine: programs ─▶ Stack: core, LND, memory ─▶ driver's jobs ─▶ Port ─┐
//!   machine: ...                                                     Port ──┤ Fabric: lines, listeners
//! ```
//!
//! Each machine runs [`lnet_node::stack::Stack`] with the socket LND, and the jobs of several threads in progress at
//! the same time. Streams split written data, delay it and reorder connections. Machines are cut off, reject
//! connections, stand still, are killed or lose power. Hostile machines answer in the names of others.

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
mod rdma;
mod schedule;
mod stranger;
mod world;

pub use chaos::chaos;
pub use draw::{draw, draw_over_rdma};
pub use mesh::mesh;
pub use plan::{End, Fault, Kind, Machine, Operation, Plan, Program, Trouble, nid};
pub use schedule::Part;
pub use world::{Defect, NewRecorder, Options, World};
