//! Watches another process until it ends, without mistaking a new process for the old one.
//!
//! Some time after a process has ended, the system gives its process id to a new process. A process
//! descriptor (`pidfd_open(2)`) refers to one process for ever and becomes readable when that
//! process ends. If the kernel has no process descriptors, the start time distinguishes the
//! processes that had the same id.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signal::SigSet;

use crate::peer_memory::peer_descriptor;
use crate::wait::{Readiness, wait_until_ready};

/// A handle of one process that never refers to a later process with the same number.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

/// Longest time that a wait relies on the kernel to wake it. Linux 6.18 was seen to wake no waiter
/// when a process with several threads was killed, about once in 200 times. Another look finds out.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Blocks signals in this thread, so that the system delivers them to other threads of the process.
/// For threads that a library starts without its program's knowledge.
///
/// # Errors
///
/// None: `pthread_sigmask(3)` has no errors for these arguments.
pub fn block_signals() -> io::Result<()> {
    Ok(SigSet::all().thread_block()?)
}

impl ProcessHandle {
    /// Opens a handle of the process that has this number now. The process need not be a child.
    ///
    /// # Errors
    ///
    /// `ESRCH` if there is no such process, [`io::ErrorKind::InvalidInput`] for 0 and numbers that
    /// no process can have, `ENOSYS` before Linux 5.3 or if a sandbox forbids the call.
    #[expect(unsafe_code, reason = "neither std nor nix has this system call")]
    pub fn open(process: u32) -> io::Result<Self> {
        let process = libc::pid_t::try_from(process).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags: libc::c_uint = 0;
        // SAFETY: the call takes two integers and accesses no memory of this process.
        let result = unsafe { libc::syscall(libc::SYS_pidfd_open, process, flags) };
        let raw = nix::errno::Errno::result(result)?;
        let raw = i32::try_from(raw).map_err(io::Error::other)?;
        // SAFETY: the kernel has just opened this descriptor for this process, and nothing else
        // knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(raw) }))
    }

    /// Opens a handle of the process that connected a local socket; `process` is its number from
    /// the socket's credentials. Before Linux 6.5 the handle is of the process that has the number
    /// now. A caller that must be sure checks by other means that the process is the same.
    ///
    /// # Errors
    ///
    /// Errors of [`open`](Self::open); the process has ended.
    pub fn of_peer(socket: &impl AsFd, process: u32) -> io::Result<Self> {
        match peer_descriptor(socket) {
            Ok(descriptor) => Ok(Self(descriptor)),
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Self::open(process),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the process has ended.
    ///
    /// # Errors
    ///
    /// Errors of `poll(2)`.
    pub fn has_ended(&self) -> io::Result<bool> {
        self.wait(Duration::ZERO)
    }

    /// Waits at most `limit` for the end of the process. Returns whether it has ended.
    ///
    /// # Errors
    ///
    /// Errors of `poll(2)`.
    pub fn wait(&self, limit: Duration) -> io::Result<bool> {
        let begun = Instant::now();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            let slice = left.min(LOOK_AGAIN);
            if wait_until_ready(self, Readiness::Readable, Some(slice))? {
                return Ok(true);
            }
            if left <= LOOK_AGAIN {
                return Ok(false);
            }
        }
    }
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for ProcessHandle {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

/// Returns the start time of a process, in clock ticks since the start of the machine. Number and
/// start time together identify a process for ever. Returns `None` if there is no such process, or
/// if it has ended and was not reaped yet.
#[must_use]
pub fn process_start(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may contain any characters.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    // proc_pid_stat(5): the state is field 3, the start time field 22.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Runs until its standard input is closed.
    fn child() -> Child {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn a_process_lives_until_it_ends() {
        let mut child = child();
        let handle = ProcessHandle::open(child.id()).unwrap();
        assert!(!handle.has_ended().unwrap());
        assert!(process_start(child.id()).is_some());
        child.kill().unwrap();
        assert!(handle.wait(LONG).unwrap());
        // The process is dead but not reaped.
        assert_eq!(process_start(child.id()), None);
        child.wait().unwrap();
        assert!(handle.has_ended().unwrap());
        assert_eq!(process_start(child.id()), None);
    }

    #[test]
    fn a_number_without_a_process_is_an_error() {
        let mut child = child();
        child.kill().unwrap();
        child.wait().unwrap();
        let gone = ProcessHandle::open(child.id()).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
        for never in [0, u32::MAX] {
            assert!(ProcessHandle::open(never).is_err(), "{never}");
        }
    }

    #[test]
    fn our_own_start_does_not_change() {
        let own = process_start(std::process::id()).unwrap();
        assert_eq!(process_start(std::process::id()), Some(own));
        // The first process started before this one.
        assert!(process_start(1).is_none_or(|first| first <= own));
    }
}
