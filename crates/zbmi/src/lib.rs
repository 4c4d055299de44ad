//! The zbmi plugin engine: which client message meets which server buffer, as a state machine without I/O.
//!
//! "R7" is a numbered requirement of the zoid method, "section 3.1.7" a section of its description; not
//! those of the LNet wire. DESIGN.md beside this crate explains the whole.

mod config;
mod counters;
mod io;
mod time;

use std::collections::VecDeque;

pub use config::{BULK_MIN, Config, ConfigError, Limits, SLOT_UNIT};
pub use counters::{Counters, Gauges, Histogram, Refusal, Traffic};
pub use io::{
    Answer, Attach, Attached, BmiId, CallId, Class, Completion, Departure, Direction, Errno,
    GrantId, JobId, Message, Output, Peer, Pid, PluginId, Post, PreviousStay, RecvRequest, Reply,
    RequestId, Segment, Selection, SendKind, SendRequest, ServerTest, Session, Tag, TestEntry,
    TestKind, TestRequest, Transfer, UnexpTest,
};
pub use time::Time;

/// The plugin: the clients' calls on one side, the server's operations on the other.
///
/// # How to drive it
///
/// After every call that takes `&mut self`, take outputs with [`Engine::poll_output`] until there are
/// none, and act on them in that order. Call [`Engine::tick`] when [`Engine::next_deadline`] has come;
/// earlier calls do no harm. Times never go backwards.
///
/// * Every request of a client ([`Engine::send`], [`Engine::recv`], [`Engine::test`]) ends with exactly one
///   of: an [`Output::Reply`]; for a receive an [`Output::Deliver`] that was acknowledged; or the client's
///   departure, after which nothing is said about it any more.
/// * Every command of the server that takes a [`CallId`] gets exactly one [`Output::Answer`], unless the server leaves
///   with [`Departure::Broken`] first.
/// * Every [`Output::Grant`] and [`Output::Deliver`] ends with a report of the caller or with [`Output::Stop`].
/// * Reports and wake-ups that name nothing (any more) are counted and ignored.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    outputs: VecDeque<Output>,
    counters: Counters,
}

