//! The zbmi plugin engine: matches messages of clients with buffers of the server, as a state machine without
//! I/O.
//!
//! "R7" is a requirement of the zoid method (`docs/bmi-requirements.md`), and `[ZOID-12]` a rule of `docs/bmi`.
//! `DESIGN.md` of this crate explains states, tables, fairness, memory and failures.
//!
//! [`Engine`] is the plugin. Its inputs are a client's call, a command of the server, a report on a transfer,
//! and the time; its outputs are [`Output`]s. The caller owns the clock, the connections, the queues and the
//! segment.
//!
//! ```text
//!   clients                                                                server
//!      │ send recv test wake                        post test cancel unexp… │
//!  ┌───▼──────────────────────────────────────────────────────────────────────▼───┐
//!  │ request ──────────▶ matching ◀────────────────────────────── post            │
//!  │    │    ready          │ claims                                              │
//!  │    ▼                   ▼                                                     │
//!  │ memory ─ pool ─▶ transfer ─ admission                       session messages │
//!  │ attach ─ pids          │ ends                                  ▲             │
//!  │ drain                  └──────────────▶ complete ──────────────┘      timers │
//!  └───┬───────────────────────────────────────────────────────────────────────┬──┘
//!      ▼ Reply Grant Deliver Stop Credits                             Answer   ▼
//! ```
//!
//! The documentation of [`Engine`] has an example: a message from post to collection.
//!
//! # Limits
//!
//! The engine has no clock, socket, thread or randomness, and sees no byte of payload or protocol. No client
//! and no server can make it panic. [`Limits`] limit its memory. It serves one server at a time.

mod admission;
mod attach;
mod audit;
mod client;
mod complete;
mod config;
mod counters;
mod drain;
mod inbox;
mod io;
mod matching;
mod memory;
mod messages;
mod pids;
mod pool;
mod post;
mod ready;
mod request;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod time;
mod timers;
mod transfer;
mod view;

use std::collections::{BTreeMap, VecDeque};

pub use audit::Inconsistency;
pub use config::{BULK_MIN, Config, ConfigError, Limits, SLOT_UNIT};
pub use counters::{ClientTraffic, Counters, Gauges, Histogram, Rejection, Traffic};
pub use io::{
    Answer, Attach, Attached, BmiId, CallId, Class, Completion, Departure, Direction, Errno,
    GrantId, JobId, Message, Output, Peer, Pid, PluginId, Post, PreviousStay, RecvRequest, Reply,
    RequestId, Segment, Selection, SendKind, SendRequest, ServerTest, Session, Tag, TestEntry,
    TestKind, TestRequest, Transfer, UnexpTest,
};
pub use time::Time;

use crate::zbmi::admission::Admission;
use crate::zbmi::client::Client;
use crate::zbmi::drain::Stopping;
use crate::zbmi::inbox::Inbox;
use crate::zbmi::memory::MemoryQueue;
use crate::zbmi::pids::Pids;
use crate::zbmi::pool::Pool;
use crate::zbmi::server::{Server, ServerPost};
use crate::zbmi::timers::{Timer, Timers};
use crate::zbmi::transfer::Running;

