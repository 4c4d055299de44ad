//! One direction of a connection: decodes bytes in order to messages.
//!
//! ```text
//!             SYN seen                          SYN not seen
//!  initiator     |             acceptor               |
//!                v                 |                  v
//!            Connreq ---> Hello <--+     (magic) <- Opening -> (no magic)
//!                           |                               |
//!        broken or rejected |  valid                        v
//!      Ignored <------------+------> Frame <----------- Search <--- gap, damage
//!                                     |  ^
//!                          LNet header v  | all bytes arrived (or known to be lost)
//!                                    Payload
//! ```
//!
//! At most one structure is kept at a time; an opaque payload is skipped as it arrives.

use std::io;

use lnet_types::Time;
use lnet_wire::{
    ACCEPTOR_MAGIC, Connreq, Ctype, DecodeError, FrameType, HELLO_V1_MAGIC, Header, HeaderForm,
    Hello, KsockHeader, LNET_MAGIC, PingInfo, Problem,
};

use crate::boundary::{self, Found, Framing};
use crate::message::{Connection, Direction, Kind, Lnet, Message, Reason};
use crate::payload::{Payload, Pings};
use crate::summary::Summary;

/// Receives messages; an error ends the reading.
pub(crate) type Sink<'a> = dyn FnMut(&Message<'_>) -> io::Result<()> + 'a;

/// Memory that an unfinished structure keeps without being copied.
const SPARE: usize = 4 << 10;

/// How many bytes of a message's opaque payload are kept for [`Payload::Opaque`].
pub type Keep = fn(&Header) -> usize;

/// State of the capture that a direction needs.
pub(crate) struct Context<'a, 'sink> {
    pub(crate) time: Time,
    pub(crate) connection: &'a mut Connection,
    pub(crate) pings: &'a mut Pings,
    pub(crate) keep: Keep,
    pub(crate) summary: &'a mut Summary,
    pub(crate) sink: &'a mut Sink<'sink>,
}

/// One direction; see the [module](self).
#[derive(Debug)]
pub(crate) struct Half {
    direction: Direction,
    state: State,
    /// Bytes that are not decoded yet.
    buffer: Vec<u8>,
    /// Offset in the stream of the buffer's first byte.
    offset: u64,
}

#[derive(Debug)]
enum State {
    Opening,
    Connreq,
    Hello,
    Frame,
    Payload(Box<Pending>),
    Search(Search),
    Ignored,
}

/// A message whose payload is not complete.
#[derive(Debug)]
struct Pending {
    frame: Option<KsockHeader>,
    form: HeaderForm,
    header: Header,
    offset: u64,
    /// The headers, the payload if it is ping info, and otherwise the kept part of the payload.
    raw: Vec<u8>,
    header_len: usize,
    is_ping: bool,
    /// The bytes of an opaque payload that are still to be kept.
    to_keep: usize,
    remaining: u64,
    lost: u64,
}

#[derive(Debug)]
struct Search {
    reason: Reason,
    /// Offset in the stream at which the search began.
    since: u64,
    /// Offset in the buffer at which the search continues.
    from: usize,
}

/// Whether decoding can continue with the present bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Again,
    Starved,
}

impl Half {
    /// A direction of a connection; `from_start` is true if the capture has its beginning.
    pub(crate) const fn new(direction: Direction, from_start: bool) -> Self {
        let state = match (from_start, direction) {
            (false, _) => State::Opening,
            (true, Direction::FromInitiator) => State::Connreq,
            (true, Direction::FromAcceptor) => State::Hello,
        };
        Self {
            direction,
            state,
            buffer: Vec::new(),
            offset: 0,
        }
    }

    /// Memory of the bytes kept.
    pub(crate) fn kept(&self) -> usize {
        let payload = match &self.state {
            State::Payload(pending) => pending.raw.capacity(),
            _ => 0,
        };
        self.buffer.capacity() + payload
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn bytes(&mut self, bytes: &[u8], cx: &mut Context<'_, '_>) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        while self.step(cx)? == Step::Again {}
        self.give_back();
        Ok(())
    }

