//! The RPCs that took longest in the last minutes.
//!
//! Two lists of limited length: that of the minute that runs, and that of the minute before.

use std::time::Duration;

use lnet_ptlrpc::Rpc;
use lnet_types::Time;

/// The most RPCs of a list.
pub(super) const SLOWEST_MAX: usize = 32;

/// How long a list is filled.
const PERIOD: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Slowest {
    now: Vec<Rpc>,
    before: Vec<Rpc>,
    since: Time,
}

impl Slowest {
    pub(super) fn add(&mut self, rpc: &Rpc, now: Time) {
        self.turn(now);
        if rpc.took().is_none() {
            return;
        }
        let at = self.now.partition_point(|other| other.took() >= rpc.took());
        if at < SLOWEST_MAX {
            self.now.insert(at, rpc.clone());
            self.now.truncate(SLOWEST_MAX);
        }
    }

    /// Returns the slowest of both lists, the slowest first.
    pub(super) fn both(&self) -> Vec<Rpc> {
        let mut both = [&self.now[..], &self.before[..]].concat();
        both.sort_by_key(|rpc| std::cmp::Reverse(rpc.took()));
        both.truncate(SLOWEST_MAX);
        both
    }

    /// Forgets what is too old.
    pub(super) fn turn(&mut self, now: Time) {
        let age = now.saturating_since(self.since);
        if age < PERIOD {
            return;
        }
        self.before = std::mem::take(&mut self.now);
        if age >= 2 * PERIOD {
            self.before.clear();
        }
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpcs::tests::rpc;

    fn took(millis: u64) -> Rpc {
        Rpc {
            ended: Some(Time::ZERO + Duration::from_millis(millis)),
            ..rpc(1)
        }
    }

    fn millis(slowest: &Slowest) -> Vec<u128> {
        let both = slowest.both();
        let took = both.iter().filter_map(Rpc::took);
        took.map(|took| took.as_millis()).collect()
    }

    #[test]
    fn the_slowest_are_kept_in_order_and_their_number_is_limited() {
        let mut slowest = Slowest::default();
        for at in 0..1000 {
            slowest.add(&took(at * 7 % 1000), Time::ZERO);
        }
        slowest.add(&rpc(1), Time::ZERO);
        let expected: Vec<u128> = (0..SLOWEST_MAX as u128).map(|at| 999 - at).collect();
        assert_eq!(millis(&slowest), expected);
    }

    #[test]
    fn what_is_two_minutes_old_is_forgotten() {
        let mut slowest = Slowest::default();
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        slowest.add(&took(9), at(1));
        slowest.add(&took(5), at(61));
        assert_eq!(millis(&slowest), [9, 5]);
        slowest.add(&took(3), at(122));
        assert_eq!(millis(&slowest), [5, 3]);
        slowest.turn(at(400));
        assert_eq!(millis(&slowest), [0; 0]);
    }
}
