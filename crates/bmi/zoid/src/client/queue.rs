//! The operations of a client that have not completed: the design's `zoid_ops`.
//!
//! ```text
//!            add                      wait              begin
//!   (post) ──────▶ ATTEMPTING ──────────────▶ QUEUED ──────────▶ ATTEMPTING ...
//!                     │                          │
//!                     └── remove: completed      └── remove: cancelled, lost
//! ```
//!
//! Operations of one key (direction and tag; for unexpected messages the class) are attempted in the order of
//! their posts. Only the oldest operation of a key is attempted at a time, so none overtakes another.
//!
//! An expected operation belongs to the session in which it was posted. When the next session begins, its
//! counterpart is gone and it fails. An unexpected message that was not accepted yet is still valid in every
//! session. This module does no I/O and takes no lock.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use bmi::{Class, ContextId, Error, OpId, Request, RequestKind, Segments, Tag};
use rustc_hash::FxHashMap;

use super::requests::Requests;

/// Operations with the same key keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    Send(Tag),
    Recv(Tag),
    Unexpected(Class),
}

impl Key {
    pub(super) fn of(kind: RequestKind, tag: Tag) -> Self {
        match kind {
            RequestKind::Send => Self::Send(tag),
            RequestKind::Receive => Self::Recv(tag),
            RequestKind::SendUnexpected(class) => Self::Unexpected(class),
        }
    }
}

/// An operation. Clones share its memory.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) id: OpId,
    pub(super) context: ContextId,
    pub(super) kind: RequestKind,
    pub(super) tag: Tag,
    pub(super) segments: Segments,
    pub(super) total: usize,
    /// The number of its post.
    pub(super) order: u64,
    /// The time of its post.
    pub(super) posted: Instant,
    /// The session at that time.
    session: u64,
}

impl Op {
    pub(super) fn is_expected(&self) -> bool {
        is_expected(self.kind)
    }
}

fn is_expected(kind: RequestKind) -> bool {
    !matches!(kind, RequestKind::SendUnexpected(_))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    Attempting { cancelled: bool },
}

/// What happens to an operation whose attempt found no counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// It is queued again.
    Queued,
    /// It was cancelled meanwhile and has been removed.
    Cancelled,
    /// Its session ended meanwhile for this reason, and it has been removed.
    Orphaned(Error),
}

/// The effect of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancel {
    /// The operation was removed.
    Removed,
    /// The operation is being attempted; it will be removed if the attempt fails.
    Noted,
    /// There is no such operation.
    Unknown,
}

/// All operations of a client.
#[derive(Debug, Default)]
pub(super) struct Queue {
    ops: FxHashMap<OpId, (Op, State)>,
    keys: BTreeMap<Key, VecDeque<OpId>>,
    posted: u64,
    /// The number of sessions that have ended.
    session: u64,
    /// Why the last session ended.
    ended: Option<Error>,
    requests: Requests,
}

/// The operations of one key that a test asks about, oldest first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) key: Key,
    /// Tag and size of each.
    pub(super) ops: Vec<(Tag, usize)>,
}

impl Queue {
    /// Adds a new operation, which is being attempted.
    pub(super) fn add(&mut self, request: &Request) -> Op {
        self.posted += 1;
        if !is_expected(request.kind) {
            self.requests.asked_again(request.tag);
        }
        let op = Op {
            id: request.op,
            context: request.context,
            kind: request.kind,
            tag: request.tag,
            segments: request.segments.clone(),
            total: request.total,
            order: self.posted,
            posted: Instant::now(),
            session: self.session,
        };
        let state = State::Attempting { cancelled: false };
        self.ops.insert(op.id, (op.clone(), state));
        let key = Key::of(op.kind, op.tag);
        self.keys.entry(key).or_default().push_back(op.id);
        op
    }

    /// Queues an operation that waits for its counterpart.
    pub(super) fn wait(&mut self, id: OpId) -> Waits {
        match self.ops.get_mut(&id) {
            Some((_, State::Attempting { cancelled: true })) => {
                self.remove(id);
                Waits::Cancelled
            }
            Some((op, _)) if op.is_expected() && op.session != self.session => {
                self.remove(id);
                Waits::Orphaned(self.ended.unwrap_or(Error::ConnReset))
            }
            Some((_, state)) => {
                *state = State::Queued;
                Waits::Queued
            }
            None => Waits::Cancelled,
        }
    }

    /// Begins an attempt of the oldest operation of a key. `None` while it is being attempted.
    // [ZOID-18]
    pub(super) fn begin(&mut self, key: Key) -> Option<Op> {
        let id = self.keys.get(&key)?.front()?;
        let (op, state) = self.ops.get_mut(id)?;
        if *state != State::Queued {
            return None;
        }
        *state = State::Attempting { cancelled: false };
        Some(op.clone())
    }

    /// Returns whether no operation of the same key is older.
    pub(super) fn is_oldest(&self, op: &Op) -> bool {
        let key = Key::of(op.kind, op.tag);
        self.keys.get(&key).and_then(VecDeque::front) == Some(&op.id)
    }

    pub(super) fn remove(&mut self, id: OpId) -> Option<Op> {
        let (op, _) = self.ops.remove(&id)?;
        let key = Key::of(op.kind, op.tag);
        if let Some(ids) = self.keys.get_mut(&key) {
            // Usually the front.
            if let Some(at) = ids.iter().position(|&other| other == id) {
                ids.remove(at);
            }
            if ids.is_empty() {
                self.keys.remove(&key);
            }
        }
        Some(op)
    }

