//! One connection: converts bytes to frames and frames to bytes. It does not interpret frames.
//!
//! ```text
//!   socket ──▶ staging ──▶ header ──▶ the engine says where the payload goes (Body)
//!      └──────────────────────────────▶ payload, straight into the Body's memory
//! ```
//!
//! While messages are small, a read fills the whole staging memory, and the payload in it is copied. While
//! large messages are expected, a read into staging takes one header only, so their payload is not copied.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;

use rustc_hash::FxHashMap;
use sys::span::{self, PARTS_MAX, Span};

use super::endpoint::{Endpoint, Socket};
use super::held::Held;
use super::wire::{EAGER_WINDOW, FrameKind, HEADER_LEN, Header, UNEXPECTED_WINDOW, Violation};
use crate::error::Error;
use crate::id::{OpId, Tag};
use crate::payload::Segments;

/// The length of the staging memory in bytes: several small messages.
const STAGING_LEN: usize = 32 << 10;

/// A connection with a peer.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) socket: Socket,
    /// Known once this side has dialled or has received a HELLO.
    pub(crate) peer: Option<u64>,
    /// The origin of an accepted connection. The socket itself forgets it when the connection is lost.
    pub(crate) seen: Option<Endpoint>,
    pub(crate) connected: bool,
    pub(crate) greeted: bool,
    /// There may be bytes to read.
    pub(crate) readable: bool,
    /// The peer will send no more; what is left must be read before the end is seen.
    pub(crate) ending: bool,
    /// There may be room to write.
    pub(crate) writable: bool,
    /// Why nothing can be written any more.
    pub(crate) broken: Option<Error>,
    pub(crate) inbound: Inbound,
    pub(crate) outbound: VecDeque<Frame>,
    pub(crate) sending: Sending,
    pub(crate) receiving: Receiving,
}

/// Names a link: its place in the table, and a number that tells it from earlier links in that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkId {
    pub(crate) index: usize,
    pub(crate) number: u64,
}

/// The sending state: what is sent or still to be sent.
#[derive(Debug)]
pub(crate) struct Sending {
    /// Bytes left in the peer's eager window.
    pub(crate) eager: u64,
    pub(crate) unexpected: u64,
    /// Announced messages, by token.
    pub(crate) requested: FxHashMap<u64, Outgoing>,
    pub(crate) next_token: u64,
    /// Unexpected messages that wait for the window to open.
    pub(crate) backlog: VecDeque<Outgoing>,
    /// Expected messages that wait because too many are announced.
    pub(crate) expected_backlog: VecDeque<Outgoing>,
}

/// The receiving state: what the peer has sent.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    /// Bytes of the eager window that the peer has used.
    pub(crate) eager_used: u64,
    pub(crate) unexpected_used: u64,
    /// Bytes consumed and not yet given back to the peer.
    pub(crate) eager_owed: u64,
    pub(crate) unexpected_owed: u64,
    /// The number of the peer's requests that no receive has matched.
    pub(crate) requests: usize,
    /// The peer's requests that a receive has matched, by token.
    pub(crate) granted: FxHashMap<u64, Granted>,
    /// The token of the peer's last request.
    pub(crate) last_token: u64,
    /// The number of answers to requests that are not yet written.
    pub(crate) answers: usize,
}

/// A send of which nothing has been transmitted.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) op: OpId,
    pub(crate) tag: Tag,
    pub(crate) class: u8,
    pub(crate) segments: Segments,
    pub(crate) total: usize,
}

/// A matched receive that waits for DATA.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) waiting: Waiting,
    pub(crate) length: usize,
}

/// A receive that was posted.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) op: OpId,
    pub(crate) tag: Tag,
    pub(crate) segments: Segments,
    pub(crate) total: usize,
    /// Increases from post to post.
    pub(crate) number: u64,
}

/// A frame in the queue to the socket.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) header: [u8; HEADER_LEN],
    pub(crate) segments: Segments,
    /// Bytes of header and payload.
    pub(crate) len: usize,
    pub(crate) sent: usize,
    /// The operation to complete once the frame is written, and its number of payload bytes.
    pub(crate) op: Option<OpId>,
}

