//! One run of one check over RDMA: its connections, its memory, its deadline.

use std::collections::BTreeMap;
use std::time::Duration;

use lnet_o2ib::{ConnId, ConnectFailure, DeviceError, Event, MappingId, Write};
use lnet_types::{Nid, ProcessId};
use lnet_verbs::{Landing, Payload};
use lnet_wire::o2ib::{
    Body, Envelope, MESSAGE_MAX, Message, Parameters, Rejection, RejectionReason,
};
use lnet_wire::{Handle, Header, PING_MATCH_BITS};
use sys::span::Span;

use super::O2ibNode;
use super::link::{Answer, End, Link};
use crate::exchange::{Exchange, Transcript, Way};
use crate::probe::{SINK_MAX, Stop, get, put};

/// The most attempts to connect: a node may reject a request because it knows another incarnation of the checker, or
/// dials the checker at that moment, for which it does so 20 times.
const ATTEMPTS: usize = 22;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// The deepest queue that a node accepts.
const DEPTH_MAX: u16 = 254;

/// How long a check waits for the ends of its own connections.
const CLOSING: Duration = Duration::from_secs(5);

/// The longest wait between two looks at the clock.
const LOOK: Duration = Duration::from_millis(50);

/// Messages that are kept until the check looks at them. A node has fewer credits.
const INBOX_MAX: usize = 4096;

/// One run of one check.
pub(crate) struct Probe<'a> {
    pub(super) node: &'a mut O2ibNode,
    deadline: Duration,
    transcript: Transcript,
    links: BTreeMap<ConnId, Link>,
    connections: usize,
    handles: u64,
    mappings: Vec<MappingId>,
}

/// A message that arrived.
pub(super) struct Heard(Vec<u8>);

impl Heard {
    pub(super) fn message(&self) -> Result<Message<'_>, Stop> {
        Message::decode(&self.0)
            .map_err(|error| Stop::failed(format!("a message of the node: {error}")))
    }
}

impl<'a> Probe<'a> {
    pub(super) fn new(node: &'a mut O2ibNode) -> Self {
        let deadline = node.dialler.now() + node.subject.timeout;
        Self {
            node,
            deadline,
            transcript: Transcript::default(),
            links: BTreeMap::new(),
            connections: 0,
            handles: 0,
            mappings: Vec::new(),
        }
    }

    pub(super) fn observed(&self) -> Vec<Exchange> {
        self.transcript.take()
    }

    /// The NID that is checked.
    pub(super) const fn nid(&self) -> Nid {
        self.node.subject.nid
    }

    /// The timeout of the check.
    pub(super) const fn timeout(&self) -> Duration {
        self.node.subject.timeout
    }

    pub(super) fn now(&self) -> Duration {
        self.node.dialler.now()
    }

    /// The fields of a message to the node; `known` is the node's incarnation, or 0.
    pub(super) const fn envelope(&self, known: u64) -> Envelope {
        Envelope {
            credits: 0,
            source: self.node.me,
            source_incarnation: self.node.incarnation,
            destination: self.nid(),
            destination_incarnation: known,
        }
    }

