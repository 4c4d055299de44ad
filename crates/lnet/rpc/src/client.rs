//! The client: calls that block until they complete, from any number of threads at once.
//!
//! The thread that makes a call also drives it. For the time of the call, the thread waits on an event queue of
//! its own, so that nothing is handed from thread to thread. [`CallState`](crate::retry::CallState) decides
//! what to do next; `exchange` does it on the node.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use lnet_node::{EventQueue, NoPath, Node, NodeError};
use lnet_types::{Nid, Time};
use thiserror::Error;

use crate::buffers::Buffers;
use crate::clock::Clock;
use crate::counters::{ClientCounters, ClientCounting};
use crate::deadline::ClockReading;
use crate::entropy::{Entropy, MatchBits};
use crate::exchange::{Exchange, Question};
use crate::proto::{ClientId, OPCODE_CONNECT, OPCODE_GOODBYE, REQUEST_BODY_MAX, RESERVED_OPCODES};
use crate::retry::{Idempotence, Schedule};
use crate::silent::SilentGateway;

/// Options of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// An attempt expires if the client receives nothing of it for this long: no acknowledgement, no piece of
    /// bulk, no reply.
    pub attempt_timeout: Duration,
    /// Pause before the second attempt; doubles with every further attempt.
    pub backoff: Duration,
    /// Longest pause between attempts.
    pub backoff_max: Duration,
    /// The limit of calls under way at once; further calls wait.
    pub in_flight_max: usize,
    /// The limit of bulk of one call, in bytes.
    pub bulk_max: u32,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            attempt_timeout: Duration::from_secs(5),
            backoff: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
            in_flight_max: 64,
            bulk_max: 64 << 20,
        }
    }
}

/// The bulk of a call: data beside the body that the server moves.
#[derive(Clone, Debug, Default)]
pub enum Bulk {
    /// No bulk.
    #[default]
    None,
    /// Bytes that the server may fetch.
    Send(Bytes),
    /// The server may send up to this many bytes.
    Receive(u32),
}

/// A call that a program asks for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The operation that is asked for; below [`RESERVED_OPCODES`].
    pub opcode: u32,
    /// The body, at most [`REQUEST_BODY_MAX`] bytes.
    pub body: Vec<u8>,
    /// The bulk of the call.
    pub bulk: Bulk,
    /// Whether the client may repeat the call after a restart of the server.
    pub idempotence: Idempotence,
    /// The time after which the call completes at the latest, with or without a reply.
    pub deadline: Duration,
}

/// The answer of the server's handler, with status 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The reply's body.
    pub body: Vec<u8>,
    /// The bulk that was received, with [`Bulk::Receive`]: as many bytes as the server sent. Otherwise empty.
    pub bulk: Vec<u8>,
}

