//! One client's connection: the frames it may send, its output, and its last sign of life.
//!
//! ```text
//!  accepted ──HELLO──▶ attached ──BYE, end of stream, violation, silence──▶ gone
//!                        │  ▲
//!              GRANT ────▼  │ all bytes: arrived
//!                     incoming{grant} ──DATA──▶ segment
//! ```
//!
//! Payload goes from the socket to the place that its grant names; if the engine has stopped the transfer,
//! the payload is dropped. A frame that breaks a rule is a [`Violation`]: the daemon closes the connection,
//! and other clients are not affected.

mod input;
mod memory;
mod output;
mod stream;

use std::collections::{BTreeMap, VecDeque};
use std::io;

use sys::span::{self, Span};
use zoid_proto::fwd::{Data, INLINE_WINDOW, inline_cost};

use crate::zbmi::{Peer, Time};

pub(crate) use input::Input;
pub(crate) use memory::{CopyDirection, Failed, Failure, Memory, Message, Moved, Named, Obstacle};
pub(crate) use output::{Output, Wrote};
pub(crate) use stream::{Listener, Stream};

/// A rule that a client broke. Each violation closes the connection and is counted.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Violation {
    /// Bytes that are not a frame, or a frame that only a daemon sends.
    Malformed,
    /// A first frame that is not HELLO, or a second HELLO.
    Introduction,
    /// Request 0, which names no request.
    RequestId,
    /// Payload without a grant or credit, beyond it, or at a wrong offset.
    Payload,
    /// An acknowledgement or abort of a transfer that the client does not have.
    Grant,
}

impl Violation {
    /// Every violation, in the order of the counters.
    pub(crate) const ALL: [Self; 5] = [
        Self::Malformed,
        Self::Introduction,
        Self::RequestId,
        Self::Payload,
        Self::Grant,
    ];

    /// Returns the name in metrics.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Introduction => "introduction",
            Self::RequestId => "request_id",
            Self::Payload => "payload",
            Self::Grant => "grant",
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: Stream,
    /// Its id at the engine, after HELLO.
    pub(crate) peer: Option<Peer>,
    pub(crate) input: Input,
    pub(crate) output: Output,
    /// Whether there may be bytes to read: the poll said so, and no read has said otherwise.
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Whether the client has closed its sending direction, so that the poll reports nothing further.
    pub(crate) read_closed: bool,
    /// Whether the poll is to report room for output.
    pub(crate) awaits_room: bool,
    /// Whether it is queued for a turn.
    pub(crate) queued: bool,
    /// Whether the connection closes as soon as its output is written.
    pub(crate) closing: bool,
    pub(crate) heard: Time,
    pub(crate) pinged: Time,
    /// Whether payload may come without a grant, against a credit.
    pub(crate) credits: bool,
    /// Its memory, if messages are copied directly.
    pub(crate) memory: Option<Memory>,
    /// The request that fails because its memory does not exist.
    pub(crate) faulty: Option<u32>,
    /// The client answers PING only while it waits, so its silence means nothing.
    pub(crate) quiet: bool,
    pub(crate) tests: crate::advice::TestRate,
    /// The kinds of its unanswered requests.
    pub(crate) requests: BTreeMap<u32, RequestKind>,
    incoming: BTreeMap<u64, Incoming>,
    /// Messages that it has not acknowledged, and the requests that they answer.
    outgoing: BTreeMap<u64, u32>,
    /// Short messages that arrived with their requests, until these are answered.
    inline: BTreeMap<u32, Vec<u8>>,
    /// The cost of these messages, at most [`INLINE_WINDOW`].
    inline_cost: usize,
    /// The most recent stopped transfers, whose remaining payload is dropped.
    stopped: VecDeque<u64>,
    payload: Option<Payload>,
}

/// The kind of a request; decides which frame answers it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RequestKind {
    /// zbmi_send: SEND_DONE.
    Send,
    /// zbmi_recv: RECV_REPLY.
    Recv,
    /// zbmi_test: TEST_REPLY.
    Test,
}

