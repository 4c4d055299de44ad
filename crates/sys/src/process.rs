//! Watching another process: alive or gone, without mistaking a new process for the old one.
//!
//! A process id is given to a new process some time after its owner has ended. A process
//! descriptor (`pidfd_open(2)`) names one process for ever and becomes readable when that ends;
//! where the kernel has none, the process's start time tells an old owner of the number from a
//! new one.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signal::SigSet;

use crate::peer_memory::peer_descriptor;
use crate::wait::{Readiness, wait_until_ready};

/// One process, named so that it cannot be mistaken for a later one with the same number.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

/// How long a wait trusts the kernel to wake it. Linux 6.18 was seen to wake nobody when a process of
/// several threads was killed, about once in two hundred times; a new look tells.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Keeps signals away from this thread, so that the system gives them to another one of the
/// process. For threads that a library starts, which its program knows nothing of.
///
/// # Errors
///
/// None that `pthread_sigmask(3)` has for these arguments.
pub fn block_signals() -> io::Result<()> {
    Ok(SigSet::all().thread_block()?)
}

impl ProcessHandle {
    /// Takes hold of the process that has this number now. It need not be a child.
    ///
    /// # Errors
    ///
    /// `ESRCH` when there is no such process, [`io::ErrorKind::InvalidInput`] for 0 and numbers
    /// that no process has, `ENOSYS` before Linux 5.3 or where a sandbox forbids the call.
    #[expect(unsafe_code, reason = "neither std nor nix has this system call")]
    pub fn open(process: u32) -> io::Result<Self> {
        let process = libc::pid_t::try_from(process).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags: libc::c_uint = 0;
        // SAFETY: the call takes two integers and touches no memory of ours.
        let result = unsafe { libc::syscall(libc::SYS_pidfd_open, process, flags) };
        let raw = nix::errno::Errno::result(result)?;
        let raw = i32::try_from(raw).map_err(io::Error::other)?;
        // SAFETY: the kernel has just opened this descriptor for us and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(raw) }))
    }

    /// Takes hold of the process that connected a local socket, whose number the socket's credentials
    /// say. Before Linux 6.5 that is the process which has the number now: who must be sure finds out
    /// in another way that it is the same.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); that process is no more.
    pub fn of_peer(socket: &impl AsFd, process: u32) -> io::Result<Self> {
        match peer_descriptor(socket) {
            Ok(descriptor) => Ok(Self(descriptor)),
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Self::open(process),
            Err(error) => Err(error),
        }
    }

    /// Whether the process has ended.
    ///
    /// # Errors
    ///
    /// What `poll(2)` fails with.
    pub fn has_ended(&self) -> io::Result<bool> {
        self.wait(Duration::ZERO)
    }

    /// Waits at most `limit` for the end of the process; `true` when it has ended.
    ///
    /// # Errors
    ///
    /// What `poll(2)` fails with.
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

/// When a process was started, in clock ticks since the machine was: with its number it names a
/// process for ever. `None` when there is no such process, or only its unreaped remains.
#[must_use]
pub fn process_start(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may hold anything.
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

    /// Lives until its standard input is closed.
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
        // Not reaped yet, and yet dead.
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
        // The first process started before us.
        assert!(process_start(1).is_none_or(|first| first <= own));
    }
}
