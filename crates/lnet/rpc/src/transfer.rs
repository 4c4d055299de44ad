//! One transfer of bulk on the server's side: its window, and the pieces under way by tag.
//!
//! ```text
//!             next, under_way          expected event, whole      last event
//!   wanted ───────────────────▶ under way ──────────▶ moved ──────────────────▶ done
//!     ▲                             │ last event                    │ restart
//!     │                             ▼                               │
//!     └────────── restart ─────── failed      wanted ◀──────────────┘
//! ```
//!
//! A piece is done when its descriptor is gone, because its memory is free only then. After a restart, events
//! with tags from before the restart change nothing.
//!
//! This module does no I/O: the caller binds the descriptors, and cancels the remaining descriptors when the
//! transfer restarts or ends.

use std::collections::BTreeMap;

use lnet_node::EventKind;

use crate::proto::BulkKind;
use crate::window::{Piece, Window};

/// A transfer that names its descriptors by values of type `H`.
#[derive(Debug)]
pub(crate) struct Transfer<H> {
    window: Window,
    /// The kind of event that says that a piece has moved.
    expects: EventKind,
    /// The pieces under way, by tag. Tags count up, so the first piece is the oldest.
    flights: BTreeMap<u64, Flight<H>>,
}

#[derive(Debug)]
struct Flight<H> {
    descriptor: H,
    len: u32,
    has_moved: bool,
}

/// What the driver of a transfer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send the message for this piece, then name its descriptor to [`Transfer::under_way`].
    Move(Piece),
    /// Handle the memory of this piece, which is done. Pieces come in order.
    Take(Piece),
    /// Wait for the next event.
    Wait,
    /// Do nothing: every piece has been taken.
    Finished,
}

/// What an event says about a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) kind: EventKind,
    pub(crate) is_ok: bool,
    /// Bytes that moved.
    pub(crate) len: u32,
    /// True if the descriptor is gone and its memory belongs to the caller.
    pub(crate) is_last: bool,
}

/// The state of a piece after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The piece is still under way, or its tag is from before a restart.
    Nothing,
    /// The piece is done.
    Done(Piece),
    /// The piece has failed, and waits for the client's next attempt.
    Failed,
}

impl<H: Copy> Transfer<H> {
    pub(crate) fn new(kind: BulkKind, window: Window) -> Self {
        let expects = match kind {
            BulkKind::Read => EventKind::Reply,
            BulkKind::Write | BulkKind::None => EventKind::Ack,
        };
        Self {
            window,
            expects,
            flights: BTreeMap::new(),
        }
    }

    /// Returns what to do next. A piece that is to be moved counts as in flight under this tag.
    ///
    /// Pieces that can be moved come before pieces that can be taken, so that the network is busy while the
    /// caller handles a piece. Each piece that is taken makes room in the window, so the driver waits only
    /// while the whole window is in use.
    pub(crate) fn next(&mut self, tag: u64) -> Next {
        if let Some(piece) = self.window.issue(tag) {
            return Next::Move(piece);
        }
        match self.window.take() {
            Some(piece) => Next::Take(piece),
            None if self.window.is_finished() => Next::Finished,
            None => Next::Wait,
        }
    }

    /// Notes that the piece of this tag is under way by `descriptor`.
    pub(crate) fn under_way(&mut self, tag: u64, piece: Piece, descriptor: H) {
        self.flights.insert(
            tag,
            Flight {
                descriptor,
                len: piece.len,
                has_moved: false,
            },
        );
    }

    /// Handles an event of the descriptor that was bound with this tag.
    pub(crate) fn heard(&mut self, tag: u64, heard: Heard) -> Fate {
        let Some(flight) = self.flights.get_mut(&tag) else {
            return Fate::Nothing;
        };
        let is_whole = heard.len == flight.len;
        flight.has_moved |= heard.kind == self.expects && heard.is_ok && is_whole;
        if !heard.is_last {
            return Fate::Nothing;
        }
        let has_moved = flight.has_moved;
        self.flights.remove(&tag);
        if has_moved {
            return self.window.done(tag).map_or(Fate::Nothing, Fate::Done);
        }
        self.window.failed(tag);
        Fate::Failed
    }

