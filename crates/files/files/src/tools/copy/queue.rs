//! The work that remains, and its distribution to the workers.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::Job;
use super::file::Long;
use crate::tools::progress::lock;

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
    /// Wakes workers: there is work, or there will be none. A change wakes only the threads that can act on it; otherwise
    /// workers would mostly wait for one another.
    has_work: Condvar,
    /// Wakes the walker.
    has_room: Condvar,
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
            has_work: Condvar::new(),
            has_room: Condvar::new(),
            room,
        }
    }

    /// Adds a job once there is space. Returns false if the copy has ended.
    pub(super) fn push(&self, job: Job) -> bool {
        let mut state = lock(&self.state);
        while state.jobs.len() >= self.room && !state.is_ended {
            state = wait(&self.has_room, state);
        }
        if !state.is_ended {
            state.jobs.push_back(job);
            self.has_work.notify_one();
        }
        !state.is_ended
    }

    /// Adds a job that is restarted. There is always space for it: otherwise a worker could wait for ever.
    pub(super) fn push_again(&self, job: Job) {
        lock(&self.state).jobs.push_back(job);
        self.has_work.notify_one();
    }

    /// Adds a long file, for any number of workers.
    pub(super) fn push_long(&self, long: Arc<Long>) {
        lock(&self.state).long.push_back(long);
        self.has_work.notify_all();
    }

    /// Removes a long file without further pieces to take.
    pub(super) fn remove_long(&self, long: &Arc<Long>) {
        let mut state = lock(&self.state);
        state.long.retain(|other| !Arc::ptr_eq(other, long));
    }

    /// Records that the walker adds no further jobs.
    pub(super) fn walked(&self) {
        lock(&self.state).is_walked = true;
        self.has_work.notify_all();
    }

    /// Ends the copy after the operations in flight.
    pub(super) fn end(&self) {
        lock(&self.state).is_ended = true;
        self.wake_all();
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
            if state.is_ended || state.is_over() {
                self.wake_all();
                return None;
            }
            if let Some(next) = state.next() {
                state.busy += 1;
                self.has_room.notify_one();
                return Some(next);
            }
            state = wait(&self.has_work, state);
        }
    }

    /// Records that the work of a worker is done.
    pub(super) fn done(&self) {
        let mut state = lock(&self.state);
        state.busy -= 1;
        if state.is_over() {
            self.has_work.notify_all();
        }
    }

    fn wake_all(&self) {
        self.has_work.notify_all();
        self.has_room.notify_all();
    }
}

fn wait<'a>(changed: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    let waited = changed.wait(state);
    waited.unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl State {
    /// There is nothing to do, and nobody will find anything.
    fn is_over(&self) -> bool {
        self.is_walked && self.busy == 0 && self.jobs.is_empty() && self.long.is_empty()
    }

    fn next(&mut self) -> Option<Work> {
        match self.long.front() {
            Some(long) => Some(Work::Piece(Arc::clone(long))),
            None => self.jobs.pop_front().map(Work::Begin),
        }
    }
}
