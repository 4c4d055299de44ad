//! The socket LND, as the node above drives it.
//!
//! | File | Part |
//! |---|---|
//! | `accept` | listening, and handshakes that peers began |
//! | `dial` | dialling, and handshakes that we began |
//! | `traffic` | queueing, writing, reading |
//! | `closing` | closing connections with their siblings, interfaces, everything |
//! | `clock` | what is due when |
//!
//! The decisions are made in modules without streams (`admit`, `choose`, `dialling`, `receive`,
//! `transmit`); the files here carry them out.

mod accept;
mod clock;
mod closing;
mod dial;
mod traffic;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use lnd::{NiId, RxId};
use lnet_types::{LndType, Nid, ProcessId, SplitMix64, Time};
use rustc_hash::FxHashMap;
use slab::Slab;

use self::clock::Timer;
use crate::config::{AcceptMode, LndNi, NiTuning, SocklndConfig};
use crate::connection::Connection;
use crate::error::AddNiError;
use crate::handshake::Handshake;
use crate::job::{Above, Batch};
use crate::limit::LogLimiter;
use crate::network::{Network, Readiness};
use crate::peer::{Peer, PeerKey};
use crate::sockets::Sockets;
use crate::stats::{DialFailure, SocklndStats};
use crate::view::ConnectionView;

/// The size of the buffer into which bytes of rejected peers are read, in bytes.
const SCRATCH_BYTES: usize = 4 << 10;

/// The socket LND of one node: all its TCP interfaces, peers and connections.
///
/// The LND reads no clock and waits for nothing. It does not move the bytes of established connections itself: it
/// returns [`crate::Job`]s that move them. The node above waits for readiness and drives the LND in turns, and passes
/// the time `now` to each call:
///
/// 1. [`ready`](Self::ready) for everything that is ready;
/// 2. [`tick`](Self::tick) when [`next_deadline`](Self::next_deadline) has come;
/// 3. [`send`](Self::send) and [`resume`](Self::resume) for every decision of the node;
/// 4. [`next_job`](Self::next_job), [`crate::Job::run`] and [`finish`](Self::finish) with the same
///    [`crate::Staging`], as long as there are jobs. Each write takes as many frames as are queued.
///
/// Jobs of several threads may run at the same time. Everything else happens under one lock, which a running job does
/// not need.
///
/// During a call, the LND reports events to the [`crate::Upper`] that is passed to the call. This must be the same
/// one each time. Times must not go backwards.
///
/// The work per message is constant, whatever the number of peers and connections.
pub struct Socklnd<N: Network = Sockets> {
    config: SocklndConfig,
    network: N,
    nis: FxHashMap<NiId, LndNi>,
    ni_by_nid: BTreeMap<Nid, NiId>,
    listeners: BTreeMap<IpAddr, usize>,
    slots: Slab<Slot<N>>,
    peers: Slab<Peer>,
    peer_by_key: FxHashMap<PeerKey, usize>,
    /// The slots of accepted handshakes by their sequence numbers, oldest first.
    half_open: BTreeMap<u64, usize>,
    next_sequence: u64,
    next_serial: u64,
    next_use: u64,
    timers: BTreeSet<(Time, Timer)>,
    /// The slots of connections that have frames to write and room for them.
    writes: VecDeque<usize>,
    /// The slots of connections and listeners that may have more to read.
    reads: VecDeque<usize>,
    /// True if the last turn of [`next_job`](Self::next_job) was for a read.
    has_read: bool,
    /// The slots of connections with a message that the node above holds.
    held: FxHashMap<RxId, usize>,
    scratch: Box<[u8]>,
    /// The memory of the last write, reused by the next one.
    spare_batch: Batch,
    random: SplitMix64,
    log: LogLimiter,
    stats: SocklndStats,
    /// A defect that a test has switched on, for new connections.
    #[cfg(feature = "defects")]
    deaf: bool,
    #[cfg(feature = "defects")]
    ignores_races: bool,
    #[cfg(feature = "defects")]
    closes_crossed: bool,
    #[cfg(feature = "defects")]
    takes_crossed: bool,
}

