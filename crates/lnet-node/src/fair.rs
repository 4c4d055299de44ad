//! A lock that is handed over: whoever waits for it comes before whoever just had it.
//!
//! ```text
//!  lock:    door ── taken ──▶ room ── taken ──▶ door released
//!  unlock:                    room released
//! ```
//!
//! The owner of the room who lets go and wants in again meets the closed door of the one who stands
//! inside it and waits for the room. A plain mutex lets the owner in again first, any number of times.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A mutex that nobody can keep by taking it again and again.
pub(crate) struct Fair<T> {
    door: Mutex<()>,
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn who_waits_comes_before_who_takes_the_lock_again() {
        let lock = Arc::new(Fair::new(0_u32));
        for _ in 0..100 {
            let mut owned = lock.lock();
            *owned = 0;
            let other = Arc::clone(&lock);
            let waiter = thread::spawn(move || *other.lock());
            while !lock.is_awaited() {
                thread::yield_now();
            }
            // The waiter may still be on its way through the door.
            while lock.door.try_lock().is_ok() {
                thread::yield_now();
            }
            for _ in 0..10 {
                drop(owned);
                owned = lock.lock();
                *owned += 1;
            }
            drop(owned);
            assert_eq!(waiter.join().ok(), Some(0), "the owner came first");
        }
    }
}
