//! Divides one read or write into parts for several gateways, by blocks of the file.

use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};

use crate::spread::drive::Job;
use crate::spread::order::{from_first, of_block};
use crate::spread::proof::Before;
use crate::spread::several::Spread;
use crate::{Caller, Data, Errno, Handle, Reply, Request, SEGMENTS_MAX, Segment};

/// The part of a segment in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// The gateway of the block.
    gateway: usize,
    /// Index of the segment in the request.
    segment: usize,
    /// Offset of the piece in this segment.
    within: u64,
    part: Segment,
}

/// The pieces of one request to a gateway, and their memory.
struct Work<'m> {
    pieces: Vec<Piece>,
    memory: Memory<'m>,
}

enum Memory<'m> {
    Write(Vec<IoSlice<'m>>),
    Read(Vec<IoSliceMut<'m>>),
}

/// The memory of a request that is not distributed yet, in reverse order.
enum Rest<'m> {
    Write(Vec<&'m [u8]>),
    Read(Vec<&'m mut [u8]>),
}

impl Spread {
    /// Reads or writes the blocks at their gateways, all at the same time.
    pub(crate) fn transfer(
        &self,
        caller: &Caller,
        handle: Handle,
        segments: &[Segment],
        data: Data<'_>,
        home: usize,
    ) -> Result<Reply, Errno> {
        let gateways = self.inner.gateways.len();
        let is_write = matches!(data, Data::Write(_));
        let pieces = cut(segments, self.inner.options.block, home, gateways);
        let works = shared_out(&pieces, data);
        let mut results: Vec<Result<Vec<u64>, Errno>> = vec![Err(Errno::EAGAIN); works.len()];
        let mut ends = Vec::with_capacity(works.len());
        let mut parts: Vec<crate::spread::Part<'_>> = Vec::with_capacity(works.len());
        for (work, result) in works.into_iter().zip(&mut results) {
            ends.push(work.pieces.clone());
            parts.push(Box::new(move || *result = self.carry(caller, handle, work)));
        }
        self.inner.surroundings.together(parts);
        let done = ends.into_iter().zip(results);
        counts(segments, is_write, done).map(Reply::Counts)
    }

    fn carry(&self, caller: &Caller, handle: Handle, work: Work<'_>) -> Result<Vec<u64>, Errno> {
        let segments: Vec<Segment> = work.pieces.iter().map(|piece| piece.part).collect();
        let count = segments.len();
        let first = work.pieces.first().map_or(0, |piece| piece.gateway);
        let order = from_first(first, self.inner.gateways.len());
        let (write, mut read);
        let (request, data) = match work.memory {
            Memory::Write(memory) => {
                write = memory;
                (Request::Write { handle, segments }, Data::Write(&write[..]))
            }
            Memory::Read(memory) => {
                read = memory;
                (
                    Request::Read { handle, segments },
                    Data::Read(&mut read[..]),
                )
            }
        };
        let mut job = Job {
            caller,
            request: &request,
            data,
            before: Before::default(),
        };
        match self.drive(&order, &mut job)? {
            Reply::Counts(counts) if counts.len() == count => Ok(counts),
            _ => Err(Errno::EPROTO),
        }
    }
}

/// Cuts the segments into pieces, in the order of the memory.
fn cut(segments: &[Segment], block: u64, home: usize, gateways: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (number, segment) in segments.iter().enumerate() {
        let mut within = 0;
        while within < segment.length {
            let offset = segment.offset + within;
            let length = (block - offset % block).min(segment.length - within);
            pieces.push(Piece {
                gateway: of_block(home, offset, block, gateways),
                segment: number,
                within,
                part: Segment { offset, length },
            });
            within += length;
        }
    }
    pieces
}

/// Groups the pieces by gateway, with their memory. A group has at most [`SEGMENTS_MAX`] pieces, the limit of one
/// request.
fn shared_out<'m>(pieces: &[Piece], data: Data<'m>) -> Vec<Work<'m>> {
    let mut rest = match data {
        Data::None => Rest::Write(Vec::new()),
        Data::Write(memory) => Rest::Write(memory.iter().rev().map(|part| &**part).collect()),
        Data::Read(memory) => Rest::Read(memory.iter_mut().rev().map(|part| &mut **part).collect()),
    };
    let mut open: BTreeMap<usize, usize> = BTreeMap::new();
    let mut works: Vec<Work<'m>> = Vec::new();
    for piece in pieces {
        let index = match open.get(&piece.gateway) {
            Some(&index) if works[index].pieces.len() < SEGMENTS_MAX => index,
            _ => {
                works.push(Work {
                    pieces: Vec::new(),
                    memory: match rest {
                        Rest::Write(_) => Memory::Write(Vec::new()),
                        Rest::Read(_) => Memory::Read(Vec::new()),
                    },
                });
                open.insert(piece.gateway, works.len() - 1);
                works.len() - 1
            }
        };
        works[index].pieces.push(*piece);
        rest.give(piece.part.length as usize, &mut works[index].memory);
    }
    works
}

impl<'m> Rest<'m> {
    /// Moves the next `length` bytes of memory to `to`.
    fn give(&mut self, mut length: usize, to: &mut Memory<'m>) {
        while length > 0 {
            match (&mut *self, &mut *to) {
                (Self::Write(rest), Memory::Write(to)) => {
                    let Some(memory) = rest.pop() else { return };
                    let (now, later) = memory.split_at(memory.len().min(length));
                    length -= now.len();
                    to.push(IoSlice::new(now));
                    if !later.is_empty() {
                        rest.push(later);
                    }
                }
                (Self::Read(rest), Memory::Read(to)) => {
                    let Some(memory) = rest.pop() else { return };
                    let at = memory.len().min(length);
                    let (now, later) = memory.split_at_mut(at);
                    length -= now.len();
                    to.push(IoSliceMut::new(now));
                    if !later.is_empty() {
                        rest.push(later);
                    }
                }
                _ => return,
            }
        }
    }
}

