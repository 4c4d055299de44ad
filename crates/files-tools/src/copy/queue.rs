//! The work that remains, and its distribution to the workers.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::Job;
use super::file::Long;
use crate::progress::lock;

/// The next work of a worker.
pub(super) enum Work {
    /// Begins a long file, or copies a short file or a link.
    Begin(Job),
    /// Moves a piece of a long file, if one remains.
    Piece(Arc<Long>),
}

/// Jobs that wait, and long files in progress.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    room: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    long: VecDeque<Arc<Long>>,
    /// Number of workers whose present work may add to the queue.
    busy: usize,
    is_walked: bool,
    is_ended: bool,
}

impl Queue {
    /// Creates an empty queue in which `room` jobs may wait.
    pub(super) fn new(room: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            room,
        }
    }

    /// Adds a job once there is space. Returns false if the copy has ended.
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

    /// Adds a job that is restarted. There is always space for it: otherwise a worker could wait for ever.
    pub(super) fn push_again(&self, job: Job) {
        lock(&self.state).jobs.push_back(job);
        self.changed.notify_all();
    }

    /// Adds a long file.
    pub(super) fn push_long(&self, long: Arc<Long>) {
        lock(&self.state).long.push_back(long);
        self.changed.notify_all();
    }

    /// Removes a long file without further pieces to take.
    pub(super) fn remove_long(&self, long: &Arc<Long>) {
        let mut state = lock(&self.state);
        state.long.retain(|other| !Arc::ptr_eq(other, long));
    }

    /// Records that the walker adds no further jobs.
    pub(super) fn walked(&self) {
        lock(&self.state).is_walked = true;
        self.changed.notify_all();
    }

    /// Ends the copy after the operations in flight.
    pub(super) fn end(&self) {
        lock(&self.state).is_ended = true;
        self.changed.notify_all();
    }

    pub(super) fn is_ended(&self) -> bool {
        lock(&self.state).is_ended
    }

    /// Returns the next work, pieces first, so that few files are in progress at the same time. The worker calls
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

    /// Records that the work of a worker is done.
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
