//! Threads that sleep, and what wakes each of them.
//!
//! | What happens | Who is woken |
//! |---|---|
//! | an answer to a call arrives | the thread that waits for the answer |
//! | an operation completes | the tests that name the operation, and those of its context |
//! | an operation of a key may be attempted | the tests that name one of the key, and those of contexts |
//! | answers to flights wait and nobody handles them | one thread |
//! | an operation completes or may be attempted | also the tests that wait for another thread's attempts |
//! | the reader leaves | one thread, unless another one is about to read |
//! | anything else | every thread |
//!
//! With a thread for each operation, one answer therefore costs one wake, however many threads sleep. Woken
//! together, they would all take the lock, find nothing, and sleep again.

use std::sync::Arc;

use bmi::{ContextId, OpId, Which};
use sys::Event as Turn;

use super::State;
use crate::client::Client;
use crate::client::queue::{Key, Queue};

thread_local! {
    /// What the thread sleeps on while another one reads.
    static TURN: Arc<Turn> = Arc::default();
}

/// Returns what this thread sleeps on.
pub(super) fn own_turn() -> Arc<Turn> {
    // A thread that is ending may have no thread-local value any more.
    TURN.try_with(Arc::clone).unwrap_or_default()
}

/// What a thread waits for, besides the end of its time.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::client) struct Awaits<'a> {
    /// The answer to this call.
    pub(in crate::client) request: Option<u32>,
    /// Completions of these operations, and the chance to attempt them.
    pub(in crate::client) which: Option<Which<'a>>,
}

impl Awaits<'_> {
    pub(in crate::client) fn answer(request: u32) -> Self {
        Self {
            request: Some(request),
            which: None,
        }
    }
}

/// The most operations that a sleeping test names. Any completion wakes a test of more: it tests often anyway,
/// and the names would be compared with every completion.
pub(in crate::client) const NAMED: usize = 16;

/// What wakes a sleeping thread.
#[derive(Debug, Default)]
pub(super) struct Interest {
    request: Option<u32>,
    ops: Ops,
}

#[derive(Debug, Default)]
enum Ops {
    #[default]
    None,
    These(Vec<OpId>, Vec<Key>),
    Context(ContextId),
    All,
}

/// What has happened to an operation.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) enum Change {
    Completed(OpId, ContextId),
    /// An operation of the key may be attempted.
    Open(Key),
}

impl Interest {
    pub(super) fn of(awaits: Awaits<'_>, queue: &Queue) -> Self {
        let ops = match awaits.which {
            None => Ops::None,
            Some(Which::Any { context, .. }) => Ops::Context(context),
            Some(Which::These(ids)) if ids.len() > NAMED => Ops::All,
            Some(Which::These(ids)) => Ops::These(ids.to_vec(), queue.keys_of(ids)),
        };
        Self {
            request: awaits.request,
            ops,
        }
    }

    fn has(&self, change: Change) -> bool {
        match (&self.ops, change) {
            (Ops::None, _) => false,
            (Ops::All, _) | (Ops::Context(_), Change::Open(_)) => true,
            (Ops::These(ids, _), Change::Completed(op, _)) => ids.contains(&op),
            (Ops::These(_, keys), Change::Open(key)) => keys.contains(&key),
            (Ops::Context(context), Change::Completed(_, of)) => *context == of,
        }
    }
}

/// A thread that sleeps while another one reads.
pub(super) struct Follower {
    pub(super) turn: Arc<Turn>,
    pub(super) interest: Interest,
}

impl State {
    /// Wakes the thread that waits for an answer to a call; an answer to a flight is for the next driver.
    pub(super) fn wake_waiter(&mut self, request: u32) {
        if self.flights.note_answer(request) {
            return;
        }
        let waits = |follower: &&Follower| follower.interest.request == Some(request);
        if let Some(follower) = self.followers.iter().find(waits) {
            follower.turn.notify();
        }
    }

    /// Records that a thread drives flights. If that may take long, or wait for one that takes long, lets
    /// another thread read meanwhile. Returns whether it may take long.
    pub(super) fn begin_driving(&mut self) -> bool {
        let long = self.flights.have_long_answers();
        self.drivers += 1;
        self.long_drivers += usize::from(long);
        if self.long_drivers > 0
            && self.reader.is_none()
            && let Some(next) = self.followers.first()
        {
            next.turn.notify();
        }
        long
    }

    pub(super) fn end_driving(&mut self, long: bool) {
        self.drivers -= 1;
        self.long_drivers -= usize::from(long);
    }

    /// Returns a number that changes whenever an operation completes or may be attempted.
    pub(in crate::client) fn progress(&self) -> u64 {
        self.changes.all() + self.completed
    }

    /// Wakes every thread that sleeps while another one reads.
    pub(super) fn wake_followers(&self) {
        for follower in &self.followers {
            follower.turn.notify();
        }
    }
}

impl Client {
    /// Wakes every sleeping thread of this process, so that it checks the state again.
    pub(in crate::client) fn wake_sleepers(&self, state: &State) {
        if state.reader.is_some() {
            self.alarm.ring();
        }
        state.wake_followers();
    }

    /// Wakes the threads that a change concerns.
    pub(in crate::client) fn wake_for(&self, state: &State, change: Change) {
        if state
            .reader
            .as_ref()
            .is_some_and(|reader| reader.has(change))
        {
            self.alarm.ring();
        }
        let concerned = |follower: &&Follower| follower.interest.has(change);
        for follower in state.followers.iter().filter(concerned) {
            follower.turn.notify();
        }
    }

    /// Counts a completed operation, and wakes the tests that sleep until another thread has got on.
    pub(in crate::client) fn note_completed(&self, state: &mut State) {
        state.completed += 1;
        if state.pausing > 0 {
            self.wake_sleepers(state);
        }
    }

    /// Records that an operation of the key may be attempted, and wakes the tests that would ask for it.
    pub(in crate::client) fn note_open(&self, state: &mut State, key: Key) {
        state.changes.note(key);
        self.wake_for(state, Change::Open(key));
    }

    /// Makes one of the sleeping threads the reader if no thread reads, and finds one for answers that nobody
    /// handles. A thread that drives flights looks for more afterwards, and then reads or leaves.
    pub(in crate::client) fn hand_over(&self, state: &State) {
        if state.drivers > state.long_drivers {
            return;
        }
        if state.reader.is_some() && !state.flights.have_answers() {
            return;
        }
        match state.followers.first() {
            Some(next) => next.turn.notify(),
            None if state.reader.is_some() => self.alarm.ring(),
            None => {}
        }
    }
}
