//! The engine's rules, one by one, and all together against a model of plain queues.

mod announce;
mod deaths;
mod drain;
mod fairness;
mod matching;
mod memory;
mod model;
mod ready;
mod rig;
mod server;
mod transfers;
