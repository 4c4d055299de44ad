//! The method with real processes: clients, the daemon and the server.
//!
//! ```text
//!  test ──commands──▶ party (client) ──socket──▶ party (daemon) ◀──queues── party (server)
//!    ▲                  │                                                      │
//!    └──── answers ─────┴──────────────────────────────────────────────────────┘
//! ```
//!
//! A party is this test program, started again for the one test that [`party`] describes. It executes the
//! commands that it reads from standard input, each on a thread of its own, so that a test can have several
//! in flight. It can be killed at any moment.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows only functions with #[test] as tests"
)]

mod client_memory;
mod deaths;
mod faults;
mod group;
mod kills;
mod matrix;
mod outstanding;
mod party;
mod relay;
mod requirements;
mod scene;
mod stock_limits;
mod successors;

/// The body that the other tests start as processes.
#[test]
fn a_party_of_the_other_tests() {
    party::be_one_if_asked();
}
