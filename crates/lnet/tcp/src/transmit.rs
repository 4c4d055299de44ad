//! The sending half of a connection: the queued frames, and how many bytes of the first frame are written.
//!
//! ```text
//!  front                                                       back
//!  +---------------+-----+-----+-------------------+----------+
//!  | partly written| ack | ack | header | payload  | header.. |
//!  +---------------+-----+-----+-------------------+----------+
//!   `written` bytes of the front frame are in the socket
//! ```
//!
//! Headers are encoded when a frame is queued. Acknowledgements overtake messages, because a
//! peer closes the connection if an acknowledgement takes too long. They never split a message. Many
//! frames go out in one system call: the queue lends them to a write and keeps them until the write has ended.

use std::collections::VecDeque;
use std::io::ErrorKind;

use lnd::{SendRequest, TxId};
use lnet_types::Time;
use lnet_wire::{EncodeError, HelloVersion, KsockHeader};

use crate::job::{Batch, Source};
use crate::receive::WINDOW_MAX;
use crate::stats::CloseReason;

/// A write gathers no more frames once it has this many bytes: about as many as a socket takes.
const GATHER_BYTES: usize = 1 << 20;

/// The most frames of one write, which are copied while other threads wait for the lock.
const FRAMES_MAX: usize = 512;

/// The number of queued acknowledgements at which the connection is no longer read. Without this limit, a peer that
/// sends and never reads would make this side hold ever more acknowledgements.
const ACKS_MAX: usize = 256;

/// The number of frames that the queue keeps memory for while it is empty and the connection idle.
const IDLE_CAPACITY: usize = 1;

/// A message that has left the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departed {
    /// The identifier of the message.
    pub(crate) tx: TxId,
    /// The message's share of the peer's queued bytes.
    pub(crate) cost: u64,
}

impl Departed {
    pub(crate) fn of(request: &SendRequest<Source>) -> Self {
        Self {
            tx: request.tx,
            cost: cost(request.header.payload_length),
        }
    }
}

/// Returns the share of a message with this much payload in a peer's queued bytes: the length of the longest frame
/// that the message can become.
pub(crate) fn cost(payload_length: u32) -> u64 {
    WINDOW_MAX as u64 + u64::from(payload_length)
}

/// The error of a message that cannot be queued.
#[derive(Debug)]
pub(crate) struct NotEncodable;

impl From<EncodeError> for NotEncodable {
    fn from(_: EncodeError) -> Self {
        Self
    }
}

#[derive(Debug)]
struct Frame {
    head: [u8; WINDOW_MAX],
    head_len: usize,
    payload: Option<Source>,
    /// The message of the frame; `None` for a NOOP.
    tx: Option<TxId>,
    deadline: Time,
}

impl Frame {
    // [ZC-4]
    fn noop(header: &KsockHeader) -> Self {
        let mut head = [0; WINDOW_MAX];
        head[..KsockHeader::LEN].copy_from_slice(&header.to_bytes());
        Self {
            head,
            head_len: KsockHeader::LEN,
            payload: None,
            tx: None,
            deadline: Time::from_nanos(u64::MAX),
        }
    }

    // [FRAME-3] [ZC-8] [FRAME-1] [ROUTE-3]
    fn message(version: HelloVersion, request: SendRequest<Source>) -> Result<Self, NotEncodable> {
        let payload_len = request.payload.as_ref().map_or(0, Source::len);
        if payload_len != request.header.payload_length as usize {
            return Err(NotEncodable);
        }
        let mut head = [0; WINDOW_MAX];
        let (frame_header, lnet_header) = head.split_at_mut(KsockHeader::LEN);
        frame_header.copy_from_slice(&KsockHeader::LNET.to_bytes());
        let len = request.header.encode(version.header_form(), lnet_header)?;
        Ok(Self {
            head,
            head_len: KsockHeader::LEN + len,
            payload: request.payload,
            tx: Some(request.tx),
            deadline: request.deadline,
        })
    }

    fn is_piped(&self) -> bool {
        matches!(self.payload, Some(Source::Pipe(..)))
    }

    fn payload_len(&self) -> usize {
        self.payload.as_ref().map_or(0, Source::len)
    }

    fn len(&self) -> usize {
        self.head_len + self.payload_len()
    }
}

/// The frames queued on one connection.
#[derive(Debug, Default)]
pub(crate) struct Transmitter {
    frames: VecDeque<Frame>,
    /// The number of bytes of the front frame that are in the socket.
    written: usize,
    /// The number of leading frames that a write has in progress.
    lent: usize,
    /// The number of leading frames that acknowledgements must not overtake.
    urgent: usize,
    acks: usize,
    bytes: u64,
}

impl Transmitter {
    /// Queues a message.
    pub(crate) fn push(
        &mut self,
        version: HelloVersion,
        request: SendRequest<Source>,
    ) -> Result<(), NotEncodable> {
        let frame = Frame::message(version, request)?;
        self.bytes += frame.len() as u64;
        self.frames.push_back(frame);
        Ok(())
    }

