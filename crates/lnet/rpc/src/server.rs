//! The server: one thread that receives requests and events, and workers that execute calls.
//!
//! ```text
//!   EventQueue ──▶ dispatcher ──▶ Table::admit ──┬─ Execute ────────▶ jobs ──▶ worker ──▶ Handler
//!     requests       │                           ├─ NewerAttempt ──▶ the call's mail ──┘   │ bulk
//!     bulk events ───┴────────────────────────────────────────────▶ the call's mail       │
//!     reply ACKs ──▶ Table::delivered            └─ Replay, Answer ─▶ PUT reply ◀──────────┘
//! ```
//!
//! The dispatcher never executes a call and waits only for events. So a worker that waits for a client's next
//! attempt always learns of that attempt.
//!
//! A request buffer holds one message, and a fresh buffer is posted as soon as a message has arrived. While no
//! buffer is posted, requests wait at the lazy portal; this is LNet's own back-pressure.

mod requests;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use lnet_node::shares::{Payer, Shares};
use lnet_node::{
    EventKind, EventQueue, MatchEntry, Md, MdHandle, MdOptions, Node, NodeError, NodeEvent,
    PutRequest, SendHints, WaitError,
};
use lnet_types::{Nid, Time};
use rustc_hash::{FxHashMap, FxHashSet};
use thiserror::Error;
use tracing::{debug, info, warn};

use crate::buffers::Buffers;
use crate::call::Call;
use crate::clock::Clock;
use crate::counters::{ServerCounters, ServerCounting};
use crate::deadline::ServerClock;
use crate::entropy::Entropy;
use crate::handler::{Handler, Reply};
use crate::jobs::{Jobs, Owner};
use crate::proto::{
    self, ClientId, MESSAGE_MAX, Outcome, REPLY_BODY_MAX, REPLY_PORTAL, REQUEST_MATCH_BITS,
    REQUEST_PORTAL, ReplyHeader, RequestHeader,
};
use crate::silent::SilentGateway;
use crate::table::{Address, Limits, Table};

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Threads that execute calls; 0 counts as 1.
    pub workers: usize,
    /// Request buffers posted at the portal, of one message each; 0 counts as 1.
    pub request_buffers: usize,
    /// Length of a bulk piece in bytes, at most 1 MiB.
    pub piece_len: u32,
    /// The limit of pieces of one call in flight.
    pub window: usize,
    /// The limit of bulk of one call, in bytes.
    pub bulk_max: u32,
    /// How long a handler that moves bulk waits for the client. The transfer fails if the server receives
    /// nothing of the client for this long.
    pub patience: Duration,
    /// The limit of clients that are remembered. One NID gets at most a third of them, and all NIDs behind one router
    /// at most a half. The same holds for the limits below that count calls, replies and answers of all clients.
    pub clients_max: usize,
    /// The limit of clients of one NID. A client beyond the limit takes the place of a client of the same NID that never
    /// began a call. If there is none, the client is answered "busy" and counted in [`ServerCounters::crowded`].
    pub clients_per_nid_max: usize,
    /// The limit of calls of one client that are remembered.
    pub calls_per_client_max: usize,
    /// The limit of calls of all clients that are remembered.
    pub calls_max: usize,
    /// The limit of calls that run or wait for a worker; the server answers further requests with "busy".
    pub running_max: usize,
    /// The limit of replies kept until their clients have them, in bytes. While a client's share is used up, the
    /// server begins no call of the client.
    pub kept_bytes_max: usize,
    /// The limit of answers that no client has acknowledged yet. While a peer's share is used up, the server drops the
    /// peer's requests and counts them in [`ServerCounters::unread`].
    pub answers_max: usize,
    /// A client that is silent for this long is forgotten.
    pub idle: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            workers: 8,
            request_buffers: 256,
            piece_len: 1 << 20,
            window: 4,
            bulk_max: 64 << 20,
            patience: Duration::from_secs(30),
            clients_max: 4096,
            // One rank for each core of a large node.
            clients_per_nid_max: 256,
            // Twice the client's limit of calls that begin while its oldest call is under way.
            calls_per_client_max: 16_384,
            calls_max: 1 << 18,
            running_max: 1536,
            kept_bytes_max: 64 << 20,
            answers_max: 6144,
            idle: Duration::from_secs(300),
        }
    }
}

