//! An event that can happen any number of times, and for which threads of this process wait.
//!
//! ```text
//!  waiter:   seen = count() ─▶ look at the condition ─▶ wait(seen)
//!  notifier: change the condition ─▶ notify()
//! ```
//!
//! A notification between `count` and `wait` ends the wait at once, so no notification is lost and
//! no lock is needed. Unlike `std`'s parking and condition variables, a wait returns if a signal
//! interrupted it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;

/// Counts notifications.
#[derive(Debug, Default)]
pub struct Event {
    count: AtomicU32,
    waiters: AtomicU32,
}

/// Why a wait for an [`Event`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// There may have been a notification. The caller checks its condition again.
    MaybeNotified,
    /// The time limit has expired.
    Expired,
    /// This thread handled a signal.
    Signal,
}

/// Longest single sleep. A sleep without timeout would restart after a signal instead of reporting
/// it.
const SLICE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

impl Event {
    /// Number of notifications, modulo 2^32.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// Notifies: ends every wait.
    pub fn notify(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        // A waiter that this load misses sees the new count.
        if self.waiters.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    /// Sleeps until there were notifications after the count `seen`, for at most `limit`.
    pub fn wait(&self, seen: u32, limit: Duration) -> Waited {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let waited = self.sleep(seen, limit.min(SLICE_MAX));
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        waited
    }

    #[expect(unsafe_code, reason = "neither std nor nix has this system call")]
    fn wake(&self) {
        // SAFETY: FUTEX_WAKE uses the address as a name and accesses no memory.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.count.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                i32::MAX,
            )
        };
    }

    #[expect(unsafe_code, reason = "neither std nor nix has this system call")]
    fn sleep(&self, seen: u32, limit: Duration) -> Waited {
        let limit = libc::timespec {
            // At most a day.
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        };
        // SAFETY: the address is that of an aligned word that lives as long as `self`. The kernel
        // reads this word and a `timespec` that lives during the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.count.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                seen,
                &raw const limit,
            )
        };
        match Errno::result(result) {
            Err(Errno::ETIMEDOUT) => Waited::Expired,
            Err(Errno::EINTR) => Waited::Signal,
            Ok(_) | Err(_) => Waited::MaybeNotified,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_notification_after_the_count_ends_the_wait() {
        let event = Event::default();
        let seen = event.count();
        event.notify();
        assert_eq!(event.wait(seen, LONG), Waited::MaybeNotified);
        let limit = Duration::from_millis(5);
        assert_eq!(event.wait(event.count(), limit), Waited::Expired);
    }

    #[test]
    fn a_notification_ends_every_wait() {
        let (event, done) = (Event::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let seen = event.count();
                        if done.load(Ordering::SeqCst) {
                            return;
                        }
                        assert_ne!(event.wait(seen, LONG), Waited::Expired);
                    }
                });
            }
            done.store(true, Ordering::SeqCst);
            event.notify();
        });
    }
}
