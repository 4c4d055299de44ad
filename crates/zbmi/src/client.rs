//! What the engine keeps of one client: its outstanding calls, and the server's operations for it.
//! Of operations that the client posted and that did not find a counterpart it keeps nothing (R21).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::counters::ClientTraffic;
use crate::io::{
    Class, Direction, Errno, GrantId, JobId, Peer, PluginId, RecvRequest, RequestId, SendRequest,
    Tag, TestEntry,
};
use crate::pool::Slot;
use crate::time::Time;

/// Completed sends that a client's repetition after a broken link is answered from. The description
/// asks for one; a client with several threads, or posts that do not wait, may have had many under
/// way.
const REMEMBERED_SENDS: usize = 128;

/// What must be equal for two operations to meet, besides the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) direction: Direction,
    pub(crate) tag: Tag,
}

/// Operations of one key that wait for a counterpart: the server's or the client's, never both.
#[derive(Debug, Default)]
pub(crate) struct KeyQueue {
    /// Held and registered ones. Ids count up, so their order is that of posting.
    pub(crate) posts: BTreeSet<PluginId>,
    pub(crate) waiters: VecDeque<RequestId>,
}

/// An outstanding call.
#[derive(Debug)]
pub(crate) enum Request {
    /// A send that waits for a receive of the server, or for memory.
    Send {
        send: SendRequest,
        deadline: Time,
        memory_ticket: Option<u64>,
    },
    /// A receive that waits for a send of the server.
    Recv { recv: RecvRequest, deadline: Time },
    /// A test that sleeps.
    Test {
        entries: Vec<TestEntry>,
        deadline: Time,
    },
    /// One whose transfer runs, or waits for a bulk slot.
    Moving(GrantId),
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) peer: Peer,
    pub(crate) uuid: [u8; 16],
    pub(crate) job: JobId,
    /// Its link broke; it may come back until then.
    pub(crate) away_until: Option<Time>,
    pub(crate) requests: BTreeMap<RequestId, Request>,
    pub(crate) keys: BTreeMap<Key, KeyQueue>,
    /// Its tests that sleep.
    pub(crate) sleeping: BTreeSet<RequestId>,
    /// Unexpected messages, by offset, that were granted and are not in the inbox yet, in the
    /// order of their grants, which is the order they must be delivered in.
    pub(crate) arriving: BTreeMap<Class, VecDeque<u64>>,
    /// Slots reserved for inline messages.
    pub(crate) credits: Vec<Slot>,
    /// Bytes of the unexpected region that it holds: messages not yet freed, and credits.
    pub(crate) pool_bytes: u64,
    /// When bytes last moved, to the server and to the client.
    progressed: [Time; 2],
    remembered: VecDeque<(u64, Result<(), Errno>)>,
    pub(crate) traffic: ClientTraffic,
}

impl Client {
    pub(crate) fn new(peer: Peer, uuid: [u8; 16], job: JobId) -> Self {
        Self {
            peer,
            uuid,
            job,
            away_until: None,
            requests: BTreeMap::new(),
            keys: BTreeMap::new(),
            sleeping: BTreeSet::new(),
            arriving: BTreeMap::new(),
            credits: Vec::new(),
            pool_bytes: 0,
            progressed: [Time::ZERO; 2],
            remembered: VecDeque::new(),
            traffic: ClientTraffic::default(),
        }
    }

    /// The oldest operation of the server for this key that is not claimed.
    pub(crate) fn oldest_post(&self, key: Key) -> Option<PluginId> {
        self.keys.get(&key)?.posts.first().copied()
    }

    /// The client's call that has waited longest for this key.
    pub(crate) fn oldest_waiter(&self, key: Key) -> Option<RequestId> {
        self.keys.get(&key)?.waiters.front().copied()
    }

    /// How many operations of the server for this key are not claimed.
    pub(crate) fn posts_of(&self, key: Key) -> usize {
        self.keys.get(&key).map_or(0, |queue| queue.posts.len())
    }

    /// Entries of its tests that sleep.
    pub(crate) fn sleeping_entries(&self) -> usize {
        let tests = self
            .sleeping
            .iter()
            .filter_map(|request| self.requests.get(request));
        tests
            .map(|test| match test {
                Request::Test { entries, .. } => entries.len(),
                _ => 0,
            })
            .sum()
    }

    pub(crate) fn unqueue_post(&mut self, key: Key, plugin: PluginId) {
        self.change_queue(key, |queue| {
            queue.posts.remove(&plugin);
        });
    }

    pub(crate) fn unqueue_waiter(&mut self, key: Key, request: RequestId) {
        self.change_queue(key, |queue| queue.waiters.retain(|&other| other != request));
    }

    fn change_queue(&mut self, key: Key, change: impl FnOnce(&mut KeyQueue)) {
        if let Some(queue) = self.keys.get_mut(&key) {
            change(queue);
            if queue.posts.is_empty() && queue.waiters.is_empty() {
                self.keys.remove(&key);
            }
        }
    }

    pub(crate) fn progress(&mut self, direction: Direction, now: Time) {
        self.progressed[direction as usize] = now;
    }

    pub(crate) fn progressed(&self, direction: Direction) -> Time {
        self.progressed[direction as usize]
    }

    /// How a send with this number ended, if it did recently.
    pub(crate) fn recall(&self, order: u64) -> Option<Result<(), Errno>> {
        let found = self
            .remembered
            .iter()
            .find(|&&(other, _)| order != 0 && other == order);
        found.map(|&(_, result)| result)
    }

    /// Keeps how a send ended, for a repetition whose client did not see the answer.
    pub(crate) fn remember(&mut self, order: u64, result: Result<(), Errno>) {
        if order == 0 {
            return;
        }
        if self.remembered.len() == REMEMBERED_SENDS {
            self.remembered.pop_front();
        }
        self.remembered.push_back((order, result));
    }
}
