//! A wait that another thread can end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Ends the wait of a thread that waits for a descriptor.
///
/// An alarm that is rung while nobody waits ends the next wait, so that none is lost.
#[derive(Debug)]
pub struct Alarm(EventFd);

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The descriptor is readable, or its other end is gone.
    Ready,
    /// The alarm was rung.
    Rung,
    /// The limit has passed.
    Late,
    /// This thread has handled a signal.
    Signal,
}

impl Alarm {
    /// An alarm that was not rung.
    ///
    /// # Errors
    ///
    /// What `eventfd(2)` fails with: too many descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self(EventFd::from_flags(flags)?))
    }

    /// Ends the wait of one thread, now or at its beginning. Ringing twice may end only one wait.
    pub fn ring(&self) {
        // It fails only when it was rung 2^64 times since the last wait, which is enough.
        let _full = self.0.write(1);
    }

    /// Takes back every ring that has ended no wait.
    pub fn clear(&self) {
        // It fails when it was not rung.
        let _count = self.0.read();
    }

    /// Sleeps until `descriptor` is readable, the alarm is rung or `limit` has passed. The limit
    /// is a span on the monotonic clock; a signal does not end the wait. When the descriptor is
    /// readable and the alarm was rung, the alarm is told first, and is spent.
    ///
    /// # Errors
    ///
    /// What `poll(2)` fails with.
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

    /// As [`wait`](Self::wait), but a signal that this thread handles ends it, too.
    ///
    /// # Errors
    ///
    /// What `poll(2)` fails with.
    pub fn wait_or_signal(&self, descriptor: &impl AsFd, limit: Duration) -> io::Result<Woken> {
        let began = Instant::now();
        loop {
            let left = limit.saturating_sub(began.elapsed());
            let mut polled = [
                PollFd::new(self.0.as_fd(), PollFlags::POLLIN),
                PollFd::new(descriptor.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut polled, timeout(left)) {
                Ok(0) if left <= SLICE_MAX => return Ok(Woken::Late),
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

/// The longest single call of `poll(2)`: its timeout counts milliseconds in 31 bits.
const SLICE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Rounded up, so that a wait never ends before its limit.
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
        assert_eq!(alarm.wait(&near, Duration::ZERO).unwrap(), Woken::Late);
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
        assert_eq!(alarm.wait(&near, limit).unwrap(), Woken::Late);
        assert!(before.elapsed() >= limit);
        far.write_all(b"x").unwrap();
        assert_eq!(alarm.wait(&near, LONG).unwrap(), Woken::Ready);
    }
}
