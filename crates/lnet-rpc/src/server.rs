//! The server: one thread that takes requests and events in, workers that execute.
//!
//! ```text
//!   EventQueue ──▶ dispatcher ──▶ Table::admit ──┬─ Execute ────────▶ jobs ──▶ worker ──▶ Handler
//!     requests       │                           ├─ NewerAttempt ──▶ the call's mail ──┘   │ bulk
//!     bulk events ───┴────────────────────────────────────────────▶ the call's mail       │
//!     reply ACKs ──▶ Table::delivered            └─ Replay, Answer ─▶ PUT reply ◀──────────┘
//! ```
//!
//! The dispatcher never executes and never waits for anything but events, so a worker that waits for a
//! client's next attempt always learns of it.
//!
//! Request buffers are one message long and posted again as soon as they are read. When they run out,
//! requests wait at the lazy portal, which is LNet's own back-pressure.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
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
use crate::handler::{Handler, Reply, Session};
use crate::jobs::Jobs;
use crate::proto::{
    self, ClientId, MESSAGE_MAX, Outcome, REPLY_BODY_MAX, REPLY_PORTAL, REQUEST_MATCH_BITS,
    REQUEST_PORTAL, ReplyHeader, RequestHeader,
};
use crate::silent::SilentGateway;
use crate::table::{Address, Admission, Limits, Table};

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Threads that execute calls.
    pub workers: usize,
    /// Request buffers of one message each that wait at the portal.
    pub request_buffers: usize,
    /// Length of a bulk piece in bytes, at most 1 MiB.
    pub piece_len: u32,
    /// Pieces of one call in flight.
    pub window: usize,
    /// Most bytes of bulk of one call.
    pub bulk_max: u32,
    /// A handler that moves bulk gives up when it hears nothing of the client for this long.
    pub patience: Duration,
    /// Clients that are remembered.
    pub clients_max: usize,
    /// The same of one NID, so that one node cannot keep the others out: a further one is answered with
    /// "busy" and counted in [`ServerCounters::crowded`].
    pub clients_per_nid_max: usize,
    /// Calls of one client that are remembered.
    pub calls_per_client_max: usize,
    /// Calls of all clients that are remembered.
    pub calls_max: usize,
    /// Calls that run or wait for a worker; more are put off.
    pub running_max: usize,
    /// Bytes of replies kept until their clients have them.
    pub kept_bytes_max: usize,
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
            clients_max: 1024,
            // A rank for each core of a large node.
            clients_per_nid_max: 256,
            // Twice what a client lets its oldest call hold up.
            calls_per_client_max: 16_384,
            calls_max: 1 << 18,
            running_max: 512,
            kept_bytes_max: 64 << 20,
            idle: Duration::from_secs(300),
        }
    }
}

