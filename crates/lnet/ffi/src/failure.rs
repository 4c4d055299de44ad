//! Failures: the errno that a call returns, and the text that `flnet_error` returns.

#![expect(unsafe_code, reason = "exported names")]

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::fmt::Display;

use lnet_node::{NodeError, OperationError, PingError, WaitError};
use nix::errno::Errno;

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    errno: c_int,
    text: String,
}

impl Failure {
    pub(crate) fn new(errno: Errno, text: impl Display) -> Self {
        Self {
            errno: errno as c_int,
            text: text.to_string(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// A handle that names nothing, or not a thing of this kind.
    pub(crate) fn bad_handle(kind: &str) -> Self {
        Self::new(
            Errno::EBADF,
            format_args!("the handle names no {kind} of this process"),
        )
    }
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        let errno = match &error {
            NodeError::Portal(error) => error.errno().0,
            NodeError::NotWritable | NodeError::TooLong(_) => Errno::EINVAL as c_int,
            NodeError::ShutDown => Errno::ESHUTDOWN as c_int,
        };
        Self {
            errno,
            text: error.to_string(),
        }
    }
}

impl From<OperationError> for Failure {
    fn from(error: OperationError) -> Self {
        let errno = match error {
            OperationError::Node(error) => return error.into(),
            OperationError::TooLong(_) => Errno::EMSGSIZE as c_int,
            OperationError::NoPath { .. } => Errno::EHOSTUNREACH as c_int,
            OperationError::NoAnswer { .. } => Errno::ETIMEDOUT as c_int,
            OperationError::Short { .. } => Errno::EIO as c_int,
            OperationError::Failed { errno, .. } => errno.0,
        };
        Self {
            errno,
            text: error.to_string(),
        }
    }
}

impl From<PingError> for Failure {
    fn from(error: PingError) -> Self {
        let errno = match error {
            PingError::Node(error) => return error.into(),
            PingError::TimedOut { .. } | PingError::NotSent { .. } => Errno::ETIMEDOUT as c_int,
            PingError::NoPath { .. } => Errno::EHOSTUNREACH as c_int,
            PingError::Malformed { .. } | PingError::Invalid { .. } => Errno::EPROTO as c_int,
            PingError::DiscoveryOff => Errno::EINVAL as c_int,
            PingError::Failed { errno, .. } => errno.0,
        };
        Self {
            errno,
            text: error.to_string(),
        }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Returns the return value of a call, and keeps the text of a failure.
pub(crate) fn returned(result: Result<c_int, Failure>) -> c_int {
    result.unwrap_or_else(|failure| {
        keep_text(failure.text);
        -failure.errno.abs()
    })
}

/// The same for a wait: 0 if nothing came in time.
pub(crate) fn waited(result: Result<c_int, WaitError>) -> Result<c_int, Failure> {
    match result {
        Ok(count) => Ok(count),
        // No wait of this library asks for lost paths.
        Err(WaitError::TimedOut | WaitError::PathLost) => Ok(0),
        Err(WaitError::Closed) => Err(Failure::new(
            Errno::ESHUTDOWN,
            "the node has stopped, or another thread has closed this",
        )),
    }
}

/// Keeps a text for `flnet_error`.
pub(crate) fn keep_text(text: impl Into<String>) {
    // A zero byte would cut the text.
    let text = CString::new(text.into().replace('\0', " ")).unwrap_or_default();
    LAST.with(|last| last.replace(text));
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn flnet_error() -> *const c_char {
    // The string stays in the thread's slot until the next failure replaces it.
    LAST.with(|last| last.borrow().as_ptr())
}
