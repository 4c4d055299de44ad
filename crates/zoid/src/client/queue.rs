//! The operations that a client has posted and that have not completed: the design's `zoid_ops`.
//!
//! ```text
//!            add                      wait              begin
//!   (post) ──────▶ ATTEMPTING ──────────────▶ QUEUED ──────────▶ ATTEMPTING ...
//!                     │                          │
//!                     └── remove: finished       └── remove: cancelled, lost
//! ```
//!
//! Operations of one key (direction and tag; for unexpected messages the class) are attempted in
//! the order of their posts, and only the oldest one of a key is attempted at a time: so none
//! overtakes another.
//!
//! An expected operation belongs to the session in which it was posted. When the next session begins,
//! its counterpart is gone: it ends with an error. An unexpected message that was not taken yet means
//! the same in every session. No I/O and no lock here.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use bmi::{Class, Error, OpId, Request, RequestKind, Segments, Tag};
use rustc_hash::FxHashMap;

use super::requests::Requests;

/// What keeps its order.
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

/// An operation. A clone names the same memory.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) id: OpId,
    pub(super) kind: RequestKind,
    pub(super) tag: Tag,
    pub(super) segments: Segments,
    pub(super) total: usize,
    /// The number of its post.
    pub(super) order: u64,
    /// When that was.
    pub(super) posted: Instant,
    /// The session of that time.
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

/// What is done with an operation whose attempt found no counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// It is queued again.
    Queued,
    /// It was cancelled meanwhile, and is gone.
    Cancelled,
    /// Its session has ended for this reason meanwhile, and it is gone.
    Orphaned(Error),
}

/// What became of a request to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancel {
    /// It is gone.
    Removed,
    /// It is being attempted: it will be gone if that fails.
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
    /// The sessions that have ended.
    session: u64,
    /// Why the last of them has.
    ended: Option<Error>,
    requests: Requests,
}

/// The operations of one key that a test asks for, oldest first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) key: Key,
    /// Tag and size of each.
    pub(super) ops: Vec<(Tag, usize)>,
}

impl Queue {
    /// Takes a new operation in, being attempted.
    pub(super) fn add(&mut self, request: &Request) -> Op {
        self.posted += 1;
        if !is_expected(request.kind) {
            self.requests.asked_again(request.tag);
        }
        let op = Op {
            id: request.op,
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

    /// The operation waits for its counterpart.
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

    /// The oldest operation of a key, to be attempted now; none while it is being attempted.
    pub(super) fn begin(&mut self, key: Key) -> Option<Op> {
        let id = self.keys.get(&key)?.front()?;
        let (op, state) = self.ops.get_mut(id)?;
        if *state != State::Queued {
            return None;
        }
        *state = State::Attempting { cancelled: false };
        Some(op.clone())
    }

    /// Whether nothing of its key is older than this operation.
    pub(super) fn is_oldest(&self, op: &Op) -> bool {
        let key = Key::of(op.kind, op.tag);
        self.keys.get(&key).and_then(VecDeque::front) == Some(&op.id)
    }

    pub(super) fn remove(&mut self, id: OpId) -> Option<Op> {
        let (op, _) = self.ops.remove(&id)?;
        let key = Key::of(op.kind, op.tag);
        if let Some(ids) = self.keys.get_mut(&key) {
            // Mostly the front.
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

    /// An operation has completed well, and is gone.
    pub(super) fn complete(&mut self, id: OpId) -> Option<Op> {
        let op = self.remove(id)?;
        match op.kind {
            RequestKind::SendUnexpected(_) => self.requests.asked(op.tag),
            RequestKind::Receive => self.requests.answered(op.tag),
            RequestKind::Send => {}
        }
        Some(op)
    }

    /// Whether a new operation would wait for a counterpart that went with an earlier session: then it
    /// ends with this error, once.
    pub(super) fn refuse(&mut self, kind: RequestKind, tag: Tag) -> Option<Error> {
        let refused = is_expected(kind) && self.requests.is_lost(tag);
        self.ended.filter(|_| refused)
    }

    /// The server that this client's operations are for is another one, and requests that the dead one
    /// has fetched are lost. Takes the expected operations away.
    pub(super) fn change_server(&mut self, error: Error) -> Vec<OpId> {
        self.requests.lose();
        self.end_session(error)
    }

    fn end_session(&mut self, error: Error) -> Vec<OpId> {
        self.session += 1;
        self.ended = Some(error);
        self.take(is_expected)
    }

    /// The server dies before it has fetched a request of this tag.
    pub(super) fn keep_request(&mut self, tag: Tag) {
        self.requests.keep(tag);
    }

    /// The same after the end of the daemon: every message that it has taken may be lost.
    pub(super) fn lose_session(&mut self, error: Error) -> Vec<OpId> {
        self.requests.lose_all();
        self.end_session(error)
    }

    /// Takes every queued operation away that `condemned` names; those being attempted stay.
    pub(super) fn take(&mut self, condemned: impl Fn(RequestKind) -> bool) -> Vec<OpId> {
        let mut ids: Vec<(u64, OpId)> = self
            .ops
            .values()
            .filter(|(op, state)| *state == State::Queued && condemned(op.kind))
            .map(|(op, _)| (op.order, op.id))
            .collect();
        ids.sort_unstable();
        for (_, id) in &ids {
            self.remove(*id);
        }
        ids.into_iter().map(|(_, id)| id).collect()
    }

    /// Every queued operation, by key.
    pub(super) fn all(&self) -> Vec<Asked> {
        self.keys
            .iter()
            .filter_map(|(&key, ids)| self.asked(key, ids.len()))
            .collect()
    }

    /// The queued ones among `ids`, and those of the same keys that are older. Says also whether
    /// that is all of them: one that is being attempted may be queued again.
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

    /// The first `count` operations of a key. None when the oldest is being attempted: until that
    /// is over, no other of the key may be.
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

    /// Whether there is an operation of this key.
    pub(super) fn has(&self, key: Key) -> bool {
        self.keys.contains_key(&key)
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
