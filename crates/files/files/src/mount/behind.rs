//! Writes that are confirmed to the kernel before the server has the data.
//!
//! The thread that received a piece from the kernel sends it to the server, directly from the memory of the request.
//! This module keeps only the place of the piece. The number of threads for such pieces limits their number. An
//! operation that must see all confirmed writes of a file waits for the pieces of the file that have begun.
//!
//! Pieces of one file that overlap are never in flight together, because the older one could be executed last.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The pieces in flight.
pub(crate) struct Behind {
    most: usize,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    next: u64,
    pieces: Vec<Piece>,
}

struct Piece {
    id: u64,
    node: u64,
    range: Range<u64>,
}

/// A piece in flight. Dropping the ticket ends the piece.
pub(crate) struct Ticket<'a> {
    behind: &'a Behind,
    id: u64,
}

impl Behind {
    /// Limits the pieces in flight to `most`; 0 permits none.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            state: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// Begins a piece, after all pieces in flight that overlap the range have ended. Returns `None` if the limit is
    /// reached: the caller then writes the piece before it answers the kernel.
    pub(crate) fn begin(&self, node: u64, range: Range<u64>) -> Option<Ticket<'_>> {
        let mut state = self.state();
        while state
            .pieces
            .iter()
            .any(|piece| piece.overlaps(node, &range))
        {
            state = self.wait(state);
        }
        if state.pieces.len() >= self.most {
            return None;
        }
        let id = state.next;
        state.next += 1;
        state.pieces.push(Piece { id, node, range });
        Some(Ticket { behind: self, id })
    }

    /// Waits for the pieces of a node that have begun.
    pub(crate) fn settle(&self, node: u64) {
        self.settle_those(|piece| piece.node == node);
    }

    /// Waits for the pieces of a node that have begun and overlap a range.
    pub(crate) fn settle_range(&self, node: u64, range: &Range<u64>) {
        self.settle_those(|piece| piece.overlaps(node, range));
    }

    /// Waits for all pieces that have begun.
    pub(crate) fn settle_all(&self) {
        self.settle_those(|_| true);
    }

    /// Returns the nodes that have pieces in flight.
    pub(crate) fn nodes(&self) -> Vec<u64> {
        self.state().pieces.iter().map(|piece| piece.node).collect()
    }

    fn settle_those(&self, which: impl Fn(&Piece) -> bool) {
        let mut state = self.state();
        let begun = state.next;
        while state
            .pieces
            .iter()
            .any(|piece| piece.id < begun && which(piece))
        {
            state = self.wait(state);
        }
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.ended
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Piece {
    fn overlaps(&self, node: u64, range: &Range<u64>) -> bool {
        self.node == node && self.range.start < range.end && range.start < self.range.end
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.behind
            .state()
            .pieces
            .retain(|piece| piece.id != self.id);
        self.behind.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    /// Returns whether `second` continues only after `first` was dropped.
    fn waits<'a>(first: Ticket<'a>, second: impl FnOnce() + Send + 'a) -> bool {
        let is_dropped = AtomicBool::new(false);
        thread::scope(|scope| {
            let waited = scope.spawn(|| {
                second();
                is_dropped.load(Ordering::SeqCst)
            });
            // A thread that does not wait has run by then. If it has not, the test is only weaker.
            for _ in 0..10_000 {
                thread::yield_now();
            }
            is_dropped.store(true, Ordering::SeqCst);
            drop(first);
            waited.join().unwrap()
        })
    }

    #[test]
    fn pieces_that_overlap_follow_one_another_and_others_do_not_wait() {
        let behind = Behind::new(4);
        let first = behind.begin(1, 0..10).unwrap();
        {
            let beside = [behind.begin(1, 10..20), behind.begin(2, 0..10)];
            assert!(beside.iter().all(Option::is_some));
            assert_eq!(behind.nodes(), [1, 1, 2]);
        }
        assert!(waits(first, || drop(behind.begin(1, 9..11))));
    }

    #[test]
    fn a_file_is_settled_once_its_own_pieces_have_ended() {
        let behind = Behind::new(4);
        let other = behind.begin(2, 0..10).unwrap();
        let own = behind.begin(1, 0..10).unwrap();
        behind.settle_range(1, &(10..20));
        assert!(waits(own, || behind.settle(1)));
        behind.settle(1);
        assert!(waits(other, || behind.settle_all()));
    }

    #[test]
    fn there_are_no_more_than_there_may_be() {
        assert!(Behind::new(0).begin(1, 0..1).is_none());
        let behind = Behind::new(1);
        let first = behind.begin(1, 0..1).unwrap();
        assert!(behind.begin(2, 0..1).is_none());
        drop(first);
        assert!(behind.begin(2, 0..1).is_some());
    }
}
