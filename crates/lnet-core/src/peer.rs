//! Peers and their interfaces (sections 1.3 to 1.5 of lnet-selection).
//!
//! A peer NI is created by configuration or by traffic: by the first message from it or to it. What
//! traffic created may be forgotten again while it is idle, so a flood of source addresses costs a
//! bounded amount of memory and never pushes out what is configured or in use.

use std::collections::{BTreeMap, VecDeque};

use lnet_types::{Nid, Time};
use rustc_hash::{FxHashMapSeed, FxSeededState};
use smallvec::SmallVec;

use crate::counters::MessageStats;
use crate::io::{NiId, RxId, TxId};
use crate::table::{Key, Table};

/// The most peer NIs that a node knows at once. The largest machines have about 160,000 nodes, but a
/// node behind routers talks to the routers; at some 400 bytes each the full table takes 50 MiB.
pub const MAX_PEER_NIS: usize = 131_072;

/// How many entries are looked at for one that may be forgotten, before a new peer is refused.
const EVICTION_PROBES: usize = 256;

/// How many that may be forgotten are compared; the one idle for longest goes.
const EVICTION_CANDIDATES: usize = 8;

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

/// An interface of a peer.
#[derive(Debug)]
pub(crate) struct PeerNi {
    pub(crate) nid: Nid,
    /// The peer's primary NID, which is the peer's name.
    pub(crate) primary: Nid,
    /// Messages to it that are with the LND or wait for an NI credit.
    pub(crate) in_flight: u32,
    /// Messages that wait for a credit of this peer NI.
    pub(crate) queue: VecDeque<TxId>,
    /// The most that ever were in flight and waiting.
    pub(crate) most_in_flight: u32,
    /// Bytes queued and in flight, headers included.
    pub(crate) queued_bytes: u64,
    /// Router buffers held by messages from it.
    pub(crate) buffers_held: u32,
    /// The most that ever were held and waited for.
    pub(crate) most_buffers: u32,
    /// Messages from it that wait until it may hold another buffer.
    pub(crate) buffer_queue: VecDeque<RxId>,
    /// Reported down, at this time; cleared by whatever arrives from it.
    pub(crate) down_since: Option<Time>,
    /// When it was last heard of or sent to.
    pub(crate) last_used: Time,
    /// The local interface that a non-Multi-Rail peer always sees (section 2.11 of lnet-selection).
    pub(crate) pinned: Option<NiId>,
    pub(crate) stats: MessageStats,
}

impl PeerNi {
    fn new(nid: Nid, now: Time) -> Self {
        Self {
            nid,
            primary: nid,
            in_flight: 0,
            queue: VecDeque::new(),
            most_in_flight: 0,
            queued_bytes: 0,
            buffers_held: 0,
            most_buffers: 0,
            buffer_queue: VecDeque::new(),
            down_since: None,
            last_used: now,
            pinned: None,
            stats: MessageStats::default(),
        }
    }

    /// No message of ours or through us depends on this entry.
    fn is_idle(&self) -> bool {
        self.in_flight == 0
            && self.queue.is_empty()
            && self.buffers_held == 0
            && self.buffer_queue.is_empty()
    }

    pub(crate) fn note_in_flight(&mut self) {
        let now = self.in_flight.saturating_add(self.queue.len() as u32);
        self.most_in_flight = self.most_in_flight.max(now);
    }

    pub(crate) fn note_buffers(&mut self) {
        let now = self
            .buffers_held
            .saturating_add(self.buffer_queue.len() as u32);
        self.most_buffers = self.most_buffers.max(now);
    }
}

/// A peer that is more than the one NID it was seen with: configured, or a gateway.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    pub(crate) nids: SmallVec<[Nid; 2]>,
    pub(crate) multi_rail: bool,
    /// Given by `add_peer`.
    pub(crate) configured: bool,
    /// Number of routes through it.
    pub(crate) routes: u32,
}

/// All peers.
#[derive(Debug)]
pub(crate) struct Peers {
    nis: Table<PeerNiId, PeerNi>,
    by_nid: FxHashMapSeed<Nid, PeerNiId>,
    /// The peers that may not be forgotten, by primary NID.
    kept: BTreeMap<Nid, Peer>,
    /// Where the search for something to forget goes on.
    hand: usize,
    capacity: usize,
}

