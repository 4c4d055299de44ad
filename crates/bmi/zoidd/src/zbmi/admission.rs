//! Admission of large inbound transfers, with turns for jobs.
//!
//! Large transfers share `slots`. Transfers that find no free slot wait in one queue per job. The jobs take
//! turns in the order of their numbers, each for as many grants as its weight; within a job, the first come
//! is the first served. With one job this is a single queue.
//!
//! ```text
//! jobs   1: g7 g9      weight 1        order: g7 g8 g10 g9 g11
//!        5: g8 g10 g11 weight 2
//! ```

use std::collections::{BTreeMap, VecDeque};

use crate::zbmi::io::{GrantId, JobId};

#[derive(Debug)]
pub(crate) struct Admission {
    slots: u32,
    running: u32,
    weights: BTreeMap<JobId, u32>,
    /// Jobs with waiting transfers; no queue is empty.
    waiting: BTreeMap<JobId, VecDeque<GrantId>>,
    /// The job whose turn it is, and the number of grants left in its turn.
    turn: (JobId, u32),
}

impl Admission {
    pub(crate) fn new(slots: u32, weights: BTreeMap<JobId, u32>) -> Self {
        let turn = (JobId::default(), 0);
        Self {
            slots,
            running: 0,
            weights,
            waiting: BTreeMap::new(),
            turn,
        }
    }

    /// Requests a slot for a transfer. Returns whether the transfer has one now; otherwise it waits.
    pub(crate) fn enter(&mut self, job: JobId, grant: GrantId) -> bool {
        if self.running < self.slots {
            self.running += 1;
            return true;
        }
        self.waiting.entry(job).or_default().push_back(grant);
        false
    }

    /// Releases the slot of a transfer. Returns the transfer that gets the slot.
    pub(crate) fn leave(&mut self) -> Option<GrantId> {
        let next = self.next();
        if next.is_none() {
            self.running -= 1;
        }
        next
    }

    /// Removes a waiting transfer.
    pub(crate) fn forget(&mut self, job: JobId, grant: GrantId) {
        if let Some(queue) = self.waiting.get_mut(&job) {
            queue.retain(|&other| other != grant);
            if queue.is_empty() {
                self.waiting.remove(&job);
            }
        }
    }

    pub(crate) fn running(&self) -> u32 {
        self.running
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    fn next(&mut self) -> Option<GrantId> {
        let job = self.job_in_turn()?;
        let queue = self.waiting.get_mut(&job)?;
        let grant = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&job);
        }
        self.turn.1 -= 1;
        grant
    }

    /// Returns the job whose turn it is; at least one grant is left in the turn.
    // [ZOID-54]
    fn job_in_turn(&mut self) -> Option<JobId> {
        let (current, left) = self.turn;
        if left > 0 && self.waiting.contains_key(&current) {
            return Some(current);
        }
        let after = (
            std::ops::Bound::Excluded(current),
            std::ops::Bound::Unbounded,
        );
        let next = self
            .waiting
            .range(after)
            .next()
            .or_else(|| self.waiting.first_key_value());
        let job = *next?.0;
        let weight = self.weights.get(&job).copied().unwrap_or(1).max(1);
        self.turn = (job, weight);
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(weights: &[(u32, u32)], waiting: &[(u32, u64)]) -> Vec<u64> {
        let weights = weights
            .iter()
            .map(|&(job, weight)| (JobId(job), weight))
            .collect();
        let mut admission = Admission::new(1, weights);
        assert!(admission.enter(JobId(0), GrantId(0)));
        for &(job, grant) in waiting {
            assert!(!admission.enter(JobId(job), GrantId(grant)));
        }
        std::iter::from_fn(|| admission.leave())
            .map(|grant| grant.0)
            .collect()
    }

    // [ZOID-54]
    #[test]
    fn one_job_is_served_first_come_first_served() {
        assert_eq!(order(&[], &[(3, 1), (3, 2), (3, 3)]), [1, 2, 3]);
    }

    // [ZOID-54]
    #[test]
    fn jobs_take_turns_by_weight() {
        let waiting = [(1, 7), (5, 8), (1, 9), (5, 10), (5, 11)];
        assert_eq!(order(&[(5, 2)], &waiting), [7, 8, 10, 9, 11]);
        assert_eq!(order(&[], &waiting), [7, 8, 9, 10, 11]);
    }

    #[test]
    fn a_weight_of_0_is_1() {
        assert_eq!(order(&[(1, 0)], &[(1, 1), (2, 2)]), [1, 2]);
    }

    #[test]
    fn a_slot_is_free_again_when_nobody_waits() {
        let mut admission = Admission::new(1, BTreeMap::new());
        assert!(admission.enter(JobId(1), GrantId(1)));
        assert!(!admission.enter(JobId(1), GrantId(2)));
        admission.forget(JobId(1), GrantId(2));
        assert_eq!(admission.leave(), None);
        assert!(admission.enter(JobId(1), GrantId(3)));
    }
}
