//! The handle that programs hold, and the loop that drives the engine.

pub(crate) mod operations;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lnet_core::{InsertPosition, MdHandle, MdOptions, MdSpec, MeSpec, PortalError};
use lnet_tcp::{Sockets, Staging};
use lnet_types::{Nid, ProcessId, Time};
use mio::{Events, Poll, Token, Waker};
use thiserror::Error;
use tracing::warn;

use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::engine::{Engine, InterfaceError, NiSettings};
use crate::fair::Fair;
use crate::options::{NodeOptions, Progress};
use crate::queue::{EVENTS_MAX, EventQueue, QueueState};
use crate::rest::Rest;
use crate::stack::{Md, Memory, Registered};
use crate::stats::NodeStats;

/// A running LNet node. Clones are handles of the same node; any thread may call.
///
/// The node runs until [`Node::shutdown`], or until the last handle is dropped; then it closes its connections without
/// waiting for messages in flight. Event queues do not keep the node running: they return their events and report the end.
#[derive(Clone)]
pub struct Node {
    shared: Arc<Shared>,
    threads: Arc<Threads>,
}

/// A match entry: the description of the messages that a descriptor accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchEntry {
    /// Portal, 0 to 63; 0 is LNet's own.
    pub portal: u32,
    /// The initiators that match; NID and pid may each be the wildcard.
    pub match_id: ProcessId,
    /// Bits that must equal the message's match bits, except where `ignore_bits` has a 1.
    pub match_bits: u64,
    /// Bits that are not compared.
    pub ignore_bits: u64,
    /// Whether to insert the entry before or after the existing entries of the portal.
    pub position: InsertPosition,
}

impl MatchEntry {
    /// Returns an entry that accepts messages from any initiator on `portal` with exactly these match bits.
    #[must_use]
    pub const fn exact(portal: u32, match_bits: u64) -> Self {
        Self {
            portal,
            match_id: ProcessId::ANY,
            match_bits,
            ignore_bits: 0,
            position: InsertPosition::After,
        }
    }
}

/// The reason why a node cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The operating system rejected the event loop, its waker or a thread.
    #[error("cannot set up the event loop: {0}")]
    EventLoop(io::Error),
    /// The operating system gives no random bytes, so the node's handles could be guessed.
    #[error("cannot get random bytes: {0}")]
    Random(getrandom::Error),
    /// An interface cannot be taken into use.
    #[error("cannot use {nid}: {error}")]
    Interface {
        /// The NID.
        nid: Nid,
        /// What is wrong with it.
        error: InterfaceError,
    },
}

/// The reason why a call was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NodeError {
    /// The core rejected the call.
    #[error(transparent)]
    Portal(#[from] PortalError),
    /// A descriptor that receives payload has immutable memory.
    #[error("a descriptor that receives data needs a sink, not a source")]
    NotWritable,
    /// The memory is longer than a descriptor can be (4 GiB − 1).
    #[error("memory of {0} bytes is longer than a descriptor can be")]
    TooLong(usize),
    /// The node is shutting down.
    #[error("the node is shutting down")]
    ShutDown,
}

/// The outcome of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    /// True if nothing was in flight any more; false if the grace period expired first.
    pub clean: bool,
}

/// The state that all handles, queues and the driver share.
pub(crate) struct Shared {
    engine: Fair<Engine>,
    driver: Mutex<Driver>,
    waker: Waker,
    clock: Clock,
    progress: Progress,
    spin: Duration,
    callers_act_as_others: bool,
    alarm: Alarm,
    /// The number of calls since the last flush, if callers drive.
    deferred: AtomicU32,
    /// The number of events taken since the last turn, if callers drive.
    taken: AtomicU32,
    /// The place where the I/O threads beside the driver wait while there is nothing to move.
    rest: Rest,
    /// The number of callers that wait, or are about to, including the caller that drives.
    followers: AtomicU32,
    /// The latest time at which the driver stops, in nanoseconds, or [`RUNNING`].
    stop_at: AtomicU64,
    /// The longest time that an administrator's call held the engine since the last reading, in nanoseconds.
    longest_hold: AtomicU64,
}

