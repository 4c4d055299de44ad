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
//! A piece is done when its descriptor is gone, because its memory is free only then. After a restart the
//! tags given out so far mean nothing: what is heard of them changes nothing.
//!
//! No I/O here: the caller binds the descriptors, and cancels those that are left when the transfer is
//! restarted or ends.

use std::collections::BTreeMap;

use lnet_node::EventKind;

use crate::proto::BulkKind;
use crate::window::{Piece, Window};

/// A transfer whose descriptors are known as `H`.
#[derive(Debug)]
pub(crate) struct Transfer<H> {
    window: Window,
    /// The event of a piece that has moved.
    expects: EventKind,
    /// By tag. Tags count up.
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
    /// Sends the message for this piece, and says which descriptor it is [under way](Transfer::under_way) by.
    Move(Piece),
    /// Handles the memory of this piece, which is done. Pieces come in order.
    Take(Piece),
    /// Waits until something is heard.
    Wait,
    /// Nothing: every piece has been taken.
    Finished,
}

/// What an event says of a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) kind: EventKind,
    pub(crate) is_ok: bool,
    /// Bytes that moved.
    pub(crate) len: u32,
    /// The descriptor is gone, and its memory is the caller's.
    pub(crate) is_last: bool,
}

/// What became of a piece with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is under way, or of no concern any more.
    Nothing,
    /// It is done.
    Done(Piece),
    /// It is not, and waits for the client's next attempt.
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

    /// What to do next; a piece that is to be moved counts as in flight under this tag.
    ///
    /// Pieces that can be moved come before those that can be taken, so that the network is busy while the
    /// caller handles one. Each that is taken makes room in the window: there is nothing to wait for before
    /// all of it is in use.
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

    /// The piece of this tag is under way by a descriptor.
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

    /// An event of the descriptor that was bound with this tag.
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

    /// The client awaits the pieces elsewhere: all that are not done are wanted again.
    pub(crate) fn restart(&mut self) {
        self.flights.clear();
        self.window.restart();
    }

    /// The descriptors under way.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = H> {
        self.flights.values().map(|flight| flight.descriptor)
    }

    /// The descriptor that has waited longest for its answer.
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
