//! The counters of the daemon besides the engine's.

use crate::client::{Obstacle, Violation};

/// The counters since the daemon's start. They only increase.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct DaemonCounters {
    /// Connections accepted, with both carriers.
    pub(crate) connections: u64,
    /// Connections rejected: another user, or too many at once.
    pub(crate) connections_refused: u64,
    /// Frames from clients.
    pub(crate) frames_in: u64,
    /// Bytes from clients, payload included.
    pub(crate) bytes_in: u64,
    /// Bytes to clients, payload included.
    pub(crate) bytes_out: u64,
    /// Clients that attached again, to this daemon or after an earlier one.
    pub(crate) reconnections: u64,
    /// Clients lost because they were silent.
    pub(crate) silent: u64,
    /// Times in which this process did not run for a heartbeat or longer.
    pub(crate) standstills: u64,
    /// Clients whose connections broke during these times.
    pub(crate) standstill_losses: u64,
    /// Commands from the server.
    pub(crate) commands: u64,
    /// Commands that were invalid or could not be answered.
    pub(crate) bad_commands: u64,
    /// Replies that waited for room in their queue.
    pub(crate) replies_delayed: u64,
    /// Advice given to clients that test too often without result.
    pub(crate) advice: u64,
    /// Messages copied directly from and to clients' memory.
    pub(crate) copies: u64,
    /// Their bytes.
    pub(crate) copied_bytes: u64,
    /// Copies that failed because the client does not have the memory that it named.
    pub(crate) faults: u64,
    obstacles: [u64; Obstacle::ALL.len()],
    violations: [u64; Violation::ALL.len()],
}

impl DaemonCounters {
    /// Returns the number of connections closed because of this violation.
    #[must_use]
    pub(crate) fn violations(&self, violation: Violation) -> u64 {
        self.violations[violation as usize]
    }

    /// Returns the number of messages or clients that used the stream for this reason.
    #[must_use]
    pub(crate) fn obstacles(&self, obstacle: Obstacle) -> u64 {
        self.obstacles[obstacle as usize]
    }

    /// Counts an obstacle. Returns whether it is the first of its kind.
    pub(crate) fn count_obstacle(&mut self, obstacle: Obstacle) -> bool {
        let count = &mut self.obstacles[obstacle as usize];
        *count += 1;
        *count == 1
    }

    pub(crate) fn violate(&mut self, violation: Violation) {
        self.violations[violation as usize] += 1;
    }
}
