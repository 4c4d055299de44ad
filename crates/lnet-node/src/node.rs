//! The handle that programs hold, and the loop that drives the engine.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lnet_core::{
    GetRequest, InsertPosition, MdHandle, MdOptions, MdSpec, MeSpec, PortalError, PutRequest,
    SendHints,
};
use lnet_stack::{Md, Memory, Registered};
use lnet_tcp::{Sockets, Staging};
use lnet_types::{Nid, ProcessId, Time};
use mio::{Events, Poll, Token, Waker};
use thiserror::Error;
use tracing::warn;

use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::fair::Fair;
use crate::options::{NodeOptions, Progress};
use crate::queue::{EventQueue, QueueState};
use crate::rest::Rest;
use crate::stats::NodeStats;

/// A running LNet node. Clones are handles to the same node; any thread may call.
///
/// The node runs until [`Node::shutdown`], or until the last handle is gone; then it closes its
/// connections without waiting for what is under way. Event queues do not keep it running: they give out
/// what they hold and then report the end.
#[derive(Clone)]
pub struct Node {
    shared: Arc<Shared>,
    threads: Arc<Threads>,
}

/// Which messages a descriptor takes (a match entry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchEntry {
    /// Portal, 0 to 63; 0 is LNet's own.
    pub portal: u32,
    /// Which initiators match; NID and pid may each be the wildcard.
    pub match_id: ProcessId,
    /// Bits that must be equal …
    pub match_bits: u64,
    /// … except where these are set.
    pub ignore_bits: u64,
    /// Before or after the entries already there.
    pub position: InsertPosition,
}

impl MatchEntry {
    /// Takes messages from anybody on `portal` with exactly these match bits.
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

/// Why a node cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The operating system refused the event loop, its waker or its thread.
    #[error("cannot set up the event loop: {0}")]
    EventLoop(io::Error),
    /// The operating system gives no random bytes, so the node's handles could be guessed.
    #[error("cannot draw random bytes: {0}")]
    Random(getrandom::Error),
}

/// Why a call was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NodeError {
    /// The core refused it.
    #[error(transparent)]
    Portal(#[from] PortalError),
    /// A descriptor that is to receive data has immutable memory.
    #[error("a descriptor that receives data needs a sink, not a source")]
    NotWritable,
    /// The memory is longer than a descriptor can be (4 GiB − 1).
    #[error("memory of {0} bytes is longer than a descriptor can be")]
    TooLong(usize),
    /// The node is shutting down.
    #[error("the node is shutting down")]
    ShutDown,
}

/// How a shutdown ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    /// True when nothing was under way any more; false when the grace period ended first.
    pub clean: bool,
}

/// What all handles, queues and the driver share.
pub(crate) struct Shared {
    engine: Fair<Engine>,
    driver: Mutex<Driver>,
    waker: Waker,
    clock: Clock,
    progress: Progress,
    spin: Duration,
    alarm: Alarm,
    /// Calls since the last flush, where callers drive.
    deferred: AtomicU32,
    /// Events taken since the last turn, where callers drive.
    taken: AtomicU32,
    /// Where I/O threads beside the driver are when there is nothing to move.
    rest: Rest,
    /// Callers that wait while another one drives.
    followers: AtomicU32,
    /// When the driver stops at the latest, in nanoseconds, or [`RUNNING`].
    stop_at: AtomicU64,
    /// The longest time that a call of an administrator had the engine, in nanoseconds.
    longest_hold: AtomicU64,
}

/// The loop's part that one thread at a time may have.
pub(crate) struct Driver {
    poll: Poll,
    events: Events,
    staging: Staging,
}

/// The threads of a node: the driver and the I/O threads beside it. They end when the last handle goes.
struct Threads {
    shared: Arc<Shared>,
    /// The driver first.
    handles: Mutex<Vec<JoinHandle<()>>>,
}

/// The tokens of the waker and of the news of links; the LND's begin behind them.
const WAKER: Token = Token(0);
pub(crate) const LINKS: Token = Token(1);
pub(crate) const FIRST_LND_TOKEN: usize = 2;