impl Frame {
    pub(crate) fn control(header: Header) -> Frame {
        Frame {
            header: header.encode(),
            segments: Segments::new(),
            len: HEADER_LEN,
            sent: 0,
            op: None,
        }
    }

    /// Returns whether the frame answers a request.
    pub(crate) fn is_answer(&self) -> bool {
        let [kind, ..] = self.header;
        kind == FrameKind::Ready as u8 || kind == FrameKind::Reject as u8
    }

    pub(crate) fn message(header: Header, outgoing: Outgoing) -> Frame {
        Frame {
            header: header.encode(),
            segments: outgoing.segments,
            len: HEADER_LEN + outgoing.total,
            sent: 0,
            op: Some(outgoing.op),
        }
    }
}

/// The destination of the payload that is being read.
#[derive(Debug)]
pub(crate) struct Body {
    /// The reservation, if the memory is the method's own.
    pub(crate) held: Option<Held>,
    /// Exactly `len` bytes; empty if the payload is dropped.
    pub(crate) segments: Segments,
    pub(crate) len: usize,
    pub(crate) filled: usize,
    pub(crate) then: Then,
}

/// What happens after the payload has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// A posted receive completes.
    Receive(OpId),
    /// The message waits for a receive.
    Eager(Tag),
    /// The message waits for a test.
    Unexpected(Tag, u8),
    /// The payload is dropped.
    Drop,
}

/// The reading half of a link.
#[derive(Debug)]
pub(crate) struct Inbound {
    staging: Box<[u8]>,
    start: usize,
    end: usize,
    pub(crate) body: Option<Body>,
    /// Payload bytes that were copied from staging.
    pub(crate) copied: u64,
}

/// A header or a complete body.
#[derive(Debug)]
pub(crate) enum Item {
    Header(Header),
    Body(Body),
}

impl Default for Inbound {
    fn default() -> Inbound {
        Inbound {
            staging: vec![0; STAGING_LEN].into_boxed_slice(),
            start: 0,
            end: 0,
            body: None,
            copied: 0,
        }
    }
}

impl Inbound {
    /// Reads once. Returns whether there may be more.
    ///
    /// # Errors
    ///
    /// Errors of the socket; [`io::ErrorKind::UnexpectedEof`] if the peer has closed it.
    fn fill(&mut self, socket: &impl AsFd, large_expected: bool) -> io::Result<bool> {
        self.staging.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let none = Segments::new();
        let (segments, filled, missing) = match &self.body {
            Some(body) if !body.segments.is_empty() => {
                (&body.segments, body.filled, body.len - body.filled)
            }
            _ => (&none, 0, 0),
        };
        let dropping = matches!(&self.body, Some(body) if body.segments.is_empty());
        let limit = if large_expected && !dropping {
            HEADER_LEN.max(self.end + 1)
        } else {
            STAGING_LEN
        };
        let tail = &mut self.staging[self.end..limit];
        let room = missing + tail.len();
        let whole = segments.len() < PARTS_MAX;
        let count = span::receive(socket, segments, filled, tail)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let direct = count.min(missing);
        if let Some(body) = &mut self.body {
            body.filled += direct;
        }
        self.end += count - direct;
        // A short read means that the socket is empty; the poll reports it when more arrives.
        Ok(count == room || !whole)
    }

    /// Returns the next header or the body that is now complete; `None` if bytes are missing.
    ///
    /// # Errors
    ///
    /// [`Violation::NotAFrame`], [`Violation::Foreign`].
    // [TCP-8]
    pub(crate) fn next(&mut self) -> Result<Option<Item>, Violation> {
        let staged = &self.staging[self.start..self.end];
        if let Some(mut body) = self.body.take() {
            let count = staged.len().min(body.len - body.filled);
            span::scatter(&body.segments, body.filled, &staged[..count]);
            if !body.segments.is_empty() {
                self.copied += count as u64;
            }
            self.start += count;
            body.filled += count;
            if body.filled == body.len {
                return Ok(Some(Item::Body(body)));
            }
            self.body = Some(body);
            return Ok(None);
        }
        let Some(header) = staged.first_chunk() else {
            return Ok(None);
        };
        let header = Header::decode(header)?;
        self.start += HEADER_LEN;
        Ok(Some(Item::Header(header)))
    }
}

