//! Many files, or large ones, with several calls in flight.
//!
//! ```text
//!   items ──▶ worker: short file ──▶ done
//!         ──▶ worker: long file, begun ──▶ chunks ──▶ any worker ──▶ the last one finishes the file
//! ```
//!
//! A file that must begin again (the service restarted, the file was replaced) does so a few times. A
//! file that fails is reported and the others go on; when the service does not answer at all, everything
//! ends.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::client::StoreError;

mod get;
mod put;

pub use get::{GetItem, get};
pub use put::{PutItem, put};

/// What a transfer has done so far; shared with whoever shows it.
#[derive(Debug, Default)]
pub struct Progress {
    files: AtomicU64,
    bytes: AtomicU64,
    begun_again: AtomicU64,
    is_cancelled: AtomicBool,
}

impl Progress {
    /// Files that are done.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Bytes of files that are done or under way. What was moved of a file that fails or begins again no longer
    /// counts.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Files that had to begin again.
    #[must_use]
    pub fn begun_again(&self) -> u64 {
        self.begun_again.load(Ordering::Relaxed)
    }

    /// Ends the transfer after the calls under way. Files that are not done are given up.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// True after [`Progress::cancel`].
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    fn moved(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn take_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A file that was not transferred.
#[derive(Debug)]
pub struct Failed {
    /// Its place in the list of items.
    pub item: usize,
    /// Why.
    pub error: StoreError,
}

/// What became of an item that began.
enum Begun<L> {
    /// It was short and is done, with so many bytes.
    Done(u64),
    /// It is long: so many chunks are left, and so many bytes were moved already.
    Long { file: L, chunks: u64, moved: u64 },
}

/// What a direction does with an item.
trait Plan: Sync {
    /// A long file under way.
    type Long: Send + Sync;

    fn items(&self) -> usize;
    /// Moves a short file, or begins a long one.
    fn begin(&self, item: usize) -> Result<Begun<Self::Long>, StoreError>;
    /// Moves one chunk of a long file, of so many bytes.
    fn chunk(&self, item: usize, long: &Self::Long, chunk: u64) -> Result<u64, StoreError>;
    /// All chunks were moved.
    fn finish(&self, item: usize, long: &Self::Long) -> Result<(), StoreError>;
    /// The file failed: take back what [`Plan::begin`] did, at the service only if it can be reached.
    fn give_up(&self, item: usize, long: &Self::Long, is_reachable: bool);
}

/// How often one file begins, at most.
const BEGINNINGS_MAX: u32 = 4;

struct Engine<'a, P: Plan> {
    plan: &'a P,
    progress: &'a Progress,
    state: Mutex<State<P::Long>>,
    changed: Condvar,
}

struct State<L> {
    /// Items to begin, with the number of times they did.
    waiting: VecDeque<(usize, u32)>,
    long: VecDeque<Arc<Long<L>>>,
    /// Workers that do something that may give others something to do.
    busy: usize,
    failed: Vec<Failed>,
    is_ended: bool,
}

struct Long<L> {
    item: usize,
    beginnings: u32,
    plan: L,
    chunks: u64,
    next: AtomicU64,
    left: AtomicU64,
    /// Bytes that were moved.
    moved: AtomicU64,
    failure: Mutex<Option<StoreError>>,
    /// Chunks of it will never be moved.
    is_given_up: AtomicBool,
}

enum Work<L> {
    Begin(usize, u32),
    Chunk(Arc<Long<L>>, u64),
}

/// Runs a plan with this many threads; the items that failed, in order.
fn run<P: Plan>(plan: &P, jobs: usize, progress: &Progress) -> Vec<Failed> {
    let waiting = (0..plan.items()).map(|item| (item, 1)).collect();
    let (long, failed) = (VecDeque::new(), Vec::new());
    let state = State {
        waiting,
        long,
        busy: 0,
        failed,
        is_ended: false,
    };
    let engine = Engine {
        plan,
        progress,
        state: Mutex::new(state),
        changed: Condvar::new(),
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| engine.work());
        }
    });
    let state = engine
        .state
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let mut failed = state.failed;
    failed.sort_by_key(|failed| failed.item);
    failed
}

