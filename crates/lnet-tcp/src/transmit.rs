//! The sending half of a connection: frames that wait, and how far the first of them is written.
//!
//! ```text
//!  front                                                       back
//!  +---------------+-----+-----+-------------------+----------+
//!  | partly written| ack | ack | header | payload  | header.. |
//!  +---------------+-----+-----+-------------------+----------+
//!   `written` bytes of the front frame are in the socket
//! ```
//!
//! Headers are encoded when a frame is queued; payload stays in the upper side's memory and is looked up
//! each time it is written. Acknowledgements overtake messages, because a peer closes the connection
//! when one takes too long (section 3.4), but never split one. Many frames go out in one system call.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Write};

use lnet_types::Time;
use lnet_wire::{EncodeError, HelloVersion, KsockHeader};
use smallvec::SmallVec;

use crate::receive::WINDOW_MAX;
use crate::stats::{CloseReason, SocklndStats};
use crate::upper::{SendRequest, TxToken, Upper};

/// Slices of one write: two a frame with payload. Linux takes at most 1024.
const SLICES_MAX: usize = 128;

/// No more frames are gathered for one write when they have this many bytes: about what a socket takes.
const GATHER_BYTES: usize = 1 << 20;

/// What one connection may write before the others have their turn.
const TURN_BYTES: usize = 8 << 20;

/// Acknowledgements that may wait before the connection is read no further: a peer that sends and never
/// reads must not make us hold ever more of them.
const ACKS_MAX: usize = 256;

/// Frames that the queue keeps room for when it is empty and the connection idle.
const IDLE_CAPACITY: usize = 1;

/// A message that has left the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departed {
    /// The message.
    pub(crate) tx: TxToken,
    /// What it counted for among the peer's queued bytes.
    pub(crate) cost: u64,
}

/// What a message with this much payload counts for among a peer's queued bytes: the longest frame that
/// it can become.
pub(crate) fn cost(payload_length: u32) -> u64 {
    WINDOW_MAX as u64 + u64::from(payload_length)
}

/// How a turn of writing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// Nothing waits.
    All,
    /// The socket is full.
    Full,
    /// There is more, after the others had their turn.
    TurnOver,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    head: [u8; WINDOW_MAX],
    head_len: usize,
    payload_len: u32,
    /// `None` for a NOOP.
    tx: Option<TxToken>,
    deadline: Time,
}

impl Frame {
    fn noop(header: &KsockHeader) -> Self {
        let mut head = [0; WINDOW_MAX];
        head[..KsockHeader::LEN].copy_from_slice(&header.to_bytes());
        Self {
            head,
            head_len: KsockHeader::LEN,
            payload_len: 0,
            tx: None,
            deadline: Time::from_nanos(u64::MAX),
        }
    }

    fn message(version: HelloVersion, request: &SendRequest) -> Result<Self, EncodeError> {
        let mut head = [0; WINDOW_MAX];
        let (frame_header, lnet_header) = head.split_at_mut(KsockHeader::LEN);
        frame_header.copy_from_slice(&KsockHeader::LNET.to_bytes());
        let len = request.header.encode(version.header_form(), lnet_header)?;
        Ok(Self {
            head,
            head_len: KsockHeader::LEN + len,
            payload_len: request.header.payload_length,
            tx: Some(request.tx),
            deadline: request.deadline,
        })
    }

    fn len(&self) -> usize {
        self.head_len + self.payload_len as usize
    }
}

/// The frames that wait on one connection.
#[derive(Debug, Default)]
pub(crate) struct Transmitter {
    frames: VecDeque<Frame>,
    /// Bytes of the front frame that are in the socket.
    written: usize,
    /// Leading frames that acknowledgements must not overtake.
    urgent: usize,
    acks: usize,
    bytes: u64,
}

impl Transmitter {
    /// Queues a message.
    pub(crate) fn push(
        &mut self,
        version: HelloVersion,
        request: &SendRequest,
    ) -> Result<(), EncodeError> {
        let frame = Frame::message(version, request)?;
        self.bytes += frame.len() as u64;
        self.frames.push_back(frame);
        Ok(())
    }

    /// Queues a NOOP in front of every message that is not partly written.
    pub(crate) fn push_noop(&mut self, header: &KsockHeader) {
        if self.urgent == 0 && self.written > 0 {
            self.urgent = 1;
        }
        let frame = Frame::noop(header);
        self.bytes += frame.len() as u64;
        self.frames.insert(self.urgent, frame);
        self.urgent += 1;
        self.acks += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Frames that wait.
    pub(crate) fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Bytes that wait, without those of the front frame that are in the socket.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes - self.written as u64
    }

