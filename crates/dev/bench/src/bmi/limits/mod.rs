//! The machine's limits: the parts that the methods consist of, and nothing else.
//!
//! ```text
//!   mq round trip      one message of 64 bytes in each direction, through two POSIX queues
//!   socket round trip  64 bytes in each direction, over the Unix socket or over TCP
//!   socket stream      messages without frames, out of and into as many buffers as are in flight
//!   ring               each message copied once, into a slot of memory that both processes map
//!   memcpy             the same copies, without telling the other process
//! ```
//!
//! Each limit is measured with several tunings ([`Tuning`]), blocking and spinning, and the best result is the
//! limit. The ring's reader reads no payload, and neither does the server of the bench. A run begins with a request
//! over the Unix socket: kind, bytes, count, slots, tuning.

mod initiator;
pub(super) mod target;
mod tuning;

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use nix::mqueue::{
    MQ_OFlag, MqAttr, MqdT, mq_open, mq_receive, mq_remove_nonblock, mq_send, mq_set_nonblock,
};
use nix::sys::stat::Mode;
use socket2::SockRef;
use sys::Mapping;
use sys::span::Span;

pub(crate) use initiator::Initiator;
pub(crate) use tuning::Tuning;

/// A limit of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// A message queue round trip.
    Queue,
    /// A round trip over the Unix socket.
    UnixRoundTrip,
    /// One message queue round trip and one of the Unix socket.
    QueueAndSocket,
    /// A round trip over TCP.
    TcpRoundTrip,
    /// A stream over the Unix socket.
    UnixStream,
    /// A stream over TCP.
    TcpStream,
    /// A shared-memory ring.
    Ring,
    /// Copies into the ring's memory.
    Memcpy,
}

/// The bytes of a message in round trips.
const TINY: usize = 64;

/// The kind of run that the target serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Queue,
    UnixRoundTrip,
    TcpRoundTrip,
    UnixStream,
    TcpStream,
    Ring,
    Memcpy,
}

/// The request that begins a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    run: Run,
    bytes: usize,
    count: u64,
    slots: usize,
    tuning: Tuning,
}

/// The bytes of a request on the socket.
const REQUEST_LEN: usize = 56;

impl Request {
    fn encode(self) -> [u8; REQUEST_LEN] {
        let [wait, chunk, buffer] = self.tuning.words();
        let words = [
            self.run as u64,
            self.bytes as u64,
            self.count,
            self.slots as u64,
            wait,
            chunk,
            buffer,
        ];
        let mut bytes = [0; REQUEST_LEN];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8; REQUEST_LEN]) -> anyhow::Result<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| words.get(index).map_or(0, |word| u64::from_le_bytes(*word));
        let runs = [
            Run::Queue,
            Run::UnixRoundTrip,
            Run::TcpRoundTrip,
            Run::UnixStream,
            Run::TcpStream,
            Run::Ring,
            Run::Memcpy,
        ];
        let run = runs.get(usize::try_from(word(0))?);
        Ok(Self {
            run: *run.context("a limit of unknown kind")?,
            bytes: usize::try_from(word(1))?,
            count: word(2),
            slots: usize::try_from(word(3))?.max(1),
            tuning: Tuning::of_words([word(4), word(5), word(6)])?,
        })
    }
}

/// Sends `count` messages from `slots` buffers in turn. The tuning sets the number of messages in one call.
fn write_stream(stream: &impl AsFd, request: Request, sources: &[Span]) -> io::Result<()> {
    let tuning = request.tuning;
    let batch = tuning.batch.clamp(1, sources.len().max(1)) as u64;
    let mut index = 0;
    while index < request.count {
        // The value is below `slots`. A batch does not go beyond the last slot.
        let first = (index % request.slots as u64) as usize;
        let count = batch
            .min(request.count - index)
            .min((request.slots - first) as u64);
        write_all(stream, &sources[first..first + count as usize], tuning)?;
        index += count;
    }
    Ok(())
}