/// The part of the event loop that one thread at a time may use.
pub(crate) struct Driver {
    poll: Poll,
    events: Events,
    staging: Staging,
}

/// The threads of a node: the driver and the I/O threads beside it. They end when the last handle is dropped.
struct Threads {
    shared: Arc<Shared>,
    /// The handle of the driver first.
    handles: Mutex<Vec<JoinHandle<()>>>,
}

/// The tokens of the waker, of link notifications and of RDMA devices; those of the LND follow.
const WAKER: Token = Token(0);
pub(crate) const LINKS: Token = Token(1);
pub(crate) const RDMA: Token = Token(2);
pub(crate) const FIRST_LND_TOKEN: usize = 3;

/// The most readiness events taken in one turn: enough to batch, few enough to keep a turn short.
const EVENTS_PER_TURN: usize = 256;

/// Reads and writes between two polls of the sockets. Each moves at most about a megabyte.
const JOBS_PER_TURN: usize = 64;

/// Writes that a program's call does itself before it leaves the rest to the driver.
const JOBS_PER_CALL: usize = 4;

/// How long a stopped node waits between two looks whether threads still move bytes. A job takes about a millisecond.
const JOB_PAUSE: Duration = Duration::from_millis(1);

/// Calls whose messages may wait for the next flush. With a page each, they fill half of a socket's buffer.
const DEFERRED_CALLS_MAX: u32 = 32;

/// Events that callers may take before the sockets are polled again.
const EVENTS_WITHOUT_TURN_MAX: u32 = 64;

/// The value of `stop_at` while the node is not stopping.
const RUNNING: u64 = u64::MAX;

/// The driver wakes at least this often, so that a call from another thread need not wake it for a later deadline.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

impl Node {
    /// Starts a node without interfaces; [`Node::with_engine`] can add them.
    ///
    /// # Errors
    ///
    /// An error of the operating system.
    pub fn start(options: NodeOptions) -> Result<Self, StartError> {
        Self::start_with(options, |_, _| Ok(()))
    }

    /// Starts a node with these interfaces and their default settings.
    ///
    /// # Errors
    ///
    /// An error of the operating system, or [`StartError::Interface`]: an address that this machine does not have, a
    /// port that is in use or needs a privilege.
    pub fn start_on(options: NodeOptions, nids: &[Nid]) -> Result<Self, StartError> {
        Self::start_with(options, |engine, now| {
            for &nid in nids {
                let added = engine.add_interface(nid, NiSettings::default(), now);
                added.map_err(|error| StartError::Interface { nid, error })?;
            }
            Ok(())
        })
    }

    /// Starts a node and configures it with `set_up`: interfaces, routes, peers, rules. The node accepts nothing from
    /// the network before `set_up` returns.
    ///
    /// # Errors
    ///
    /// An error of the operating system, or the error that `set_up` returns; in both cases the node does not start.
    pub fn start_with<E: From<StartError>>(
        options: NodeOptions,
        set_up: impl FnOnce(&mut Engine, Time) -> Result<(), E>,
    ) -> Result<Self, E> {
        let poll = Poll::new().map_err(StartError::EventLoop)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(StartError::EventLoop)?;
        let clock = Clock::start();
        let registry = poll.registry().try_clone().map_err(StartError::EventLoop)?;
        let mut engine = Engine::new(&options, registry, clock)?;
        engine.watch_links(poll.registry());
        let now = engine.now();
        set_up(&mut engine, now)?;
        let shared = Arc::new(Shared {
            engine: Fair::new(engine),
            driver: Mutex::new(Driver {
                poll,
                events: Events::with_capacity(EVENTS_PER_TURN),
                staging: Staging::default(),
            }),
            waker,
            clock,
            progress: options.progress,
            spin: options.spin,
            callers_act_as_others: options.callers_act_as_others,
            alarm: Alarm::new(),
            deferred: AtomicU32::new(0),
            taken: AtomicU32::new(0),
            rest: Rest::new(),
            followers: AtomicU32::new(0),
            stop_at: AtomicU64::new(RUNNING),
            longest_hold: AtomicU64::new(0),
        });
        let threads = Threads::start(&shared, &options)?;
        Ok(Self {
            shared,
            threads: Arc::new(threads),
        })
    }

