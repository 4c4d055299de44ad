//! The server role: the one process on an I/O node with which clients exchange messages.
//!
//! | Module | Contents |
//! |---|---|
//! | `attachment` | one attachment to a daemon: session, segment, sleeping threads |
//! | `control` | commands and replies over message queues |
//! | `journal` | the reply queues' names, for cleaning up |
//! | `watch` | whether the daemon lives |
//! | `pool` | memory of the expected region |
//! | `ops` | operations that have not completed |
//! | `waiting` | operations that wait for a temporary buffer |
//! | `peers` | clients |
//! | `post`, `test` | the calls of these names |
//!
//! Locks: `attachment`, `ops`, `named`, `waiting`, `peers`, the pool, the gate of sleepers, the reply slots.
//! None is taken while another of these is held, with two exceptions: `ops` and the pool's lock are taken
//! under `waiting`, and a call takes the descriptors of reply slots under the gate. None is held while a
//! command is answered, while memory is freed, or while the interface is told of a completion.

mod attachment;
mod control;
mod journal;
mod ops;
mod peers;
mod pool;
mod post;
mod test;
mod waiting;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bmi::{
    Class, Completions, ContextId, Error, Limits, Method, OpId, Peer, Posted, Question, Received,
    Request, Setting, Traits, Wanted,
};
use sys::span::Span;
use sys::{Event, ForkMark, Waited};
use zoid_proto::Instance;
use zoid_proto::ctl::Request as Command;

use self::attachment::{Attachment, NotAttached};
use self::ops::Ops;
use self::peers::{ITSELF, Peers};
use self::pool::Pool;
use self::waiting::{AGE_MAX, Waiting};
use crate::address::{Daemon, parse};
use crate::counters::Counters;
use crate::options::Options;
use crate::{question, setting};

/// How often a server without a daemon tries to attach.
const RETRY: Duration = Duration::from_millis(100);

/// After which time a server without a daemon says what it waits for.
const TELL: Duration = Duration::from_secs(2);

/// How long a server keeps trying if another server is attached. A killed process stays attached until the
/// system has freed its memory, and other processes see its death earlier.
const BUSY: Duration = Duration::from_secs(1);

/// How often it tries.
const BUSY_RETRY: Duration = Duration::from_millis(10);

/// Instances with a server in this process: a second server's reply queues would have the same names.
static SERVED: Mutex<BTreeSet<Instance>> = Mutex::new(BTreeSet::new());

/// The method in the server role.
pub(crate) struct Server {
    options: Options,
    completions: Completions,
    counters: Arc<Counters>,
    process: u32,
    mark: ForkMark,
    attachment: Mutex<Link>,
    /// Notified of changes that a thread without a daemon may wait for.
    changed: Event,
    ops: Mutex<Ops>,
    /// What tests wait for, and the number of these tests.
    named: Mutex<BTreeMap<Sought, usize>>,
    waiting: Mutex<Waiting>,
    /// Whether a thread serves the operations that wait for memory; another one may ask it to look again.
    walking: AtomicBool,
    walk_again: AtomicBool,
    peers: Mutex<Peers>,
    closed: AtomicBool,
    /// Whether signals end waits.
    interruptible: AtomicBool,
    /// Whether posts return before their transfer.
    pipelined: AtomicBool,
    /// The number of threads that may use memory of the program.
    inside: AtomicUsize,
    /// Pools of former daemons whose memory programs still hold; such memory is copied.
    former: Mutex<Vec<Weak<Pool>>>,
    /// The longest expected and unexpected message, according to the last daemon.
    limits: Mutex<(u64, u64)>,
    /// How often the interface has ended all sleeps, or an operation was registered late.
    wakes: AtomicU64,
    /// Set until the end of `close`.
    served: Mutex<Option<Served>>,
}

/// What a test waits for: an operation, or any of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sought {
    Op(OpId),
    Context(ContextId),
}

/// The server's daemon, if there is one.
#[derive(Default)]
struct Link {
    current: Option<Arc<Attachment>>,
    next_try: Option<Instant>,
    attaching: bool,
}

/// Keeps this process from serving an instance twice.
struct Served(Instance);

impl Served {
    fn claim(instance: &Instance) -> Result<Self, Error> {
        let mut served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
        if !served.insert(instance.clone()) {
            return Err(Error::Busy);
        }
        Ok(Self(instance.clone()))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let mut served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
        served.remove(&self.0);
    }
}

