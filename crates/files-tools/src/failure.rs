//! What was wrong with one object.

use std::fmt;

use files::{Errno, OUTCOME_UNKNOWN};

/// What was wrong with one object. Its text is one line, fit to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was to be done: a verb, such as `read`.
    pub verb: &'static str,
    /// The object, as it may be shown.
    pub object: String,
    /// Why it was not done.
    pub why: Why,
}

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The file system's error.
    Errno(Errno),
    /// The file was written to while it was read.
    Changed,
    /// What was read back is not what was written.
    Differs,
    /// A directory, which is taken with everything below it only where that is asked for.
    IsDirectory,
    /// The server listed a name that is none: it is empty, too long, or holds a slash or a NUL byte.
    BadName,
    /// The server's listing does not come to an end.
    BadListing,
}

impl Failure {
    /// The file system's error, where that is the reason.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self.why {
            Why::Errno(errno) => Some(errno),
            _ => None,
        }
    }

    /// Whether nothing more can be expected of the server.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.errno().is_some_and(is_fatal)
    }

    /// Whether the work on this object must begin again: the server restarted, or forgot the object.
    pub(crate) fn is_stale(&self) -> bool {
        self.errno() == Some(Errno::ESTALE)
    }
}

/// Whether an error says that the server does not answer.
pub(crate) fn is_fatal(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ETIMEDOUT
            | Errno::ESHUTDOWN
            | Errno::ENOTCONN
            | Errno::ECONNRESET
            | Errno::ECONNREFUSED
            | Errno::EHOSTUNREACH
            | Errno::ENETUNREACH
    )
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.verb, self.object, self.why)
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errno(OUTCOME_UNKNOWN) => f.write_str(
                "outcome unknown: the server went away in the middle; look whether it was done",
            ),
            Self::Errno(Errno::ETIMEDOUT) => {
                f.write_str("the server did not answer in time (ETIMEDOUT)")
            }
            Self::Errno(errno) => write!(f, "{} ({errno:?})", errno.desc()),
            Self::Changed => f.write_str("the file changed while it was being read"),
            Self::Differs => f.write_str("what was read back differs from what was written"),
            Self::IsDirectory => f.write_str("a directory; -r takes it with everything below it"),
            Self::BadName => f.write_str("the server listed a name that no file can have"),
            Self::BadListing => f.write_str("the server's listing does not come to an end"),
        }
    }
}
