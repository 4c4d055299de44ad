//! The daemon: one thread with one loop around the engine.
//!
//! ```text
//!            control queue ──▶ commands ─┐            ┌─▶ replies ──▶ reply queues
//!                                        ├─▶ engine ──┤
//!  clients' sockets ──frames──▶ clients ─┘  outputs   └─▶ frames, messages ──▶ clients' sockets
//!              └──payload──▶ segment ──payload──────────────────────────────────┘
//! ```
//!
//! A turn of the loop serves the control queue, then each ready client for one slice of at most 4 MiB in
//! either direction. After a large slice it looks at the control queue again, so that no command waits longer
//! than one slice and no client starves another. Only the poll at the beginning of a turn blocks.

mod clients;
mod commands;
mod copies;
mod outputs;
mod scrapes;
mod upkeep;

use std::collections::VecDeque;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use rustc_hash::FxHashMap;
use slab::Slab;
use sys::{MessageQueue, QueueAccess, QueueShape};
use tracing::{info, warn};
use zoid_proto::DaemonState;
use zoid_proto::ctl::{CONTROL_QUEUE_DEPTH, CTL_MESSAGE_LEN, REPLY_SLOTS};

use crate::client::{Client, Listener};
use crate::counters::DaemonCounters;
use crate::error::Error;
use crate::failpoint::Place;
use crate::home::{Entry, Home, Removed};
use crate::log_limiter::LogLimiter;
use crate::options::Options;
use crate::segment::Segment;
use crate::server::Server;
use crate::zbmi::{Answer, CallId, Engine, Peer, Session, Time};

/// A daemon that has created its names and does not serve yet; [`run`](Self::run) does.
pub struct Daemon {
    options: Options,
    engine: Engine,
    segment: Segment,
    home: Home,
    control: MessageQueue,
    server: Option<Server>,
    clients: Slab<Client>,
    /// The keys of the engine's clients.
    keys: FxHashMap<Peer, usize>,
    /// Clients that have something to do, in the order of their turns.
    ready: VecDeque<usize>,
    unix: Listener,
    tcp: Option<Listener>,
    scrapes: scrapes::Scrapes,
    poll: Poll,
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
    start: Instant,
    /// Whether the last wait ended with an event.
    lively: bool,
    beaten: Time,
    checked: Time,
    /// How long this process did not run, and the number of clients lost before that; set until reported.
    stood_still: Option<(Duration, u64)>,
    /// The number of clients lost before the last check.
    lost_before: u64,
    /// Since when the daemon drains.
    draining: Option<Time>,
    drained: bool,
    /// Whether the control queue may contain messages.
    commands_waiting: bool,
    /// During a client's turn, answers to the server are deferred until the client's output is written.
    client_first: bool,
    deferred: Vec<(Session, CallId, Answer)>,
    /// Whether connections wait that could not be accepted for lack of descriptors.
    accept_again: bool,
    /// The buffer for payload to be dropped.
    nowhere: Vec<u8>,
    removed: Removed,
    counters: DaemonCounters,
    log_limiter: LogLimiter,
}

/// Stops a daemon from another thread, in order.
#[derive(Clone, Debug)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Stopper {
    /// Makes [`Daemon::run`] complete what is in flight and return.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Err(error) = self.waker.wake() {
            warn!(%error, "the daemon will stop at its next heartbeat");
        }
    }
}

const WAKER: Token = Token(0);
const CONTROL: Token = Token(1);
const UNIX: Token = Token(2);
const TCP: Token = Token(3);
const SERVER: Token = Token(4);
const SCRAPE_LISTENER: Token = Token(5);
/// The first token of the slots.
const SLOTS: usize = 64;
/// The first token of the scrapes.
const SCRAPES: usize = SLOTS + REPLY_SLOTS as usize;
/// The first token of the clients.
const CLIENTS: usize = 1024;

