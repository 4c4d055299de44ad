//! One TCP connection: two directions, each reassembled and decoded.

use std::io;
use std::net::SocketAddr;

use lnet_types::Time;

use crate::half::{Context, Half, Keep, Sink};
use crate::ip::Segment;
use crate::message::{Connection, Direction};
use crate::payload::Pings;
use crate::reassembly::{Piece, Reassembler};
use crate::summary::Summary;

/// State that all conversations of a capture share.
pub(crate) struct Shared<'a, 'sink> {
    pub(crate) pings: &'a mut Pings,
    pub(crate) keep: Keep,
    pub(crate) summary: &'a mut Summary,
    pub(crate) sink: &'a mut Sink<'sink>,
}

/// A TCP connection that carries LNet.
#[derive(Debug)]
pub(crate) struct Conversation {
    connection: Connection,
    /// The initiator's first sequence number, if its SYN was seen.
    initial: Option<u32>,
    from_initiator: Stream,
    from_acceptor: Stream,
    last: Time,
    closed: bool,
}

/// One direction.
#[derive(Debug)]
struct Stream {
    reassembler: Option<Reassembler>,
    half: Half,
    /// Offset of the end, once a FIN has shown it.
    end: Option<u64>,
}

impl Conversation {
    /// A conversation whose first captured segment is `first`.
    pub(crate) fn new(id: u32, initiator: SocketAddr, first: &Segment<'_>) -> Self {
        let acceptor = if first.from == initiator {
            first.to
        } else {
            first.from
        };
        let opening = first.syn && first.acknowledged.is_none();
        let initial = match (first.syn, first.acknowledged) {
            (true, None) => Some(first.sequence),
            // A SYN-ACK acknowledges the SYN, which takes one sequence number.
            (true, Some(acknowledged)) => Some(acknowledged.wrapping_sub(1)),
            (false, _) => None,
        };
        let mut this = Self {
            connection: Connection::new(id, initiator, acceptor),
            initial,
            from_initiator: Stream::new(Direction::FromInitiator, first.syn),
            from_acceptor: Stream::new(Direction::FromAcceptor, first.syn),
            last: Time::ZERO,
            closed: false,
        };
        if let (Some(initial), false) = (initial, opening) {
            this.from_initiator.begin(initial.wrapping_add(1));
        }
        this
    }

    /// The connection's number.
    pub(crate) const fn id(&self) -> u32 {
        self.connection.id
    }

    /// The known properties of the connection.
    pub(crate) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The time of its last segment; closed connections count as older than all others.
    pub(crate) const fn last_used(&self) -> Time {
        if self.closed { Time::ZERO } else { self.last }
    }

    /// Bytes kept for it.
    pub(crate) fn kept(&self) -> usize {
        self.from_initiator.kept() + self.from_acceptor.kept()
    }

    /// Returns true for the SYN of a later connection between the same two ports.
    pub(crate) fn is_succeeded_by(&self, segment: &Segment<'_>) -> bool {
        segment.syn && segment.acknowledged.is_none() && self.initial != Some(segment.sequence)
    }

    /// Takes a segment of either direction.
    pub(crate) fn segment(
        &mut self,
        time: Time,
        segment: &Segment<'_>,
        shared: &mut Shared<'_, '_>,
    ) -> io::Result<()> {
        self.last = time;
        if self.closed {
            return Ok(());
        }
        let from_initiator = segment.from == self.connection.initiator;
        let (sender, receiver) = if from_initiator {
            (&mut self.from_initiator, &mut self.from_acceptor)
        } else {
            (&mut self.from_acceptor, &mut self.from_initiator)
        };
        sender.take(time, segment);
        if let (Some(acknowledged), Some(reassembler)) =
            (segment.acknowledged, receiver.reassembler.as_mut())
        {
            reassembler.acknowledge(acknowledged);
        }
        self.advance(time, shared)?;
        if segment.rst {
            self.finish(time, shared)?;
        }
        Ok(())
    }

    /// Reports everything that is left, because no more segments come or the memory limit is
    /// reached.
    pub(crate) fn finish(&mut self, time: Time, shared: &mut Shared<'_, '_>) -> io::Result<()> {
        self.skip_holes(time, shared)?;
        for stream in [&mut self.from_initiator, &mut self.from_acceptor] {
            stream
                .half
                .end(&mut context(time, &mut self.connection, shared))?;
            stream.reassembler = None;
        }
        self.closed = true;
        Ok(())
    }

    /// Delivers the bytes that wait behind holes.
    pub(crate) fn skip_holes(&mut self, time: Time, shared: &mut Shared<'_, '_>) -> io::Result<()> {
        for stream in [&mut self.from_initiator, &mut self.from_acceptor] {
            let mut cx = context(time, &mut self.connection, shared);
            stream.deliver(&mut cx, Reassembler::drain)?;
        }
        Ok(())
    }

    fn advance(&mut self, now: Time, shared: &mut Shared<'_, '_>) -> io::Result<()> {
        for stream in [&mut self.from_initiator, &mut self.from_acceptor] {
            let mut cx = context(now, &mut self.connection, shared);
            stream.deliver(&mut cx, |reassembler| reassembler.next(now))?;
        }
        Ok(())
    }
}

fn context<'a, 'sink>(
    time: Time,
    connection: &'a mut Connection,
    shared: &'a mut Shared<'_, 'sink>,
) -> Context<'a, 'sink> {
    Context {
        time,
        connection,
        pings: shared.pings,
        keep: shared.keep,
        summary: shared.summary,
        sink: shared.sink,
    }
}

impl Stream {
    const fn new(direction: Direction, from_start: bool) -> Self {
        Self {
            reassembler: None,
            half: Half::new(direction, from_start),
            end: None,
        }
    }

    fn kept(&self) -> usize {
        self.half.kept() + self.reassembler.as_ref().map_or(0, Reassembler::waiting)
    }

    fn begin(&mut self, sequence: u32) -> &mut Reassembler {
        self.reassembler
            .get_or_insert_with(|| Reassembler::new(sequence))
    }

    fn take(&mut self, time: Time, segment: &Segment<'_>) {
        let first = segment.sequence.wrapping_add(u32::from(segment.syn));
        if segment.syn || !segment.payload.is_empty() {
            self.begin(first);
        }
        let Some(reassembler) = &mut self.reassembler else {
            return;
        };
        reassembler.push(time, first, segment.payload, segment.cut);
        if segment.fin {
            let length = segment.payload.len() + segment.cut;
            // Sequence numbers are modulo 2^32.
            let end = reassembler.offset_of(first.wrapping_add(length as u32));
            self.end = self.end.or(end);
        }
    }

    fn deliver(
        &mut self,
        cx: &mut Context<'_, '_>,
        mut next: impl FnMut(&mut Reassembler) -> Option<Piece>,
    ) -> io::Result<()> {
        let Some(reassembler) = &mut self.reassembler else {
            return Ok(());
        };
        while let Some(piece) = next(reassembler) {
            match piece {
                Piece::Bytes(time, bytes) => {
                    cx.time = cx.time.max(time);
                    self.half.bytes(&bytes, cx)?;
                }
                Piece::Lost(lost) => self.half.lost(lost, cx)?,
            }
        }
        if self.end.is_some_and(|end| reassembler.delivered() >= end) {
            self.half.end(cx)?;
        }
        Ok(())
    }
}
