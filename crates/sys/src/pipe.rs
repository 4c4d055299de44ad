//! Bytes on their way from one socket to another, which nobody looks at and the kernel need not copy.

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::pipe2;

use crate::Scatter;
use crate::span::Span;

/// Where the kernel keeps bytes of a socket until they go to another one. What it keeps are the pages that the bytes came
/// in, so that its room depends on how they came: many small segments fill it sooner than a few large ones.
///
/// No call blocks, as long as the sockets are ones that do not. One thread may fill it, or one may drain it; each sees what the other has left.
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    held: AtomicUsize,
}

impl Pipe {
    /// A pipe with room for `room` bytes that come in whole pages.
    ///
    /// # Errors
    ///
    /// What the kernel refuses: descriptors, or so much room (`pipe(7)`, "/proc files"). [`ErrorKind::Unsupported`] in a
    /// process that `SIGPIPE` would end: a socket whose other end is closed raises it.
    pub fn with_room(room: usize) -> io::Result<Self> {
        if !is_sigpipe_ignored() {
            return Err(ErrorKind::Unsupported.into());
        }
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let room = i32::try_from(room).map_err(|_| ErrorKind::InvalidInput)?;
        fcntl(&writer, FcntlArg::F_SETPIPE_SZ(room))?;
        Ok(Self {
            reader,
            writer,
            held: AtomicUsize::new(0),
        })
    }

    /// Bytes that are in it.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// Takes bytes of a socket, `len` at most, until there are no more or the pipe is full. 0 is the end of the stream.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WouldBlock`] when nothing could be taken; else what `splice(2)` fails with.
    pub fn fill(&self, socket: &impl AsFd, len: usize) -> io::Result<usize> {
        let taken = moved(socket.as_fd(), self.writer.as_fd(), len)?;
        self.held.fetch_add(taken, Ordering::AcqRel);
        Ok(taken)
    }

    /// Gives bytes to a socket, `len` at most, until it takes no more or the pipe is empty.
    ///
    /// # Errors
    ///
    /// As for [`Pipe::fill`].
    pub fn drain(&self, socket: &impl AsFd, len: usize) -> io::Result<usize> {
        let given = moved(self.reader.as_fd(), socket.as_fd(), len)?;
        self.held.fetch_sub(given, Ordering::AcqRel);
        Ok(given)
    }

    /// Copies what is in it to the start of `target`. True when nothing is left in it.
    ///
    /// # Errors
    ///
    /// What `readv(2)` fails with.
    pub fn empty_into(&self, target: &Span) -> io::Result<bool> {
        let mut done = 0;
        while self.held() > 0 {
            let Some(part) = target.part(done..target.len()) else {
                break;
            };
            let mut room = Scatter::default();
            room.add_span(&part);
            let count = room.receive(&self.reader)?;
            if count == 0 {
                break;
            }
            done += count;
            self.held.fetch_sub(count, Ordering::AcqRel);
        }
        Ok(self.held() == 0)
    }

    /// Whether it takes nothing more before it is drained.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let mut descriptors = [PollFd::new(self.writer.as_fd(), PollFlags::POLLOUT)];
        // A pipe that cannot be asked is not used any more.
        poll(&mut descriptors, PollTimeout::ZERO).map_or(true, |ready| ready == 0)
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pipe with {} bytes", self.held())
    }
}

/// Moves bytes until there are no more, or no more room.
fn moved(from: BorrowedFd<'_>, to: BorrowedFd<'_>, len: usize) -> io::Result<usize> {
    let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
    let mut done = 0;
    while done < len {
        match splice(from, None, to, None, len - done, flags) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::EINTR) => {}
            Err(error) if done == 0 => return Err(error.into()),
            // It will be there for the next call.
            Err(_) => break,
        }
    }
    Ok(done)
}

fn is_sigpipe_ignored() -> bool {
    #[expect(unsafe_code, reason = "an all-zero sigaction is how C initialises it")]
    // SAFETY: every field of sigaction is an integer, a set of bits or an optional function.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    #[expect(unsafe_code, reason = "asking for an action is a system call")]
    // SAFETY: no new action is given, and the old one is written to memory that is borrowed exclusively.
    let result = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// Without waiting, as the pipe needs it.
    fn at_once(stream: &TcpStream) {
        stream.set_nonblocking(true).unwrap();
    }

    /// Waits until the bytes have come.
    fn wait_for(stream: &TcpStream, count: usize) {
        let mut bytes = vec![0; count];
        while stream.peek(&mut bytes).map_or(true, |there| there < count) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn bytes_go_from_one_socket_to_another_in_order() {
        let pipe = Pipe::with_room(1 << 16).unwrap();
        let (mut source, from) = pair();
        let (to, mut sink) = pair();
        at_once(&from);
        at_once(&to);
        let error = pipe.fill(&from, 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        source.write_all(b"one two three").unwrap();
        wait_for(&from, 13);
        assert_eq!(pipe.fill(&from, 7).unwrap(), 7);
        assert_eq!(pipe.held(), 7);
        assert_eq!(pipe.drain(&to, 3).unwrap(), 3);
        assert_eq!(pipe.fill(&from, 100).unwrap(), 6);
        assert_eq!(pipe.drain(&to, 100).unwrap(), 10);
        assert_eq!(pipe.held(), 0);
        let mut bytes = [0; 13];
        sink.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"one two three");
        drop(source);
        while let Err(error) = pipe.fill(&from, 1) {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_full_pipe_is_emptied_into_memory() {
        let page = 4096;
        let pipe = Pipe::with_room(page).unwrap();
        let (mut source, from) = pair();
        at_once(&from);
        source.write_all(&vec![7; 16 * page]).unwrap();
        wait_for(&from, 16 * page);
        let taken = pipe.fill(&from, 16 * page).unwrap();
        assert!(taken < 16 * page && pipe.is_full());
        let target = Span::zeroed(16 * page).unwrap();
        assert!(pipe.empty_into(&target).unwrap() && !pipe.is_full());
        let mut bytes = vec![0; taken + 1];
        target.copy_out(&mut bytes);
        assert!(bytes[..taken].iter().all(|&byte| byte == 7) && bytes[taken] == 0);
        assert!(pipe.fill(&from, 16 * page).unwrap() > 0);
    }

    #[test]
    fn more_than_the_target_takes_stays_in_the_pipe() {
        let pipe = Pipe::with_room(1 << 16).unwrap();
        let (mut source, from) = pair();
        at_once(&from);
        source.write_all(b"abcdef").unwrap();
        wait_for(&from, 6);
        assert_eq!(pipe.fill(&from, 6).unwrap(), 6);
        let target = Span::zeroed(4).unwrap();
        assert!(!pipe.empty_into(&target).unwrap());
        assert_eq!((pipe.held(), target.to_vec()), (2, b"abcd".to_vec()));
    }
}