/// The interval of heartbeats in the segment's header: 100 ms at most, so that a server notices a dead daemon soon.
// [SEG-5]
const BEAT: Duration = Duration::from_millis(50);

/// The most events taken from one poll.
const EVENTS: usize = 256;

/// The most turns of clients between two polls.
const TURNS: usize = 64;

impl Daemon {
    /// Takes the instance's lock, removes what an earlier daemon left, and creates queue, segment and
    /// sockets. From now on clients and server may connect; they wait for [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// Contradictory settings; a running daemon of this instance; limits of the system, with advice.
    pub fn open(mut options: Options) -> Result<Self, Error> {
        for remark in options.check()? {
            warn!("{remark}");
        }
        let epoch = random_number()?;
        let engine = Engine::new(engine_config(&options, epoch)?)?;
        let (mut home, removed) = Home::take(&options.instance, options.directory.as_deref())?;
        match Names::create(&mut options, &mut home, epoch) {
            Ok(names) => Self::with(options, engine, home, names, removed),
            Err(error) => {
                home.leave();
                Err(error)
            }
        }
    }

    fn with(
        options: Options,
        engine: Engine,
        home: Home,
        names: Names,
        removed: Removed,
    ) -> Result<Self, Error> {
        let mut daemon = Self {
            engine,
            segment: names.segment,
            home,
            control: names.control,
            server: None,
            clients: Slab::new(),
            keys: FxHashMap::default(),
            ready: VecDeque::new(),
            unix: names.unix,
            tcp: names.tcp,
            scrapes: names.scrapes,
            poll: names.poll,
            waker: names.waker,
            stop: Arc::default(),
            start: Instant::now(),
            lively: false,
            beaten: Time::ZERO,
            checked: Time::ZERO,
            stood_still: None,
            lost_before: 0,
            draining: None,
            drained: false,
            commands_waiting: true,
            client_first: false,
            deferred: Vec::new(),
            accept_again: false,
            nowhere: vec![0; NOWHERE],
            removed,
            counters: DaemonCounters::default(),
            log_limiter: LogLimiter::default(),
            options,
        };
        let registered = daemon.register().map_err(Error::system("epoll"));
        match registered.and_then(|()| daemon.segment.beat(since_boot())) {
            Ok(()) => {
                daemon.segment.set_state(DaemonState::READY);
                Ok(daemon)
            }
            Err(error) => {
                daemon.home.leave();
                Err(error)
            }
        }
    }

    fn register(&mut self) -> io::Result<()> {
        let registry = self.poll.registry();
        let control = self.control.as_fd().as_raw_fd();
        registry.register(&mut SourceFd(&control), CONTROL, Interest::READABLE)?;
        self.unix.register(registry, UNIX)?;
        if let Some(tcp) = &mut self.tcp {
            tcp.register(registry, TCP)?;
        }
        self.scrapes.register(registry, SCRAPE_LISTENER)
    }

