//! One call on the wire: its attempts, their match entries, and the bulk memory that goes from one attempt to
//! the next.
//!
//! ```text
//!   client                                                server
//!     │  attach reply ME (bits r1), bulk ME (bits b1)       │
//!     │── PUT request {xid, attempt 1, r1, b1} ───────────▶│ executes
//!     │◀────────────────── GET or PUT pieces at b1 ────────│
//!     ✕  nothing heard: cancel b1, take the memory back     │
//!     │  attach r2, b2; r1 stays                            │
//!     │── PUT request {xid, attempt 2, r2, b2} ───────────▶│ same call: pieces not yet
//!     │◀────────────────── pieces at b2 ───────────────────│ acknowledged go on at b2
//!     │◀────────────────── PUT reply at r2 (or r1) ────────│
//! ```
//!
//! The memory that receives is one vector for the whole call. So the data that an earlier attempt received and
//! acknowledged stays in place, and the server never resends it. A late message finds no match entry if its
//! match bits are detached, and LNet drops it.
//!
//! A router that stops in the middle of a piece does not keep the memory: cancelling the descriptor cuts the
//! piece off. After a request that the server did not acknowledge, the next attempt takes another gateway, if
//! there is one.
//!
//! A call keeps the session that its first attempt named. If a call changed to a session that another thread
//! opened meanwhile, a call that may run only once could run a second time in the server's next life.

use lnet_node::{
    Core, Errno, EventKind, EventQueue, MatchEntry, Md, MdHandle, MdOptions, Memory, NoPath,
    NodeError, NodeEvent, PutRequest, WaitError,
};
use lnet_types::{Nid, ProcessId, Time};
use tracing::debug;

use crate::client::{Bulk, CallError, Request, Response, Session, Shared};
use crate::delivery::Delivery;
use crate::memory::CallMemory;
use crate::proto::{
    self, BULK_PORTAL, BulkKind, MESSAGE_MAX, OPCODE_CONNECT, Outcome, REPLY_PORTAL,
    REQUEST_MATCH_BITS, REQUEST_PORTAL, ReplyHeader, RequestHeader,
};
use crate::retry::{CallState, End, Schedule, Step};

/// The request of a call, with its transaction id and its deadline.
pub(crate) struct Question<'a> {
    pub(crate) request: &'a Request,
    pub(crate) xid: u64,
    pub(crate) deadline: Time,
}

/// A call under way.
pub(crate) struct Exchange<'a> {
    shared: &'a Shared,
    queue: &'a EventQueue,
    question: Question<'a>,
    state: CallState,
    session: Option<Session>,
    memory: CallMemory,
    /// The descriptors whose last event has not come yet.
    attached: Vec<Attached>,
    /// The delivery of the last request.
    delivery: Delivery,
    /// The last answer of the server was that it is busy.
    is_put_off: bool,
    response: Option<(ReplyHeader, Vec<u8>)>,
}