    /// Restarts at the match bits of the client's newer attempt: every piece that is not done becomes wanted.
    pub(crate) fn restart(&mut self) {
        self.flights.clear();
        self.window.restart();
    }

    /// Returns the descriptors under way.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = H> {
        self.flights.values().map(|flight| flight.descriptor)
    }

    /// Returns the descriptor that has waited longest for its answer.
    pub(crate) fn oldest_hanging(&self) -> Option<H> {
        let mut hanging = self.flights.values().filter(|flight| !flight.has_moved);
        hanging.next().map(|flight| flight.descriptor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACK: Heard = Heard {
        kind: EventKind::Ack,
        is_ok: true,
        len: 10,
        is_last: false,
    };
    const SENT: Heard = Heard {
        kind: EventKind::Send,
        ..ACK
    };

    /// A transfer of two pieces that are under way with tags 1 and 2.
    fn transfer() -> (Transfer<char>, Piece) {
        let mut transfer = Transfer::new(BulkKind::Write, Window::new(20, 10, 2));
        let first = begin(&mut transfer, 1, 'a');
        begin(&mut transfer, 2, 'b');
        (transfer, first)
    }

    fn begin(transfer: &mut Transfer<char>, tag: u64, descriptor: char) -> Piece {
        let Next::Move(piece) = transfer.next(tag) else {
            panic!("there is room in the window")
        };
        transfer.under_way(tag, piece, descriptor);
        piece
    }

    fn last(heard: Heard) -> Heard {
        Heard {
            is_last: true,
            ..heard
        }
    }

    #[test]
    fn a_piece_is_done_with_the_last_event_whichever_comes_first() {
        for events in [[SENT, last(ACK)], [ACK, last(SENT)]] {
            let (mut transfer, first) = transfer();
            assert_eq!(transfer.heard(1, events[0]), Fate::Nothing);
            assert_eq!(transfer.next(3), Next::Wait);
            assert_eq!(transfer.heard(1, events[1]), Fate::Done(first));
            assert_eq!(transfer.next(3), Next::Take(first));
        }
    }

    #[test]
    fn a_piece_that_is_taken_makes_room_for_the_next_one() {
        let mut transfer = Transfer::new(BulkKind::Write, Window::new(20, 10, 1));
        let first = begin(&mut transfer, 1, 'a');
        transfer.heard(1, last(ACK));
        assert_eq!(transfer.next(2), Next::Take(first));
        let second = begin(&mut transfer, 2, 'b');
        transfer.heard(2, last(ACK));
        assert_eq!(transfer.next(3), Next::Take(second));
        assert_eq!(transfer.next(3), Next::Finished);
    }

    #[test]
    fn a_piece_that_arrived_in_part_or_not_at_all_has_failed() {
        let failures = [
            Heard { len: 9, ..ACK },
            Heard {
                is_ok: false,
                ..ACK
            },
            SENT,
            Heard {
                kind: EventKind::Unlink,
                ..ACK
            },
        ];
        for failure in failures {
            let (mut transfer, _) = transfer();
            assert_eq!(transfer.heard(1, last(failure)), Fate::Failed);
            assert_eq!(transfer.next(3), Next::Wait);
        }
    }

    #[test]
    fn what_is_heard_of_a_piece_from_before_the_restart_changes_nothing() {
        let (mut transfer, first) = transfer();
        transfer.heard(1, ACK);
        transfer.restart();
        assert_eq!(transfer.heard(1, last(SENT)), Fate::Nothing);
        assert_eq!(transfer.descriptors().count(), 0);
        assert_eq!(transfer.next(3), Next::Move(first));
    }

    #[test]
    fn the_oldest_piece_without_an_answer_hangs() {
        let (mut transfer, _) = transfer();
        assert_eq!(transfer.oldest_hanging(), Some('a'));
        transfer.heard(1, ACK);
        assert_eq!(transfer.oldest_hanging(), Some('b'));
    }
}
