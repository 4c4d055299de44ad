//! A read or a write of a connection, which any thread can do without a lock.
//!
//! ```text
//!  Socklnd::next_job ──▶ Job::run ──▶ Socklnd::finish
//!    under the lock      no lock      under the lock
//! ```
//!
//! A job owns what it uses: a handle of the stream, landings and payloads. If its connection is
//! closed meanwhile, its outcome is ignored, and the memory is released when the job ends.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use bytes::Bytes;
use lnd::Upper;
use sys::span::Span;
use sys::{Gather, Pipe, Scatter};

use crate::network::Stream;
use crate::receive::WINDOW_MAX;

/// The payload of a message to be sent.
#[derive(Clone, Debug)]
pub enum Source {
    /// Immutable bytes.
    Shared(Bytes),
    /// Memory that nothing changes until the message is reported.
    Span(Span),
    /// This many bytes in the pipe of a [`Destination`]; they can be sent once.
    Pipe(Arc<Pipe>, usize),
}

impl Source {
    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Shared(bytes) => bytes.len(),
            Self::Span(span) => span.len(),
            Self::Pipe(_, len) => *len,
        }
    }

    /// Returns true if the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The memory or pipe for a received payload.
#[derive(Clone, Debug)]
pub struct Destination {
    pub(crate) memory: Span,
    /// Empty at first. If it holds bytes, the payload is in the pipe, else in the memory.
    pub(crate) pipe: Option<Arc<Pipe>>,
}

impl Destination {
    /// A destination in memory, or in a pipe if the payload can be read separately and fits.
    #[must_use]
    pub const fn piped(memory: Span, pipe: Arc<Pipe>) -> Self {
        let pipe = Some(pipe);
        Self { memory, pipe }
    }

    /// Returns the memory.
    #[must_use]
    pub const fn memory(&self) -> &Span {
        &self.memory
    }

    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }

    /// Returns the memory behind the first `got` bytes; `None` if there is none.
    pub(crate) fn missing(&self, got: usize) -> Option<Span> {
        let missing = self.memory.part(got..self.memory.len())?;
        (!missing.is_empty()).then_some(missing)
    }
}

impl From<Span> for Destination {
    fn from(memory: Span) -> Self {
        Self { memory, pipe: None }
    }
}

/// The node above this LND, with the types of memory that this LND reads and writes.
pub trait Above: Upper<Destination = Destination, Payload = Source> {}

impl<T: Upper<Destination = Destination, Payload = Source>> Above for T {}

/// The most that one read stages beyond the destination: some 15 messages of 4 KiB.
pub(crate) const STAGED_MAX: usize = 64 << 10;

/// Staging memory of a thread that runs jobs. It keeps what a read takes beyond the destination of a
/// message until [`crate::Socklnd::finish`]. It is allocated by the first read.
#[derive(Debug, Default)]
pub struct Staging {
    bytes: Vec<u8>,
}

impl Staging {
    fn room(&mut self, room: &Room) -> &mut [u8] {
        self.bytes.resize(WINDOW_MAX + STAGED_MAX, 0);
        &mut self.bytes[room.lead..room.lead + room.staged]
    }

    /// Copies `lead` in front of the first `count` staged bytes, and returns both together.
    pub(crate) fn with_lead(&mut self, lead: &[u8], count: usize) -> &[u8] {
        self.bytes[..lead.len()].copy_from_slice(lead);
        &self.bytes[..lead.len() + count]
    }
}

/// The memory that one read fills.
#[derive(Debug)]
pub(crate) struct Room {
    /// The unfilled part of the destination of the payload being read.
    pub(crate) destination: Option<Span>,
    /// The pipe that takes the payload instead, and the memory for its contents if it becomes full.
    pub(crate) pipe: Option<(Arc<Pipe>, Span)>,
    /// The length of the bytes that were read before and belong in front of the staged ones.
    pub(crate) lead: usize,
    /// The most bytes to stage.
    pub(crate) staged: usize,
}

impl Room {
    pub(crate) fn len(&self) -> usize {
        self.landed_max() + self.staged
    }

    /// The most bytes that go to their final place directly.
    pub(crate) fn landed_max(&self) -> usize {
        self.destination.as_ref().map_or(0, Span::len)
    }
}

/// What one write puts into the stream: bytes, with payloads between them.
///
/// ```text
///  bytes     | header payload header payload header |           | header payload |
///  payloads                                          | payload 0 |
/// ```
///
/// Small payloads are copied between their headers, so that a write of many messages has one part.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    payloads: Vec<Insert>,
}

/// A payload in a batch.
#[derive(Debug)]
struct Insert {
    /// The number of the batch's own bytes in front of the payload.
    at: usize,
    payload: Source,
    /// Bytes of the payload that are written already.
    skip: usize,
}

