//! A lock that is handed over: whoever waits for it comes before whoever just had it.
//!
//! ```text
//!  lock:    door ── taken ──▶ room ── taken ──▶ door released
//!  unlock:                    room released
//! ```
//!
//! The owner of the room who lets go and wants in again meets the closed door of the one who stands
//! inside it and waits for the room. A plain mutex lets the owner in again first, any number of times.

use crate::sync::{AtomicU32, Mutex, MutexGuard, Ordering, PoisonError};

/// A mutex that nobody can keep by taking it again and again.
pub(crate) struct Fair<T> {
    pub(crate) door: Mutex<()>,
    room: Mutex<T>,
    /// Threads that wait.
    waiting: AtomicU32,
}

impl<T> Fair<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            door: Mutex::new(()),
            room: Mutex::new(value),
            waiting: AtomicU32::new(0),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        let room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        drop(door);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        room
    }

    /// True when a thread waits, so that the owner should end its turn. A hint: it may be late.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}
