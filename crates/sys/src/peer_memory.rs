//! Memory of other processes: `process_vm_readv(2)` and `process_vm_writev(2)`.
//!
//! ```text
//!  this process            kernel                      the other process
//!  head, spans  ◀── one copy, both sides pinned ──▶  parts by address and length
//! ```
//!
//! The kernel allows these calls if it would allow to attach a debugger
//! (`PTRACE_MODE_ATTACH_REALCREDS`): the same user, a process that may dump core, and the
//! conditions of security modules. Yama with `ptrace_scope` 1 requires the consent of the other
//! process: [`allow_trace`].
//!
//! Remote addresses are numbers from another process. Wrong ones do not endanger this process: an
//! address that the other process does not have gives `EFAULT`.
//!
//! A process may also name itself: a daemon and its client can be threads of one process. What is
//! written then reaches memory without its owner's knowledge, as a write to `/proc/self/mem` does,
//! which the language considers the system's matter. Such a daemon writes only to places that its
//! client named, which the client holds as a [`Span`] meanwhile, so without a reference.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::libc;

use crate::span::{PARTS_MAX, Parts, Span, counted};

/// A range of another process's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RemotePart {
    /// Address of the first byte in that process.
    pub address: u64,
    /// Number of bytes.
    pub len: u64,
}

/// Reads parts of a process's memory, as if they were contiguous, into `head` and then into spans.
/// One call uses at most [`PARTS_MAX`] parts of either side.
///
/// # Returns
///
/// The number of bytes. It is smaller than requested if a part ends in memory that the process does
/// not have.
///
/// # Errors
///
/// `EPERM`: the kernel does not allow it. `EFAULT`: the process has no memory at the first address.
/// `ESRCH`: there is no such process. `ENOSYS`: the kernel has no such call.
pub fn read_memory(
    process: u32,
    from: &[RemotePart],
    head: &mut [u8],
    spans: &[Span],
) -> io::Result<usize> {
    let mut local = Parts::new();
    local.add(head.as_mut_ptr(), head.len());
    local.add_spans(spans, 0);
    let (process, remote) = (number(process)?, Remote::of(from)?);
    #[expect(
        unsafe_code,
        reason = "the kernel writes to memory without a reference"
    )]
    // SAFETY: every local part is in a span, whose owner is borrowed, or in `head`, which is
    // borrowed exclusively. Remote parts are numbers of another address space.
    let count = unsafe {
        libc::process_vm_readv(
            process,
            local.as_ptr(),
            local.len() as libc::c_ulong,
            remote.list.as_ptr(),
            remote.used as libc::c_ulong,
            0,
        )
    };
    counted(count)
}

/// Writes spans, as if they were contiguous, to parts of a process's memory. One call uses at most
/// [`PARTS_MAX`] parts of either side.
///
/// # Returns
///
/// As for [`read_memory`].
///
/// # Errors
///
/// Errors of [`read_memory`]; `EFAULT` also if the process may not write there.
pub fn write_memory(process: u32, spans: &[Span], to: &[RemotePart]) -> io::Result<usize> {
    let mut local = Parts::new();
    local.add_spans(spans, 0);
    let (process, remote) = (number(process)?, Remote::of(to)?);
    #[expect(unsafe_code, reason = "the kernel reads memory without a reference")]
    // SAFETY: every local part is in a span, whose owner is borrowed, and is only read. The target
    // parts are of another process, or of this one with the module documentation's reservation.
    let count = unsafe {
        libc::process_vm_writev(
            process,
            local.as_ptr(),
            local.len() as libc::c_ulong,
            remote.list.as_ptr(),
            remote.used as libc::c_ulong,
            0,
        )
    };
    counted(count)
}

/// Allows one process to attach to this one if Yama requires that; 0 revokes it. Only one process
/// is allowed at a time: a crash handler that allowed another process loses that.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidInput`]: there is no such process, or no Yama.
pub fn allow_trace(process: u32) -> io::Result<()> {
    let process = libc::c_ulong::from(process);
    #[expect(unsafe_code, reason = "neither std nor nix has this option")]
    // SAFETY: the option takes a number and accesses no memory of this process.
    let result = unsafe { libc::prctl(libc::PR_SET_PTRACER, process, 0, 0, 0) };
    nix::errno::Errno::result(result)?;
    Ok(())
}

fn number(process: u32) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(process).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// The remote parts of one call.
struct Remote {
    list: [libc::iovec; PARTS_MAX],
    used: usize,
}

impl Remote {
    /// Rejects values outside any address space. Parts that do not fit are left out.
    fn of(parts: &[RemotePart]) -> io::Result<Self> {
        let empty = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let mut list = [empty; PARTS_MAX];
        let mut used = 0;
        for (slot, part) in list.iter_mut().zip(parts) {
            let fault = |_| io::Error::from_raw_os_error(libc::EFAULT);
            slot.iov_base =
                std::ptr::without_provenance_mut(usize::try_from(part.address).map_err(fault)?);
            slot.iov_len = usize::try_from(part.len).map_err(fault)?;
            used += 1;
        }
        Ok(Self { list, used })
    }
}