    /// Gives back the memory of a large segment. There may be thousands of connections, most of them idle.
    fn give_back(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = Vec::new();
        } else if self.buffer.len() <= SPARE && self.buffer.capacity() > 2 * SPARE {
            self.buffer.shrink_to(SPARE);
        }
    }

    /// Records that the next `lost` bytes of the stream are not in the capture.
    pub(crate) fn lost(&mut self, lost: u64, cx: &mut Context<'_, '_>) -> io::Result<()> {
        let mut lost = lost;
        match &mut self.state {
            State::Ignored => {
                cx.summary.bytes.lost += lost;
                self.offset += lost;
                return Ok(());
            }
            State::Payload(pending) => {
                let inside = lost.min(pending.remaining);
                pending.remaining -= inside;
                pending.lost += inside;
                self.offset += inside;
                lost -= inside;
                self.step(cx)?;
            }
            State::Search(_) => return self.lost_while_searching(lost, cx),
            _ => {}
        }
        if lost > 0 { self.gap(lost, cx) } else { Ok(()) }
    }

    /// Reports everything that is left at the end of the stream.
    pub(crate) fn end(&mut self, cx: &mut Context<'_, '_>) -> io::Result<()> {
        match &mut self.state {
            State::Payload(pending) => {
                pending.lost += pending.remaining;
                pending.remaining = 0;
                self.step(cx)?;
            }
            State::Search(_) => self.fail_search(cx)?,
            State::Opening if !self.buffer.is_empty() => {
                self.search(Reason::Joined, 0);
                self.fail_search(cx)?;
            }
            State::Connreq | State::Hello if !self.buffer.is_empty() => {
                self.end_inside_handshake(cx)?;
            }
            State::Frame if !self.buffer.is_empty() => self.end_inside_frame(cx)?,
            _ => {}
        }
        self.state = State::Ignored;
        Ok(())
    }

    fn step(&mut self, cx: &mut Context<'_, '_>) -> io::Result<Step> {
        if self.buffer.is_empty() && !matches!(self.state, State::Payload(_)) {
            return Ok(Step::Starved);
        }
        match self.state {
            State::Opening => Ok(self.opening()),
            State::Connreq => self.connreq(cx),
            State::Hello => self.hello(cx),
            State::Frame => self.frame(cx),
            State::Payload(_) => self.payload(cx),
            State::Search(_) => self.searching(cx),
            State::Ignored => {
                cx.summary.bytes.unaccepted += self.buffer.len() as u64;
                self.consume(self.buffer.len());
                Ok(Step::Starved)
            }
        }
    }

    /// The first bytes of a direction whose SYN was not seen may still be a handshake.
    fn opening(&mut self) -> Step {
        let Some(word) = self.buffer.first_chunk::<4>() else {
            return Step::Starved;
        };
        let magic = u32::from_le_bytes(*word);
        let is = |known: u32| magic == known || magic.swap_bytes() == known;
        match self.direction {
            Direction::FromInitiator if is(ACCEPTOR_MAGIC) => self.state = State::Connreq,
            _ if is(LNET_MAGIC) || magic == HELLO_V1_MAGIC => self.state = State::Hello,
            Direction::FromAcceptor if is(ACCEPTOR_MAGIC) => self.state = State::Hello,
            _ => self.search(Reason::Joined, 0),
        }
        Step::Again
    }

    fn connreq(&mut self, cx: &mut Context<'_, '_>) -> io::Result<Step> {
        match Connreq::needed(&self.buffer) {
            Ok(needed) if needed > self.buffer.len() => return Ok(Step::Starved),
            _ => {}
        }
        match Connreq::decode(&self.buffer) {
            Ok(connreq) => {
                self.emit(connreq.version.wire_len(), Kind::Connreq(connreq), cx)?;
                self.state = State::Hello;
                Ok(Step::Again)
            }
            Err(error) => self.reject(error, cx),
        }
    }

    fn hello(&mut self, cx: &mut Context<'_, '_>) -> io::Result<Step> {
        let rejection = &Connreq::REJECTION;
        if self.direction == Direction::FromAcceptor && self.buffer.starts_with(&rejection[..4]) {
            return self.rejection(cx);
        }
        match Hello::needed(&self.buffer) {
            Ok(needed) if needed > self.buffer.len() => return Ok(Step::Starved),
            _ => {}
        }
        let received = match Hello::decode(&self.buffer) {
            Ok(received) => received,
            Err(error) => return self.reject(error, cx),
        };
        let (hello, length) = (received.hello, received.len);
        self.learn(&hello, cx.connection);
        let head = self.buffer.get(..length).unwrap_or_default();
        deliver(
            self.direction,
            self.offset,
            length as u64,
            head,
            Kind::Hello(received),
            cx,
        )?;
        self.consume(length);
        self.state = if cx.connection.rejected {
            State::Ignored
        } else {
            State::Frame
        };
        Ok(Step::Again)
    }

    /// Updates the connection from a HELLO; the acceptor's version counts.
    fn learn(&self, hello: &Hello, connection: &mut Connection) {
        match self.direction {
            Direction::FromInitiator => {
                connection.ctype = Some(hello.ctype);
                connection.version = connection.version.or(Some(hello.version));
            }
            Direction::FromAcceptor => {
                connection.version = Some(hello.version);
                connection.rejected |= hello.ctype == Ctype::NONE;
            }
        }
        connection.form = connection.version.map(|version| version.header_form());
    }

    fn rejection(&mut self, cx: &mut Context<'_, '_>) -> io::Result<Step> {
        let length = Connreq::REJECTION.len();
        let Some(head) = self.buffer.get(..length) else {
            return Ok(Step::Starved);
        };
        if head != Connreq::REJECTION {
            let problem = Problem::BadMagic(ACCEPTOR_MAGIC);
            return self.reject(
                DecodeError {
                    what: "HELLO",
                    offset: 0,
                    problem,
                },
                cx,
            );
        }
        cx.connection.rejected = true;
        self.emit(length, Kind::Rejection, cx)?;
        self.state = State::Ignored;
        Ok(Step::Again)
    }

    /// Handles a broken handshake: the connection is not accepted.
    fn reject(&mut self, error: DecodeError, cx: &mut Context<'_, '_>) -> io::Result<Step> {
        cx.connection.rejected = true;
        self.emit(self.buffer.len(), Kind::Broken(error), cx)?;
        self.state = State::Ignored;
        Ok(Step::Again)
    }

    fn frame(&mut self, cx: &mut Context<'_, '_>) -> io::Result<Step> {
        if cx.connection.rejected {
            self.state = State::Ignored;
            return Ok(Step::Again);
        }
        let framing = self.framing(cx.connection);
        let at = framing.frame_header_len();
        if self.buffer.len() < at {
            return Ok(Step::Starved);
        }
        let frame = match framing.frame_header {
            true => Some(boundary::frame_header(&self.buffer)),
            false => None,
        };
        match frame.transpose() {
            Err(error) => self.damage(error, cx),
            Ok(Some(frame)) if frame.frame_type == FrameType::Noop => {
                self.emit(at, Kind::Noop(frame), cx)?;
                Ok(Step::Again)
            }
            Ok(frame) => self.lnet(frame, at, framing.form, cx),
        }
    }

    /// Decodes an LNet header that starts `at` bytes into the buffer.
    fn lnet(
        &mut self,
        frame: Option<KsockHeader>,
        at: usize,
        form: Option<HeaderForm>,
        cx: &mut Context<'_, '_>,
    ) -> io::Result<Step> {
        let bytes = self.buffer.get(at..).unwrap_or_default();
        let form = form
            .or_else(|| boundary::infer_form(bytes))
            .unwrap_or(HeaderForm::Nid16);
        if bytes.len() < form.len() {
            return Ok(Step::Starved);
        }
        let header = match Header::decode(form, bytes) {
            Ok(header) => header,
            Err(error) => {
                let offset = error.offset + at;
                return self.damage(DecodeError { offset, ..error }, cx);
            }
        };
        cx.connection.form = Some(form);
        let header_len = at + form.len();
        self.state = State::Payload(Box::new(Pending {
            frame,
            form,
            header,
            offset: self.offset,
            raw: self.buffer.get(..header_len).unwrap_or_default().to_vec(),
            header_len,
            is_ping: cx.pings.observe(&header),
            to_keep: (cx.keep)(&header),
            remaining: u64::from(header.payload_length),
            lost: 0,
        }));
        self.consume(header_len);
        Ok(Step::Again)
    }

    /// Skips payload; delivers the message once it is complete.
    fn payload(&mut self, cx: &mut Context<'_, '_>) -> io::Result<Step> {
        let State::Payload(pending) = &mut self.state else {
            return Ok(Step::Again);
        };
        let held = self.buffer.len() as u64;
        // At most the length of the buffer, so the value fits a usize.
        let take = held.min(pending.remaining) as usize;
        let kept = match pending.is_ping {
            true => take,
            false => take.min(pending.to_keep),
        };
        pending.to_keep = pending.to_keep.saturating_sub(kept);
        pending
            .raw
            .extend_from_slice(self.buffer.get(..kept).unwrap_or_default());
        pending.remaining -= take as u64;
        let is_whole = pending.remaining == 0;
        self.consume(take);
        if !is_whole {
            return Ok(Step::Starved);
        }
        if let State::Payload(pending) = std::mem::replace(&mut self.state, State::Frame) {
            pending.deliver(self.direction, cx)?;
        }
        Ok(Step::Again)
    }

    /// Handles a frame that cannot be decoded: the next boundary is after its first byte.
    fn damage(&mut self, error: DecodeError, cx: &mut Context<'_, '_>) -> io::Result<Step> {
        let raw = self
            .buffer
            .get(..self.buffer.len().min(DAMAGE_SHOWN))
            .unwrap_or_default();
        deliver(
            self.direction,
            self.offset,
            raw.len() as u64,
            raw,
            Kind::Broken(error),
            cx,
        )?;
        self.search(Reason::Damage, 1);
        Ok(Step::Again)
    }

    /// Handles a gap in a handshake, or before, in or after the headers of a frame.
    fn gap(&mut self, lost: u64, cx: &mut Context<'_, '_>) -> io::Result<()> {
        let undecoded = self.buffer.len() as u64;
        let length = undecoded + lost;
        let kind = Kind::Gap { lost, undecoded };
        deliver(self.direction, self.offset, length, &self.buffer, kind, cx)?;
        self.buffer.clear();
        self.offset += length;
        self.search(Reason::Gap, 0);
        Ok(())
    }

    fn lost_while_searching(&mut self, lost: u64, cx: &mut Context<'_, '_>) -> io::Result<()> {
        let State::Search(Search { reason, .. }) = self.state else {
            return Ok(());
        };
        self.fail_search(cx)?;
        let kind = Kind::Gap { lost, undecoded: 0 };
        deliver(self.direction, self.offset, lost, &[], kind, cx)?;
        self.offset += lost;
        self.search(reason, 0);
        Ok(())
    }

    fn search(&mut self, reason: Reason, from: usize) {
        self.state = State::Search(Search {
            reason,
            since: self.offset,
            from,
        });
    }

    fn searching(&mut self, cx: &mut Context<'_, '_>) -> io::Result<Step> {
        let framing = self.framing(cx.connection);
        let State::Search(search) = &mut self.state else {
            return Ok(Step::Again);
        };
        match boundary::find(&self.buffer, search.from, framing) {
            Found::NotBefore(at) => {
                let known = at.min(self.buffer.len());
                search.from = at - known;
                self.consume(known);
                Ok(Step::Starved)
            }
            Found::At(at, form) => {
                cx.connection.form = cx.connection.form.or(form);
                self.consume(at);
                self.end_search(true, cx)?;
                self.state = State::Frame;
                Ok(Step::Again)
            }
        }
    }

    /// Ends a search without a boundary: all bytes in the buffer count as skipped.
    fn fail_search(&mut self, cx: &mut Context<'_, '_>) -> io::Result<()> {
        self.consume(self.buffer.len());
        self.end_search(false, cx)
    }

    /// Reports a search with the number of bytes that it skipped.
    fn end_search(&mut self, found: bool, cx: &mut Context<'_, '_>) -> io::Result<()> {
        let State::Search(Search { reason, since, .. }) = self.state else {
            return Ok(());
        };
        cx.connection.joined |= reason == Reason::Joined;
        let skipped = self.offset - since;
        let kind = Kind::Resumed {
            reason,
            found,
            skipped,
        };
        deliver(self.direction, since, skipped, &[], kind, cx)
    }

    /// Handles the end of the stream inside a handshake: the connection is not accepted.
    fn end_inside_handshake(&mut self, cx: &mut Context<'_, '_>) -> io::Result<()> {
        let available = self.buffer.len();
        let (what, needed) = match self.state {
            State::Connreq => ("connection request", Connreq::needed(&self.buffer)),
            _ => ("HELLO", Hello::needed(&self.buffer)),
        };
        let needed = needed.unwrap_or(Connreq::REJECTION.len());
        let problem = Problem::Truncated { needed, available };
        self.reject(
            DecodeError {
                what,
                offset: available,
                problem,
            },
            cx,
        )?;
        Ok(())
    }

    /// Handles the end of the stream inside the headers of a frame. A node may close there, so only
    /// bytes that cannot begin a frame are an error.
    fn end_inside_frame(&mut self, cx: &mut Context<'_, '_>) -> io::Result<()> {
        let available = self.buffer.len();
        let framing = self.framing(cx.connection);
        let mut start = self.buffer.clone();
        start.resize(available.max(KsockHeader::LEN), 0);
        let frame = boundary::frame_header(&start);
        match frame {
            Err(error) if framing.frame_header && available >= 4 => {
                self.damage(error, cx)?;
                self.fail_search(cx)
            }
            _ => {
                let is_whole = framing.frame_header && available >= KsockHeader::LEN;
                let frame = frame.ok().filter(|_| is_whole);
                let needed = framing.headers_len();
                self.emit(available, Kind::Cut { frame, needed }, cx)
            }
        }
    }

    fn framing(&self, connection: &Connection) -> Framing {
        Framing {
            frame_header: connection.has_frame_header(),
            form: connection.form,
        }
    }

    /// Delivers the first `length` bytes of the buffer and consumes them.
    fn emit(&mut self, length: usize, kind: Kind<'_>, cx: &mut Context<'_, '_>) -> io::Result<()> {
        let raw = self.buffer.get(..length).unwrap_or_default();
        deliver(self.direction, self.offset, length as u64, raw, kind, cx)?;
        self.consume(length);
        Ok(())
    }

    fn consume(&mut self, length: usize) {
        self.buffer.drain(..length.min(self.buffer.len()));
        self.offset += length as u64;
    }
}