#[derive(Clone, Copy)]
struct Attached {
    md: MdHandle,
    role: Role,
    attempt: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Request,
    Reply,
    Bulk,
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        queue: &'a EventQueue,
        question: Question<'a>,
        schedule: Schedule,
    ) -> Self {
        let now = shared.clock.now();
        let request = question.request;
        queue.hear_of_lost_paths();
        Self {
            state: CallState::new(schedule, request.idempotence, now, question.deadline),
            session: shared.session(),
            shared,
            queue,
            question,
            memory: CallMemory::new(&request.bulk, &shared.spare),
            attached: Vec::new(),
            delivery: Delivery::Unknown,
            is_put_off: false,
            response: None,
        }
    }

    /// Drives the call until it completes. `reconnect` opens a new session.
    pub(crate) fn run(
        mut self,
        reconnect: &mut dyn FnMut() -> Result<(), CallError>,
    ) -> Result<Response, CallError> {
        let ended = self.drive(reconnect);
        self.shared
            .counting
            .retries
            .add(u64::from(self.state.attempts().saturating_sub(1)));
        let result = match ended {
            Ok(End::Replied) => self.take_response(),
            Ok(End::Deadline) if self.is_put_off && self.is_connect() => {
                Err(CallError::Full(self.question.request.deadline))
            }
            Ok(End::Deadline) => {
                let within = self.question.request.deadline;
                let delivery = std::mem::take(&mut self.delivery);
                Err(delivery.no_answer(within, self.no_path(Core::no_answer_from)))
            }
            Ok(End::Restarted) => Err(CallError::ServerRestarted),
            Ok(End::Forgotten) => Err(CallError::Forgotten),
            Ok(End::Refused) => Err(CallError::Refused),
            Err(error) => Err(error),
        };
        // The ACK of an answered request is still on its way, behind the reply, and frees the request's
        // descriptor. An ACK that finds no descriptor would count as a dropped message, so that descriptor
        // stays.
        let answered = result.is_ok();
        self.unlink_where(|attached| !(answered && attached.role == Role::Request));
        // The last events of descriptors free their memory, which the program may then reuse.
        while self.queue.try_next().is_some() {}
        result
    }

    fn drive(
        &mut self,
        reconnect: &mut dyn FnMut() -> Result<(), CallError>,
    ) -> Result<End, CallError> {
        loop {
            let now = self.shared.clock.now();
            match self.state.next(now, self.memory.is_here()) {
                Step::End(end) => return Ok(end),
                Step::Send(attempt) => self.send(attempt)?,
                Step::Reclaim => self.cancel_bulk(),
                Step::Wait(until) => self.wait(until)?,
                Step::Connect => self.change_session(reconnect)?,
            }
        }
    }

    /// Changes from the void session to the session that another thread opened, or opens a new one.
    fn change_session(
        &mut self,
        reconnect: &mut dyn FnMut() -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        self.unlink_where(|_| true);
        let identity = |session: Option<Session>| session.map(|s| (s.incarnation, s.number));
        if identity(self.shared.session()) == identity(self.session) {
            reconnect()?;
        }
        self.session = self.shared.session();
        self.state.reconnected(self.shared.clock.now());
        Ok(())
    }

    /// Waits for the next event, at most until this time.
    fn wait(&mut self, until: Time) -> Result<(), CallError> {
        match self.queue.wait(Some(self.shared.clock.until(until))) {
            Ok(event) => self.handle(event),
            Err(WaitError::Closed) => return Err(NodeError::ShutDown.into()),
            Err(WaitError::TimedOut) => {}
            // The reply may have been on the lost path; the next attempt names another interface for the reply.
            Err(WaitError::PathLost) => self.state.path_lost(self.shared.clock.now()),
        }
        Ok(())
    }

    fn send(&mut self, attempt: u32) -> Result<(), CallError> {
        self.shared.counting.attempts.one();
        self.delivery.begin();
        self.note_silent_gateway();
        let reply_bits = self.shared.bits.draw();
        let bulk_bits = self.shared.bits.draw();
        let reply = Md::sink(vec![0; MESSAGE_MAX])
            .options(MdOptions::OP_PUT)
            .threshold(1);
        self.attach(REPLY_PORTAL, reply_bits, reply, Role::Reply, attempt)?;
        if let Some(memory) = self.memory.lend() {
            let md = match memory {
                Memory::Source(data) => Md::source(data).options(MdOptions::OP_GET),
                Memory::Sink(room) => Md::sink(room).options(MdOptions::OP_PUT),
                Memory::Scrap(room) => Md::scrap(room).options(MdOptions::OP_PUT),
                Memory::Foreign(room) => Md::foreign(room).options(MdOptions::OP_PUT),
            };
            let options = md.options | MdOptions::MANAGE_REMOTE;
            let md = md.options(options);
            self.attach(BULK_PORTAL, bulk_bits, md, Role::Bulk, attempt)?;
        }
        let message = self.message(attempt, reply_bits, bulk_bits);
        let md = self
            .shared
            .node
            .bind(self.queue, Md::source(message).threshold(2))?;
        self.attached.push(Attached {
            md,
            role: Role::Request,
            attempt,
        });
        let put = PutRequest {
            md,
            ack: true,
            source: None,
            target: ProcessId::lustre(self.shared.server),
            portal: REQUEST_PORTAL,
            match_bits: REQUEST_MATCH_BITS,
            offset: 0,
            hdr_data: 0,
        };
        let hints = self.shared.silent.hints(self.shared.clock.now());
        self.shared.node.hinted_put(put, hints)?;
        Ok(())
    }

    /// Notes the gateway of the last request, sent or not, if the server did not acknowledge that request.
    fn note_silent_gateway(&self) {
        let last = self.attached.iter().rev();
        let mut requests = last.filter(|attached| attached.role == Role::Request);
        let request = requests.next();
        if let Some(hop) = request.and_then(|request| self.shared.node.next_hop(request.md)) {
            self.note_silent(hop);
        }
    }

    fn note_silent(&self, hop: Nid) {
        let now = self.shared.clock.now();
        self.shared.silent.note(hop, self.shared.server, now);
    }

    fn attach(
        &mut self,
        portal: u32,
        bits: u64,
        md: Md,
        role: Role,
        attempt: u32,
    ) -> Result<(), CallError> {
        let md = self
            .shared
            .node
            .attach(self.queue, MatchEntry::exact(portal, bits), md)?;
        self.attached.push(Attached { md, role, attempt });
        Ok(())
    }

    fn message(&self, attempt: u32, reply_bits: u64, bulk_bits: u64) -> Vec<u8> {
        let request = self.question.request;
        let (bulk, bulk_len) = match &request.bulk {
            Bulk::None => (BulkKind::None, 0),
            // The client has checked that neither length is above `bulk_max`.
            Bulk::Send(data) => (
                BulkKind::Read,
                u32::try_from(data.len()).unwrap_or(u32::MAX),
            ),
            Bulk::Receive(length) => (BulkKind::Write, *length),
        };
        let header = RequestHeader {
            client: self.shared.id,
            xid: self.question.xid,
            lowest: self.shared.lowest(),
            incarnation: self.session.map_or(0, |session| session.incarnation),
            session: self.session.map_or(0, |session| session.number),
            reply_bits,
            bulk_bits,
            bulk_len,
            bulk,
            attempt,
            opcode: request.opcode,
            deadline: self.shared.by_server_clock(self.question.deadline),
        };
        proto::encode_request(&header, &request.body)
    }

    /// Handles an event of this call's descriptors. Ignores events of earlier calls on the same queue.
    fn handle(&mut self, event: NodeEvent) {
        let Some(at) = self
            .attached
            .iter()
            .position(|attached| attached.md == event.event.md)
        else {
            return;
        };
        let Attached { role, attempt, .. } = self.attached[at];
        if event.event.unlinked {
            self.attached.swap_remove(at);
        }
        match role {
            Role::Request => self.request_event(&event, attempt),
            Role::Reply => self.reply_event(event, attempt),
            Role::Bulk => self.bulk_event(event, attempt),
        }
    }

    fn request_event(&mut self, event: &NodeEvent, attempt: u32) {
        let now = self.shared.clock.now();
        let is_lost = event.event.status.is_err() || event.event.kind == EventKind::Timeout;
        if is_lost && attempt == self.state.attempts() {
            self.note_silent(event.event.sender);
        }
        match (event.event.kind, event.event.status) {
            (EventKind::Send, Err(errno)) => {
                self.failed(attempt, errno);
                self.state.lost(attempt, now);
            }
            (_, Err(_)) | (EventKind::Timeout, _) => self.state.lost(attempt, now),
            (EventKind::Send, Ok(())) if attempt == self.state.attempts() => self.delivery.left(),
            (EventKind::Ack, Ok(())) => self.heard(attempt, now),
            _ => {}
        }
    }

    /// Records that the network could not deliver the request of an attempt.
    fn failed(&mut self, attempt: u32, errno: Errno) {
        if attempt == self.state.attempts() {
            let no_path = self.no_path(Core::no_path_to);
            self.delivery = Delivery::Failed { errno, no_path };
        }
    }

    /// Records that the server acknowledged an attempt, or moved bulk for it.
    fn heard(&mut self, attempt: u32, now: Time) {
        if attempt == self.state.attempts() {
            self.delivery = Delivery::Heard;
        }
        self.state.alive(attempt, now);
    }

    /// Returns the reason why no path leads to the server now; `None` if there is a path.
    fn no_path(&self, why: fn(&Core, Nid) -> Option<NoPath>) -> Option<NoPath> {
        let (node, server) = (&self.shared.node, self.shared.server);
        node.with_engine(|engine, _| why(engine.core(), server))
    }

    fn bulk_event(&mut self, event: NodeEvent, attempt: u32) {
        let has_moved = matches!(event.event.kind, EventKind::Put | EventKind::Get);
        if has_moved && event.event.status.is_ok() {
            self.heard(attempt, self.shared.clock.now());
        }
        if let Some(memory) = event.memory {
            self.memory.came_back(memory);
        }
    }

    fn reply_event(&mut self, event: NodeEvent, attempt: u32) {
        if event.event.kind != EventKind::Put {
            return;
        }
        let Some(memory) = event.memory else { return };
        let length = event.event.mlength as usize;
        let bytes = memory.as_slice().get(..length).unwrap_or_default();
        match proto::decode_reply(bytes) {
            Ok((header, body)) if header.xid == self.question.xid => {
                self.replied(header, body.to_vec(), attempt);
            }
            Ok(_) => self.shared.counting.bad_replies.one(),
            Err(error) => {
                debug!(%error, "an invalid reply");
                self.shared.counting.bad_replies.one();
            }
        }
    }

    fn replied(&mut self, header: ReplyHeader, body: Vec<u8>, attempt: u32) {
        let now = self.shared.clock.now();
        let counting = &self.shared.counting;
        self.shared.note_server_clock(header.clock, now);
        if attempt < self.state.attempts() {
            counting.late_replies.one();
        }
        self.is_put_off = header.outcome == Outcome::Busy;
        if self.is_connect() {
            self.shared.put_off(self.is_put_off);
        }
        match header.outcome {
            Outcome::Busy => counting.busy.one(),
            Outcome::Done => self.shared.renew_session(now),
            Outcome::WrongIncarnation | Outcome::UnknownClient | Outcome::Refused => {}
        }
        if self.state.replied(attempt, header.outcome, now) {
            self.response = Some((header, body));
        }
    }

    fn is_connect(&self) -> bool {
        self.question.request.opcode == OPCODE_CONNECT
    }

    // [DATA-11]
    fn take_response(&mut self) -> Result<Response, CallError> {
        let bad_reply = || CallError::BadReply;
        let (header, body) = self.response.take().ok_or_else(bad_reply)?;
        if header.status != 0 {
            return Err(CallError::Remote {
                errno: header.status,
                body,
            });
        }
        if self.is_connect() {
            let (number, idle) = proto::decode_session(&body).ok_or_else(bad_reply)?;
            let (incarnation, renewed) = (header.incarnation, self.shared.clock.now());
            self.shared.set_session(Session {
                incarnation,
                number,
                idle,
                renewed,
            });
        }
        let received = self.memory.received(header.bulk_len as usize);
        let bulk = received.ok_or_else(bad_reply)?;
        Ok(Response { body, bulk })
    }

    /// Takes the bulk memory back, even if a piece is arriving in it.
    fn cancel_bulk(&self) {
        let bulk = |attached: &&Attached| attached.role == Role::Bulk;
        for attached in self.attached.iter().filter(bulk) {
            // The node rejects this if the descriptor is gone already; its last event comes by itself.
            let _going = self.shared.node.cancel(attached.md);
        }
    }

    fn unlink_where(&self, which: impl Fn(&Attached) -> bool) {
        for attached in self.attached.iter().filter(|attached| which(attached)) {
            // The node rejects this if the descriptor is gone already; its last event comes by itself.
            let _going = self.shared.node.unlink(attached.md);
        }
    }
}