/// The plugin: the clients' calls on one side, the server's operations on the other.
///
/// # How to drive the engine
///
/// After every call that takes `&mut self`, call [`Engine::poll_output`] until it returns `None`, and carry
/// out the outputs in that order. Call [`Engine::tick`] at [`Engine::next_deadline`]; earlier calls do no
/// harm. Times never go backwards.
///
/// * Every request of a client ([`Engine::send`], [`Engine::recv`], [`Engine::test`]) ends in exactly one of
///   three ways:
///   with an [`Output::Reply`]; for a receive, with an [`Output::Deliver`] that is acknowledged; or with the client's
///   departure, after which no output mentions it.
/// * Every command of the server that takes a [`CallId`] gets exactly one [`Output::Answer`], unless the
///   server leaves
///   with [`Departure::Broken`] first.
/// * Every [`Output::Grant`] and [`Output::Deliver`] ends with a report of the caller
///   ([`Engine::transfer_arrived`],
///   [`Engine::transfer_aborted`], [`Engine::transfer_acknowledged`]) or with [`Output::Stop`].
/// * Reports and wake-ups whose ids are unknown or stale are counted and ignored.
///
/// # A message
///
/// ```
/// use zoidd::zbmi::*;
///
/// let mut engine = Engine::new(Config::default())?;
/// let now = Time::ZERO;
/// let attach = Attach { uuid: [1; 16], job: JobId(0), previous: None };
/// let peer = engine.client_attached(now, attach)?.peer;
/// let session = engine.server_attached()?;
///
/// // The server posts a receive of at most 4096 bytes.
/// let buffer = Segment { offset: 1 << 20, len: 4096 };
/// let post = Post {
///     direction: Direction::ToServer,
///     bmi: BmiId(7),
///     peer,
///     tag: Tag(5),
///     segments: vec![buffer],
///     total: 4096,
///     not_immediate: false,
/// };
/// engine.post(now, session, CallId(1), post);
/// let Some(Output::Answer { answer: Answer::Registered(plugin), .. }) = engine.poll_output() else {
///     unreachable!("no client waits")
/// };
///
/// // A client requests to send 100 bytes and gets the buffer at once.
/// let send = SendRequest {
///     kind: SendKind::Expected,
///     tag: Tag(5),
///     total: 100,
///     timeout: core::time::Duration::ZERO,
///     order: 1,
/// };
/// engine.send(now, peer, RequestId(1), send);
/// let Some(Output::Grant(grant)) = engine.poll_output() else { unreachable!("a receive waits") };
/// assert_eq!(grant.segments[..], [Segment { offset: 1 << 20, len: 100 }]);
///
/// // The caller reports that the bytes are in the segment.
/// engine.transfer_arrived(now, grant.grant);
/// let reply = Output::Reply { peer, request: RequestId(1), reply: Reply::Sent };
/// assert_eq!(engine.poll_output(), Some(reply));
/// let wanted = Selection::Any(1);
/// let test = ServerTest { selection: wanted, timeout: core::time::Duration::ZERO, wake_on_unexpected: false };
/// engine.server_test(now, session, CallId(2), test);
/// let Some(Output::Answer { answer: Answer::Completions { completions, .. }, .. }) = engine.poll_output()
/// else {
///     unreachable!("the receive is complete")
/// };
/// assert_eq!(completions, [Completion { bmi: BmiId(7), plugin, result: Ok(100) }]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Engine {
    config: Config,
    /// Attached clients, and those that may come back.
    clients: BTreeMap<Pid, Client>,
    pids: Pids,
    server: Option<Server>,
    next_session: Session,
    /// The server's operations that have not completed.
    posts: BTreeMap<PluginId, ServerPost>,
    next_plugin: PluginId,
    /// The number of segments of all of them.
    kept_segments: usize,
    transfers: BTreeMap<GrantId, Running>,
    next_grant: GrantId,
    inbox: Inbox,
    pool: Pool,
    memory: MemoryQueue,
    admission: Admission,
    timers: Timers,
    outputs: VecDeque<Output>,
    stopping: Stopping,
    counters: Counters,
}

impl Engine {
    /// Creates an engine without clients and server.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            clients: BTreeMap::new(),
            pids: Pids::default(),
            server: None,
            next_session: Session(config.first_session),
            posts: BTreeMap::new(),
            next_plugin: PluginId(1),
            kept_segments: 0,
            transfers: BTreeMap::new(),
            next_grant: GrantId(1),
            inbox: Inbox::default(),
            pool: Pool::new(config.unexpected_size),
            memory: MemoryQueue::default(),
            admission: Admission::new(config.bulk_slots, config.job_weights.clone()),
            timers: Timers::default(),
            outputs: VecDeque::new(),
            stopping: Stopping::No,
            counters: Counters::default(),
            config,
        })
    }

    /// Returns the next output.
    pub fn poll_output(&mut self) -> Option<Output> {
        if self.outputs.is_empty() {
            self.complete_drain();
        }
        self.outputs.pop_front()
    }

    /// Returns when [`Engine::tick`] must be called; `None` if no timer is set. May be earlier than
    /// necessary.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Handles expired timers.
    pub fn tick(&mut self, now: Time) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Request(peer, request) => self.expire_request(now, peer, request),
                Timer::Call(call) => self.expire_call(call),
                Timer::Hold(plugin) => self.expire_hold(plugin),
                Timer::Stall(grant) => self.check_stall(now, grant),
                Timer::Reattach(pid) => self.expire_reattach(now, pid),
                Timer::Drain => self.expire_drain(now),
            }
        }
    }

    fn client(&self, peer: Peer) -> Option<&Client> {
        self.clients
            .get(&peer.pid)
            .filter(|client| client.peer == peer)
    }

    fn client_mut(&mut self, peer: Peer) -> Option<&mut Client> {
        self.clients
            .get_mut(&peer.pid)
            .filter(|client| client.peer == peer)
    }
}
