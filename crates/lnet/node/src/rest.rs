//! Parks I/O threads while there are no bytes to move.
//!
//! ```text
//!  thread that leaves bytes to move:   offer ── wakes one resting thread
//!  I/O thread:   nothing to move ── rest ── offered: moves on
//!                                        └─ ended: false
//! ```
//!
//! An offer is only a hint. The thread that makes an offer moves bytes itself until none remain, so an offer
//! that comes while another thread is about to rest may be lost without a loss of progress.

use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, PoisonError};

/// The offers that resting I/O threads wait for.
pub(crate) struct Rest {
    /// The number of resting threads. A hint for readers without the lock.
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

    /// Offers bytes to move: wakes one resting thread, if there is one.
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

    /// Waits until there may be bytes to move, or returns at once if `more` is true. Returns false when the
    /// node ends.
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

    /// Makes every present and future call of [`Rest::rest`] return false.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ended = true;
        self.changed.notify_all();
    }
}