/// Why a call has no response.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The handler failed. The call was executed exactly once.
    #[error("the server answered errno {errno}")]
    Remote {
        /// The errno that the handler returned.
        errno: i32,
        /// The reply's body.
        body: Vec<u8>,
    },
    /// The deadline passed. Whether the call was executed is not known.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// The deadline passed, and the server had no room for one more client: this client never got a session, and no
    /// call was executed.
    #[error("the server is full: no room for a further client within {0:?}")]
    Full(Duration),
    /// The deadline passed, and the last request did not leave the node although a path leads to the server: there
    /// was no connection.
    #[error("no answer within {within:?}: the last request was not delivered: {}", std::io::Error::from_raw_os_error(*.errno))]
    Undelivered {
        /// The time limit of the call.
        within: Duration,
        /// The errno with which the last request failed.
        errno: i32,
    },
    /// The deadline passed, and no interface and no live route leads to the server, its gateways do not answer, or
    /// there was no path when the last request was due. The last request may have left before its route went down. If
    /// the server was heard since, the error is [`CallError::Deadline`].
    #[error("no answer within {within:?}: {why}")]
    NoPath {
        /// The time limit of the call.
        within: Duration,
        /// The gateways that there are, and what is wrong with each.
        why: NoPath,
    },
    /// The server restarted and the call may not be repeated. Whether it was executed is not known.
    #[error("the server restarted during the call, and this call must not be retried")]
    ServerRestarted,
    /// The server forgot this client, which was silent too long, and the call may not be repeated.
    #[error(
        "the server removed the state of this client during the call, and this call must not be retried"
    )]
    Forgotten,
    /// The server does not execute such a call: it has too much bulk.
    #[error("the server rejects calls of this kind or size")]
    Refused,
    /// The body is too long, the bulk is too long, or the opcode is reserved.
    #[error("the request is malformed: {0}")]
    BadRequest(&'static str),
    /// This client does not understand the server's answer.
    #[error("the server's answer is invalid: it uses another version of the protocol")]
    BadReply,
    /// This client was closed.
    #[error("the client is closed")]
    Closed,
    /// The local node failed.
    #[error("the local node: {0}")]
    Node(#[from] NodeError),
}

/// A client of one server. Clones are handles to the same client.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// The limit of calls that began since the oldest call under way. The server keeps a record of each of them
/// until the oldest call has completed.
const SPAN_MAX: u64 = 8192;

/// The limit of buffers that are kept for later calls: fresh pages cost as much as a copy.
const SPARE_MAX: usize = 8;

/// The divisor of the time for which the server promised to keep a silent session. The client relies on the
/// session for half of that time after the last reply, so that a slow request still arrives before the server
/// forgets the client.
const SESSION_SHARE: u32 = 2;

pub(crate) struct Shared {
    pub(crate) node: Node,
    pub(crate) server: Nid,
    pub(crate) options: ClientOptions,
    pub(crate) id: ClientId,
    pub(crate) bits: MatchBits,
    pub(crate) clock: Clock,
    pub(crate) counting: ClientCounting,
    pub(crate) silent: SilentGateway,
    pub(crate) spare: Buffers,
    /// The server had no room for this client when it was last asked for a session.
    is_put_off: AtomicBool,
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    under_way: BTreeSet<u64>,
    next_xid: u64,
    session: Option<Session>,
    server_clock: Option<ClockReading>,
    queues: Vec<EventQueue>,
    closed: bool,
}

/// What the server answered when the session was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    pub(crate) incarnation: u64,
    pub(crate) number: u64,
    /// The server keeps the session at least this long after it last received a request of this client.
    pub(crate) idle: Duration,
    pub(crate) renewed: Time,
}

