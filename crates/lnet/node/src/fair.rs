//! A fair lock: a waiting thread gets it before the thread that has just released it.
//!
//! ```text
//!  lock:    door ── taken ──▶ room ── taken ──▶ door released
//!  unlock:                    room released
//! ```
//!
//! An owner that releases the room and locks again finds the door closed: the waiting thread holds the door
//! while it waits for the room. A plain mutex lets the previous owner in first, any number of times.

use crate::sync::{AtomicU32, Mutex, MutexGuard, Ordering, PoisonError};

/// A mutex that no thread can keep by locking it repeatedly.
pub(crate) struct Fair<T> {
    pub(crate) door: Mutex<()>,
    room: Mutex<T>,
    /// The number of waiting threads.
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

    /// Returns true if a thread waits, so that the owner should end its turn. A hint: it may be late.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}