impl Peers {
    /// No peers. The seed keys the hash, so that nobody outside can choose addresses that collide.
    pub(crate) fn new(seed: u64, capacity: usize) -> Self {
        Self {
            nis: Table::default(),
            by_nid: FxHashMapSeed::with_hasher(FxSeededState::with_seed(seed as usize)),
            kept: BTreeMap::new(),
            hand: 0,
            capacity,
        }
    }

    pub(crate) fn get(&self, id: PeerNiId) -> Option<&PeerNi> {
        self.nis.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: PeerNiId) -> Option<&mut PeerNi> {
        self.nis.get_mut(id)
    }

    pub(crate) fn by_nid(&self, nid: Nid) -> Option<&PeerNi> {
        self.nis.get(*self.by_nid.get(&nid)?)
    }

    pub(crate) fn by_nid_mut(&mut self, nid: Nid) -> Option<&mut PeerNi> {
        self.nis.get_mut(*self.by_nid.get(&nid)?)
    }

    pub(crate) fn id_of(&self, nid: Nid) -> Option<PeerNiId> {
        self.by_nid.get(&nid).copied()
    }

    /// The peer NI with this NID, created if need be; `None` when the table is full and nothing may be
    /// forgotten.
    pub(crate) fn find_or_create(&mut self, nid: Nid, now: Time) -> Option<PeerNiId> {
        if let Some(&id) = self.by_nid.get(&nid) {
            if let Some(peer_ni) = self.nis.get_mut(id) {
                peer_ni.last_used = now;
            }
            return Some(id);
        }
        if self.nis.len() >= self.capacity {
            self.forget_one()?;
        }
        let id = self.nis.insert(PeerNi::new(nid, now));
        self.by_nid.insert(nid, id);
        Some(id)
    }

    /// The peer's name as upper layers know it.
    pub(crate) fn primary_of(&self, nid: Nid) -> Nid {
        self.by_nid(nid).map_or(nid, |peer_ni| peer_ni.primary)
    }

    /// The configured peer or gateway with this primary NID.
    pub(crate) fn peer(&self, primary: Nid) -> Option<&Peer> {
        self.kept.get(&primary)
    }

