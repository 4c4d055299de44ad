//! The window of bulk pieces: which piece goes next, which pieces are under way, and which are done in order.
//!
//! ```text
//!   0        handed over         opened                     total
//!   |  taken  | Done InFlight Wanted |   not yet begun        |
//!             '--- at most `width` --'
//! ```
//!
//! A piece is *wanted* until it is issued, and *in flight* until it is reported done or failed. A failed piece
//! stays failed until [`Window::restart`], because the client must name fresh match bits first. A late message
//! at the old match bits could otherwise reach memory that by then has another use. Pieces that are done are
//! never moved a second time.
//!
//! This module does no I/O and holds no buffers: the caller keeps the buffers by tag or index.

use std::collections::VecDeque;

/// A piece of a bulk transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The number of the piece, from 0.
    pub(crate) index: u32,
    /// The start of the piece, in bytes from the start of the bulk.
    pub(crate) offset: u32,
    /// The length of the piece in bytes, never 0.
    pub(crate) len: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Wanted,
    InFlight(u64),
    Failed,
    Done,
}

/// The window of one transfer.
#[derive(Debug)]
pub(crate) struct Window {
    total: u32,
    piece_len: u32,
    width: usize,
    /// Index of the first piece that was not taken.
    first: u32,
    /// States of the pieces from `first` on.
    open: VecDeque<State>,
}

impl Window {
    /// Makes a window of `width` pieces of `piece_len` bytes over `total` bytes. A width or piece length of 0
    /// counts as 1.
    pub(crate) fn new(total: u32, piece_len: u32, width: usize) -> Self {
        Self {
            total,
            piece_len: piece_len.max(1),
            width: width.max(1),
            first: 0,
            open: VecDeque::new(),
        }
    }

    /// Returns the next piece to move, which is then in flight under `tag`. Returns `None` if the window is
    /// full, or if no piece is wanted.
    pub(crate) fn issue(&mut self, tag: u64) -> Option<Piece> {
        let wanted = self.open.iter().position(|&state| state == State::Wanted);
        let slot = match wanted {
            Some(slot) => slot,
            None if self.open.len() < self.width && self.next_index() < self.pieces() => {
                self.open.push_back(State::Wanted);
                self.open.len() - 1
            }
            None => return None,
        };
        self.open[slot] = State::InFlight(tag);
        Some(self.piece(self.first + slot as u32))
    }

    /// Notes that the piece of `tag` has moved. Returns `None` if no piece is in flight under `tag`.
    pub(crate) fn done(&mut self, tag: u64) -> Option<Piece> {
        self.settle(tag, State::Done)
    }

    /// Notes that the piece of `tag` has not moved and will not move. Returns `None` if no piece is in flight
    /// under `tag`.
    pub(crate) fn failed(&mut self, tag: u64) -> Option<Piece> {
        self.settle(tag, State::Failed)
    }

    /// Makes every piece that is not done wanted. No piece is in flight under an earlier tag afterwards.
    pub(crate) fn restart(&mut self) {
        for state in self.open.iter_mut().filter(|state| **state != State::Done) {
            *state = State::Wanted;
        }
    }

    /// Takes the first piece if it is done, and moves the window on by one piece. Pieces come in order.
    pub(crate) fn take(&mut self) -> Option<Piece> {
        if self.open.front() != Some(&State::Done) {
            return None;
        }
        self.open.pop_front();
        let piece = self.piece(self.first);
        self.first += 1;
        Some(piece)
    }

    /// Reports whether every piece has been taken.
    pub(crate) fn is_finished(&self) -> bool {
        self.first == self.pieces()
    }

    fn settle(&mut self, tag: u64, to: State) -> Option<Piece> {
        let slot = self
            .open
            .iter()
            .position(|&state| state == State::InFlight(tag))?;
        self.open[slot] = to;
        Some(self.piece(self.first + slot as u32))
    }

    fn next_index(&self) -> u32 {
        self.first + self.open.len() as u32
    }

    fn pieces(&self) -> u32 {
        self.total.div_ceil(self.piece_len)
    }

    fn piece(&self, index: u32) -> Piece {
        // The product is below `total`, because the index is below the number of pieces.
        let offset = index * self.piece_len;
        Piece {
            index,
            offset,
            len: self.piece_len.min(self.total - offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_byte_is_taken_once_and_in_order_whatever_fails(
            total in 0..5000_u32,
            piece_len in 1..400_u32,
            width in 1..9_usize,
            fates in prop::collection::vec(0..10_u8, 0..400),
        ) {
            let mut window = Window::new(total, piece_len, width);
            let mut fates = fates.into_iter().chain(std::iter::repeat(9));
            let (mut tag, mut taken, mut flying) = (0, 0, VecDeque::new());
            while !window.is_finished() {
                while let Some(piece) = window.issue(tag) {
                    flying.push_back((tag, piece));
                    tag += 1;
                    prop_assert!(piece.offset < taken + piece_len * width as u32);
                }
                match (flying.pop_front(), fates.next()) {
                    (Some((tag, _)), Some(0)) => { window.failed(tag); }
                    (_, Some(1)) | (None, _) => window.restart(),
                    (Some((tag, piece)), _) => {
                        if let Some(done) = window.done(tag) {
                            prop_assert_eq!(done, piece);
                        }
                    }
                }
                while let Some(piece) = window.take() {
                    prop_assert_eq!(piece.offset, taken);
                    taken += piece.len;
                }
            }
            prop_assert_eq!(taken, total);
        }
    }

    #[test]
    fn a_failed_piece_waits_for_the_restart() {
        let mut window = Window::new(10, 10, 4);
        window.issue(1).unwrap();
        window.failed(1).unwrap();
        assert_eq!(window.issue(2), None);
        window.restart();
        assert_eq!(
            window.issue(3),
            Some(Piece {
                index: 0,
                offset: 0,
                len: 10
            })
        );
    }

    #[test]
    fn a_tag_from_before_the_restart_settles_nothing() {
        let mut window = Window::new(10, 10, 4);
        window.issue(1).unwrap();
        window.restart();
        assert_eq!(window.done(1), None);
        assert!(window.take().is_none());
    }

    #[test]
    fn nothing_to_move_is_finished_at_once() {
        assert!(Window::new(0, 10, 4).is_finished());
    }
}
