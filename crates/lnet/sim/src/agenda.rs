//! The queue of future events.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The planned events of a run, the earliest first. Events at the same time are in the order of planning.
#[derive(Debug)]
pub(crate) struct Agenda<H> {
    entries: BinaryHeap<Reverse<Entry<H>>>,
    planned: u64,
}

#[derive(Debug)]
struct Entry<H> {
    at: u64,
    number: u64,
    what: H,
}

impl<H> Agenda<H> {
    pub(crate) fn new() -> Self {
        Self {
            entries: BinaryHeap::new(),
            planned: 0,
        }
    }

    pub(crate) fn plan(&mut self, at: u64, what: H) {
        self.planned += 1;
        let number = self.planned;
        self.entries.push(Reverse(Entry { at, number, what }));
    }

    pub(crate) fn next(&mut self) -> Option<(u64, H)> {
        let Reverse(entry) = self.entries.pop()?;
        Some((entry.at, entry.what))
    }
}

impl<H> PartialEq for Entry<H> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<H> Eq for Entry<H> {}

impl<H> PartialOrd for Entry<H> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<H> Ord for Entry<H> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_equal_times_keep_the_order_of_planning() {
        let mut agenda = Agenda::new();
        for (at, what) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd')] {
            agenda.plan(at, what);
        }
        let order: Vec<_> = std::iter::from_fn(|| agenda.next()).collect();
        assert_eq!(order, [(3, 'b'), (3, 'd'), (5, 'a'), (5, 'c')]);
    }
}
