//! One connection to the daemon: complete frames out, frames in.
//!
//! Frames are written under a lock, each one completely, so that a signal, another thread or a close never
//! leaves an incomplete frame on the stream. One thread at a time reads frames. Payload goes from the socket
//! directly to its memory, except for the bytes that were read together with the header.

use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use sys::span::Span;
use sys::{Alarm, Readiness, Woken, span, wait_until_ready};
use zoid_proto::fwd::{Frame, FrameHeader, MAX_BODY, SEND_BUFFER};

use crate::address::Place;
use crate::counters::Counters;

/// The size of a read in bytes while no larger frame is expected.
const READ_SIZE: usize = 16 << 10;

/// The longest frame without payload and lists, in bytes.
pub(super) const SMALL_FRAME: usize = 128;

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Stream {
    fn connect(place: &Place, limit: Duration) -> io::Result<Self> {
        match place {
            Place::Unix(paths) => connect_unix(paths).map(Self::Unix),
            Place::Tcp(host) => connect_tcp(host, limit).map(Self::Tcp),
        }
    }

    fn shut_down(&self) {
        // Shutting down a connection that is already gone fails, which does no harm.
        let _gone = match self {
            Self::Unix(stream) => stream.shutdown(std::net::Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(std::net::Shutdown::Both),
        };
    }
}

fn connect_unix(paths: &[PathBuf]) -> io::Result<UnixStream> {
    let mut last = io::Error::from(ErrorKind::NotFound);
    for path in paths {
        match connect_at_once(path) {
            Ok(stream) => return Ok(stream),
            // "Not found" is less informative than any other error.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Connects without waiting: the queue of connections of a stopped daemon may be full.
fn connect_at_once(path: &Path) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(UnixStream::from(OwnedFd::from(socket)))
}

fn connect_tcp(host: &str, limit: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::NotFound);
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit.max(Duration::from_millis(1))) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// One connection.
pub(super) struct Link {
    stream: Stream,
    /// How long a system call waits for the other side, once set.
    stall_limit: OnceLock<Duration>,
    writing: Mutex<()>,
    /// The memory that holds the daemon's number.
    mark: OnceLock<Span>,
    reader: Mutex<Reader>,
    counters: Arc<Counters>,
    born: Instant,
    /// The time of the last received byte, in milliseconds since `born`.
    heard_ms: AtomicU64,
}

/// What a reader found.
pub(super) enum Event<'a> {
    /// A frame without payload, and its body.
    Frame(FrameHeader, &'a [u8]),
    /// A frame with payload, whose destination the handler returns.
    Payload(FrameHeader, &'a [u8]),
    /// The payload of the last frame has been stored.
    Filled,
}

/// The answer of the handler of an [`Event`].
pub(super) enum Verdict {
    /// Continue.
    Continue,
    /// Store the payload in this memory.
    Into(Vec<Span>),
    /// Read the payload and drop it.
    Drop,
}

#[derive(Default)]
struct Reader {
    buffer: Vec<u8>,
    /// The unused bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
}

impl Link {
    /// Connects. The limit applies to TCP; a Unix-domain socket accepts at once or not at all.
    pub(super) fn connect(
        place: &Place,
        limit: Duration,
        counters: Arc<Counters>,
    ) -> io::Result<Self> {
        Ok(Self {
            stream: Stream::connect(place, limit)?,
            stall_limit: OnceLock::new(),
            writing: Mutex::new(()),
            mark: OnceLock::new(),
            reader: Mutex::default(),
            counters,
            born: Instant::now(),
            heard_ms: AtomicU64::new(0),
        })
    }

    /// Makes later writes wait in the system until the daemon reads, for at most `stall_limit`, and reads wait
    /// for the rest of a frame. A message then needs one system call instead of two per buffer-full.
    ///
    /// # Errors
    ///
    /// Errors of `setsockopt(2)`.
    pub(super) fn wait_in_calls(&self, stall_limit: Duration) -> io::Result<()> {
        let socket = SockRef::from(&self.stream);
        socket.set_write_timeout(Some(stall_limit))?;
        socket.set_read_timeout(Some(MID_FRAME))?;
        socket.set_nonblocking(false)?;
        // Set once, before other threads see this connection.
        let _first = self.stall_limit.set(stall_limit);
        Ok(())
    }

    /// Returns when the last byte arrived.
    pub(super) fn heard(&self) -> Instant {
        self.born + Duration::from_millis(self.heard_ms.load(Ordering::Relaxed))
    }

    /// Returns whether no thread is writing; waits at most `limit` for one that is.
    pub(super) fn is_free(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while let Err(TryLockError::WouldBlock) = self.writing.try_lock() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(LOCKED);
        }
        true
    }

    /// Closes the connection in both directions, after the frame that is being written.
    pub(super) fn shut_down(&self) {
        let _whole = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.stream.shut_down();
    }

    /// Closes the sending direction; the daemon then closes its end.
    pub(super) fn finish(&self) {
        if let Stream::Unix(stream) = &self.stream {
            // Shutting down a connection that is already gone fails, which does no harm.
            let _gone = stream.shutdown(std::net::Shutdown::Write);
        }
    }

    /// Returns whether the daemon has closed its end, after [`finish`](Self::finish).
    pub(super) fn is_closed_by_daemon(&self) -> bool {
        // A connection that cannot be queried counts as closed.
        sys::has_hung_up(&self.stream).unwrap_or(true)
    }

    /// Stores a number in memory for the life of the connection. Can be called once.
    pub(super) fn hold(&self, number: u64) -> Option<Span> {
        let mark = Span::from(number.to_ne_bytes().to_vec());
        self.mark.set(mark.clone()).ok()?;
        Some(mark)
    }

    /// Tells the kernel that the daemon may trace this process.
    ///
    /// # Errors
    ///
    /// The socket is not local; errors of [`sys::allow_trace`].
    pub(super) fn let_daemon_trace(&self) -> io::Result<()> {
        let Stream::Unix(stream) = &self.stream else {
            return Err(ErrorKind::Unsupported.into());
        };
        match sys::peer_credentials(stream)?.process {
            0 => Err(ErrorKind::NotFound.into()),
            daemon => sys::allow_trace(daemon),
        }
    }

    /// Closes the connection even if a write is blocked.
    pub(super) fn cut(&self) {
        self.stream.shut_down();
    }

    /// Writes a frame and its payload: the bytes of `spans` from `skip` on, as many as the header says.
    ///
    /// # Errors
    ///
    /// The connection is lost, or accepts nothing for `stall_limit`. The frame may then be incomplete, and the
    /// connection must not be used again.
    pub(super) fn send(
        &self,
        frame: &Frame<'_>,
        header: FrameHeader,
        payload: &[Span],
        stall_limit: Duration,
    ) -> io::Result<()> {
        let mut small = [0; SMALL_FRAME];
        let mut large = Vec::new();
        let len = frame.encoded_len();
        let buffer = if len <= SMALL_FRAME {
            &mut small[..]
        } else {
            large.resize(len, 0);
            &mut large[..]
        };
        let len = frame
            .encode(header, buffer)
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let head = buffer.get(..len).unwrap_or_default();
        let total = len + payload.iter().map(Span::len).sum::<usize>();
        self.send_all(head, payload, total, stall_limit)?;
        self.counters.frames_sent().up();
        self.counters.bytes_sent().add(total);
        Ok(())
    }

    // [ZOID-63]
    fn send_all(
        &self,
        head: &[u8],
        payload: &[Span],
        total: usize,
        stall_limit: Duration,
    ) -> io::Result<()> {
        let _whole = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let room = |limit| wait_until_ready(&self.stream, Readiness::Writable, Some(limit));
        let waits = self.stall_limit.get();
        if waits.is_some_and(|waits| stall_limit < *waits) && !room(stall_limit)? {
            return Err(ErrorKind::TimedOut.into());
        }
        let mut sent = 0;
        let mut stuck = None;
        while sent < total {
            match sys::span::send(&self.stream, head, payload, sent) {
                Ok(count) => (sent, stuck) = (sent + count, None),
                // The system restarts its wait; repeated signals could prolong it forever.
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    if stuck.get_or_insert_with(Instant::now).elapsed() >= stall_limit {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if waits.is_some() || !room(stall_limit)? {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads the first frame of the connection.
    ///
    /// # Errors
    ///
    /// The connection is lost, the bytes are not a frame, or nothing arrives within `limit`.
    pub(super) fn receive_first(&self, limit: Duration) -> io::Result<(FrameHeader, Vec<u8>)> {
        let mut bytes = vec![0; FrameHeader::LEN];
        self.receive_exactly(&mut bytes, limit)?;
        let header = FrameHeader::decode(&bytes).map_err(invalid)?;
        let mut body = vec![0; header.body_len as usize];
        self.receive_exactly(&mut body, limit)?;
        self.counters.frames_received().up();
        self.counters.bytes_received().add(bytes.len() + body.len());
        Ok((header, body))
    }

    fn receive_exactly(&self, bytes: &mut [u8], limit: Duration) -> io::Result<()> {
        let began = Instant::now();
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match span::receive(&self.stream, &[], 0, rest) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = Some(limit.saturating_sub(began.elapsed()));
                    if !wait_until_ready(&self.stream, Readiness::Readable, left)? {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Passes every frame that has arrived to `receive`; if there is none, waits at most `limit` for the
    /// first byte. Ends early if the alarm rings or a signal arrives; returns whether it was a signal.
    ///
    /// # Errors
    ///
    /// The connection is lost, or the bytes are not a frame.
    pub(super) fn pump(
        &self,
        alarm: &Alarm,
        (limit, spin): (Duration, Duration),
        receive: &mut dyn FnMut(Event<'_>) -> io::Result<Verdict>,
    ) -> io::Result<bool> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        match self.spin_or_wait(alarm, limit, spin)? {
            Woken::Ready => {}
            Woken::Rung | Woken::Expired => return Ok(false),
            Woken::Signal => return Ok(true),
        }
        self.fill(&mut reader)?;
        while self.next_frame(&mut reader, receive)? {}
        Ok(false)
    }

    /// Waits for bytes, the alarm or a signal. Spins for `spin` before sleeping, and yields between two
    /// polls.
    fn spin_or_wait(&self, alarm: &Alarm, limit: Duration, spin: Duration) -> io::Result<Woken> {
        let began = Instant::now();
        while began.elapsed() < spin.min(limit) {
            match alarm.wait_or_signal(&self.stream, Duration::ZERO)? {
                Woken::Expired => std::thread::yield_now(),
                woken => return Ok(woken),
            }
        }
        alarm.wait_or_signal(&self.stream, limit.saturating_sub(spin))
    }

    /// Takes one frame from the buffer. Returns false if there is no complete one.
    fn next_frame(
        &self,
        reader: &mut Reader,
        receive: &mut dyn FnMut(Event<'_>) -> io::Result<Verdict>,
    ) -> io::Result<bool> {
        let available = reader.buffer.get(reader.start..reader.end);
        let available = available.unwrap_or_default();
        if available.len() < FrameHeader::LEN {
            return Ok(false);
        }
        let header = FrameHeader::decode(available).map_err(invalid)?;
        let len = FrameHeader::LEN + header.body_len as usize;
        let Some(body) = available.get(FrameHeader::LEN..len) else {
            return Ok(false);
        };
        self.counters.frames_received().up();
        self.counters
            .bytes_received()
            .add(len + header.payload_len as usize);
        if header.payload_len == 0 {
            receive(Event::Frame(header, body))?;
            reader.start += len;
            return Ok(true);
        }
        let verdict = receive(Event::Payload(header, body))?;
        reader.start += len;
        let target = match verdict {
            Verdict::Into(spans) => spans,
            Verdict::Continue | Verdict::Drop => Vec::new(),
        };
        // At most a chunk, which fits in a usize.
        self.take_payload(reader, &target, header.payload_len as usize)?;
        // Dropped before completion is reported: the memory then belongs to the program.
        drop(target);
        receive(Event::Filled)?;
        Ok(true)
    }

    /// Moves `len` bytes of payload to `target`; drops them if `target` is empty.
    fn take_payload(&self, reader: &mut Reader, target: &[Span], len: usize) -> io::Result<()> {
        let mut done = reader.drain_into(target, len);
        while done < len {
            let drops_payload = target.is_empty();
            let Reader { buffer, start, end } = reader;
            (*start, *end) = (0, 0);
            // Bytes after the payload go to the buffer, as many as it holds.
            let count = if drops_payload {
                let room = buffer.len().min(len - done);
                let tail = buffer.get_mut(..room).unwrap_or_default();
                self.read(&[], 0, tail)?
            } else {
                self.read(target, done, buffer)?
            };
            let payload = count.min(len - done);
            done += payload;
            if !drops_payload {
                *end = count - payload;
            }
        }
        Ok(())
    }

    /// Reads once, and waits for a byte if there is none: in the middle of a frame, the rest is in flight.
    fn read(&self, spans: &[Span], skip: usize, tail: &mut [u8]) -> io::Result<usize> {
        loop {
            match sys::span::receive(&self.stream, spans, skip, tail) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.note_heard();
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !wait_until_ready(&self.stream, Readiness::Readable, Some(MID_FRAME))? {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn fill(&self, reader: &mut Reader) -> io::Result<()> {
        reader.make_room();
        let room = reader.buffer.get_mut(reader.end..).unwrap_or_default();
        match sys::span::receive(&self.stream, &[], 0, room) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.note_heard();
                reader.end += count;
                Ok(())
            }
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn note_heard(&self) {
        let elapsed = self.born.elapsed().as_millis();
        // A connection does not live for 2^64 milliseconds.
        self.heard_ms.store(elapsed as u64, Ordering::Relaxed);
    }
}

/// How often to check whether another thread still writes its frame.
const LOCKED: Duration = Duration::from_millis(5);

/// How long the rest of a frame may take after its beginning.
const MID_FRAME: Duration = Duration::from_secs(10);

impl Reader {
    /// Makes room for at least one more read, and for the whole of a frame that has begun.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let begun = self.buffer.get(..self.end).unwrap_or_default();
        let frame = FrameHeader::decode(begun).map_or(0, |header| {
            FrameHeader::LEN + header.body_len.min(MAX_BODY) as usize
        });
        let wanted = frame.max(self.end + READ_SIZE / 2).max(READ_SIZE);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
    }

    /// Moves the buffered part of a payload of `len` bytes to `target`. Returns how much that was.
    fn drain_into(&mut self, target: &[Span], len: usize) -> usize {
        let count = len.min(self.end - self.start);
        let bytes = self.buffer.get(self.start..self.start + count);
        let mut bytes = bytes.unwrap_or_default();
        for span in target {
            let copied = span.copy_in(bytes);
            bytes = bytes.get(copied..).unwrap_or_default();
        }
        self.start += count;
        count
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn invalid(error: zoid_proto::DecodeError) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
