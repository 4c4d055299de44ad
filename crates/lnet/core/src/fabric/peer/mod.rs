//! Peers and their interfaces.
//!
//! ```text
//!  Peer ── primary NID, Multi-Rail?, routes through it
//!   └─ PeerNet ── priority, health (the best of its NIs), sequence
//!       └─ PeerNi ── NID, health, status, credits, priority, preferred sources and gateways
//! ```
//!
//! A peer NI is created by configuration or by traffic: by the first message from it or to it. A peer NI that traffic
//! created may be removed while it is idle. So a flood of source addresses uses a limited amount of memory, and never
//! replaces a peer that is configured or in use. A peer NI that is the only one of its peer and not Multi-Rail has no
//! [`Peer`]: it stands for the peer itself.

mod peers;
#[cfg(test)]
mod tests;

use lnet_policy::{Effective, PreferredList};
use lnet_types::{Net, Nid, Time};
use smallvec::SmallVec;

use crate::fabric::discovery::Discovery;
use crate::fabric::health::recovery::Recovery;
use crate::fabric::policies::SourceListId;
use crate::ground::counters::MessageStats;
use crate::ground::credits::Credits;
use crate::ground::health::{Health, PeerHealthStats};
use crate::ground::ids::PeerNiId;
use crate::ground::io::{NiId, RxId, TxId};
use crate::ground::latency::LatencyStats;
use crate::ground::table::Key;
pub use peers::MAX_PEER_NIS;
pub(crate) use peers::Peers;

/// Id of a [`Peer`]. It becomes invalid when the peer is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerId(u64);

impl Key for PeerId {
    fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    fn raw(self) -> u64 {
        self.0
    }
}

/// An interface of a peer.
#[derive(Debug)]
pub(crate) struct PeerNi {
    pub(crate) nid: Nid,
    /// The peer's primary NID, which is the peer's name.
    pub(crate) primary: Nid,
    /// The peer; `None` if the peer NI stands for the peer itself.
    pub(crate) peer: Option<PeerId>,
    /// Credits of the peer NI. Each message to it that the LND has or that waits for an NI credit holds one.
    pub(crate) credits: Credits<TxId>,
    /// Bytes queued and in flight, headers included.
    queued_bytes: u64,
    /// Router credits. Each routed message from the peer NI holds one, for a router buffer.
    pub(crate) router_credits: Credits<RxId>,
    /// The local interfaces that have connections to the peer NI, as their LNDs reported.
    pub(in crate::fabric) connected: SmallVec<[NiId; 2]>,
    /// When the LND reported the peer NI down; cleared by any message from it.
    pub(crate) down_since: Option<Time>,
    /// The incarnation in its last connections; `None` before the first.
    pub(crate) incarnation: Option<u64>,
    /// When a message was last received from the peer NI or sent to it.
    pub(crate) last_used: Time,
    /// When a message was last received from the peer NI; `None` if none was.
    pub(crate) last_alive: Option<Time>,
    /// The local interface that a non-Multi-Rail peer always sees.
    // [DISC-8]
    pub(crate) pinned: Option<NiId>,
    pub(crate) health: Health,
    /// True if the peer NI is up according to the last ping information of its node.
    pub(crate) status_up: bool,
    pub(crate) recovery: Recovery,
    /// Round-robin stamp of the last use.
    pub(crate) seq: u64,
    /// The round of the rules that `priority`, `sources` and `gateways` were made from.
    pub(in crate::fabric) rules_round: u32,
    /// The effective priority by the rules.
    pub(crate) priority: Effective,
    /// The local interfaces that the rules prefer for it.
    pub(crate) sources: SourceListId,
    /// The gateways that the rules prefer for it, if any.
    pub(crate) gateways: Option<PreferredList>,
    pub(crate) health_stats: PeerHealthStats,
    pub(crate) stats: MessageStats,
    /// The state of the peer's discovery; only at the peer NI of a primary NID.
    pub(crate) discovery: Option<Box<Discovery>>,
    /// `None` until the first latency is measured, since most peers of a large node never have one.
    pub(crate) latency: Option<Box<LatencyStats>>,
}

