//! Operations that wait for a temporary buffer: the design's `no_mem`.
//!
//! A thread that frees memory goes through all of them, the largest first, and serves the first that fits. An
//! operation that smaller ones have overtaken too often or for too long blocks them until it fits, so that
//! none starves. Operations of one key keep their order.
//!
//! A program that allocates and frees memory without pause can starve an operation, too. An operation that
//! has waited for too long therefore also blocks the program's allocations, which then fail with `NoMem`. It
//! does so only if that can help: not if memory that the program keeps leaves no room for the operation.
//! Memory allocated for longer than [`AGE_MAX`] counts as kept, so the block ends within that time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bmi::OpId;

/// How often an operation may be overtaken before it blocks smaller ones ...
// [MEM-13]
const PASSED_MAX: u32 = 1000;

/// ... or for how long.
pub(super) const AGE_MAX: Duration = Duration::from_secs(5);

/// Peer, tag and direction; operations of one key keep their order.
pub(super) type Key = (u64, i32, bool);

/// The waiting operations.
// [MEM-12]
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By size, the largest first, then by age.
    ops: BTreeMap<(Reverse<usize>, u64), Waiter>,
    /// Operations that wait or are being registered, by key and age.
    keys: BTreeMap<Key, BTreeSet<u64>>,
    arrivals: u64,
}

#[derive(Debug)]
struct Waiter {
    op: OpId,
    key: Key,
    since: Instant,
    passed: u32,
}

/// An operation that gets its memory now; call [`Waiting::registered`] afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) op: OpId,
    /// How long it waited.
    pub(super) waited: Duration,
    key: Key,
    arrival: u64,
}

impl Waiting {
    /// Adds an operation.
    // [MEM-10]
    pub(super) fn add(&mut self, op: OpId, key: Key, size: usize, now: Instant) {
        self.arrivals += 1;
        let waiter = Waiter {
            op,
            key,
            since: now,
            passed: 0,
        };
        self.ops.insert((Reverse(size), self.arrivals), waiter);
        self.keys.entry(key).or_default().insert(self.arrivals);
    }

    /// Returns whether a new operation of this key would overtake a waiting one.
    // [MEM-14]
    pub(super) fn has(&self, key: Key) -> bool {
        self.keys.contains_key(&key)
    }

    /// Returns whether an operation has waited so long that no smaller one may take memory.
    pub(super) fn holds_back(&self, size: usize, now: Instant) -> bool {
        self.ops
            .iter()
            .take_while(|((Reverse(larger), _), _)| *larger > size)
            .any(|(_, waiter)| waiter.is_aged(now))
    }

    /// Returns the size of the operation in favour of which the program's allocations are rejected: of those
    /// that have waited too long, the one that is served first.
    // [MEM-15]
    pub(super) fn overdue(&self, now: Instant) -> Option<usize> {
        let overdue = |&(place, waiter): &(&(Reverse<usize>, u64), &Waiter)| {
            waiter.age(now) >= AGE_MAX && self.is_next_of_key(waiter.key, place.1)
        };
        let ((Reverse(size), _), _) = self.ops.iter().find(overdue)?;
        Some(*size)
    }

    /// Returns whether no operation of this key is older.
    fn is_next_of_key(&self, key: Key, arrival: u64) -> bool {
        self.keys.get(&key).and_then(BTreeSet::first) == Some(&arrival)
    }

    /// Returns the first operation that gets memory from `allocate`, which is called with its size, and the
    /// memory.
    pub(super) fn next<M>(
        &mut self,
        now: Instant,
        mut allocate: impl FnMut(usize) -> Option<M>,
    ) -> Option<(Turn, M)> {
        let mut passed = Vec::new();
        let mut found = None;
        for (&(Reverse(size), arrival), waiter) in &self.ops {
            if !self.is_next_of_key(waiter.key, arrival) {
                continue;
            }
            if let Some(memory) = allocate(size) {
                found = Some(((Reverse(size), arrival), memory));
                break;
            }
            if waiter.is_aged(now) {
                break;
            }
            passed.push((Reverse(size), arrival));
        }
        let (place, memory) = found?;
        for place in passed {
            if let Some(waiter) = self.ops.get_mut(&place) {
                waiter.passed += 1;
            }
        }
        let waiter = self.ops.remove(&place)?;
        let turn = Turn {
            op: waiter.op,
            waited: waiter.age(now),
            key: waiter.key,
            arrival: place.1,
        };
        Some((turn, memory))
    }

    /// Records that an operation is registered, or never will be, so that the next of its key can be.
    pub(super) fn registered(&mut self, turn: Turn) {
        self.leave(turn.key, turn.arrival);
    }

    /// Removes an operation. Returns how long it waited; `None` if it did not.
    pub(super) fn remove(&mut self, op: OpId, now: Instant) -> Option<Duration> {
        let place = self.ops.iter().find(|(_, waiter)| waiter.op == op);
        let place = place.map(|(place, _)| *place)?;
        let waiter = self.ops.remove(&place)?;
        self.leave(waiter.key, place.1);
        Some(waiter.age(now))
    }