impl Link {
    /// Creates the link of an accepted connection.
    pub(crate) fn accepted(socket: Socket, seen: Endpoint) -> Link {
        Link {
            seen: Some(seen),
            ..Link::new(socket, None, true)
        }
    }

    /// Creates the link of a connection that is being established.
    pub(crate) fn dialled(socket: Socket, peer: u64) -> Link {
        Link::new(socket, Some(peer), false)
    }

    fn new(socket: Socket, peer: Option<u64>, connected: bool) -> Link {
        Link {
            id: LinkId {
                index: 0,
                number: 0,
            },
            socket,
            peer,
            seen: None,
            connected,
            greeted: false,
            readable: connected,
            ending: false,
            writable: connected,
            broken: None,
            inbound: Inbound::default(),
            outbound: VecDeque::new(),
            sending: Sending {
                eager: EAGER_WINDOW,
                unexpected: UNEXPECTED_WINDOW,
                requested: FxHashMap::default(),
                next_token: 1,
                backlog: VecDeque::new(),
                expected_backlog: VecDeque::new(),
            },
            receiving: Receiving::default(),
        }
    }

    /// Removes everything that is to be sent, and returns the operations.
    pub(crate) fn unsent(&mut self) -> Vec<OpId> {
        let sending = &mut self.sending;
        let requested = sending.requested.drain().map(|(_, outgoing)| outgoing);
        let backlogs = sending.backlog.drain(..);
        let waiting = requested
            .chain(backlogs)
            .chain(sending.expected_backlog.drain(..))
            .map(|outgoing| outgoing.op);
        let queued = self.outbound.drain(..).filter_map(|frame| frame.op);
        queued.chain(waiting).collect()
    }

    /// Reads once, if there may be something. Returns whether something was read.
    ///
    /// # Errors
    ///
    /// The link has failed.
    pub(crate) fn fill(&mut self) -> Result<bool, Error> {
        if !self.readable || !self.connected {
            return Ok(false);
        }
        let large = !self.receiving.granted.is_empty();
        match self.inbound.fill(&self.socket, large) {
            Ok(more) => {
                // An end that arrived with the last bytes is not reported by the poll again.
                self.readable = more || self.ending;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                self.broken.map_or(Ok(false), Err)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(connection_error(error)),
        }
    }

    /// Writes as much as the socket takes. Appends the operations whose frames are written, and their sizes,
    /// to `done`.
    ///
    /// # Errors
    ///
    /// The link has failed.
    pub(crate) fn flush(
        &mut self,
        done: &mut Vec<(OpId, Result<usize, Error>)>,
    ) -> Result<(), Error> {
        if self.broken.is_some() {
            // Only answers to what is still read; nobody receives them.
            self.outbound.clear();
            return Ok(());
        }
        while self.connected
            && self.writable
            && let Some(frame) = self.outbound.front_mut()
        {
            match span::send(&self.socket, &frame.header, &frame.segments, frame.sent) {
                Ok(count) => frame.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(connection_error(error)),
            }
            if frame.sent == frame.len
                && let Some(frame) = self.outbound.pop_front()
            {
                self.receiving.answers -= usize::from(frame.is_answer());
                done.extend(frame.op.map(|op| (op, Ok(frame.len - HEADER_LEN))));
            }
        }
        Ok(())
    }
}

/// Converts a socket error to the BMI error of a lost connection.
fn connection_error(error: io::Error) -> Error {
    match Error::from(error) {
        Error::Pipe | Error::Io => Error::ConnReset,
        other => other,
    }
}

/// Returns the first `len` bytes of the segments, without empty segments.
// [BMI-13]
pub(crate) fn trimmed(segments: &[Span], len: usize) -> Segments {
    let mut left = len;
    let mut trimmed = Segments::new();
    for segment in segments {
        let count = segment.len().min(left);
        if count > 0 {
            trimmed.extend(segment.part(0..count));
        }
        left -= count;
    }
    trimmed
}
