//! The queue of future events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::plan::PortId;

/// An event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    /// A message is at the end of its path; the number is its index among the flights.
    Arrival(u32),
    /// A program begins an operation.
    Operation(u32),
    /// A program unlinks the memory of an operation.
    Cancel(u32),
    /// A connection was set up, or failed; the number is its index among the diallings.
    Dialled(u32),
    /// The timer of a core expires.
    CoreTimer(u32),
    /// The timer of a driver expires.
    LndTimer(PortId),
    /// A fault begins.
    FaultBegins(u32),
    /// A fault ends.
    FaultEnds(u32),
    /// The checkers examine all nodes.
    Look,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    number: u64,
    what: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// The planned events, the earliest first. Events at the same time are in the order of planning.
#[derive(Debug, Default)]
pub(super) struct Heap {
    entries: BinaryHeap<Reverse<Entry>>,
    planned: u64,
}

impl Heap {
    pub(super) fn plan(&mut self, at: u64, what: Happening) {
        self.planned += 1;
        let number = self.planned;
        self.entries.push(Reverse(Entry { at, number, what }));
    }

    pub(super) fn next(&mut self) -> Option<(u64, Happening)> {
        self.entries
            .pop()
            .map(|Reverse(entry)| (entry.at, entry.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_the_order_of_planning() {
        let mut heap = Heap::default();
        for (at, index) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            heap.plan(at, Happening::Operation(index));
        }
        let order: Vec<_> = std::iter::from_fn(|| heap.next()).collect();
        let expected = [(3, 1), (3, 3), (5, 0), (5, 2)];
        assert_eq!(
            order,
            expected.map(|(at, index)| (at, Happening::Operation(index)))
        );
    }
}
