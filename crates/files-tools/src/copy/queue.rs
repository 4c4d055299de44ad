//! What is to be done, and who may do it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::Job;
use super::file::Long;
use crate::progress::lock;

/// What a worker does next.
pub(super) enum Work {
    /// Begins a file, or copies what is short.
    Begin(Job),
    /// Moves a piece of a long file, if there is one left.
    Piece(Arc<Long>),
}

/// Jobs that wait, and long files under way.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    room: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    long: VecDeque<Arc<Long>>,
    /// Workers that do something that may give others something to do.
    busy: usize,
    is_walked: bool,
    is_ended: bool,
}

impl Queue {
    /// An empty queue in which `room` jobs may wait.
    pub(super) fn new(room: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            room,
        }
    }

    /// Adds a job when there is room; false where the copy has ended.
    pub(super) fn push(&self, job: Job) -> bool {
        let mut state = lock(&self.state);
        while state.jobs.len() >= self.room && !state.is_ended {
            state = self.wait(state);
        }
        if !state.is_ended {
            state.jobs.push_back(job);
        }
        self.changed.notify_all();
        !state.is_ended
    }

    /// Adds a job that began already, for which there is always room.
    pub(super) fn push_again(&self, job: Job) {
        lock(&self.state).jobs.push_back(job);
        self.changed.notify_all();
    }

    /// Adds a long file.
    pub(super) fn push_long(&self, long: Arc<Long>) {
        lock(&self.state).long.push_back(long);
        self.changed.notify_all();
    }

    /// A long file has no piece left that nobody took.
    pub(super) fn remove_long(&self, long: &Arc<Long>) {
        let mut state = lock(&self.state);
        state.long.retain(|other| !Arc::ptr_eq(other, long));
    }

    /// No new jobs come.
    pub(super) fn walked(&self) {
        lock(&self.state).is_walked = true;
        self.changed.notify_all();
    }

    /// Everything ends after what is under way.
    pub(super) fn end(&self) {
        lock(&self.state).is_ended = true;
        self.changed.notify_all();
    }

    pub(super) fn is_ended(&self) -> bool {
        lock(&self.state).is_ended
    }

    /// The next thing to do, pieces first, so that few files are under way at once. Who takes one says
    /// [`Queue::done`] afterwards.
    pub(super) fn take(&self, is_cancelled: impl Fn() -> bool) -> Option<Work> {
        let mut state = lock(&self.state);
        loop {
            state.is_ended |= is_cancelled();
            let is_over = state.is_walked && state.busy == 0;
            let next = state.next();
            if state.is_ended || (next.is_none() && is_over) {
                self.changed.notify_all();
                return None;
            }
            if next.is_some() {
                state.busy += 1;
                self.changed.notify_all();
                return next;
            }
            state = self.wait(state);
        }
    }

    /// What was taken is done.
    pub(super) fn done(&self) {
        lock(&self.state).busy -= 1;
        self.changed.notify_all();
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait(state);
        waited.unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    fn next(&mut self) -> Option<Work> {
        match self.long.front() {
            Some(long) => Some(Work::Piece(Arc::clone(long))),
            None => self.jobs.pop_front().map(Work::Begin),
        }
    }
}