impl Pending {
    fn deliver(&self, direction: Direction, cx: &mut Context<'_, '_>) -> io::Result<()> {
        let (headers, body) = self.raw.split_at(self.header_len.min(self.raw.len()));
        let raw = if self.is_ping { &self.raw } else { headers };
        let head = if self.lost == 0 { body } else { &[] };
        let payload = match (self.header.payload_length, self.is_ping && self.lost == 0) {
            (0, _) => Payload::None,
            (_, false) => Payload::Opaque {
                head,
                lost: self.lost,
            },
            (_, true) => match PingInfo::parse(body) {
                Ok(info) => Payload::Ping(info),
                Err(error) => Payload::BadPing(error),
            },
        };
        let Self {
            frame,
            form,
            header,
            ..
        } = *self;
        let length = self.header_len as u64 + u64::from(header.payload_length);
        let kind = Kind::Lnet(Lnet {
            frame,
            form,
            header,
            payload,
        });
        deliver(direction, self.offset, length, raw, kind, cx)
    }
}

/// The most bytes of a damaged frame that are shown: those of the longest headers.
const DAMAGE_SHOWN: usize = KsockHeader::LEN + HeaderForm::Nid16.len();

fn deliver(
    direction: Direction,
    offset: u64,
    length: u64,
    raw: &[u8],
    kind: Kind<'_>,
    cx: &mut Context<'_, '_>,
) -> io::Result<()> {
    let connection = &*cx.connection;
    let message = Message {
        time: cx.time,
        connection,
        direction,
        offset,
        length,
        raw,
        kind,
    };
    cx.summary.count(&message);
    (cx.sink)(&message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_direction_keeps_no_memory_of_large_segments() {
        let mut half = Half::new(Direction::FromInitiator, false);
        half.buffer = Vec::with_capacity(1 << 20);
        half.give_back();
        assert_eq!(half.kept(), 0);
        half.buffer = Vec::with_capacity(1 << 20);
        half.buffer.extend([7; 100]);
        half.give_back();
        assert_eq!(half.buffer, [7; 100]);
        assert!(half.kept() <= 2 * SPARE, "{}", half.kept());
    }
}
