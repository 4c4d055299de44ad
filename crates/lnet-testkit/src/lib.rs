//! What the tests of several crates share: ports, patterns, waiting, and what a test needs from its machine.
//!
//! It knows no crate of the workspace but `sys`, so that any of them may use it in its tests.

pub mod browser;
mod needs;

use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use needs::{absent, is_required, require, shared_data};

/// How long a test waits for what must happen: a limit that only a hang reaches.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long [`eventually`] pauses between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// A TCP port that is this process's on every IPv4 address until the process ends, and free to be listened
/// on, by this process and by those it starts.
///
/// # Panics
///
/// The system has no port to give.
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

/// Waits until `holds`; `what` says in the failure's message what did not come true.
///
/// # Panics
///
/// It did not hold within [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(
            begun.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        thread::sleep(PAUSE);
    }
}

/// So many bytes in which any cut, shift or exchange of a piece is seen.
#[must_use]
pub fn pattern(length: usize) -> Vec<u8> {
    // 251 is prime: the pattern fits no power of two. Copied, because tests without optimisation count slowly.
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
    fn what_comes_true_ends_the_wait() {
        let mut looks = 0;
        eventually("three looks", || {
            looks += 1;
            looks == 3
        });
    }

    #[test]
    fn a_port_may_be_listened_on_at_several_addresses_and_is_given_once() {
        let (one, two) = (port(), port());
        assert_ne!(one, two);
        let listeners: Vec<_> = (1..=3)
            .map(|host| TcpListener::bind((Ipv4Addr::new(127, 0, 0, host), one)).unwrap())
            .collect();
        assert_eq!(listeners.len(), 3);
    }

    #[test]
    fn a_tool_that_is_there_is_no_reason_to_skip() {
        assert!(require("sh"));
    }

    #[test]
    fn what_is_absent_skips_here_and_fails_where_everything_is_installed() {
        let absent = || catch_unwind(|| require("a-tool-that-nobody-has"));
        match (is_required(), absent()) {
            (false, skipped) => assert!(!skipped.unwrap()),
            (true, failed) => assert!(failed.is_err()),
        }
    }
}