    /// Returns the NIDs of this node without loopback, in configuration order; the first is the primary NID.
    #[must_use]
    pub fn nids(&self) -> Vec<Nid> {
        let engine = self.shared.engine();
        let nids = engine.core().nis().map(|ni| ni.nid);
        nids.filter(|nid| !nid.is_loopback()).collect()
    }

    /// Returns the primary NID, by which peers know this node; loopback's NID if the node has no interfaces.
    #[must_use]
    pub fn primary_nid(&self) -> Nid {
        let engine = self.shared.engine();
        engine.core().primary_nid().unwrap_or(Nid::LOOPBACK)
    }

    /// Returns a new event queue. If the node is shutting down, the queue has already ended.
    #[must_use]
    pub fn event_queue(&self) -> EventQueue {
        self.event_queue_of(EVENTS_MAX)
    }

    /// Returns a new event queue that holds at most `max` events.
    pub(crate) fn event_queue_of(&self, max: usize) -> EventQueue {
        let state = Arc::new(QueueState::new(max));
        let mut engine = self.shared.engine();
        engine.queues.retain(|queue| queue.strong_count() > 0);
        if self.shared.is_stopping() {
            // No new operation begins that could add an event to this queue.
            state.close();
        } else {
            engine.queues.push(Arc::downgrade(&state));
        }
        drop(engine);
        EventQueue::new(state, Arc::clone(&self.shared))
    }

    /// Attaches a descriptor behind a match entry, as a target for other nodes. The entry is removed with the
    /// descriptor.
    ///
    /// # Errors
    ///
    /// A portal of 64 or more, options without `OP_PUT` and `OP_GET`, a source where a sink is needed, an entry of
    /// the wrong kind for its portal.
    pub fn attach(
        &self,
        queue: &EventQueue,
        entry: MatchEntry,
        md: Md,
    ) -> Result<MdHandle, NodeError> {
        if md.options.contains(MdOptions::OP_PUT) && matches!(md.memory, Memory::Source(_)) {
            return Err(NodeError::NotWritable);
        }
        let spec = md_spec(&md)?;
        self.shared.with_engine(|engine, now| {
            let registered = registered(queue, md.memory);
            let entry = me_spec(entry);
            Ok(engine.stack.attach(entry, spec, registered, now)?)
        })
    }

    /// Binds a descriptor as the source of a put or the sink of a get; its memory is at most 1 MiB.
    ///
    /// # Errors
    ///
    /// Memory longer than a message, or options that only attached descriptors have.
    pub fn bind(&self, queue: &EventQueue, md: Md) -> Result<MdHandle, NodeError> {
        let spec = md_spec(&md)?;
        self.shared
            .with_engine(|engine, _| Ok(engine.stack.bind(spec, registered(queue, md.memory))?))
    }

    /// Removes a descriptor. Its queue still receives the event with `unlinked`, which returns the memory: at once if
    /// the descriptor is idle, else with its last operation.
    ///
    /// # Errors
    ///
    /// The descriptor is unknown or already removed.
    pub fn unlink(&self, md: MdHandle) -> Result<(), NodeError> {
        self.shared
            .with_engine(|engine, now| Ok(engine.core_mut().md_unlink(md, now)?))
    }