impl Server {
    /// Waits for the daemon and attaches to it.
    ///
    /// # Errors
    ///
    /// [`Error::ConnRefused`]: no daemon in time. [`Error::Busy`]: another server is attached, and still
    /// lived a second later. [`Error::Intr`]: a signal ended the wait.
    pub(crate) fn start(
        options: Options,
        completions: Completions,
        counters: Arc<Counters>,
    ) -> Result<Arc<Self>, Error> {
        let server = Arc::new(Self {
            served: Mutex::new(Some(Served::claim(&options.instance)?)),
            interruptible: AtomicBool::new(options.interruptible),
            pipelined: AtomicBool::new(options.pipelined),
            options,
            completions,
            counters,
            process: std::process::id(),
            mark: ForkMark::new(),
            attachment: Mutex::default(),
            changed: Event::default(),
            ops: Mutex::default(),
            named: Mutex::default(),
            waiting: Mutex::default(),
            walking: AtomicBool::new(false),
            walk_again: AtomicBool::new(false),
            peers: Mutex::default(),
            closed: AtomicBool::new(false),
            inside: AtomicUsize::new(0),
            former: Mutex::default(),
            limits: Mutex::default(),
            wakes: AtomicU64::new(0),
        });
        server.attach_first()?;
        Ok(server)
    }

    // [DEATH-30]
    fn attach_first(self: &Arc<Self>) -> Result<(), Error> {
        let began = Instant::now();
        let mut told = false;
        loop {
            match Attachment::attach(&self.options, self.process, &self.counters) {
                Ok(attachment) => return self.adopt(attachment).map(drop),
                Err(NotAttached::Refused(Error::Busy)) if began.elapsed() < BUSY => {
                    self.sleep(BUSY_RETRY)?;
                    continue;
                }
                Err(NotAttached::Refused(error)) => return Err(error),
                Err(NotAttached::NotYet) => {}
            }
            let limit = self.options.server_connect;
            if limit.is_some_and(|limit| began.elapsed() >= limit) {
                return Err(Error::ConnRefused);
            }
            if !told && began.elapsed() >= TELL {
                let instance = &self.options.instance;
                tracing::warn!(
                    target: "zoid::waiting",
                    "this server waits for its daemon: finerail zoid daemon --instance {instance}; \
                     ZBMI_CONNECT_TIMEOUT_MS limits the wait"
                );
                told = true;
            }
            self.sleep(RETRY)?;
        }
    }

    /// Sleeps.
    ///
    /// # Errors
    ///
    /// [`Error::Intr`]: a signal ended the sleep.
    // [ZOID-62]
    fn sleep(&self, time: Duration) -> Result<(), Error> {
        match self.changed.wait(self.changed.count(), time) {
            Waited::Signal if self.interruptible() => Err(Error::Intr),
            _ => Ok(()),
        }
    }