/// Readiness events taken in one turn: enough to batch, few enough that a turn stays short.
const EVENTS_PER_TURN: usize = 256;

/// Reads and writes between two looks at the sockets: each is at most a megabyte or so.
const JOBS_PER_TURN: usize = 64;

/// Writes that a program's call does itself before the rest is left to the driver.
const JOBS_PER_CALL: usize = 4;

/// Calls whose messages may wait for the next flush. A page each fills a socket's buffer halfway.
const DEFERRED_CALLS_MAX: u32 = 32;

/// Events that callers may take before the sockets are looked at again.
const EVENTS_WITHOUT_TURN_MAX: u32 = 64;

/// The value of `stop_at` in a node that is not stopping.
const RUNNING: u64 = u64::MAX;

/// The driver looks at least this often, so that a call from another thread need not wake it for
/// deadlines beyond.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

impl Node {
    /// Starts a node without interfaces; [`Node::with_engine`] adds some.
    ///
    /// # Errors
    ///
    /// What the operating system refuses.
    pub fn start(options: NodeOptions) -> Result<Self, StartError> {
        Self::start_with(options, |_, _| Ok(()))
    }

    /// Starts a node with what `set_up` gives it: interfaces, routes, peers, rules. The node answers nobody before
    /// `set_up` returns.
    ///
    /// # Errors
    ///
    /// What the operating system refuses, and what `set_up` returns; then no node is left.
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

    /// The NIDs of this node, loopback excepted, in configuration order; the first is the primary NID.
    #[must_use]
    pub fn nids(&self) -> Vec<Nid> {
        let engine = self.shared.engine();
        let nids = engine.core().nis().map(|ni| ni.nid);
        nids.filter(|nid| !nid.is_loopback()).collect()
    }

    /// The primary NID, by which peers know this node; that of loopback in a node without interfaces.
    #[must_use]
    pub fn primary_nid(&self) -> Nid {
        let engine = self.shared.engine();
        engine.core().primary_nid().unwrap_or(Nid::LOOPBACK)
    }

    /// A new event queue; one that has ended, once the node is shutting down.
    #[must_use]
    pub fn event_queue(&self) -> EventQueue {
        let state = Arc::new(QueueState::default());
        let mut engine = self.shared.engine();
        engine.queues.retain(|queue| queue.strong_count() > 0);
        if self.shared.is_stopping() {
            // Nothing begins any more that could give it an event.
            state.close();
        } else {
            engine.queues.push(Arc::downgrade(&state));
        }
        drop(engine);
        EventQueue::new(state, Arc::clone(&self.shared))
    }

    /// Attaches a descriptor behind a match entry, as a target for others. The entry goes with the
    /// descriptor.
    ///
    /// # Errors
    ///
    /// A portal of 64 or more, options without `OP_PUT` and `OP_GET`, a sink that is needed and not
    /// given, an entry of the wrong kind for its portal.
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

    /// Binds a descriptor, as the source of a put or the sink of a get. At most 1 MiB.
    ///
    /// # Errors
    ///
    /// Memory longer than a message, options that only attached descriptors have.
    pub fn bind(&self, queue: &EventQueue, md: Md) -> Result<MdHandle, NodeError> {
        let spec = md_spec(&md)?;
        self.shared
            .with_engine(|engine, _| Ok(engine.stack.bind(spec, registered(queue, md.memory))?))
    }

    /// Removes a descriptor. Its queue still receives the event that says `unlinked`, with the memory:
    /// at once when the descriptor is idle, else with its last operation.
    ///
    /// # Errors
    ///
    /// The descriptor is unknown or already gone.
    pub fn unlink(&self, md: MdHandle) -> Result<(), NodeError> {
        self.shared
            .with_engine(|engine, now| Ok(engine.core_mut().md_unlink(md, now)?))
    }

