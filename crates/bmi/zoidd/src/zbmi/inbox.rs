//! Unexpected messages in the region, and which of them may be fetched.
//!
//! ```text
//! grant ─▶ ARRIVING ─ all bytes ─▶ ARRIVED ─ those before it, too ─▶ READY ─ UNEXP_TEST ─▶ DELIVERED
//!              │ lost, aborted                                         ▲                      │  │ UNEXP_FREE
//!              ▼                                                       └──── undelivered ─────┘  ▼
//!            freed                                                                             freed
//! ```
//!
//! "Before it" means granted earlier to the same client in the same class: a message must not overtake
//! another one because its bytes arrived first.

use std::collections::{BTreeMap, VecDeque};

use crate::zbmi::io::{Class, Message, Peer, Pid, Tag};
use crate::zbmi::pool::Slot;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Arriving,
    Arrived,
    Ready,
    Delivered,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) message: Message,
    pub(crate) slot: Slot,
    pub(crate) stage: Stage,
    /// The message used a credit, which its client gets back when the memory is freed.
    pub(crate) credited: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// By offset.
    entries: BTreeMap<u64, Entry>,
    /// Offsets, oldest first; no queue is empty.
    ready: BTreeMap<Class, VecDeque<u64>>,
}

impl Inbox {
    pub(crate) fn insert(&mut self, message: Message, slot: Slot, credited: bool) {
        let stage = Stage::Arriving;
        let entry = Entry {
            message,
            slot,
            stage,
            credited,
        };
        self.entries.insert(message.offset, entry);
    }

    pub(crate) fn remove(&mut self, offset: u64) -> Option<Entry> {
        self.entries.remove(&offset)
    }

    pub(crate) fn stage(&self, offset: u64) -> Option<Stage> {
        self.entries.get(&offset).map(|entry| entry.stage)
    }

    /// Records that all bytes have arrived.
    pub(crate) fn arrived(&mut self, offset: u64) {
        if let Some(entry) = self.entries.get_mut(&offset) {
            entry.stage = Stage::Arrived;
        }
    }

    /// Makes a message available for fetching, after those that already are.
    pub(crate) fn make_ready(&mut self, offset: u64) -> Option<Class> {
        let entry = self.entries.get_mut(&offset)?;
        entry.stage = Stage::Ready;
        let class = entry.message.class;
        self.ready.entry(class).or_default().push_back(offset);
        Some(class)
    }

    /// Hands out at most `capacity` messages of a class, oldest first.
    // [ZOID-40]
    pub(crate) fn fetch(&mut self, class: Class, capacity: usize) -> Vec<Message> {
        let Some(queue) = self.ready.get_mut(&class) else {
            return Vec::new();
        };
        let taken: Vec<u64> = queue.drain(..capacity.min(queue.len())).collect();
        if queue.is_empty() {
            self.ready.remove(&class);
        }
        let mut messages = Vec::with_capacity(taken.len());
        for offset in taken {
            if let Some(entry) = self.entries.get_mut(&offset) {
                entry.stage = Stage::Delivered;
                messages.push(entry.message);
            }
        }
        messages
    }

    /// Takes back what [`Inbox::fetch`] returned; it will be fetched before all others. Messages that were
    /// freed since are skipped.
    pub(crate) fn take_back(&mut self, messages: &[Message]) -> Vec<Class> {
        let mut classes = Vec::new();
        for message in messages.iter().rev() {
            let entry = self.entries.get_mut(&message.offset);
            let Some(entry) =
                entry.filter(|entry| entry.stage == Stage::Delivered && entry.message == *message)
            else {
                continue;
            };
            entry.stage = Stage::Ready;
            self.ready
                .entry(message.class)
                .or_default()
                .push_front(message.offset);
            classes.push(message.class);
        }
        classes
    }

    /// Removes the credits owed for this client's messages.
    pub(crate) fn uncredit(&mut self, peer: Peer) {
        for entry in self.entries.values_mut() {
            entry.credited &= entry.message.peer != peer;
        }
    }

    /// Returns the offsets of the messages that the server holds.
    pub(crate) fn delivered(&self) -> Vec<u64> {
        let held = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.stage == Stage::Delivered);
        held.map(|(&offset, _)| offset).collect()
    }

    /// Returns whether a message of this client has not been fetched.
    pub(crate) fn holds_unfetched(&self, pid: Pid) -> bool {
        let mut entries = self.entries.values();
        entries.any(|entry| entry.stage != Stage::Delivered && entry.message.peer.pid == pid)
    }

    /// Returns the clients and tags of messages that the server has not fetched.
    pub(crate) fn unfetched(&self) -> impl Iterator<Item = (Peer, Tag)> {
        let entries = self.entries.values();
        entries
            .filter(|entry| entry.stage != Stage::Delivered)
            .map(|entry| (entry.message.peer, entry.message.tag))
    }

    pub(crate) fn any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(crate) fn ready_len(&self) -> usize {
        self.ready.values().map(VecDeque::len).sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Returns the number of this client's messages that used a credit.
    pub(crate) fn credited(&self, peer: Peer) -> usize {
        let entries = self.entries.values();
        entries
            .filter(|entry| entry.credited && entry.message.peer == peer)
            .count()
    }

    /// Returns the sum of the slots of this client's messages in bytes.
    pub(crate) fn bytes_of(&self, peer: Peer) -> u64 {
        let own = self
            .entries
            .values()
            .filter(|entry| entry.message.peer == peer);
        own.map(|entry| entry.slot.len).sum()
    }
}
