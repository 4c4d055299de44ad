//! The client role: a compute process that exchanges messages with the one server on its I/O node.
//!
//! | Module | Contents |
//! |---|---|
//! | `queue` | operations that have not completed |
//! | `changes` | counts of their changes |
//! | `requests` | requests whose answers are still expected |
//! | `link` | one connection: frames in and out |
//! | `session` | reading, waiting, reconnection |
//! | `attempt` | `zbmi_send` and `zbmi_recv`: one attempt to complete one operation |
//! | `flight` | attempts that no thread waits for |
//! | `test` | `zbmi_test`: which attempts would succeed |
//!
//! The daemon stores nothing about an operation that found no counterpart; the client stores it. An operation
//! that its post does not complete is completed by a test, or fails with the session.

mod attempt;
mod changes;
mod flight;
mod link;
mod queue;
mod requests;
mod session;
mod test;

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bmi::{
    Class, Completions, Error, Limits, Method, OpId, Peer, Posted, Question, Received, Request,
    RequestKind, Setting, Traits, Wanted,
};
use sys::{Alarm, ForkMark};
use zoid_proto::fwd::{Frame, FrameType, Welcome};

use self::attempt::Outcome;
use self::queue::{Cancel, Key, Op, Waits};
use self::session::{Connection, State, header};
use crate::address::{Daemon, parse};
use crate::counters::Counters;
use crate::options::Options;
use crate::{question, setting};

/// The server: the only peer of a client.
const SERVER: Peer = Peer(0);

/// Limits until the daemon has sent its own: ZOID_MAX_EXPECTED_MSG and ZOID_MAX_UNEXPECTED_MSG.
const MAX_EXPECTED: u64 = 128 << 20;
const MAX_UNEXPECTED: u64 = 8192;

/// The longest interval at which the method's own thread looks for a PING.
const LOOK_IN_MAX: Duration = Duration::from_millis(500);

/// The time limit for sending BYE.
const FAREWELL: Duration = Duration::from_millis(200);

/// The method in the client role.
pub(crate) struct Client {
    options: Options,
    completions: Completions,
    counters: Arc<Counters>,
    /// The process that made the connection. A child after `fork` must not use it.
    process: ForkMark,
    /// The daemon to which the connection leads.
    daemon: Mutex<Option<Daemon>>,
    state: Mutex<State>,
    changed: Condvar,
    alarm: Alarm,
    closed: AtomicBool,
    /// Whether signals end waits.
    interruptible: AtomicBool,
    /// Whether posts return before their outcome is known.
    pipelined: AtomicBool,
    post_timeout_ms: AtomicU32,
    max_expected: AtomicU64,
    max_unexpected: AtomicU64,
    /// The method's own thread, until it is closed.
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// The outcome of a post.
enum Tried {
    Posted(Posted),
    Lost(Error),
}

/// A call of the program in progress; memory may be in use until it ends.
struct Inside<'a>(&'a Client);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.inside -= 1;
        if self.0.closed.load(Ordering::Relaxed) {
            self.0.changed.notify_all();
        }
    }
}

impl Client {
    /// Creates a client without a connection. The first address that is looked up names the daemon.
    ///
    /// # Errors
    ///
    /// No descriptor or no thread could be created.
    pub(crate) fn start(
        options: Options,
        completions: Completions,
        counters: Arc<Counters>,
    ) -> Result<Arc<Self>, Error> {
        let client = Arc::new(Self {
            interruptible: AtomicBool::new(options.interruptible),
            pipelined: AtomicBool::new(options.pipelined),
            options,
            completions,
            counters,
            process: ForkMark::new(),
            daemon: Mutex::new(None),
            state: Mutex::new(State::new(random()?)),
            changed: Condvar::new(),
            alarm: Alarm::new()?,
            closed: AtomicBool::new(false),
            post_timeout_ms: AtomicU32::new(0),
            max_expected: AtomicU64::new(MAX_EXPECTED),
            max_unexpected: AtomicU64::new(MAX_UNEXPECTED),
            keeper: Mutex::new(None),
        });
        // [ZOID-60]
        if !client.options.single_thread {
            let keeper = Arc::downgrade(&client);
            let thread = std::thread::Builder::new().name("zoid".to_owned());
            let keeper = thread.spawn(move || keep(&keeper))?;
            *client.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
        }
        Ok(client)
    }

