//! The client: calls that block until they end, from any number of threads at once.
//!
//! A call's own thread drives it: it waits on an event queue that it has for itself while the call lasts,
//! so nothing is handed from thread to thread. What is to be done when is decided by
//! [`CallState`](crate::retry::CallState); `exchange` does it on the node.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use lnet_node::{EventQueue, NoPath, Node, NodeError};
use lnet_types::{Nid, Time};
use thiserror::Error;

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
    /// An attempt is given up when nothing was heard of it for this long: no acknowledgement, no piece
    /// of bulk, no reply.
    pub attempt_timeout: Duration,
    /// Pause before the second attempt; doubles with every further one.
    pub backoff: Duration,
    /// Longest pause between attempts.
    pub backoff_max: Duration,
    /// Calls under way at once; further ones wait.
    pub in_flight_max: usize,
    /// Most bytes of bulk of one call.
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

/// What travels besides the body.
#[derive(Clone, Debug, Default)]
pub enum Bulk {
    /// Nothing.
    #[default]
    None,
    /// These bytes may be fetched by the server.
    Send(Bytes),
    /// The server may send up to this many bytes.
    Receive(u32),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is asked; below [`RESERVED_OPCODES`].
    pub opcode: u32,
    /// At most [`REQUEST_BODY_MAX`] bytes.
    pub body: Vec<u8>,
    /// What travels besides.
    pub bulk: Bulk,
    /// Whether the call may be repeated after a restart of the server.
    pub idempotence: Idempotence,
    /// The call ends after this time, one way or the other.
    pub deadline: Duration,
}

/// What the server's handler answered, with status 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The reply's body.
    pub body: Vec<u8>,
    /// What was received, with [`Bulk::Receive`]: as many bytes as the server sent.
    pub bulk: Vec<u8>,
}

/// Why a call has no response.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The handler failed. The call was executed, exactly once.
    #[error("the server answered errno {errno}")]
    Remote {
        /// Its errno.
        errno: i32,
        /// The reply's body.
        body: Vec<u8>,
    },
    /// The deadline came first. Whether the call was executed is not known.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// The deadline came first, and the last request did not even leave, though a path leads to the server: no
    /// connection.
    #[error("no answer within {within:?}: the last request was not delivered: {}", std::io::Error::from_raw_os_error(*.errno))]
    Undelivered {
        /// The deadline.
        within: Duration,
        /// What the network said of the last request.
        errno: i32,
    },
    /// The deadline came first, and no interface and no live route leads to the server, its gateways do not answer, or
    /// nothing led there when the last request was to leave. The last request may have left before its route went down. A server that was heard of since
    /// is not unreachable: [`CallError::Deadline`].
    #[error("no answer within {within:?}: {why}")]
    NoPath {
        /// The deadline.
        within: Duration,
        /// Which gateways there are, and what is wrong with each.
        why: NoPath,
    },
    /// The server restarted and the call may not be repeated. Whether it was executed is not known.
    #[error("the server restarted meanwhile, and this call may not be repeated")]
    ServerRestarted,
    /// The server forgot this client, which was silent for long, and the call may not be repeated.
    #[error("the server forgot this client meanwhile, and this call may not be repeated")]
    Forgotten,
    /// The server will not execute such a call: too much bulk.
    #[error("the server refuses calls of this kind or size")]
    Refused,
    /// The body is too long, the bulk is too long, or the opcode is reserved.
    #[error("the request is malformed: {0}")]
    BadRequest(&'static str),
    /// The server answered what this client does not understand.
    #[error("the server's answer makes no sense: it speaks another version")]
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

/// Calls that began later than the oldest one under way: no more than this, because the server keeps a
/// mark for each until the oldest has ended.
const SPAN_MAX: u64 = 8192;

/// How long a session is good after the last reply, as a share of what the server promised: 1/2, so that
/// a request that takes its time still arrives before the server forgets.
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

/// What the server told when the session was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    pub(crate) incarnation: u64,
    pub(crate) number: u64,
    /// The server keeps it at least this long after it last heard of us.
    pub(crate) idle: Duration,
    pub(crate) renewed: Time,
}

impl Client {
    /// A client on `node` of the server at `server`. Nothing is sent before the first call.
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
            state: Mutex::new(state),
            ended: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Calls the server and waits for the end of the call.
    ///
    /// # Errors
    ///
    /// See [`CallError`]; in every case the call is over when this returns, and it returns within the
    /// request's deadline.
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

    /// Who this client is, for the server.
    #[must_use]
    pub fn id(&self) -> ClientId {
        self.shared.id
    }

    /// What has been counted so far.
    #[must_use]
    pub fn counters(&self) -> ClientCounters {
        self.shared.counting.snapshot()
    }

    /// Refuses further calls and tells the server, if it answers within `grace`, that this client goes,
    /// so that it can clean up at once. Calls under way are not disturbed; the server gives their
    /// results up.
    pub fn close(&self, grace: Duration) {
        let has_session = {
            let mut state = self.shared.state();
            !std::mem::replace(&mut state.closed, true) && state.session.is_some()
        };
        if has_session {
            let deadline = self.shared.clock.now() + grace;
            let goodbye = own_request(OPCODE_GOODBYE, grace);
            let ticket = self.shared.ticket_now();
            // Nobody is left to whom a failure would matter: the server forgets silent clients anyway.
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

    /// Opens a session, or renews it, as a call of its own with a transaction id of its own.
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
    /// The xid that the server need remember nothing below.
    pub(crate) fn lowest(&self) -> u64 {
        let state = self.state();
        state.under_way.first().copied().unwrap_or(state.next_xid)
    }

    pub(crate) fn session(&self) -> Option<Session> {
        self.state().session
    }

    pub(crate) fn set_session(&self, session: Session) {
        self.state().session = Some(session);
    }

    /// The server's clock, as a reply told it.
    pub(crate) fn note_server_clock(&self, clock: u64, now: Time) {
        let known = &mut self.state().server_clock;
        let newer = ClockReading::new(clock, now);
        *known = Some(known.map_or(newer, |known| known.or_newer(newer)));
    }

    /// A time by the server's clock, at the earliest; 0 before the server told it.
    pub(crate) fn by_server_clock(&self, time: Time) -> u64 {
        self.state().server_clock.map_or(0, |known| known.at(time))
    }

    /// The server answered: it remembers us from now on for as long as it promised.
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

/// The right to have a call under way; gives it back when dropped.
struct Ticket<'a> {
    shared: &'a Shared,
    xid: u64,
    /// This call's own while it lasts, then the next one's. A node keeps its queues for ever.
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
            "the opcode is one of the protocol's own",
        ));
    }
    if request.body.len() > REQUEST_BODY_MAX {
        return Err(CallError::BadRequest(
            "the body is longer than a message has room for",
        ));
    }
    if bulk_len > options.bulk_max as usize {
        return Err(CallError::BadRequest(
            "the bulk is longer than this client sends or receives",
        ));
    }
    Ok(())
}