/// Why a server does not start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The node rejected the request buffers.
    #[error("the local node: {0}")]
    Node(#[from] NodeError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// A running server. Dropping it stops the server at once; [`Server::shutdown`] lets calls complete first.
pub struct Server {
    shared: Arc<Shared>,
    dispatcher: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

/// Reads what a server counts, also while another thread owns the server.
#[derive(Clone)]
pub struct ServerNumbers(Arc<Shared>);

impl ServerNumbers {
    /// Returns what the server has counted so far.
    #[must_use]
    pub fn counters(&self) -> ServerCounters {
        self.0.counting.snapshot()
    }

    /// Returns how many clients are remembered now.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.0.state().table.clients()
    }

    /// Returns how many calls run or wait for a worker now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.state().table.running()
    }

    /// Returns how many answers the clients have not acknowledged now.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.0.state().answers.used()
    }
}

/// A message of the dispatcher to a call that is being executed.
pub(crate) enum Mail {
    /// The client began a newer attempt; [`Shared::newest_attempt`] returns its address.
    Attempt,
    /// An event of a bulk piece's descriptor.
    Piece(NodeEvent),
}

pub(crate) struct Shared {
    pub(crate) node: Node,
    pub(crate) queue: EventQueue,
    pub(crate) options: ServerOptions,
    pub(crate) counting: ServerCounting,
    pub(crate) clock: Clock,
    pub(crate) buffers: Buffers,
    pub(crate) silent: SilentGateway,
    incarnation: u64,
    server_clock: ServerClock,
    tags: AtomicU64,
    is_stopping: AtomicBool,
    state: Mutex<State>,
    /// The jobs that wait for a worker; closed when the server stops.
    jobs: Jobs<Job>,
    /// Signals that a worker has ended.
    worker_ended: Condvar,
    handler: Box<dyn Handler>,
}

struct State {
    table: Table,
    mailboxes: FxHashMap<(ClientId, u64), Mailbox>,
    routes: FxHashMap<u64, Route>,
    /// The answers under way, by the peers that asked for them.
    answers: Shares,
    posted: FxHashSet<MdHandle>,
    /// Workers that have not ended.
    workers: usize,
}

/// The sending end of the mail of a call that is being executed.
struct Mailbox {
    mail: Sender<Mail>,
    /// True if mail of a newer attempt is in the channel and the call has not yet read the newest address. At
    /// most one such mail is queued; otherwise a client could fill the memory with attempts at a call that
    /// waits for its worker.
    has_attempt: bool,
}

/// The receiver of a descriptor's events, by the descriptor's tag. Request buffers have no route.
enum Route {
    Piece(Sender<Mail>),
    Reply {
        client: ClientId,
        xid: u64,
        payer: Payer,
        acknowledged: bool,
        /// The next hop and the target of the reply, after the reply was sent.
        hop: Option<(Nid, Nid)>,
    },
    /// An answer that the table has no record of.
    Answer(Payer),
}

impl Route {
    /// Returns the peer that an answer is charged to while the answer is under way.
    fn payer(&self) -> Option<Payer> {
        match self {
            Self::Piece(_) => None,
            Self::Reply { payer, .. } | Self::Answer(payer) => Some(*payer),
        }
    }
}

impl State {
    /// Inserts a route, and charges an answer to its peer.
    fn add_route(&mut self, tag: u64, route: Route) {
        if let Some(payer) = route.payer() {
            self.answers.take(payer, 1);
        }
        self.routes.insert(tag, route);
    }

    /// Removes a route: no further event of its descriptor comes.
    fn remove_route(&mut self, tag: u64) {
        if let Some(payer) = self.routes.remove(&tag).and_then(|route| route.payer()) {
            self.answers.release(payer, 1);
        }
    }
}

struct Job {
    header: RequestHeader,
    message: Vec<u8>,
    address: Address,
    mail: Receiver<Mail>,
}

