//! The jobs that wait for a worker, and the limit of workers that one client may hold.
//!
//! A worker that moves bulk waits for its client. A client that was killed answers nothing, and LNet does not
//! report messages that it drops. So each call of a killed client holds a worker until
//! [`ServerOptions::patience`](crate::ServerOptions::patience) or the call's deadline is over. If jobs were
//! taken in plain order, one killed client could stop the service for all clients. Therefore a client that
//! holds a worker gets another one only while more workers than a reserve are free. A client that holds none
//! gets any free worker. One node may have any number of clients, so half of the reserve is for nodes that hold no
//! worker at all:
//!
//! | the client | its NID | gets a worker while more than |
//! |---|---|---|
//! | holds workers | | the reserve is free |
//! | holds none | holds workers | half of the reserve is free |
//! | holds none | holds none | none is free |
//!
//! The jobs of one client are taken in the order of their arrival.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use lnet_types::Nid;
use rustc_hash::FxHashMap;

use crate::proto::ClientId;

/// Whose a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) client: ClientId,
    /// The NID that the request of the job came from.
    pub(crate) nid: Nid,
}

/// The jobs of a server that wait for a worker.
pub(crate) struct Jobs<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
}

struct State<J> {
    waiting: VecDeque<(Owner, J)>,
    /// Workers held, by client; a client that holds none has no entry.
    held: FxHashMap<ClientId, usize>,
    /// Workers held, by NID; a NID that holds none has no entry.
    held_by_nid: FxHashMap<Nid, usize>,
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
            held_by_nid: FxHashMap::default(),
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
    pub(crate) fn push(&self, owner: Owner, job: J) {
        let mut state = self.state();
        if !state.is_closed {
            state.waiting.push_back((owner, job));
            self.changed.notify_one();
        }
    }

    /// Waits for a job whose client may have a worker, and gives the client the calling worker. Returns `None`
    /// if the queue is closed and every job was taken.
    pub(crate) fn take(&self) -> Option<(Owner, J)> {
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

    /// Notes that the worker of `owner` is free.
    pub(crate) fn release(&self, owner: Owner) {
        let mut state = self.state();
        state.free += 1;
        lower(&mut state.held, owner.client);
        lower(&mut state.held_by_nid, owner.nid);
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
    fn take(&mut self) -> Option<(Owner, J)> {
        let at = self
            .waiting
            .iter()
            .position(|&(owner, _)| self.may_have_a_worker(owner))?;
        let (owner, job) = self.waiting.remove(at)?;
        *self.held.entry(owner.client).or_default() += 1;
        *self.held_by_nid.entry(owner.nid).or_default() += 1;
        self.free -= 1;
        Some((owner, job))
    }

    fn may_have_a_worker(&self, owner: Owner) -> bool {
        let reserve = if self.held.contains_key(&owner.client) {
            self.reserve
        } else if self.held_by_nid.contains_key(&owner.nid) {
            self.reserve / 2
        } else {
            0
        };
        self.free > reserve
    }
}

fn lower<K: Eq + std::hash::Hash>(held: &mut FxHashMap<K, usize>, by: K) {
    if let Some(count) = held.get_mut(&by) {
        *count -= 1;
        if *count == 0 {
            held.remove(&by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Owner = Owner {
        client: ClientId([1; 16]),
        nid: Nid::LOOPBACK,
    };
    const TWO: Owner = Owner {
        client: ClientId([2; 16]),
        nid: Nid::LOOPBACK,
    };

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
        jobs.release(TWO);
        assert_eq!(taken(&jobs), None);
        jobs.release(ONE);
        assert_eq!(taken(&jobs), Some(6));
    }

    #[test]
    fn the_clients_of_one_nid_leave_a_worker_to_another_nid() {
        let jobs = Jobs::new(8);
        let client = |number: u8| Owner {
            client: ClientId([number; 16]),
            ..ONE
        };
        (0..20).for_each(|number| jobs.push(client(number), u32::from(number)));
        let held = std::iter::from_fn(|| taken(&jobs)).count();
        assert_eq!(held, 7);
        let elsewhere = Owner {
            client: ClientId([200; 16]),
            nid: "10.0.0.1@tcp".parse().unwrap(),
        };
        jobs.push(elsewhere, 100);
        assert_eq!(taken(&jobs), Some(100));
        jobs.release(elsewhere);
        assert_eq!(taken(&jobs), None);
    }

    #[test]
    fn a_single_worker_has_no_reserve() {
        let jobs = Jobs::new(1);
        jobs.push(ONE, 1);
        jobs.push(TWO, 2);
        assert_eq!(taken(&jobs), Some(1));
        assert_eq!(taken(&jobs), None);
        jobs.release(ONE);
        assert_eq!(taken(&jobs), Some(2));
    }

    #[test]
    fn closed_it_is_emptied_and_takes_nothing_more() {
        let jobs = Jobs::new(2);
        jobs.push(ONE, 1);
        jobs.close();
        jobs.push(ONE, 2);
        assert_eq!(jobs.take(), Some((ONE, 1)));
        jobs.release(ONE);
        assert_eq!(jobs.take(), None);
    }
}