    fn note_limits(&self, welcome: &Welcome) {
        self.max_expected
            .store(welcome.max_expected, Ordering::Relaxed);
        self.max_unexpected
            .store(welcome.max_unexpected, Ordering::Relaxed);
    }

    // [BMI-54]
    fn enter(&self) -> Result<Inside<'_>, Error> {
        if !self.process.is_own() {
            return Err(Error::Inval);
        }
        let mut state = self.lock();
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::NetDown);
        }
        state.inside += 1;
        Ok(Inside(self))
    }

    fn check(&self, request: &Request) -> Result<(), Error> {
        let limits = self.limits();
        let limit = match request.kind {
            RequestKind::Send | RequestKind::Receive => limits.expected,
            RequestKind::SendUnexpected(_) => limits.unexpected,
        };
        if request.peer != SERVER {
            return Err(Error::Inval);
        }
        if request.total > limit {
            return Err(Error::MsgSize);
        }
        Ok(())
    }

    /// Attempts the older operations of a key, oldest first, until one does not complete.
    fn attempt_older(&self, key: Key) {
        loop {
            let Some(older) = self.lock().queue.begin(key) else {
                return;
            };
            if !self.retry(older) {
                return;
            }
        }
    }

    /// Begins the operation; tests complete it.
    // [ZOID-64]
    fn post_pipelined(&self, op: Op, key: Key) -> Result<Posted, Error> {
        let state = self.lock();
        let begins = state.queue.is_oldest(&op) && !state.flights.are_full(key);
        drop(state);
        if begins {
            self.start_flight(op, self.post_timeout_ms.load(Ordering::Relaxed));
        } else {
            self.make_wait(op.id, key)?;
            self.start_next_flight(key);
            self.note_if_open(key);
        }
        Ok(Posted::Pending)
    }

    /// Queues an operation whose post found no counterpart, and tells tests of it.
    fn leave_queued(&self, op: OpId, key: Key) -> Result<Posted, Error> {
        if self.make_wait(op, key)? {
            let mut state = self.lock();
            self.note_open(&mut state, key);
        }
        Ok(Posted::Pending)
    }

    /// Queues an operation, unless its session has ended meanwhile. Returns false if it was cancelled.
    // [ZOID-28]
    fn make_wait(&self, op: OpId, key: Key) -> Result<bool, Error> {
        let mut state = self.lock();
        match state.queue.wait(op) {
            Waits::Queued => Ok(true),
            Waits::Cancelled => Ok(false),
            Waits::Orphaned(error) => {
                self.note_removed(state, key);
                Err(error)
            }
        }
    }
}

// [ZOID-5]
impl Method for Client {
    fn traits(&self) -> Traits {
        Traits {
            receives_unexpected: false,
        }
    }

