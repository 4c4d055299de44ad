//! The method as a whole: clients, the daemon, a server.
//!
//! The daemon is the real one, on a thread of the test unless a test says otherwise; queues, segment and
//! sockets are the system's. Requirements of the description that concern the whole method have a test here
//! with their number.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy knows only functions with #[test] as tests"
)]

mod bad_input;
mod bed;
mod client_memory;
mod conformance;
mod depth;
mod detector;
mod huge_pages;
mod io_nodes;
mod memory;
mod metrics;
mod pipelined;
mod pipelined_model;
mod plugin;
mod requirements;
mod signals;
mod stub;
mod versions;
