//! Reads and writes that a carrier makes in pieces.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;

use crate::{Errno, Segment};

/// A read or write that is made piece by piece: which segments of the file a piece of the memory stands for, and
/// what was done of all of them.
#[derive(Clone, Debug)]
pub struct Transfer<'a> {
    segments: &'a [Segment],
    counts: Vec<u64>,
}

impl<'a> Transfer<'a> {
    /// Nothing is done yet.
    #[must_use]
    pub fn new(segments: &'a [Segment]) -> Self {
        Self {
            segments,
            counts: vec![0; segments.len()],
        }
    }

    /// Goes on where another one ended: with what that made of each segment.
    #[must_use]
    pub fn resumed(segments: &'a [Segment], mut counts: Vec<u64>) -> Self {
        counts.resize(segments.len(), 0);
        Self { segments, counts }
    }

    /// Bytes in all.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.segments.iter().map(|segment| segment.length).sum()
    }

    /// The pieces of the memory, each of at most `bytes_max`, one behind the other.
    pub fn pieces(&self, bytes_max: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let (length, step) = (self.length(), bytes_max.max(1));
        (0..length.div_ceil(step)).map(move |piece| {
            let start = piece * step;
            start..length.min(start + step)
        })
    }

    /// The parts of the file that a piece of the memory stands for.
    #[must_use]
    pub fn cut(&self, piece: &Range<u64>) -> Vec<Segment> {
        self.parts(piece).map(|(_, _, part)| part).collect()
    }

    /// Notes what was done of a piece: a count for each segment of [`Transfer::cut`].
    ///
    /// # Errors
    ///
    /// `EPROTO` for counts that do not fit the segments.
    pub fn done(&mut self, piece: &Range<u64>, counts: &[u64]) -> Result<(), Errno> {
        let parts: Vec<_> = self.parts(piece).collect();
        if parts.len() != counts.len() {
            return Err(Errno::EPROTO);
        }
        for ((index, within, part), &count) in parts.into_iter().zip(counts) {
            if count > part.length {
                return Err(Errno::EPROTO);
            }
            // Behind a gap nothing counts: the file ended there when it was looked at.
            if self.counts[index] == within {
                self.counts[index] += count;
            }
        }
        Ok(())
    }

    /// Whether everything before `position` in the memory was done.
    #[must_use]
    pub fn is_done_to(&self, position: u64) -> bool {
        let mut parts = self.parts(&(0..position)).peekable();
        // A segment is one part here, because the piece begins with the first.
        parts.all(|(index, _, part)| self.counts[index] >= part.length)
    }

    /// What was done of each segment.
    #[must_use]
    pub fn into_counts(self) -> Vec<u64> {
        self.counts
    }

    /// For each segment that a piece meets: its index, where in it the part begins, and the part.
    fn parts(&self, piece: &Range<u64>) -> impl Iterator<Item = (usize, u64, Segment)> + use<'a> {
        let (mut at, piece) = (0, piece.clone());
        let met = move |(index, segment): (usize, &Segment)| {
            let (start, end) = (at, at + segment.length);
            at = end;
            let (from, to) = (piece.start.max(start), piece.end.min(end));
            (from < to).then(|| {
                let part = Segment {
                    offset: segment.offset + (from - start),
                    length: to - from,
                };
                (index, from - start, part)
            })
        };
        self.segments.iter().enumerate().filter_map(met)
    }
}

/// Where in the memory of a read the last byte lies that was read, and one more.
#[must_use]
pub fn filled(segments: &[Segment], counts: &[u64]) -> u64 {
    let (mut at, mut end) = (0, 0);
    for (segment, count) in segments.iter().zip(counts) {
        if *count > 0 {
            end = at + count;
        }
        at += segment.length;
    }
    end
}

