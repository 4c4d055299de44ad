//! The receiving half of a connection: the state machine of section 3.3.
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
//! The header window is exactly as long as the headers of an LNET frame. A NOOP is shorter, and what
//! follows it are headers again, so that a full window read at a frame boundary never holds a payload
//! byte. One read takes the rest of the payload, straight into the upper side's memory, and the window
//! behind it: a steady stream costs one system call a message and copies nothing.
//!
//! A read that gives less than was asked for has emptied the socket: the next one waits for readiness.

use std::io::{ErrorKind, IoSliceMut, Read};

use lnet_types::{ProcessId, Time};
use lnet_wire::{
    ByteOrder, FrameChecksum, FrameType, Header, HeaderForm, HelloVersion, KsockHeader, ZcAck,
};

use crate::stats::{CloseReason, ProtocolError, SocklndStats};
use crate::transmit::Transmitter;
use crate::upper::{Disposition, Failure, NiKey, RxToken, Upper};

/// The longest header window: frame header and the 96-byte LNet header.
pub(crate) const WINDOW_MAX: usize = KsockHeader::LEN + HeaderForm::Nid16.len();

/// What one connection may read before the others have their turn.
const TURN_BYTES: usize = 4 << 20;

/// Reads of one turn; small messages make many.
const TURN_READS: usize = 64;

/// How a turn of reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paused {
    /// The socket is empty.
    Drained,
    /// There may be more, after the others had their turn.
    TurnOver,
    /// The upper side holds this message.
    Held(RxToken),
    /// Too many acknowledgements wait to be written.
    Choked,
}

/// What the receiver works with; the same for all connections but for the names.
pub(crate) struct Surroundings<'a> {
    /// The interface of the connection.
    pub(crate) ni: NiKey,
    /// The peer of the connection.
    pub(crate) peer: ProcessId,
    /// Memory for bytes that nobody wants.
    pub(crate) scratch: &'a mut [u8],
    pub(crate) stats: &'a mut SocklndStats,
    pub(crate) now: Time,
}

/// What remains to be done when the wanted payload of a message is in place.
#[derive(Clone, Copy, Debug)]
struct Completion {
    zc_request: Option<u64>,
    /// The value in the frame header and the checksum of the headers, where one is to be checked.
    checksum: Option<(u32, FrameChecksum)>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Header,
    Held {
        rx: RxToken,
        length: usize,
        completion: Completion,
    },
    Payload {
        /// `None` when the message is thrown away.
        rx: Option<RxToken>,
        wanted: usize,
        got: usize,
        slop: usize,
        completion: Completion,
    },
    Slop {
        left: usize,
    },
}

/// The receiving state of one connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    version: HelloVersion,
    order: ByteOrder,
    state: State,
    /// Bytes of the window that are filled.
    have: usize,
    window: [u8; WINDOW_MAX],
    /// The rest of a failed message's text, for the log.
    complaint: Option<&'static str>,
}

impl Receiver {
    /// The state behind the HELLO of a connection; `order` is the peer's.
    pub(crate) fn new(version: HelloVersion, order: ByteOrder) -> Self {
        Self {
            version,
            order,
            state: State::Header,
            have: 0,
            window: [0; WINDOW_MAX],
            complaint: None,
        }
    }

