//! The progress and the failures of an operation.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::tools::failure::Failure;

/// The progress of an operation, shared with the code that shows it.
#[derive(Debug, Default)]
pub struct Progress {
    pub(crate) found_files: AtomicU64,
    pub(crate) found_bytes: AtomicU64,
    pub(crate) files: AtomicU64,
    pub(crate) directories: AtomicU64,
    pub(crate) links: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) resumed: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) left_out: AtomicU64,
    pub(crate) restarted: AtomicU64,
    pub(crate) not_kept: AtomicU64,
    is_cancelled: AtomicBool,
}

/// The counters.
impl Progress {
    /// Returns the number of regular files found so far. It grows until the last directory was read.
    #[must_use]
    pub fn found_files(&self) -> u64 {
        self.found_files.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes in the files found so far.
    #[must_use]
    pub fn found_bytes(&self) -> u64 {
        self.found_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of regular files that are done.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Returns the number of directories that are done.
    #[must_use]
    pub fn directories(&self) -> u64 {
        self.directories.load(Ordering::Relaxed)
    }

    /// Returns the number of symbolic links that are done.
    #[must_use]
    pub fn links(&self) -> u64 {
        self.links.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes transferred of files that are done or in progress. Holes do not count. The bytes
    /// of a file that failed or was restarted are subtracted.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns how many of these bytes an earlier, interrupted copy had written already.
    #[must_use]
    pub fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    /// Returns the number of files that were skipped, because the target had a file with the same length and time.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Returns the number of named pipes, sockets and devices, which are not copied.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Returns how often a file was restarted, because a server restarted or forgot the file.
    #[must_use]
    pub fn restarted(&self) -> u64 {
        self.restarted.load(Ordering::Relaxed)
    }

    /// Returns the number of owners and extended attributes that the target did not permit this user to set.
    #[must_use]
    pub fn not_kept(&self) -> u64 {
        self.not_kept.load(Ordering::Relaxed)
    }

    /// Counts one more file as done.
    pub fn note_file(&self) {
        add(&self.files, 1);
    }

    /// Ends the operation after the calls in flight.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`Progress::cancel`] was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// Subtracts from a counter.
pub(crate) fn take_back(counter: &AtomicU64, amount: u64) {
    counter.fetch_sub(amount, Ordering::Relaxed);
}

/// The failures of an operation: the first [`Failures::KEPT`] in full, the others as a number only.
#[derive(Debug, Default)]
pub struct Failures {
    /// The first failures.
    pub list: Vec<Failure>,
    /// Number of all failures.
    pub count: u64,
}

impl Failures {
    /// Limit of the failures that are kept in full.
    pub const KEPT: usize = 1000;

    /// Records a failure.
    pub fn add(&mut self, failure: Failure) {
        self.count += 1;
        if self.list.len() < Self::KEPT {
            self.list.push(failure);
        }
    }

    /// Returns whether a server did not answer.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.list.iter().any(Failure::is_fatal)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