/// The object with this number. Boxes keep the table small if most slots are idle connections.
enum Slot<N: Network> {
    Listener(Listener<N::Listener>),
    Handshake(Box<Handshake<N::Stream>>),
    Connection(Box<Connection<N::Stream>>),
    /// A handshake that is about to become a connection.
    Changing,
}

struct Listener<L> {
    socket: L,
    address: IpAddr,
    in_reads: bool,
    /// When to retry accepting after the system lacked descriptors or memory.
    retry_at: Option<Time>,
}

impl<N: Network> Socklnd<N> {
    /// Makes an LND without interfaces on a network; `seed` randomizes the times of its retries.
    #[must_use]
    pub fn new(config: SocklndConfig, network: N, seed: u64) -> Self {
        Self {
            config,
            network,
            nis: FxHashMap::default(),
            ni_by_nid: BTreeMap::new(),
            listeners: BTreeMap::new(),
            slots: Slab::new(),
            peers: Slab::new(),
            peer_by_key: FxHashMap::default(),
            half_open: BTreeMap::new(),
            next_sequence: 0,
            next_serial: 0,
            next_use: 0,
            timers: BTreeSet::new(),
            writes: VecDeque::new(),
            reads: VecDeque::new(),
            has_read: false,
            held: FxHashMap::default(),
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
            spare_batch: Batch::default(),
            random: SplitMix64::new(seed),
            log: LogLimiter::default(),
            stats: SocklndStats::default(),
            #[cfg(feature = "defects")]
            deaf: false,
            #[cfg(feature = "defects")]
            ignores_races: false,
            #[cfg(feature = "defects")]
            closes_crossed: false,
            #[cfg(feature = "defects")]
            takes_crossed: false,
        }
    }

    /// Makes connections forget readiness that is reported while one of their reads is in progress.
    #[cfg(feature = "defects")]
    pub fn forget_news_during_reads(&mut self) {
        self.deaf = true;
    }

    /// Accepts a peer with a lower NID while that peer is being dialled, against [SET-5].
    #[cfg(feature = "defects")]
    pub fn ignore_races(&mut self) {
        self.ignores_races = true;
    }

    /// Closes a connection that it has dialled right after the answer if the peer has dialled the same type
    /// meanwhile. No defect, but what kernel nodes do.
    #[cfg(feature = "defects")]
    pub fn close_crossed(&mut self) {
        self.closes_crossed = true;
    }

    /// Accepts a connection that crossed one of its own, and takes its end for the end of the peer.
    #[cfg(feature = "defects")]
    pub fn take_crossed(&mut self) {
        self.takes_crossed = true;
    }

    /// Whether a defect is planted that concerns crossed connections.
    #[cfg(feature = "defects")]
    pub(super) fn takes_crossed(&self) -> bool {
        self.takes_crossed
    }

    #[cfg(not(feature = "defects"))]
    #[expect(clippy::unused_self, reason = "the other form reads a switch")]
    pub(super) fn takes_crossed(&self) -> bool {
        false
    }

