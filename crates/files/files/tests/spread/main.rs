//! Several gateways as one file system.

mod common;
mod failover;
mod locks;
mod reftest;
mod threads;
