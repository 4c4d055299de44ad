//! What a console refuses, and what nodes answer.

use thiserror::Error;

use crate::driver::CallError;

/// Why a console did not do something, or why a node did not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConsoleError {
    /// There is no session.
    #[error("there is no session; begin one with new_session")]
    NoSession,
    /// There is one already.
    #[error("session {0} exists; end it with end_session, or replace it with --force")]
    HasSession(String),
    /// A name that cannot be carried.
    #[error("'{0}' is no name: 1 to 31 bytes without control characters")]
    BadName(String),
    /// Something of this name exists.
    #[error("{0} {1} exists")]
    Exists(&'static str, String),
    /// Nothing of this name exists.
    #[error("there is no {0} {1}")]
    NotFound(&'static str, String),
    /// A group without nodes.
    #[error("group {0} would have no nodes")]
    NoNodes(String),
    /// A limit.
    #[error("more than {1} {0}")]
    TooMany(&'static str, usize),
    /// A test needs the group.
    #[error("group {0} is used by a test")]
    GroupInUse(String),
    /// A batch that runs cannot be changed.
    #[error("batch {0} is running; stop it first")]
    Running(String),
    /// A batch without tests.
    #[error("batch {0} has no tests")]
    NoTests(String),
    /// A parameter of a test.
    #[error("{0}")]
    BadParameter(String),
    /// A destination whose NID has no place in the list that clients fetch.
    #[error("{0} has a large NID, which a test cannot name as its destination; use a flow file")]
    LargeDestination(String),
    /// A client of a test would have too many destinations.
    #[error("a client would have {0} destinations; the most is 341")]
    TooManyDestinations(usize),
    /// The node said no.
    #[error("{}", refusal(*.0))]
    Refused(u32),
    /// The node said nothing.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl ConsoleError {
    /// The errno that stands for it.
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

/// What the errno of a reply means here (section 11.7).
fn refusal(errno: u32) -> String {
    let meaning = match errno {
        2 => "no such batch, test or service there",
        3 => "the node has no such session",
        12 => "the node has no memory for it",
        16 => "the node is busy: another session, or a batch that runs",
        22 => "the node takes it for invalid",
        71 => "the node does not know these features of selftest",
        74 => "the data was damaged",
        _ => return format!("refused with errno {errno}"),
    };
    format!("{meaning} (errno {errno})")
}