    /// What the upper side said when it refused a message.
    pub(crate) fn complaint(&self) -> Option<&'static str> {
        self.complaint
    }

    /// True between the first and the last byte of a frame, unless we are the ones who wait.
    pub(crate) fn is_waiting_for_bytes(&self) -> bool {
        match self.state {
            State::Header => self.have > 0,
            State::Held { .. } => false,
            State::Payload { .. } | State::Slop { .. } => true,
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        matches!(self.state, State::Held { .. })
    }

    /// The message that the upper side still waits for, of a connection that is closed.
    pub(crate) fn abandon(&mut self) -> Option<RxToken> {
        match std::mem::replace(&mut self.state, State::Header) {
            State::Held { rx, .. } => Some(rx),
            State::Payload { rx, .. } => rx,
            State::Header | State::Slop { .. } => None,
        }
    }

    /// Goes on with the held message: into its landing, or to nowhere.
    pub(crate) fn resume(&mut self, wanted: Option<u32>) {
        if let State::Held {
            rx,
            length,
            completion,
        } = self.state
        {
            self.state = payload(Some(rx), wanted.unwrap_or(0), length, completion);
        }
    }

    /// Reads the rest of this message into nowhere; false when it is not the one that is being read.
    pub(crate) fn cancel(&mut self, unwanted: RxToken) -> bool {
        let State::Payload {
            rx: Some(rx),
            wanted,
            got,
            slop,
            completion,
        } = self.state
        else {
            return false;
        };
        if rx == unwanted {
            self.state = payload(None, 0, wanted - got + slop, completion);
        }
        rx == unwanted
    }

    /// Reads until the socket is empty, the turn is over or there is a reason to pause. With
    /// `to_the_end` a short read is no sign of an empty socket: the peer has closed its side, which no
    /// further readiness will tell.
    pub(crate) fn read(
        &mut self,
        socket: &mut impl Read,
        to_the_end: bool,
        tx: &mut Transmitter,
        around: &mut Surroundings<'_>,
        upper: &mut impl Upper,
    ) -> Result<Paused, CloseReason> {
        let mut turn = 0;
        for _ in 0..TURN_READS {
            if let Some(paused) = self.process(tx, around, upper)? {
                return Ok(paused);
            }
            if turn >= TURN_BYTES {
                break;
            }
            let (asked, got) = match self.fill(socket, around, upper) {
                Ok(read) => read,
                Err(Stop::Empty) => return Ok(Paused::Drained),
                Err(Stop::Close(reason)) => return Err(reason),
            };
            turn += got;
            if got < asked && !to_the_end {
                // What is complete is delivered at once, not when more arrives.
                return Ok(self.process(tx, around, upper)?.unwrap_or(Paused::Drained));
            }
        }
        Ok(Paused::TurnOver)
    }

    /// Does everything that needs no further byte.
    fn process(
        &mut self,
        tx: &mut Transmitter,
        around: &mut Surroundings<'_>,
        upper: &mut impl Upper,
    ) -> Result<Option<Paused>, CloseReason> {
        loop {
            if tx.is_choked() {
                return Ok(Some(Paused::Choked));
            }
            match self.state {
                State::Held { rx, .. } => return Ok(Some(Paused::Held(rx))),
                State::Header => {
                    if !self.process_window(around, upper)? {
                        return Ok(None);
                    }
                }
                State::Payload {
                    rx,
                    wanted,
                    got,
                    slop,
                    completion,
                } if got == wanted => {
                    self.state = State::Slop { left: slop };
                    deliver(rx, wanted, completion, tx, around, upper)?;
                }
                State::Slop { left: 0 } => self.state = State::Header,
                State::Payload { .. } | State::Slop { .. } => return Ok(None),
            }
        }
    }

    /// Takes the next frame off the window; false when it is not complete.
    fn process_window(
        &mut self,
        around: &mut Surroundings<'_>,
        upper: &mut impl Upper,
    ) -> Result<bool, CloseReason> {
        if self.have < KsockHeader::LEN {
            return Ok(false);
        }
        let frame = KsockHeader::decode(self.order, &self.window[..self.have])
            .map_err(|_| CloseReason::Protocol(ProtocolError::FrameType))?;
        match frame.frame_type {
            FrameType::Noop => {
                self.process_noop(&frame, around.stats)?;
                self.window.copy_within(KsockHeader::LEN..self.have, 0);
                self.have -= KsockHeader::LEN;
                Ok(true)
            }
            FrameType::Lnet if self.have == self.window_len() => {
                check_acks(&frame, around.stats)?;
                self.process_message(&frame, around, upper)?;
                Ok(true)
            }
            FrameType::Lnet => Ok(false),
        }
    }

    fn process_noop(
        &self,
        frame: &KsockHeader,
        stats: &mut SocklndStats,
    ) -> Result<(), CloseReason> {
        stats.frames_in += 1;
        if let Some((expected, checksum)) = self.checksum(frame)
            && checksum.finish() != expected
        {
            return Err(CloseReason::Protocol(ProtocolError::Checksum));
        }
        check_acks(frame, stats)
    }

    fn process_message(
        &mut self,
        frame: &KsockHeader,
        around: &mut Surroundings<'_>,
        upper: &mut impl Upper,
    ) -> Result<(), CloseReason> {
        let lnet_header = &self.window[KsockHeader::LEN..self.have];
        let header = Header::decode(self.version.header_form(), lnet_header)
            .map_err(|_| CloseReason::Protocol(ProtocolError::LnetHeader))?;
        let mut checksum = self.checksum(frame);
        if let Some((_, checksum)) = &mut checksum {
            checksum.update(lnet_header);
        }
        let completion = Completion {
            zc_request: frame.zc_request(),
            checksum,
        };
        let length = header.payload_length as usize;
        around.stats.frames_in += 1;
        self.have = 0;
        self.state = match upper.header(around.ni, around.peer, &header, around.now) {
            Disposition::Receive { rx, wanted } => payload(Some(rx), wanted, length, completion),
            Disposition::Hold(rx) => State::Held {
                rx,
                length,
                completion,
            },
            Disposition::Discard => payload(None, 0, length, completion),
            Disposition::Refuse(complaint) => {
                self.complaint = Some(complaint);
                return Err(CloseReason::Protocol(ProtocolError::Refused));
            }
        };
        Ok(())
    }

    /// Only version 2 says what a checksum covers in a way that all releases agree on (section 3.2).
    fn checksum(&self, frame: &KsockHeader) -> Option<(u32, FrameChecksum)> {
        if self.version != HelloVersion::V2 || frame.csum == 0 {
            return None;
        }
        let bytes = self.window.first_chunk()?;
        Some((frame.csum, FrameChecksum::new(bytes)))
    }

    fn window_len(&self) -> usize {
        KsockHeader::LEN + self.version.header_form().len()
    }

    /// Reads once. Returns the bytes asked for and those that came.
    fn fill(
        &mut self,
        socket: &mut impl Read,
        around: &mut Surroundings<'_>,
        upper: &mut impl Upper,
    ) -> Result<(usize, usize), Stop> {
        let window_len = self.window_len();
        let (landing, slop) = self.expected(upper)?;
        let landing_len = landing.len();
        let scratch_len = slop.min(around.scratch.len());
        // The next headers may follow in the same read only where nothing unwanted is left before them.
        let window_end = if scratch_len == slop {
            window_len
        } else {
            self.have
        };
        let mut slices = [
            IoSliceMut::new(landing),
            IoSliceMut::new(&mut around.scratch[..scratch_len]),
            IoSliceMut::new(&mut self.window[self.have..window_end]),
        ];
        let asked = slices.iter().map(|slice| slice.len()).sum();
        let got = read_vectored(socket, &mut slices)?;
        around.stats.reads += 1;
        around.stats.bytes_in += got as u64;
        if got == 0 {
            return Err(Stop::Close(self.end()));
        }
        self.account(got, landing_len, scratch_len, around.stats);
        Ok((asked, got))
    }

    /// The landing that is still to be filled, and the bytes behind it that nobody wants.
    fn expected<'u>(&self, upper: &'u mut impl Upper) -> Result<(&'u mut [u8], usize), Stop> {
        match self.state {
            State::Payload {
                rx: Some(rx),
                wanted,
                got,
                slop,
                ..
            } if wanted > 0 => {
                let landing = upper.landing(rx);
                if landing.len() != wanted {
                    return Err(Stop::Close(CloseReason::UpperLength));
                }
                Ok((&mut landing[got..], slop))
            }
            State::Payload { slop, .. } => Ok((&mut [], slop)),
            State::Slop { left } => Ok((&mut [], left)),
            State::Header | State::Held { .. } => Ok((&mut [], 0)),
        }
    }

    /// Divides `count` bytes that were read among landing, waste and window.
    fn account(
        &mut self,
        count: usize,
        landing_len: usize,
        scratch_len: usize,
        stats: &mut SocklndStats,
    ) {
        let landed = count.min(landing_len);
        let wasted = (count - landed).min(scratch_len);
        stats.discarded_payload_bytes += wasted as u64;
        match &mut self.state {
            State::Payload { got, slop, .. } => {
                *got += landed;
                *slop -= wasted;
            }
            State::Slop { left } => *left -= wasted,
            State::Header | State::Held { .. } => {}
        }
        self.have += count - landed - wasted;
    }

    /// What the end of the stream means here.
    fn end(&self) -> CloseReason {
        if self.is_waiting_for_bytes() {
            CloseReason::Protocol(ProtocolError::Truncated)
        } else {
            CloseReason::Eof
        }
    }
}

