//! Which pid a client gets (section 3.4, "pid reuse").
//!
//! A pid goes to another client only after the server dropped the address, or after 2^20 others were
//! given out: an address that a server still holds must not silently mean somebody else.

use std::collections::{BTreeMap, BTreeSet};

use crate::io::{Peer, Pid};

/// So many other pids are given out before one that the server did not drop comes again.
const OTHERS_BEFORE_REUSE: u64 = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Pids {
    /// Never given out yet, from here on.
    fresh: u32,
    /// Pids given out so far, repetitions counted.
    given: u64,
    /// Dropped by the server: anybody's.
    dropped: BTreeSet<Pid>,
    /// Left by their clients, by the value of `given` at that time.
    retired: BTreeSet<(u64, Pid)>,
    retired_at: BTreeMap<Pid, u64>,
}

impl Pids {
    /// A name for a new client.
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
        // Truncation: a generation is compared for equality only, and wraps after 2^32 clients.
        Peer {
            pid,
            generation: self.given as u32,
        }
    }

    /// The client that had it is gone for good.
    pub(crate) fn retire(&mut self, pid: Pid) {
        self.retired.insert((self.given, pid));
        self.retired_at.insert(pid, self.given);
    }

    /// The server dropped the address. Of a pid that is in use, or was dropped before, this says nothing.
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

    #[test]
    fn a_pid_that_was_not_dropped_rests_until_2_to_the_20_others_were_given_out() {
        let mut pids = Pids::default();
        let first = pids.take();
        pids.retire(first.pid);
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
        pids.retire(first.pid);
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
