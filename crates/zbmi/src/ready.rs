//! Which operations of a client are ready (R38), and waking the tests that asked.
//!
//! Of one key with k posts of the server, the first k operations are flagged. Of unexpected sends, as
//! many as their memory would be free for, one after the other, if nobody waits for it already. A
//! flag reserves nothing: the call that follows may still be told "not now" (R41).

use std::collections::BTreeMap;

use crate::Engine;
use crate::client::{Key, Request};
use crate::io::{Peer, PluginId, Reply, RequestId, TestEntry, TestKind};
use crate::pool::Slot;

/// Unexpected sends flagged in one reply. Whoever has more pending asks again; without a limit an
/// entry for 2^32 of them would cost as many trials.
const FLAGGED_UNEXPECTED_MAX: usize = 1024;

impl Engine {
    /// How many operations of each entry are ready.
    pub(crate) fn readiness(&mut self, peer: Peer, entries: &[TestEntry]) -> Vec<u32> {
        if self.is_stopping() {
            return vec![0; entries.len()];
        }
        let mut left: BTreeMap<Key, usize> = BTreeMap::new();
        let mut trial = Trial {
            slots: Vec::new(),
            over: false,
        };
        let mut ready = Vec::with_capacity(entries.len());
        for entry in entries {
            ready.push(match entry.kind {
                TestKind::Expected(direction, tag) => {
                    let key = Key { direction, tag };
                    let left = left.entry(key).or_insert_with(|| {
                        self.client(peer).map_or(0, |client| client.posts_of(key))
                    });
                    let count = (entry.multiplicity as usize).min(*left);
                    *left -= count;
                    // At most the multiplicity, which is a u32.
                    count as u32
                }
                TestKind::Unexpected { size } => {
                    self.try_memory(peer, size, entry.multiplicity, &mut trial)
                }
            });
        }
        for slot in trial.slots {
            self.pool.release(slot);
            if let Some(client) = self.client_mut(peer) {
                client.pool_bytes -= slot.len;
            }
        }
        ready
    }

    fn try_memory(&mut self, peer: Peer, size: u64, multiplicity: u32, trial: &mut Trial) -> u32 {
        if size > self.config.max_unexpected {
            // Ready to be refused.
            return multiplicity;
        }
        let high_water = self.counters.pool_high_water;
        let mut count = 0;
        while count < multiplicity && !trial.over {
            match self.allocate_in_turn(peer, size) {
                Some(slot) => {
                    trial.slots.push(slot);
                    count += 1;
                    trial.over = trial.slots.len() == FLAGGED_UNEXPECTED_MAX;
                }
                None => trial.over = true,
            }
        }
        self.counters.pool_high_water = high_water;
        count
    }

    /// A post waits: the client's tests that ask about it are told. Whether there were any.
    pub(crate) fn flag_tests_of(&mut self, plugin: PluginId) -> bool {
        let Some((peer, key)) = self.posts.get(&plugin).map(|post| (post.peer, post.key)) else {
            return false;
        };
        let kind = TestKind::Expected(key.direction, key.tag);
        let asks = |entry: &TestEntry| entry.kind == kind && entry.multiplicity > 0;
        let Some(client) = self.client(peer) else {
            return false;
        };
        let asking = client.sleeping.iter().copied().filter(|request| {
            let test = client.requests.get(request);
            matches!(test, Some(Request::Test { entries, .. }) if entries.iter().any(asks))
        });
        let asking: Vec<RequestId> = asking.collect();
        let told = asking
            .into_iter()
            .filter(|&request| self.flag_test(peer, request));
        told.count() > 0
    }

    /// Memory is free: the tests that ask about unexpected sends are told.
    pub(crate) fn flag_memory_tests(&mut self) {
        let testers: Vec<(Peer, RequestId)> = self.memory.testers.iter().copied().collect();
        for (peer, request) in testers {
            self.flag_test(peer, request);
        }
    }

    /// Answers a sleeping test if anything is ready.
    fn flag_test(&mut self, peer: Peer, request: RequestId) -> bool {
        let test = self
            .client(peer)
            .and_then(|client| client.requests.get(&request));
        let Some(Request::Test { entries, .. }) = test else {
            return false;
        };
        let entries = entries.clone();
        let ready = self.readiness(peer, &entries);
        if ready.iter().all(|&count| count == 0) {
            return false;
        }
        self.take_waiting(peer, request);
        self.reply(peer, request, Reply::Ready(ready));
        true
    }
}

/// Memory taken to see how much fits, and given back at the end.
struct Trial {
    slots: Vec<Slot>,
    over: bool,
}
