//! Waits until a descriptor is ready, for a duration rather than until a time of day.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The event for which a descriptor is watched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Readiness {
    /// Bytes can be read, or the other end is closed.
    Readable,
    /// Bytes can be written, or the other end is closed.
    Writable,
}

/// Sleeps until `descriptor` is ready or `limit` has passed. Without a limit the sleep has no
/// timeout.
///
/// The limit is a duration on the monotonic clock: setting the time of day does not change it. A
/// signal does not end the wait.
///
/// # Returns
///
/// `true` if the descriptor is ready, `false` if the limit has expired.
///
/// # Errors
///
/// Errors of `poll(2)`.
pub fn wait_until_ready(
    descriptor: &impl AsFd,
    readiness: Readiness,
    limit: Option<Duration>,
) -> io::Result<bool> {
    // A limit beyond the range of the clock is no limit.
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match wait_or_signal(descriptor, readiness, left) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Like [`wait_until_ready`], but a signal that this thread handles ends the wait with
/// [`io::ErrorKind::Interrupted`].
pub(crate) fn wait_or_signal(
    descriptor: &impl AsFd,
    readiness: Readiness,
    limit: Option<Duration>,
) -> io::Result<bool> {
    let flags = match readiness {
        Readiness::Readable => PollFlags::POLLIN,
        Readiness::Writable => PollFlags::POLLOUT,
    };
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let mut polled = [PollFd::new(descriptor.as_fd(), flags)];
        match poll(&mut polled, timeout(left)) {
            Ok(0) if left.is_some_and(|left| left <= SLICE_MAX) => return Ok(false),
            Ok(0) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Longest single call of `poll(2)`, whose timeout counts milliseconds in 31 bits.
const SLICE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Rounds up, so that a wait never ends before its limit.
fn timeout(left: Option<Duration>) -> PollTimeout {
    let Some(left) = left else {
        return PollTimeout::NONE;
    };
    let rounded = left
        .min(SLICE_MAX)
        .saturating_add(Duration::from_nanos(999_999));
    PollTimeout::try_from(rounded.as_millis()).unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn nothing_to_read_ends_at_the_limit_and_not_before() {
        let (near, _far) = UnixStream::pair().unwrap();
        let before = Instant::now();
        let limit = Duration::from_millis(20);
        assert!(!wait_until_ready(&near, Readiness::Readable, Some(limit)).unwrap());
        assert!(before.elapsed() >= limit);
    }

    #[test]
    fn a_limit_of_zero_polls_once() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let zero = Some(Duration::ZERO);
        assert!(!wait_until_ready(&near, Readiness::Readable, zero).unwrap());
        assert!(wait_until_ready(&near, Readiness::Writable, zero).unwrap());
        far.write_all(b"x").unwrap();
        assert!(wait_until_ready(&near, Readiness::Readable, zero).unwrap());
    }

    #[test]
    fn a_limit_of_centuries_is_no_limit() {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(b"x").unwrap();
        let limit = Some(Duration::MAX);
        assert!(wait_until_ready(&near, Readiness::Readable, limit).unwrap());
    }

    #[test]
    fn a_closed_other_end_is_readable() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        assert!(wait_until_ready(&near, Readiness::Readable, None).unwrap());
    }
}
