//! One direction of a TCP connection: reassembles segments to bytes in order.
//!
//! ```text
//!            next                       segments that arrived early
//!  delivered  |  hole  |######|   hole   |####|
//!  -----------+--------+------+----------+----+----> offset in the stream
//! ```
//!
//! Segments may be repeated, overlap, arrive in any order, and wrap the sequence number. A hole
//! stays open until it cannot be filled: the other side acknowledged it more than [`REORDER_MAX`]
//! ago (the capture missed the segment), too many bytes wait behind it, or the connection ended. It
//! is then reported as [`Piece::Lost`] and never filled. If segments overlap with different bytes,
//! the bytes delivered first count.

use std::collections::BTreeMap;
use std::time::Duration;

use lnet_types::Time;

/// The next part of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Bytes, and the time of the packet that contained them.
    Bytes(Time, Vec<u8>),
    /// The number of bytes that are not in the capture.
    Lost(u64),
}

/// One direction; see the [module](self).
#[derive(Debug)]
pub(crate) struct Reassembler {
    /// Sequence number of the byte at `next`.
    next_sequence: u32,
    /// Offset of the first byte that was not delivered.
    next: u64,
    early: BTreeMap<u64, Early>,
    early_bytes: usize,
    /// The other side has acknowledged everything below this offset.
    acknowledged: u64,
}

/// A segment that waits for earlier bytes.
#[derive(Debug)]
struct Early {
    time: Time,
    bytes: Vec<u8>,
    /// Bytes after `bytes` that the capture lacks.
    cut: u64,
}

impl Early {
    fn len(&self) -> u64 {
        self.bytes.len() as u64 + self.cut
    }
}

/// How long an acknowledged hole stays open: packets of a capture from several interfaces may be
/// out of order by this time.
const REORDER_MAX: Duration = Duration::from_secs(1);
/// The most bytes behind a hole: the largest receive window of default Linux is 6 MiB.
const EARLY_BYTES_MAX: usize = 8 << 20;
/// The most segments behind a hole, which limits the overhead of one-byte segments.
const EARLY_SEGMENTS_MAX: usize = 16 << 10;

impl Reassembler {
    /// Starts with the byte that has sequence number `first`.
    pub(crate) fn new(first: u32) -> Self {
        Self {
            next_sequence: first,
            next: 0,
            early: BTreeMap::new(),
            early_bytes: 0,
            acknowledged: 0,
        }
    }

    /// Bytes that wait behind a hole.
    pub(crate) fn waiting(&self) -> usize {
        self.early_bytes
    }

    /// Offset of the first byte that was not delivered.
    pub(crate) fn delivered(&self) -> u64 {
        self.next
    }

    /// The offset of the byte with this sequence number, assumed to be near the last delivered one;
    /// `None` if it is before the start of the stream.
    pub(crate) fn offset_of(&self, sequence: u32) -> Option<u64> {
        let ahead = i64::from(sequence.wrapping_sub(self.next_sequence).cast_signed());
        self.next.checked_add_signed(ahead)
    }

    /// Takes a segment: its payload, and the number of bytes at its end that the capture lacks.
    pub(crate) fn push(&mut self, time: Time, sequence: u32, payload: &[u8], cut: usize) {
        // A retransmitted segment from before the start, or one of another connection.
        let Some(offset) = self.offset_of(sequence) else {
            return;
        };
        let segment = Early {
            time,
            bytes: payload.to_vec(),
            cut: cut as u64,
        };
        if segment.len() == 0 || offset + segment.len() <= self.next {
            return;
        }
        let known = self.early.get(&offset).map_or(0, |early| early.bytes.len());
        if self.early.contains_key(&offset) && known >= payload.len() {
            return;
        }
        self.early_bytes = self.early_bytes + payload.len() - known;
        self.early.insert(offset, segment);
    }

    /// Records an acknowledgement of the other side.
    pub(crate) fn acknowledge(&mut self, sequence: u32) {
        if let Some(offset) = self.offset_of(sequence) {
            self.acknowledged = self.acknowledged.max(offset);
        }
    }

    /// The next piece in order; `None` if the hole may still be filled.
    pub(crate) fn next(&mut self, now: Time) -> Option<Piece> {
        self.deliver(|this, early, offset| this.is_lost(early, offset, now))
    }

    /// The next piece if no more segments come; `None` if nothing is left.
    pub(crate) fn drain(&mut self) -> Option<Piece> {
        self.deliver(|_, _, _| true)
    }

    fn deliver(&mut self, skips: impl Fn(&Self, &Early, u64) -> bool) -> Option<Piece> {
        loop {
            let (&offset, early) = self.early.first_key_value()?;
            if offset > self.next {
                return skips(self, early, offset).then(|| Piece::Lost(self.advance_to(offset)));
            }
            let (_, early) = self.early.pop_first()?;
            self.early_bytes -= early.bytes.len();
            let delivered = self.next - offset;
            let end = offset + early.len();
            if end <= self.next {
                continue;
            }
            return Some(self.take(early, delivered));
        }
    }

    /// Delivers the new bytes of a segment whose first `delivered` bytes are not new.
    fn take(&mut self, mut early: Early, delivered: u64) -> Piece {
        let skip = usize::try_from(delivered)
            .unwrap_or(usize::MAX)
            .min(early.bytes.len());
        early.bytes.drain(..skip);
        if early.bytes.is_empty() {
            let lost = early.cut - (delivered - skip as u64);
            self.advance_to(self.next + lost);
            return Piece::Lost(lost);
        }
        self.advance_to(self.next + early.bytes.len() as u64);
        if early.cut > 0 {
            let rest = Early {
                time: early.time,
                bytes: Vec::new(),
                cut: early.cut,
            };
            self.early.entry(self.next).or_insert(rest);
        }
        Piece::Bytes(early.time, early.bytes)
    }

    fn is_lost(&self, early: &Early, offset: u64, now: Time) -> bool {
        self.early_bytes > EARLY_BYTES_MAX
            || self.early.len() > EARLY_SEGMENTS_MAX
            || (self.acknowledged >= offset && now.saturating_since(early.time) > REORDER_MAX)
    }

    /// Advances to `offset`; returns the number of bytes.
    fn advance_to(&mut self, offset: u64) -> u64 {
        let step = offset - self.next;
        self.next = offset;
        // The sequence number is the offset modulo 2^32, so truncation is intended.
        self.next_sequence = self.next_sequence.wrapping_add(step as u32);
        step
    }
}

#[cfg(test)]
mod tests;