    /// The request that the node must accept.
    pub(super) const fn request(&self) -> Message<'static> {
        Message {
            envelope: self.envelope(0),
            body: Body::Connreq(self.node.parameters),
        }
    }

    /// Dials with a request, and returns the answer. Dials again if the node dials the checker at that moment.
    pub(super) fn dial(&mut self, request: &Message<'_>) -> Result<(ConnId, Answer), Stop> {
        let depth = match &request.body {
            Body::Connreq(asked) if asked.queue_depth <= DEPTH_MAX => asked.queue_depth,
            _ => self.node.parameters.queue_depth,
        };
        self.dial_with(&encode(request)?, depth)
    }

    /// Dials with this private data, for a queue of this depth, and returns the answer. Dials again as [`Self::dial`] does.
    // [IB-17]
    pub(super) fn dial_with(
        &mut self,
        request: &[u8],
        depth: u16,
    ) -> Result<(ConnId, Answer), Stop> {
        let mut attempts = 1;
        loop {
            let (conn, answer) = self.dial_once(request.to_vec(), depth)?;
            let again = match &answer {
                Answer::Rejected(data) => Rejection::decode(data)
                    .is_ok_and(|rejection| rejection.reason == RejectionReason::ConnRace),
                // The connection manager at the other end still knows an older connection.
                Answer::Failed(failure) => *failure == ConnectFailure::Stale,
                Answer::Accepted(_) => false,
            };
            if !again || attempts == ATTEMPTS {
                return Ok((conn, answer));
            }
            attempts += 1;
            self.pass(PAUSE)?;
        }
    }

    fn dial_once(&mut self, request: Vec<u8>, depth: u16) -> Result<(ConnId, Answer), Stop> {
        self.node.dialled += 1;
        let conn = ConnId(self.node.dialled);
        let link = Link::new(self.connections, request, depth);
        self.connections += 1;
        self.links.insert(conn, link);
        let (from, to) = (self.node.from, self.node.to);
        let device = self.node.dialler.device();
        if let Err(error) = device.resolve(conn, from, to) {
            self.links.remove(&conn);
            return Err(local(&error));
        }
        loop {
            if let Some(answer) = self.link(conn)?.answer.clone() {
                if let Answer::Accepted(data) = &answer
                    && let Ok(Message {
                        envelope,
                        body: Body::Connack(parameters),
                    }) = Message::decode(data)
                {
                    self.link(conn)?
                        .agree(envelope.source_incarnation, parameters.queue_depth);
                }
                return Ok((conn, answer));
            }
            self.turn_or("the connection request has no answer")?;
        }
    }

    /// A connection that both ends use.
    pub(super) fn open(&mut self) -> Result<ConnId, Stop> {
        let (conn, _) = self.connect()?;
        self.ping(conn)?;
        Ok(conn)
    }

    /// A connection, and the private data of its CONNACK. The node may not know yet that it is established.
    // [IB-17]
    pub(super) fn connect(&mut self) -> Result<(ConnId, Vec<u8>), Stop> {
        for _ in 0..ATTEMPTS {
            let rejection = match self.dial(&self.request())? {
                (conn, Answer::Accepted(data)) => return Ok((conn, data)),
                (_, Answer::Failed(failure)) => return Err(Stop::failed(failure.to_string())),
                (_, Answer::Rejected(data)) => decode_rejection(&data)?,
            };
            let offered = rejection.parameters;
            let mine = &mut self.node.parameters;
            match rejection.reason {
                RejectionReason::ConnStale => {}
                RejectionReason::MsgQueueSize
                    if (1..mine.queue_depth).contains(&offered.queue_depth) =>
                {
                    mine.queue_depth = offered.queue_depth;
                }
                RejectionReason::RdmaFrags if (1..mine.fragments).contains(&offered.fragments) => {
                    mine.fragments = offered.fragments;
                }
                reason => {
                    let why = format!("the node rejected a good request: {}", reason.meaning());
                    return Err(Stop::failed(why));
                }
            }
        }
        Err(Stop::failed(
            "the node rejects every request with CONN_STALE",
        ))
    }

    /// Dials with a request that the node must accept.
    pub(super) fn accepted(&mut self, request: &Message<'_>) -> Result<(ConnId, Vec<u8>), Stop> {
        match self.dial(request)? {
            (conn, Answer::Accepted(data)) => Ok((conn, data)),
            (_, Answer::Failed(failure)) => Err(Stop::failed(failure.to_string())),
            (_, Answer::Rejected(data)) => {
                let reason = decode_rejection(&data)?.reason;
                Err(Stop::failed(format!(
                    "the node rejects the request: {reason:?}"
                )))
            }
        }
    }

    /// Dials with a request that the node must reject, and returns the rejection.
    pub(super) fn rejection(&mut self, request: &Message<'_>) -> Result<Rejection, Stop> {
        let answer = self.dial(request)?.1;
        rejection_in(answer)
    }

    /// Dials with private data that the node must reject, and returns the rejection.
    pub(super) fn rejection_of(&mut self, request: &[u8]) -> Result<Rejection, Stop> {
        let answer = self.dial_with(request, self.node.parameters.queue_depth)?.1;
        rejection_in(answer)
    }

    pub(super) fn link(&mut self, conn: ConnId) -> Result<&mut Link, Stop> {
        let link = self.links.get_mut(&conn);
        link.ok_or_else(|| Stop::failed("the connection is gone"))
    }

    /// Sends a message with the credits that are due. A message that takes a credit waits for one.
    pub(super) fn send(&mut self, conn: ConnId, body: Body<'_>) -> Result<(), Stop> {
        self.send_after(conn, &[], body)
    }

    /// Writes, and sends a message behind the writes.
    pub(super) fn send_after(
        &mut self,
        conn: ConnId,
        writes: &[Write],
        body: Body<'_>,
    ) -> Result<(), Stop> {
        if body.kind().takes_credit() {
            while self.link(conn)?.credits == 0 {
                self.ensure_open(conn)?;
                self.turn_or("the node gives no credits back")?;
            }
            self.link(conn)?.credits -= 1;
        }
        let link = self.link(conn)?;
        let (credits, known) = (link.give_back(), link.incarnation);
        let envelope = Envelope {
            credits,
            ..self.envelope(known)
        };
        let bytes = encode(&Message { envelope, body })?;
        self.post(conn, writes, &bytes)
    }

    /// Posts these bytes as a message.
    pub(super) fn post(
        &mut self,
        conn: ConnId,
        writes: &[Write],
        bytes: &[u8],
    ) -> Result<(), Stop> {
        while self.link(conn)?.posted >= self.link(conn)?.shape.messages {
            self.ensure_open(conn)?;
            self.turn_or("what was sent does not complete")?;
        }
        let link = self.link(conn)?;
        let (number, ticket) = (link.number, link.next_ticket);
        link.next_ticket += 1;
        link.posted += 1;
        self.transcript.add_message(number, Way::Sent, bytes);
        let device = self.node.dialler.device();
        if let Err(error) = device.post_send(conn, writes, bytes, ticket) {
            // Who waits for an answer, or for the end, learns it.
            self.link(conn)?
                .end
                .get_or_insert(End::Broken(error.to_string()));
        }
        Ok(())
    }

    /// The next message.
    pub(super) fn next(&mut self, conn: ConnId) -> Result<Heard, Stop> {
        loop {
            if let Some(bytes) = self.link(conn)?.inbox.pop_front() {
                return Ok(Heard(bytes));
            }
            self.ensure_open(conn)?;
            self.turn()?;
        }
    }

    fn ensure_open(&mut self, conn: ConnId) -> Result<(), Stop> {
        match &self.link(conn)?.end {
            None => Ok(()),
            Some(End::ByNode) => Err(Stop::failed("the node closed the connection")),
            Some(End::Broken(why)) => Err(Stop::failed(format!("the connection broke: {why}"))),
        }
    }

    /// Waits until the node has closed the connection, and checks that it serves another one.
    pub(super) fn closes(&mut self, conn: ConnId) -> Result<(), Stop> {
        while self.link(conn)?.end != Some(End::ByNode) {
            self.turn_or("the node keeps the connection")?;
        }
        self.open().map(drop)
    }

    /// A handle that no other message of the check has.
    pub(super) const fn handle(&mut self) -> Handle {
        self.handles += 1;
        Handle {
            interface: self.node.incarnation,
            object: self.handles << 8 | 1,
        }
    }

    /// The header of a message from the checker to the node.
    pub(super) const fn header(&self, payload_length: u32, body: lnet_wire::Body) -> Header {
        Header {
            dest_nid: self.node.subject.nid,
            src_nid: self.node.me,
            dest_pid: ProcessId::LUSTRE_PID,
            src_pid: ProcessId::LUSTRE_PID,
            payload_length,
            body,
        }
    }

    /// The header of a GET with room for `sink` bytes, and its handle.
    pub(super) const fn header_of_get(&mut self, match_bits: u64, sink: u32) -> (Header, Handle) {
        let handle = self.handle();
        (self.header(0, get(match_bits, handle, sink)), handle)
    }

    /// The header of a PUT of `length` bytes.
    pub(super) const fn put_header(&self, portal: u32, ack_wmd: Handle, length: u32) -> Header {
        self.header(length, put(portal, ack_wmd))
    }

    /// Sends a ping, and returns the handle of its reply.
    pub(super) fn send_ping(&mut self, conn: ConnId) -> Result<Handle, Stop> {
        let (header, handle) = self.header_of_get(PING_MATCH_BITS, SINK_MAX);
        self.send(
            conn,
            Body::Immediate {
                header,
                payload: &[],
            },
        )?;
        Ok(handle)
    }

    /// The payload of the REPLY with this handle. A node sends on every connection of a peer in turn.
    pub(super) fn reply(&mut self, conn: ConnId, handle: Handle) -> Result<Vec<u8>, Stop> {
        loop {
            let heard = self
                .links
                .values_mut()
                .find_map(|link| link.inbox.pop_front());
            let Some(heard) = heard.map(Heard) else {
                self.ensure_open(conn)?;
                self.turn()?;
                continue;
            };
            if let Body::Immediate { header, payload } = heard.message()?.body
                && let lnet_wire::Body::Reply(reply) = header.body
                && reply.dst_wmd == handle
            {
                return Ok(payload.to_vec());
            }
        }
    }

    /// Pings, and returns the payload of the reply.
    pub(super) fn ping(&mut self, conn: ConnId) -> Result<Vec<u8>, Stop> {
        let handle = self.send_ping(conn)?;
        self.reply(conn, handle)
    }

    /// Memory that the node may write to, with its key and address.
    pub(super) fn sink(&mut self, conn: ConnId, bytes: &[u8]) -> Result<(Span, u32, u64), Stop> {
        let memory = Span::from(bytes.to_vec());
        let device = self.node.dialler.device();
        let mapped = device
            .map_sink(conn, &Landing(memory.clone()))
            .map_err(|error| local(&error))?;
        self.mappings.push(mapped.id);
        let address = mapped
            .fragments
            .first()
            .map_or(0, |fragment| fragment.address);
        Ok((memory, mapped.rkey, address))
    }

    /// Memory that is written to the node.
    pub(super) fn source(&mut self, conn: ConnId, bytes: Vec<u8>) -> Result<MappingId, Stop> {
        let memory = Payload::Span(Span::from(bytes));
        let device = self.node.dialler.device();
        let mapped = device
            .map_source(conn, &memory)
            .map_err(|error| local(&error))?;
        self.mappings.push(mapped.id);
        Ok(mapped.id)
    }

    /// Lets a time pass.
    pub(super) fn pass(&mut self, time: Duration) -> Result<(), Stop> {
        let until = self.now() + time;
        while self.now() < until {
            self.turn()?;
        }
        Ok(())
    }

    fn turn_or(&mut self, why: &str) -> Result<(), Stop> {
        if self.now() >= self.deadline {
            return Err(Stop::failed(why));
        }
        self.turn()
    }

    /// Takes what has happened, or waits for it.
    pub(super) fn turn(&mut self) -> Result<(), Stop> {
        if self.now() >= self.deadline {
            return Err(Stop::failed("nothing came within the timeout"));
        }
        let dialler = &mut self.node.dialler;
        if !dialler.device().poll().map_err(|error| local(&error))? {
            dialler.wait(LOOK).map_err(|error| local(&error))?;
        }
        while let Some(event) = self.node.dialler.device().next_event() {
            self.take(event)?;
        }
        self.give_back()
    }

    /// Gives credits back of which half of a queue has come together, as a node does.
    // [IB-24]
    fn give_back(&mut self) -> Result<(), Stop> {
        let due = self.links.iter().filter(|(_, link)| link.must_give_back());
        let due: Vec<ConnId> = due.map(|(&conn, _)| conn).collect();
        for conn in due {
            self.send(conn, Body::Noop)?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), Stop> {
        let device = self.node.dialler.device();
        match event {
            Event::Resolved(conn) => {
                if let Some(link) = self.links.get_mut(&conn) {
                    self.transcript
                        .add_message(link.number, Way::Sent, &link.request);
                    let connecting = device.connect(conn, link.shape, &link.request);
                    if let Err(error) = connecting {
                        self.links.remove(&conn);
                        return Err(local(&error));
                    }
                }
            }
            Event::Established(conn, data) => self.answered(conn, Answer::Accepted(data)),
            Event::Failed(conn, ConnectFailure::Rejected, data) => {
                self.answered(conn, Answer::Rejected(data));
            }
            Event::Failed(conn, failure, _) => self.answered(conn, Answer::Failed(failure)),
            // The checker offers no service.
            Event::Requested(request, ..) => device.reject(request, &[]),
            Event::Received(conn, buffer, bytes) => {
                let posted = device.post_receive(conn, buffer);
                if let Some(link) = self.links.get_mut(&conn) {
                    self.transcript
                        .add_message(link.number, Way::Received, &bytes);
                    link.arrived(bytes);
                    if let Err(error) = posted {
                        link.end.get_or_insert(End::Broken(error.to_string()));
                    }
                    if link.inbox.len() > INBOX_MAX {
                        return Err(Stop::failed("the node sends without end"));
                    }
                }
            }
            Event::Sent(conn, _, result) => {
                if let Some(link) = self.links.get_mut(&conn) {
                    link.posted = link.posted.saturating_sub(1);
                    if let Err(error) = result {
                        link.end.get_or_insert(End::Broken(format!("{error:?}")));
                    }
                }
            }
            Event::Disconnected(conn) => {
                if let Some(link) = self.links.get_mut(&conn) {
                    self.transcript.add_message(link.number, Way::Closed, &[]);
                    link.end = Some(End::ByNode);
                }
            }
            Event::Drained(conn) => {
                self.links.remove(&conn);
            }
            Event::Port(..) | Event::Moved(_) => {}
        }
        Ok(())
    }

    fn answered(&mut self, conn: ConnId, answer: Answer) {
        let Some(link) = self.links.get_mut(&conn) else {
            return;
        };
        if let Answer::Accepted(data) | Answer::Rejected(data) = &answer {
            self.transcript
                .add_message(link.number, Way::Received, data);
        }
        link.answer = Some(answer);
    }

    /// Closes every connection, and takes back the memory.
    pub(super) fn close_all(&mut self) {
        self.links
            .retain(|_, link| matches!(link.answer, None | Some(Answer::Accepted(_))));
        for (&conn, link) in &mut self.links {
            link.withholds = true;
            self.node.dialler.device().disconnect(conn);
        }
        self.deadline = self.now() + CLOSING;
        while !self.links.is_empty() && self.turn().is_ok() {}
        // Until the node has heard of it, it may choose one of these connections for what it sends.
        let _passed = self.pass(PAUSE);
        // [IB-31]
        if self.links.is_empty() {
            for mapping in self.mappings.drain(..) {
                self.node.dialler.device().unmap(mapping);
            }
        }
    }
}