fn write_all(stream: &impl AsFd, sources: &[Span], tuning: Tuning) -> io::Result<()> {
    if tuning.chunk == 0 {
        let total = sources.iter().map(Span::len).sum();
        let mut sent = 0;
        while sent < total {
            sent += tuning.insist(|| sys::span::send(stream, &[], sources, sent))?;
        }
        return Ok(());
    }
    for source in sources {
        let mut sent = 0;
        while sent < source.len() {
            let end = source.len().min(sent + tuning.chunk);
            let Some(piece) = source.part(sent..end) else {
                break;
            };
            let piece = std::slice::from_ref(&piece);
            sent += tuning.insist(|| sys::span::send(stream, &[], piece, 0))?;
        }
    }
    Ok(())
}

/// Receives `count` messages into `slots` buffers in turn. Batched messages go into one piece of memory.
fn read_stream(
    stream: &mut impl Read,
    request: Request,
    buffers: &mut [Vec<u8>],
) -> io::Result<()> {
    if request.tuning.batch > 1 {
        return read_batched(stream, request);
    }
    for index in 0..request.count {
        let buffer = &mut buffers[(index % request.slots as u64) as usize];
        read_all(stream, buffer, request.tuning)?;
    }
    Ok(())
}

fn read_all(stream: &mut impl Read, buffer: &mut [u8], tuning: Tuning) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        let end = buffer.len().min(done.saturating_add(tuning.most()));
        let room = &mut buffer[done..end];
        match tuning.insist(|| stream.read(room))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => done += count,
        }
    }
    Ok(())
}

fn read_batched(stream: &mut impl Read, request: Request) -> io::Result<()> {
    let mut memory = vec![0; 64 << 10];
    let mut left = request.count * request.bytes as u64;
    while left > 0 {
        // The result is at most the size of the memory.
        let room = (memory.len() as u64).min(left) as usize;
        match request.tuning.insist(|| stream.read(&mut memory[..room]))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => left -= count as u64,
        }
    }
    Ok(())
}

/// Exchanges messages in both directions. This end either sends first or waits for the first message.
fn round_trips(stream: &mut (impl Read + Write), request: Request, first: bool) -> io::Result<()> {
    let mut message = [0x5A; TINY];
    for _ in 0..request.count {
        if first {
            stream.write_all(&message)?;
        }
        read_all(stream, &mut message, request.tuning)?;
        if !first {
            stream.write_all(&message)?;
        }
    }
    Ok(())
}

/// Exchanges messages like [`round_trips`], through two queues.
fn queue_trips(out: &MqdT, back: &MqdT, request: Request, first: bool) -> anyhow::Result<()> {
    for queue in [out, back] {
        match request.tuning.tries() {
            true => mq_set_nonblock(queue),
            false => mq_remove_nonblock(queue),
        }
        .context("cannot change a message queue")?;
    }
    let receive = || {
        let mut message = [0; TINY];
        let received = || mq_receive(back, &mut message, &mut 0).map_err(io::Error::from);
        let len = request.tuning.insist(received)?;
        ensure!(len == TINY, "a queue message of {len} bytes");
        Ok(())
    };
    // The queue has room, because each side has at most one message in flight.
    let send = || mq_send(out, &[0x5A; TINY], 0).context("cannot send to a message queue");
    for _ in 0..request.count {
        if first {
            send()?;
        }
        receive()?;
        if !first {
            send()?;
        }
    }
    Ok(())
}

/// Tunes a socket for a run, and restores blocking mode afterwards, because runs begin with blocking reads.
fn tuned<S: AsFd, R>(
    stream: &mut S,
    tuning: Tuning,
    run: impl FnOnce(&mut S) -> anyhow::Result<R>,
) -> anyhow::Result<R> {
    let socket = SockRef::from(&*stream);
    if tuning.buffer > 0 {
        // The kernel doubles the requested size.
        let _as_far_as_permitted = socket.set_send_buffer_size(tuning.buffer / 2);
    }
    socket.set_nonblocking(tuning.tries())?;
    let ran = run(stream);
    SockRef::from(&*stream).set_nonblocking(false)?;
    ran
}

fn buffers(request: Request) -> Vec<Vec<u8>> {
    vec![vec![0x5A; request.bytes]; request.slots]
}

/// Returns the names of the queue to the target and of the queue back.
fn queue_names(directory: &Path) -> [String; 2] {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_start_matches('.');
    ["there", "back"].map(|way| format!("/finerail-bench-{name}-{way}"))
}