    /// Removes a descriptor as [`Node::unlink`] does, and cancels messages that are arriving in it. So a peer or
    /// router that stalls in the middle of a message cannot keep the memory. A cancelled message has an event of
    /// status `ECANCELED`.
    ///
    /// # Errors
    ///
    /// The descriptor is unknown or already removed.
    pub fn cancel(&self, md: MdHandle) -> Result<(), NodeError> {
        self.shared
            .with_engine(|engine, now| Ok(engine.core_mut().md_cancel(md, now)?))
    }

    /// Makes a portal lazy, so that puts wait there for a match entry; or makes it not lazy, which drops the waiting
    /// puts.
    ///
    /// # Errors
    ///
    /// A portal of 64 or more.
    pub fn set_lazy(&self, portal: u32, lazy: bool) -> Result<(), NodeError> {
        self.shared.with_engine(|engine, now| {
            let core = engine.core_mut();
            let set = if lazy {
                core.set_lazy(portal)
            } else {
                core.clear_lazy(portal, now)
            };
            Ok(set?)
        })
    }

    /// Lends the engine to the administrator of the node, who can read and change it between two messages. Messages
    /// that the changes produce are sent afterwards.
    ///
    /// The node's lock is held during `call`: no message moves, and a call of this node inside `call` would deadlock.
    /// Split long work into several calls.
    pub fn with_engine<R>(&self, call: impl FnOnce(&mut Engine, Time) -> R) -> R {
        let mut locked = None;
        let result = self.shared.run(|engine, now| {
            locked = Some(Instant::now());
            call(engine, now)
        });
        if let Some(locked) = locked {
            let nanos = u64::try_from(locked.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.shared.longest_hold.fetch_max(nanos, Ordering::Relaxed);
        }
        result
    }

    /// Returns the longest time that a call of [`Node::with_engine`] held the node's lock since the last reading, and
    /// resets it.
    #[must_use]
    pub fn take_longest_hold(&self) -> Duration {
        Duration::from_nanos(self.shared.longest_hold.swap(0, Ordering::Relaxed))
    }

    /// Lends the engine for reading. Holds the node's lock as [`Node::with_engine`] does, but runs nothing besides
    /// `look`.
    pub fn look<R>(&self, look: impl FnOnce(&Engine) -> R) -> R {
        look(&self.shared.engine())
    }

    /// Returns the counters of the node.
    #[must_use]
    pub fn stats(&self) -> NodeStats {
        self.look(NodeStats::of)
    }

    /// Drains the messages in flight for at most `grace`, closes every connection and ends the node's threads. Event
    /// queues keep the events that they hold and then report the end. From now on the node rejects calls that would
    /// begin something new. Waits until no thread uses [`Foreign`](crate::Foreign) memory, which may be freed then.
    pub fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.shared.stop_within(grace);
        self.threads.join();
        if self.shared.is_driven_by_callers() {
            self.shared.run_until_stopped();
        }
        let clean = self.shared.engine().core().is_idle();
        self.shared.close();
        ShutdownReport { clean }
    }
}

