//! Why a daemon cannot start, or cannot go on.

use std::io;
use std::path::PathBuf;

use nix::errno::Errno;
use zoid_proto::Instance;

use crate::options::SettingError;

/// Why a daemon cannot start, or cannot go on. Each says what would help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The engine refuses its configuration.
    #[error("the settings do not fit together: {0}")]
    Engine(#[from] zbmi::ConfigError),
    /// A daemon of this instance runs.
    #[error(
        "a daemon of instance {instance} holds {path}: stop it, or choose another name with --instance"
    )]
    AlreadyRunning {
        /// The instance.
        instance: Instance,
        /// Its lock.
        path: PathBuf,
    },
    /// The directory for lock and journal belongs to somebody else or is open to others.
    #[error("{path} {problem}: choose another directory with --directory")]
    UnsafeDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A file or socket.
    #[error("cannot {what} {path}: {cause}")]
    File {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The control queue.
    #[error("cannot create the message queue {name}: {cause}{}", shown(.advice))]
    Queue {
        /// Its name.
        name: String,
        /// What the system said.
        cause: io::Error,
        /// Which limit to raise.
        advice: Option<String>,
    },
    /// The segment.
    #[error(
        "cannot provide {bytes} bytes of shared memory as {name}: {cause}; {}",
        segment_advice(cause)
    )]
    Segment {
        /// Its name.
        name: String,
        /// Its size.
        bytes: u64,
        /// What the system said.
        cause: io::Error,
    },
    /// Somebody shrank the segment while it was in use.
    #[error("the segment {name} was cut from {expected} to {found} bytes by another process")]
    SegmentCut {
        /// Its name.
        name: String,
        /// Bytes that it had.
        expected: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// The address for clients over TCP.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        cause: io::Error,
    },
    /// A system call that does not fail on a healthy machine.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        cause: io::Error,
    },
}

impl Error {
    /// For `map_err` on file operations.
    pub(crate) fn file<'a>(
        what: &'static str,
        path: &'a std::path::Path,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        let path = path.to_path_buf();
        move |cause| Self::File { what, path, cause }
    }

    /// For `map_err` on system calls that do not fail on a healthy machine.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::System { what, cause }
    }
}

fn shown(advice: &Option<String>) -> String {
    advice
        .as_ref()
        .map_or_else(String::new, |text| format!(" ({text})"))
}

/// What to do about a segment that cannot be had.
fn segment_advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        // What this user left would have been removed.
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
