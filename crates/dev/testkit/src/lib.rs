//! Helpers for the tests of several crates: ports, byte patterns, waiting, signals to processes, turns with message
//! queues, tools or data that a test needs, C programs, and the folders of the workspace.
//!
//! Of the workspace's crates it uses only `sys`, so that the tests of all others can use it.
//!
//! # Example
//!
//! ```
//! let port = testkit::port();
//! let listener = std::net::TcpListener::bind(("127.0.0.1", port))?;
//! let mut looks = 0;
//! testkit::eventually("the third look", || {
//!     looks += 1;
//!     looks == 3
//! });
//! # drop(listener);
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod browser;
pub mod c;
mod needs;
pub mod process;
mod queues;
pub mod workspace;

use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use needs::{absent, is_required, require, shared_data};
pub use queues::QueueTurn;

/// Longest wait of a test for an expected condition: a limit that only a hang reaches.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Pause of [`eventually`] between two checks.
const PAUSE: Duration = Duration::from_millis(5);

/// Returns a TCP port that belongs to this process on every IPv4 address until the process ends.
/// This process and its children can listen on it.
///
/// # Panics
///
/// If the system has no free port.
#[must_use]
#[expect(clippy::expect_used, reason = "a test that cannot be set up fails")]
pub fn port() -> u16 {
    static RESERVED: Mutex<Vec<sys::ReservedPort>> = Mutex::new(Vec::new());
    let port = sys::ReservedPort::on(Ipv4Addr::UNSPECIFIED).expect("a port is free");
    let number = port.number();
    let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    reserved.push(port);
    number
}

/// Waits until `holds` returns true. The panic message names `what`.
///
/// # Panics
///
/// If `holds` is still false after [`TIME_LIMIT`].
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(
            begun.elapsed() < TIME_LIMIT,
            "not within {TIME_LIMIT:?}: {what}"
        );
        thread::sleep(PAUSE);
    }
}

/// Returns bytes in which every cut, shift or exchange of parts is visible.
#[must_use]
pub fn pattern(length: usize) -> Vec<u8> {
    // 251 is prime, so the pattern does not repeat at powers of two. Copied, because counting is
    // slow in tests without optimisation.
    let period: Vec<u8> = (0..251_u32).map(|index| (index * 31 % 251) as u8).collect();
    let mut bytes = period.repeat(length.div_ceil(period.len()));
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_condition_that_becomes_true_ends_the_wait() {
        let mut looks = 0;
        eventually("three looks", || {
            looks += 1;
            looks == 3
        });
    }

    #[test]
    fn a_port_accepts_listeners_on_several_addresses_and_is_assigned_once() {
        let (one, two) = (port(), port());
        assert_ne!(one, two);
        let listeners: Vec<_> = (1..=3)
            .map(|host| TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), one)).unwrap())
            .collect();
        assert_eq!(listeners.len(), 3);
    }

    #[test]
    fn a_test_does_not_skip_if_its_tool_is_installed() {
        assert!(require("sh"));
    }

    #[test]
    fn a_missing_tool_skips_the_test_or_fails_it_if_everything_is_required() {
        let absent = || catch_unwind(|| require("a-tool-that-nobody-has"));
        match (is_required(), absent()) {
            (false, skipped) => assert!(!skipped.unwrap()),
            (true, failed) => assert!(failed.is_err()),
        }
    }
}