/// Why a read gave nothing.
enum Stop {
    Empty,
    Close(CloseReason),
}

fn read_vectored(socket: &mut impl Read, slices: &mut [IoSliceMut<'_>]) -> Result<usize, Stop> {
    loop {
        match socket.read_vectored(slices) {
            Ok(count) => return Ok(count),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock => return Err(Stop::Empty),
                ErrorKind::TimedOut => return Err(Stop::Close(CloseReason::ReadTimedOut)),
                ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => {
                    return Err(Stop::Close(CloseReason::Reset));
                }
                _ => return Err(Stop::Close(CloseReason::ReadFailed)),
            },
        }
    }
}

fn payload(rx: Option<RxToken>, wanted: u32, length: usize, mut completion: Completion) -> State {
    let wanted = (wanted as usize).min(length);
    if wanted < length || rx.is_none() {
        // Bytes that nobody wants are not looked at, so that there is nothing to compare.
        completion.checksum = None;
    }
    State::Payload {
        rx,
        wanted,
        got: 0,
        slop: length - wanted,
        completion,
    }
}

/// The wanted payload is in place: checks it, acknowledges it and hands it over, in this order
/// (section 3.3).
fn deliver(
    rx: Option<RxToken>,
    wanted: usize,
    completion: Completion,
    tx: &mut Transmitter,
    around: &mut Surroundings<'_>,
    upper: &mut impl Upper,
) -> Result<(), CloseReason> {
    if let (Some(rx), Some((expected, mut checksum))) = (rx, completion.checksum) {
        if wanted > 0 {
            checksum.update(upper.landing(rx));
        }
        if checksum.finish() != expected {
            upper.received(rx, Err(Failure::RemoteError), around.now);
            return Err(CloseReason::Protocol(ProtocolError::Checksum));
        }
    }
    if let Some(cookie) = completion.zc_request {
        around.stats.zc_acks += 1;
        tx.push_noop(&KsockHeader::ack(cookie));
    }
    if let Some(rx) = rx {
        upper.received(rx, Ok(()), around.now);
    }
    Ok(())
}

/// We never ask for acknowledgements, so that every one but the keepalive is unknown (section 3.4).
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
