//! A wait that another thread can end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Ends the wait of a thread that waits for a descriptor.
///
/// If no thread waits when an alarm is rung, the next wait ends at once, so no ring is lost.
#[derive(Debug)]
pub struct Alarm(EventFd);

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The descriptor is readable, or its other end is closed.
    Ready,
    /// The alarm was rung.
    Rung,
    /// The time limit has expired.
    Expired,
    /// This thread handled a signal.
    Signal,
}

impl Alarm {
    /// Creates an alarm that was not rung.
    ///
    /// # Errors
    ///
    /// Errors of `eventfd(2)`: too many descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self(EventFd::from_flags(flags)?))
    }

    /// Ends one wait: a current one, or the next one at its start. Two rings may end only one wait.
    pub fn ring(&self) {
        // Fails only after 2^64 rings since the last wait, and then the alarm is rung anyway.
        let _full = self.0.write(1);
    }

    /// Cancels every ring that ended no wait.
    pub fn clear(&self) {
        // Fails if the alarm was not rung.
        let _count = self.0.read();
    }

    /// Sleeps until `descriptor` is readable, the alarm is rung, or `limit` has passed on the
    /// monotonic clock. A signal does not end the wait. If the descriptor is readable and the alarm
    /// was rung, returns [`Woken::Rung`] first and clears the ring.
    ///
    /// # Errors
    ///
    /// Errors of `poll(2)`.
    pub fn wait(&self, descriptor: &impl AsFd, limit: Duration) -> io::Result<Woken> {
        let began = Instant::now();
        loop {
            let left = limit.saturating_sub(began.elapsed());
            match self.wait_or_signal(descriptor, left)? {
                Woken::Signal => {}
                woken => return Ok(woken),
            }
        }
    }

    /// Like [`wait`](Self::wait), but a signal that this thread handles also ends the wait.
    ///
    /// # Errors
    ///
    /// Errors of `poll(2)`.
    pub fn wait_or_signal(&self, descriptor: &impl AsFd, limit: Duration) -> io::Result<Woken> {
        let began = Instant::now();
        loop {
            let left = limit.saturating_sub(began.elapsed());
            let mut polled = [
                PollFd::new(self.0.as_fd(), PollFlags::POLLIN),
                PollFd::new(descriptor.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut polled, timeout(left)) {
                Ok(0) if left <= SLICE_MAX => return Ok(Woken::Expired),
                Ok(0) => {}
                Err(Errno::EINTR) => return Ok(Woken::Signal),
                Ok(_) if polled[0].any() == Some(true) => {
                    let _count = self.0.read();
                    return Ok(Woken::Rung);
                }
                Ok(_) => return Ok(Woken::Ready),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Alarm {
    /// Readable while a ring has ended no wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Longest single call of `poll(2)`, whose timeout counts milliseconds in 31 bits.
const SLICE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Rounds up, so that a wait never ends before its limit.
fn timeout(left: Duration) -> PollTimeout {
    let rounded = left.min(SLICE_MAX) + Duration::from_nanos(999_999);
    PollTimeout::try_from(rounded.as_millis()).unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn an_alarm_ends_the_next_wait_and_only_that() {
        let (near, _far) = UnixStream::pair().unwrap();
        let alarm = Alarm::new().unwrap();
        alarm.ring();
        alarm.ring();
        assert_eq!(alarm.wait(&near, LONG).unwrap(), Woken::Rung);
        assert_eq!(alarm.wait(&near, Duration::ZERO).unwrap(), Woken::Expired);
    }

    #[test]
    fn an_alarm_ends_a_wait_that_has_begun() {
        let (near, _far) = UnixStream::pair().unwrap();
        let alarm = Alarm::new().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| alarm.ring());
            assert_eq!(alarm.wait(&near, LONG).unwrap(), Woken::Rung);
        });
    }

    #[test]
    fn a_readable_descriptor_ends_a_wait_and_so_does_the_limit() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let alarm = Alarm::new().unwrap();
        let limit = Duration::from_millis(20);
        let before = Instant::now();
        assert_eq!(alarm.wait(&near, limit).unwrap(), Woken::Expired);
        assert!(before.elapsed() >= limit);
        far.write_all(b"x").unwrap();
        assert_eq!(alarm.wait(&near, LONG).unwrap(), Woken::Ready);
    }
}
