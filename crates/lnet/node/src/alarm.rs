//! Records whether the driver sleeps, and until when. From this, a call knows whether it must wake the driver.
//!
//! ```text
//!  driver, with the lock:    nothing to do ── set ── unlock ── sleep ── clear
//!  call, with the lock:      adds work ── is_too_late? ── unlock ── wake if so
//! ```
//!
//! Both sides use the alarm under the lock of the state that they share. A call that takes the lock before the
//! driver sets the alarm adds its work before the driver's last look for work. A call that takes the lock
//! afterwards sees the alarm. A wake-up that reaches a driver which is not yet asleep must end its next sleep
//! at once.

use lnet_types::Time;

use crate::sync::{AtomicU64, Ordering};

/// When the sleeping driver wakes by itself, in nanoseconds; 0 while it is awake.
pub(crate) struct Alarm(AtomicU64);

impl Alarm {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Notes that the driver is about to sleep until `at`. Call it under the lock.
    pub(crate) fn set(&self, at: Time) {
        self.0.store(at.as_nanos().max(1), Ordering::Release);
    }

    /// Notes that the driver is awake.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Returns whether the driver sleeps. Call it under the lock.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Returns whether the driver sleeps too long for the remaining work: work to do `at_once`, or work due at
    /// `next`. Call it under the lock.
    pub(crate) fn is_too_late(&self, at_once: bool, next: Option<Time>) -> bool {
        let wakes_at = self.0.load(Ordering::Acquire);
        let next = next.map_or(u64::MAX, Time::as_nanos);
        wakes_at != 0 && (at_once || next < wakes_at)
    }
}