impl PeerNi {
    fn new(nid: Nid, now: Time) -> Self {
        Self {
            nid,
            primary: nid,
            peer: None,
            credits: Credits::default(),
            queued_bytes: 0,
            router_credits: Credits::default(),
            connected: SmallVec::new(),
            down_since: None,
            incarnation: None,
            last_used: now,
            last_alive: None,
            pinned: None,
            health: Health::MAX,
            status_up: true,
            recovery: Recovery::default(),
            seq: 0,
            rules_round: 0,
            priority: Effective::NONE,
            sources: SourceListId::NONE,
            gateways: None,
            health_stats: PeerHealthStats::default(),
            stats: MessageStats::default(),
            discovery: None,
            latency: None,
        }
    }

    /// Returns whether no message of this node or through it depends on this peer NI.
    fn is_idle(&self) -> bool {
        let discovery = self.discovery.as_ref();
        self.credits.are_idle()
            && self.router_credits.are_idle()
            && !self.recovery.is_pending()
            && discovery.is_none_or(|discovery| discovery.is_idle())
    }

    /// Returns whether a resend may use the peer NI.
    // [RESEND-20]
    pub(crate) fn is_optimal(&self) -> bool {
        self.status_up && self.health.is_full()
    }

    /// Notes that a local interface has connections to the peer NI or none. The peer NI is down if no local interface
    /// has any.
    pub(crate) fn notify(&mut self, ni: NiId, connected: bool, now: Time) {
        self.connected.retain(|known| *known != ni);
        if connected {
            self.connected.push(ni);
        }
        self.down_since = self.connected.is_empty().then_some(now);
    }

    /// Returns the bytes queued to the peer NI and in flight, headers included.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Adds a message of this many bytes to the queued bytes.
    pub(crate) fn add_queued(&mut self, bytes: u64) {
        self.queued_bytes += bytes;
    }

    /// Subtracts such a message. Returns false if fewer bytes were queued.
    #[must_use]
    pub(crate) fn subtract_queued(&mut self, bytes: u64) -> bool {
        let left = self.queued_bytes.checked_sub(bytes);
        self.queued_bytes = left.unwrap_or(0);
        left.is_some()
    }
}

/// A peer that is configured, a gateway, or discovered, and so more than the one NID that a message named.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(in crate::fabric) primary: Nid,
    pub(crate) nids: SmallVec<[Nid; 2]>,
    /// Its nets, that of the primary NID first.
    pub(crate) nets: SmallVec<[PeerNet; 1]>,
    pub(crate) multi_rail: bool,
    /// True if `add_peer` configured the peer.
    pub(crate) configured: bool,
    /// The number of the lock that forbids discovery to change the primary NID. A lower number is an earlier lock and
    /// wins.
    pub(crate) lock: Option<u64>,
    /// Number of routes through it.
    pub(crate) routes: u32,
    /// Number of consecutive messages through the peer, as a gateway, that were not answered.
    pub(crate) silent: u32,
    /// The counter that the stamps of its nets and NIs are taken from.
    pub(crate) send_seq: u64,
}

/// The interfaces of a peer on one net.
#[derive(Clone, Debug)]
pub(crate) struct PeerNet {
    pub(crate) net: Net,
    pub(crate) nis: SmallVec<[PeerNiId; 4]>,
    /// The health of its healthiest NI.
    pub(in crate::fabric) health: Health,
    /// Round-robin stamp of the last use.
    pub(crate) seq: u64,
    /// The effective priority by the rules.
    pub(in crate::fabric) priority: Effective,
}

impl Peer {
    /// Returns whether the peer stays in the table although nothing of it is under way.
    fn stays(&self) -> bool {
        self.configured || self.routes > 0 || self.lock.is_some()
    }

    fn new(primary: Nid) -> Self {
        Self {
            primary,
            nids: SmallVec::new(),
            nets: SmallVec::new(),
            multi_rail: false,
            configured: false,
            lock: None,
            routes: 0,
            silent: 0,
            send_seq: 0,
        }
    }

    /// Adds a NID. A NID that the peer already has stays in its place.
    fn adopt(&mut self, nid: Nid, id: PeerNiId) {
        if self.nids.contains(&nid) {
            return;
        }
        self.nids.push(nid);
        match self.nets.iter_mut().find(|on| on.net == nid.net()) {
            Some(on) => on.nis.push(id),
            None => self.nets.push(PeerNet {
                net: nid.net(),
                nis: SmallVec::from_slice(&[id]),
                health: Health::MAX,
                seq: 0,
                priority: Effective::NONE,
            }),
        }
    }

    /// Returns its interfaces on a net.
    pub(in crate::fabric) fn on_net(&self, net: Net) -> Option<&PeerNet> {
        self.nets.iter().find(|on| on.net == net)
    }
}