    /// All configured peers and gateways.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (Nid, &Peer)> {
        self.kept.iter().map(|(&primary, peer)| (primary, peer))
    }

    /// True when the owner of this NID is known to be Multi-Rail.
    pub(crate) fn is_multi_rail(&self, nid: Nid) -> bool {
        self.peer(self.primary_of(nid))
            .is_some_and(|peer| peer.multi_rail)
    }

    /// Makes the owner of `nid` one that is not forgotten, and counts a route through it.
    pub(crate) fn add_gateway(&mut self, nid: Nid) {
        let primary = self.primary_of(nid);
        let peer = self.kept.entry(primary).or_default();
        if peer.nids.is_empty() {
            peer.nids.push(primary);
        }
        peer.routes += 1;
    }

    /// One route less through the owner of `nid`.
    pub(crate) fn remove_gateway(&mut self, nid: Nid) {
        let primary = self.primary_of(nid);
        let Some(peer) = self.kept.get_mut(&primary) else {
            return;
        };
        peer.routes = peer.routes.saturating_sub(1);
        if peer.routes == 0 && !peer.configured {
            self.kept.remove(&primary);
        }
    }

    /// Configures a peer; its NIDs must have been created and be free ([`Peers::owner_conflict`]).
    pub(crate) fn configure(&mut self, primary: Nid, nids: &[Nid], multi_rail: bool) {
        let mut peer = self.kept.remove(&primary).unwrap_or_default();
        for &nid in std::iter::once(&primary).chain(nids) {
            if nid != primary
                && let Some(other) = self.kept.remove(&nid)
            {
                peer.routes += other.routes;
            }
            if !peer.nids.contains(&nid) {
                peer.nids.push(nid);
            }
            if let Some(peer_ni) = self.by_nid_mut(nid) {
                peer_ni.primary = primary;
                peer_ni.pinned = peer_ni.pinned.filter(|_| !multi_rail);
            }
        }
        peer.multi_rail = multi_rail;
        peer.configured = true;
        self.kept.insert(primary, peer);
    }

    /// The first of these NIDs that another configured peer owns.
    pub(crate) fn owner_conflict(&self, primary: Nid, nids: &[Nid]) -> Option<Nid> {
        std::iter::once(&primary).chain(nids).copied().find(|&nid| {
            let owner = self.primary_of(nid);
            owner != primary && self.peer(owner).is_some_and(|peer| peer.configured)
        })
    }

    /// Forgets a configured peer and returns its interfaces with what waits for them.
    pub(crate) fn remove(&mut self, primary: Nid) -> Vec<PeerNi> {
        let nids = self
            .kept
            .remove(&primary)
            .map_or_else(SmallVec::new, |peer| peer.nids);
        nids.into_iter()
            .filter_map(|nid| self.nis.remove(self.by_nid.remove(&nid)?))
            .collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PeerNi> {
        self.nis.iter().map(|(_, peer_ni)| peer_ni)
    }

    /// Makes room: of the next few that may be forgotten, the one idle for longest goes.
    fn forget_one(&mut self) -> Option<()> {
        let mut oldest: Option<(Time, PeerNiId)> = None;
        let mut candidates = 0;
        for _ in 0..EVICTION_PROBES.min(self.capacity) {
            self.hand = (self.hand + 1) % self.capacity;
            let Some((id, peer_ni)) = self.nis.at(self.hand) else {
                continue;
            };
            if !peer_ni.is_idle() || self.kept.contains_key(&peer_ni.primary) {
                continue;
            }
            candidates += 1;
            if oldest.is_none_or(|(time, _)| peer_ni.last_used < time) {
                oldest = Some((peer_ni.last_used, id));
            }
            if candidates == EVICTION_CANDIDATES {
                break;
            }
        }
        let forgotten = self.nis.remove(oldest?.1)?;
        self.by_nid.remove(&forgotten.nid);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use lnet_types::Net;

    use super::*;

    fn nid(number: u32) -> Nid {
        Nid::from_number(Net::tcp(0), number)
    }

    fn at(seconds: u64) -> Time {
        Time::from_secs(seconds)
    }

    #[test]
    fn a_full_table_forgets_an_idle_peer_of_traffic() {
        let mut peers = Peers::new(7, 4);
        for number in 0..4 {
            peers
                .find_or_create(nid(number), at(u64::from(number)))
                .unwrap();
        }
        peers.find_or_create(nid(9), at(10)).unwrap();

        assert!(peers.by_nid(nid(0)).is_none(), "the one idle for longest");
        assert!(peers.by_nid(nid(9)).is_some());
        assert_eq!(peers.iter().count(), 4);
    }

    #[test]
    fn a_full_table_keeps_what_is_configured_or_busy() {
        let mut peers = Peers::new(7, 2);
        peers.find_or_create(nid(1), at(0)).unwrap();
        peers.configure(nid(1), &[], true);
        let busy = peers.find_or_create(nid(2), at(0)).unwrap();
        peers.get_mut(busy).unwrap().in_flight = 1;

        assert_eq!(peers.find_or_create(nid(3), at(5)), None);
        assert!(peers.by_nid(nid(1)).is_some());
        assert!(peers.by_nid(nid(2)).is_some());
    }

    #[test]
    fn a_gateway_is_kept_until_its_last_route_goes() {
        let mut peers = Peers::new(7, 1);
        peers.find_or_create(nid(1), at(0)).unwrap();
        peers.add_gateway(nid(1));
        peers.add_gateway(nid(1));
        peers.remove_gateway(nid(1));
        assert_eq!(peers.find_or_create(nid(2), at(1)), None);
        peers.remove_gateway(nid(1));
        assert!(peers.find_or_create(nid(2), at(1)).is_some());
    }

    #[test]
    fn every_nid_of_a_configured_peer_has_its_primary() {
        let mut peers = Peers::new(7, 8);
        for number in 1..=2 {
            peers.find_or_create(nid(number), at(0)).unwrap();
        }
        peers.configure(nid(1), &[nid(2)], true);
        assert_eq!(peers.primary_of(nid(2)), nid(1));
        assert_eq!(peers.owner_conflict(nid(3), &[nid(2)]), Some(nid(2)));
        assert_eq!(peers.owner_conflict(nid(1), &[nid(2)]), None);
    }
}
