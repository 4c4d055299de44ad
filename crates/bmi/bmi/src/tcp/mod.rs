//! The method `bmi_tcp`: messages between processes over sockets.
//!
//! `tcp://host:port` names a process that listens; a process that listens may leave the choice of the port to
//! the system. `tcp://unix:/path` names the Unix-domain socket of a process on the same machine. It does not
//! matter which side dialled: both sides send expected and unexpected messages over the same connection. A
//! process without a listen address is known by its connection. The first send dials, and so does the first
//! send after a connection was lost; operations in flight then fail with [`Error::ConnReset`].
//!
//! ```text
//!   thread A ── test ──┐ drives: sleeps in epoll, reads, writes
//!   thread B ── test ──┤ waits for A's results, and takes over when A leaves
//!   thread C ── post ──┘ writes at once; wakes A only if something completes that A waits for
//! ```
//!
//! The method has no thread of its own: nothing moves unless a thread tests or posts. One lock guards all
//! state; it is not held while a thread sleeps.
//!
//! A send completes when the kernel has accepted its bytes. Therefore a message that is longer than its
//! receive fails at both ends only if it was announced first: if it is longer than 1 MiB or than the room
//! left in the peer's window. A shorter message fails at the receiver only, because its send has already
//! completed.

mod counters;
mod endpoint;
mod farewell;
mod held;
mod link;
mod name;
mod post;
mod queue;
mod quiet;
mod receive;
mod state;
mod wire;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mio::{Events, Poll, Registry, Token, Waker};

pub use self::counters::{Counter, Counters};
use self::endpoint::{Endpoint, Listener};
use self::held::Allowance;
use self::name::Name;
use self::state::{LISTENER, State};
pub use self::wire::Violation;
use self::wire::{EXPECTED_MAX, UNEXPECTED_MAX, charge};
use crate::error::Error;
use crate::id::{Class, OpId};
use crate::method::{
    Factory, Limits, Method, Peer, Posted, Received, Request, Role, Setup, Traits, Wanted,
};
use crate::option::{Question, Setting};
use crate::turns::Turns;

/// Creates the method; pass it to [`crate::Builder::method`].
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    counters: Arc<Counters>,
    held_max: Option<u64>,
}

impl Tcp {
    /// Returns the method, with counters of its own.
    #[must_use]
    pub fn new() -> Tcp {
        Tcp::default()
    }

    /// Sets how many bytes of messages of all peers together may wait for the program. The default is 1 GiB.
    /// The connection of a peer that exceeds the limit is closed ([`Violation::Overdrawn`]).
    #[must_use]
    pub fn held_limit(self, bytes: u64) -> Tcp {
        Tcp {
            held_max: Some(bytes),
            ..self
        }
    }

    /// Returns the method's counters.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }
}

impl Factory for Tcp {
    fn name(&self) -> &'static str {
        "bmi_tcp"
    }

    fn scheme(&self) -> &'static str {
        "tcp"
    }

    fn start(&self, setup: Setup) -> Result<Arc<dyn Method>, Error> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let registry = poll.registry().try_clone()?;
        let listener = match &setup.role {
            Role::Client => None,
            Role::Server { listen } => Some(listener(listen, setup.bind_specific, &registry)?),
        };
        let counters = self.counters();
        let allowance = Allowance::new(self.held_max);
        let state = State::new(registry, listener, setup.completions, counters, allowance);
        Ok(Arc::new(TcpMethod {
            shared: Mutex::new(Shared {
                state,
                driving: false,
                followers: 0,
                asleep: false,
                news: 0,
                wakes: 0,
            }),
            changed: Condvar::new(),
            driver: Mutex::new(Driver {
                poll,
                events: Events::with_capacity(256),
            }),
            waker,
            unexpected: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }))
    }
}

/// The token of the waker.
const WAKER: Token = Token(usize::MAX - 2);

/// Listens on all addresses of this machine, unless `specific`. Only then is a name resolved: elsewhere the
/// host says no more than the version of IP, and file systems write names that nobody can resolve.
// [ADDR-24]
fn listener(listen: &str, specific: bool, registry: &Registry) -> Result<Listener, Error> {
    let every = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
    let at = |ip: IpAddr, port: u16| {
        let endpoint = Endpoint::Inet((ip, port).into());
        Listener::bind(&endpoint, registry, LISTENER)
    };
    let listener = match Name::to_listen_on(listen)? {
        Name::Host(host, port) if !specific => match host.parse() {
            Ok(IpAddr::V6(_)) => at(every[0], port),
            Ok(IpAddr::V4(_)) => at(every[1], port),
            Err(_) => at(every[0], port).or_else(|error| match error.kind() {
                ErrorKind::AddrInUse => Err(error),
                // There is no version 6 here.
                _ => at(every[1], port),
            }),
        },
        name => Listener::bind(&name.resolve()?, registry, LISTENER),
    };
    Ok(listener?)
}