/// Copies a piece of memory together.
#[must_use]
pub fn gather(memory: &[IoSlice<'_>], piece: &Range<u64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((piece.end - piece.start) as usize);
    let mut at = 0;
    for part in memory {
        bytes.extend_from_slice(&part[within(piece, at, part.len())]);
        at += part.len() as u64;
    }
    bytes
}

/// Copies `bytes` into memory, from `position` on; what does not fit is left out.
pub fn scatter(memory: &mut [IoSliceMut<'_>], position: u64, mut bytes: &[u8]) {
    let piece = position..position + bytes.len() as u64;
    let mut at = 0;
    for part in memory {
        let range = within(&piece, at, part.len());
        at += part.len() as u64;
        let (now, later) = bytes.split_at(range.len());
        part[range].copy_from_slice(now);
        bytes = later;
    }
}

/// Which bytes of memory that stands at `at` belong to a piece.
fn within(piece: &Range<u64>, at: u64, length: usize) -> Range<usize> {
    let clamp = |position: u64| position.saturating_sub(at).min(length as u64) as usize;
    clamp(piece.start)..clamp(piece.end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segments() -> impl Strategy<Value = Vec<Segment>> {
        let segment = (0..1000_u64, 0..40_u64);
        let segment = segment.prop_map(|(offset, length)| Segment { offset, length });
        prop::collection::vec(segment, 0..8)
    }

    proptest! {
        #[test]
        fn the_pieces_of_a_transfer_are_the_whole_in_order(segments in segments(), step in 1..50_u64) {
            let mut transfer = Transfer::new(&segments);
            let mut bytes = Vec::new();
            for piece in transfer.pieces(step) {
                let parts = transfer.cut(&piece);
                let lengths: Vec<u64> = parts.iter().map(|part| part.length).collect();
                prop_assert_eq!(lengths.iter().sum::<u64>(), piece.end - piece.start);
                bytes.extend(parts.iter().flat_map(|part| part.offset..part.offset + part.length));
                prop_assert!(transfer.is_done_to(piece.start));
                prop_assert!(!transfer.is_done_to(piece.end));
                transfer.done(&piece, &lengths).unwrap();
                prop_assert!(transfer.is_done_to(piece.end));
            }
            let whole = segments.iter().flat_map(|part| part.offset..part.offset + part.length);
            prop_assert_eq!(bytes, whole.collect::<Vec<u64>>());
            let lengths: Vec<u64> = segments.iter().map(|segment| segment.length).collect();
            prop_assert_eq!(transfer.into_counts(), lengths);
        }

        #[test]
        fn what_is_gathered_from_pieces_of_memory_scatters_back(lengths in prop::collection::vec(0..9_usize, 0..6), step in 1..9_u64) {
            let total: usize = lengths.iter().sum();
            let bytes: Vec<u8> = (0..total).map(|byte| byte as u8).collect();
            let mut rest = &bytes[..];
            let memory: Vec<IoSlice<'_>> = lengths.iter().map(|&length| {
                let (now, later) = rest.split_at(length);
                rest = later;
                IoSlice::new(now)
            }).collect();
            let mut copies: Vec<Vec<u8>> = lengths.iter().map(|&length| vec![0xFF; length]).collect();
            let mut room: Vec<IoSliceMut<'_>> = copies.iter_mut().map(|copy| IoSliceMut::new(copy)).collect();
            let whole = [Segment { offset: 0, length: total as u64 }];
            for piece in Transfer::new(&whole).pieces(step) {
                scatter(&mut room, piece.start, &gather(&memory, &piece));
            }
            prop_assert_eq!(copies.concat(), bytes);
        }
    }

    #[test]
    fn nothing_counts_behind_a_gap() {
        let segments = [
            Segment {
                offset: 0,
                length: 10,
            },
            Segment {
                offset: 50,
                length: 4,
            },
        ];
        let mut transfer = Transfer::new(&segments);
        transfer.done(&(0..5), &[3]).unwrap();
        transfer.done(&(5..12), &[5, 2]).unwrap();
        assert_eq!(transfer.done(&(12..14), &[3]), Err(Errno::EPROTO));
        assert_eq!(transfer.done(&(12..14), &[1, 1]), Err(Errno::EPROTO));
        let counts = transfer.into_counts();
        assert_eq!(counts, [3, 2]);
        assert_eq!(filled(&segments, &counts), 12);
        assert_eq!(filled(&segments, &[3, 0]), 3);
    }
}