/// The tag of request buffers.
const REQUEST_TAG: u64 = 0;
/// How often the dispatcher looks for clients that are silent for too long.
const SWEEP: Duration = Duration::from_secs(1);
const EMSGSIZE: i32 = 90;

impl Server {
    /// Starts a server on `node`.
    ///
    /// # Errors
    ///
    /// The node rejects the request buffers, or a thread cannot be started.
    pub fn start(
        node: Node,
        handler: impl Handler,
        entropy: &Entropy,
        options: ServerOptions,
    ) -> Result<Self, ServerError> {
        let shared = Arc::new(Shared::new(node, handler, entropy, options));
        shared.node.set_lazy(REQUEST_PORTAL, true)?;
        for _ in 0..shared.options.request_buffers.max(1) {
            shared.post(vec![0; MESSAGE_MAX])?;
        }
        let mut server = Self {
            shared,
            dispatcher: None,
            workers: Vec::new(),
        };
        for number in 0..server.shared.options.workers.max(1) {
            let shared = Arc::clone(&server.shared);
            let worker = spawn(format!("rpc-{number}"), move || shared.work())?;
            server.shared.state().workers += 1;
            server.workers.push(worker);
        }
        let shared = Arc::clone(&server.shared);
        server.dispatcher = Some(spawn("rpc".into(), move || shared.dispatch())?);
        Ok(server)
    }

    /// Returns the number that names this life of the server. A server that restores keeps the number of its
    /// earlier life.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.shared.incarnation
    }

    /// Returns what this server has counted so far.
    #[must_use]
    pub fn counters(&self) -> ServerCounters {
        self.shared.counting.snapshot()
    }

    /// Returns how many clients are remembered now.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.shared.state().table.clients()
    }

    /// Returns how many calls run or wait for a worker now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.shared.state().table.running()
    }

    /// Returns a handle that reads the numbers of this server.
    #[must_use]
    pub fn numbers(&self) -> ServerNumbers {
        ServerNumbers(Arc::clone(&self.shared))
    }

    /// Accepts no further requests, lets the accepted calls complete, and ends the threads. A call that still
    /// waits for its client after `grace` fails.
    pub fn shutdown(mut self, grace: Duration) {
        self.stop(grace);
    }

    fn stop(&mut self, grace: Duration) {
        self.shared.close();
        self.shared.wait_for_workers(grace);
        self.shared.close_mail();
        for worker in self.workers.drain(..) {
            join(worker);
        }
        self.shared.is_stopping.store(true, Ordering::Release);
        self.shared.ring();
        if let Some(dispatcher) = self.dispatcher.take() {
            join(dispatcher);
        }
        // Unlinks the request buffers that the dispatcher posted since the first `close`.
        self.shared.close();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The dispatcher may be missing here: `start` may have failed after it started the first workers.
        if !self.workers.is_empty() {
            self.stop(Duration::ZERO);
        }
    }
}

impl Shared {
    fn new(node: Node, handler: impl Handler, entropy: &Entropy, options: ServerOptions) -> Self {
        let restored = handler.restore();
        let of_old = restored.as_ref().map(|restored| restored.incarnation);
        let incarnation = of_old.unwrap_or_else(|| entropy.number("incarnation"));
        let limits = Limits {
            clients: options.clients_max,
            clients_per_nid: options.clients_per_nid_max,
            calls_per_client: options.calls_per_client_max,
            calls: options.calls_max,
            running: options.running_max,
            kept_bytes: options.kept_bytes_max,
            bulk_len: options.bulk_max,
            idle: options.idle,
        };
        let clock = Clock::start();
        let mut table = Table::new(incarnation, limits);
        if let Some(restored) = restored {
            // The clock is 0 because a restored reply is only resent, and `Admission::Replay` writes the time
            // then.
            let encode = |xid, reply| encode((incarnation, 0), xid, reply, 0);
            table.restore(restored, clock.now(), encode);
        }
        let state = State {
            table,
            mailboxes: FxHashMap::default(),
            routes: FxHashMap::default(),
            answers: Shares::new(options.answers_max),
            posted: FxHashSet::default(),
            workers: 0,
        };
        Self {
            queue: node.event_queue(),
            node,
            buffers: Buffers::new(options.workers * options.window),
            jobs: Jobs::new(options.workers.max(1)),
            options,
            counting: ServerCounting::default(),
            clock,
            silent: SilentGateway::default(),
            incarnation,
            server_clock: ServerClock::begin(entropy.number("clock")),
            tags: AtomicU64::new(REQUEST_TAG + 1),
            is_stopping: AtomicBool::new(false),
            state: Mutex::new(state),
            worker_ended: Condvar::new(),
            handler: Box::new(handler),
        }
    }