/// A granted transfer to the segment.
#[derive(Debug)]
struct Incoming {
    request: u32,
    spans: Vec<Span>,
    total: u64,
    received: u64,
    /// Whether the client was asked where the message is in its memory.
    in_memory: bool,
}

/// The payload of the current frame.
#[derive(Debug)]
struct Payload {
    /// The transfer; `None` if the payload is dropped.
    grant: Option<u64>,
    /// The destination.
    parts: Vec<Span>,
    len: usize,
    moved: usize,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Received {
    /// This many bytes; frames may be complete.
    Bytes(usize),
    /// Payload of this transfer.
    Payload {
        bytes: usize,
        grant: u64,
        arrived: bool,
    },
    /// The client has closed its sending direction.
    End,
}

/// The number of stopped transfers that are remembered. A client that still sends payload of older ones is
/// disconnected.
const STOPPED_MAX: usize = 1024;

impl Client {
    pub(crate) fn new(stream: Stream, now: Time) -> Self {
        Self {
            stream,
            peer: None,
            input: Input::default(),
            output: Output::default(),
            readable: true,
            writable: true,
            read_closed: false,
            awaits_room: false,
            queued: false,
            closing: false,
            heard: now,
            pinged: now,
            credits: false,
            memory: None,
            faulty: None,
            quiet: false,
            tests: crate::advice::TestRate::default(),
            requests: BTreeMap::new(),
            incoming: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            inline: BTreeMap::new(),
            inline_cost: 0,
            stopped: VecDeque::new(),
            payload: None,
        }
    }

    /// Returns whether payload of the current frame is still missing.
    pub(crate) fn in_payload(&self) -> bool {
        self.payload.is_some()
    }

    /// Drops what waits to be written: the client takes no more.
    pub(crate) fn discard_output(&mut self) {
        self.output = Output::default();
        self.writable = false;
    }

    /// Returns whether a complete frame was read and not handled.
    pub(crate) fn has_frame(&self) -> bool {
        !self.in_payload() && self.input.has_frame()
    }

    /// Reads once, payload directly to the segment. A short read means that the socket is empty; the poll
    /// reports later bytes.
    ///
    /// # Errors
    ///
    /// Errors of `readv(2)`, including [`io::ErrorKind::WouldBlock`].
    pub(crate) fn receive(&mut self, nowhere: &mut [u8]) -> io::Result<Received> {
        let Some(payload) = &mut self.payload else {
            // Payload can come only against a credit or a grant.
            let careful = self.credits || !self.incoming.is_empty();
            let room = self.input.room(careful);
            let count = span::receive(&self.stream, &[], 0, room)?;
            self.readable = count == room.len() || self.read_closed;
            self.input.fill(count);
            return Ok(match count {
                0 => Received::End,
                _ => Received::Bytes(count),
            });
        };
        let left = payload.len - payload.moved;
        let (count, most) = if payload.grant.is_some() {
            let room = self.input.room(true);
            let count = span::receive(&self.stream, &payload.parts, payload.moved, room)?;
            // A system call takes a limited number of parts.
            let named = payload.parts.len() < span::PARTS_MAX;
            (count, if named { left + room.len() } else { count })
        } else {
            let room = nowhere.len().min(left);
            let nowhere = nowhere.get_mut(..room).unwrap_or_default();
            (span::receive(&self.stream, &[], 0, nowhere)?, room)
        };
        self.readable = count == most || self.read_closed;
        if count == 0 {
            return Ok(Received::End);
        }
        self.input.fill(count.saturating_sub(left));
        Ok(self.advance(count.min(left), count))
    }

    /// Accounts for `moved` bytes of payload among the `bytes` read.
    fn advance(&mut self, moved: usize, bytes: usize) -> Received {
        let Some(payload) = &mut self.payload else {
            return Received::Bytes(bytes);
        };
        payload.moved += moved;
        let (grant, complete) = (payload.grant, payload.moved >= payload.len);
        if complete {
            self.payload = None;
        }
        let Some(grant) = grant else {
            return Received::Bytes(bytes);
        };
        let mut arrived = false;
        if let Some(incoming) = self.incoming.get_mut(&grant) {
            incoming.received += moved as u64;
            arrived = complete && incoming.received >= incoming.total;
        }
        if arrived {
            self.incoming.remove(&grant);
        }
        Received::Payload {
            bytes,
            grant,
            arrived,
        }
    }