    pub(super) fn cancel(&mut self, id: OpId) -> Cancel {
        match self.ops.get_mut(&id) {
            Some((_, State::Attempting { cancelled })) => {
                *cancelled = true;
                Cancel::Noted
            }
            Some((_, State::Queued)) => {
                self.remove(id);
                Cancel::Removed
            }
            None => Cancel::Unknown,
        }
    }

    /// Removes an operation that has succeeded.
    pub(super) fn complete(&mut self, id: OpId) -> Option<Op> {
        let op = self.remove(id)?;
        match op.kind {
            RequestKind::SendUnexpected(_) => self.requests.asked(op.tag),
            RequestKind::Receive => self.requests.answered(op.tag),
            RequestKind::Send => {}
        }
        Some(op)
    }

    /// Returns an error, once, if a new operation would wait for a counterpart that was lost with an earlier
    /// session.
    // [DEATH-15]
    pub(super) fn take_rejection(&mut self, kind: RequestKind, tag: Tag) -> Option<Error> {
        let refused = is_expected(kind) && self.requests.is_lost(tag);
        self.ended.filter(|_| refused)
    }

    /// Handles a new server: requests that the dead one has fetched are lost. Removes and returns the
    /// expected operations.
    // [DEATH-14]
    pub(super) fn change_server(&mut self, error: Error) -> Vec<OpId> {
        self.requests.lose();
        self.end_session(error)
    }

    fn end_session(&mut self, error: Error) -> Vec<OpId> {
        self.session += 1;
        self.ended = Some(error);
        self.take(is_expected)
    }

    /// Records that the server died before it fetched the request with this tag.
    pub(super) fn keep_request(&mut self, tag: Tag) {
        self.requests.keep(tag);
    }

    /// Handles the loss of the daemon: every message that it accepted may be lost. Removes and returns the
    /// expected operations.
    pub(super) fn lose_session(&mut self, error: Error) -> Vec<OpId> {
        self.requests.lose_all();
        self.end_session(error)
    }

    /// Removes every queued operation for which `condemned` is true; operations being attempted stay.
    pub(super) fn take(&mut self, condemned: impl Fn(RequestKind) -> bool) -> Vec<OpId> {
        self.take_ops(|op| condemned(op.kind))
    }

    /// Returns when the oldest queued operation was posted.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let queued = self
            .ops
            .values()
            .filter(|(_, state)| *state == State::Queued);
        queued.map(|(op, _)| op.posted).min()
    }

    /// Removes every queued operation with a condemned time of its post.
    pub(super) fn take_posted(&mut self, condemned: impl Fn(Instant) -> bool) -> Vec<OpId> {
        self.take_ops(|op| condemned(op.posted))
    }

    fn take_ops(&mut self, condemned: impl Fn(&Op) -> bool) -> Vec<OpId> {
        let mut ids: Vec<(u64, OpId)> = self
            .ops
            .values()
            .filter(|(op, state)| *state == State::Queued && condemned(op))
            .map(|(op, _)| (op.order, op.id))
            .collect();
        ids.sort_unstable();
        for (_, id) in &ids {
            self.remove(*id);
        }
        ids.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns every queued operation, by key.
    pub(super) fn all(&self) -> Vec<Asked> {
        self.keys
            .iter()
            .filter_map(|(&key, ids)| self.asked(key, ids.len()))
            .collect()
    }

    /// Returns the queued operations among `ids` and older ones of the same keys. Also returns whether these
    /// are all: an operation that is being attempted may be queued again.
    // [ZOID-22]
    pub(super) fn covering(&self, ids: &[OpId]) -> (Vec<Asked>, bool) {
        let mut reach: BTreeMap<Key, u64> = BTreeMap::new();
        for (op, _) in ids.iter().filter_map(|id| self.ops.get(id)) {
            let last = reach.entry(Key::of(op.kind, op.tag)).or_default();
            *last = op.order.max(*last);
        }
        let count = |key: &Key, last: u64| {
            let ids = self.keys.get(key).into_iter().flatten();
            ids.take_while(|id| self.ops.get(id).is_some_and(|(op, _)| op.order <= last))
                .count()
        };
        let mut covering = Vec::with_capacity(reach.len());
        let mut complete = true;
        for (&key, &last) in &reach {
            let wanted = count(&key, last);
            let asked = self.asked(key, wanted);
            complete &= asked
                .as_ref()
                .is_some_and(|asked| asked.ops.len() == wanted);
            covering.extend(asked);
        }
        (covering, complete)
    }

    /// Returns the first `count` operations of a key; `None` while the oldest is being attempted.
    fn asked(&self, key: Key, count: usize) -> Option<Asked> {
        let ids = self.keys.get(&key)?.iter().take(count);
        let mut ops = Vec::with_capacity(count);
        for id in ids {
            let (op, state) = self.ops.get(id)?;
            if *state != State::Queued {
                break;
            }
            ops.push((op.tag, op.total));
        }
        (!ops.is_empty()).then_some(Asked { key, ops })
    }

    /// Returns the keys of those operations that exist.
    pub(super) fn keys_of(&self, ids: &[OpId]) -> Vec<Key> {
        let ops = ids.iter().filter_map(|id| self.ops.get(id));
        ops.map(|(op, _)| Key::of(op.kind, op.tag)).collect()
    }

    /// Returns whether the oldest operation of a key waits to be attempted.
    pub(super) fn is_open(&self, key: Key) -> bool {
        let oldest = self.keys.get(&key).and_then(VecDeque::front);
        let state = oldest.and_then(|id| self.ops.get(id));
        state.is_some_and(|(_, state)| *state == State::Queued)
    }

    /// Returns whether there is an operation of this key.
    pub(super) fn has(&self, key: Key) -> bool {
        self.keys.contains_key(&key)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
