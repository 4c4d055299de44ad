//! The socket LND as the node above drives it.
//!
//! | File | Part |
//! |---|---|
//! | `accept` | listening, and handshakes that peers began |
//! | `dial` | dialling, and handshakes that we began |
//! | `traffic` | queueing, writing, reading |
//! | `closing` | closing connections with their siblings, interfaces, everything |
//! | `clock` | what is due when |
//!
//! The decisions are made in modules without sockets (`admit`, `choose`, `dialling`, `receive`,
//! `transmit`); the files here carry them out.

mod accept;
mod clock;
mod closing;
mod dial;
mod traffic;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use lnet_types::{LndType, Nid, ProcessId, Time};
use mio::event::Event;
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};
use rustc_hash::FxHashMap;
use slab::Slab;

use self::clock::Timer;
use crate::config::{AcceptMode, LndNi, NiTuning, SocklndConfig};
use crate::connection::Connection;
use crate::error::AddNiError;
use crate::handshake::Handshake;
use crate::limit::LogLimiter;
use crate::peer::{Peer, PeerKey};
use crate::socket;
use crate::stats::{DialFailure, SocklndStats};
use crate::upper::{NiKey, RxToken, Upper};
use crate::view::ConnectionView;

/// Where unwanted bytes go; shared by all connections.
const SCRATCH_BYTES: usize = 64 << 10;

/// The socket LND of one node: all its TCP interfaces, peers and connections.
///
/// It reads no clock and waits for nothing. The node above polls the [`mio::Poll`] whose registry it
/// gave, and drives the LND in turns, each with the time `now`:
///
/// 1. [`ready`](Self::ready) for every event whose token is at least `first_token`;
/// 2. [`tick`](Self::tick) when [`next_deadline`](Self::next_deadline) has come;
/// 3. [`send`](Self::send) and [`resume`](Self::resume) for whatever the node decided;
/// 4. [`flush`](Self::flush), which writes what was queued: as many frames a system call as there are.
///    When it returns true there is more to do at once, and the poll must not wait.
///
/// What happens is told to the [`Upper`] that each call is given, from within the call. It must be the
/// same one each time. Times must not go backwards.
///
/// Work per message is constant, whatever the number of peers and connections.
pub struct Socklnd {
    config: SocklndConfig,
    registry: Registry,
    first_token: usize,
    nis: FxHashMap<NiKey, LndNi>,
    ni_by_nid: BTreeMap<Nid, NiKey>,
    listeners: BTreeMap<IpAddr, usize>,
    slots: Slab<Slot>,
    peers: Slab<Peer>,
    peer_by_key: FxHashMap<PeerKey, usize>,
    /// Accepted handshakes, oldest first.
    half_open: BTreeMap<u64, usize>,
    next_sequence: u64,
    next_use: u64,
    timers: BTreeSet<(Time, Timer)>,
    /// Connections that have frames to write and can be written.
    writes: VecDeque<usize>,
    /// Connections, and listeners, that may have more to read.
    reads: VecDeque<usize>,
    /// The connections of messages that the upper side holds.
    held: FxHashMap<RxToken, usize>,
    scratch: Box<[u8]>,
    random: SplitMix64,
    log: LogLimiter,
    stats: SocklndStats,
}

/// What a token stands for. Boxes keep the table small when most slots are idle connections.
enum Slot {
    Listener(Listener),
    Handshake(Box<Handshake>),
    Connection(Box<Connection>),
    /// Between handshake and connection.
    Changing,
}

struct Listener {
    socket: TcpListener,
    address: IpAddr,
    in_reads: bool,
    /// When accepting is tried again after the system was short of something.
    retry_at: Option<Time>,
}

impl Socklnd {
    /// An LND without interfaces. It uses mio tokens from `first_token` upwards on `registry`; `seed`
    /// spreads its retries.
    #[must_use]
    pub fn new(config: SocklndConfig, registry: Registry, first_token: usize, seed: u64) -> Self {
        Self {
            config,
            registry,
            first_token,
            nis: FxHashMap::default(),
            ni_by_nid: BTreeMap::new(),
            listeners: BTreeMap::new(),
            slots: Slab::new(),
            peers: Slab::new(),
            peer_by_key: FxHashMap::default(),
            half_open: BTreeMap::new(),
            next_sequence: 0,
            next_use: 0,
            timers: BTreeSet::new(),
            writes: VecDeque::new(),
            reads: VecDeque::new(),
            held: FxHashMap::default(),
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
            random: SplitMix64(seed),
            log: LogLimiter::default(),
            stats: SocklndStats::default(),
        }
    }