/// The longest payload that is copied into a batch. To copy it costs less than a part of its own.
const COPIED_MAX: usize = 1024;

/// The most payloads of a batch: each has a part, and one of the batch's own bytes in front of it.
const PAYLOADS_MAX: usize = (sys::span::PARTS_MAX - 1) / 2;

impl Batch {
    /// Appends a frame without its first `skip` bytes.
    pub(crate) fn add(&mut self, head: &[u8], payload: Option<&Source>, skip: usize) {
        self.bytes.extend_from_slice(&head[skip.min(head.len())..]);
        let skip = skip.saturating_sub(head.len());
        match payload {
            None => {}
            Some(Source::Shared(bytes)) if bytes.len() <= COPIED_MAX => {
                self.bytes
                    .extend_from_slice(&bytes[skip.min(bytes.len())..]);
            }
            Some(payload) => self.payloads.push(Insert {
                at: self.bytes.len(),
                payload: payload.clone(),
                skip,
            }),
        }
    }

    /// Returns true if a further frame may be appended.
    pub(crate) fn has_room(&self) -> bool {
        self.payloads.len() < PAYLOADS_MAX
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.payloads.clear();
    }

    fn write(&self, stream: &impl Stream) -> Outcome {
        if let [only] = &self.payloads[..]
            && let Source::Pipe(pipe, len) = &only.payload
        {
            return write_from_pipe(stream, &self.bytes, (pipe, len - only.skip));
        }
        let mut parts = Gather::default();
        let mut done = 0;
        for Insert { at, payload, skip } in &self.payloads {
            parts.add(&self.bytes[done..*at]);
            done = *at;
            match payload {
                Source::Shared(bytes) => parts.add(&bytes[*skip..]),
                Source::Span(span) => parts.add_span(span, *skip),
                // A pipe is the only payload of its batch.
                Source::Pipe(..) => {}
            }
        }
        parts.add(&self.bytes[done..]);
        outcome(parts.len(), stream.write(&parts, false))
    }
}

#[derive(Debug)]
pub(crate) enum Work {
    Read(Room),
    Write(Batch),
}

/// A read or a write of a connection.
#[derive(Debug)]
pub struct Job<S> {
    pub(crate) slot: usize,
    /// The serial number of the connection; its slot may hold another connection by now.
    pub(crate) serial: u64,
    pub(crate) stream: Arc<S>,
    pub(crate) work: Work,
    pub(crate) outcome: Outcome,
}

/// The outcome of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Bytes that could have moved.
    pub(crate) offered: usize,
    /// Bytes that moved, or why none did.
    pub(crate) moved: Result<usize, ErrorKind>,
}

impl Outcome {
    /// The outcome of a job that has not run.
    pub(crate) const NONE: Self = Self {
        offered: 0,
        moved: Err(ErrorKind::WouldBlock),
    };

    /// Returns true if fewer bytes moved than could have: the stream is empty, or full.
    pub(crate) fn is_short(&self) -> bool {
        self.moved != Ok(self.offered)
    }
}

impl<S: Stream> Job<S> {
    /// Moves the bytes with one system call, or two with a pipe.
    pub fn run(&mut self, staging: &mut Staging) {
        loop {
            self.outcome = match &self.work {
                Work::Read(room) => read(&*self.stream, room, staging),
                Work::Write(batch) => batch.write(&*self.stream),
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
    let destination = room.destination.as_ref();
    let destination =
        destination.and_then(|destination| destination.part(landed..destination.len()));
    if let Some(destination) = &destination {
        parts.add_span(destination);
    }
    parts.add(staging.room(room));
    match stream.read(&mut parts) {
        Ok(more) => outcome(room.len(), Ok(landed + more)),
        // The next read will fail with the same error.
        Err(_) if landed > 0 => outcome(room.len(), Ok(landed)),
        Err(error) => outcome(room.len(), Err(error)),
    }
}

/// Reads into the pipe. Returns how much was moved, and whether to read what follows at once:
/// because the payload is complete, or because the pipe was full and its contents were moved to
/// memory.
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
        .is_none_or(|error| error.kind() == ErrorKind::WouldBlock);
    if !is_end && may_be_full && pipe.is_full() {
        return match pipe.empty_into(memory)? {
            true => Ok((moved, true)),
            false => Err(ErrorKind::InvalidData.into()),
        };
    }
    error.map_or(Ok((moved, false)), Err)
}

/// Writes the header and the contents of the pipe: two system calls, whose bytes leave together.
fn write_from_pipe(stream: &impl Stream, head: &[u8], (pipe, len): (&Pipe, usize)) -> Outcome {
    let offered = head.len() + len;
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
    match stream.drain(pipe, len) {
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