// The bodies follow in the modules; the signatures are final.
#[allow(
    clippy::needless_pass_by_value,
    clippy::unused_self,
    clippy::missing_const_for_fn,
    unused_variables,
    reason = "signatures first"
)]
impl Engine {
    /// An engine without clients and server.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            config,
            outputs: VecDeque::new(),
            counters: Counters::default(),
        })
    }

    /// The next thing to be done.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Engine::tick`] has something to do; `None`: never, as things stand.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Time) {}

    // ---- clients ----

    /// A client attaches (HELLO). [`Errno::Busy`]: as many as allowed; [`Errno::TryAgain`]: draining.
    pub fn client_attached(&mut self, now: Time, attach: Attach) -> Result<Attached, Errno> {
        Err(Errno::Busy)
    }

    /// A client left (BYE, or its link broke). The engine forgets its requests and stops its transfers.
    pub fn client_lost(&mut self, now: Time, peer: Peer, how: Departure) {}

    /// zbmi_send (SEND_REQ).
    pub fn send(&mut self, now: Time, peer: Peer, request: RequestId, send: SendRequest) {}

    /// zbmi_recv (RECV_REQ).
    pub fn recv(&mut self, now: Time, peer: Peer, request: RequestId, recv: RecvRequest) {}

    /// zbmi_test (TEST_REQ).
    pub fn test(&mut self, now: Time, peer: Peer, request: RequestId, test: TestRequest) {}

    /// Ends a waiting request early (WAKE): it is answered as at its timeout. A request whose
    /// transfer runs goes on.
    pub fn wake(&mut self, now: Time, peer: Peer, request: RequestId) {}

    // ---- transfers ----

    /// Bytes of this transfer moved: in a stream, those of other transfers of the same client in the
    /// same direction wait behind it and do not count as stalled either.
    pub fn transfer_progressed(&mut self, now: Time, grant: GrantId) {}

    /// All bytes of a Grant are in the segment.
    pub fn transfer_arrived(&mut self, now: Time, grant: GrantId) {}

    /// The client gave a Grant back (ABORT), or sent another number of bytes than announced: nothing
    /// was sent. A receive of the server waits for the next message, its buffer's content undefined.
    pub fn transfer_aborted(&mut self, now: Time, grant: GrantId) {}

    /// The client has a Deliver (RECV_ACK), or could not take it.
    pub fn transfer_acknowledged(&mut self, now: Time, grant: GrantId, result: Result<(), Errno>) {}

    // ---- server ----

    /// The server attaches (INIT). [`Errno::Busy`]: there is one; [`Errno::TryAgain`]: draining.
    pub fn server_attached(&mut self, now: Time) -> Result<Session, Errno> {
        Err(Errno::Busy)
    }

    /// The server left (FINI, or its process died). After a farewell its unanswered commands are
    /// answered with [`Errno::NetDown`]; otherwise forgotten.
    pub fn server_lost(&mut self, now: Time, session: Session, how: Departure) {}

    /// POST_SEND, POST_RECV. Answered with `Registered`, `Immediate`, `NoMemory` or `Failed`.
    pub fn post(&mut self, now: Time, session: Session, call: CallId, post: Post) {}

    /// TEST. Answered with `Completions` or `Failed`.
    pub fn server_test(&mut self, now: Time, session: Session, call: CallId, test: ServerTest) {}

    /// UNEXP_TEST. Answered with `Messages` or `Failed`.
    pub fn unexp_test(&mut self, now: Time, session: Session, call: CallId, test: UnexpTest) {}

    /// UNEXP_FREE of the message at this offset. What is not the server's to free is counted and
    /// ignored.
    pub fn unexp_free(&mut self, now: Time, session: Session, offset: u64) {}

    /// CANCEL. Ignored when the operation is claimed or complete.
    pub fn cancel(&mut self, now: Time, session: Session, plugin: PluginId) {}

    /// DROP_PEER: the server forgot this client's address, so the pid of a dead client may be given
    /// to another one. [`Errno::NetReset`]: not the server's session.
    pub fn drop_peer(&mut self, now: Time, session: Session, pid: Pid) -> Result<(), Errno> {
        Err(Errno::NetReset)
    }

    /// WAKE: every sleeping TEST and UNEXP_TEST returns now.
    pub fn server_wake(&mut self, now: Time, session: Session) {}

    /// Nobody waits for this command's answer any more: a sleeping TEST or UNEXP_TEST is forgotten
    /// without an answer.
    pub fn abandon(&mut self, session: Session, call: CallId) {}

    /// An answer could not be delivered (its reply slot vanished): what it reported is reported again,
    /// before anything else.
    pub fn undelivered(&mut self, now: Time, session: Session, answer: Answer) {}

    // ---- the daemon ----

    /// Stops gracefully: waiting requests are answered, new ones refused, running transfers have
    /// [`Config::drain`] to end; then [`Output::Drained`].
    pub fn drain(&mut self, now: Time) {}

    /// The client that has this pid now, or may come back to it.
    #[must_use]
    pub fn peer(&self, pid: Pid) -> Option<Peer> {
        None
    }

    /// The attached server's session.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        None
    }

    /// What it was built with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How things stand.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        Gauges::default()
    }

    /// Messages and bytes of one client, and how often it was told "not now".
    #[must_use]
    pub fn client_traffic(&self, peer: Peer) -> Option<ClientTraffic> {
        None
    }
}

/// What one client moved since it attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientTraffic {
    /// Messages that it sent.
    pub sent: Traffic,
    /// Messages that it received.
    pub received: Traffic,
    /// How often it was told "not now".
    pub not_now: u64,
}
