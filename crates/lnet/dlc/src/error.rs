//! Errors of requests.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lnet_policy::{BlockError, PolicyError};
use thiserror::Error;

use crate::protocol::{Failure, FrameError};

/// Why a request failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DlcError {
    /// No node can be reached at the path, or this user may not open the socket.
    #[error("{}", connect_text(path, error))]
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The node does not serve this connection.
    #[error("the node at {path} does not serve this connection: {why}")]
    NotServed {
        /// The socket's path.
        path: PathBuf,
        /// The node's negative errno.
        errno: i32,
        /// The node's reason.
        why: String,
    },
    /// The node did not answer within the timeout.
    #[error(
        "the node at {path}{process} has not answered for {seconds} s: the node or its machine is stopped or overloaded; \
         a longer timeout waits for it",
        path = path.display(),
        process = of_process(*process),
        seconds = after.as_secs_f64()
    )]
    Silent {
        /// The socket's path.
        path: PathBuf,
        /// The process that listens on the socket, if known.
        process: Option<u32>,
        /// The timeout.
        after: Duration,
    },
    /// The connection to the node broke.
    #[error("the node's control connection broke: {0}")]
    Io(#[from] io::Error),
    /// The answer has another protocol.
    #[error("the program that answers is not a control endpoint: {0}")]
    Frame(#[from] FrameError),
    /// The request is longer than a frame can be.
    #[error("the request cannot be sent: {0}")]
    Request(FrameError),
    /// The answer does not fit the request.
    #[error("the node's answer cannot be understood: {0}")]
    Answer(String),
    /// The node rejected the request.
    #[error("{}", failures_text(.0))]
    Rejected(Vec<Failure>),
    /// An argument is wrong.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The rules do not fit a block.
    #[error(transparent)]
    Block(#[from] BlockError),
}

const EIO: i32 = 5;
const E2BIG: i32 = 7;
const ESTALE: i32 = 116;
const EPROTO: i32 = 71;
const ETIMEDOUT: i32 = 110;
const EINVAL: i32 = 22;

impl DlcError {
    /// Returns true if the rules have changed since they were read. Read the rules and try the
    /// change again.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Rejected(failures) if failures.iter().any(|one| one.errno == -ESTALE))
    }

    /// The negative errno that the C functions return.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Connect { error, .. } | Self::Io(error) => -error.raw_os_error().unwrap_or(EIO),
            Self::NotServed { errno, .. } => *errno,
            Self::Silent { .. } => -ETIMEDOUT,
            Self::Frame(_) | Self::Answer(_) => -EPROTO,
            Self::Request(_) => -E2BIG,
            Self::Rejected(failures) => {
                let first = failures.first().map_or(EINVAL, |failure| failure.errno);
                // Kernels print some errnos as positive numbers; a return value is negative.
                -first.saturating_abs()
            }
            Self::Policy(error) => error.errno(),
            Self::Block(error) => error.errno(),
        }
    }
}

fn connect_text(path: &Path, error: &io::Error) -> String {
    let is_socket = fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    let path = path.display();
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!(
                "this user may not control the node at {path}, or may not search its directory: {error}"
            )
        }
        io::ErrorKind::ConnectionRefused if !is_socket => {
            format!("no node is controlled at {path}, which is not a socket: {error}")
        }
        _ => format!(
            "no node is controlled at {path}: {error}; start one with `finerail node --config /etc/lnet.conf`, or name \
             the socket of another one"
        ),
    }
}

fn of_process(process: Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" (process {process})"))
}

fn failures_text(failures: &[Failure]) -> String {
    let texts = failures.iter().map(|failure| failure.descr.as_str());
    texts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_a_user_may_not_open_is_not_taken_for_a_missing_node() {
        let text = |kind: io::ErrorKind| {
            let path = PathBuf::from("/run/a.sock");
            let error = kind.into();
            DlcError::Connect { path, error }.to_string()
        };
        let denied = text(io::ErrorKind::PermissionDenied);
        assert!(
            denied.starts_with("this user may not control the node at /run/a.sock"),
            "{denied}"
        );
        let missing = text(io::ErrorKind::NotFound);
        assert!(
            missing.starts_with("no node is controlled at /run/a.sock:"),
            "{missing}"
        );
        let no_socket = text(io::ErrorKind::ConnectionRefused);
        assert!(no_socket.contains("which is not a socket"), "{no_socket}");
    }
}