    /// Returns a handle that stops [`run`](Self::run) from elsewhere.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper {
            stop: Arc::clone(&self.stop),
            waker: Arc::clone(&self.waker),
        }
    }

    /// Returns what an earlier daemon of this instance had left and this one removed.
    #[must_use]
    pub fn removed(&self) -> Removed {
        self.removed
    }

    /// Returns the socket for clients on this machine.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket_path(&self.options, self.home.directory())
    }

    /// Returns the address for clients on other machines, with the actual port.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref()?.address()
    }

    /// Serves until it is stopped, then completes what is in flight, within the drain time, and removes every
    /// name.
    ///
    /// # Errors
    ///
    /// [`Error::SegmentCut`]: another process truncated the segment. Errors of `epoll(7)`.
    pub fn run(mut self) -> Result<(), Error> {
        info!(instance = %self.options.instance, socket = %self.socket().display(), "serving");
        let mut events = Events::with_capacity(EVENTS);
        let result = loop {
            if let Err(error) = self.turn(&mut events) {
                break Err(error);
            }
            if self.is_over() {
                break Ok(());
            }
        };
        self.segment.set_state(DaemonState::DEAD);
        let removed = self.home.leave();
        info!(%removed, "stopped");
        result
    }

    fn turn(&mut self, events: &mut Events) -> Result<(), Error> {
        self.await_events(events)?;
        for event in events.iter() {
            self.event(event);
        }
        if self.stop.load(Ordering::Relaxed) && self.draining.is_none() {
            self.drain();
        }
        if self.commands_waiting {
            self.serve_commands();
        }
        for _ in 0..TURNS {
            let Some(key) = self.ready.pop_front() else {
                break;
            };
            if self.serve_client(key) >= LARGE {
                self.serve_commands();
            }
        }
        self.upkeep()
    }

    /// Waits for events. After a turn with an event, polls first without sleeping, for the time of the option
    /// `spin`.
    // [ZOID-65]
    fn await_events(&mut self, events: &mut Events) -> Result<(), Error> {
        let patience = self.poll_timeout();
        let spin = match self.lively {
            true => self.options.spin.min(patience),
            false => Duration::ZERO,
        };
        let began = Instant::now();
        loop {
            let spins = began.elapsed() < spin;
            let limit = if spins { Duration::ZERO } else { patience };
            match self.poll.poll(events, Some(limit)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(Error::system("epoll_wait")(error));
                }
                _ => {}
            }
            self.lively = !events.is_empty();
            if self.lively || !spins {
                return Ok(());
            }
            // The process that will produce the next event may need this core.
            std::thread::yield_now();
        }
    }

    /// Returns how long the next poll may sleep.
    fn poll_timeout(&self) -> Duration {
        if !self.ready.is_empty() || self.commands_waiting {
            return Duration::ZERO;
        }
        let now = self.now();
        let beat = (self.beaten + BEAT).since(now);
        let engine = self.engine.next_deadline();
        beat.min(engine.map_or(beat, |deadline| deadline.since(now)))
    }

    fn event(&mut self, event: &mio::event::Event) {
        match event.token() {
            // Every turn checks the flag that belongs to this token.
            WAKER => {}
            CONTROL => self.commands_waiting = true,
            UNIX => self.accept(false),
            TCP => self.accept(true),
            SERVER => self.look_after_server(),
            SCRAPE_LISTENER => self.scrapes.accept(self.poll.registry(), SCRAPES),
            Token(token) if token >= CLIENTS => self.client_event(token - CLIENTS, event),
            Token(token) if token >= SCRAPES => self.scrape(token - SCRAPES),
            // The slot is below REPLY_SLOTS.
            Token(token) => self.reply_room(token.saturating_sub(SLOTS) as u32),
        }
    }

    // [DEATH-28]
    fn now(&self) -> Time {
        Time::after(self.start.elapsed())
    }
}

/// The names by which others find the daemon, and the poll.
struct Names {
    poll: Poll,
    waker: Arc<Waker>,
    control: MessageQueue,
    segment: Segment,
    unix: Listener,
    tcp: Option<Listener>,
    scrapes: scrapes::Scrapes,
}

