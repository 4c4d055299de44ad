//! Errors of a console: why it rejects a command, and what nodes answered.

use thiserror::Error;

use crate::driver::CallError;

/// Why a console rejected a command, or why a node did not do it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConsoleError {
    /// There is no session.
    #[error("there is no session; begin one with new_session")]
    NoSession,
    /// The console already has a session.
    #[error("session {0} exists; end it with end_session, or replace it with --force")]
    HasSession(String),
    /// A name that a message cannot carry.
    #[error("'{0}' is not a name: write 1 to 31 bytes without control characters")]
    BadName(String),
    /// An object of this kind already has this name.
    #[error("{0} {1} exists")]
    Exists(&'static str, String),
    /// No object of this kind has this name.
    #[error("there is no {0} {1}")]
    NotFound(&'static str, String),
    /// The group would have no nodes.
    #[error("group {0} would have no nodes")]
    NoNodes(String),
    /// A limit is reached: what is limited, and the limit.
    #[error("more than {1} {0}")]
    TooMany(&'static str, usize),
    /// A test uses the group.
    #[error("group {0} is used by a test")]
    GroupInUse(String),
    /// The batch runs, and cannot be changed now.
    #[error("batch {0} is running; stop it first")]
    Running(String),
    /// The batch has no tests.
    #[error("batch {0} has no tests")]
    NoTests(String),
    /// A parameter of a test is not valid.
    #[error("{0}")]
    BadParameter(String),
    /// A destination has a large NID, and the list that clients fetch has no room for it.
    #[error("{0} has a large NID, which a test cannot name as its destination; use a flow file")]
    LargeDestination(String),
    /// A client of a test would have too many destinations.
    #[error("a client would have {0} destinations; the limit is 341")]
    TooManyDestinations(usize),
    /// The node rejected the request, with this errno.
    #[error("{}", refusal(*.0))]
    Refused(u32),
    /// The request got no reply.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl ConsoleError {
    /// Returns the errno that stands for this error.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::NoSession => 3,
            Self::NotFound(..) => 2,
            Self::HasSession(_) | Self::Exists(..) => 17,
            Self::GroupInUse(_) | Self::Running(_) => 16,
            Self::Refused(errno) => i32::try_from(*errno).unwrap_or(i32::MAX),
            Self::Call(error) => error.errno().0,
            Self::TooMany(..) => 12,
            Self::BadName(_)
            | Self::NoNodes(_)
            | Self::NoTests(_)
            | Self::BadParameter(_)
            | Self::LargeDestination(_)
            | Self::TooManyDestinations(_) => 22,
        }
    }
}

/// Returns the meaning of an errno in a reply.
fn refusal(errno: u32) -> String {
    let meaning = match errno {
        2 => "no such batch, test or service on the node",
        3 => "the node has no such session",
        12 => "the node has no memory for it",
        16 => "the node is busy: another session, or a batch that runs",
        22 => "the node rejects it as invalid",
        71 => "the node does not know these features of selftest",
        74 => "the data was damaged",
        _ => return format!("rejected with errno {errno}"),
    };
    format!("{meaning} (errno {errno})")
}
