//! What a test node counts.

use serde::Serialize;

use crate::wire::RpcCounters;

/// What a test node has counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TestNodeCounters {
    /// RPCs of this node.
    pub sent: u64,
    /// RPCs of this node that failed, for whatever reason.
    pub failed: u64,
    /// Those among them that were not answered in time.
    pub expired: u64,
    /// RPCs for this node that could be decoded.
    pub received: u64,
    /// Bytes fetched for others.
    pub bulk_get: u64,
    /// Bytes sent for others.
    pub bulk_put: u64,
    /// Bulk that arrived, at either end, and was not what it should have been.
    pub bad_data: u64,
    /// Replies that could not be sent.
    pub replies_lost: u64,
    /// Sessions that ended because their console was silent.
    pub sessions_expired: u64,
    /// Requests dropped.
    pub dropped: Drops,
}

/// Requests that got no reply, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drops {
    /// Not 160 bytes.
    pub length: u64,
    /// Another magic.
    pub magic: u64,
    /// A message type that does not exist, or is not one of this service.
    pub message_type: u64,
    /// A ping with another magic of its own.
    pub ping_magic: u64,
    /// An operation on a batch that does not exist.
    pub operation: u64,
    /// Bulk, or a list of destinations, that did not come or could not be sent.
    pub bulk: u64,
}

impl Drops {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        let Self {
            length,
            magic,
            message_type,
            ping_magic,
            operation,
            bulk,
        } = *self;
        length + magic + message_type + ping_magic + operation + bulk
    }
}

impl TestNodeCounters {
    /// As they are told to consoles, which have 32 bits for most: those wrap, as a kernel's do.
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

/// The low half.
pub(super) const fn low(count: u64) -> u32 {
    (count & 0xFFFF_FFFF) as u32
}
