//! The receiving half of a connection: a state machine.
//!
//! ```text
//!            NOOP            Discard, or nothing wanted
//!           +----+         +-----------------------------+
//!           v    |         |                             v
//!  ---> HEADER --+--LNET--> upper.header -Receive-> PAYLOAD -> (ack) -> received -> SLOP --+
//!           ^                   |                      ^                                   |
//!           |                   +--Hold--> HELD --resume                                   |
//!           +------------------------------------------------------------------------------+
//! ```
//!
//! Bytes arrive in two ways. The payload of a large message is read directly into its final place,
//! together with the headers behind it in the same call: a steady stream costs one system call per
//! message and copies nothing. Small messages are read many at a time into staging memory, and
//! their payload is copied once into its final place; that costs a tenth of a system call per
//! message. The size of the last message decides how the next read is done; the first large
//! message behind small ones finds its beginning staged.

use std::io::ErrorKind;
use std::sync::Arc;

use lnd::{Disposition, Failure, NiId, RxId};
use lnet_types::{ProcessId, Time};
use lnet_wire::{
    ByteOrder, FrameChecksum, FrameType, Header, HeaderForm, HelloVersion, KsockHeader, ZcAck,
};
use sys::Pipe;
use sys::span::Span;

use crate::job::{Above, Destination, Room, STAGED_MAX, Staging};
use crate::stats::{CloseReason, ProtocolError, SocklndStats};
use crate::transmit::Transmitter;

/// The longest header window: frame header and the 96-byte LNet header.
pub(crate) const WINDOW_MAX: usize = KsockHeader::LEN + HeaderForm::Nid16.len();

/// Behind a message with at most this much payload, reads take as many frames as there are: copying
/// that much takes less time than a system call.
const COPIED_PAYLOAD_MAX: usize = 16 << 10;

/// Bytes of a destination that each step of a checksum reads.
const CHECKSUM_STEP: usize = 4096;

/// Why reading pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paused {
    /// The node above holds this message.
    Held(RxId),
    /// Too many acknowledgements wait to be written.
    Choked,
}

/// What the receiver works with; apart from `ni` and `peer` the same for all connections.
pub(crate) struct Surroundings<'a> {
    /// The interface of the connection.
    pub(crate) ni: NiId,
    /// The peer of the connection.
    pub(crate) peer: ProcessId,
    pub(crate) stats: &'a mut SocklndStats,
    pub(crate) now: Time,
}

/// What remains to be done when the wanted payload of a message is in place.
#[derive(Clone, Copy, Debug)]
struct Completion {
    zc_request: Option<u64>,
    /// The value in the frame header and the checksum of the headers, if one is to be checked.
    checksum: Option<(u32, FrameChecksum)>,
}

#[derive(Debug)]
enum State {
    Header,
    Held {
        rx: RxId,
        length: usize,
        completion: Completion,
    },
    Payload(Payload),
    Slop {
        left: usize,
    },
}

/// A payload that is being received.
#[derive(Debug)]
struct Payload {
    /// `None` if the message is dropped.
    rx: Option<RxId>,
    /// `None` if no payload is wanted.
    destination: Option<Destination>,
    got: usize,
    /// Bytes behind the wanted ones.
    slop: usize,
    completion: Completion,
}

impl Payload {
    fn new(
        rx: Option<RxId>,
        destination: Option<Destination>,
        length: usize,
        mut completion: Completion,
    ) -> Self {
        let destination = destination.and_then(|Destination { memory, pipe }| {
            let memory = memory.part(0..memory.len().min(length))?;
            // A checksum is computed from bytes in memory.
            let pipe = pipe.filter(|_| completion.checksum.is_none());
            Some(Destination { memory, pipe })
        });
        let wanted = destination.as_ref().map_or(0, Destination::len);
        if wanted < length || rx.is_none() {
            // Unwanted bytes are not read for a checksum, so that there is nothing to compare.
            completion.checksum = None;
        }
        Self {
            rx,
            destination,
            got: 0,
            slop: length - wanted,
            completion,
        }
    }

    /// Returns the unfilled part of the destination.
    fn missing(&self) -> Option<Span> {
        self.destination.as_ref()?.missing(self.got)
    }

    /// Returns the pipe that takes the payload, and the memory for its contents if it becomes full.
    fn pipe(&self) -> Option<(Arc<Pipe>, Span)> {
        let Destination { memory, pipe } = self.destination.as_ref()?;
        Some((Arc::clone(pipe.as_ref()?), memory.clone()))
    }

    /// Stops using a pipe; returns false if there was none.
    fn leave_pipe(&mut self) -> bool {
        let destination = self.destination.as_mut();
        destination.is_some_and(|destination| destination.pipe.take().is_some())
    }
}