    /// Begins a DATA frame. Returns the arrival of a message that needs no further bytes: an empty one.
    ///
    /// # Errors
    ///
    /// Payload without a grant, too much of it, or at a wrong offset.
    // [FWD-21]
    pub(crate) fn data(
        &mut self,
        data: Data,
        len: u64,
        input: &mut Input,
    ) -> Result<Option<Received>, Violation> {
        if self.stopped.contains(&data.grant) {
            self.drop_payload(len, input);
            return Ok(None);
        }
        let incoming = self
            .incoming
            .get_mut(&data.grant)
            .ok_or(Violation::Payload)?;
        if self
            .memory
            .as_ref()
            .is_some_and(|one| one.copies(data.grant))
        {
            return Err(Violation::Payload);
        }
        if data.offset != incoming.received || len > incoming.total - incoming.received {
            return Err(Violation::Payload);
        }
        self.begin(data.grant, len, input)
    }

    /// Begins the payload of a request with a credit. Its grant is that of the engine; without one the
    /// payload is dropped.
    ///
    /// # Errors
    ///
    /// As [`data`](Self::data).
    pub(crate) fn credited(
        &mut self,
        request: u32,
        len: u64,
        input: &mut Input,
    ) -> Result<Option<Received>, Violation> {
        let granted = self.incoming.iter().find(|(_, one)| one.request == request);
        let Some((&grant, _)) = granted else {
            self.drop_payload(len, input);
            return Ok(None);
        };
        self.begin(grant, len, input)
    }

    fn begin(
        &mut self,
        grant: u64,
        len: u64,
        input: &mut Input,
    ) -> Result<Option<Received>, Violation> {
        // Reads stop before payload while there is a grant, so this payload was sent before its grant.
        if len > 0 && !input.is_empty() {
            return Err(Violation::Payload);
        }
        let Some(incoming) = self.incoming.get(&grant) else {
            return Err(Violation::Payload);
        };
        // Both are within the transfer, whose length fits in a usize.
        let parts = window(&incoming.spans, incoming.received as usize, len as usize);
        self.payload = Some(Payload {
            grant: Some(grant),
            parts,
            len: len as usize,
            moved: 0,
        });
        Ok((len == 0).then(|| self.advance(0, 0)))
    }

    /// Drops payload, a part of which may be in the buffer.
    fn drop_payload(&mut self, len: u64, input: &mut Input) {
        // At most a chunk.
        let len = len as usize;
        let moved = input.take(len).len();
        if moved < len {
            self.payload = Some(Payload {
                grant: None,
                parts: Vec::new(),
                len,
                moved,
            });
        }
    }

    /// Stores a short message until its request is answered.
    ///
    /// # Errors
    ///
    /// The client has more of them in flight than the window allows.
    pub(crate) fn keep_inline(&mut self, request: u32, message: &[u8]) -> Result<(), Violation> {
        let cost = self.inline_cost + inline_cost(message.len());
        if cost > INLINE_WINDOW {
            return Err(Violation::Payload);
        }
        self.inline_cost = cost;
        self.inline.insert(request, message.to_vec());
        Ok(())
    }

    /// Returns the message that arrived with a request.
    pub(crate) fn inline_message(&self, request: u32) -> Option<&[u8]> {
        self.inline.get(&request).map(Vec::as_slice)
    }

    /// Records that a request is answered. Returns its kind.
    pub(crate) fn answered(&mut self, request: u32) -> Option<RequestKind> {
        if let Some(message) = self.inline.remove(&request) {
            self.inline_cost -= inline_cost(message.len());
        }
        self.requests.remove(&request)
    }

    /// Records a transfer to the segment that the engine granted.
    pub(crate) fn grant(&mut self, grant: u64, request: u32, spans: Vec<Span>, total: u64) {
        let incoming = Incoming {
            request,
            spans,
            total,
            received: 0,
            in_memory: false,
        };
        self.incoming.insert(grant, incoming);
    }

