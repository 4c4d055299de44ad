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
use sys::{Gather, Pipe, Scatter};

use crate::network::Stream;
use crate::receive::WINDOW_MAX;

/// Payload of a message to be sent.
#[derive(Clone, Debug)]
pub enum Source {
    /// Bytes that nobody can change.
    Shared(Bytes),
    /// Memory that nobody changes meanwhile.
    Span(Span),
    /// What a [`Landing`] has in its pipe: so many bytes, which can be sent once.
    Pipe(Arc<Pipe>, usize),
}

impl Source {
    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Shared(bytes) => bytes.len(),
            Self::Span(span) => span.len(),
            Self::Pipe(_, len) => *len,
        }
    }

    /// True when it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where a payload goes.
#[derive(Clone, Debug)]
pub struct Landing {
    pub(crate) memory: Span,
    /// Empty at first. Whoever has it knows by the bytes that it holds whether the payload is here or in the memory.
    pub(crate) pipe: Option<Arc<Pipe>>,
}

impl Landing {
    /// Into memory, or, where the payload can be read by itself and fits, into a pipe.
    #[must_use]
    pub const fn piped(memory: Span, pipe: Arc<Pipe>) -> Self {
        let pipe = Some(pipe);
        Self { memory, pipe }
    }

    /// The memory.
    #[must_use]
    pub const fn memory(&self) -> &Span {
        &self.memory
    }

    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }

    /// The bytes of the memory behind the first `got`, if there are any.
    pub(crate) fn missing(&self, got: usize) -> Option<Span> {
        let missing = self.memory.part(got..self.memory.len())?;
        (!missing.is_empty()).then_some(missing)
    }
}

impl From<Span> for Landing {
    fn from(memory: Span) -> Self {
        Self { memory, pipe: None }
    }
}

/// A node whose memory is what this LND moves.
pub trait Above: Upper<Landing = Landing, Payload = Source> {}

impl<T: Upper<Landing = Landing, Payload = Source>> Above for T {}

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
    /// Where it goes instead, and the memory for what is in there already.
    pub(crate) pipe: Option<(Arc<Pipe>, Span)>,
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
    let piped = match &room.pipe {
        Some((pipe, memory)) => read_into_pipe(stream, pipe, memory, room.landed_max()),
        None => Ok((0, true)),
    };
    let (landed, goes_on) = match piped {
        Ok(piped) => piped,
        Err(error) => return outcome(room.len(), Err(error)),
    };
    if !goes_on {
        return outcome(room.len(), Ok(landed));
    }
    let mut parts = Scatter::default();
    let landing = room.landing.as_ref();
    let landing = landing.and_then(|landing| landing.part(landed..landing.len()));
    if let Some(landing) = &landing {
        parts.add_span(landing);
    }
    parts.add(staging.room(room));
    match stream.read(&mut parts) {
        Ok(more) => outcome(room.len(), Ok(landed + more)),
        // What is wrong is found again by the next read.
        Err(_) if landed > 0 => outcome(room.len(), Ok(landed)),
        Err(error) => outcome(room.len(), Err(error)),
    }
}

/// How much was moved into the pipe, and whether what follows is to be read at once: behind the payload, or because the
/// pipe was full and the payload is now in memory.
fn read_into_pipe(
    stream: &impl Stream,
    pipe: &Pipe,
    memory: &Span,
    len: usize,
) -> io::Result<(usize, bool)> {
    let (moved, error) = match stream.fill(pipe, len) {
        Ok(moved) => (moved, None),
        Err(error) => (0, Some(error)),
    };
    if moved == len {
        return Ok((moved, true));
    }
    let is_end = moved == 0 && error.is_none();
    let may_be_full = error
        .as_ref()
        .is_none_or(|it| it.kind() == ErrorKind::WouldBlock);
    if !is_end && may_be_full && pipe.is_full() {
        return match pipe.empty_into(memory)? {
            true => Ok((moved, true)),
            false => Err(ErrorKind::InvalidData.into()),
        };
    }
    error.map_or(Ok((moved, false)), Err)
}

fn write(stream: &impl Stream, pieces: &[Piece], mut skip: usize) -> Outcome {
    if let [piece] = pieces
        && let Some(Source::Pipe(pipe, len)) = &piece.payload
    {
        return write_from_pipe(stream, piece, skip, (pipe, *len));
    }
    let mut parts = Gather::default();
    for piece in pieces {
        parts.add(&piece.head[skip.min(piece.head_len)..piece.head_len]);
        let skip = std::mem::take(&mut skip).saturating_sub(piece.head_len);
        match &piece.payload {
            Some(Source::Shared(bytes)) => parts.add(&bytes[skip.min(bytes.len())..]),
            Some(Source::Span(span)) => parts.add_span(span, skip),
            // A pipe is the only piece of its write.
            Some(Source::Pipe(..)) | None => {}
        }
    }
    outcome(parts.len(), stream.write(&parts, false))
}

/// Two system calls, whose bytes leave together.
fn write_from_pipe(
    stream: &impl Stream,
    piece: &Piece,
    skip: usize,
    (pipe, len): (&Pipe, usize),
) -> Outcome {
    let offered = piece.head_len + len - skip;
    let head = &piece.head[skip.min(piece.head_len)..piece.head_len];
    let mut written = 0;
    if !head.is_empty() {
        let mut parts = Gather::default();
        parts.add(head);
        match stream.write(&parts, true) {
            Ok(count) => written = count,
            failed => return outcome(offered, failed),
        }
        if written < head.len() {
            return outcome(offered, Ok(written));
        }
    }
    match stream.drain(pipe, offered - written) {
        Err(_) if written > 0 => outcome(offered, Ok(written)),
        drained => outcome(offered, drained.map(|count| written + count)),
    }
}

fn outcome(offered: usize, moved: io::Result<usize>) -> Outcome {
    Outcome {
        offered,
        moved: moved.map_err(|error| error.kind()),
    }
}