fn open_queue(name: &str, access: MQ_OFlag) -> anyhow::Result<MqdT> {
    let shape = MqAttr::new(0, 1, TINY as i64, 0);
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let queue = mq_open(name, access | MQ_OFlag::O_CREAT, mode, Some(&shape));
    queue.with_context(|| format!("cannot open the message queue {name}"))
}

fn socket_path(directory: &Path) -> PathBuf {
    directory.join("limits")
}

fn memory_name(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    format!("/finerail-bench-{}", name.trim_start_matches('.'))
}

/// Memory that two processes map, with slots for messages.
///
/// ```text
///   0    u32  messages written        64   u32  messages read        4096 …  slots
/// ```
struct Ring(Mapping);

const WRITTEN: usize = 0;
const READ: usize = 64;
const SLOTS: usize = 4096;
/// The bytes of all slots: enough for two of the largest messages.
const RING_BYTES: usize = 256 << 20;
/// The time limit of the other process for one message.
const PATIENCE: Duration = Duration::from_secs(20);

impl Ring {
    fn reset(&self) {
        self.0.store_u32(WRITTEN, 0);
        self.0.store_u32(READ, 0);
    }

    fn slots(request: Request) -> usize {
        request.slots.min(RING_BYTES / request.bytes.max(1)).max(1)
    }

    fn write(&self, request: Request, sources: &[Span]) -> anyhow::Result<()> {
        let slots = Self::slots(request);
        for index in 0..request.count {
            // Counts wrap around; there are far fewer slots.
            let number = index as u32;
            self.wait(READ, request, |read| {
                (number.wrapping_sub(read) as usize) < slots
            })?;
            self.copy(index, slots, request.bytes, sources)?;
            self.tell(WRITTEN, request, number.wrapping_add(1));
        }
        self.wait(READ, request, |read| read == request.count as u32)
    }

    /// Copies message `index` from its source into its slot.
    fn copy(&self, index: u64, slots: usize, bytes: usize, sources: &[Span]) -> anyhow::Result<()> {
        // Both remainders are below the number of buffers.
        let slot = (index % slots as u64) as usize;
        let target = self.0.span(SLOTS + slot * bytes, bytes);
        let source = &sources[(index % sources.len() as u64) as usize];
        source.copy_to(&target.context("a slot outside the ring")?);
        Ok(())
    }

    /// Makes the copies of [`write`](Self::write) without the rest.
    fn fill(&self, request: Request, sources: &[Span]) -> anyhow::Result<()> {
        let slots = Self::slots(request);
        (0..request.count).try_for_each(|index| self.copy(index, slots, request.bytes, sources))
    }

    fn read(&self, request: Request) -> anyhow::Result<()> {
        for index in 0..request.count {
            let number = index as u32;
            self.wait(WRITTEN, request, |written| written != number)?;
            self.tell(READ, request, number.wrapping_add(1));
        }
        Ok(())
    }

    fn tell(&self, word: usize, request: Request, value: u32) {
        self.0.store_u32(word, value);
        if !request.tuning.tries() {
            self.0.wake_word(word);
        }
    }

    fn wait(
        &self,
        word: usize,
        request: Request,
        ready: impl Fn(u32) -> bool,
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        for tries in 0_u64.. {
            let value = self.0.load_u32(word).context("no such word")?;
            if ready(value) {
                return Ok(());
            }
            let silent = if request.tuning.tries() {
                request.tuning.pause();
                // Reading the clock is expensive compared with one try.
                tries.is_multiple_of(4096) && begun.elapsed() > PATIENCE
            } else {
                !self.0.wait_word(word, value, PATIENCE)?
            };
            if silent {
                break;
            }
        }
        bail!("the other end of the ring is silent")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        for run in [Run::Queue, Run::TcpStream, Run::Ring, Run::Memcpy] {
            let request = Request {
                run,
                bytes: 1 << 27,
                count: u64::MAX,
                slots: 8,
                tuning: tuning::PLAIN,
            };
            assert_eq!(Request::decode(&request.encode()).unwrap(), request);
        }
        assert!(Request::decode(&[0xFF; REQUEST_LEN]).is_err());
    }
}
