//! The memory of one vectored system call, which may mix slices and spans.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};

use nix::libc;

use crate::span::{self, Parts, Span, counted};

/// Memory to write from, in order. At most [`crate::span::PARTS_MAX`] parts.
pub struct Gather<'a> {
    parts: Parts,
    _memory: PhantomData<&'a [u8]>,
}

impl Default for Gather<'_> {
    fn default() -> Self {
        Self {
            parts: Parts::new(),
            _memory: PhantomData,
        }
    }
}

impl<'a> Gather<'a> {
    /// Appends `bytes`. Ignores them if the most parts are reached.
    pub fn add(&mut self, bytes: &'a [u8]) {
        self.parts.add(bytes.as_ptr().cast_mut(), bytes.len());
    }

    /// Appends the bytes of a span from `skip` on. Ignores them if the most parts are reached.
    pub fn add_span(&mut self, span: &'a Span, skip: usize) {
        self.parts.add_spans(std::slice::from_ref(span), skip);
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.bytes()
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes all parts to a socket with one call, without raising `SIGPIPE`. If `more` is true, TCP waits
    /// for the bytes that follow before it sends a short segment.
    ///
    /// # Errors
    ///
    /// Errors of `sendmsg(2)`.
    pub fn send(&self, socket: &impl AsFd, more: bool) -> io::Result<usize> {
        let flags = libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
        let descriptor = socket.as_fd().as_raw_fd();
        #[expect(unsafe_code, reason = "an all-zero msghdr is how C initialises it")]
        // SAFETY: every field of msghdr is an integer or a pointer, for which zero is valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = self.parts.as_ptr().cast_mut();
        message.msg_iovlen = self.parts.len() as _; // `size_t` with glibc, `int` with musl
        #[expect(unsafe_code, reason = "the kernel reads memory without a reference")]
        // SAFETY: the descriptor is open while `socket` is borrowed. Every part is in a slice or a
        // span that is borrowed as long as `self`, and is only read. The call does not write the
        // list of parts.
        let count = unsafe { libc::sendmsg(descriptor, &raw const message, flags) };
        counted(count)
    }

    /// Appends at most `limit` bytes of the parts to `target`, as a simulated network does. Returns
    /// the number of bytes.
    pub fn append_to(&self, target: &mut Vec<u8>, limit: usize) -> usize {
        let mut left = limit;
        for part in self.parts.list() {
            let count = part.iov_len.min(left);
            target.reserve(count);
            #[expect(unsafe_code, reason = "no reference to a span's memory may exist")]
            // SAFETY: `count` bytes are readable in the part, as for `send`, and writable behind
            // the end of the vector. The vector is borrowed exclusively, so no part overlaps it. The
            // copy initializes them.
            unsafe {
                let free = target.spare_capacity_mut().as_mut_ptr().cast::<u8>();
                span::copy(part.iov_base.cast::<u8>(), free, count);
                target.set_len(target.len() + count);
            }
            left -= count;
        }
        limit - left
    }
}

/// Memory to read into, in order. At most [`crate::span::PARTS_MAX`] parts.
pub struct Scatter<'a> {
    parts: Parts,
    _memory: PhantomData<&'a mut [u8]>,
}

impl Default for Scatter<'_> {
    fn default() -> Self {
        Self {
            parts: Parts::new(),
            _memory: PhantomData,
        }
    }
}

impl<'a> Scatter<'a> {
    /// Appends `room`. Ignores it if the most parts are reached.
    pub fn add(&mut self, room: &'a mut [u8]) {
        self.parts.add(room.as_mut_ptr(), room.len());
    }

    /// Appends a span. Ignores it if the most parts are reached.
    pub fn add_span(&mut self, span: &'a Span) {
        self.parts.add_spans(std::slice::from_ref(span), 0);
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.bytes()
    }

    /// Returns whether there is no room.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads from a socket with one call. Returns 0 at the end of the stream or if there is no
    /// room.
    ///
    /// # Errors
    ///
    /// Errors of `readv(2)`.
    pub fn receive(&mut self, socket: &impl AsFd) -> io::Result<usize> {
        let descriptor = socket.as_fd().as_raw_fd();
        let count = libc::c_int::try_from(self.parts.len()).unwrap_or(0);
        #[expect(
            unsafe_code,
            reason = "the kernel writes to memory without a reference"
        )]
        // SAFETY: the descriptor is open while `socket` is borrowed. Every part is in a span that
        // is borrowed as long as `self`, or in a slice that is borrowed exclusively.
        let count = unsafe { libc::readv(descriptor, self.parts.as_ptr(), count) };
        counted(count)
    }

    /// Copies the start of `bytes` into the parts, as a simulated network does. Returns the number
    /// of bytes that fitted.
    pub fn fill_from(&mut self, bytes: &[u8]) -> usize {
        let mut done = 0;
        for part in self.parts.list() {
            let count = part.iov_len.min(bytes.len() - done);
            #[expect(unsafe_code, reason = "no reference to a span's memory may exist")]
            // SAFETY: `count` bytes are readable at `bytes[done..]` and writable in the part, as
            // for `receive`.
            unsafe {
                span::copy(bytes[done..].as_ptr(), part.iov_base.cast::<u8>(), count);
            }
            done += count;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn slices_and_spans_go_through_a_socket_in_order() {
        let (near, far) = UnixStream::pair().unwrap();
        let payload = Span::from(b"xxpayload".to_vec());
        let mut sent = Gather::default();
        sent.add(b"head ");
        sent.add_span(&payload, 2);
        assert_eq!(sent.len(), 12);
        assert_eq!(sent.send(&near, false).unwrap(), 12);

        let landing = Span::zeroed(7).unwrap();
        let mut tail = [0; 8];
        let mut room = Scatter::default();
        room.add_span(&landing);
        room.add(&mut tail);
        assert_eq!(room.len(), 15);
        assert_eq!(room.receive(&far).unwrap(), 12);
        assert_eq!(landing.to_vec(), b"head pa");
        assert_eq!(&tail[..5], b"yload");
    }

    #[test]
    fn a_simulated_network_copies_the_same_bytes_as_a_socket() {
        let payload = Span::from(b"payload".to_vec());
        let mut sent = Gather::default();
        sent.add(b"head ");
        sent.add_span(&payload, 0);
        let mut wire = b"> ".to_vec();
        assert_eq!(sent.append_to(&mut wire, 8), 8);
        assert_eq!(wire, b"> head pay");

        let landing = Span::zeroed(4).unwrap();
        let mut tail = [0; 4];
        let mut room = Scatter::default();
        room.add_span(&landing);
        room.add(&mut tail);
        assert_eq!(room.fill_from(b"abcdef"), 6);
        assert_eq!(landing.to_vec(), b"abcd");
        assert_eq!(&tail, b"ef\0\0");
    }
}