/// The running method.
struct TcpMethod {
    shared: Mutex<Shared>,
    /// Notified when there is news, or when no thread drives, for threads that wait while another one drives.
    changed: Condvar,
    driver: Mutex<Driver>,
    waker: Waker,
    /// A copy of the number of unexpected messages that can be read without the lock.
    unexpected: AtomicUsize,
    closed: AtomicBool,
}

struct Driver {
    poll: Poll,
    events: Events,
}

struct Shared {
    state: State,
    /// Whether a thread drives.
    driving: bool,
    /// The number of threads that wait for the driver.
    followers: usize,
    /// Whether the driver sleeps or is about to sleep.
    asleep: bool,
    /// Changes whenever an operation completes or a message arrives.
    news: u64,
    /// Changes with each wake.
    wakes: u64,
}

impl TcpMethod {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports completed operations and notifies the threads that wait for them.
    fn report_done(&self, shared: &mut Shared) {
        let done = shared.state.report_done();
        let count = shared.state.unexpected_count;
        let before = self.unexpected.swap(count, Ordering::Release);
        if done || count > before {
            shared.news += 1;
            self.wake_all(shared);
        }
    }

    /// Makes all sleeping threads check their condition again.
    fn wake_all(&self, shared: &mut Shared) {
        if shared.followers > 0 {
            self.changed.notify_all();
        }
        if shared.asleep {
            shared.asleep = false;
            // The call fails only if the descriptor is closed; the driver notices that itself.
            let _ = self.waker.wake();
        }
    }

    /// Makes progress for at most `wait`, until `satisfied`.
    fn drive(&self, wait: Duration, met: impl Fn(&State) -> bool) -> Result<(), Error> {
        let mut turns = Turns::new(wait);
        let mut shared = self.lock();
        let wakes = shared.wakes;
        loop {
            self.check_open()?;
            if met(&shared.state) || shared.wakes != wakes {
                break;
            }
            let Some(left) = turns.next() else {
                break;
            };
            shared = if shared.driving {
                self.wait_for_driver(shared, left)
            } else {
                self.drive_once(shared, left)?
            };
        }
        if !shared.driving && shared.followers > 0 {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Waits until the driver has news or stops driving.
    fn wait_for_driver<'a>(
        &self,
        mut shared: MutexGuard<'a, Shared>,
        left: Duration,
    ) -> MutexGuard<'a, Shared> {
        if left.is_zero() {
            return shared;
        }
        shared.followers += 1;
        let (news, wakes) = (shared.news, shared.wakes);
        let nothing_new =
            |shared: &mut Shared| shared.driving && shared.news == news && shared.wakes == wakes;
        let waited = self.changed.wait_timeout_while(shared, left, nothing_new);
        let mut shared = waited.unwrap_or_else(PoisonError::into_inner).0;
        shared.followers -= 1;
        shared
    }

    /// Drives for one turn: sleeps until a socket is ready, then handles the event.
    fn drive_once<'a>(
        &'a self,
        mut shared: MutexGuard<'a, Shared>,
        left: Duration,
    ) -> Result<MutexGuard<'a, Shared>, Error> {
        let pressing = !shared.state.ready.is_empty();
        shared.driving = true;
        shared.asleep = true;
        drop(shared);
        let timeout = if pressing { Duration::ZERO } else { left };
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        let Driver { poll, events } = &mut *driver;
        let polled = poll.poll(events, Some(timeout));
        let mut shared = self.lock();
        shared.asleep = false;
        for event in events.iter() {
            match event.token() {
                WAKER => {}
                LISTENER => shared.state.acceptable = true,
                Token(index) => {
                    let ending = event.is_read_closed() || event.is_error();
                    let writable = event.is_writable() || event.is_error();
                    let readable = event.is_readable();
                    shared.state.note_ready(index, readable, writable, ending);
                }
            }
        }
        shared.state.progress();
        shared.driving = false;
        self.report_done(&mut shared);
        match polled {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                self.changed.notify_one();
                Err(error.into())
            }
            _ => Ok(shared),
        }
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::NetDown);
        }
        Ok(())
    }
}

