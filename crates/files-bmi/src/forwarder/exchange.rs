//! One exchange, and the bytes of files that move in it.
//!
//! ```text
//!   write    a buffer ─▶ receive posted ─▶ arrived ─▶ written (one at a time, in order) ─▶ ... ─▶ answer
//!   read     a buffer ─▶ read ─▶ send posted ─▶ sent ─▶ ...    the last piece goes with the answer
//! ```
//!
//! Pieces are posted one after the other, because messages of one tag match in the order of posting.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bmi::{Address, Memory, Tag};
use files::{Caller, Request, Segment};
use sys::span::Span;

use super::schedule::Owner;
use crate::proto::{ANSWER_BYTES, CallHead, DATA_BYTES};

/// Buffers of one exchange at the same time: two that move and one that is worked on.
pub(super) const WINDOW: usize = 3;

/// Memory of a message, and where it came from.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) memory: Memory,
    pub(super) span: Span,
}

/// What an exchange does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its request comes as a message of its own.
    Request,
    /// It waits for an earlier attempt.
    Waiting,
    /// It is carried out.
    Running,
    /// Its answer is on the way.
    Answering,
}

/// Which buffers it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// None.
    Plain,
    /// One for its request.
    Request,
    /// One for its reply.
    Room,
    /// Those of what is written.
    Write,
    /// One for all that is appended.
    Append,
    /// Those of what is read.
    Read,
}

/// A message of data that is posted.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) number: u64,
    pub(super) range: Range<u64>,
    /// Bytes of memory that it has.
    pub(super) bytes: u64,
    /// What was read of each segment before this piece.
    pub(super) before: Vec<u64>,
    /// How the operation ended.
    pub(super) end: Option<End>,
}

/// Data that arrived.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) range: Range<u64>,
    /// Bytes of memory that it has.
    pub(super) bytes: u64,
    /// A head and the data.
    pub(super) held: Held,
}

/// How a message of data ended.
#[derive(Debug)]
pub(super) enum End {
    Arrived(Held),
    Sent,
    TakenBack,
}

#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) from: Address,
    pub(super) tag: Tag,
    pub(super) head: CallHead,
    pub(super) caller: Arc<Caller>,
    pub(super) request: Arc<Request>,
    /// What came with the request to be written.
    pub(super) data: Vec<u8>,
    pub(super) phase: Phase,
    pub(super) stage: Stage,
    pub(super) length: u64,
    /// Up to where buffers were given.
    pub(super) ahead: u64,
    /// Pieces that were posted to the client, of those that were read.
    pub(super) sent: u32,
    /// What was done of each segment.
    pub(super) counts: Vec<u64>,
    pub(super) pieces: VecDeque<Piece>,
    /// Data that arrived and is not written yet.
    pub(super) ready: VecDeque<Ready>,
    /// A worker is at it.
    pub(super) is_busy: bool,
    /// A piece is about to be posted.
    pub(super) is_posting: bool,
    /// Operations that are posted, by number.
    pub(super) ops: Vec<u64>,
    /// It waits for a buffer.
    pub(super) wants: bool,
    /// The last piece was read.
    pub(super) is_over: bool,
    /// Its answer was sent.
    pub(super) is_answered: bool,
    /// Its buffers are being taken back.
    pub(super) yields: bool,
    /// Nobody waits for its answer any longer.
    pub(super) is_lost: bool,
    /// How long its client has kept buffers waiting that were taken back.
    pub(super) waited: Duration,
    /// Bytes of memory that are kept for its reply.
    pub(super) reserved: u64,
}

impl Exchange {
    pub(super) fn new(from: Address, tag: Tag, head: CallHead) -> Self {
        Self {
            from,
            tag,
            head,
            caller: Arc::default(),
            request: Arc::new(Request::Null),
            data: Vec::new(),
            phase: Phase::Request,
            stage: Stage::Plain,
            length: 0,
            ahead: 0,
            sent: 0,
            counts: Vec::new(),
            pieces: VecDeque::new(),
            ready: VecDeque::new(),
            is_busy: false,
            is_posting: false,
            ops: Vec::new(),
            wants: false,
            is_over: false,
            is_answered: false,
            yields: false,
            is_lost: false,
            waited: Duration::ZERO,
            reserved: 0,
        }
    }

    /// The number of the next answer: how many pieces have gone before it.
    pub(super) fn ahead_answers(&self) -> u32 {
        match self.stage {
            Stage::Read => self.sent,
            _ => 0,
        }
    }

    pub(super) fn owner(&self) -> Owner {
        Owner {
            job: self.head.job,
            client: self.from.number().unsigned_abs(),
        }
    }

    pub(super) fn segments(&self) -> &[Segment] {
        match &*self.request {
            Request::Read { segments, .. } | Request::Write { segments, .. } => segments,
            _ => &[],
        }
    }

    /// The piece that comes next.
    pub(super) fn next_piece(&self) -> Range<u64> {
        let piece = match self.stage {
            Stage::Append => self.length,
            _ => u64::from(self.head.piece),
        };
        self.ahead..self.length.min(self.ahead + piece)
    }

    /// Bytes of memory that the next step needs.
    pub(super) fn need(&self) -> u64 {
        let piece = self.next_piece();
        match self.stage {
            Stage::Plain => 0,
            Stage::Request => u64::from(self.head.request),
            Stage::Room => u64::from(self.head.room),
            Stage::Write | Stage::Append => piece.end - piece.start + DATA_BYTES as u64,
            Stage::Read => read_need(piece.end - piece.start, self.segments().len()),
        }
    }

    /// Whether it could use another buffer.
    pub(super) fn could_go_on(&self) -> bool {
        let moves = match self.stage {
            Stage::Write | Stage::Append => self.pieces.len() + self.ready.len() + 1 < WINDOW,
            Stage::Read => self.pieces.len() + 1 < WINDOW && !self.is_busy,
            _ => false,
        };
        let is_held = self.wants || self.is_posting || self.is_over || self.yields || self.is_lost;
        moves && self.ahead < self.length && self.phase == Phase::Running && !is_held
    }

    /// Takes those pieces off that have moved, in their order, and says whether all that were taken back are back.
    ///
    /// # Errors
    ///
    /// A message moved behind one that did not: nobody knows which is which.
    pub(super) fn settle(&mut self) -> Result<(), ()> {
        while let Some(piece) = self
            .pieces
            .pop_front_if(|piece| matches!(piece.end, Some(End::Arrived(_) | End::Sent)))
        {
            if let Some(End::Arrived(held)) = piece.end {
                self.ready.push_back(Ready {
                    range: piece.range,
                    bytes: piece.bytes,
                    held,
                });
            }
        }
        if !self.yields || self.pieces.iter().any(|piece| piece.end.is_none()) {
            return Ok(());
        }
        self.yields = false;
        let is_back = |piece: &Piece| matches!(piece.end, Some(End::TakenBack));
        if !self.pieces.iter().all(is_back) {
            return Err(());
        }
        self.sent = self.sent.saturating_sub(self.pieces.len() as u32);
        if let Some(first) = self.pieces.pop_front() {
            self.ahead = first.range.start;
            self.is_over = false;
            if self.stage == Stage::Read {
                self.counts = first.before;
            }
        }
        self.pieces.clear();
        Ok(())
    }
}

/// Memory for a message with so many bytes that were read, and for the reply behind them.
pub(super) fn read_need(length: u64, segments: usize) -> u64 {
    length + ANSWER_BYTES as u64 + 16 + 8 * segments as u64
}
