//! Peers and their interfaces (sections 1.3 to 1.5 of lnet-selection).
//!
//! ```text
//!  Peer ── primary NID, Multi-Rail?, routes through it
//!   └─ PeerNet ── priority, health (the best of its NIs), sequence
//!       └─ PeerNi ── NID, health, status, credits, priority, preferred sources and gateways
//! ```
//!
//! A peer NI is created by configuration or by traffic: by the first message from it or to it. What
//! traffic created may be forgotten again while it is idle, so a flood of source addresses costs a
//! bounded amount of memory and never pushes out what is configured or in use. A peer NI that is alone
//! and not Multi-Rail has no [`Peer`]: it is its own.

mod peers;
#[cfg(test)]
mod tests;

use lnet_policy::{Effective, PreferredList};
use lnet_types::{Net, Nid, Time};
use smallvec::SmallVec;

pub use peers::MAX_PEER_NIS;
pub(crate) use peers::Peers;

use crate::counts::counters::MessageStats;
use crate::counts::latency::LatencyStats;
use crate::discovery::table::Discovery;
use crate::health::recovery::Recovery;
use crate::health::value::{Health, PeerHealthStats};
use crate::io::{NiId, RxId, TxId};
use crate::policies::SourceListId;
use crate::send::credits::Credits;
use crate::table::Key;

/// Names a peer NI; goes stale when it is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PeerNiId(u64);

impl Key for PeerNiId {
    fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    fn raw(self) -> u64 {
        self.0
    }
}

/// Names a [`Peer`]; goes stale when it is forgotten.
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
    /// The peer, where there is more to know of it.
    pub(crate) peer: Option<PeerId>,
    /// Messages to it that are with the LND or wait for an NI credit hold one each.
    pub(crate) credits: Credits<TxId>,
    /// Bytes queued and in flight, headers included.
    queued_bytes: u64,
    /// Messages from it that are routed hold one each, for a router buffer.
    pub(crate) router_credits: Credits<RxId>,
    /// The interfaces of ours that have connections to it, as their LND reported.
    pub(crate) connected: SmallVec<[NiId; 2]>,
    /// Reported down, at this time; cleared by whatever arrives from it.
    pub(crate) down_since: Option<Time>,
    /// The incarnation that its last connections had.
    pub(crate) incarnation: Option<u64>,
    /// When it was last heard of or sent to.
    pub(crate) last_used: Time,
    /// When it was last heard of.
    pub(crate) last_alive: Option<Time>,
    /// The local interface that a non-Multi-Rail peer always sees (section 2.11 of lnet-selection).
    // [DISC-8]
    pub(crate) pinned: Option<NiId>,
    pub(crate) health: Health,
    /// What its node last said of it in ping information.
    pub(crate) status_up: bool,
    pub(crate) recovery: Recovery,
    /// Round-robin stamp of the last use.
    pub(crate) seq: u64,
    /// Numbers the rules that the three below are made of.
    pub(crate) rules_round: u32,
    /// What the rules say of it.
    pub(crate) priority: Effective,
    /// The local interfaces that the rules prefer for it.
    pub(crate) sources: SourceListId,
    /// The gateways that the rules prefer on the way to it, if there are any.
    pub(crate) gateways: Option<PreferredList>,
    pub(crate) health_stats: PeerHealthStats,
    pub(crate) stats: MessageStats,
    /// Of a primary NID: how far the discovery of the peer is.
    pub(crate) discovery: Option<Box<Discovery>>,
    /// `None` until the first one is taken: most peers of a large node never get there.
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

    /// No message of ours or through us depends on this entry.
    fn is_idle(&self) -> bool {
        let discovery = self.discovery.as_ref();
        self.credits.are_idle()
            && self.router_credits.are_idle()
            && !self.recovery.is_pending()
            && discovery.is_none_or(|discovery| discovery.is_idle())
    }

    /// A resend may use it (section 2.2 of lnet-selection).
    pub(crate) fn is_optimal(&self) -> bool {
        self.status_up && self.health.is_full()
    }

    /// An interface of ours has connections to it, or has lost the last one: it is down when no
    /// interface has any.
    pub(crate) fn notify(&mut self, ni: NiId, connected: bool, now: Time) {
        self.connected.retain(|known| *known != ni);
        if connected {
            self.connected.push(ni);
        }
        self.down_since = self.connected.is_empty().then_some(now);
    }

    /// Bytes queued to it and in flight, headers included.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// A message of this many bytes is queued to it.
    pub(crate) fn count_queued(&mut self, bytes: u64) {
        self.queued_bytes += bytes;
    }

    /// Such a message is gone. False when so many bytes were not queued.
    #[must_use]
    pub(crate) fn uncount_queued(&mut self, bytes: u64) -> bool {
        let left = self.queued_bytes.checked_sub(bytes);
        self.queued_bytes = left.unwrap_or(0);
        left.is_some()
    }
}

/// A peer that is more than the one NID it was seen with: configured, a gateway, or discovered.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) primary: Nid,
    pub(crate) nids: SmallVec<[Nid; 2]>,
    /// Its nets, that of the primary NID first.
    pub(crate) nets: SmallVec<[PeerNet; 1]>,
    pub(crate) multi_rail: bool,
    /// Given by `add_peer`.
    pub(crate) configured: bool,
    /// Discovery may not change its primary NID: the number of the lock, of which an earlier one comes first.
    pub(crate) lock: Option<u64>,
    /// Number of routes through it.
    pub(crate) routes: u32,
    /// Messages in a row that were sent through it and never answered.
    pub(crate) silent: u32,
    /// Where the stamps of its nets and NIs come from.
    pub(crate) send_seq: u64,
}

/// The interfaces of a peer on one net.
#[derive(Clone, Debug)]
pub(crate) struct PeerNet {
    pub(crate) net: Net,
    pub(crate) nis: SmallVec<[PeerNiId; 4]>,
    /// That of its healthiest NI.
    pub(crate) health: Health,
    /// Round-robin stamp of the last use.
    pub(crate) seq: u64,
    /// What the rules say of it.
    pub(crate) priority: Effective,
}

impl Peer {
    /// It stays known while nothing of it is under way.
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

    /// Takes in a NID; those that it has already stay where they are.
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

    /// Its interfaces on a net.
    pub(crate) fn on_net(&self, net: Net) -> Option<&PeerNet> {
        self.nets.iter().find(|on| on.net == net)
    }
}
