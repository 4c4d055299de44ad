//! Where I/O threads rest while there is nothing for them to move.
//!
//! ```text
//!  whoever leaves bytes to be moved:   offer ── one of those who rest is woken
//!  I/O thread:   nothing to move ── rest ── offered: moves on
//!                                        └─ ended: false
//! ```
//!
//! An offer is a hint. Whoever makes one moves bytes until nothing is left, so that an offer which comes while a thread
//! is about to rest costs no progress.

use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, PoisonError};

/// What I/O threads wait for.
pub(crate) struct Rest {
    /// Threads that rest. A hint for those without the lock.
    resting: AtomicU32,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Wake-ups that no thread has taken yet.
    offers: u32,
    ended: bool,
}

impl Rest {
    pub(crate) fn new() -> Self {
        Self {
            resting: AtomicU32::new(0),
            state: Mutex::new(State {
                offers: 0,
                ended: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// There is something to move: wakes a thread that rests, if there is one.
    pub(crate) fn offer(&self) {
        if self.resting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.offers < self.resting.load(Ordering::Relaxed) {
            state.offers += 1;
            self.changed.notify_one();
        }
    }

    /// Rests until there may be something to move, or not at all when there is `more`. False when the node ends.
    pub(crate) fn rest(&self, more: bool) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if more || state.ended {
            return !state.ended;
        }
        self.resting.fetch_add(1, Ordering::Relaxed);
        while state.offers == 0 && !state.ended {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.resting.fetch_sub(1, Ordering::Relaxed);
        state.offers = state.offers.saturating_sub(1);
        !state.ended
    }

    /// Makes every [`Rest::rest`] return false, now and from now on.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended = true;
        self.changed.notify_all();
    }
}