impl<P: Plan> Engine<'_, P> {
    fn work(&self) {
        while let Some(work) = self.take() {
            match work {
                Work::Begin(item, beginnings) => self.begin(item, beginnings),
                Work::Chunk(long, chunk) => self.chunk(&long, chunk),
            }
            self.state().busy -= 1;
            self.changed.notify_all();
        }
    }

    /// The next thing to do: chunks of files under way first, so that few are under way at once.
    fn take(&self) -> Option<Work<P::Long>> {
        let mut state = self.state();
        loop {
            if state.is_ended || self.progress.is_cancelled() {
                return self.drain(state);
            }
            if let Some(work) = state.next() {
                state.busy += 1;
                return Some(work);
            }
            if state.busy == 0 {
                self.changed.notify_all();
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives up the long files whose chunks have not all been taken.
    fn drain(&self, mut state: MutexGuard<'_, State<P::Long>>) -> Option<Work<P::Long>> {
        let is_reachable = !state.is_ended;
        let long: Vec<_> = state.long.drain(..).collect();
        drop(state);
        for long in long {
            long.is_given_up.store(true, Ordering::Release);
            let taken = long.next.swap(long.chunks, Ordering::AcqRel);
            let untaken = long.chunks.saturating_sub(taken);
            // Whoever moves the last chunk that was taken gives it up, or nobody does: then this is it.
            if untaken > 0 && long.left.fetch_sub(untaken, Ordering::AcqRel) == untaken {
                self.plan.give_up(long.item, &long.plan, is_reachable);
            }
        }
        None
    }

    fn begin(&self, item: usize, beginnings: u32) {
        match self.plan.begin(item) {
            Ok(Begun::Done(bytes)) => {
                self.progress.moved(bytes);
                self.done();
            }
            Ok(Begun::Long {
                file: plan,
                chunks,
                moved,
            }) => {
                self.progress.moved(moved);
                let long = Long {
                    item,
                    beginnings,
                    plan,
                    chunks,
                    next: AtomicU64::new(0),
                    left: AtomicU64::new(chunks),
                    moved: AtomicU64::new(moved),
                    failure: Mutex::new(None),
                    is_given_up: AtomicBool::new(false),
                };
                self.state().long.push_back(Arc::new(long));
                self.changed.notify_all();
            }
            Err(error) => self.failed(item, beginnings, error),
        }
    }

    fn chunk(&self, long: &Long<P::Long>, chunk: u64) {
        let is_good = lock(&long.failure).is_none() && !self.progress.is_cancelled();
        if is_good {
            match self.plan.chunk(long.item, &long.plan, chunk) {
                Ok(bytes) => {
                    long.moved.fetch_add(bytes, Ordering::Relaxed);
                    self.progress.moved(bytes);
                }
                Err(error) => _ = lock(&long.failure).get_or_insert(error),
            }
        }
        if long.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.finish(long);
        }
    }

    /// The last chunk of a file is done, well or not.
    fn finish(&self, long: &Long<P::Long>) {
        let is_given_up = self.progress.is_cancelled() || long.is_given_up.load(Ordering::Acquire);
        let result = match lock(&long.failure).take() {
            Some(error) => Err(error),
            None if is_given_up => {
                let is_reachable = !self.state().is_ended;
                return self.plan.give_up(long.item, &long.plan, is_reachable);
            }
            None => self.plan.finish(long.item, &long.plan),
        };
        match result {
            Ok(()) => self.done(),
            Err(error) => {
                self.progress.take_back(long.moved.load(Ordering::Relaxed));
                self.plan.give_up(long.item, &long.plan, !error.is_fatal());
                self.failed(long.item, long.beginnings, error);
            }
        }
    }

    fn done(&self) {
        self.progress.files.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self, item: usize, beginnings: u32, error: StoreError) {
        let mut state = self.state();
        if error.is_stale() && beginnings < BEGINNINGS_MAX {
            self.progress.begun_again.fetch_add(1, Ordering::Relaxed);
            state.waiting.push_back((item, beginnings + 1));
        } else {
            state.is_ended |= error.is_fatal();
            state.failed.push(Failed { item, error });
        }
    }

    fn state(&self) -> MutexGuard<'_, State<P::Long>> {
        lock(&self.state)
    }
}

impl<L> State<L> {
    fn next(&mut self) -> Option<Work<L>> {
        while let Some(long) = self.long.front() {
            let chunk = long.next.fetch_add(1, Ordering::AcqRel);
            if chunk + 1 < long.chunks {
                return Some(Work::Chunk(Arc::clone(long), chunk));
            }
            let long = self.long.pop_front()?;
            if chunk < long.chunks {
                return Some(Work::Chunk(long, chunk));
            }
        }
        let (item, beginnings) = self.waiting.pop_front()?;
        Some(Work::Begin(item, beginnings))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
