//! Process ids.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::nid::{Nid, ParseNidError};

/// A process on the network: a NID and a process id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// The node's NID, or [`Nid::ANY`] in a match entry.
    pub nid: Nid,
    /// The process id, or [`ProcessId::ANY_PID`] in a match entry.
    pub pid: u32,
}

impl ProcessId {
    /// The process id of every kernel node.
    // [TYPE-5]
    pub const LUSTRE_PID: u32 = 12345;
    /// Matches every process id.
    pub const ANY_PID: u32 = 0xFFFF_FFFF;
    /// The bit that marks the process id of a peer that dialled from an unprivileged port:
    /// [HELLO-19].
    pub const USER_FLAG: u32 = 0x8000_0000;
    /// Matches every process.
    pub const ANY: Self = Self {
        nid: Nid::ANY,
        pid: Self::ANY_PID,
    };

    /// The LNet process of a kernel node.
    #[must_use]
    pub const fn lustre(nid: Nid) -> Self {
        Self {
            nid,
            pid: Self::LUSTRE_PID,
        }
    }

    /// Returns true for a peer that can be reached only over connections that the peer itself
    /// dialled.
    #[must_use]
    pub const fn is_userspace(self) -> bool {
        self.pid & Self::USER_FLAG != 0 && self.pid != Self::ANY_PID
    }
}

impl fmt::Display for ProcessId {
    /// `12345-10.0.0.1@tcp`, as LNet logs print it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.nid)
    }
}

impl fmt::Debug for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not a process id.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseProcessIdError {
    /// There is no `-` between process id and NID.
    #[error("'{0}' has no '-': a process is PID-NID, such as 12345-10.0.0.1@tcp")]
    MissingDash(String),
    /// The process id is not a number.
    #[error("'{0}' is not a process id (0 to 4294967295)")]
    BadPid(String),
    /// The NID is wrong.
    #[error(transparent)]
    Nid(#[from] ParseNidError),
}

impl FromStr for ProcessId {
    type Err = ParseProcessIdError;

    /// Parses the form that is printed, `12345-10.0.0.1@tcp`.
    fn from_str(text: &str) -> Result<Self, ParseProcessIdError> {
        let (pid, nid) = text
            .split_once('-')
            .ok_or_else(|| ParseProcessIdError::MissingDash(text.to_owned()))?;
        Ok(Self {
            nid: nid.parse()?,
            pid: parse_pid(pid)?,
        })
    }
}

fn parse_pid(pid: &str) -> Result<u32, ParseProcessIdError> {
    let bad = || ParseProcessIdError::BadPid(pid.to_owned());
    // `u32::from_str` would accept a sign.
    if !pid.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    pid.parse().map_err(|_| bad())
}