/// The receiving state of one connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    version: HelloVersion,
    order: ByteOrder,
    state: State,
    /// Bytes read but not processed: less than the headers of a frame, or more while reading is
    /// paused.
    rest: Vec<u8>,
    /// Small messages are expected.
    in_bulk: bool,
    /// A payload had too many segments for its pipe.
    has_small_segments: bool,
    /// The text with which the node above rejected a message, for the log.
    complaint: Option<&'static str>,
}

impl Receiver {
    /// The state behind the HELLO of a connection; `order` is the peer's byte order, `in_bulk` says
    /// that small messages are expected first.
    pub(crate) fn new(version: HelloVersion, order: ByteOrder, in_bulk: bool) -> Self {
        Self {
            version,
            order,
            state: State::Header,
            rest: Vec::new(),
            in_bulk,
            has_small_segments: false,
            complaint: None,
        }
    }

    /// Returns the text with which the node above rejected a message.
    pub(crate) fn complaint(&self) -> Option<&'static str> {
        self.complaint
    }

    /// Returns true between the first and the last byte of a frame, unless reading pauses on our
    /// side.
    pub(crate) fn is_waiting_for_bytes(&self) -> bool {
        match self.state {
            State::Header => !self.rest.is_empty(),
            State::Held { .. } => false,
            State::Payload(_) | State::Slop { .. } => true,
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        matches!(self.state, State::Held { .. })
    }

    /// Returns the unfinished message that must still be reported to the node above, when the
    /// connection is closed.
    pub(crate) fn take_unfinished(&mut self) -> Option<RxId> {
        match std::mem::replace(&mut self.state, State::Header) {
            State::Held { rx, .. } => Some(rx),
            State::Payload(payload) => payload.rx,
            State::Header | State::Slop { .. } => None,
        }
    }

    /// Continues with the held message: reads it into its destination, or drops it.
    pub(crate) fn resume(&mut self, destination: Option<Destination>) {
        if let State::Held {
            rx,
            length,
            completion,
        } = self.state
        {
            self.state = State::Payload(Payload::new(Some(rx), destination, length, completion));
            let begins_behind = self.rest.is_empty();
            self.choose_pipe_or_memory(begins_behind);
        }
    }

    /// Decides whether the payload goes to a pipe or to memory. A payload whose beginning is staged
    /// goes to memory, as does every payload of a peer whose segments are too small for a pipe.
    fn choose_pipe_or_memory(&mut self, begins_behind: bool) {
        if let State::Payload(payload) = &mut self.state
            && (!begins_behind || self.has_small_segments)
        {
            payload.leave_pipe();
        }
    }

    /// Drops the rest of this message. Returns false if another message, or none, is being read.
    pub(crate) fn cancel(&mut self, unwanted: RxId) -> bool {
        let State::Payload(payload) = &mut self.state else {
            return false;
        };
        if payload.rx != Some(unwanted) {
            return false;
        }
        payload.slop += payload.missing().map_or(0, |missing| missing.len());
        payload.rx = None;
        payload.destination = None;
        payload.completion.checksum = None;
        true
    }

    /// Returns what the next read is to fill.
    pub(crate) fn room(&self) -> Room {
        let (destination, pipe, slop) = match &self.state {
            State::Payload(payload) => (payload.missing(), payload.pipe(), payload.slop),
            State::Slop { left } => (None, None, *left),
            State::Header | State::Held { .. } => (None, None, 0),
        };
        let lead = self.rest.len();
        let staged = if self.in_bulk {
            STAGED_MAX
        } else {
            // Stages no byte of a payload that is read directly into its destination.
            (slop + self.window_len()).min(STAGED_MAX) - lead
        };
        Room {
            destination,
            pipe,
            lead,
            staged,
        }
    }

    /// Takes the `count` bytes that a read into `room` gave.
    pub(crate) fn absorb(
        &mut self,
        count: usize,
        room: &Room,
        staging: &mut Staging,
        tx: &mut Transmitter,
        around: &mut Surroundings<'_>,
        upper: &mut impl Above,
    ) -> Result<Option<Paused>, CloseReason> {
        let landed = count.min(room.landed_max());
        match &mut self.state {
            State::Payload(payload) if payload.destination.is_some() => {
                payload.got += landed;
                if let Some((pipe, _)) = &room.pipe {
                    if pipe.held() == payload.got {
                        around.stats.piped_payload_bytes += landed as u64;
                    } else {
                        self.has_small_segments |= payload.leave_pipe();
                    }
                }
            }
            // The message was cancelled while the read was in progress.
            State::Payload(payload) => {
                payload.slop -= landed;
                around.stats.discarded_payload_bytes += landed as u64;
            }
            State::Header | State::Held { .. } | State::Slop { .. } => {}
        }
        let rest = std::mem::take(&mut self.rest);
        let bytes = staging.with_lead(&rest, count - landed);
        self.process(bytes, tx, around, upper)
    }

    /// Continues processing what was read before a pause.
    pub(crate) fn go_on(
        &mut self,
        tx: &mut Transmitter,
        around: &mut Surroundings<'_>,
        upper: &mut impl Above,
    ) -> Result<Option<Paused>, CloseReason> {
        let rest = std::mem::take(&mut self.rest);
        self.process(&rest, tx, around, upper)
    }

    fn process(
        &mut self,
        mut bytes: &[u8],
        tx: &mut Transmitter,
        around: &mut Surroundings<'_>,
        upper: &mut impl Above,
    ) -> Result<Option<Paused>, CloseReason> {
        let paused = self.consume(&mut bytes, tx, around, upper)?;
        self.rest.extend_from_slice(bytes);
        Ok(paused)
    }

    /// Processes everything that needs no further byte.
    fn consume(
        &mut self,
        bytes: &mut &[u8],
        tx: &mut Transmitter,
        around: &mut Surroundings<'_>,
        upper: &mut impl Above,
    ) -> Result<Option<Paused>, CloseReason> {
        loop {
            if tx.is_choked() {
                return Ok(Some(Paused::Choked));
            }
            let went_on = match &mut self.state {
                State::Held { rx, .. } => return Ok(Some(Paused::Held(*rx))),
                State::Header => self.take_frame(bytes, around, upper)?,
                State::Payload(payload) => {
                    fill(payload, bytes, around.stats);
                    let is_whole = payload.missing().is_none();
                    if is_whole {
                        self.finish_payload(tx, around, upper)?;
                    }
                    is_whole
                }
                State::Slop { left } => {
                    let wasted = take(bytes, *left).len();
                    *left -= wasted;
                    around.stats.discarded_payload_bytes += wasted as u64;
                    let is_over = *left == 0;
                    if is_over {
                        self.state = State::Header;
                    }
                    is_over
                }
            };
            if !went_on {
                return Ok(None);
            }
        }
    }

    // [ZC-1] [ZC-2] [ZC-3]
    fn finish_payload(
        &mut self,
        tx: &mut Transmitter,
        around: &mut Surroundings<'_>,
        upper: &mut impl Above,
    ) -> Result<(), CloseReason> {
        if let State::Payload(payload) = std::mem::replace(&mut self.state, State::Header) {
            self.state = State::Slop { left: payload.slop };
            deliver(&payload, tx, around, upper)?;
        }
        Ok(())
    }

    /// Takes the next frame's headers; returns false if they are not complete.
    // [FRAME-2] [FRAME-6]
    fn take_frame(
        &mut self,
        bytes: &mut &[u8],
        around: &mut Surroundings<'_>,
        upper: &mut impl Above,
    ) -> Result<bool, CloseReason> {
        if bytes.len() < KsockHeader::LEN {
            return Ok(false);
        }
        let frame = KsockHeader::decode(self.order, bytes)
            .map_err(|_| CloseReason::Protocol(ProtocolError::FrameType))?;
        match frame.frame_type {
            FrameType::Noop => {
                let window = take(bytes, KsockHeader::LEN);
                self.process_noop(&frame, window, around.stats)?;
                Ok(true)
            }
            FrameType::Lnet if bytes.len() >= self.window_len() => {
                let window = take(bytes, self.window_len());
                check_acks(&frame, around.stats)?;
                self.process_message(&frame, window, around, upper)?;
                self.choose_pipe_or_memory(bytes.is_empty());
                Ok(true)
            }
            FrameType::Lnet => Ok(false),
        }
    }

    // [KEEP-3] [FRAME-4]
    fn process_noop(
        &self,
        frame: &KsockHeader,
        window: &[u8],
        stats: &mut SocklndStats,
    ) -> Result<(), CloseReason> {
        stats.frames_in += 1;
        if let Some((expected, checksum)) = self.checksum(frame, window)
            && checksum.finish() != expected
        {
            return Err(CloseReason::Protocol(ProtocolError::Checksum));
        }
        check_acks(frame, stats)
    }

    // [MSG-3]
    fn process_message(
        &mut self,
        frame: &KsockHeader,
        window: &[u8],
        around: &mut Surroundings<'_>,
        upper: &mut impl Above,
    ) -> Result<(), CloseReason> {
        let lnet_header = &window[KsockHeader::LEN..];
        let header = Header::decode(self.version.header_form(), lnet_header)
            .map_err(|_| CloseReason::Protocol(ProtocolError::LnetHeader))?;
        let mut checksum = self.checksum(frame, window);
        if let Some((_, checksum)) = &mut checksum {
            checksum.update(lnet_header);
        }
        let completion = Completion {
            zc_request: frame.zc_request(),
            checksum,
        };
        let length = header.payload_length as usize;
        around.stats.frames_in += 1;
        if length > 0 {
            self.in_bulk = length <= COPIED_PAYLOAD_MAX;
        }
        self.state = match upper.header(around.ni, around.peer, &header, around.now) {
            Disposition::Receive { rx, destination } => {
                State::Payload(Payload::new(Some(rx), destination, length, completion))
            }
            Disposition::Hold(rx) => State::Held {
                rx,
                length,
                completion,
            },
            Disposition::Drop => State::Payload(Payload::new(None, None, length, completion)),
            Disposition::Reject(complaint) => {
                self.complaint = Some(complaint);
                return Err(CloseReason::Protocol(ProtocolError::Refused));
            }
        };
        Ok(())
    }

    /// Returns the checksum to check. Only version 2 defines what a checksum covers in a way that
    /// all releases agree on.
    // [FRAME-4] [FRAME-5]
    fn checksum(&self, frame: &KsockHeader, window: &[u8]) -> Option<(u32, FrameChecksum)> {
        if self.version != HelloVersion::V2 || frame.csum == 0 {
            return None;
        }
        let bytes = window.first_chunk()?;
        Some((frame.csum, FrameChecksum::new(bytes)))
    }

    fn window_len(&self) -> usize {
        KsockHeader::LEN + self.version.header_form().len()
    }

    /// Returns the close reason for the end of the stream at this point.
    pub(crate) fn end(&self) -> CloseReason {
        if self.is_waiting_for_bytes() {
            // [FRAME-10]
            CloseReason::Protocol(ProtocolError::Truncated)
        } else {
            CloseReason::Eof
        }
    }
}