    /// Adds an interface and listens on its address, unless the configuration accepts no peers. Interfaces with the
    /// same address share the listening socket; peers name the interface that they mean.
    ///
    /// # Errors
    ///
    /// [`AddNiError`] says what is wrong and how to correct it.
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
            self.network.probe(address, &self.config)?;
        } else if !self.listeners.contains_key(&address) {
            self.listen(address)?;
        }
        self.nis.insert(ni.ni, ni);
        self.ni_by_nid.insert(ni.nid, ni.ni);
        Ok(())
    }

    /// Changes the settings of an interface; its connections stay. Returns false if there is no such interface.
    pub fn tune(&mut self, ni: NiId, tuning: NiTuning) -> bool {
        let peers = self.peers.iter_mut().map(|(_, peer)| peer);
        peers
            .filter(|peer| peer.key.ni == ni)
            .for_each(|peer| peer.is_complete = false);
        let known = self.nis.get_mut(&ni);
        known.map(|known| known.tuning = tuning).is_some()
    }

    /// Sets [`SocklndConfig::sock_timeout`], for the interfaces without a timeout of their own.
    pub fn set_sock_timeout(&mut self, timeout: Duration) {
        self.config.sock_timeout = timeout;
    }

    /// Sets [`SocklndConfig::match_addresses`], for later connections.
    pub fn match_addresses(&mut self, on: bool) {
        self.config.match_addresses = on;
    }

    fn listen(&mut self, address: IpAddr) -> Result<(), AddNiError> {
        let entry = self.slots.vacant_entry();
        let socket = self.network.listen(entry.key(), address, &self.config)?;
        self.listeners.insert(address, entry.key());
        entry.insert(Slot::Listener(Listener {
            socket,
            address,
            in_reads: false,
            retry_at: None,
        }));
        Ok(())
    }

    /// Returns the network, for the program that drives it.
    pub fn network(&mut self) -> &mut N {
        &mut self.network
    }

    /// Handles readiness of a slot. Readiness of a slot that is empty, or no longer used, is ignored.
    pub fn ready(&mut self, slot: usize, readiness: Readiness, now: Time, upper: &mut impl Above) {
        match self.slots.get_mut(slot) {
            Some(Slot::Listener(_)) => self.accept(slot, now, upper),
            Some(Slot::Handshake(handshake)) => {
                handshake.peer_closed |= readiness.closed;
                self.advance_handshake(slot, now, upper);
            }
            Some(Slot::Connection(connection)) => {
                connection.note(readiness);
                if readiness.writable {
                    self.want_write(slot);
                }
                if readiness.readable || readiness.closed {
                    self.want_read(slot);
                }
            }
            Some(Slot::Changing) | None => {}
        }
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> &SocklndStats {
        &self.stats
    }

    /// Returns the established connections, in no particular order.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionView> {
        self.slots.iter().filter_map(|(_, slot)| match slot {
            Slot::Connection(connection) => Some(connection.view()),
            Slot::Listener(_) | Slot::Handshake(_) | Slot::Changing => None,
        })
    }

    /// Returns why the last attempt to dial the peer with this NID failed; `None` if a connection was established
    /// since, or if nothing is known of the peer.
    #[must_use]
    pub fn dial_failure(&self, nid: Nid) -> Option<DialFailure> {
        let id = ProcessId::lustre(nid);
        self.nis.keys().find_map(|&ni| {
            let index = *self.peer_by_key.get(&PeerKey { ni, id })?;
            self.peers.get(index)?.last_failure
        })
    }

    fn connection(&self, slot: usize) -> Option<&Connection<N::Stream>> {
        match self.slots.get(slot) {
            Some(Slot::Connection(connection)) => Some(connection),
            _ => None,
        }
    }

    fn connection_mut(&mut self, slot: usize) -> Option<&mut Connection<N::Stream>> {
        match self.slots.get_mut(slot) {
            Some(Slot::Connection(connection)) => Some(connection),
            _ => None,
        }
    }

    fn handshake_mut(&mut self, slot: usize) -> Option<&mut Handshake<N::Stream>> {
        match self.slots.get_mut(slot) {
            Some(Slot::Handshake(handshake)) => Some(handshake),
            _ => None,
        }
    }

    /// Returns the index of the peer with this key; adds the peer if it is new.
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

    /// Removes a peer of which nothing needs to be remembered.
    fn forget_if_idle(&mut self, index: usize, now: Time) {
        if !self
            .peers
            .get(index)
            .is_some_and(|peer| peer.is_forgettable(now))
        {
            return;
        }
        let gone = self.peers.remove(index);
        self.peer_by_key.remove(&gone.key);
        if let Some(time) = gone.armed {
            self.timers.remove(&(time, Timer::Peer(index)));
        }
    }
}