/// Returns whether the other end of a connected local socket is closed, even if this end has
/// already shut down its writing side.
///
/// # Errors
///
/// Errors of `poll(2)`.
pub fn has_hung_up(socket: &impl AsFd) -> io::Result<bool> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut polled = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    poll(&mut polled, PollTimeout::ZERO)?;
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    Ok(polled
        .iter()
        .any(|one| one.revents().is_some_and(|found| found.intersects(gone))))
}

/// Returns the descriptor of the process that connected a local socket, from the socket itself.
///
/// # Errors
///
/// `ENOPROTOOPT` before Linux 6.5; `ESRCH` or `EINVAL` if the process has ended.
pub(crate) fn peer_descriptor(socket: &impl AsFd) -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    let mut raw: libc::c_int = -1;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    #[expect(unsafe_code, reason = "neither std nor nix has this option")]
    // SAFETY: the kernel writes at most `len` bytes to `raw`, and their number to `len`. Both
    // outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERPIDFD,
            (&raw mut raw).cast(),
            &raw mut len,
        )
    };
    nix::errno::Errno::result(result)?;
    #[expect(unsafe_code, reason = "the new descriptor has no owner yet")]
    // SAFETY: the kernel has just opened this descriptor for this process, and nothing else knows
    // it.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(raw) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::{ProcessHandle, peer_credentials};

    fn span(bytes: &[u8]) -> Span {
        Span::from(bytes.to_vec())
    }

    fn part(span: &Span) -> RemotePart {
        RemotePart {
            address: span.as_ptr().addr() as u64,
            len: span.len() as u64,
        }
    }

    fn own() -> u32 {
        std::process::id()
    }

    /// Runs until its standard input is closed.
    fn child() -> Child {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn parts_are_read_in_order_into_head_and_spans() {
        let (one, two) = (span(b"mark"), span(b"message"));
        let mut head = [0; 4];
        let into = [span(&[0; 3]), span(&[0; 9])];
        let read = read_memory(own(), &[part(&one), part(&two)], &mut head, &into);
        assert_eq!(read.unwrap(), 11);
        assert_eq!(&head, b"mark");
        assert_eq!(into[0].to_vec(), b"mes");
        assert_eq!(into[1].to_vec(), b"sage\0\0\0\0\0");
    }

    #[test]
    fn spans_are_written_to_parts_and_nowhere_else() {
        let target = span(b"------");
        let inner = RemotePart {
            address: part(&target).address + 1,
            len: 4,
        };
        let from = [span(b"ab"), span(b"cdef")];
        assert_eq!(write_memory(own(), &from, &[inner]).unwrap(), 4);
        assert_eq!(target.to_vec(), b"-abcd-");
    }

    #[test]
    fn missing_memory_is_a_fault_and_memory_before_it_is_read() {
        let there = span(b"there");
        let nowhere = RemotePart { address: 8, len: 8 };
        let into = [span(&[0; 16])];
        let fault = read_memory(own(), &[nowhere], &mut [], &into).unwrap_err();
        assert_eq!(fault.raw_os_error(), Some(libc::EFAULT));
        let some = read_memory(own(), &[part(&there), nowhere], &mut [], &into);
        assert_eq!(some.unwrap(), 5);
        for address in [u64::MAX - 7, 0xFFFF_8000_0000_0000] {
            let kernel = RemotePart { address, len: 8 };
            assert!(read_memory(own(), &[kernel], &mut [], &into).is_err());
            assert!(write_memory(own(), &into, &[kernel]).is_err());
        }
    }

    #[test]
    fn a_process_that_has_ended_is_an_error() {
        let mut child = child();
        child.kill().unwrap();
        child.wait().unwrap();
        let here = part(&span(b"x"));
        let gone = read_memory(child.id(), &[here], &mut [0], &[]).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
        assert!(read_memory(u32::MAX, &[here], &mut [0], &[]).is_err());
    }

    #[test]
    fn the_other_end_has_hung_up_if_it_closed_and_not_if_this_end_shut_down() {
        let (near, far) = UnixStream::pair().unwrap();
        near.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(!has_hung_up(&near).unwrap());
        drop(far);
        assert!(has_hung_up(&near).unwrap());
    }

    #[test]
    fn the_process_at_the_other_end_is_this_one() {
        let (near, _far) = UnixStream::pair().unwrap();
        let peer = peer_credentials(&near).unwrap();
        let handle = ProcessHandle::of_peer(&near, peer.process).unwrap();
        assert!(!handle.has_ended().unwrap());
    }

    #[test]
    fn a_process_that_does_not_exist_cannot_be_allowed_to_trace() {
        assert!(allow_trace(u32::MAX - 1).is_err());
    }
}