    fn limits(&self) -> Limits {
        let limit = |value: &AtomicU64| {
            usize::try_from(value.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
        };
        Limits {
            expected: limit(&self.max_expected),
            unexpected: limit(&self.max_unexpected),
        }
    }

    fn lookup(&self, address: &str) -> Result<Peer, Error> {
        let daemon = parse(address, self.options.extended_addresses)?;
        let mut known = self.daemon.lock().unwrap_or_else(PoisonError::into_inner);
        // A connection leads to one daemon, which the first address names.
        match &*known {
            Some(known) if *known == daemon => return Ok(SERVER),
            Some(_) => return Err(Error::Inval),
            None => {}
        }
        let _inside = self.enter()?;
        self.lock().place = self.options.place(&daemon);
        self.connect_first()?;
        *known = Some(daemon);
        Ok(SERVER)
    }

    fn peer_name(&self, _peer: Peer) -> String {
        "zoid://".to_owned()
    }

    fn post(&self, request: &Request) -> Result<Posted, Error> {
        let _inside = self.enter()?;
        self.check(request)?;
        self.counters.posts().up();
        let lost = match self.post_once(request)? {
            Tried::Posted(posted) => return Ok(posted),
            Tried::Lost(error) => error,
        };
        // Nothing has moved. This call may be the first to notice that the daemon is another one.
        self.connected().map_err(|_| lost)?;
        match self.post_once(request)? {
            Tried::Posted(posted) => Ok(posted),
            Tried::Lost(error) => Err(error),
        }
    }

    // [ZOID-19]
    fn cancel(&self, op: OpId) -> Result<(), Error> {
        let _inside = self.enter()?;
        let mut state = self.lock();
        let cancelled = state.queue.cancel(op);
        let asking = state.flights.asking(op);
        drop(state);
        if let Some(ticket) = asking {
            // Tells the daemon to stop looking. If the daemon is gone, the attempt ends anyway.
            let _lost = self.write_frame(&ticket, &Frame::Wake, header(FrameType::WAKE), &[]);
        }
        if cancelled == Cancel::Removed {
            self.completions.complete(op, Err(Error::Cancel));
            let mut state = self.lock();
            state.changes.note_general();
            self.wake_sleepers(&state);
        }
        Ok(())
    }

    fn test(&self, wanted: &Wanted<'_>, wait: Duration) -> Result<(), Error> {
        let _inside = self.enter()?;
        self.run_test(wanted, wait)
    }

    // [ZOID-3]
    fn test_unexpected(
        &self,
        _class: Class,
        _capacity: usize,
        _wait: Duration,
        _messages: &mut Vec<Received>,
    ) -> Result<(), Error> {
        // Clients receive no unexpected messages.
        Ok(())
    }

    fn unexpected_waiting(&self) -> bool {
        false
    }

    fn wake(&self) {
        let mut state = self.lock();
        state.wakes += 1;
        self.wake_sleepers(&state);
    }

    // [OPT-2]
    fn set(&self, _peer: Option<Peer>, setting: &Setting) -> Result<(), Error> {
        // [OPT-5]
        if let Setting::PostTimeout(time) = setting {
            let timeout = i32::try_from(time.as_millis()).map_err(|_| Error::Inval)?;
            self.post_timeout_ms
                .store(timeout.unsigned_abs(), Ordering::Relaxed);
        }
        if let Some(interruptible) = setting::interruptible(setting) {
            self.interruptible.store(interruptible, Ordering::Relaxed);
        }
        if let Some(pipelined) = setting::pipelined(setting) {
            self.pipelined.store(pipelined, Ordering::Relaxed);
        }
        Ok(())
    }

    fn get(&self, _peer: Option<Peer>, question: Question) -> Result<u64, Error> {
        match question {
            Question::PostTimeout => Ok(self.post_timeout_ms.load(Ordering::Relaxed).into()),
            // [WATCH-5]
            question::EPOCH => Ok(self.epoch()),
            question::LINK => Ok(u64::from(self.epoch() != 0)),
            _ => Err(Error::NoSys),
        }
    }

    fn may_forget(&self, _peer: Peer) -> bool {
        !matches!(self.lock().connection, Connection::Up(_))
    }

    fn forget(&self, _peer: Peer) {
        // The server is not gone, but the program has no address for it any more, so pending operations
        // cannot complete.
        let condemned = self.lock().queue.take(|_| true);
        for op in condemned {
            self.completions.complete(op, Err(Error::ConnReset));
        }
        // A sleeping test may wait for one of them.
        self.wake_sleepers(&self.lock());
    }

    fn close(&self) {
        if self.closed.swap(true, Ordering::SeqCst) || !self.process.is_own() {
            return;
        }
        let state = self.lock();
        let link = match &state.connection {
            Connection::Up(link) => Some(Arc::clone(link)),
            Connection::Down { .. } => None,
        };
        self.wake_sleepers(&state);
        let exposed = state.is_exposed();
        drop(state);
        if let Some(link) = link {
            // Best effort: the end of the stream has the same meaning.
            let free = link.is_free(FAREWELL);
            if free {
                let _late = self.send(&link, &Frame::Bye, 0, FAREWELL);
            }
            match free {
                _ if exposed => link.finish(),
                true => link.shut_down(),
                false => link.cut(),
            }
        }
        let mut state = self.lock();
        while state.inside > 0 || state.is_filling() || state.is_held() {
            self.wake_sleepers(&state);
            let waited = self.changed.wait_timeout(state, FAREWELL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.drop_flights();
        drop(state);
        self.forbid_tracing();
        self.end_keeper();
    }
}

impl Client {
    /// Ends the method's own thread, so that no code of the library runs after finalize.
    fn end_keeper(&self) {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(keeper) = keeper.take() else {
            return;
        };
        keeper.thread().unpark();
        // A thread that panicked has ended as well.
        let _ended = keeper.join();
    }

    /// Returns how long an operation waits for a server that has gone; `None`: without a limit.
    fn server_limit(&self) -> Option<Duration> {
        let options = &self.options;
        options
            .server_timeout
            .filter(|_| !options.keep_on_server_restart)
    }

    /// Fails the operations that have waited too long for a server: the last one is gone, and no other has
    /// come.
    // [DEATH-17]
    fn fail_overdue(&self) {
        let Some(limit) = self.server_limit() else {
            return;
        };
        let mut state = self.lock();
        let Some(gone) = state.server.gone() else {
            return;
        };
        let is_overdue = |posted: Instant| gone.max(posted).elapsed() >= limit;
        let condemned = state.queue.take_posted(is_overdue);
        drop(state);
        if condemned.is_empty() {
            return;
        }
        let operations = condemned.len();
        tracing::warn!(operations, ?limit, "no server has come; operations fail");
        for op in condemned {
            self.completions.complete(op, Err(Error::ConnReset));
        }
        let mut state = self.lock();
        state.changes.note_general();
        self.wake_sleepers(&state);
    }

    /// Attempts an operation. `Lost`: the connection was lost before anything moved.
    // [ZOID-11]
    fn post_once(&self, request: &Request) -> Result<Tried, Error> {
        // Notices a lost session first, so that the operation belongs to the current one. Without a daemon,
        // its attempt fails.
        let _away = self.connected();
        let mut state = self.lock();
        if let Some(error) = state.queue.take_rejection(request.kind, request.tag) {
            return Err(error);
        }
        let op = state.queue.add(request);
        drop(state);
        let key = Key::of(op.kind, op.tag);
        if self.pipelined.load(Ordering::Relaxed) {
            return self.post_pipelined(op, key).map(Tried::Posted);
        }
        if !self.lock().queue.is_oldest(&op) {
            self.attempt_older(key);
            if !self.lock().queue.is_oldest(&op) {
                return self.leave_queued(op.id, key).map(Tried::Posted);
            }
        }
        let timeout = self.post_timeout_ms.load(Ordering::Relaxed);
        match self.attempt(&op, timeout) {
            Outcome::NotNow => self.leave_queued(op.id, key).map(Tried::Posted),
            Outcome::Done(len) => {
                let mut state = self.lock();
                state.queue.complete(op.id);
                self.note_removed(state, key);
                self.counters.posts_immediate().up();
                self.counters.post_to_end().add(op.posted.elapsed());
                Ok(Tried::Posted(Posted::Immediate(len)))
            }
            Outcome::Unasked(error) => {
                self.complete_post(op.id, key);
                Ok(Tried::Lost(error))
            }
            // An operation that waited for a counterpart may have had one, which is gone with the session.
            Outcome::Lost(error) if timeout == 0 || !op.is_expected() => {
                self.complete_post(op.id, key);
                Ok(Tried::Lost(error))
            }
            Outcome::Failed(error) | Outcome::Lost(error) => {
                self.complete_post(op.id, key);
                Err(error)
            }
            Outcome::Unknown(_) => {
                self.complete_post(op.id, key);
                Err(Error::ConnReset)
            }
        }
    }

    /// Removes the operation of a post, so that others of its key may be attempted.
    fn complete_post(&self, op: OpId, key: Key) {
        let mut state = self.lock();
        state.queue.remove(op);
        self.note_removed(state, key);
    }

    /// Attempts others of the key, if there are any.
    fn note_removed(&self, mut state: MutexGuard<'_, State>, key: Key) {
        self.note_completed(&mut state);
        if state.queue.has(key) {
            self.note_open(&mut state, key);
        }
    }
}

/// Answers PING while the program computes.
fn keep(client: &Weak<Client>) {
    // Otherwise a signal for the program's threads could be delivered to this thread.
    let _never_fails = sys::block_signals();
    let mut pause = LOOK_IN_MAX;
    loop {
        std::thread::park_timeout(pause);
        match client.upgrade() {
            Some(client) if !client.closed.load(Ordering::Relaxed) => {
                // Closing waits for this thread, too, because it may use the memory of operations.
                let Ok(_inside) = client.enter() else {
                    return;
                };
                client.poll_once();
                client.fail_overdue();
                pause = LOOK_IN_MAX.min(client.heartbeat() / 2);
            }
            _ => return,
        }
    }
}

/// Returns sixteen random bytes, the client's unique id.
fn random() -> Result<[u8; 16], Error> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
