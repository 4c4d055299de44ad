//! The state of one client: its outstanding calls, and the server's operations for it. The engine stores
//! nothing about operations of the client that found no counterpart (R21).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::zbmi::counters::ClientTraffic;
use crate::zbmi::io::{
    Class, Direction, Errno, GrantId, JobId, Peer, PluginId, RecvRequest, RequestId, SendRequest,
    Tag, TestEntry,
};
use crate::zbmi::pool::Slot;
use crate::zbmi::time::Time;

/// The number of completed sends whose results are stored, to answer a client that repeats a send after a
/// lost connection. The description requires one. A client with several threads, or with posts that do not
/// wait, may have had many in flight.
// [DEATH-5]
const REMEMBERED_SENDS: usize = 128;

/// What must be equal for two operations to match, besides the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) direction: Direction,
    pub(crate) tag: Tag,
}

/// Operations of one key that wait for a counterpart: either the server's or the client's, never both.
#[derive(Debug, Default)]
pub(crate) struct KeyQueue {
    /// Held and registered operations. Ids increase, so their order is that of the posts.
    pub(crate) posts: BTreeSet<PluginId>,
    pub(crate) waiters: VecDeque<RequestId>,
}

/// An outstanding call of the client.
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
    /// A call whose transfer runs or waits for a bulk slot.
    Moving(GrantId),
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) peer: Peer,
    pub(crate) uuid: [u8; 16],
    pub(crate) job: JobId,
    /// The client's connection is lost; the client may come back until this time.
    pub(crate) away_until: Option<Time>,
    pub(crate) requests: BTreeMap<RequestId, Request>,
    pub(crate) keys: BTreeMap<Key, KeyQueue>,
    /// Its sleeping tests.
    pub(crate) sleeping: BTreeSet<RequestId>,
    /// Unexpected messages, by offset, that were granted and are not yet in the inbox. They are delivered in
    /// the order of their grants.
    pub(crate) arriving: BTreeMap<Class, VecDeque<u64>>,
    /// Slots reserved for inline messages.
    pub(crate) credits: Vec<Slot>,
    /// The bytes of the unexpected region that the client holds: messages not yet freed, and credits.
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

    /// Returns the oldest unclaimed operation of the server for this key.
    pub(crate) fn oldest_post(&self, key: Key) -> Option<PluginId> {
        self.keys.get(&key)?.posts.first().copied()
    }

    /// Returns the client's call that has waited longest for this key.
    pub(crate) fn oldest_waiter(&self, key: Key) -> Option<RequestId> {
        self.keys.get(&key)?.waiters.front().copied()
    }

    /// Returns the number of unclaimed operations of the server for this key.
    pub(crate) fn posts_of(&self, key: Key) -> usize {
        self.keys.get(&key).map_or(0, |queue| queue.posts.len())
    }

    /// Returns the number of entries of its sleeping tests.
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

    /// Returns the result of a recent send with this number.
    pub(crate) fn recall(&self, order: u64) -> Option<Result<(), Errno>> {
        let found = self
            .remembered
            .iter()
            .find(|&&(other, _)| order != 0 && other == order);
        found.map(|&(_, result)| result)
    }

    /// Stores the result of a send, for a client that repeats it because it did not receive the answer.
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
