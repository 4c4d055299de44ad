//! Reads and writes that a carrier divides into pieces.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;

use crate::{Errno, Segment};

/// A read or write that is divided into pieces of memory. Computes the segments of the file for
/// each piece, and counts the bytes transferred per segment.
#[derive(Clone, Debug)]
pub struct Transfer<'a> {
    segments: &'a [Segment],
    counts: Vec<u64>,
}

impl<'a> Transfer<'a> {
    /// Starts a transfer.
    #[must_use]
    pub fn new(segments: &'a [Segment]) -> Self {
        Self {
            segments,
            counts: vec![0; segments.len()],
        }
    }

    /// Continues a transfer that has already transferred `counts` bytes per segment.
    #[must_use]
    pub fn resumed(segments: &'a [Segment], mut counts: Vec<u64>) -> Self {
        counts.resize(segments.len(), 0);
        Self { segments, counts }
    }

    /// Returns the total number of bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.segments.iter().map(|segment| segment.length).sum()
    }

    /// Divides the memory into consecutive pieces of at most `bytes_max`.
    pub fn pieces(&self, bytes_max: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let (length, step) = (self.length(), bytes_max.max(1));
        (0..length.div_ceil(step)).map(move |piece| {
            let start = piece * step;
            start..length.min(start + step)
        })
    }

    /// Returns the segments of the file for a piece of memory.
    #[must_use]
    pub fn cut(&self, piece: &Range<u64>) -> Vec<Segment> {
        self.parts(piece).map(|(_, _, part)| part).collect()
    }

    /// Records the result of a piece: one count for each segment of [`Transfer::cut`].
    ///
    /// # Errors
    ///
    /// `EPROTO` if the counts do not fit the segments.
    pub fn done(&mut self, piece: &Range<u64>, counts: &[u64]) -> Result<(), Errno> {
        let parts: Vec<_> = self.parts(piece).collect();
        if parts.len() != counts.len() {
            return Err(Errno::EPROTO);
        }
        for ((index, within, part), &count) in parts.into_iter().zip(counts) {
            if count > part.length {
                return Err(Errno::EPROTO);
            }
            // Bytes behind a gap do not count: the file ended at the gap when that piece was read.
            if self.counts[index] == within {
                self.counts[index] += count;
            }
        }
        Ok(())
    }

    /// Returns whether everything before `position` in memory was transferred.
    #[must_use]
    pub fn is_done_to(&self, position: u64) -> bool {
        let mut parts = self.parts(&(0..position)).peekable();
        // `parts` has one part for each segment here, because the piece starts with the first
        // segment.
        parts.all(|(index, _, part)| self.counts[index] >= part.length)
    }

    /// Returns the number of bytes transferred per segment.
    #[must_use]
    pub fn into_counts(self) -> Vec<u64> {
        self.counts
    }

    /// Returns, for each segment that overlaps the piece: its index, the offset of the overlap
    /// within the segment, and the overlap as a part of the file.
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

/// Returns the end of the last byte that was read, as an offset in the memory of the read.
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

/// Copies a piece of the memory of a write into one vector.
#[must_use]
pub fn gather(memory: &[IoSlice<'_>], piece: &Range<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    gather_into(&mut bytes, memory, piece);
    bytes
}

/// Copies a piece of memory into a vector, in place of what the vector holds.
pub fn gather_into(bytes: &mut Vec<u8>, memory: &[IoSlice<'_>], piece: &Range<u64>) {
    bytes.clear();
    bytes.reserve_exact((piece.end - piece.start) as usize);
    let mut at = 0;
    for part in memory {
        bytes.extend_from_slice(&part[within(piece, at, part.len())]);
        at += part.len() as u64;
    }
}

/// Copies `bytes` into the memory of a read, from `position` on. Omits bytes that do not fit.
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

/// Returns which bytes of a memory block that starts at offset `at` belong to a piece.
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
        fn the_pieces_of_a_transfer_cover_it_in_order(segments in segments(), step in 1..50_u64) {
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
        fn bytes_gathered_from_memory_scatter_back_to_the_same_memory(lengths in prop::collection::vec(0..9_usize, 0..6), step in 1..9_u64) {
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