/// Why a server does not start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The node refused the request buffers.
    #[error("the local node: {0}")]
    Node(#[from] NodeError),
    /// A thread cannot be made.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// A running server. Dropping it stops it at once; [`Server::shutdown`] lets calls end first.
pub struct Server {
    shared: Arc<Shared>,
    dispatcher: Option<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

/// What comes to a call that is being executed.
pub(crate) enum Mail {
    /// The client began a new attempt; [`Shared::newest_attempt`] has its address.
    Attempt,
    /// Something happened to a piece of bulk.
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
    /// Closed when the server stops.
    jobs: Jobs<Job>,
    /// A worker has ended.
    worker_ended: Condvar,
    handler: Box<dyn Handler>,
}

struct State {
    table: Table,
    mailboxes: FxHashMap<(ClientId, u64), Mailbox>,
    routes: FxHashMap<u64, Route>,
    posted: FxHashSet<MdHandle>,
    /// Workers that have not ended.
    workers: usize,
}

/// Where a call that is being executed gets its mail.
struct Mailbox {
    mail: Sender<Mail>,
    /// The call has not yet read of the last attempts: one letter stands for any number of them, or a
    /// client could fill the memory with attempts at a call that waits for its worker.
    has_attempt: bool,
}

/// Whose the events of a descriptor are, by its tag. Request buffers have no route.
enum Route {
    Piece(Sender<Mail>),
    Reply {
        client: ClientId,
        xid: u64,
        acknowledged: bool,
        /// Its next hop and its target, once it has been written.
        hop: Option<(Nid, Nid)>,
    },
    /// An answer that nobody keeps account of.
    Answer,
}

struct Job {
    header: RequestHeader,
    message: Vec<u8>,
    address: Address,
    mail: Receiver<Mail>,
}

/// The tag of request buffers.
const REQUEST_TAG: u64 = 0;
/// How often the dispatcher looks for clients that have gone silent.
const SWEEP: Duration = Duration::from_secs(1);
const EMSGSIZE: i32 = 90;

impl Server {
    /// Starts to serve on `node`.
    ///
    /// # Errors
    ///
    /// The node refuses the request buffers, or a thread cannot be made.
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

    /// The number of this life of the server.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.shared.incarnation
    }

    /// What has been counted so far.
    #[must_use]
    pub fn counters(&self) -> ServerCounters {
        self.shared.counting.snapshot()
    }

    /// Clients that are remembered now.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.shared.state().table.clients()
    }

    /// Calls that run or wait for a worker now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.shared.state().table.running()
    }

    /// Takes no further requests, lets the calls end that were taken, and ends the threads. A call that
    /// still waits for its client after `grace` fails.
    pub fn shutdown(mut self, grace: Duration) {
        self.stop(grace);
    }

    fn stop(&mut self, grace: Duration) {
        self.shared.close();
        self.shared.wait_for_workers(grace);
        self.shared.hang_up();
        for worker in self.workers.drain(..) {
            join(worker);
        }
        self.shared.is_stopping.store(true, Ordering::Release);
        self.shared.ring();
        if let Some(dispatcher) = self.dispatcher.take() {
            join(dispatcher);
        }
        // Those that the dispatcher posted after the first time.
        self.shared.close();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Without a dispatcher too: the start may have failed behind the first workers.
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
            // Sent again only, and then with the time of then.
            let encode = |xid, reply| encode((incarnation, 0), xid, reply, 0);
            table.restore(restored, clock.now(), encode);
        }
        let state = State {
            table,
            mailboxes: FxHashMap::default(),
            routes: FxHashMap::default(),
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

    /// The events of descriptors with this tag go to this call's mail.
    pub(crate) fn route(&self, tag: u64, client: ClientId, xid: u64) {
        let mut state = self.state();
        if let Some(mailbox) = state.mailboxes.get(&(client, xid)) {
            let mail = mailbox.mail.clone();
            state.routes.insert(tag, Route::Piece(mail));
        }
    }

    /// Where the newest attempt of a call wants its bulk; from now on a newer one is told of again.
    pub(crate) fn newest_attempt(&self, client: ClientId, xid: u64) -> Option<Address> {
        let mut state = self.state();
        state.mailboxes.get_mut(&(client, xid))?.has_attempt = false;
        state.table.newest(client, xid)
    }

    /// How something is sent to where an attempt wants it. One that had to be repeated came by a way that its client knows
    /// to be good, so that way is taken back; which of the others is not, this node may not know yet.
    pub(crate) fn hints(&self, address: &Address) -> SendHints {
        let is_repeated = address.attempt > 1 && address.local.is_some();
        SendHints {
            resend_to: is_repeated.then_some(address.process.nid),
            ..self.silent.hints(self.clock.now())
        }
    }

    pub(crate) fn unroute(&self, tag: u64) {
        self.state().routes.remove(&tag);
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

    /// Takes no further requests: closes the portal and the job queue.
    fn close(&self) {
        self.jobs.close();
        let posted = std::mem::take(&mut self.state().posted);
        for md in posted {
            // Refused when a request is in it, which is then too late.
            let _going = self.node.unlink(md);
        }
        if let Err(error) = self.node.set_lazy(REQUEST_PORTAL, false) {
            debug!(%error, "the node went first");
        }
    }

    /// Waits until the workers have ended, at most for `grace`.
    fn wait_for_workers(&self, grace: Duration) {
        let is_working = |state: &mut State| state.workers > 0;
        // What is still working afterwards is joined by the caller.
        let _waited = self
            .worker_ended
            .wait_timeout_while(self.state(), grace, is_working);
    }

    /// Nobody sends mail any more: calls that wait for some end at once.
    fn hang_up(&self) {
        let mut state = self.state();
        state.mailboxes.clear();
        state.routes.clear();
    }

    /// Makes the dispatcher look up, by an event of a descriptor that does nothing else.
    fn ring(&self) {
        let bell = self
            .node
            .bind(&self.queue, Md::source(Bytes::new()).user(REQUEST_TAG));
        // A node that refuses is shutting down, which ends the dispatcher's wait as well.
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
            info!(%client, "forgotten: silent for too long");
            self.counting.forgotten.one();
            self.handler.client_gone(client);
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
            // The call learns from the answer that its message was sent; a wake-up costs more than the news are worth.
            Some(Route::Piece(_)) if is_mere_send(&event) => {}
            Some(Route::Piece(mailbox)) => {
                // A call that has ended waits for nothing; the memory is freed here.
                let _ended = mailbox.send(Mail::Piece(event));
            }
            Some(Route::Reply {
                client,
                xid,
                acknowledged,
                hop,
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
            Some(Route::Answer) | None => {}
        }
        if unlinked {
            routes.remove(&tag);
        }
    }

    fn request_event(&self, event: NodeEvent, now: Time) {
        let Some(memory) = event.memory else { return };
        self.state().posted.remove(&event.event.md);
        if event.event.kind != EventKind::Put || event.event.status.is_err() {
            return;
        }
        let mut message = memory.into_vec();
        // The room for the next request first: it keeps the portal open while this one is handled.
        if let Err(error) = self.post(vec![0; MESSAGE_MAX]) {
            debug!(%error, "no further request buffer");
        }
        message.truncate(event.event.mlength as usize);
        let header = match proto::decode_request(&message) {
            Ok((header, _)) => header,
            Err(error) => {
                self.counting.malformed.one();
                return debug!(%error, from = %event.event.source, "a request that is none");
            }
        };
        self.counting.requests.one();
        let local = event.event.target.nid;
        let address = Address {
            attempt: header.attempt,
            process: event.event.source,
            local: (!local.is_loopback()).then_some(local),
            reply_bits: header.reply_bits,
            bulk_bits: header.bulk_bits,
            deadline: self.server_clock.read(header.deadline, now),
        };
        self.request(header, message, address, now);
    }

    fn request(&self, header: RequestHeader, message: Vec<u8>, address: Address, now: Time) {
        let admission = self.state().table.admit(&header, address, now);
        match admission {
            Admission::Execute => self.execute(header, message, address),
            Admission::NewerAttempt => {
                self.counting.repeated.one();
                self.tell_of_attempt(header.client, header.xid);
            }
            Admission::Replay(reply) => {
                self.counting.replayed.one();
                self.note_silent_gateway(header.client, header.xid, now);
                let reply = proto::with_clock(&reply, self.server_clock.show(now)).into();
                self.send_reply(header.client, header.xid, address, reply);
            }
            Admission::Opened(number) => {
                let (client, nid) = (header.client, address.process.nid);
                let session = Session {
                    client,
                    nid,
                    number,
                };
                self.handler.client_came(&session);
                let body = proto::encode_session(number, self.options.idle);
                self.answer(&header, address, Outcome::Done, &body);
            }
            Admission::Connected(session) => {
                let body = proto::encode_session(session, self.options.idle);
                self.answer(&header, address, Outcome::Done, &body);
            }
            Admission::Gone => {
                self.handler.client_gone(header.client);
                self.answer(&header, address, Outcome::Done, &[]);
            }
            Admission::Leaving => self.answer(&header, address, Outcome::Done, &[]),
            Admission::Expired => {
                self.counting.expired.one();
                self.answer(&header, address, Outcome::Busy, &[]);
            }
            Admission::Crowded => {
                self.counting.crowded.one();
                self.answer(&header, address, Outcome::Busy, &[]);
            }
            Admission::Answer(outcome) => {
                self.count_answer(outcome);
                self.answer(&header, address, outcome, &[]);
            }
            Admission::Ignore(why) => {
                self.counting.ignored.one();
                debug!(client = %header.client, xid = header.xid, ?why, "ignored");
            }
        }
    }

    fn tell_of_attempt(&self, client: ClientId, xid: u64) {
        if let Some(mailbox) = self.state().mailboxes.get_mut(&(client, xid))
            && !mailbox.has_attempt
        {
            mailbox.has_attempt = true;
            let _ended = mailbox.mail.send(Mail::Attempt);
        }
    }

    fn count_answer(&self, outcome: Outcome) {
        match outcome {
            Outcome::Busy => self.counting.busy.one(),
            Outcome::Refused => self.counting.refused.one(),
            Outcome::WrongIncarnation | Outcome::UnknownClient => self.counting.voided.one(),
            Outcome::Done => {}
        }
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
        self.jobs.push(client, job);
    }

    /// A worker's life: executes jobs until there will be none.
    fn work(self: &Arc<Self>) {
        while let Some((client, job)) = self.jobs.take() {
            self.run(job);
            self.jobs.give_back(client);
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
            self.handler.client_gone(client);
        }
    }

    /// Answers without a trace in the table.
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
        self.send(reply, address, Route::Answer);
    }

    fn send_reply(&self, client: ClientId, xid: u64, address: Address, reply: Bytes) {
        self.send(
            reply,
            address,
            Route::Reply {
                client,
                xid,
                acknowledged: false,
                hop: None,
            },
        );
    }

    /// A reply that the client asks for again, and did not acknowledge, went through it.
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
        self.state().routes.insert(tag, route);
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

/// Whether an event says only that a message was sent.
fn is_mere_send(event: &NodeEvent) -> bool {
    let is_sent = event.event.kind == EventKind::Send && event.event.status.is_ok();
    is_sent && event.memory.is_none()
}

/// The message of a reply; of one that is too long, the message that says so.
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
        warn!("a thread of the server ended by a panic");
    }
}
