//! The jobs that wait for a worker, and the limit of workers that one client may hold.
//!
//! A worker that moves bulk waits for its client. A client that was killed answers nothing, and LNet does not
//! report messages that it drops. So each call of a killed client holds a worker until
//! [`ServerOptions::patience`](crate::ServerOptions::patience) or the call's deadline is over. If jobs were
//! taken in plain order, one killed client could stop the service for all clients. Therefore a client that
//! holds a worker gets another one only while more workers than a reserve are free. A client that holds none
//! gets any free worker.
//!
//! The jobs of one client are taken in the order of their arrival.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::proto::ClientId;

/// The jobs of a server that wait for a worker.
pub(crate) struct Jobs<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
}

struct State<J> {
    waiting: VecDeque<(ClientId, J)>,
    /// Workers held, by client; a client that holds none has no entry.
    held: FxHashMap<ClientId, usize>,
    free: usize,
    reserve: usize,
    is_closed: bool,
}

impl<J> Jobs<J> {
    /// Makes an empty queue for `workers` workers. A quarter of them is the reserve.
    pub(crate) fn new(workers: usize) -> Self {
        let reserve = if workers > 1 { (workers / 4).max(1) } else { 0 };
        let state = State {
            waiting: VecDeque::new(),
            held: FxHashMap::default(),
            free: workers,
            reserve,
            is_closed: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Adds a job; drops the job if the queue is closed.
    pub(crate) fn push(&self, client: ClientId, job: J) {
        let mut state = self.state();
        if !state.is_closed {
            state.waiting.push_back((client, job));
            self.changed.notify_one();
        }
    }

    /// Waits for a job whose client may have a worker, and gives the client the calling worker. Returns `None`
    /// if the queue is closed and every job was taken.
    pub(crate) fn take(&self) -> Option<(ClientId, J)> {
        let mut state = self.state();
        loop {
            if let Some(taken) = state.take() {
                return Some(taken);
            }
            if state.is_closed && state.waiting.is_empty() {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes that the worker of `client` is free.
    pub(crate) fn restore_decrement(&self, client: ClientId) {
        let mut state = self.state();
        state.free += 1;
        if let Some(held) = state.held.get_mut(&client) {
            *held -= 1;
            if *held == 0 {
                state.held.remove(&client);
            }
        }
        self.changed.notify_one();
    }

    /// Closes the queue: no more jobs are added; jobs that wait are still taken.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J> State<J> {
    fn take(&mut self) -> Option<(ClientId, J)> {
        let at = self
            .waiting
            .iter()
            .position(|&(client, _)| self.may_have_a_worker(client))?;
        let (client, job) = self.waiting.remove(at)?;
        *self.held.entry(client).or_default() += 1;
        self.free -= 1;
        Some((client, job))
    }

    fn may_have_a_worker(&self, client: ClientId) -> bool {
        if self.held.contains_key(&client) {
            self.free > self.reserve
        } else {
            self.free > 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ClientId = ClientId([1; 16]);
    const TWO: ClientId = ClientId([2; 16]);

    fn taken(jobs: &Jobs<u32>) -> Option<u32> {
        jobs.state().take().map(|(_, job)| job)
    }

    #[test]
    fn one_client_leaves_the_reserve_to_others() {
        let jobs = Jobs::new(8);
        (0..10).for_each(|job| jobs.push(ONE, job));
        let held: Vec<_> = std::iter::from_fn(|| taken(&jobs)).collect();
        assert_eq!(held, [0, 1, 2, 3, 4, 5], "in order, and not all workers");
        jobs.push(TWO, 100);
        assert_eq!(taken(&jobs), Some(100), "past those that wait");
        jobs.restore_decrement(TWO);
        assert_eq!(taken(&jobs), None);
        jobs.restore_decrement(ONE);
        assert_eq!(taken(&jobs), Some(6));
    }

    #[test]
    fn a_single_worker_has_no_reserve() {
        let jobs = Jobs::new(1);
        jobs.push(ONE, 1);
        jobs.push(TWO, 2);
        assert_eq!(taken(&jobs), Some(1));
        assert_eq!(taken(&jobs), None);
        jobs.restore_decrement(ONE);
        assert_eq!(taken(&jobs), Some(2));
    }

    #[test]
    fn closed_it_is_emptied_and_takes_nothing_more() {
        let jobs = Jobs::new(2);
        jobs.push(ONE, 1);
        jobs.close();
        jobs.push(ONE, 2);
        assert_eq!(jobs.take(), Some((ONE, 1)));
        jobs.restore_decrement(ONE);
        assert_eq!(jobs.take(), None);
    }
}
