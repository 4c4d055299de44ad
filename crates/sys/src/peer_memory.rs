//! Memory of another process: `process_vm_readv(2)` and `process_vm_writev(2)`.
//!
//! ```text
//!  this process            kernel                      the other process
//!  head, spans  ◀── one copy, both sides pinned ──▶  parts by address and length
//! ```
//!
//! The kernel allows it where it would allow to attach a debugger (`PTRACE_MODE_ATTACH_REALCREDS`):
//! the same user, a process that may dump core, and what a security module adds. Yama with
//! `ptrace_scope` 1 wants the other process to have said so: [`let_trace`].
//!
//! Addresses here are numbers that somebody else has said. Nothing of this process is at risk by
//! wrong ones: an address that the other process does not have is `EFAULT`. What somebody writes to
//! this very process that way is, as with `/proc/self/mem`, outside of what the language vouches for.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::libc;

use crate::span::{PARTS_MAX, Parts, Span, counted};

/// Bytes in another process's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RemotePart {
    /// The first one's address there.
    pub address: u64,
    /// How many.
    pub len: u64,
}

/// Reads parts of a process's memory, as if they were one, into `head` and then into spans. At most
/// [`PARTS_MAX`] parts of either side take part in one call.
///
/// # Returns
///
/// How many bytes; fewer than asked for where a part ends in memory that the process does not have.
///
/// # Errors
///
/// `EPERM`: the kernel does not allow it. `EFAULT`: the process has no memory at the first address.
/// `ESRCH`: no such process. `ENOSYS`: not in this kernel.
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
    // SAFETY: every local part lies in a span, whose owner is borrowed, or in `head`, which is
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

/// Writes spans, as if they were one, to parts of a process's memory. At most [`PARTS_MAX`] parts of
/// either side take part in one call.
///
/// # Returns
///
/// As [`read_memory`].
///
/// # Errors
///
/// As [`read_memory`]; `EFAULT` also where the process may not write.
pub fn write_memory(process: u32, spans: &[Span], to: &[RemotePart]) -> io::Result<usize> {
    let mut local = Parts::new();
    local.add_spans(spans, 0);
    let (process, remote) = (number(process)?, Remote::of(to)?);
    #[expect(unsafe_code, reason = "the kernel reads memory without a reference")]
    // SAFETY: every local part lies in a span, whose owner is borrowed, and is only read. The parts
    // written to are another process's; the module documentation says what this one's would be.
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

/// Lets one process attach to this one where Yama asks for it; 0 takes that back. There is one such
/// process at most: a crash handler that has set another one loses it.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidInput`]: no such process, or no Yama.
pub fn let_trace(process: u32) -> io::Result<()> {
    let process = libc::c_ulong::from(process);
    #[expect(unsafe_code, reason = "neither std nor nix has this option")]
    // SAFETY: the option takes a number and touches no memory of ours.
    let result = unsafe { libc::prctl(libc::PR_SET_PTRACER, process, 0, 0, 0) };
    nix::errno::Errno::result(result)?;
    Ok(())
}

fn number(process: u32) -> io::Result<libc::pid_t> {
    libc::pid_t::try_from(process).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// The parts of one call in the other address space.
struct Remote {
    list: [libc::iovec; PARTS_MAX],
    used: usize,
}

impl Remote {
    /// Refuses what no address space holds; more parts than fit are left out.
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

/// Whether the other end of a connected local socket is closed, though this end may have said before
/// that it writes no more.
///
/// # Errors
///
/// What `poll(2)` fails with.
pub fn has_hung_up(socket: &impl AsFd) -> io::Result<bool> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut polled = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    poll(&mut polled, PollTimeout::ZERO)?;
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    Ok(polled
        .iter()
        .any(|one| one.revents().is_some_and(|found| found.intersects(gone))))
}

/// The descriptor of the process that connected a local socket, from the socket itself.
///
/// # Errors
///
/// `ENOPROTOOPT` before Linux 6.5; `ESRCH` or `EINVAL` when that process is no more.
pub(crate) fn peer_descriptor(socket: &impl AsFd) -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    let mut raw: libc::c_int = -1;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    #[expect(unsafe_code, reason = "neither std nor nix has this option")]
    // SAFETY: the kernel writes at most `len` bytes to `raw`, and its length to `len`; both outlive
    // the call.
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
    // SAFETY: the kernel has just opened this descriptor for us and nobody else knows it.
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

    /// Lives until its standard input is closed.
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
    fn memory_that_is_not_there_is_a_fault_and_what_is_before_it_is_read() {
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
    fn a_process_that_is_no_more_is_an_error() {
        let mut child = child();
        child.kill().unwrap();
        child.wait().unwrap();
        let here = part(&span(b"x"));
        let gone = read_memory(child.id(), &[here], &mut [0], &[]).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
        assert!(read_memory(u32::MAX, &[here], &mut [0], &[]).is_err());
    }

    #[test]
    fn the_other_end_is_closed_when_it_is_and_not_when_this_end_is_silent() {
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
    fn nobody_can_be_let_trace_who_is_not() {
        assert!(let_trace(u32::MAX - 1).is_err());
    }
}