    /// Adds an interface and listens on its address, unless the configuration says to accept nobody.
    /// Interfaces with the same address share the listening socket; peers name the one they mean.
    ///
    /// # Errors
    ///
    /// [`AddNiError`] says what is wrong and what to do about it.
    pub fn add_ni(&mut self, ni: LndNi) -> Result<(), AddNiError> {
        if ni.nid.net().lnd != LndType::TCP {
            return Err(AddNiError::NotTcp(ni.nid));
        }
        let address = ni.nid.ip().ok_or(AddNiError::NotTcp(ni.nid))?;
        if self.nis.contains_key(&ni.ni) || self.ni_by_nid.contains_key(&ni.nid) {
            return Err(AddNiError::Duplicate {
                ni: ni.ni,
                nid: ni.nid,
            });
        }
        if self.config.accept == AcceptMode::None {
            socket::probe(address, &self.config)?;
        } else if !self.listeners.contains_key(&address) {
            self.listen(address)?;
        }
        self.nis.insert(ni.ni, ni);
        self.ni_by_nid.insert(ni.nid, ni.ni);
        Ok(())
    }

    /// Gives an interface other settings; its connections stay. False when there is no such interface.
    pub fn tune(&mut self, ni: NiKey, tuning: NiTuning) -> bool {
        let known = self.nis.get_mut(&ni);
        known.map(|known| known.tuning = tuning).is_some()
    }

    /// Sets [`SocklndConfig::sock_timeout`], for the interfaces that have none of their own.
    pub fn set_sock_timeout(&mut self, timeout: Duration) {
        self.config.sock_timeout = timeout;
    }

    fn listen(&mut self, address: IpAddr) -> Result<(), AddNiError> {
        let mut socket = socket::listen(address, &self.config)?;
        let entry = self.slots.vacant_entry();
        let token = Token(self.first_token + entry.key());
        let port = self.config.port;
        self.registry
            .register(&mut socket, token, Interest::READABLE)
            .map_err(|source| AddNiError::Listen {
                address,
                port,
                source,
            })?;
        self.listeners.insert(address, entry.key());
        entry.insert(Slot::Listener(Listener {
            socket,
            address,
            in_reads: false,
            retry_at: None,
        }));
        Ok(())
    }

    /// Takes a readiness event whose token is at least `first_token`. One that belongs to nothing (any
    /// more) is ignored.
    pub fn ready(&mut self, event: &Event, now: Time, upper: &mut impl Upper) {
        let Some(slot) = event.token().0.checked_sub(self.first_token) else {
            return;
        };
        match self.slots.get_mut(slot) {
            Some(Slot::Listener(_)) => self.accept(slot, now, upper),
            Some(Slot::Handshake(handshake)) => {
                handshake.peer_closed |= event.is_read_closed() || event.is_error();
                self.advance_handshake(slot, now, upper);
            }
            Some(Slot::Connection(connection)) => {
                connection.peer_closed |= event.is_read_closed() || event.is_error();
                if event.is_writable() {
                    connection.writable = true;
                    self.want_write(slot);
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.read(slot, now, upper);
                }
            }
            Some(Slot::Changing) | None => {}
        }
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> &SocklndStats {
        &self.stats
    }

    /// The established connections, in no particular order.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionView> {
        self.slots.iter().filter_map(|(_, slot)| match slot {
            Slot::Connection(connection) => Some(connection.view()),
            Slot::Listener(_) | Slot::Handshake(_) | Slot::Changing => None,
        })
    }

    /// Why the peer with this NID could not be dialled the last time; `None` since there was a connection, or
    /// when nothing is known of it.
    #[must_use]
    pub fn dial_failure(&self, nid: Nid) -> Option<DialFailure> {
        let id = ProcessId::lustre(nid);
        self.nis.keys().find_map(|&ni| {
            let peer = *self.peer_by_key.get(&PeerKey { ni, id })?;
            self.peers.get(peer)?.last_failure
        })
    }

    fn connection(&self, slot: usize) -> Option<&Connection> {
        match self.slots.get(slot) {
            Some(Slot::Connection(connection)) => Some(connection),
            _ => None,
        }
    }

    fn connection_mut(&mut self, slot: usize) -> Option<&mut Connection> {
        match self.slots.get_mut(slot) {
            Some(Slot::Connection(connection)) => Some(connection),
            _ => None,
        }
    }

    fn handshake_mut(&mut self, slot: usize) -> Option<&mut Handshake> {
        match self.slots.get_mut(slot) {
            Some(Slot::Handshake(handshake)) => Some(handshake),
            _ => None,
        }
    }

    /// The peer with this key, made if need be.
    fn peer_index(&mut self, key: PeerKey) -> usize {
        if let Some(&peer) = self.peer_by_key.get(&key) {
            return peer;
        }
        let nid = key.id.nid;
        let address = nid
            .ip()
            .filter(|_| nid.net().lnd == LndType::TCP)
            .map(|ip| (ip, self.config.port).into());
        let peer = self.peers.insert(Peer::new(key, address));
        self.peer_by_key.insert(key, peer);
        peer
    }

    /// Forgets a peer of which nothing needs to be remembered.
    fn forget_if_idle(&mut self, peer: usize, now: Time) {
        if !self
            .peers
            .get(peer)
            .is_some_and(|it| it.is_forgettable(now))
        {
            return;
        }
        let gone = self.peers.remove(peer);
        self.peer_by_key.remove(&gone.key);
        if let Some(time) = gone.armed {
            self.timers.remove(&(time, Timer::Peer(peer)));
        }
    }
}

/// The generator of Steele, Lea and Flood: enough to spread retries, and the same everywhere.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
