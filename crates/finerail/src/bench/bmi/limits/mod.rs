//! The machine's limits: what the methods are made of, and nothing else.
//!
//! ```text
//!   mq round trip      one message of 64 bytes there, one back, through two POSIX queues
//!   socket round trip  64 bytes there and back, over the Unix socket or over TCP
//!   socket stream      messages without frames, out of and into as many buffers as are in flight
//!   ring               each message copied once, into a slot of memory that both processes map
//!   memcpy             the same copies, and nobody is told
//! ```
//!
//! Everything blocks, as the methods do. The ring's reader looks at no byte, as the server of the
//! bench does not either. A run begins with a request over the Unix socket: kind, bytes, count, slots.

mod initiator;
pub(super) mod target;

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use nix::mqueue::{MQ_OFlag, MqAttr, MqdT, mq_open, mq_receive, mq_send};
use nix::sys::stat::Mode;
use sys::Mapping;
use sys::span::Span;

pub(super) use initiator::Initiator;

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
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

/// Bytes of the messages of round trips.
const TINY: usize = 64;

/// What the target is to do.
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

/// The beginning of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    run: Run,
    bytes: usize,
    count: u64,
    slots: usize,
}

/// Bytes of a request on the socket.
const REQUEST_LEN: usize = 32;

impl Request {
    fn encode(self) -> [u8; REQUEST_LEN] {
        let words = [
            self.run as u64,
            self.bytes as u64,
            self.count,
            self.slots as u64,
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
        })
    }
}

/// Sends `count` messages out of `slots` buffers in turn.
fn write_stream(stream: &impl AsFd, request: Request, sources: &[Span]) -> io::Result<()> {
    for index in 0..request.count {
        // Less than `slots`.
        let source = &sources[(index % request.slots as u64) as usize];
        let mut sent = 0;
        while sent < source.len() {
            sent += sys::span::send(stream, &[], std::slice::from_ref(source), sent)?;
        }
    }
    Ok(())
}

/// Receives them into as many.
fn read_stream(
    stream: &mut impl Read,
    request: Request,
    buffers: &mut [Vec<u8>],
) -> io::Result<()> {
    for index in 0..request.count {
        stream.read_exact(&mut buffers[(index % request.slots as u64) as usize])?;
    }
    Ok(())
}

fn buffers(request: Request) -> Vec<Vec<u8>> {
    vec![vec![0x5A; request.bytes]; request.slots]
}

/// Names of the queue to the target and of the one back.
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

fn send_to_queue(queue: &MqdT) -> anyhow::Result<()> {
    mq_send(queue, &[0x5A; TINY], 0).context("cannot send to a message queue")
}

fn receive_from_queue(queue: &MqdT) -> anyhow::Result<()> {
    let mut message = [0; TINY];
    let len = mq_receive(queue, &mut message, &mut 0).context("cannot receive from a queue")?;
    ensure!(len == TINY, "a queue message of {len} bytes");
    Ok(())
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
/// Bytes of all slots: two of the largest messages.
const RING_BYTES: usize = 256 << 20;
/// How long the other process may take for one message.
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
            // Counts wrap, and slots are fewer.
            let number = index as u32;
            self.wait(READ, |read| (number.wrapping_sub(read) as usize) < slots)?;
            self.copy(index, slots, request.bytes, sources)?;
            self.tell(WRITTEN, number.wrapping_add(1));
        }
        self.wait(READ, |read| read == request.count as u32)
    }

    /// Copies message `index` from its source into its slot.
    fn copy(&self, index: u64, slots: usize, bytes: usize, sources: &[Span]) -> anyhow::Result<()> {
        // Both remainders are below a count of buffers.
        let slot = (index % slots as u64) as usize;
        let target = self.0.span(SLOTS + slot * bytes, bytes);
        let source = &sources[(index % sources.len() as u64) as usize];
        source.copy_to(&target.context("a slot outside the ring")?);
        Ok(())
    }

    /// The copies of [`write`](Self::write) alone.
    fn fill(&self, request: Request, sources: &[Span]) -> anyhow::Result<()> {
        let slots = Self::slots(request);
        (0..request.count).try_for_each(|index| self.copy(index, slots, request.bytes, sources))
    }

    fn read(&self, request: Request) -> anyhow::Result<()> {
        for index in 0..request.count {
            let number = index as u32;
            self.wait(WRITTEN, |written| written != number)?;
            self.tell(READ, number.wrapping_add(1));
        }
        Ok(())
    }

    fn tell(&self, word: usize, value: u32) {
        self.0.store_u32(word, value);
        self.0.wake_word(word);
    }

    fn wait(&self, word: usize, ready: impl Fn(u32) -> bool) -> anyhow::Result<()> {
        loop {
            let value = self.0.load_u32(word).context("no such word")?;
            if ready(value) {
                return Ok(());
            }
            if !self.0.wait_word(word, value, PATIENCE)? {
                bail!("the other end of the ring is silent");
            }
        }
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
            };
            assert_eq!(Request::decode(&request.encode()).unwrap(), request);
        }
        assert!(Request::decode(&[0xFF; REQUEST_LEN]).is_err());
    }
}
