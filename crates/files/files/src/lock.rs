//! Locks on parts of files: the parts of requests and replies.

use std::time::Duration;

/// How long a waiting lock keeps its place if the client does not repeat its request.
pub const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// How long a server that was restarted grants only locks that clients had before. Clients with locks send
/// [`Request::KeepLocks`](crate::Request::KeepLocks) several times within this time.
pub const LOCK_GRACE: Duration = Duration::from_secs(30);

/// A lock on bytes of a file, or the bytes to unlock. A lock by `flock` is a lock on all bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    /// The owner among those of the client. Locks of one owner never conflict: a later lock replaces earlier ones.
    pub owner: u64,
    /// The process that asked, as a number of the client's machine. Serves only to tell users who has a lock.
    pub process: u32,
    /// Whether the lock excludes all others. Otherwise the lock excludes exclusive locks only.
    pub is_exclusive: bool,
    /// The first byte.
    pub first: u64,
    /// The last byte, not below `first`.
    pub last: u64,
}

/// What [`Request::Lock`](crate::Request::Lock) does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockAction {
    /// Locks, if no other lock conflicts.
    Try,
    /// Locks, or begins to wait. The client repeats the request with the same sequence number. The request waits in
    /// its place as long as it is repeated within [`LOCK_PATIENCE`].
    Wait,
    /// Locks what the client had locked before the server forgot the client's locks.
    Reclaim,
    /// Unlocks. The bytes need not be locked.
    Release,
    /// Says whether another lock conflicts.
    Test,
}

/// The result of [`Request::Lock`](crate::Request::Lock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// The bytes are locked or unlocked, or no other lock conflicts.
    Done,
    /// This lock conflicts. The second value says whether the same client has the lock.
    Blocked(Lock, bool),
    /// The server was restarted: clients lock again what they had locked before. Repeat the request later.
    Later,
}

impl Lock {
    /// Returns whether the two locks have a byte in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Returns whether two owners cannot have both locks at a time.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        self.overlaps(other) && (self.is_exclusive || other.is_exclusive)
    }
}
