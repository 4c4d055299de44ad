//! The machine's limit: the data that Finerail moves, moved by `writev` and `readv` alone.
//!
//! ```text
//!   stream      header 96 | payload    header 96 | payload   …        ──▶
//!                                      ◀── header 96   when all have arrived
//!   round trip  header 96 | 64 bytes   ──▶      ◀── header 96         one at a time
//!               the same with non-blocking reads, without sleeping
//!   GET         header 96              ──▶      ◀── header 96 | payload, several in flight
//! ```
//!
//! In a batched limit, one `write` sends many frames, and one `read` takes everything that is there.
//!
//! The header is as long as LNet's header on the wire with its frame header, and contains the length of the
//! payload. The receiver takes the rest of a payload and the next header in one `readv`, into one warm buffer.
//! Sockets block. The first header of a run announces the kind and the number of its messages.

pub(super) mod fan;
mod initiator;
mod relay;
mod relayed;
pub(super) mod target;

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, bail};

pub(super) use initiator::Initiator;
pub(super) use relay::{Relay, serve as serve_relay};
pub(super) use relayed::Relayed;

/// The bytes of a header: LNet's 72 and the frame header's 24.
pub(super) const HEADER_LEN: usize = 96;

/// The limit on the bytes that the batched stream writes at once, as whole frames.
const BATCH_BYTES: usize = 256 << 10;

/// Returns the number of frames in one write of the batched stream.
fn batch(payload_len: usize) -> usize {
    BATCH_BYTES / (HEADER_LEN + payload_len)
}

type HeaderBytes = [u8; HEADER_LEN];

/// The content of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// Messages in one direction, then one header back.
    Stream,
    /// Like `Stream`, with many messages in one write.
    Batches,
    /// A message in one direction, a header back.
    RoundTrips,
    /// A header in one direction, a message back.
    Gets,
    /// Like `Gets`; each write and each read takes as many frames as there are.
    GetsBatched,
    /// Like `Stream`, from and to many buffers in turn.
    Cold,
    /// Like `RoundTrips`, but the ends poll for the next message instead of sleeping.
    SpinningRoundTrips,
}

impl Run {
    const ALL: [Self; 7] = [
        Self::Stream,
        Self::Batches,
        Self::RoundTrips,
        Self::Gets,
        Self::GetsBatched,
        Self::Cold,
        Self::SpinningRoundTrips,
    ];
}

/// The header of every frame. The first header of a run announces `count` messages of `length` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    run: Run,
    length: u32,
    count: u64,
}

impl Header {
    fn encode(self) -> HeaderBytes {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = self.run as u8;
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }

    fn decode(bytes: &HeaderBytes) -> anyhow::Result<Self> {
        let Some(&run) = Run::ALL.get(usize::from(bytes[0])) else {
            bail!("a raw frame of unknown kind {}", bytes[0]);
        };
        Ok(Self {
            run,
            length: u32::from_le_bytes(std::array::from_fn(|index| bytes[4 + index])),
            count: u64::from_le_bytes(std::array::from_fn(|index| bytes[8 + index])),
        })
    }
}

/// A connection between two raw ends.
struct Link {
    stream: TcpStream,
}

impl Link {
    fn new(stream: TcpStream, congestion: &str) -> anyhow::Result<Self> {
        stream.set_nodelay(true).context("cannot set TCP_NODELAY")?;
        sys::set_congestion_control(&stream, congestion)
            .with_context(|| format!("cannot use the congestion control '{congestion}'"))?;
        Ok(Self { stream })
    }

    /// Writes a header and its payload, with one `writev` if the socket accepts everything.
    fn send(&mut self, header: &HeaderBytes, payload: &[u8]) -> io::Result<()> {
        let mut slices = [IoSlice::new(header), IoSlice::new(payload)];
        let mut left = &mut slices[..];
        while !left.is_empty() {
            match self.stream.write_vectored(left) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut left, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads the rest of a payload and the next header, with one `readv` if both are there.
    fn receive(&mut self, payload: &mut [u8], next: &mut [u8]) -> io::Result<()> {
        let mut slices = [IoSliceMut::new(payload), IoSliceMut::new(next)];
        let mut left = &mut slices[..];
        IoSliceMut::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match self.stream.read_vectored(left) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => IoSliceMut::advance_slices(&mut left, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Fills the buffer with non-blocking reads, and yields the CPU between two of them.
    fn receive_spinning(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => buffer = &mut buffer[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive_header(&mut self) -> anyhow::Result<Header> {
        let mut bytes = [0; HEADER_LEN];
        self.stream.read_exact(&mut bytes)?;
        Header::decode(&bytes)
    }

    /// Reads `count` framed messages into the buffers in turn, and passes each message to `each` before it reads
    /// the next one.
    fn receive_stream(
        &mut self,
        count: u64,
        buffers: &mut [Vec<u8>],
        mut each: impl FnMut(&HeaderBytes, &[u8]) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let mut header = [0; HEADER_LEN];
        self.stream.read_exact(&mut header)?;
        let buffers_len = buffers.len();
        for (left, index) in (0..count).rev().zip((0..buffers_len).cycle()) {
            let length = Header::decode(&header)?.length as usize;
            let Some(payload) = buffers[index].get_mut(..length) else {
                bail!("a raw frame of {length} bytes");
            };
            let mut next = [0; HEADER_LEN];
            let wanted = if left > 0 { HEADER_LEN } else { 0 };
            self.receive(payload, &mut next[..wanted])?;
            each(&header, payload)?;
            header = next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
