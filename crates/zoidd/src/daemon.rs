//! The daemon: one thread, one loop, around the engine.
//!
//! ```text
//!            control queue ──▶ commands ─┐            ┌─▶ replies ──▶ reply queues
//!                                        ├─▶ engine ──┤
//!  clients' sockets ──frames──▶ clients ─┘  outputs   └─▶ frames, messages ──▶ clients' sockets
//!              └──payload──▶ segment ──payload──────────────────────────────────┘
//! ```
//!
//! A turn of the loop serves the control queue, then each ready client for one slice of at most
//! 4 MiB in either direction, with the control queue looked at again between large slices, so
//! that no command waits longer than one slice and no client starves another. Nothing in the loop
//! blocks but the poll at its beginning.

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
use zbmi::{Answer, CallId, Engine, Peer, Session, Time};
use zoid_proto::DaemonState;
use zoid_proto::ctl::{CONTROL_QUEUE_DEPTH, CTL_MESSAGE_LEN, REPLY_SLOTS};

use crate::client::{Client, Listener};
use crate::counters::DaemonCounters;
use crate::error::Error;
use crate::failpoint::Place;
use crate::home::{Entry, Home, Removed};
use crate::options::Options;
use crate::segment::Segment;
use crate::seldom::Seldom;
use crate::server::Server;

/// A daemon that has its names and does not serve yet; [`run`](Self::run) does.
pub struct Daemon {
    options: Options,
    engine: Engine,
    segment: Segment,
    home: Home,
    control: MessageQueue,
    server: Option<Server>,
    clients: Slab<Client>,
    /// Where the engine's clients are.
    keys: FxHashMap<Peer, usize>,
    /// Clients that have something to do, in turn.
    ready: VecDeque<usize>,
    unix: Listener,
    tcp: Option<Listener>,
    scrapes: scrapes::Scrapes,
    poll: Poll,
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
    start: Instant,
    /// The last wait ended with something to do.
    lively: bool,
    beaten: Time,
    checked: Time,
    /// How long this process did not run, and the clients lost before that, until both are reported.
    stood_still: Option<(Duration, u64)>,
    /// Clients lost before the last check.
    lost_before: u64,
    /// Since when it drains.
    draining: Option<Time>,
    drained: bool,
    /// Messages in the control queue that have not been looked at, maybe.
    commands_waiting: bool,
    /// A client has its turn: what the server is to be told waits until the client has been.
    client_first: bool,
    deferred: Vec<(Session, CallId, Answer)>,
    /// Connections wait that could not be accepted for want of descriptors.
    accept_again: bool,
    /// Where unwanted payload goes.
    nowhere: Vec<u8>,
    removed: Removed,
    counters: DaemonCounters,
    seldom: Seldom,
}

/// Ends a daemon from another thread, gracefully.
#[derive(Clone, Debug)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Stopper {
    /// Makes [`Daemon::run`] finish what is under way and return.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Err(error) = self.waker.wake() {
            warn!(%error, "the daemon will notice at its next heartbeat that it is to stop");
        }
    }
}

const WAKER: Token = Token(0);
const CONTROL: Token = Token(1);
const UNIX: Token = Token(2);
const TCP: Token = Token(3);
const SERVER: Token = Token(4);
const SCRAPE_LISTENER: Token = Token(5);
/// And the slots' numbers.
const SLOTS: usize = 64;
/// And the scrapes' numbers.
const SCRAPES: usize = SLOTS + REPLY_SLOTS as usize;
/// And the clients' keys.
const CLIENTS: usize = 1024;

/// The segment's header shows a sign of life at least every 100 ms (section 3.1.2).
const BEAT: Duration = Duration::from_millis(50);

/// Events taken from the system at once.
const EVENTS: usize = 256;

/// Turns of clients between two polls.
const TURNS: usize = 64;

impl Daemon {
    /// Takes the instance's lock, removes what an earlier daemon left, and creates queue, segment
    /// and sockets. Clients and server may connect from now on and wait for [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// Settings that contradict one another; a daemon of this instance that lives; limits of the
    /// system, with what to do about them.
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
            seldom: Seldom::default(),
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

    /// Ends [`run`](Self::run) from elsewhere.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper {
            stop: Arc::clone(&self.stop),
            waker: Arc::clone(&self.waker),
        }
    }

    /// What an earlier daemon of this instance had left and is removed.
    #[must_use]
    pub fn removed(&self) -> Removed {
        self.removed
    }

    /// Where clients connect from this machine.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket_path(&self.options, self.home.directory())
    }

    /// Where clients connect from others; the port is the one really used.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref()?.address()
    }

    /// Serves until it is stopped, then finishes what is under way, within ten seconds, and
    /// removes every name.
    ///
    /// # Errors
    ///
    /// [`Error::SegmentCut`] when another process destroyed the segment; failures of `epoll(7)`.
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

    /// Waits for something to do. After a turn that had something, it first looks for more without
    /// sleeping, for as long as the option says.
    fn await_events(&mut self, events: &mut Events) -> Result<(), Error> {
        let patience = self.patience();
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
            // Whoever is to have something for the daemon may be on its core.
            std::thread::yield_now();
        }
    }

    /// How long the next poll may sleep.
    fn patience(&self) -> Duration {
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
            // The flag that goes with it is looked at in every turn.
            WAKER => {}
            CONTROL => self.commands_waiting = true,
            UNIX => self.accept(false),
            TCP => self.accept(true),
            SERVER => self.look_after_server(),
            SCRAPE_LISTENER => self.scrapes.accept(self.poll.registry(), SCRAPES),
            Token(token) if token >= CLIENTS => self.client_event(token - CLIENTS, event),
            Token(token) if token >= SCRAPES => self.scrape(token - SCRAPES),
            // Below REPLY_SLOTS.
            Token(token) => self.reply_room(token.saturating_sub(SLOTS) as u32),
        }
    }

    fn now(&self) -> Time {
        Time::after(self.start.elapsed())
    }
}

/// What others find a daemon by, and what its loop waits with.
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
        // The segment first: it says whose the names are.
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

/// Unwanted payload is read in pieces of this many bytes.
const NOWHERE: usize = 64 << 10;

/// A slice of this many bytes is followed by a look at the control queue.
const LARGE: usize = 64 << 10;

fn engine_config(options: &Options, epoch: u64) -> Result<zbmi::Config, Error> {
    let share = options.unexpected / 100 * u64::from(options.unexpected_share);
    Ok(zbmi::Config {
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
            .map(|(&job, &weight)| (zbmi::JobId(job), weight))
            .collect(),
        limits: zbmi::Limits {
            clients: options.max_clients,
            ..zbmi::Limits::default()
        },
    })
}

/// Random and not 0; from half of the numbers, so that counting up from it never wraps.
fn random_number() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    let mut source = File::open("/dev/urandom").map_err(Error::system("open /dev/urandom"))?;
    source
        .read_exact(&mut bytes)
        .map_err(Error::system("read /dev/urandom"))?;
    Ok((u64::from_le_bytes(bytes) >> 1).max(1))
}

/// The machine's monotonic clock, which server libraries read too.
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

/// File name of the socket that answers with the metrics.
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