impl Shared {
    pub(crate) fn is_driven_by_callers(&self) -> bool {
        self.progress == Progress::Caller
    }

    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock()
    }

    /// Runs a call of a program through the engine, and wakes the driver if it would sleep too long.
    fn with_engine<R>(
        &self,
        call: impl FnOnce(&mut Engine, Time) -> Result<R, NodeError>,
    ) -> Result<R, NodeError> {
        if self.is_stopping() {
            return Err(NodeError::ShutDown);
        }
        self.run(call)
    }

    /// Runs a call, even if the node is stopping.
    fn run<R>(&self, call: impl FnOnce(&mut Engine, Time) -> R) -> R {
        let mut engine = self.engine();
        let now = engine.now();
        let result = call(&mut engine, now);
        // The kernel may refuse RDMA calls of this thread.
        let is_left = self.callers_act_as_others
            && !self.is_driven_by_callers()
            && engine.stack.rdma.is_some();
        let mut more = is_left || engine.stack.decide(now);
        if self.may_defer() {
            return result;
        }
        self.deferred.store(0, Ordering::Relaxed);
        let jobs = if is_left { 0 } else { JOBS_PER_CALL };
        for _ in 0..jobs {
            let Some(mut job) = engine.stack.lnd.next_write() else {
                break;
            };
            drop(engine);
            let mut staging = Staging::default();
            job.run(&mut staging);
            engine = self.engine();
            let now = engine.now();
            engine.stack.finish(job, &mut staging, now);
            more = engine.stack.decide(now);
        }
        more |= engine.stack.lnd.has_work();
        // A driver that is awake takes the lock once more before it sleeps, and then sees the remaining work.
        let must_wake = self.alarm.is_too_late(more, engine.stack.next_deadline());
        drop(engine);
        if must_wake {
            self.wake();
        }
        result
    }

    /// Decides whether the messages of a call may stay queued until the caller waits, so that several messages leave
    /// in one write: only if callers drive, no driver sleeps, and not too many calls in a row have deferred.
    fn may_defer(&self) -> bool {
        self.is_driven_by_callers()
            && !self.alarm.is_set()
            && self.deferred.fetch_add(1, Ordering::Relaxed) < DEFERRED_CALLS_MAX
    }

    /// Counts an event that a caller took without a turn of the loop; returns true when a turn is due.
    pub(crate) fn is_turn_overdue(&self) -> bool {
        self.taken.fetch_add(1, Ordering::Relaxed) >= EVENTS_WITHOUT_TURN_MAX
    }

    /// Runs one turn of the loop: moves what is queued, waits for sockets, timers or `limit`, and handles what is
    /// ready.
    fn turn(&self, mut driver: MutexGuard<'_, Driver>, limit: Option<Duration>) {
        let Driver {
            poll,
            events,
            staging,
        } = &mut *driver;
        self.taken.store(0, Ordering::Relaxed);
        let Some(sleep) = self.prepare_sleep(staging, limit) else {
            return;
        };
        if let Err(error) = self.wait_for_sockets(poll, events, sleep)
            && error.kind() != io::ErrorKind::Interrupted
        {
            warn!(%error, "waiting for sockets failed");
        }
        self.alarm.clear();
        let mut engine = self.engine();
        for event in events.iter().filter(|event| event.token() != WAKER) {
            engine = self.hand_over(engine);
            let now = engine.now();
            if event.token() == LINKS {
                engine.links_changed(now);
                continue;
            }
            if event.token() == RDMA {
                engine.stack.rdma_ready(now);
                continue;
            }
            if let Some((slot, readiness)) = Sockets::readiness(event, FIRST_LND_TOKEN) {
                engine.stack.ready(slot, readiness, now);
            }
        }
        let (mut engine, _) = self.move_bytes(engine, staging);
        // The driving thread looks at its queue after this turn. Only events delivered from now on must keep it
        // awake.
        engine.stack.side.delivered = false;
        engine.ports_changed();
        engine.tell_of_lost_paths();
        let news = engine.news();
        drop(engine);
        news.log();
    }

    /// Polls the sockets as long as the driver spins, then sleeps. The alarm is set all the time: a call of another
    /// thread ends a poll as it ends a sleep.
    fn wait_for_sockets(
        &self,
        poll: &mut Poll,
        events: &mut Events,
        sleep: Duration,
    ) -> io::Result<()> {
        if self.spin.is_zero() || sleep.is_zero() {
            return poll.poll(events, Some(sleep));
        }
        let (begin, spin) = (Instant::now(), self.spin.min(sleep));
        while begin.elapsed() < spin {
            poll.poll(events, Some(Duration::ZERO))?;
            if !events.is_empty() {
                return Ok(());
            }
            // If the answering thread shares this core, it runs only after this thread's time slice ends, unless this
            // thread yields.
            std::thread::yield_now();
        }
        poll.poll(events, Some(sleep.saturating_sub(begin.elapsed())))
    }

    /// Carries out the core's outputs and moves bytes, and releases the lock while bytes move. Stops when nothing can
    /// move or when it is time to poll the sockets. Returns true if there is more to do.
    fn move_bytes<'s>(
        &'s self,
        mut engine: MutexGuard<'s, Engine>,
        staging: &mut Staging,
    ) -> (MutexGuard<'s, Engine>, bool) {
        for _ in 0..JOBS_PER_TURN {
            let now = engine.now();
            let more = engine.stack.decide(now);
            let Some(mut job) = engine.stack.next_job(now) else {
                let more = engine.stack.decide(now) || more || engine.stack.lnd.has_work();
                return (engine, more);
            };
            let is_last = !engine.stack.lnd.has_work();
            drop(engine);
            if !is_last {
                self.rest.offer();
            }
            job.run(staging);
            engine = self.engine();
            let now = engine.now();
            engine.stack.finish(job, staging, now);
        }
        let now = engine.now();
        engine.stack.decide(now);
        (engine, true)
    }

    /// Runs an I/O thread beside the driver until the node ends.
    fn move_until_ended(&self) {
        let mut staging = Staging::default();
        loop {
            let (engine, more) = self.move_bytes(self.engine(), &mut staging);
            let must_wake = self.alarm.is_too_late(false, engine.stack.next_deadline());
            drop(engine);
            if must_wake {
                self.wake();
            }
            if !self.rest.rest(more) {
                return;
            }
        }
    }

    /// Gives the lock to a thread that waits for the engine, if there is one, and takes it back.
    fn hand_over<'s>(&'s self, engine: MutexGuard<'s, Engine>) -> MutexGuard<'s, Engine> {
        if !self.engine.is_awaited() {
            return engine;
        }
        drop(engine);
        self.engine()
    }

    /// Runs one turn of a caller that waits. Returns false without a turn if another thread drives or the node is
    /// shutting down. Calls `unlock` once it is certain that there is a turn.
    pub(crate) fn turn_of_caller(&self, limit: Option<Duration>, unlock: impl FnOnce()) -> bool {
        if self.is_stopping() {
            return false;
        }
        let driver = match self.driver.try_lock() {
            Ok(driver) => driver,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        unlock();
        self.turn(driver, limit);
        true
    }

    /// Counts a caller that may have to wait while another caller drives. Call it before the caller tries to drive.
    pub(crate) fn follow(&self) {
        self.followers.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that a caller no longer waits; wakes one of the callers that still wait, so that it drives.
    pub(crate) fn unfollow(&self) {
        if self.followers.fetch_sub(1, Ordering::SeqCst) == 1 {
            return;
        }
        let engine = self.engine();
        for queue in &engine.queues {
            if queue.upgrade().is_some_and(|queue| queue.nudge()) {
                return;
            }
        }
    }

    /// Does the due work and returns how long the driver may sleep; `None` if callers drive and a caller got an
    /// event, perhaps the driving one.
    fn prepare_sleep(&self, staging: &mut Staging, limit: Option<Duration>) -> Option<Duration> {
        let mut engine = self.engine();
        let now = engine.now();
        self.deferred.store(0, Ordering::Relaxed);
        engine.stack.tick(now);
        engine.ports_changed();
        let (mut engine, more) = self.move_bytes(engine, staging);
        if more || !engine.stack.may_sleep() {
            return Some(Duration::ZERO);
        }
        let delivered = std::mem::take(&mut engine.stack.side.delivered);
        if delivered && self.is_driven_by_callers() && limit != Some(Duration::ZERO) {
            return None;
        }
        let now = engine.now();
        let until_deadline = engine
            .stack
            .next_deadline()
            .map(|deadline| deadline.saturating_since(now));
        let sleep = [until_deadline, limit]
            .into_iter()
            .flatten()
            .fold(LONGEST_SLEEP, Duration::min);
        // Set under the engine's lock: a call that comes later sees it and wakes the driver.
        self.alarm.set(now + sleep);
        Some(sleep)
    }

    fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            warn!(%error, "cannot wake the node's loop");
        }
    }

    /// Asks the driver to stop as soon as nothing is in flight, and after `grace` in any case.
    fn stop_within(&self, grace: Duration) {
        let stop_at = (self.clock.now() + grace).as_nanos().min(RUNNING - 1);
        self.stop_at.fetch_min(stop_at, Ordering::AcqRel);
        self.wake();
    }

    fn is_stopping(&self) -> bool {
        self.stop_at.load(Ordering::Acquire) != RUNNING
    }

    /// Runs the driver until the node stops.
    fn run_until_stopped(&self) {
        loop {
            let limit = match self.stop_at.load(Ordering::Acquire) {
                RUNNING => None,
                stop_at => {
                    let left = Time::from_nanos(stop_at).saturating_since(self.clock.now());
                    if left.is_zero() || self.engine().core().is_idle() {
                        return;
                    }
                    Some(left)
                }
            };
            let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
            self.turn(driver, limit);
        }
    }

    /// Closes the connections, and the queues as soon as no thread moves bytes of foreign memory: a program that sees
    /// its queue closed may free that memory.
    fn close(&self) {
        let mut engine = self.engine();
        let now = engine.now();
        engine.stack.close_all(now);
        while engine.stack.uses_foreign_memory() {
            drop(engine);
            std::thread::sleep(JOB_PAUSE);
            engine = self.engine();
        }
        for queue in engine.queues.drain(..).filter_map(|queue| queue.upgrade()) {
            queue.close();
        }
    }
}

