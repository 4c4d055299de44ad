//! Exceptions: `Error`, and `NoAnswer` for what did not come in time.

use std::fmt::Display;

use lnet_node::{NodeError, OperationError, PingError, PortalError, WaitError};
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(
    finerail,
    Error,
    PyException,
    "What was asked cannot be done; the text says what to do."
);
pyo3::create_exception!(
    finerail,
    NoAnswer,
    Error,
    "The other side did not answer in time, or cannot be reached."
);

/// An argument that cannot be used.
pub(crate) fn invalid(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Anything else that went wrong.
pub(crate) fn failed(error: impl Display) -> PyErr {
    Error::new_err(error.to_string())
}

pub(crate) fn of_node(error: NodeError) -> PyErr {
    match error {
        NodeError::Portal(PortalError::InvalidPortal(_)) => invalid(error),
        _ => failed(error),
    }
}

pub(crate) fn of_operation(error: OperationError) -> PyErr {
    match &error {
        OperationError::Node(node) => of_node(node.clone()),
        OperationError::TooLong(_) => invalid(error),
        OperationError::NoAnswer { .. }
        | OperationError::NoPath { .. }
        | OperationError::Failed { .. } => NoAnswer::new_err(error.to_string()),
        _ => failed(error),
    }
}

pub(crate) fn of_ping(error: PingError) -> PyErr {
    match &error {
        PingError::Node(_)
        | PingError::DiscoveryOff
        | PingError::Malformed { .. }
        | PingError::Invalid { .. } => failed(error),
        _ => NoAnswer::new_err(error.to_string()),
    }
}

pub(crate) fn of_wait(error: WaitError) -> PyErr {
    failed(error)
}