    /// Queues a NOOP in front of every message that is not partly written or lent to a write.
    pub(crate) fn push_noop(&mut self, header: &KsockHeader) {
        self.urgent = self.urgent.max(self.begun());
        let frame = Frame::noop(header);
        self.bytes += frame.len() as u64;
        self.frames.insert(self.urgent, frame);
        self.urgent += 1;
        self.acks += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the number of queued frames.
    pub(crate) fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Returns the number of queued bytes, without the bytes of the front frame that are in the socket.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes - self.written as u64
    }

    /// Returns true if so many acknowledgements are queued that the connection should not be read.
    pub(crate) fn is_choked(&self) -> bool {
        self.acks >= ACKS_MAX
    }

    /// Returns the number of leading frames that must keep their place.
    // [ZC-9]
    fn begun(&self) -> usize {
        self.lent.max(usize::from(self.written > 0))
    }

    /// Returns true if a write has frames in progress.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent > 0
    }

    /// Lends the next frames to a write, in an empty batch.
    pub(crate) fn lend(&mut self, batch: &mut Batch) {
        let mut bytes = 0;
        let mut skip = self.written;
        for frame in self.frames.iter().take(FRAMES_MAX) {
            // Payload in a pipe needs a write of its own.
            if bytes >= GATHER_BYTES || !batch.has_room() || frame.is_piped() && bytes > 0 {
                break;
            }
            bytes += frame.len();
            batch.add(
                &frame.head[..frame.head_len],
                frame.payload.as_ref(),
                std::mem::take(&mut skip),
            );
            self.lent += 1;
            if frame.is_piped() {
                break;
            }
        }
    }

    /// Records the end of a write that put `taken` bytes into the socket. Reports every message that is completely in
    /// the socket to `departed`. Returns the number of completed frames.
    pub(crate) fn written(&mut self, taken: usize, departed: &mut impl FnMut(Departed)) -> u64 {
        self.lent = 0;
        self.advance(taken, departed)
    }

    /// Records that `taken` more bytes are in the socket; returns the number of frames that this completed.
    fn advance(&mut self, taken: usize, departed: &mut impl FnMut(Departed)) -> u64 {
        self.written += taken;
        let mut completed = 0;
        while let Some(frame) = self.frames.front() {
            if self.written < frame.len() {
                break;
            }
            self.written -= frame.len();
            completed += 1;
            if let Some(gone) = self.pop() {
                departed(gone);
            }
        }
        completed
    }

    // [FRAME-16]
    fn pop(&mut self) -> Option<Departed> {
        let frame = self.frames.pop_front()?;
        self.urgent = self.urgent.saturating_sub(1);
        self.bytes -= frame.len() as u64;
        if frame.tx.is_none() {
            self.acks -= 1;
        }
        departure(&frame)
    }

    /// Removes expired messages, except those that are partly written or lent to a write.
    pub(crate) fn expire(&mut self, now: Time, expired: &mut impl FnMut(Departed)) {
        let mut begun = self.begun();
        let bytes = &mut self.bytes;
        // `urgent` stays correct: it counts only acknowledgements and a message that has begun, and none of these is
        // removed.
        self.frames.retain(|frame| {
            let keep = begun > 0 || frame.deadline > now;
            begun = begun.saturating_sub(1);
            if let Some(gone) = departure(frame).filter(|_| !keep) {
                *bytes -= frame.len() as u64;
                expired(gone);
            }
            keep
        });
    }

    /// Removes all frames of a closed connection. The first message may be partly in the socket.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Departed> {
        self.lent = 0;
        self.drain_waiting()
    }

    /// Removes every frame that is not lent to a write.
    pub(crate) fn drain_waiting(&mut self) -> impl Iterator<Item = Departed> {
        let waiting = self.frames.split_off(self.lent);
        if self.lent == 0 {
            self.written = 0;
        }
        self.urgent = self.urgent.min(self.lent);
        for frame in &waiting {
            self.bytes -= frame.len() as u64;
            self.acks -= usize::from(frame.tx.is_none());
        }
        waiting.into_iter().filter_map(|frame| departure(&frame))
    }

    /// Frees the memory that a burst of frames needed.
    pub(crate) fn shrink(&mut self) {
        if self.frames.is_empty() {
            self.frames.shrink_to(IDLE_CAPACITY);
        }
    }
}

fn departure(frame: &Frame) -> Option<Departed> {
    frame.tx.map(|tx| Departed {
        tx,
        // The payload is as long as the header says, and the header's field has 32 bits.
        cost: cost(frame.payload_len() as u32),
    })
}

/// Returns the reason for closing a connection whose write failed.
pub(crate) fn write_failure(kind: ErrorKind) -> CloseReason {
    match kind {
        ErrorKind::TimedOut => CloseReason::WriteTimedOut,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            CloseReason::WriteReset
        }
        _ => CloseReason::WriteFailed,
    }
}
