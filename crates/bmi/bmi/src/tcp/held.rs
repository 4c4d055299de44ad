//! The memory of messages that nobody has collected, of all peers together.
//!
//! A window limits what one connection can make this process store. The allowance limits the sum over all
//! connections, including closed ones: a peer that reconnects gets a new window each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::wire::{HELD_MAX, Violation, charge};

/// The limit of stored bytes and the bytes in use.
#[derive(Debug)]
pub(crate) struct Allowance {
    used: Arc<AtomicU64>,
    most: u64,
}

impl Allowance {
    /// Creates an allowance of at most `most` bytes, counted as [`charge`] does.
    pub(crate) fn new(most: Option<u64>) -> Allowance {
        Allowance {
            used: Arc::default(),
            most: most.unwrap_or(HELD_MAX),
        }
    }

    /// Reserves memory for a message of `len` bytes, or for the announcement of one.
    ///
    /// # Errors
    ///
    /// [`Violation::Overdrawn`]: the allowance is used up.
    // [TCP-23]
    pub(crate) fn take(&self, len: usize) -> Result<Held, Violation> {
        let bytes = charge(len);
        // Only the thread that holds the method's lock reserves.
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

/// A reservation. It stays with a message until the program collects the message or the message is dropped.
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