impl Client {
    /// Makes a client on `node` of the server at `server`. Sends nothing before the first call.
    #[must_use]
    pub fn new(node: Node, server: Nid, entropy: Entropy, options: ClientOptions) -> Self {
        let state = State {
            under_way: BTreeSet::new(),
            next_xid: 1,
            session: None,
            server_clock: None,
            queues: Vec::new(),
            closed: false,
        };
        let shared = Shared {
            node,
            server,
            options,
            id: ClientId(entropy.bytes("client id")),
            bits: MatchBits::new(entropy),
            clock: Clock::start(),
            counting: ClientCounting::default(),
            silent: SilentGateway::default(),
            spare: Buffers::new(SPARE_MAX),
            is_put_off: AtomicBool::new(false),
            state: Mutex::new(state),
            ended: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Calls the server and waits until the call completes.
    ///
    /// # Errors
    ///
    /// See [`CallError`]. In every case the call is over when this function returns, and the function returns
    /// by the deadline of the request.
    pub fn call(&self, request: Request) -> Result<Response, CallError> {
        let shared = &self.shared;
        check(&request, &shared.options)?;
        let deadline = shared.clock.now() + request.deadline;
        shared.counting.calls.one();
        let result = self.run(&request, deadline);
        if !matches!(result, Ok(_) | Err(CallError::Remote { .. })) {
            shared.counting.failed.one();
        }
        result
    }

    /// Returns a buffer of an earlier call for the data of a new one; its length and its contents are arbitrary.
    #[must_use]
    pub fn spare_memory(&self) -> Vec<u8> {
        self.shared.spare.any()
    }

    /// Keeps a buffer that a call received, for later calls.
    pub fn reuse(&self, received: Vec<u8>) {
        if !received.is_empty() {
            self.shared.spare.keep(received);
        }
    }

    /// Keeps a buffer that a call sent, unless these bytes are still in use.
    pub fn reuse_sent(&self, sent: Bytes) {
        self.shared.spare.keep_shared(sent);
    }

    /// Returns the id by which the server knows this client.
    #[must_use]
    pub fn id(&self) -> ClientId {
        self.shared.id
    }

    /// Returns the NID of the server.
    #[must_use]
    pub fn server(&self) -> Nid {
        self.shared.server
    }

    /// Returns whether the server had no room for this client when the client last asked for a session.
    #[must_use]
    pub fn is_put_off(&self) -> bool {
        self.shared.is_put_off.load(Ordering::Relaxed)
    }

    /// Returns what this client has counted so far.
    #[must_use]
    pub fn counters(&self) -> ClientCounters {
        self.shared.counting.snapshot()
    }

    /// Rejects further calls, and tells the server that this client leaves, so that the server can free its
    /// record at once. Waits at most `grace` for the server's answer. Calls under way go on, but the server
    /// drops their results.
    pub fn close(&self, grace: Duration) {
        let has_session = {
            let mut state = self.shared.state();
            !std::mem::replace(&mut state.closed, true) && state.session.is_some()
        };
        if has_session {
            let deadline = self.shared.clock.now() + grace;
            let goodbye = own_request(OPCODE_GOODBYE, grace);
            let ticket = self.shared.ticket_now();
            // A failure does not matter: the server forgets silent clients anyway.
            let _ended = self.exchange(&goodbye, deadline, &ticket);
        }
    }

    fn run(&self, request: &Request, deadline: Time) -> Result<Response, CallError> {
        let ticket = self.shared.ticket(deadline, request.deadline)?;
        if !self.shared.session_is_good() {
            self.connect(deadline, request.deadline)?;
        }
        self.exchange(request, deadline, &ticket)
    }

    fn exchange(
        &self,
        request: &Request,
        deadline: Time,
        ticket: &Ticket<'_>,
    ) -> Result<Response, CallError> {
        let question = Question {
            request,
            xid: ticket.xid,
            deadline,
        };
        let schedule = self.shared.schedule(ticket.xid);
        let mut reconnect = || self.connect(deadline, request.deadline);
        Exchange::new(&self.shared, &ticket.queue, question, schedule).run(&mut reconnect)
    }

    /// Opens or renews a session by a call with a transaction id of its own.
    fn connect(&self, deadline: Time, span: Duration) -> Result<(), CallError> {
        let ticket = self.shared.ticket_now();
        let request = own_request(OPCODE_CONNECT, span);
        let question = Question {
            request: &request,
            xid: ticket.xid,
            deadline,
        };
        let schedule = self.shared.schedule(ticket.xid);
        let mut never = || Err(CallError::ServerRestarted);
        let exchange = Exchange::new(&self.shared, &ticket.queue, question, schedule);
        exchange
            .run(&mut never)
            .map(|_| self.shared.counting.sessions.one())
    }
}

impl Shared {
    /// Returns the lowest xid that the server must remember.
    pub(crate) fn lowest(&self) -> u64 {
        let state = self.state();
        state.under_way.first().copied().unwrap_or(state.next_xid)
    }

    /// Notes whether the server had room for this client.
    pub(crate) fn put_off(&self, is_put_off: bool) {
        self.is_put_off.store(is_put_off, Ordering::Relaxed);
    }

    pub(crate) fn session(&self) -> Option<Session> {
        self.state().session
    }

    pub(crate) fn set_session(&self, session: Session) {
        self.state().session = Some(session);
    }

    /// Notes the server's clock as a reply reported it.
    pub(crate) fn note_server_clock(&self, clock: u64, now: Time) {
        let known = &mut self.state().server_clock;
        let newer = ClockReading::new(clock, now);
        *known = Some(known.map_or(newer, |known| known.or_newer(newer)));
    }

    /// Converts a time of this client to the earliest time that the server's clock can show then; 0 if no reply
    /// has reported that clock yet.
    pub(crate) fn by_server_clock(&self, time: Time) -> u64 {
        self.state().server_clock.map_or(0, |known| known.at(time))
    }

    /// Notes that the server answered now: from now on the server remembers this client for as long as it
    /// promised.
    pub(crate) fn renew_session(&self, now: Time) {
        if let Some(session) = &mut self.state().session {
            session.renewed = now;
        }
    }

    fn session_is_good(&self) -> bool {
        let now = self.clock.now();
        self.session().is_some_and(|session| {
            now.saturating_since(session.renewed) < session.idle / SESSION_SHARE
        })
    }

    fn schedule(&self, xid: u64) -> Schedule {
        let [a, b, c, d, ..] = self.id.0;
        Schedule {
            attempt: self.options.attempt_timeout,
            backoff: self.options.backoff,
            backoff_max: self.options.backoff_max,
            seed: xid ^ u64::from(u32::from_le_bytes([a, b, c, d])) << 32,
        }
    }

    /// Waits until one more call may be under way.
    fn ticket(&self, deadline: Time, span: Duration) -> Result<Ticket<'_>, CallError> {
        let mut state = self.state();
        loop {
            if state.closed {
                return Err(CallError::Closed);
            }
            if state.has_room(self.options.in_flight_max) {
                drop(state);
                return Ok(self.ticket_now());
            }
            let left = self.clock.until(deadline);
            if left.is_zero() {
                return Err(CallError::Deadline(span));
            }
            let waited = self.ended.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn ticket_now(&self) -> Ticket<'_> {
        let mut state = self.state();
        let xid = state.take_xid();
        let pooled = state.queues.pop();
        drop(state);
        let queue = pooled.unwrap_or_else(|| self.node.event_queue());
        Ticket {
            shared: self,
            xid,
            queue,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&self, in_flight_max: usize) -> bool {
        let oldest = self.under_way.first().copied().unwrap_or(self.next_xid);
        self.under_way.len() < in_flight_max && self.next_xid - oldest < SPAN_MAX
    }

    fn take_xid(&mut self) -> u64 {
        let xid = self.next_xid;
        self.next_xid += 1;
        self.under_way.insert(xid);
        xid
    }
}

/// The right to have a call under way; released on drop.
struct Ticket<'a> {
    shared: &'a Shared,
    xid: u64,
    /// The queue of this call while the call lasts, later of another call. A node never frees a queue, so the
    /// queues are reused.
    queue: EventQueue,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.under_way.remove(&self.xid);
        state.queues.push(self.queue.clone());
        drop(state);
        self.shared.ended.notify_all();
    }
}

fn own_request(opcode: u32, deadline: Duration) -> Request {
    let (body, bulk) = (Vec::new(), Bulk::None);
    Request {
        opcode,
        body,
        bulk,
        idempotence: Idempotence::Once,
        deadline,
    }
}

fn check(request: &Request, options: &ClientOptions) -> Result<(), CallError> {
    let bulk_len = match &request.bulk {
        Bulk::None => 0,
        Bulk::Send(data) => data.len(),
        Bulk::Receive(length) => *length as usize,
    };
    if request.opcode >= RESERVED_OPCODES {
        return Err(CallError::BadRequest(
            "the opcode is reserved for the protocol",
        ));
    }
    if request.body.len() > REQUEST_BODY_MAX {
        return Err(CallError::BadRequest(
            "the body is longer than the limit of a message",
        ));
    }
    if bulk_len > options.bulk_max as usize {
        return Err(CallError::BadRequest(
            "the bulk is longer than the limit of this client",
        ));
    }
    Ok(())
}
