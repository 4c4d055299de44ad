//! The file data of a call, and the memory of the messages that carry this data.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use files::transfer::gather;
use sys::span::Span;

/// The file data of a call.
pub(super) enum Bulk<'a, 'b> {
    None,
    /// Data to write, in borrowed memory. The data is copied.
    Write(&'a [IoSlice<'a>]),
    /// Borrowed memory for the data to read. The data is copied.
    Read(&'b mut [IoSliceMut<'a>]),
    /// Memory from which messages are sent without a copy.
    From(Span),
    /// Memory into which messages are received without a copy.
    Into(Span),
}

impl Bulk<'static, 'static> {
    pub(super) fn from_span(span: Span) -> Self {
        match span.is_empty() {
            true => Self::None,
            false => Self::From(span),
        }
    }

    pub(super) fn into_span(span: Span) -> Self {
        match span.is_empty() {
            true => Self::None,
            false => Self::Into(span),
        }
    }
}

impl Bulk<'_, '_> {
    /// Returns the number of bytes to write.
    pub(super) fn write_length(&self) -> u64 {
        match self {
            Self::Write(memory) => memory.iter().map(|part| part.len() as u64).sum(),
            Self::From(span) => span.len() as u64,
            _ => 0,
        }
    }

    /// Returns the number of bytes to read.
    pub(super) fn read_length(&self) -> u64 {
        match self {
            Self::Read(memory) => memory.iter().map(|part| part.len() as u64).sum(),
            Self::Into(span) => span.len() as u64,
            _ => 0,
        }
    }

    /// Returns a copy of a piece of the data to write.
    pub(super) fn copy_of(&self, piece: &Range<u64>) -> Vec<u8> {
        match self {
            Self::Write(memory) => gather(memory, piece),
            Self::From(span) => part(span, piece)
                .map(|part| part.to_vec())
                .unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Returns memory for the message that carries a piece, filled with the piece if the call writes. Returns `None`
    /// if there is no memory.
    pub(super) fn memory_for(&self, piece: &Range<u64>, spare: &Spare) -> Option<Span> {
        let length = (piece.end - piece.start) as usize;
        match self {
            Self::None => None,
            Self::From(span) | Self::Into(span) => part(span, piece),
            Self::Write(memory) => {
                let target = spare.take(length)?;
                let copied = fill(&target, memory, piece.start);
                (copied == length).then_some(target)
            }
            Self::Read(_) => spare.take(length),
        }
    }

    /// Copies the data that arrived for a piece to the caller's memory. Returns the number of bytes copied.
    pub(super) fn deliver(&mut self, start: u64, arrived: &Span, length: usize) -> usize {
        let Self::Read(memory) = self else { return 0 };
        let (mut at, piece) = (0_u64, start..start + length as u64);
        for room in memory.iter_mut() {
            let end = at + room.len() as u64;
            let (from, to) = (piece.start.max(at), piece.end.min(end));
            if from < to {
                let source = arrived.part((from - start) as usize..(to - start) as usize);
                let target = &mut room[(from - at) as usize..(to - at) as usize];
                if let Some(source) = source {
                    source.copy_out(target);
                }
            }
            at = end;
        }
        length
    }
}

fn part(span: &Span, piece: &Range<u64>) -> Option<Span> {
    span.part(piece.start as usize..piece.end as usize)
}

/// Copies the bytes of `memory` from `start` on into a span. Returns the number of bytes copied.
fn fill(target: &Span, memory: &[IoSlice<'_>], start: u64) -> usize {
    let (mut at, mut done) = (0_u64, 0);
    for bytes in memory {
        let end = at + bytes.len() as u64;
        let from = (start + done as u64).max(at);
        if from < end && done < target.len() {
            let Some(rest) = target.part(done..target.len()) else {
                break;
            };
            done += rest.copy_in(&bytes[(from - at) as usize..]);
        }
        at = end;
    }
    done
}

/// Memory of completed messages, kept for later messages: fresh pages cost more than the copy into them.
#[derive(Default)]
pub(super) struct Spare {
    spans: Mutex<Vec<Span>>,
}

/// Limit of the number of spans that are kept.
const SPARE_MAX: usize = 16;
/// Spans of fewer bytes are not kept.
const SPARE_BYTES: usize = 64 << 10;

impl Spare {
    /// Returns `length` bytes of memory.
    fn take(&self, length: usize) -> Option<Span> {
        let mut spans = self.lock();
        let found = spans.iter().position(|span| span.len() >= length);
        match found {
            Some(index) if length >= SPARE_BYTES => spans.swap_remove(index).part(0..length),
            _ => Span::zeroed(length).ok(),
        }
    }

    /// Returns at least `length` bytes of memory, of one of few lengths, so that the memory of one reply fits others.
    pub(super) fn take_class(&self, length: usize) -> Option<Span> {
        if length < SPARE_BYTES {
            return Span::zeroed(length).ok();
        }
        let length = length.next_power_of_two();
        let mut spans = self.lock();
        match spans.iter().position(|span| span.len() == length) {
            Some(index) => Some(spans.swap_remove(index)),
            None => Span::zeroed(length).ok(),
        }
    }

    /// Takes back memory that no message uses any longer.
    pub(super) fn give(&self, mut span: Span) {
        let mut spans = self.lock();
        if span.len() >= SPARE_BYTES && spans.len() < SPARE_MAX && span.is_unique() {
            spans.push(span);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Span>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
