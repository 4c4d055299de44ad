//! One read or one write of a connection, to be done by any thread without a lock.
//!
//! ```text
//!  Socklnd::next_job ──▶ Job::run ──▶ Socklnd::finish
//!    under the lock      no lock      under the lock
//! ```
//!
//! A job owns what it touches: a handle of the stream, landings and payloads. When its connection is
//! closed meanwhile, its outcome is of no consequence, and the memory is let go when it ends.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use bytes::Bytes;
use lnd::Upper;
use sys::span::Span;
use sys::{Gather, Scatter};

use crate::network::Stream;
use crate::receive::WINDOW_MAX;

/// Payload of a message to be sent.
#[derive(Clone, Debug)]
pub enum Source {
    /// Bytes that nobody can change.
    Shared(Bytes),
    /// Memory that nobody changes meanwhile.
    Span(Span),
}

impl Source {
    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Shared(bytes) => bytes.len(),
            Self::Span(span) => span.len(),
        }
    }

    /// True when it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A node whose memory is what this LND moves.
pub trait Above: Upper<Landing = Span, Payload = Source> {}

impl<T: Upper<Landing = Span, Payload = Source>> Above for T {}

/// What one read takes at most behind the landing: some 15 messages of 4 KiB.
pub(crate) const STAGED_MAX: usize = 64 << 10;

/// Memory of a thread that runs jobs: what a read takes beyond the landing of a message is here until
/// [`crate::Socklnd::finish`]. It takes room with the first read.
#[derive(Debug, Default)]
pub struct Staging {
    bytes: Vec<u8>,
}

impl Staging {
    fn room(&mut self, room: &Room) -> &mut [u8] {
        self.bytes.resize(WINDOW_MAX + STAGED_MAX, 0);
        &mut self.bytes[room.lead..room.lead + room.staged]
    }

    /// The first `count` bytes behind a gap of `lead` bytes, and the gap.
    pub(crate) fn with_lead(&mut self, lead: &[u8], count: usize) -> &[u8] {
        self.bytes[..lead.len()].copy_from_slice(lead);
        &self.bytes[..lead.len() + count]
    }
}

/// What one read is to fill.
#[derive(Debug)]
pub(crate) struct Room {
    /// What is missing of the payload under way.
    pub(crate) landing: Option<Span>,
    /// Bytes that were read before and belong in front of those that are staged.
    pub(crate) lead: usize,
    /// Bytes to be staged at most.
    pub(crate) staged: usize,
}

impl Room {
    pub(crate) fn len(&self) -> usize {
        self.landed_max() + self.staged
    }

    /// Bytes that go where they belong at once.
    pub(crate) fn landed_max(&self) -> usize {
        self.landing.as_ref().map_or(0, Span::len)
    }
}

/// A frame, or what is left of one, as a write takes it.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) head: [u8; WINDOW_MAX],
    pub(crate) head_len: usize,
    pub(crate) payload: Option<Source>,
}

#[derive(Debug)]
pub(crate) enum Work {
    Read(Room),
    Write {
        pieces: Vec<Piece>,
        /// Bytes of the first piece that are written already.
        skip: usize,
    },
}

/// One read or one write of a connection.
#[derive(Debug)]
pub struct Job<S> {
    pub(crate) slot: usize,
    /// That of the connection; another one may have its slot by now.
    pub(crate) serial: u64,
    pub(crate) stream: Arc<S>,
    pub(crate) work: Work,
    pub(crate) outcome: Outcome,
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Bytes that could have moved.
    pub(crate) offered: usize,
    /// Bytes that did, or why none did.
    pub(crate) moved: Result<usize, ErrorKind>,
}

impl Outcome {
    /// That of a job which has not run.
    pub(crate) const NONE: Self = Self {
        offered: 0,
        moved: Err(ErrorKind::WouldBlock),
    };

    /// Less moved than could have: the stream is empty, or full.
    pub(crate) fn is_short(&self) -> bool {
        self.moved != Ok(self.offered)
    }
}

impl<S: Stream> Job<S> {
    /// Moves the bytes: one system call.
    pub fn run(&mut self, staging: &mut Staging) {
        loop {
            self.outcome = match &self.work {
                Work::Read(room) => read(&*self.stream, room, staging),
                Work::Write { pieces, skip } => write(&*self.stream, pieces, *skip),
            };
            if self.outcome.moved != Err(ErrorKind::Interrupted) {
                return;
            }
        }
    }
}

fn read(stream: &impl Stream, room: &Room, staging: &mut Staging) -> Outcome {
    let mut parts = Scatter::default();
    if let Some(landing) = &room.landing {
        parts.add_span(landing);
    }
    parts.add(staging.room(room));
    outcome(room.len(), stream.read(&mut parts))
}

fn write(stream: &impl Stream, pieces: &[Piece], mut skip: usize) -> Outcome {
    let mut parts = Gather::default();
    for piece in pieces {
        parts.add(&piece.head[skip.min(piece.head_len)..piece.head_len]);
        let skip = std::mem::take(&mut skip).saturating_sub(piece.head_len);
        match &piece.payload {
            Some(Source::Shared(bytes)) => parts.add(&bytes[skip.min(bytes.len())..]),
            Some(Source::Span(span)) => parts.add_span(span, skip),
            None => {}
        }
    }
    outcome(parts.len(), stream.write(&parts))
}

fn outcome(offered: usize, moved: io::Result<usize>) -> Outcome {
    Outcome {
        offered,
        moved: moved.map_err(|error| error.kind()),
    }
}