impl Names {
    fn create(options: &mut Options, home: &mut Home, epoch: u64) -> Result<Self, Error> {
        let poll = Poll::new().map_err(Error::system("epoll"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(Error::system("eventfd"))?;
        let socket = socket_path(options, home.directory());
        let metrics = metrics_path(options, home.directory());
        home.record(&Entry::Queue(options.instance.control_queue()))?;
        home.record(&Entry::Segment(options.instance.segment()))?;
        home.record(&Entry::Socket(socket.clone()))?;
        home.record(&Entry::Socket(metrics.clone()))?;
        options.failpoints.pass(Place::JournalWritten);
        // The segment first: its lock decides who owns the names.
        let segment = Segment::create(options, epoch)?;
        home.hold_segment()?;
        let control = create_control(options)?;
        options.failpoints.pass(Place::NamesCreated);
        Ok(Self {
            poll,
            waker: Arc::new(waker),
            control,
            segment,
            unix: bind(&socket, options.group)?,
            tcp: options.listen.map(listen).transpose()?,
            scrapes: scrapes::Scrapes::bind(&metrics)?,
        })
    }
}

/// The size of a read of payload to be dropped, in bytes.
const NOWHERE: usize = 64 << 10;

/// After a slice of this many bytes the loop looks at the control queue.
const LARGE: usize = 64 << 10;

fn engine_config(options: &Options, epoch: u64) -> Result<crate::zbmi::Config, Error> {
    let share = options.unexpected / 100 * u64::from(options.unexpected_share);
    Ok(crate::zbmi::Config {
        unexpected_size: options.unexpected,
        total_size: options.total,
        max_unexpected: options.max_unexpected,
        max_expected: options.max_expected,
        epoch,
        first_session: random_number()?,
        hold: options.hold,
        stall: options.stall,
        reattach: options.reattach,
        drain: options.drain,
        bulk_slots: options.bulk_slots,
        unexpected_share: (options.unexpected_share < 100).then_some(share),
        credits: options.credits,
        job_weights: options
            .job_weights
            .iter()
            .map(|(&job, &weight)| (crate::zbmi::JobId(job), weight))
            .collect(),
        limits: crate::zbmi::Limits {
            clients: options.max_clients,
            ..crate::zbmi::Limits::default()
        },
    })
}

/// Returns a random number, not 0, from the lower half of the range, so that counting up from it never wraps.
fn random_number() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    let mut source = File::open("/dev/urandom").map_err(Error::system("open /dev/urandom"))?;
    source
        .read_exact(&mut bytes)
        .map_err(Error::system("read /dev/urandom"))?;
    Ok((u64::from_le_bytes(bytes) >> 1).max(1))
}

/// Returns the machine's monotonic time, which server libraries read, too.
fn since_boot() -> Duration {
    let clock = nix::time::ClockId::CLOCK_MONOTONIC;
    clock.now().map_or(Duration::ZERO, Duration::from)
}

fn socket_path(options: &Options, directory: &Path) -> PathBuf {
    let default = || directory.join(options.instance.socket_file());
    options.socket.clone().unwrap_or_else(default)
}

fn metrics_path(options: &Options, directory: &Path) -> PathBuf {
    directory.join(metrics_file(&options.instance))
}

/// Returns the file name of the socket for metrics.
pub(crate) fn metrics_file(instance: &zoid_proto::Instance) -> String {
    format!("zbmi.{instance}.metrics")
}

fn create_control(options: &Options) -> Result<MessageQueue, Error> {
    let name = options.instance.control_queue();
    let shape = QueueShape {
        messages: CONTROL_QUEUE_DEPTH,
        message_bytes: CTL_MESSAGE_LEN,
    };
    let created = MessageQueue::create(&name, QueueAccess::Receive, shape);
    let shared = created.and_then(|queue| match options.group {
        Some(group) => sys::share_with_group(&queue, group).map(|()| queue),
        None => Ok(queue),
    });
    shared.map_err(|cause| Error::Queue {
        advice: sys::explain_queue_error(&cause),
        name,
        cause,
    })
}

// [SAFE-1]
fn bind(path: &Path, group: Option<u32>) -> Result<Listener, Error> {
    let listener = Listener::unix(path).map_err(Error::file("listen on", path))?;
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    if let Some(group) = group {
        std::os::unix::fs::chown(path, None, Some(group)).map_err(Error::file("chown", path))?;
    }
    let permissions = Permissions::from_mode(mode);
    fs::set_permissions(path, permissions).map_err(Error::file("chmod", path))?;
    Ok(listener)
}

fn listen(address: SocketAddr) -> Result<Listener, Error> {
    Listener::tcp(address).map_err(|cause| Error::Listen { address, cause })
}