    /// Returns whether a message of `total` bytes is to be copied from or to the client's memory.
    pub(crate) fn is_copied(&self, total: u64) -> bool {
        self.memory
            .as_ref()
            .is_some_and(|memory| memory.takes(total))
    }

    /// Returns whether there is something to copy.
    pub(crate) fn has_copies(&self) -> bool {
        self.memory.as_ref().is_some_and(Memory::is_busy)
    }

    /// Records whether the client was asked where the message of a grant is in its memory.
    pub(crate) fn ask_places(&mut self, grant: u64, asked: bool) {
        if let Some(incoming) = self.incoming.get_mut(&grant) {
            incoming.in_memory = asked;
        }
    }

    /// Records that the message of a grant has been copied to the segment.
    pub(crate) fn copied(&mut self, grant: u64) {
        self.incoming.remove(&grant);
    }

    /// Records a message to the client, which the client will acknowledge.
    pub(crate) fn deliver(&mut self, grant: u64, request: u32) {
        self.outgoing.insert(grant, request);
    }

    /// Handles the abort of a grant. Returns whether the client had it.
    pub(crate) fn abort(&mut self, grant: u64) -> Result<bool, Violation> {
        if self.stopped.contains(&grant) {
            return Ok(false);
        }
        if self.incoming.remove(&grant).is_none() {
            return Err(Violation::Grant);
        }
        if let Some(memory) = &mut self.memory {
            memory.forget(grant);
        }
        Ok(true)
    }

    /// Handles an acknowledgement. Returns whether the engine waits for it.
    pub(crate) fn acknowledge(&mut self, grant: u64) -> Result<bool, Violation> {
        if self.stopped.contains(&grant) {
            return Ok(false);
        }
        let copies = self.memory.as_ref().is_some_and(|one| one.has(grant));
        if copies || self.output.is_sending(grant) {
            return Err(Violation::Grant);
        }
        let request = self.outgoing.remove(&grant).ok_or(Violation::Grant)?;
        self.answered(request);
        Ok(true)
    }

    /// Stops a transfer: it may no longer touch the segment.
    ///
    /// # Errors
    ///
    /// The connection must be closed.
    pub(crate) fn stop(&mut self, grant: u64) -> io::Result<()> {
        self.incoming.remove(&grant);
        self.outgoing.remove(&grant);
        if let Some(memory) = &mut self.memory {
            memory.forget(grant);
        }
        self.stopped.push_back(grant);
        if self.stopped.len() > STOPPED_MAX {
            self.stopped.pop_front();
        }
        if let Some(payload) = &mut self.payload
            && payload.grant == Some(grant)
        {
            payload.grant = None;
            payload.parts.clear();
        }
        self.output.stop(grant)
    }
}

/// Returns the places of the bytes `start..start + len` of a message.
fn window(spans: &[Span], mut start: usize, mut len: usize) -> Vec<Span> {
    let mut parts = Vec::new();
    for span in spans {
        let skipped = start.min(span.len());
        start -= skipped;
        let end = span.len().min(skipped.saturating_add(len));
        if end > skipped {
            parts.extend(span.part(skipped..end));
            len -= end - skipped;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_window_is_the_same_bytes_whatever_the_pieces(
            lengths in proptest::collection::vec(0_usize..50, 0..8),
            start in 0_usize..200,
            len in 0_usize..200,
        ) {
            let mut all = Vec::new();
            let mut spans = Vec::new();
            for (index, length) in lengths.iter().enumerate() {
                let bytes = vec![u8::try_from(index).unwrap(); *length];
                all.extend(&bytes);
                spans.push(Span::from(bytes));
            }
            let start = start.min(all.len());
            let end = all.len().min(start + len);
            let parts = window(&spans, start, end - start);
            let found: Vec<u8> = parts.iter().flat_map(Span::to_vec).collect();
            prop_assert_eq!(&found, &all[start..end]);
            prop_assert!(parts.iter().all(|part| !part.is_empty()));
        }
    }
}
