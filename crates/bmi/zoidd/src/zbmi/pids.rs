//! Assignment of pids to clients.
//!
//! A pid is given to another client only after the server has dropped the address, or after 2^20 other pids
//! were given out: an address that the server still holds must not silently name another client.

use std::collections::{BTreeMap, BTreeSet};

use crate::zbmi::io::{Peer, Pid};

/// The number of other pids given out before one that the server did not drop is reused.
// [DEATH-3]
const OTHERS_BEFORE_REUSE: u64 = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Pids {
    /// The first pid that was never given out.
    fresh: u32,
    /// The number of pids given out so far, including repetitions.
    given: u64,
    /// Pids that the server dropped; free for any client.
    dropped: BTreeSet<Pid>,
    /// Pids whose clients have left, by the value of `given` at that time.
    retired: BTreeSet<(u64, Pid)>,
    retired_at: BTreeMap<Pid, u64>,
}

impl Pids {
    /// Returns the id of a new client.
    pub(crate) fn take(&mut self) -> Peer {
        let pid = self
            .dropped
            .pop_first()
            .or_else(|| self.rested())
            .unwrap_or_else(|| {
                self.fresh += 1;
                Pid(self.fresh - 1)
            });
        self.given += 1;
        // Truncated: a generation is only compared for equality, and wraps after 2^32 clients.
        Peer {
            pid,
            generation: self.given as u32,
        }
    }

    /// Frees the pid of a client that will not come back.
    pub(crate) fn free(&mut self, pid: Pid) {
        self.retired.insert((self.given, pid));
        self.retired_at.insert(pid, self.given);
    }

    /// Records that the server dropped the address. Ignores a pid that is in use or was dropped before.
    pub(crate) fn drop_address(&mut self, pid: Pid) {
        if let Some(at) = self.retired_at.remove(&pid) {
            self.retired.remove(&(at, pid));
            self.dropped.insert(pid);
        }
    }

    fn rested(&mut self) -> Option<Pid> {
        let &(at, pid) = self.retired.first()?;
        if self.given - at < OTHERS_BEFORE_REUSE {
            return None;
        }
        self.retired.pop_first();
        self.retired_at.remove(&pid);
        Some(pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [DEATH-3]
    #[test]
    fn a_pid_that_was_not_dropped_rests_until_2_to_the_20_others_were_given_out() {
        let mut pids = Pids::default();
        let first = pids.take();
        pids.free(first.pid);
        for _ in 0..OTHERS_BEFORE_REUSE {
            let other = pids.take();
            assert_ne!(other.pid, first.pid);
        }
        let again = pids.take();
        assert_eq!(again.pid, first.pid);
        assert_ne!(again.generation, first.generation);
    }

    #[test]
    fn a_dropped_pid_is_given_out_again_with_another_generation() {
        let mut pids = Pids::default();
        let first = pids.take();
        pids.free(first.pid);
        pids.drop_address(first.pid);
        pids.drop_address(first.pid);
        let again = pids.take();
        assert_eq!(again.pid, first.pid);
        assert_ne!(again, first);
        assert_ne!(pids.take().pid, first.pid);
    }

    #[test]
    fn the_pid_of_an_attached_client_cannot_be_dropped() {
        let mut pids = Pids::default();
        let first = pids.take();
        pids.drop_address(first.pid);
        assert_ne!(pids.take().pid, first.pid);
    }
}