    fn interruptible(&self) -> bool {
        self.interruptible.load(Ordering::Relaxed)
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.attachment
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a new attachment, unless the method was closed meanwhile.
    fn adopt(self: &Arc<Self>, attachment: Attachment) -> Result<Arc<Attachment>, Error> {
        let server = Arc::downgrade(self);
        attachment.pool.on_free(move || {
            if let Some(server) = server.upgrade() {
                server.memory_freed();
            }
        });
        let attachment = Arc::new(attachment);
        *lock(&self.limits) = (attachment.max_expected, attachment.max_unexpected);
        let mut link = self.link();
        if self.closed.load(Ordering::SeqCst) {
            drop(link);
            attachment.detach();
            return Err(Error::NetDown);
        }
        link.current = Some(Arc::clone(&attachment));
        drop(link);
        attachment.report(&self.counters);
        self.changed.notify();
        // Operations posted without a daemon wait for the memory of this one.
        self.memory_freed();
        Ok(attachment)
    }

    /// Returns the attachment; without one, tries to attach again.
    ///
    /// # Errors
    ///
    /// [`Error::NetDown`]: there is no daemon now, or the method is closed.
    fn attached(&self) -> Result<Arc<Attachment>, Error> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::NetDown);
        }
        match &self.link().current {
            Some(attachment) => Ok(Arc::clone(attachment)),
            None => Err(Error::NetDown),
        }
    }

    /// Returns the attachment, after a new attempt to attach if there is none.
    // [DEATH-20]
    fn reattached(self: &Arc<Self>) -> Result<Arc<Attachment>, Error> {
        if let Ok(attachment) = self.attached() {
            return Ok(attachment);
        }
        let mut link = self.link();
        let now = Instant::now();
        let early = link.next_try.is_some_and(|at| now < at);
        if link.attaching || early || self.closed.load(Ordering::SeqCst) {
            return Err(Error::NetDown);
        }
        link.attaching = true;
        drop(link);
        let attached = Attachment::attach(&self.options, self.process, &self.counters);
        let mut link = self.link();
        link.attaching = false;
        link.next_try = Some(Instant::now() + RETRY);
        drop(link);
        match attached {
            Ok(attachment) => {
                self.counters.reconnects().up();
                self.adopt(attachment)
            }
            Err(_) => Err(Error::NetDown),
        }
    }

    /// Handles an error of a command. If the daemon is gone, everything registered there is lost.
    fn check_result<T>(
        &self,
        attachment: &Arc<Attachment>,
        result: Result<T, Error>,
    ) -> Result<T, Error> {
        match result {
            Err(Error::NetReset) => {
                self.lose(attachment, Error::NetReset);
                Err(Error::NetReset)
            }
            Err(Error::NetDown) if !self.closed.load(Ordering::SeqCst) => {
                self.lose(attachment, Error::NetDown);
                Err(Error::NetDown)
            }
            other => other,
        }
    }

    // [DEATH-20]
    fn lose(&self, attachment: &Arc<Attachment>, error: Error) {
        let mut link = self.link();
        match &link.current {
            Some(current) if Arc::ptr_eq(current, attachment) => link.current = None,
            _ => return,
        }
        drop(link);
        tracing::warn!(%error, "the daemon has ended");
        attachment.close_queues();
        let mut former = lock(&self.former);
        former.retain(|pool| pool.strong_count() > 0);
        former.push(Arc::downgrade(&attachment.pool));
        drop(former);
        let waited = lock(&self.waiting).clear();
        self.counters.memory_waits_over().add(waited);
        let fallen = lock(&self.ops).take_all();
        for (id, op) in fallen {
            // The memory is freed before the interface is told.
            drop(op);
            self.completions.complete(id, Err(error));
        }
        attachment.wake();
        self.changed.notify();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The interface's handle. It holds the server so that pieces of the pool can find it.
pub(crate) struct Handle(pub(crate) Arc<Server>);

/// A thread that may use memory of the program; closing waits for it.
struct Inside<'a>(&'a Arc<Server>);

impl Deref for Inside<'_> {
    type Target = Arc<Server>;

    fn deref(&self) -> &Arc<Server> {
        self.0
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
        if self.0.closed.load(Ordering::SeqCst) {
            self.0.changed.notify();
        }
    }
}

impl Handle {
    fn enter(&self) -> Result<Inside<'_>, Error> {
        self.0.enter()
    }
}

// [ZOID-5]
impl Method for Handle {
    fn traits(&self) -> Traits {
        Traits {
            receives_unexpected: true,
        }
    }

    fn limits(&self) -> Limits {
        let limit = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let (expected, unexpected) = *lock(&self.0.limits);
        Limits {
            expected: limit(expected),
            unexpected: limit(unexpected),
        }
    }

    fn lookup(&self, address: &str) -> Result<Peer, Error> {
        match parse(address, self.0.options.extended_addresses)? {
            Daemon::Own => Ok(ITSELF),
            Daemon::Instance(_) | Daemon::Tcp { .. } => Err(Error::Inval),
        }
    }

    // [ADDR-13]
    fn peer_name(&self, peer: Peer) -> String {
        match lock(&self.0.peers).client(peer) {
            Some(client) => format!("zoid://#{}", client.pid),
            None => "zoid://".to_owned(),
        }
    }

    fn post(&self, request: &Request) -> Result<Posted, Error> {
        let server = self.enter()?;
        let posted = server.post(request)?;
        server.counters.posts().up();
        if matches!(posted, Posted::Immediate(_)) {
            server.counters.posts_immediate().up();
        }
        Ok(posted)
    }

    fn cancel(&self, op: OpId) -> Result<(), Error> {
        self.enter()?.cancel(op);
        Ok(())
    }

    fn test(&self, wanted: &Wanted<'_>, wait: Duration) -> Result<(), Error> {
        self.enter()?.test(wanted, wait)
    }

    fn test_unexpected(
        &self,
        class: Class,
        capacity: usize,
        wait: Duration,
        messages: &mut Vec<Received>,
    ) -> Result<(), Error> {
        self.enter()?
            .test_unexpected(class, capacity, wait, messages)
    }

    fn unexpected_waiting(&self) -> bool {
        self.0
            .attached()
            .is_ok_and(|attachment| attachment.unexpected_waiting())
    }

    fn wake(&self) {
        self.0.wake_all();
    }

