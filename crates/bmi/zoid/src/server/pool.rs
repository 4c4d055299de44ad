//! The allocator of the expected region.
//!
//! A thin layer over an offset allocator, whose metadata are in this process: a stray write to the segment
//! cannot corrupt them. Pieces are multiples of 64 bytes, aligned to 64 bytes; BMI promises 16.
//!
//! The offset allocator sorts free memory into size classes an eighth apart, so it may reject a piece
//! although a free stretch is just long enough. This module therefore hands out the whole region itself if
//! all of it is free: a piece that fits the region can always be allocated once everything is free.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use offset_allocator::{Allocation, Allocator};
use sys::span::{Leases, Span};

use crate::counters::Counters;

/// The allocator's unit and the alignment of every piece, in bytes.
// [MEM-1]
pub(super) const UNIT: usize = 64;

/// The expected region's allocator.
pub(super) struct Pool {
    leases: Arc<Leases>,
    /// The region within the memory of `leases`.
    region: Range<usize>,
    counters: Arc<Counters>,
    inner: Mutex<Inner>,
    freed: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// The result of [`Pool::room`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The longest free stretch in bytes.
    longest: usize,
    /// Whether that is the whole region.
    whole: bool,
}

impl Room {
    /// Returns whether a piece of `len` bytes can be allocated there, whatever the size classes are.
    pub(super) fn fits(self, len: usize) -> bool {
        let Some(taken) = len.max(1).checked_next_multiple_of(UNIT) else {
            return false;
        };
        let spare = match self.whole {
            true => 0,
            false => (taken / 8).next_multiple_of(UNIT),
        };
        taken.saturating_add(spare) <= self.longest
    }
}

struct Inner {
    allocator: Allocator,
    /// Allocated pieces: start, length and time of allocation.
    pieces: BTreeMap<usize, (usize, Instant)>,
    /// Whether the whole region is allocated as one piece.
    whole: bool,
}

/// A piece of the region. Freed when dropped.
pub(super) struct Piece {
    pool: Arc<Pool>,
    /// `None` for the whole region.
    allocation: Option<Allocation>,
    /// The offset of the first byte in the region.
    pub(super) start: usize,
    /// The length in bytes that the program asked for.
    pub(super) len: usize,
    /// The length in bytes that is allocated.
    taken: usize,
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Piece({}+{})", self.start, self.len)
    }
}

impl Pool {
    /// Returns the allocator of a free region, which is a part of the memory of `leases`.
    pub(super) fn new(
        leases: Arc<Leases>,
        region: Range<usize>,
        counters: Arc<Counters>,
    ) -> Arc<Self> {
        // Of a region of 2^38 bytes or more, only the beginning is used.
        let units = u32::try_from(region.len() / UNIT).unwrap_or(u32::MAX - 1);
        let inner = Inner {
            allocator: Allocator::new(units),
            pieces: BTreeMap::new(),
            whole: false,
        };
        Arc::new(Self {
            leases,
            region,
            counters,
            inner: Mutex::new(inner),
            freed: OnceLock::new(),
        })
    }

    /// Sets a function to be called after each freed piece, without a lock.
    pub(super) fn on_free(&self, hook: impl Fn() + Send + Sync + 'static) {
        // The pool has one owner, which calls this once.
        let _again = self.freed.set(Box::new(hook));
    }

    /// Returns whether a span is in the region.
    pub(super) fn has(&self, span: &Span) -> bool {
        span.is_inside(&self.addresses())
    }

    /// Returns the addresses of the region.
    pub(super) fn addresses(&self) -> Range<usize> {
        let first = self.leases.addresses().start;
        first + self.region.start..first + self.region.end
    }

    /// Leases bytes of the region for this process. Returns `None` if some of them are leased.
    fn lease(&self, range: Range<usize>, keeper: impl Send + Sync + 'static) -> Option<Span> {
        let base = self.region.start;
        let leased = base + range.start..base + range.end;
        self.leases.lease(leased, keeper)
    }

    /// Returns the length of the longest piece that could ever be allocated.
    pub(super) fn capacity(&self) -> usize {
        self.region.len() / UNIT * UNIT
    }

    /// Allocates a piece of `len` bytes, at least one unit; its contents are undefined.
    pub(super) fn allocate(self: &Arc<Self>, len: usize) -> Option<Piece> {
        let taken = len.max(1).checked_next_multiple_of(UNIT)?;
        let mut inner = self.lock();
        let (allocation, at) = inner.take(taken, self.region.len())?;
        inner.pieces.insert(at, (taken, Instant::now()));
        drop(inner);
        self.counters.memory_taken().add(taken);
        Some(Piece {
            pool: Arc::clone(self),
            allocation,
            start: at,
            len,
            taken,
        })
    }

    /// Returns the room after every piece allocated within the last `recently` is freed; older pieces count
    /// as permanent.
    // [MEM-15]
    pub(super) fn room(&self, recently: Duration, now: Instant) -> Room {
        let inner = self.lock();
        let is_old = |since: Instant| now.saturating_duration_since(since) >= recently;
        let old = inner.pieces.iter();
        let old = old.filter(|(_, (_, since))| is_old(*since));
        let (mut longest, mut free_from) = (0, 0);
        for (&at, &(len, _)) in old {
            longest = longest.max(at - free_from);
            free_from = at + len;
        }
        Room {
            longest: longest.max(self.region.len() - free_from),
            whole: free_from == 0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Allocates a multiple of the unit. Returns its start.
    // [MEM-8]
    fn take(&mut self, bytes: usize, region: usize) -> Option<(Option<Allocation>, usize)> {
        if self.whole {
            return None;
        }
        let units = u32::try_from(bytes / UNIT).ok()?;
        if let Some(allocation) = self.allocator.allocate(units) {
            return Some((Some(allocation), allocation.offset as usize * UNIT));
        }
        if self.pieces.is_empty() && bytes <= region {
            self.whole = true;
            return Some((None, 0));
        }
        None
    }
}

impl Piece {
    /// Returns the memory of the piece. There is one span of it at a time.
    pub(super) fn span(&self) -> Option<Span> {
        self.pool.lease(self.start..self.start + self.len, ())
    }

    /// Makes the piece the memory of a program: it is freed with the last span of it.
    pub(super) fn into_span(self) -> Option<Span> {
        let pool = Arc::clone(&self.pool);
        pool.lease(self.start..self.start + self.len, self)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut inner = self.pool.lock();
        match self.allocation {
            Some(allocation) => inner.allocator.free(allocation),
            None => inner.whole = false,
        }
        inner.pieces.remove(&self.start);
        drop(inner);
        self.pool.counters.memory_returned().add(self.taken);
        if let Some(hook) = self.pool.freed.get() {
            hook();
        }
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
