//! Errors of the daemon.

use std::io;
use std::path::PathBuf;

use nix::errno::Errno;
use zoid_proto::Instance;

use crate::options::SettingError;

/// Why a daemon cannot start or cannot continue. Each text says what would help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The engine rejects its configuration.
    #[error("the settings contradict each other: {0}")]
    Engine(#[from] crate::zbmi::ConfigError),
    /// A daemon of this instance is running.
    #[error(
        "a daemon of instance {instance} holds {path}: stop it, or choose another name with --instance"
    )]
    AlreadyRunning {
        /// The instance.
        instance: Instance,
        /// Its lock.
        path: PathBuf,
    },
    /// The directory for lock and journal belongs to another user or is writable for others.
    #[error("{path}: {problem}: choose another directory with --directory")]
    UnsafeDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: io::Error,
    },
    /// An operation on a file or socket failed.
    #[error("cannot {what} {path}: {cause}")]
    File {
        /// The operation.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The control queue could not be created.
    #[error("cannot create the message queue {name}: {cause}{}", shown(.advice))]
    Queue {
        /// Its name.
        name: String,
        /// The system's error.
        cause: io::Error,
        /// The limit to raise.
        advice: Option<String>,
    },
    /// The segment could not be created.
    #[error(
        "cannot provide {bytes} bytes of shared memory as {name}: {cause}; {}",
        segment_advice(cause)
    )]
    Segment {
        /// Its name.
        name: String,
        /// Its size in bytes.
        bytes: u64,
        /// The system's error.
        cause: io::Error,
    },
    /// Another process truncated the segment while it was in use.
    #[error("another process truncated the segment {name} from {expected} to {found} bytes")]
    SegmentCut {
        /// Its name.
        name: String,
        /// Its former size in bytes.
        expected: u64,
        /// Its present size in bytes.
        found: u64,
    },
    /// The address for clients over TCP cannot be used.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// The system's error.
        cause: io::Error,
    },
    /// A system call failed that does not fail on a healthy machine.
    #[error("{what}: {cause}")]
    System {
        /// The call.
        what: &'static str,
        /// The system's error.
        cause: io::Error,
    },
}

impl Error {
    /// Converts errors of file operations, for `map_err`.
    pub(crate) fn file<'a>(
        what: &'static str,
        path: &'a std::path::Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        let path = path.to_path_buf();
        move |cause| Self::File { what, path, cause }
    }

    /// Converts errors of system calls that do not fail on a healthy machine, for `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::System { what, cause }
    }
}

fn shown(advice: &Option<String>) -> String {
    advice
        .as_ref()
        .map_or_else(String::new, |text| format!(" ({text})"))
}

/// Returns advice about a segment that could not be created.
fn segment_advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        // A leftover of this user would have been removed.
        io::ErrorKind::AlreadyExists => {
            "another user's daemon has this name: choose another one with --instance"
        }
        _ => match cause.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EMFILE | Errno::ENFILE) => "see `ulimit -n`",
            _ => "see `df -h /dev/shm`, or choose a smaller --total",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_about_a_segment_fits_its_cause() {
        let advice = |number| {
            let (name, bytes) = ("/zbmi.a".to_owned(), 4096);
            let cause = io::Error::from(number);
            Error::Segment { name, bytes, cause }.to_string()
        };
        assert!(advice(Errno::EMFILE).ends_with("see `ulimit -n`"));
        assert!(advice(Errno::EEXIST).ends_with("choose another one with --instance"));
        assert!(advice(Errno::ENOSPC).ends_with("choose a smaller --total"));
    }
}