    fn allocate(&self, _peer: Peer, len: usize) -> Result<Span, Error> {
        self.enter()?.allocate(len)
    }

    // [OPT-2]
    fn set(&self, peer: Option<Peer>, setting: &Setting) -> Result<(), Error> {
        let server = self.enter()?;
        if let (Some(peer), Setting::CloseConnection) = (peer, setting) {
            server.disconnect(peer);
        }
        if let Some(interruptible) = setting::interruptible(setting) {
            server.interruptible.store(interruptible, Ordering::Relaxed);
        }
        if let Some(pipelined) = setting::pipelined(setting) {
            server.pipelined.store(pipelined, Ordering::Relaxed);
        }
        Ok(())
    }

    fn get(&self, _peer: Option<Peer>, question: Question) -> Result<u64, Error> {
        match question {
            // Posts of a server never wait for a client.
            Question::PostTimeout => Ok(0),
            // [WATCH-5]
            question::EPOCH => Ok(self.0.attached().map_or(0, |attachment| attachment.epoch)),
            question::LINK => Ok(u64::from(self.0.attached().is_ok())),
            _ => Err(Error::NoSys),
        }
    }

    fn may_forget(&self, peer: Peer) -> bool {
        let session = self.0.attached().ok().map(|attachment| attachment.session);
        lock(&self.0.peers).is_gone(peer, session)
    }

    fn forget(&self, peer: Peer) {
        self.0.forget(peer);
        lock(&self.0.peers).forget(peer);
    }

    fn close(&self) {
        if self.0.mark.is_own() {
            self.0.close();
        }
    }
}

impl Server {
    // [BMI-54]
    fn enter(self: &Arc<Self>) -> Result<Inside<'_>, Error> {
        if !self.mark.is_own() {
            return Err(Error::Inval);
        }
        self.inside.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(self);
        if self.closed.load(Ordering::SeqCst) {
            return Err(Error::NetDown);
        }
        Ok(inside)
    }

    /// Allocates memory for the program, unless operations have waited for memory for too long.
    // [MEM-3]
    fn allocate(&self, len: usize) -> Result<Span, Error> {
        let attachment = self.attached()?;
        let now = Instant::now();
        let overdue = lock(&self.waiting).overdue(now);
        if overdue.is_some_and(|size| attachment.pool.room(AGE_MAX, now).fits(size)) {
            self.counters.allocations_held_back().up();
            return Err(Error::NoMem);
        }
        attachment.lease(len).ok_or(Error::NoMem)
    }

    fn wake_all(&self) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        if let Ok(attachment) = self.attached() {
            attachment.wake();
        }
        self.changed.notify();
    }

    /// Handles the end of a client's address. The client's operations are cancelled; the plugin decides about
    /// those that it has registered, because it may be moving their bytes.
    // [OPT-9]
    fn forget(self: &Arc<Self>, peer: Peer) {
        let Ok(_inside) = self.enter() else {
            return;
        };
        let forgotten = lock(&self.ops).forget(peer);
        for op in forgotten {
            self.cancel(op);
        }
        self.drop_peer(peer, false);
    }

    /// Closes a client's connection; operations with the client fail.
    // [OPT-10]
    fn disconnect(&self, peer: Peer) {
        self.drop_peer(peer, true);
        lock(&self.peers).note_gone(peer);
    }

    fn drop_peer(&self, peer: Peer, disconnect: bool) {
        let client = lock(&self.peers).client(peer);
        let (Some(client), Ok(attachment)) = (client, self.attached()) else {
            return;
        };
        if client.session != attachment.session {
            return;
        }
        let peer = client.pid;
        let dropped = attachment.call(&Command::DropPeer { peer, disconnect });
        let dropped = dropped.and_then(|answer| answer.reply().map(|_| ()));
        if let Err(error) = self.check_result(&attachment, dropped) {
            tracing::debug!(%error, "cannot notify the daemon that a client's address was dropped");
        }
    }

    fn close(&self) {
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        let attachment = self.link().current.take();
        self.changed.notify();
        if let Some(attachment) = attachment {
            attachment.wake();
            attachment.detach();
        }
        // Every wait of other threads ends now, by FINI or because the watch is closed.
        let mut seen = self.changed.count();
        while self.inside.load(Ordering::SeqCst) > 0 {
            self.changed.wait(seen, RETRY);
            seen = self.changed.count();
        }
        let waited = lock(&self.waiting).clear();
        self.counters.memory_waits_over().add(waited);
        let fallen = lock(&self.ops).take_all();
        drop(fallen);
        // From now on another server of this process may use the names.
        *lock(&self.served) = None;
    }
}