/// Returns the number of bytes transferred of each segment, up to the first gap. A read fails if one of its parts
/// failed, because a short count would mean the end of the file.
fn counts(
    segments: &[Segment],
    is_write: bool,
    done: impl Iterator<Item = (Vec<Piece>, Result<Vec<u64>, Errno>)>,
) -> Result<Vec<u64>, Errno> {
    let mut pieces: Vec<(Piece, u64)> = Vec::new();
    let mut failed: Option<(usize, u64, Errno)> = None;
    for (works, result) in done {
        match result {
            Ok(counts) => pieces.extend(works.into_iter().zip(counts)),
            Err(errno) => {
                // The error of the first piece counts, as with a single server.
                let at = works
                    .first()
                    .map_or((0, 0), |piece| (piece.segment, piece.within));
                if failed.is_none_or(|failed| at < (failed.0, failed.1)) {
                    failed = Some((at.0, at.1, errno));
                }
            }
        }
    }
    pieces.sort_unstable_by_key(|(piece, _)| (piece.segment, piece.within));
    let mut counts = vec![0; segments.len()];
    for (piece, count) in pieces {
        if count > piece.part.length {
            return Err(Errno::EPROTO);
        }
        if counts[piece.segment] == piece.within {
            counts[piece.segment] += count;
        }
    }
    match failed {
        Some((.., errno)) if !is_write || counts.iter().all(|&count| count == 0) => Err(errno),
        _ => Ok(counts),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment(offset: u64, length: u64) -> Segment {
        Segment { offset, length }
    }

    proptest! {
        #[test]
        fn the_pieces_of_a_transfer_are_whole_and_lie_in_one_block_each(
            parts in prop::collection::vec((0..100_u64, 0..40_u64), 0..8),
            block in 1..30_u64,
            home in 0..5_usize,
        ) {
            let segments: Vec<Segment> = parts.into_iter().map(|(offset, length)| segment(offset, length)).collect();
            let pieces = cut(&segments, block, home, 5);
            let mut bytes = Vec::new();
            for piece in &pieces {
                let (first, last) = (piece.part.offset, piece.part.offset + piece.part.length - 1);
                prop_assert_eq!(first / block, last / block);
                prop_assert_eq!(piece.gateway, (home + (first / block) as usize) % 5);
                prop_assert_eq!(segments[piece.segment].offset + piece.within, first);
                bytes.extend(first..=last);
            }
            let whole = segments.iter().flat_map(|part| part.offset..part.offset + part.length);
            prop_assert_eq!(bytes, whole.collect::<Vec<u64>>());
        }

        #[test]
        fn memory_goes_with_its_pieces_and_no_request_has_too_many(
            lengths in prop::collection::vec(0..3000_usize, 0..4),
            block in 1..3_u64,
        ) {
            let total: usize = lengths.iter().sum();
            let bytes: Vec<u8> = (0..total).map(|byte| (byte % 251) as u8).collect();
            let mut rest = &bytes[..];
            let memory: Vec<IoSlice<'_>> = lengths.iter().map(|&length| {
                let (now, later) = rest.split_at(length);
                rest = later;
                IoSlice::new(now)
            }).collect();
            let segments = [segment(7, total as u64)];
            let mut file = vec![0; total];
            for work in shared_out(&cut(&segments, block, 0, 2), Data::Write(&memory)) {
                prop_assert!(work.pieces.len() <= SEGMENTS_MAX);
                let Memory::Write(memory) = work.memory else { panic!("a write") };
                let mut memory = memory.iter().flat_map(|part| part.iter().copied());
                for piece in work.pieces {
                    let at = (piece.part.offset - 7) as usize;
                    for byte in &mut file[at..at + piece.part.length as usize] {
                        *byte = memory.next().unwrap();
                    }
                }
                prop_assert!(memory.next().is_none());
            }
            prop_assert_eq!(file, bytes);
        }
    }

    #[test]
    fn nothing_counts_behind_a_gap_and_the_first_error_is_the_error() {
        let segments = [segment(0, 30)];
        let pieces = cut(&segments, 10, 0, 3);
        let done = |results: [Result<u64, Errno>; 3]| {
            let ends = pieces.iter().zip(results);
            ends.map(|(piece, result)| (vec![*piece], result.map(|count| vec![count])))
                .collect::<Vec<_>>()
                .into_iter()
        };
        let read = |results| counts(&segments, false, done(results));
        let write = |results| counts(&segments, true, done(results));
        assert_eq!(read([Ok(10), Ok(5), Ok(10)]), Ok(vec![15]));
        assert_eq!(
            read([Ok(10), Err(Errno::EACCES), Ok(0)]),
            Err(Errno::EACCES)
        );
        assert_eq!(write([Ok(10), Err(Errno::ENOSPC), Ok(10)]), Ok(vec![10]));
        assert_eq!(
            write([Err(Errno::ENOSPC), Err(Errno::EDQUOT), Ok(10)]),
            Err(Errno::ENOSPC)
        );
        assert_eq!(read([Ok(11), Ok(0), Ok(0)]), Err(Errno::EPROTO));
    }
}