    pub(crate) fn next_tag(&self) -> u64 {
        self.tags.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends the events of descriptors with this tag to this call's mail.
    pub(crate) fn route(&self, tag: u64, client: ClientId, xid: u64) {
        let mut state = self.state();
        if let Some(mailbox) = state.mailboxes.get(&(client, xid)) {
            let mail = mailbox.mail.clone();
            state.add_route(tag, Route::Piece(mail));
        }
    }

    /// Returns the address of the newest attempt of a call. From now on, a newer attempt is reported to the
    /// call's mail.
    pub(crate) fn newest_attempt(&self, client: ClientId, xid: u64) -> Option<Address> {
        let mut state = self.state();
        state.mailboxes.get_mut(&(client, xid))?.has_attempt = false;
        state.table.newest(client, xid)
    }

    /// Returns the hints for messages to the address of an attempt. A repeated attempt came on a path that works, so its
    /// messages return to the same NID: this node may not know yet which other path is lost.
    pub(crate) fn hints(&self, address: &Address) -> SendHints {
        let is_repeated = address.attempt > 1 && address.local.is_some();
        SendHints {
            resend_to: is_repeated.then_some(address.process.nid),
            ..self.silent.hints(self.clock.now())
        }
    }

    pub(crate) fn unroute(&self, tag: u64) {
        self.state().remove_route(tag);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts a request buffer.
    fn post(&self, buffer: Vec<u8>) -> Result<(), NodeError> {
        let entry = MatchEntry::exact(REQUEST_PORTAL, REQUEST_MATCH_BITS);
        let md = Md::sink(buffer)
            .options(MdOptions::OP_PUT)
            .threshold(1)
            .user(REQUEST_TAG);
        let md = self.node.attach(&self.queue, entry, md)?;
        self.state().posted.insert(md);
        Ok(())
    }

    /// Accepts no further requests: closes the job queue, unlinks the request buffers and ends the lazy portal.
    fn close(&self) {
        self.jobs.close();
        let posted = std::mem::take(&mut self.state().posted);
        for md in posted {
            // The node rejects this if a request has just arrived in the buffer; the server drops that request.
            let _going = self.node.unlink(md);
        }
        if let Err(error) = self.node.set_lazy(REQUEST_PORTAL, false) {
            debug!(%error, "the node ended before the server");
        }
    }

    /// Waits until the workers have ended, at most for `grace`.
    fn wait_for_workers(&self, grace: Duration) {
        let is_working = |state: &mut State| state.workers > 0;
        // The caller joins the workers that have not ended by then.
        let _waited = self
            .worker_ended
            .wait_timeout_while(self.state(), grace, is_working);
    }

    /// Closes the mail of every call: a call that waits for mail fails at once.
    fn close_mail(&self) {
        let mut state = self.state();
        state.mailboxes.clear();
        state.routes.clear();
        state.answers = Shares::new(self.options.answers_max);
    }

    /// Wakes the dispatcher, by an event of a descriptor that serves no other purpose.
    fn ring(&self) {
        let bell = self
            .node
            .bind(&self.queue, Md::source(Bytes::new()).user(REQUEST_TAG));
        // A node that rejects this is shutting down, which ends the dispatcher's wait as well.
        let _rung = bell.and_then(|bell| self.node.unlink(bell));
    }

    fn dispatch(&self) {
        let mut swept = self.clock.now();
        while !self.is_stopping.load(Ordering::Acquire) {
            let event = self.queue.wait(Some(SWEEP));
            let now = self.clock.now();
            match event {
                Ok(event) => self.handle(event, now),
                Err(WaitError::Closed) => return,
                Err(WaitError::TimedOut | WaitError::PathLost) => {}
            }
            if now.saturating_since(swept) >= SWEEP {
                swept = now;
                self.sweep(now);
            }
        }
    }

    fn sweep(&self, now: Time) {
        let gone = self.state().table.expire(now);
        for client in gone {
            info!(%client, "removed the state of a client that was silent for too long");
            self.counting.forgotten.one();
            self.handler.session_ended(client);
        }
    }

    fn handle(&self, event: NodeEvent, now: Time) {
        if event.event.user == REQUEST_TAG {
            self.request_event(event, now);
        } else {
            self.routed_event(event);
        }
    }

    fn routed_event(&self, event: NodeEvent) {
        let (tag, unlinked) = (event.event.user, event.event.unlinked);
        let mut state = self.state();
        let State { routes, table, .. } = &mut *state;
        match routes.get_mut(&tag) {
            // The call needs no event to know that its message was sent: the answer implies it. To wake the
            // call would cost more than the event is worth.
            Some(Route::Piece(_)) if is_mere_send(&event) => {}
            Some(Route::Piece(mailbox)) => {
                // Sending fails if the call has ended; the memory of the event is freed here.
                let _ended = mailbox.send(Mail::Piece(event));
            }
            Some(Route::Reply {
                client,
                xid,
                acknowledged,
                hop,
                ..
            }) => {
                if event.event.kind == EventKind::Send {
                    *hop = Some((event.event.sender, event.event.target.nid));
                }
                *acknowledged |= event.event.kind == EventKind::Ack && event.event.status.is_ok();
                match (*acknowledged, unlinked) {
                    (true, _) => table.delivered(*client, *xid),
                    (false, true) => self.counting.replies_lost.one(),
                    (false, false) => {}
                }
            }
            Some(Route::Answer(_)) | None => {}
        }
        if unlinked {
            state.remove_route(tag);
        }
    }

    fn request_event(&self, event: NodeEvent, now: Time) {
        let Some(memory) = event.memory else { return };
        self.state().posted.remove(&event.event.md);
        if event.event.kind != EventKind::Put || event.event.status.is_err() {
            return;
        }
        let mut message = memory.into_vec();
        // Post the next buffer first, so that the portal stays open while this request is handled.
        if let Err(error) = self.post(vec![0; MESSAGE_MAX]) {
            debug!(%error, "cannot post a further request buffer");
        }
        message.truncate(event.event.mlength as usize);
        let header = match proto::decode_request(&message) {
            Ok((header, _)) => header,
            Err(error) => {
                if let Some(times) = self.counting.malformed.one(now) {
                    warn!(%error, from = %event.event.source, times, "drops messages that are no requests");
                }
                return;
            }
        };
        self.counting.requests.one();
        let local = event.event.target.nid;
        let address = Address {
            attempt: header.attempt,
            process: event.event.source,
            bringer: event.event.sender,
            local: (!local.is_loopback()).then_some(local),
            reply_bits: header.reply_bits,
            bulk_bits: header.bulk_bits,
            deadline: self.server_clock.read(header.deadline, now),
        };
        self.request(header, message, address, now);
    }

    fn execute(&self, header: RequestHeader, message: Vec<u8>, address: Address) {
        let (sender, mail) = mpsc::channel();
        let mailbox = Mailbox {
            mail: sender,
            has_attempt: false,
        };
        let client = header.client;
        self.state().mailboxes.insert((client, header.xid), mailbox);
        let job = Job {
            header,
            message,
            address,
            mail,
        };
        let nid = address.process.nid;
        self.jobs.push(Owner { client, nid }, job);
    }

    /// Executes jobs until the queue is closed and empty.
    fn work(self: &Arc<Self>) {
        while let Some((owner, job)) = self.jobs.take() {
            self.run(job);
            self.jobs.release(owner);
        }
        self.state().workers -= 1;
        self.worker_ended.notify_all();
    }

    fn run(self: &Arc<Self>, job: Job) {
        let Job {
            header,
            message,
            address,
            mail,
        } = job;
        let (client, xid) = (header.client, header.xid);
        let body = proto::decode_request(&message).map_or(&[][..], |(_, body)| body);
        let newest = self.state().table.newest(client, xid).unwrap_or(address);
        let mut call = Call::new(self, header, body, newest, mail);
        let reply = self.handler.call(&mut call);
        self.counting.executed.one();
        let moved = call.moved();
        if call.is_over() {
            self.counting.late.one();
        }
        drop(call);
        let now = self.clock.now();
        let stamp = (self.incarnation, self.server_clock.show(now));
        let reply = encode(stamp, xid, reply, moved);
        let (address, is_gone) = {
            let mut state = self.state();
            state.mailboxes.remove(&(client, xid));
            let table = &mut state.table;
            let address = table.complete(client, xid, reply.clone(), now);
            (address, !table.knows(client))
        };
        if let Some(address) = address {
            self.send_reply(client, xid, address, reply);
        }
        if is_gone {
            self.handler.session_ended(client);
        }
    }

    /// Sends an answer without a record in the table.
    fn answer(&self, request: &RequestHeader, address: Address, outcome: Outcome, body: &[u8]) {
        let (xid, incarnation) = (request.xid, self.incarnation);
        let header = ReplyHeader {
            xid,
            incarnation,
            clock: self.server_clock.show(self.clock.now()),
            outcome,
            status: 0,
            bulk_len: 0,
        };
        let reply = Bytes::from(proto::encode_reply(&header, body));
        self.send(reply, address, Route::Answer(address.payer()));
    }

    fn send_reply(&self, client: ClientId, xid: u64, address: Address, reply: Bytes) {
        self.send(
            reply,
            address,
            Route::Reply {
                client,
                xid,
                payer: address.payer(),
                acknowledged: false,
                hop: None,
            },
        );
    }

    /// Notes the gateway of a reply that the client did not acknowledge and now asks for with a further
    /// attempt.
    fn note_silent_gateway(&self, asked: ClientId, for_xid: u64, now: Time) {
        let state = self.state();
        let lost = state.routes.values().find_map(|route| match *route {
            Route::Reply {
                client, xid, hop, ..
            } if client == asked && xid == for_xid => hop,
            _ => None,
        });
        if let Some((hop, target)) = lost {
            self.silent.note(hop, target, now);
        }
    }

    fn send(&self, reply: Bytes, address: Address, route: Route) {
        let tag = self.next_tag();
        self.state().add_route(tag, route);
        let bound = self
            .node
            .bind(&self.queue, Md::source(reply).threshold(2).user(tag));
        let sent = bound.and_then(|md| {
            let put = PutRequest {
                md,
                ack: true,
                source: address.local,
                target: address.process,
                portal: REPLY_PORTAL,
                match_bits: address.reply_bits,
                offset: 0,
                hdr_data: 0,
            };
            self.node.hinted_put(put, self.hints(&address))
        });
        if let Err(error) = sent {
            self.unroute(tag);
            warn!(%error, to = %address.process, "a reply cannot be sent");
        }
    }
}

/// Reports whether an event says only that a message was sent.
fn is_mere_send(event: &NodeEvent) -> bool {
    let is_sent = event.event.kind == EventKind::Send && event.event.status.is_ok();
    is_sent && event.memory.is_none()
}

/// Returns the message of a reply. If the reply's body is too long, returns a reply with EMSGSIZE.
fn encode((incarnation, clock): (u64, u64), xid: u64, reply: Reply, bulk_len: u32) -> Bytes {
    let fits = reply.body.len() <= REPLY_BODY_MAX;
    let Reply { status, body } = if fits {
        reply
    } else {
        Reply::error(EMSGSIZE, Vec::new())
    };
    let outcome = Outcome::Done;
    let header = ReplyHeader {
        xid,
        incarnation,
        clock,
        outcome,
        status,
        bulk_len,
    };
    Bytes::from(proto::encode_reply(&header, &body))
}

fn spawn(
    name: String,
    body: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, ServerError> {
    std::thread::Builder::new()
        .name(name)
        .spawn(body)
        .map_err(ServerError::Thread)
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        warn!("a thread of the server ended with a panic");
    }
}