    /// True when so many acknowledgements wait that nothing more should be read.
    pub(crate) fn is_choked(&self) -> bool {
        self.acks >= ACKS_MAX
    }

    /// Writes until nothing waits, the socket is full or the turn is over. Every message that is in the
    /// socket as a whole is reported to `departed`.
    pub(crate) fn write<U: Upper>(
        &mut self,
        socket: &mut impl Write,
        upper: &mut U,
        stats: &mut SocklndStats,
        departed: &mut impl FnMut(&mut U, Departed),
    ) -> Result<Written, CloseReason> {
        let mut turn = 0;
        while !self.frames.is_empty() {
            if turn >= TURN_BYTES {
                return Ok(Written::TurnOver);
            }
            let (offered, taken) = {
                let slices = self.gather(upper).ok_or(CloseReason::UpperLength)?;
                let offered: usize = slices.iter().map(|slice| slice.len()).sum();
                match socket.write_vectored(&slices) {
                    Ok(taken) => (offered, taken),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        return Ok(Written::Full);
                    }
                    Err(error) => return Err(write_failure(error.kind())),
                }
            };
            stats.writes += 1;
            stats.bytes_out += taken as u64;
            turn += taken;
            stats.frames_out += self.advance(taken, &mut |gone| departed(upper, gone));
            if taken < offered {
                return Ok(Written::Full);
            }
        }
        Ok(Written::All)
    }

    /// The next bytes to write; `None` when the upper side's payload is not as long as it said.
    fn gather<'a, U: Upper>(&'a self, upper: &'a U) -> Option<SmallVec<[IoSlice<'a>; SLICES_MAX]>> {
        let mut slices = SmallVec::new();
        let mut skip = self.written;
        let mut bytes = 0;
        for frame in &self.frames {
            if slices.len() + 2 > SLICES_MAX || bytes >= GATHER_BYTES {
                break;
            }
            if skip < frame.head_len {
                slices.push(IoSlice::new(&frame.head[skip..frame.head_len]));
            }
            if let Some(tx) = frame.tx.filter(|_| frame.payload_len > 0) {
                let payload = upper.payload(tx);
                if payload.len() != frame.payload_len as usize {
                    return None;
                }
                slices.push(IoSlice::new(
                    &payload[skip.saturating_sub(frame.head_len)..],
                ));
            }
            bytes += frame.len() - skip;
            skip = 0;
        }
        Some(slices)
    }

    /// Takes note that `taken` more bytes are in the socket; returns how many frames that completed.
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

    fn pop(&mut self) -> Option<Departed> {
        let frame = self.frames.pop_front()?;
        self.urgent = self.urgent.saturating_sub(1);
        self.bytes -= frame.len() as u64;
        if frame.tx.is_none() {
            self.acks -= 1;
        }
        departure(&frame)
    }

    /// Removes the messages whose deadline has passed and of which nothing is written.
    pub(crate) fn expire(&mut self, now: Time, expired: &mut impl FnMut(Departed)) {
        let mut begun = self.written > 0;
        let bytes = &mut self.bytes;
        // `urgent` stays right: what it counts is acknowledgements and a message that has begun.
        self.frames.retain(|frame| {
            let keep = std::mem::take(&mut begun) || frame.deadline > now;
            if let Some(gone) = departure(frame).filter(|_| !keep) {
                *bytes -= frame.len() as u64;
                expired(gone);
            }
            keep
        });
    }

    /// Removes everything, for a connection that is closed. The first of the messages may be partly in
    /// the socket.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Departed> {
        self.written = 0;
        self.urgent = 0;
        self.acks = 0;
        self.bytes = 0;
        std::mem::take(&mut self.frames)
            .into_iter()
            .filter_map(|frame| departure(&frame))
    }

    /// Gives back the memory of a burst that is over.
    pub(crate) fn shrink(&mut self) {
        if self.frames.is_empty() {
            self.frames.shrink_to(IDLE_CAPACITY);
        }
    }
}

fn departure(frame: &Frame) -> Option<Departed> {
    frame.tx.map(|tx| Departed {
        tx,
        cost: cost(frame.payload_len),
    })
}

fn write_failure(kind: ErrorKind) -> CloseReason {
    match kind {
        ErrorKind::TimedOut => CloseReason::WriteTimedOut,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
            CloseReason::WriteReset
        }
        _ => CloseReason::WriteFailed,
    }
}