/// The bytes of a message.
pub(super) fn encode(message: &Message<'_>) -> Result<Vec<u8>, Stop> {
    let mut bytes = vec![0; MESSAGE_MAX];
    let length = message.encode(&mut bytes);
    bytes.truncate(length.map_err(|error| Stop::failed(error.to_string()))?);
    Ok(bytes)
}

/// A request for other parameters.
pub(super) const fn with(request: &Message<'static>, parameters: Parameters) -> Message<'static> {
    Message {
        envelope: request.envelope,
        body: Body::Connreq(parameters),
    }
}

fn decode_rejection(data: &[u8]) -> Result<Rejection, Stop> {
    if data.is_empty() {
        return Err(Stop::failed(ConnectFailure::Rejected.to_string()));
    }
    Rejection::decode(data).map_err(|error| Stop::failed(format!("the node's rejection: {error}")))
}

fn rejection_in(answer: Answer) -> Result<Rejection, Stop> {
    match answer {
        Answer::Accepted(_) => Err(Stop::failed("the node accepted the request")),
        Answer::Failed(failure) => Err(Stop::failed(failure.to_string())),
        Answer::Rejected(data) => decode_rejection(&data),
    }
}

fn local(error: &DeviceError) -> Stop {
    Stop::Local(format!("the RDMA device: {error}"))
}
