//! Readiness of a client's operations (R38), and wake-ups of its tests.
//!
//! With k posts of the server for a key, the first k operations of that key are flagged. Unexpected sends are
//! flagged as long as there is memory for them, one after the other, if nobody waits for memory. A flag
//! reserves nothing: the call that follows may still be answered "not now" (R41).

use std::collections::BTreeMap;

use crate::zbmi::Engine;
use crate::zbmi::client::{Key, Request};
use crate::zbmi::io::{Peer, PluginId, Reply, RequestId, TestEntry, TestKind};
use crate::zbmi::pool::Slot;

/// The most unexpected sends flagged in one reply. A client with more asks again. Without a limit, an entry
/// for 2^32 sends would cost as many trials.
const FLAGGED_UNEXPECTED_MAX: usize = 1024;

impl Engine {
    /// Returns the number of ready operations of each entry.
    // [ZOID-23]
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

    // [ZOID-24]
    fn try_memory(&mut self, peer: Peer, size: u64, multiplicity: u32, trial: &mut Trial) -> u32 {
        if size > self.config.max_unexpected {
            // Ready, because the call will be rejected.
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

    /// Answers the client's sleeping tests that ask about a waiting post. Returns whether there were any.
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

    /// Answers the sleeping tests that ask about unexpected sends, after memory was freed.
    pub(crate) fn flag_memory_tests(&mut self) {
        let testers: Vec<(Peer, RequestId)> = self.memory.testers.iter().copied().collect();
        for (peer, request) in testers {
            self.flag_test(peer, request);
        }
    }

    /// Answers a sleeping test if anything is ready. Returns whether it did.
    // [ZOID-25]
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

/// Memory allocated to see how much fits, and freed at the end.
struct Trial {
    slots: Vec<Slot>,
    over: bool,
}