impl Method for TcpMethod {
    fn traits(&self) -> Traits {
        Traits {
            receives_unexpected: true,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            expected: EXPECTED_MAX,
            unexpected: UNEXPECTED_MAX,
        }
    }

    fn lookup(&self, address: &str) -> Result<Peer, Error> {
        let name = Name::of_peer(address)?;
        self.check_open()?;
        match name.resolve() {
            Ok(remote) => Ok(Peer(self.lock().state.looked_up(remote))),
            // The name may be resolvable at the time of the first message.
            Err(_) => Ok(Peer(self.lock().state.looked_up_early(name))),
        }
    }

    fn peer_name(&self, peer: Peer) -> String {
        self.lock().state.name(peer)
    }

    fn in_range(&self, peer: Peer, wildcard: &str, bits: u32) -> Result<bool, Error> {
        let shared = self.lock();
        let state = shared.state.peer(peer.0).ok_or(Error::Inval)?;
        let from = state.remote.as_ref().or(state.seen.as_ref());
        let ip = from.and_then(Endpoint::ip).ok_or(Error::Inval)?;
        name::in_range(ip, wildcard, bits)
    }

    fn post(&self, request: &Request) -> Result<Posted, Error> {
        let mut shared = self.lock();
        self.check_open()?;
        // [ADDR-25]
        if let Some(name) = shared.state.early(request.peer.0) {
            drop(shared);
            let remote = name.resolve()?;
            shared = self.lock();
            self.check_open()?;
            shared.state.resolved(request.peer.0, remote);
        }
        let posted = shared.state.post(request);
        self.report_done(&mut shared);
        posted
    }

    fn cancel(&self, op: OpId) -> Result<(), Error> {
        let mut shared = self.lock();
        shared.state.cancel(op);
        self.report_done(&mut shared);
        Ok(())
    }

    fn test(&self, wanted: &Wanted<'_>, wait: Duration) -> Result<(), Error> {
        self.drive(wait, |state| {
            wanted.is_satisfied() || wanted.unexpected_ends_wait() && state.unexpected_count > 0
        })
    }

    fn test_unexpected(
        &self,
        class: Class,
        capacity: usize,
        wait: Duration,
        messages: &mut Vec<Received>,
    ) -> Result<(), Error> {
        // [BMI-16]
        let waiting = |state: &State| {
            let queue = state.unexpected.get(&class.0);
            queue.is_some_and(|queue| !queue.is_empty())
        };
        self.drive(wait, waiting)?;
        let mut shared = self.lock();
        let state = &mut shared.state;
        for _ in 0..capacity {
            let queue = state.unexpected.get_mut(&class.0);
            let Some(message) = queue.and_then(std::collections::VecDeque::pop_front) else {
                break;
            };
            state.unexpected_count -= 1;
            let cost = charge(message.received.data.len());
            state.consumed_unexpected(message.link, cost);
            messages.push(message.received);
        }
        self.report_done(&mut shared);
        Ok(())
    }

    fn unexpected_waiting(&self) -> bool {
        self.unexpected.load(Ordering::Acquire) > 0
    }

    fn wake(&self) {
        let mut shared = self.lock();
        shared.wakes += 1;
        self.wake_all(&mut shared);
    }

    // [OPT-2]
    fn set(&self, peer: Option<Peer>, setting: &Setting) -> Result<(), Error> {
        let mut shared = self.lock();
        match (setting, peer) {
            (Setting::TcpSendBuffer(len), _) => shared.state.buffers.choose_send(*len),
            (Setting::TcpReceiveBuffer(len), _) => shared.state.buffers.choose_receive(*len),
            (Setting::CloseConnection, Some(peer)) => {
                let peer = shared.state.known_as(peer.0);
                shared.state.disconnect(peer, Error::ConnReset);
                self.report_done(&mut shared);
            }
            _ => {}
        }
        Ok(())
    }

    fn get(&self, _peer: Option<Peer>, question: Question) -> Result<u64, Error> {
        match question {
            Question::TcpPort => Ok(u64::from(self.lock().state.port())),
            _ => Err(Error::NoSys),
        }
    }

    fn may_forget(&self, peer: Peer) -> bool {
        let shared = self.lock();
        let state = shared.state.peer(peer.0);
        state.is_none_or(|state| state.link.is_none())
    }

    fn forget(&self, peer: Peer) {
        let mut shared = self.lock();
        shared.state.forget(peer.0);
        self.report_done(&mut shared);
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let mut shared = self.lock();
        shared.wakes += 1;
        self.wake_all(&mut shared);
        let sockets = shared.state.close();
        drop(shared);
        farewell::part(sockets);
    }
}
