//! One exchange and the file data that it moves.
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

/// Limit of the buffers of one exchange at the same time: two in transfer, and one that a worker uses.
pub(super) const WINDOW: usize = 3;

/// Memory of a message, and its kind.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) memory: Memory,
    pub(super) span: Span,
}

/// What an exchange does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It receives its request, which follows as a message of its own.
    Request,
    /// It waits for an earlier attempt.
    Waiting,
    /// It is being executed.
    Running,
    /// It sends its answer.
    Answering,
}

/// Which buffers an exchange needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No buffer.
    Plain,
    /// One buffer for the request.
    Request,
    /// Memory for the reply.
    Room,
    /// Buffers for the pieces of the data to write.
    Write,
    /// One buffer for all data to append.
    Append,
    /// Buffers for the pieces of the data to read.
    Read,
}

/// A message of data that is posted.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) number: u64,
    pub(super) range: Range<u64>,
    /// Bytes of memory that the message uses.
    pub(super) bytes: u64,
    /// Number of bytes read of each segment before this piece.
    pub(super) before: Vec<u64>,
    /// How the operation ended; `None` until then.
    pub(super) end: Option<End>,
}

/// Data that arrived and waits to be written.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) range: Range<u64>,
    /// Bytes of memory that the data uses.
    pub(super) bytes: u64,
    /// The message: a head and the data.
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
    /// Data to write that arrived together with the request.
    pub(super) data: Vec<u8>,
    pub(super) phase: Phase,
    pub(super) stage: Stage,
    pub(super) length: u64,
    /// End of the part of the data for which the exchange was given buffers.
    pub(super) ahead: u64,
    /// Number of pieces read that were posted for sending.
    pub(super) sent: u32,
    /// Number of bytes transferred of each segment.
    pub(super) counts: Vec<u64>,
    pub(super) pieces: VecDeque<Piece>,
    /// Data that arrived and is not written yet.
    pub(super) ready: VecDeque<Ready>,
    /// Whether a worker executes a task of this exchange.
    pub(super) is_busy: bool,
    /// Whether a piece is about to be posted.
    pub(super) is_posting: bool,
    /// Numbers of the operations that are posted.
    pub(super) ops: Vec<u64>,
    /// Whether the exchange waits for a buffer.
    pub(super) wants: bool,
    /// Whether the last piece was read.
    pub(super) is_over: bool,
    /// Whether the answer was sent.
    pub(super) is_answered: bool,
    /// Whether the buffers are being taken back.
    pub(super) yields: bool,
    /// Whether the client no longer waits for the answer.
    pub(super) is_lost: bool,
    /// How long in all the client kept buffers without progress before they were taken back.
    pub(super) waited: Duration,
    /// Bytes of memory that are reserved for the reply.
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

    /// Returns the number of the next answer: the number of pieces sent before it.
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

    /// Returns the range of the next piece.
    pub(super) fn next_piece(&self) -> Range<u64> {
        let piece = match self.stage {
            Stage::Append => self.length,
            _ => u64::from(self.head.piece),
        };
        self.ahead..self.length.min(self.ahead + piece)
    }

    /// Returns the number of bytes of memory that the next step needs.
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

    /// Returns whether the exchange could use another buffer now.
    pub(super) fn could_go_on(&self) -> bool {
        let moves = match self.stage {
            Stage::Write | Stage::Append => self.pieces.len() + self.ready.len() + 1 < WINDOW,
            Stage::Read => self.pieces.len() + 1 < WINDOW && !self.is_busy,
            _ => false,
        };
        let is_held = self.wants || self.is_posting || self.is_over || self.yields || self.is_lost;
        moves && self.ahead < self.length && self.phase == Phase::Running && !is_held
    }

    /// Removes the pieces that were transferred, in their order. Once all operations of buffers to be taken back have
    /// ended, rewinds the exchange to the first piece that was not transferred.
    ///
    /// # Errors
    ///
    /// A piece was transferred behind a piece that was not. The order of later messages is then unknown.
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

/// Returns the bytes of memory for a message with `length` bytes of data read, and for the reply behind the data.
pub(super) fn read_need(length: u64, segments: usize) -> u64 {
    length + ANSWER_BYTES as u64 + 16 + 8 * segments as u64
}