    /// As [`Node::unlink`], and gives up what is arriving in the descriptor: a peer or router that hangs in the middle of
    /// a message does not keep the memory. A message that is cut off ends with an event of status `ECANCELED`.
    ///
    /// # Errors
    ///
    /// The descriptor is unknown or already gone.
    pub fn cancel(&self, md: MdHandle) -> Result<(), NodeError> {
        self.shared
            .with_engine(|engine, now| Ok(engine.core_mut().md_cancel(md, now)?))
    }

    /// Sends a bound descriptor's memory to a match entry of the target.
    ///
    /// # Errors
    ///
    /// The descriptor is unknown or exhausted. What happens to the message comes as events.
    pub fn put(&self, put: PutRequest) -> Result<(), NodeError> {
        self.hinted_put(put, SendHints::default())
    }

    /// As [`Node::put`], with hints for the choice of the path.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn hinted_put(&self, put: PutRequest, hints: SendHints) -> Result<(), NodeError> {
        self.shared
            .with_engine(|engine, now| Ok(engine.core_mut().hinted_put(put, hints, now)?))
    }

    /// The next hop of what was sent from a descriptor, written or not, while its answer is awaited: what
    /// [`SendHints::avoid`] takes when it does not come.
    #[must_use]
    pub fn next_hop(&self, md: MdHandle) -> Option<Nid> {
        self.with_engine(|engine, _| engine.core().next_hop(md))
    }

    /// Fetches into a bound descriptor's memory from a match entry of the target.
    ///
    /// # Errors
    ///
    /// The descriptor is unknown, exhausted, or not writable. What happens comes as events.
    pub fn get(&self, get: GetRequest) -> Result<(), NodeError> {
        self.hinted_get(get, SendHints::default())
    }

    /// As [`Node::get`], with hints for the choice of the path.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn hinted_get(&self, get: GetRequest, hints: SendHints) -> Result<(), NodeError> {
        self.shared.with_engine(|engine, now| {
            let registered = engine.stack.side.memory.registered(get.md);
            if registered.is_some_and(Registered::is_source) {
                return Err(NodeError::NotWritable);
            }
            Ok(engine.core_mut().hinted_get(get, hints, now)?)
        })
    }

    /// Makes a portal lazy, so that puts wait there for a match entry, or clears it, which drops those
    /// that wait.
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

    /// Lends the engine to whoever administers the node, for looks and changes that are one step for a message. What
    /// the changes want sent leaves afterwards.
    ///
    /// The node's lock is held meanwhile: no message moves, and a call of this node inside of `call` would wait for
    /// ever. Whoever has much to do calls several times.
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

    /// The longest time that a call of [`Node::with_engine`] has kept the node's lock since this was last asked.
    #[must_use]
    pub fn take_longest_hold(&self) -> Duration {
        Duration::from_nanos(self.shared.longest_hold.swap(0, Ordering::Relaxed))
    }

    /// Lends the engine for a look, with the node's lock held as in [`Node::with_engine`] and nothing else done.
    pub fn look<R>(&self, look: impl FnOnce(&Engine) -> R) -> R {
        look(&self.shared.engine())
    }

    /// What the node has counted so far.
    #[must_use]
    pub fn stats(&self) -> NodeStats {
        self.look(NodeStats::of)
    }

    /// Finishes what is under way, for at most `grace`, closes every connection and ends the node's
    /// thread. Event queues keep the events they hold and then report the end. Calls that would begin
    /// something new are refused from now on.
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

    /// Runs a call, also in a node that is stopping.
    fn run<R>(&self, call: impl FnOnce(&mut Engine, Time) -> R) -> R {
        let mut engine = self.engine();
        let now = engine.now();
        let result = call(&mut engine, now);
        let mut more = engine.stack.decide(now);
        if self.may_defer() {
            return result;
        }
        self.deferred.store(0, Ordering::Relaxed);
        for _ in 0..JOBS_PER_CALL {
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
        // A driver that is awake has the lock once more before it sleeps, and sees what is left.
        let must_wake = self.alarm.is_too_late(more, engine.stack.next_deadline());
        drop(engine);
        if must_wake {
            self.wake();
        }
        result
    }

    /// Whether what a call produced may stay queued until the caller waits, so that several messages
    /// leave in one write: only where callers drive, none of them sleeps, and not too often in a row.
    fn may_defer(&self) -> bool {
        self.is_driven_by_callers()
            && !self.alarm.is_set()
            && self.deferred.fetch_add(1, Ordering::Relaxed) < DEFERRED_CALLS_MAX
    }

    /// Counts an event that a caller took without a turn of the loop; true when it is time for one.
    pub(crate) fn is_turn_overdue(&self) -> bool {
        self.taken.fetch_add(1, Ordering::Relaxed) >= EVENTS_WITHOUT_TURN_MAX
    }

    /// One turn of the loop: moves what is queued, waits for sockets, timers or `limit`, and handles what
    /// there is.
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
            if let Some((slot, readiness)) = Sockets::readiness(event, FIRST_LND_TOKEN) {
                engine.stack.ready(slot, readiness, now);
            }
        }
        let (mut engine, _) = self.move_bytes(engine, staging);
        // Whoever drives looks at its queue now; what is delivered from here on must keep it awake.
        engine.stack.side.delivered = false;
        engine.tell_of_lost_paths();
        let news = engine.news();
        drop(engine);
        news.log();
    }

    /// Looks at the sockets as long as the driver spins, then sleeps. The alarm is set all the while: a call of
    /// another thread ends a look as it ends a sleep.
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
            // On one core with whoever is to answer, the answer would wait for this thread's share to end.
            std::thread::yield_now();
        }
        poll.poll(events, Some(sleep.saturating_sub(begin.elapsed())))
    }

    /// Carries out what the core wants and moves bytes, in turns of the lock, until nothing can move or
    /// it is time to look at the sockets. True when there is more.
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

    /// The life of an I/O thread beside the driver.
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

    /// Lets a thread that waits for the engine have it in between.
    fn hand_over<'s>(&'s self, engine: MutexGuard<'s, Engine>) -> MutexGuard<'s, Engine> {
        if !self.engine.is_awaited() {
            return engine;
        }
        drop(engine);
        self.engine()
    }

    /// One turn of a caller that waits; false when that is not its part, because another thread drives
    /// or the node is being shut down. `unlock` is called when it is certain that there is a turn.
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

    /// A caller may have to wait while another one drives; to be said before it is tried.
    pub(crate) fn follow(&self) {
        self.followers.fetch_add(1, Ordering::SeqCst);
    }

    /// The caller does not wait any more: one of those who still do is woken to drive.
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

    /// Runs what is due and says how long the driver may sleep; `None` when a caller that drives has got
    /// an event, maybe its own.
    fn prepare_sleep(&self, staging: &mut Staging, limit: Option<Duration>) -> Option<Duration> {
        let mut engine = self.engine();
        let now = engine.now();
        self.deferred.store(0, Ordering::Relaxed);
        engine.stack.tick(now);
        let (mut engine, more) = self.move_bytes(engine, staging);
        if more {
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

    /// Asks the driver to stop as soon as nothing is under way, at the latest after `grace`.
    fn stop_within(&self, grace: Duration) {
        let stop_at = (self.clock.now() + grace).as_nanos().min(RUNNING - 1);
        self.stop_at.fetch_min(stop_at, Ordering::AcqRel);
        self.wake();
    }

    fn is_stopping(&self) -> bool {
        self.stop_at.load(Ordering::Acquire) != RUNNING
    }

    /// The driver's life.
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

    /// Closes the connections and ends the queues.
    fn close(&self) {
        let mut engine = self.engine();
        let now = engine.now();
        engine.stack.close_all(now);
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

    /// Waits for the driver's end, and ends the others; of several callers, all wait.
    fn join(&self) {
        let mut handles = self.handles();
        for handle in handles.drain(..) {
            if handle.join().is_err() {
                warn!("a thread of the node ended by a panic");
            }
            // That was the driver, which has finished what was to be finished, or another one.
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
