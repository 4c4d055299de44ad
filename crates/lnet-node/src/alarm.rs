//! Whether the driver sleeps, and until when: how a call knows that it must wake the driver.
//!
//! ```text
//!  driver, with the lock:    nothing to do ── set ── unlock ── sleep ── clear
//!  call, with the lock:      adds work ── is_too_late? ── unlock ── wake if so
//! ```
//!
//! Both sides use the alarm under the lock of what they share. A call that comes before the driver sets the alarm
//! adds its work before the driver has looked for the last time; one that comes after it sees the alarm. Waking a
//! driver that is not asleep yet must end its next sleep at once.

use lnet_types::Time;

use crate::sync::{AtomicU64, Ordering};

/// When the sleeping driver will look by itself, in nanoseconds; 0 while it is awake.
pub(crate) struct Alarm(AtomicU64);

impl Alarm {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The driver is about to sleep until `at`. To be called under the lock.
    pub(crate) fn set(&self, at: Time) {
        self.0.store(at.as_nanos().max(1), Ordering::Release);
    }

    /// The driver is awake.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Whether the driver sleeps. To be called under the lock.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Whether the driver sleeps too long for what is left to do: at once, or at a time. To be called under the
    /// lock, with what is left.
    pub(crate) fn is_too_late(&self, at_once: bool, next: Option<Time>) -> bool {
        let wakes_at = self.0.load(Ordering::Acquire);
        let next = next.map_or(u64::MAX, Time::as_nanos);
        wakes_at != 0 && (at_once || next < wakes_at)
    }
}