    fn leave(&mut self, key: Key, arrival: u64) {
        if let Some(arrivals) = self.keys.get_mut(&key) {
            arrivals.remove(&arrival);
            if arrivals.is_empty() {
                self.keys.remove(&key);
            }
        }
    }

    /// Removes all. Returns how many there were.
    pub(super) fn clear(&mut self) -> usize {
        let count = self.ops.len();
        self.ops.clear();
        self.keys.clear();
        count
    }
}

impl Waiter {
    fn is_aged(&self, now: Instant) -> bool {
        self.passed >= PASSED_MAX || self.age(now) >= AGE_MAX
    }

    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: i64) -> OpId {
        OpId::from_number(number).unwrap()
    }

    fn waiting(ops: &[(i64, i32, usize)]) -> (Waiting, Instant) {
        let now = Instant::now();
        let mut waiting = Waiting::default();
        for &(number, tag, size) in ops {
            waiting.add(id(number), (0, tag, true), size, now);
        }
        (waiting, now)
    }

    fn fits(limit: usize) -> impl FnMut(usize) -> Option<usize> {
        move |size| (size <= limit).then_some(size)
    }

    // [MEM-12]
    #[test]
    fn r56_the_largest_that_fits_is_next() {
        let (mut waiting, now) = waiting(&[(1, 1, 10), (2, 2, 30), (3, 3, 20)]);
        let mut order = Vec::new();
        for limit in [25, 5, 30, 30] {
            let turn = waiting.next(now, fits(limit)).map(|(turn, _)| turn);
            order.push(turn.map(|turn| turn.op));
            turn.into_iter().for_each(|turn| waiting.registered(turn));
        }
        assert_eq!(order, [Some(id(3)), None, Some(id(2)), Some(id(1))]);
    }

    // [MEM-14]
    #[test]
    fn r56_a_key_keeps_its_order_until_the_older_one_is_registered() {
        let (mut waiting, now) = waiting(&[(1, 7, 30), (2, 7, 10)]);
        assert_eq!(waiting.next(now, fits(20)), None);
        let (turn, _) = waiting.next(now, fits(30)).unwrap();
        assert_eq!(waiting.next(now, fits(20)), None);
        assert!(waiting.has((0, 7, true)));
        waiting.registered(turn);
        assert_eq!(waiting.next(now, fits(20)).unwrap().0.op, id(2));
    }

    // [MEM-13]
    #[test]
    fn r56_who_was_passed_over_a_thousand_times_holds_smaller_ones_back() {
        let (mut waiting, now) = waiting(&[(1, 1, 100)]);
        for number in 0..1000 {
            assert!(!waiting.holds_back(10, now));
            waiting.add(id(number + 2), (0, 2, true), 10, now);
            let (turn, _) = waiting.next(now, fits(10)).unwrap();
            waiting.registered(turn);
        }
        waiting.add(id(5000), (0, 2, true), 10, now);
        assert_eq!(waiting.next(now, fits(10)), None);
        assert!(waiting.holds_back(10, now));
        assert_eq!(waiting.next(now, fits(100)).unwrap().0.op, id(1));
    }

    // [MEM-13]
    #[test]
    fn r56_who_has_waited_five_seconds_holds_smaller_ones_back() {
        let (mut waiting, now) = waiting(&[(1, 1, 100), (2, 2, 10)]);
        let later = now + AGE_MAX;
        assert_eq!(waiting.next(later, fits(10)), None);
        assert_eq!(waiting.next(now, fits(10)).unwrap().0.op, id(2));
    }

    #[test]
    fn r56_of_those_who_have_waited_five_seconds_the_one_in_turn_is_overdue() {
        let (mut waiting, now) = waiting(&[(1, 1, 100), (2, 1, 400), (3, 2, 50)]);
        let later = now + AGE_MAX;
        waiting.add(id(4), (0, 3, true), 300, now + AGE_MAX / 2);
        assert_eq!(waiting.overdue(later - Duration::from_nanos(1)), None);
        // The largest waits for an older one of its key; the second has not waited long enough.
        assert_eq!(waiting.overdue(later), Some(100));
        assert_eq!(waiting.clear(), 4);
        assert_eq!(waiting.overdue(later), None);
    }

    #[test]
    fn r62_any_of_three_can_be_taken_away() {
        for gone in 1..=3 {
            let (mut waiting, now) = waiting(&[(1, 1, 10), (2, 2, 20), (3, 3, 30)]);
            let waited = Duration::from_millis(7);
            assert_eq!(waiting.remove(id(gone), now + waited), Some(waited));
            assert_eq!(waiting.remove(id(gone), now), None);
            let mut left = Vec::new();
            while let Some((turn, _)) = waiting.next(now, fits(100)) {
                left.push(turn.op.number());
                waiting.registered(turn);
            }
            left.sort_unstable();
            let expected: Vec<i64> = (1..=3).filter(|number| *number != gone).collect();
            assert_eq!(left, expected);
        }
    }
}
