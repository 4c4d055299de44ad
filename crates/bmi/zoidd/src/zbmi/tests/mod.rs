//! Tests of each rule of the engine, and random schedules against a model of plain queues.

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
