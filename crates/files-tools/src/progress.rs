//! What an operation has done so far.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::failure::Failure;

/// What an operation has done so far; shared with whoever shows it.
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
    pub(crate) begun_again: AtomicU64,
    pub(crate) not_kept: AtomicU64,
    is_cancelled: AtomicBool,
}

/// The counters.
impl Progress {
    /// Regular files that were found so far; grows until the last directory was read.
    #[must_use]
    pub fn found_files(&self) -> u64 {
        self.found_files.load(Ordering::Relaxed)
    }

    /// Bytes in them.
    #[must_use]
    pub fn found_bytes(&self) -> u64 {
        self.found_bytes.load(Ordering::Relaxed)
    }

    /// Regular files that are done.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Directories that are done.
    #[must_use]
    pub fn directories(&self) -> u64 {
        self.directories.load(Ordering::Relaxed)
    }

    /// Symbolic links that are done.
    #[must_use]
    pub fn links(&self) -> u64 {
        self.links.load(Ordering::Relaxed)
    }

    /// Bytes of files that are done or under way, holes not counted. What was moved of a file that failed or began
    /// again counts no longer.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes among them that an earlier, interrupted copy had brought already.
    #[must_use]
    pub fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    /// Files that were there already, with the same length and time.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Named pipes, sockets and devices, which are not copied.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// How often a file began again, because a server restarted or forgot the file.
    #[must_use]
    pub fn begun_again(&self) -> u64 {
        self.begun_again.load(Ordering::Relaxed)
    }

    /// Owners and extended attributes that the target does not let this user set.
    #[must_use]
    pub fn not_kept(&self) -> u64 {
        self.not_kept.load(Ordering::Relaxed)
    }

    /// Notes one more file that is done.
    pub fn note_file(&self) {
        add(&self.files, 1);
    }

    /// Ends the operation after the calls under way.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether [`Progress::cancel`] was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// Adds to one of the counters.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// Takes back what was added.
pub(crate) fn take_back(counter: &AtomicU64, amount: u64) {
    counter.fetch_sub(amount, Ordering::Relaxed);
}

/// What failed: the first [`Failures::KEPT`] in full, the others as a number.
#[derive(Debug, Default)]
pub struct Failures {
    /// The first ones.
    pub list: Vec<Failure>,
    /// How many there are in all.
    pub count: u64,
}

impl Failures {
    /// How many are kept in full.
    pub const KEPT: usize = 1000;

    /// Notes one.
    pub fn add(&mut self, failure: Failure) {
        self.count += 1;
        if self.list.len() < Self::KEPT {
            self.list.push(failure);
        }
    }

    /// Whether a server did not answer.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.list.iter().any(Failure::is_fatal)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
