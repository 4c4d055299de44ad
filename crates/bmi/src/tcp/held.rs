//! The memory of messages that came before anybody wanted them, of all peers together.
//!
//! A window bounds what one connection makes us keep. This bounds what all of them do, and what is
//! left of those that are gone: a peer that connects again and again has a new window each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::wire::{HELD_MAX, Violation, charge};

/// How much may be kept.
#[derive(Debug)]
pub(crate) struct Allowance {
    used: Arc<AtomicU64>,
    most: u64,
}

impl Allowance {
    /// At most so many bytes, counted as [`charge`] does.
    pub(crate) fn new(most: Option<u64>) -> Allowance {
        Allowance {
            used: Arc::default(),
            most: most.unwrap_or(HELD_MAX),
        }
    }

    /// Room for a message of `len` bytes, or for the announcement of one.
    ///
    /// # Errors
    ///
    /// [`Violation::Overdrawn`]: there is none.
    pub(crate) fn take(&self, len: usize) -> Result<Held, Violation> {
        let bytes = charge(len);
        // Only the holder of the method's lock takes.
        if self.used.load(Ordering::Relaxed).saturating_add(bytes) > self.most {
            return Err(Violation::Overdrawn);
        }
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Ok(Held {
            used: Arc::clone(&self.used),
            bytes,
        })
    }
}

/// Goes with a message until the program has it, or nobody ever will.
#[derive(Debug)]
pub(crate) struct Held {
    used: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
