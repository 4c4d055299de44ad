//! Losses, races and restarts: what the method guarantees if something fails.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy knows only functions with #[test] as tests"
)]

#[allow(
    dead_code,
    reason = "shared with the tests of requirements, which use all of it"
)]
#[path = "../system/bed.rs"]
mod bed;
mod client;
mod proxy;
mod server;
