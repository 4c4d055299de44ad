//! Memory of the expected region: which bytes are whose.
//!
//! A thin layer over an offset allocator, whose metadata stands in this process: a stray write
//! into the segment cannot corrupt it. Pieces are multiples of 64 bytes and begin at one, so that
//! every piece is aligned better than the 16 bytes that BMI promises.
//!
//! ```text
//!          guard 64         piece                 guard 64      guards on demand only
//!  ... ┌────────────┬───────────────────────┬────────────┐ ...
//!      │ C5 C5 ...  │ the program's         │ C5 C5 ...  │
//!      └────────────┴───────────────────────┴────────────┘
//! ```
//!
//! The allocator sorts free memory into size classes an eighth apart, so that it may refuse a
//! piece for which a free stretch would just be long enough. A whole region that is free is
//! therefore handed out here: what fits the region can always be had once everything is free.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use offset_allocator::{Allocation, Allocator};
use sys::span::Span;

use crate::counters::Counters;

/// Bytes of the allocator's unit, and alignment of every piece.
pub(super) const UNIT: usize = 64;

/// What guards are filled with.
const CANARY: u8 = 0xC5;

/// The expected region's allocator.
pub(super) struct Pool {
    region: Span,
    guards: bool,
    counters: Arc<Counters>,
    inner: Mutex<Inner>,
    freed: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// What [`Pool::room`] finds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes of the longest stretch.
    longest: usize,
    /// That is the whole region.
    whole: bool,
    /// Bytes of the guards of a piece.
    guards: usize,
}

impl Room {
    /// Whether a piece of `len` bytes can be had there, whatever the allocator's classes are.
    pub(super) fn fits(self, len: usize) -> bool {
        let Some(units) = len.max(1).checked_next_multiple_of(UNIT) else {
            return false;
        };
        let taken = units.saturating_add(self.guards);
        let spare = match self.whole {
            true => 0,
            false => (taken / 8).next_multiple_of(UNIT),
        };
        taken.saturating_add(spare) <= self.longest
    }
}

struct Inner {
    allocator: Allocator,
    /// Pieces that are out: where each begins, how long it is, since when.
    pieces: BTreeMap<usize, (usize, Instant)>,
    /// The whole region is out as one piece.
    whole: bool,
}

/// A piece of the region. It is given back when dropped.
pub(super) struct Piece {
    pool: Arc<Pool>,
    /// None for the whole region.
    allocation: Option<Allocation>,
    /// Bytes from the region's start to the program's first byte.
    pub(super) start: usize,
    /// The program's bytes.
    pub(super) len: usize,
    /// Bytes from the region's start, and bytes, of all that was taken.
    taken: (usize, usize),
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Piece({}+{})", self.start, self.len)
    }
}

impl Pool {
    /// The allocator of a region that is all free. With `guards` every piece is followed and
    /// preceded by bytes that are checked when it is given back.
    pub(super) fn new(region: Span, guards: bool, counters: Arc<Counters>) -> Arc<Self> {
        // A region of 2^38 bytes or more is used up to there.
        let units = u32::try_from(region.len() / UNIT).unwrap_or(u32::MAX - 1);
        let inner = Inner {
            allocator: Allocator::new(units),
            pieces: BTreeMap::new(),
            whole: false,
        };
        Arc::new(Self {
            region,
            guards,
            counters,
            inner: Mutex::new(inner),
            freed: OnceLock::new(),
        })
    }

    /// Has `hook` called after each piece that is given back, without a lock.
    pub(super) fn on_free(&self, hook: impl Fn() + Send + Sync + 'static) {
        // There is one owner, which calls this once.
        let _again = self.freed.set(Box::new(hook));
    }

    /// Whether a span lies in the region.
    pub(super) fn has(&self, span: &Span) -> bool {
        span.is_inside(&self.region.addresses())
    }

    /// The longest piece that could ever be had.
    pub(super) fn capacity(&self) -> usize {
        let guards = if self.guards { 2 * UNIT } else { 0 };
        (self.region.len() / UNIT * UNIT).saturating_sub(guards)
    }

    /// A piece of `len` bytes, at least one unit; its contents are whatever was there.
    pub(super) fn allocate(self: &Arc<Self>, len: usize) -> Option<Piece> {
        let (guard, taken) = self.taken(len)?;
        let mut inner = self.lock();
        let (allocation, at) = inner.take(taken, self.region.len())?;
        inner.pieces.insert(at, (taken, Instant::now()));
        drop(inner);
        self.counters.memory_taken().add(taken);
        let piece = Piece {
            pool: Arc::clone(self),
            allocation,
            start: at + guard,
            len,
            taken: (at, taken),
        };
        piece.fill_guards();
        Some(piece)
    }

    /// The room that there is once every piece is back that was taken within the last `recently`:
    /// the others count as taken for good.
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
            guards: if self.guards { 2 * UNIT } else { 0 },
        }
    }

    /// Bytes of a guard, and of everything that a piece of `len` bytes takes.
    fn taken(&self, len: usize) -> Option<(usize, usize)> {
        let guard = if self.guards { UNIT } else { 0 };
        let taken = len.max(1).checked_next_multiple_of(UNIT)?;
        Some((guard, taken.checked_add(2 * guard)?))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// So many bytes, a multiple of the unit: where they begin.
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
    /// The piece's bytes.
    pub(super) fn span(&self) -> Option<Span> {
        self.pool.region.part(self.start..self.start + self.len)
    }

    /// Everything in front of and behind the program's bytes that was taken with them.
    fn guards(&self) -> Option<[Span; 2]> {
        let (at, taken) = self.taken;
        let region = &self.pool.region;
        let before = region.part(at..self.start)?;
        let behind = region.part(self.start + self.len..at + taken)?;
        self.pool.guards.then_some([before, behind])
    }

    fn fill_guards(&self) {
        for guard in self.guards().into_iter().flatten() {
            guard.copy_in(&vec![CANARY; guard.len()]);
        }
    }

    fn check_guards(&self) {
        let broken = |guard: &Span| guard.to_vec().iter().any(|&byte| byte != CANARY);
        if self
            .guards()
            .into_iter()
            .flatten()
            .any(|guard| broken(&guard))
        {
            self.pool.counters.broken_guards().up();
            tracing::error!(piece = ?self, "memory beside a piece of the pool was overwritten");
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.check_guards();
        let mut inner = self.pool.lock();
        match self.allocation {
            Some(allocation) => inner.allocator.free(allocation),
            None => inner.whole = false,
        }
        inner.pieces.remove(&self.taken.0);
        drop(inner);
        self.pool.counters.memory_returned().add(self.taken.1);
        if let Some(hook) = self.pool.freed.get() {
            hook();
        }
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
