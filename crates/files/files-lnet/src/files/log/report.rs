//! The errors of a log, and its counters.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use thiserror::Error;

/// Why a log cannot be used.
#[derive(Debug, Error)]
pub enum LogError {
    /// The directory cannot be used.
    #[error("{}: {source}; it must be a directory of this gateway alone", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Another process uses the directory.
    #[error("{} is in use by another gateway; each gateway needs its own directory", .0.display())]
    InUse(PathBuf),
    /// The log cannot be read.
    #[error("{}: {source}", .path.display())]
    Read {
        /// The log.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The log cannot be written.
    #[error("{}: cannot rewrite the log: {source}", .path.display())]
    Write {
        /// The log.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file is not a log.
    #[error("{} is not a log of replies; move it away, or name another directory", .0.display())]
    Foreign(PathBuf),
    /// The log has the format of another version.
    #[error(
        "{} is a log of another version of this program. Start that version and stop it after all clients have ended; or \
         move the log away: clients that wait for an answer then get \"outcome unknown\"",
        .0.display()
    )]
    Version(PathBuf),
    /// The log is damaged at a place that was already on the disk.
    #[error(
        "{} is damaged at byte {offset}, and its records are lost. Move it away: clients that wait for an answer \
         then get \"outcome unknown\"; and check the disk",
        .path.display()
    )]
    Damaged {
        /// The log.
        path: PathBuf,
        /// Where the damage begins, in bytes from the start of the log.
        offset: usize,
    },
    /// The log belongs to the gateway of another directory.
    #[error(
        "{} belongs to the gateway of {}, not to that of {}; name another directory",
        .path.display(), .of.display(), .not.display()
    )]
    Other {
        /// The log.
        path: PathBuf,
        /// The directory that the log names.
        of: PathBuf,
        /// The directory that is to be served.
        not: PathBuf,
    },
}

/// The counters of a log since the start of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogCounters {
    /// Calls that were written to the log before they were executed.
    pub intents: u64,
    /// Times that the log was brought to the disk; one time may serve many calls.
    pub syncs: u64,
    /// Times that the log was rewritten with only the records that must be kept.
    pub rewrites: u64,
    /// Calls rejected because they could not be written to the log.
    pub refused: u64,
    /// Replies that could not be written to the log. After a restart, the files must show the outcome of these
    /// calls.
    pub replies_lost: u64,
    /// Calls of an earlier life whose reply was found in the log.
    pub replies_found: u64,
    /// Calls that were under way at the end of an earlier life and had been executed, as the files show.
    pub found_done: u64,
    /// Calls that were under way at the end of an earlier life and had not been executed, as the files show.
    pub found_undone: u64,
    /// Calls that were under way at the end of an earlier life and whose outcome is unknown. Their clients get
    /// "outcome unknown".
    pub unknown: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counting {
    pub(super) intents: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) rewrites: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) replies_lost: AtomicU64,
    pub(super) replies_found: AtomicU64,
    pub(super) found_done: AtomicU64,
    pub(super) found_undone: AtomicU64,
    pub(super) unknown: AtomicU64,
}

impl Counting {
    pub(super) fn snapshot(&self) -> LogCounters {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LogCounters {
            intents: value(&self.intents),
            syncs: value(&self.syncs),
            rewrites: value(&self.rewrites),
            refused: value(&self.refused),
            replies_lost: value(&self.replies_lost),
            replies_found: value(&self.replies_found),
            found_done: value(&self.found_done),
            found_undone: value(&self.found_undone),
            unknown: value(&self.unknown),
        }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
