//! The counters of a test node.

use serde::Serialize;

use crate::wire::RpcCounters;

/// The counters of a test node since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TestNodeCounters {
    /// RPCs that this node began.
    pub sent: u64,
    /// RPCs that this node began and that failed, for any reason.
    pub failed: u64,
    /// RPCs that this node began and that expired without an answer; also counted as failed.
    pub expired: u64,
    /// RPCs for this node whose request could be decoded.
    pub received: u64,
    /// Bytes that this node fetched as a server.
    pub bulk_get: u64,
    /// Bytes that this node sent as a server.
    pub bulk_put: u64,
    /// Bulk transfers, at either end, whose data was not good.
    pub bad_data: u64,
    /// Replies that could not be sent.
    pub replies_lost: u64,
    /// Sessions that ended because their console was silent for too long.
    pub sessions_expired: u64,
    /// Requests dropped.
    pub dropped: Drops,
}

/// Requests without a reply, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drops {
    /// The length is not 160 bytes.
    pub length: u64,
    /// The magic is wrong.
    pub magic: u64,
    /// The message type does not exist, or does not belong to the service.
    pub message_type: u64,
    /// A ping whose own magic word is wrong.
    pub ping_magic: u64,
    /// The operation on a batch does not exist.
    pub operation: u64,
    /// Bulk, or a list of destinations, did not arrive or could not be sent.
    pub bulk: u64,
    /// The peer has its share of the RPCs that this node serves at once.
    pub crowded: u64,
}

impl Drops {
    /// Returns the sum of all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        let Self {
            length,
            magic,
            message_type,
            ping_magic,
            operation,
            bulk,
            crowded,
        } = *self;
        length + magic + message_type + ping_magic + operation + bulk + crowded
    }
}

impl TestNodeCounters {
    /// Converts the counters to the form that consoles receive. Most fields there have 32 bits and wrap, as
    /// those of a kernel do.
    pub(super) fn on_the_wire(&self) -> RpcCounters {
        RpcCounters {
            errors: low(self.failed + self.replies_lost),
            sent: low(self.sent),
            received: low(self.received),
            dropped: low(self.dropped.total()),
            expired: low(self.expired),
            bulk_get: self.bulk_get,
            bulk_put: self.bulk_put,
        }
    }
}

/// Returns the low 32 bits.
pub(super) const fn low(count: u64) -> u32 {
    (count & 0xFFFF_FFFF) as u32
}
