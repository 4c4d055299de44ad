//! The counters of the `tcp` method, by reason.

use std::sync::atomic::{AtomicU64, Ordering};

use super::wire::Violation;

/// Counters of one `tcp` method.
#[derive(Debug, Default)]
pub struct Counters {
    events: [AtomicU64; 6],
    violations: [AtomicU64; Violation::COUNT],
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Connections that were accepted.
    Accepted,
    /// Connections that were closed at once because the table of connections was full.
    Refused,
    /// Answers to requests that had been withdrawn; no error.
    Late,
    /// Payload bytes that were copied because they were read together with a header.
    CopiedBytes,
    /// Messages that were longer than the receive that they matched.
    Truncated,
    /// Connections that this side made and the peer closed without a HELLO.
    Unanswered,
}

impl Counters {
    /// Returns the value of a counter.
    #[must_use]
    pub fn count(&self, counter: Counter) -> u64 {
        self.events[counter as usize].load(Ordering::Relaxed)
    }

    /// Returns the number of connections that were closed for this reason.
    #[must_use]
    pub fn violations(&self, reason: Violation) -> u64 {
        self.violations[reason as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, counter: Counter) {
        self.add_many(counter, 1);
    }

    pub(crate) fn add_many(&self, counter: Counter, many: u64) {
        self.events[counter as usize].fetch_add(many, Ordering::Relaxed);
    }

    pub(crate) fn violated(&self, reason: Violation) {
        self.violations[reason as usize].fetch_add(1, Ordering::Relaxed);
    }
}
