//! The failure of an operation on one object.

use std::fmt;

use crate::{Errno, OUTCOME_UNKNOWN};

/// The failure of an operation on one object. Its text is one line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The operation: a verb, such as `read`.
    pub verb: &'static str,
    /// The object, as text for people.
    pub object: String,
    /// Why the operation failed.
    pub why: Why,
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The file system returned this error.
    Errno(Errno),
    /// The file was changed while it was read.
    Changed,
    /// The bytes read back are not the bytes written.
    Differs,
    /// The object is a directory, and the operation is not recursive.
    IsDirectory,
    /// The server listed so many invalid names, which were skipped: a name is empty, too long, or contains a slash or a
    /// NUL byte.
    BadNames(usize),
    /// The server's listing does not end.
    BadListing,
}

impl Failure {
    /// Returns the file system's error, if this is the reason.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self.why {
            Why::Errno(errno) => Some(errno),
            _ => None,
        }
    }

    /// Returns whether the server does not answer, so that further operations are useless.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.errno().is_some_and(is_fatal)
    }

    /// Returns whether the work on this object must be restarted, because the server restarted or forgot the object.
    pub(crate) fn is_stale(&self) -> bool {
        self.errno() == Some(Errno::ESTALE)
    }
}

/// Returns whether an error means that the server does not answer.
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
                "outcome unknown: the server failed during the operation; check whether it was executed",
            ),
            Self::Errno(Errno::ETIMEDOUT) => {
                f.write_str("the server did not answer in time (ETIMEDOUT)")
            }
            Self::Errno(errno) => write!(f, "{} ({errno:?})", errno.desc()),
            Self::Changed => f.write_str("the file changed while it was being read"),
            Self::Differs => f.write_str("the data read back differs from the data written"),
            Self::IsDirectory => f.write_str("a directory; -r includes it with everything below it"),
            Self::BadNames(count) => write!(f, "the server listed {count} invalid names, which are skipped"),
            Self::BadListing => f.write_str("the server's listing does not end"),
        }
    }
}