impl Threads {
    fn start(shared: &Arc<Shared>, options: &NodeOptions) -> Result<Self, StartError> {
        let threads = Self {
            shared: Arc::clone(shared),
            handles: Mutex::default(),
        };
        if options.progress == Progress::Thread {
            threads.spawn("lnet", Shared::run_until_stopped)?;
            for _ in 1..options.io_threads {
                threads.spawn("lnet-io", Shared::move_until_ended)?;
            }
        }
        Ok(threads)
    }

    fn spawn(&self, name: &str, body: fn(&Shared)) -> Result<(), StartError> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || body(&shared));
        let handle = thread.map_err(StartError::EventLoop)?;
        self.handles().push(handle);
        Ok(())
    }

    fn handles(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the driver ends, then ends the other threads. Every caller waits, if several call.
    fn join(&self) {
        let mut handles = self.handles();
        for handle in handles.drain(..) {
            if handle.join().is_err() {
                warn!("a thread of the node ended with a panic");
            }
            // The first thread was the driver, which has drained the node. Now the I/O threads can end.
            self.shared.rest.end();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.stop_within(Duration::ZERO);
        self.join();
        self.shared.close();
    }
}

fn registered(queue: &EventQueue, memory: Memory) -> Registered<QueueState> {
    Registered::new(memory, Arc::clone(queue.state()))
}

fn me_spec(entry: MatchEntry) -> MeSpec {
    MeSpec {
        portal: entry.portal,
        match_id: entry.match_id,
        match_bits: entry.match_bits,
        ignore_bits: entry.ignore_bits,
        unlink_with_md: true,
        position: entry.position,
    }
}

fn md_spec(md: &Md) -> Result<MdSpec, NodeError> {
    let length = md.memory.len();
    Ok(MdSpec {
        length: u32::try_from(length).map_err(|_| NodeError::TooLong(length))?,
        threshold: md.threshold,
        max_size: md.max_size,
        options: md.options,
        unlink_when_exhausted: md.unlink_when_exhausted,
        user: md.user,
    })
}
