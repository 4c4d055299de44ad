//! Sizes, limits and times of an engine.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::zbmi::io::JobId;
use crate::zbmi::pool::slot_len;

/// The unit of the unexpected pool in bytes; every slot is a multiple.
// [MEM-20]
pub const SLOT_UNIT: u64 = 64;

/// Inbound transfers of at most this many bytes need no bulk slot.
pub const BULK_MIN: u64 = 64 << 10;

/// The configuration of an engine. [`Config::default`] has the documented defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The size of the unexpected region in bytes (R5). The remainder of a division by [`SLOT_UNIT`] stays
    /// unused.
    pub unexpected_size: u64,
    /// The size of both regions in bytes (R4). The expected region begins at `unexpected_size`.
    pub total_size: u64,
    /// The longest unexpected message in bytes (R2).
    pub max_unexpected: u64,
    /// The longest expected message in bytes (R3).
    pub max_expected: u64,
    /// This daemon's epoch. A client that names another epoch cannot reattach.
    pub epoch: u64,
    /// The first server's session; later sessions count up. Not 0, and random, so that a session of an
    /// earlier daemon is recognised as stale.
    pub first_session: u64,
    /// How long a server's post is held for the call that follows a client's test (R57); zero disables it.
    pub hold: Duration,
    /// How long a transfer may make no progress before it fails (R57).
    pub stall: Duration,
    /// How long a client with a lost connection keeps its pid and the server's operations for it; zero disables it.
    pub reattach: Duration,
    /// How long draining waits for running transfers.
    pub drain: Duration,
    /// The most inbound transfers above [`BULK_MIN`] that run at once.
    pub bulk_slots: u32,
    /// The most bytes of the unexpected region that one client may hold; `None`: no limit.
    pub unexpected_share: Option<u64>,
    /// The number of unexpected slots reserved for each client; the design has 0.
    pub credits: u32,
    /// The number of grants per turn of a job, if not 1; 0 counts as 1.
    pub job_weights: BTreeMap<JobId, u32>,
    /// The limits of the tables.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            unexpected_size: 1 << 20,
            total_size: 512 << 20,
            max_unexpected: 8192,
            max_expected: 128 << 20,
            epoch: 1,
            first_session: 1,
            hold: Duration::from_millis(2),
            stall: Duration::from_secs(5),
            reattach: Duration::ZERO,
            drain: Duration::from_secs(10),
            bulk_slots: 2,
            unexpected_share: None,
            credits: 0,
            job_weights: BTreeMap::new(),
            limits: Limits::default(),
        }
    }
}

/// The most entries of each table, which limit the engine's memory against any client or server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Clients, including those that may reattach.
    pub clients: usize,
    /// Outstanding requests of one client. A client library has one per thread.
    pub requests_per_client: usize,
    /// Entries of all sleeping tests of one client, and of any one test.
    pub test_entries: usize,
    /// Operations of the server that it has not collected. For rejected posts without an answer, twice as
    /// many in addition.
    pub posts: usize,
    /// Segments of all operations together.
    pub segments: usize,
    /// Unanswered commands of the server. There are 64 reply slots.
    pub server_calls: usize,
    /// Operations named in one TEST.
    pub test_ids: usize,
}

// [BOUND-8]
impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 4096,
            requests_per_client: 256,
            test_entries: 65_536,
            posts: 65_536,
            segments: 1 << 20,
            server_calls: 64,
            test_ids: 65_536,
        }
    }
}

/// Why a configuration is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No space would be left for expected messages.
    #[error(
        "the unexpected region ({unexpected} bytes) must be smaller than both regions together ({total} bytes)"
    )]
    NoExpectedRegion {
        /// The size of the unexpected region in bytes.
        unexpected: u64,
        /// The size of both regions in bytes.
        total: u64,
    },
    /// The longest unexpected message would never find memory.
    #[error(
        "the largest unexpected message ({max} bytes) does not fit the unexpected region ({unexpected} bytes)"
    )]
    UnexpectedTooSmall {
        /// The longest unexpected message in bytes.
        max: u64,
        /// The size of the region in bytes.
        unexpected: u64,
    },
    /// A client could never send the longest unexpected message.
    #[error(
        "a client's share of the unexpected region ({share} bytes) is below the largest unexpected message ({max} bytes)"
    )]
    ShareTooSmall {
        /// The client's share in bytes.
        share: u64,
        /// The longest unexpected message in bytes.
        max: u64,
    },
    /// Session 0 means "no server".
    #[error("the first session must not be 0")]
    NoSession,
    /// No large message could ever be received.
    #[error("at least one bulk slot is needed")]
    NoBulkSlot,
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let (unexpected, total) = (self.unexpected_size, self.total_size);
        if unexpected >= total {
            return Err(ConfigError::NoExpectedRegion { unexpected, total });
        }
        let max = self.max_unexpected;
        let slot = slot_len(max).unwrap_or(u64::MAX);
        if slot > unexpected / SLOT_UNIT * SLOT_UNIT {
            return Err(ConfigError::UnexpectedTooSmall { max, unexpected });
        }
        if let Some(share) = self.unexpected_share.filter(|&share| share < slot) {
            return Err(ConfigError::ShareTooSmall { share, max });
        }
        if self.first_session == 0 {
            return Err(ConfigError::NoSession);
        }
        if self.bulk_slots == 0 {
            return Err(ConfigError::NoBulkSlot);
        }
        Ok(())
    }
}