/// Returns the close reason for a failed read.
pub(crate) fn read_failure(kind: ErrorKind) -> CloseReason {
    match kind {
        ErrorKind::TimedOut => CloseReason::ReadTimedOut,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => CloseReason::Reset,
        _ => CloseReason::ReadFailed,
    }
}

/// Returns the next `count` bytes, or as many as there are.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count.min(bytes.len()));
    *bytes = rest;
    taken
}

/// Copies staged bytes into the destination: the only place that copies payload.
fn fill(payload: &mut Payload, bytes: &mut &[u8], stats: &mut SocklndStats) {
    if let Some(missing) = payload.missing() {
        let copied = missing.copy_in(take(bytes, missing.len()));
        payload.got += copied;
        stats.copied_payload_bytes += copied as u64;
    }
}

/// Completes a payload that is in place: checks it, acknowledges it and hands it over, in this order.
// [FRAME-7]
fn deliver(
    payload: &Payload,
    tx: &mut Transmitter,
    around: &mut Surroundings<'_>,
    upper: &mut impl Above,
) -> Result<(), CloseReason> {
    if let (Some(rx), Some((expected, checksum))) = (payload.rx, payload.completion.checksum)
        && sum(
            checksum,
            payload
                .destination
                .as_ref()
                .map(|destination| &destination.memory),
        ) != expected
    {
        upper.received(rx, Err(Failure::RemoteError), around.now);
        return Err(CloseReason::Protocol(ProtocolError::Checksum));
    }
    if let Some(cookie) = payload.completion.zc_request {
        around.stats.zc_acks += 1;
        tx.push_noop(&KsockHeader::ack(cookie));
    }
    if let Some(rx) = payload.rx {
        upper.received(rx, Ok(()), around.now);
    }
    Ok(())
}

fn sum(mut checksum: FrameChecksum, destination: Option<&Span>) -> u32 {
    let len = destination.map_or(0, Span::len);
    let mut step = [0; CHECKSUM_STEP];
    for start in (0..len).step_by(CHECKSUM_STEP) {
        let part = destination.and_then(|span| span.part(start..len));
        let count = part.map_or(0, |part| part.copy_out(&mut step));
        checksum.update(&step[..count]);
    }
    checksum.finish()
}

/// We never ask for acknowledgements, so every cookie but the keepalive's is unknown.
// [ZC-6] [ZC-8]
fn check_acks(frame: &KsockHeader, stats: &mut SocklndStats) -> Result<(), CloseReason> {
    match frame.zc_ack() {
        Ok(ZcAck::None) => Ok(()),
        Ok(ZcAck::Keepalive) => {
            stats.keepalives_in += 1;
            Ok(())
        }
        Ok(_) => Err(CloseReason::Protocol(ProtocolError::UnknownAck)),
        Err(_) => Err(CloseReason::Protocol(ProtocolError::MixedKeepalive)),
    }
}
