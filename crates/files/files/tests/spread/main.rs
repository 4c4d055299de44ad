//! Several gateways as one file system.

mod common;
mod failover;
mod reftest;
mod threads;
