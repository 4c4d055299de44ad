//! The slots of a client. They limit the number of calls in flight, and order the calls of each
//! slot.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The slot and sequence number of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) slot: u16,
    /// Number of the call in its slot.
    pub(super) sequence: u32,
}

/// The slots that no call uses.
pub(super) struct Slots {
    free: Mutex<Vec<Place>>,
    freed: Condvar,
}

/// A slot that a call uses until this value is dropped.
pub(super) struct Taken<'a> {
    slots: &'a Slots,
    place: Place,
}

impl Slots {
    pub(super) fn new(count: u16) -> Self {
        let free = (0..count).rev().map(|slot| Place { slot, sequence: 0 });
        Self {
            free: Mutex::new(free.collect()),
            freed: Condvar::new(),
        }
    }

    /// Waits for a slot until the deadline. Returns `None` after the deadline.
    pub(super) fn take(&self, deadline: Instant) -> Option<Taken<'_>> {
        let mut free = self.lock();
        loop {
            if let Some(mut place) = free.pop() {
                place.sequence = place.sequence.wrapping_add(1);
                return Some(Taken { slots: self, place });
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            let waited = self.freed.wait_timeout(free, left);
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Place>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken<'_> {
    pub(super) fn place(&self) -> Place {
        self.place
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.slots.lock().push(self.place);
        self.slots.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_slot_is_one_calls_at_a_time_and_counts_them() {
        let slots = Slots::new(2);
        let later = Instant::now() + Duration::from_secs(60);
        let first = slots.take(later).unwrap();
        let second = slots.take(later).unwrap();
        assert_ne!(first.place().slot, second.place().slot);
        assert!(slots.take(Instant::now()).is_none());
        let slot = first.place().slot;
        drop(first);
        let again = slots.take(later).unwrap().place();
        assert_eq!(again, Place { slot, sequence: 2 });
    }
}
