//! The table of all peers, by NID and by primary NID, and the rules for removing peers from it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use lnet_types::{Nid, Time};
use rustc_hash::{FxHashMapSeed, FxSeededState};
use smallvec::SmallVec;

use crate::fabric::discovery::Discovery;
use crate::fabric::peer::{Peer, PeerId, PeerNi};
use crate::ground::counters::MessageStats;
use crate::ground::health::{Health, PeerHealthStats};
use crate::ground::ids::PeerNiId;
use crate::ground::io::NiId;
use crate::ground::table::Table;

/// The limit of peer NIs that a node knows at once. The largest machines have about 160,000 nodes, but a node behind
/// routers talks only to the routers. At some 600 bytes per entry the full table takes 75 MiB.
pub const MAX_PEER_NIS: usize = 131_072;

/// The number of entries that are searched for removable ones before a new peer is rejected.
const EVICTION_PROBES: usize = 256;

/// The number of removable entries that are compared; the one that was idle for longest is removed.
const EVICTION_CANDIDATES: usize = 8;

/// The table of all peers.
#[derive(Debug)]
pub(crate) struct Peers {
    nis: Table<PeerNiId, PeerNi>,
    by_nid: FxHashMapSeed<Nid, PeerNiId>,
    /// The NID that was found last. One message asks several times for the same NID, and the next one often, too.
    found_last: Cell<Option<(Nid, PeerNiId)>>,
    /// The kept peers, which have a [`Peer`]: those that are configured, gateways, locked or discovered.
    kept: Table<PeerId, Peer>,
    by_primary: BTreeMap<Nid, PeerId>,
    /// The slot where the search for a removable entry continues.
    hand: usize,
    capacity: usize,
    /// The number of locks of primary NIDs so far.
    locks: u64,
}

/// What remains of peers that became part of another peer.
#[derive(Default)]
struct Absorbed {
    discovery: Option<Box<Discovery>>,
    lock: Option<u64>,
    nids: Vec<Nid>,
}

impl Absorbed {
    /// Keeps the first discovery. The messages that wait for another discovery wait for the first one instead.
    fn join(&mut self, other: Option<Box<Discovery>>) {
        match (&mut self.discovery, other) {
            (Some(own), Some(mut other)) => own.parked.append(&mut other.parked),
            (own @ None, other) => *own = other,
            (Some(_), None) => {}
        }
    }
}

impl Peers {
    /// Creates an empty table. The seed keys the hash, so that no other node can choose addresses that collide.
    pub(crate) fn new(seed: u64, capacity: usize) -> Self {
        Self {
            nis: Table::default(),
            by_nid: FxHashMapSeed::with_hasher(FxSeededState::with_seed(seed as usize)),
            found_last: Cell::new(None),
            kept: Table::default(),
            by_primary: BTreeMap::new(),
            hand: 0,
            capacity,
            locks: 0,
        }
    }

    pub(crate) fn get(&self, id: PeerNiId) -> Option<&PeerNi> {
        self.nis.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: PeerNiId) -> Option<&mut PeerNi> {
        self.nis.get_mut(id)
    }

    pub(crate) fn by_nid(&self, nid: Nid) -> Option<&PeerNi> {
        self.nis.get(self.id_of(nid)?)
    }

    pub(crate) fn by_nid_mut(&mut self, nid: Nid) -> Option<&mut PeerNi> {
        self.nis.get_mut(self.id_of(nid)?)
    }

    pub(crate) fn id_of(&self, nid: Nid) -> Option<PeerNiId> {
        if let Some((last, id)) = self.found_last.get()
            && last == nid
        {
            return Some(id);
        }
        let id = self.by_nid.get(&nid).copied()?;
        self.found_last.set(Some((nid, id)));
        Some(id)
    }

    /// Returns the peer NI with this NID, and notes that it is used now.
    pub(in crate::fabric) fn touch(&mut self, nid: Nid, now: Time) -> Option<PeerNiId> {
        let id = self.id_of(nid)?;
        if let Some(peer_ni) = self.nis.get_mut(id) {
            peer_ni.last_used = now;
        }
        Some(id)
    }

    /// Adds a peer NI that is not in the table yet; `None` if the table is full and no entry may be removed.
    pub(crate) fn create(&mut self, nid: Nid, now: Time) -> Option<PeerNiId> {
        if self.nis.len() >= self.capacity {
            self.forget_one()?;
        }
        let id = self.nis.insert(PeerNi::new(nid, now));
        self.by_nid.insert(nid, id);
        Some(id)
    }

    /// Returns the primary NID of the peer that owns this NID, which is the peer's name in upper layers.
    pub(crate) fn primary_of(&self, nid: Nid) -> Nid {
        self.by_nid(nid).map_or(nid, |peer_ni| peer_ni.primary)
    }

    /// Returns the kept peer with this primary NID.
    pub(crate) fn peer(&self, primary: Nid) -> Option<&Peer> {
        let peer = self.owner(self.by_nid(primary)?)?;
        (peer.primary == primary).then_some(peer)
    }

    /// Returns the kept peer that this peer NI belongs to.
    pub(crate) fn owner(&self, peer_ni: &PeerNi) -> Option<&Peer> {
        self.kept.get(peer_ni.peer?)
    }

    /// Returns the kept peer that this peer NI belongs to, for changes.
    pub(crate) fn owner_mut(&mut self, id: PeerNiId) -> Option<&mut Peer> {
        self.kept.get_mut(self.nis.get(id)?.peer?)
    }

    /// Returns the kept peer that owns this NID.
    pub(crate) fn owner_of(&self, nid: Nid) -> Option<&Peer> {
        self.owner(self.by_nid(nid)?)
    }

    /// Returns all kept peers, by primary NID.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (Nid, &Peer)> {
        self.by_primary
            .iter()
            .filter_map(|(&primary, &id)| Some((primary, self.kept.get(id)?)))
    }

    /// Returns the kept peers whose primary NID comes after this one.
    pub(crate) fn kept_after(&self, after: Option<Nid>) -> impl Iterator<Item = (Nid, &Peer)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_primary
            .range((from, Bound::Unbounded))
            .filter_map(|(&primary, &id)| Some((primary, self.kept.get(id)?)))
    }

    /// Returns the peer NIs in these slots, without slots beyond the last one; `None` if none of the slots exists.
    pub(crate) fn in_slots(&self, slots: Range<usize>) -> Option<impl Iterator<Item = &PeerNi>> {
        let in_use = slots.start..slots.end.min(self.nis.end());
        (!in_use.is_empty())
            .then(|| in_use.filter_map(|slot| self.nis.at(slot).map(|(_, peer_ni)| peer_ni)))
    }

    /// Returns whether the owner of this NID is known to be Multi-Rail.
    pub(crate) fn is_multi_rail(&self, nid: Nid) -> bool {
        self.owner_of(nid).is_some_and(|peer| peer.multi_rail)
    }

    /// Returns the number of interfaces of the peer that this peer NI belongs to, including this one.
    pub(crate) fn interfaces_beside(&self, peer_ni: &PeerNi) -> usize {
        self.owner(peer_ni).map_or(1, |peer| peer.nids.len())
    }

    /// Counts a route through the owner of `nid`, which makes the owner a kept peer.
    pub(crate) fn add_gateway(&mut self, nid: Nid) {
        let primary = self.primary_of(nid);
        let id = self.keep(primary);
        if let Some(peer) = self.kept.get_mut(id) {
            peer.routes += 1;
        }
    }

    /// Counts one route less through the owner of `nid`.
    pub(crate) fn remove_gateway(&mut self, nid: Nid) {
        let primary = self.primary_of(nid);
        let Some(&id) = self.by_primary.get(&primary) else {
            return;
        };
        let Some(peer) = self.kept.get_mut(id) else {
            return;
        };
        peer.routes = peer.routes.saturating_sub(1);
        if !peer.stays() && !peer.multi_rail {
            self.remove_kept(primary);
        }
    }

    /// Configures a peer. Its NIDs must have been created and must be free ([`Peers::owner_conflict`]). Returns the
    /// NIDs of the peers that were taken apart for it.
    pub(crate) fn configure(&mut self, primary: Nid, nids: &[Nid], multi_rail: bool) -> Vec<Nid> {
        let mut absorbed = Absorbed::default();
        absorbed.join(self.by_nid_mut(primary).and_then(|ni| ni.discovery.take()));
        for &nid in std::iter::once(&primary).chain(nids) {
            let owner = self.primary_of(nid);
            if owner != primary {
                self.absorb(owner, &mut absorbed);
            }
        }
        let id = self.keep(primary);
        for &nid in nids.iter().filter(|&&nid| nid != primary) {
            self.join(nid, id, primary);
        }
        if let Some(peer_ni) = self.by_nid_mut(primary) {
            peer_ni.discovery = absorbed.discovery;
        }
        if let Some(peer) = self.kept.get_mut(id) {
            (peer.multi_rail, peer.configured) = (multi_rail, true);
            peer.lock = peer.lock.into_iter().chain(absorbed.lock).min();
        }
        if multi_rail {
            self.level(id);
        }
        absorbed.nids
    }

    /// Takes a peer apart, and keeps what must continue under another name.
    fn absorb(&mut self, owner: Nid, into: &mut Absorbed) {
        if let Some(peer) = self.remove_kept(owner) {
            into.lock = into.lock.into_iter().chain(peer.lock).min();
            into.nids.extend(peer.nids);
        }
        into.join(self.by_nid_mut(owner).and_then(|ni| ni.discovery.take()));
    }

    /// Takes apart a peer that is not configured: each of its interfaces becomes a peer of its own. Returns their
    /// NIDs.
    pub(crate) fn take_apart(&mut self, primary: Nid) -> Vec<Nid> {
        let peer = self.remove_kept(primary);
        peer.map_or(Vec::new(), |peer| peer.nids.into_vec())
    }

    /// Forbids or allows discovery to change the primary NID of a kept peer. An existing lock keeps its number.
    pub(crate) fn lock(&mut self, primary: Nid, on: bool) {
        let number = self.locks;
        self.locks += u64::from(on);
        if let Some(peer) = self
            .by_primary
            .get(&primary)
            .and_then(|&id| self.kept.get_mut(id))
        {
            peer.lock = on.then(|| peer.lock.unwrap_or(number));
        }
    }

    /// Returns the primary NID that was locked first, among the peers that own these NIDs.
    // [PEER-7]
    pub(crate) fn locked_first(&self, nids: impl Iterator<Item = Nid>) -> Option<Nid> {
        let owners = nids.filter_map(|nid| self.owner_of(nid));
        let locked = owners.filter_map(|peer| Some((peer.lock?, peer.primary)));
        locked.min().map(|(_, primary)| primary)
    }

    /// Sets whether a discovered or locked peer counts as configured, and whether it is Multi-Rail.
    pub(crate) fn set_kind(&mut self, primary: Nid, configured: bool, multi_rail: bool) {
        let id = self.keep(primary);
        if let Some(peer) = self.kept.get_mut(id) {
            (peer.configured, peer.multi_rail) = (configured, multi_rail);
        }
        if multi_rail {
            self.level(id);
        }
    }

    /// Removes all interfaces of a kept peer except the primary one. No message may wait for the removed ones.
    // [PEER-8]
    pub(crate) fn remove_others(&mut self, primary: Nid) {
        let Some(peer) = self.remove_kept(primary) else {
            return;
        };
        let id = self.keep(primary);
        if let Some(kept) = self.kept.get_mut(id) {
            (kept.multi_rail, kept.configured) = (peer.multi_rail, peer.configured);
            (kept.lock, kept.routes) = (peer.lock, peer.routes);
        }
        for nid in peer.nids.into_iter().filter(|&nid| nid != primary) {
            self.remove(nid);
        }
    }

    /// Sets the interfaces of a discovered peer to those that the peer named. Each of them must have been created, and
    /// the primary one must be among them. Peers that had one of these NIDs become part of this peer. Returns the NIDs
    /// of the peers that were taken apart for it.
    pub(crate) fn learn(&mut self, name: Nid, primary: Nid, nids: &[Nid]) -> Vec<Nid> {
        // A locked primary NID need not be the one that the peer names first.
        let others = || nids.iter().filter(|&&nid| nid != primary);
        let is_known = |peer: &Peer| peer.multi_rail && peer.nids.iter().skip(1).eq(others());
        if name == primary && self.peer(name).is_some_and(is_known) {
            return Vec::new();
        }
        let mut absorbed = Absorbed::default();
        self.absorb(name, &mut absorbed);
        for &nid in nids {
            self.absorb(self.primary_of(nid), &mut absorbed);
        }
        let id = self.keep(primary);
        for &nid in others() {
            self.join(nid, id, primary);
        }
        self.order(id, nids);
        if let Some(peer) = self.kept.get_mut(id) {
            (peer.multi_rail, peer.lock) = (true, absorbed.lock);
        }
        if let Some(peer_ni) = self.by_nid_mut(primary) {
            peer_ni.discovery = absorbed.discovery;
        }
        self.level(id);
        absorbed.nids
    }

    /// Puts the interfaces of each net in the order in which the peer names them. The net of the primary NID stays the
    /// first.
    fn order(&mut self, id: PeerId, nids: &[Nid]) {
        let Some(peer) = self.kept.get_mut(id) else {
            return;
        };
        for on in &mut peer.nets {
            on.nis.sort_by_key(|id| {
                let nid = self.nis.get(*id).map(|peer_ni| peer_ni.nid);
                nids.iter().position(|named| Some(*named) == nid)
            });
        }
    }

    /// Continues the stamps of a peer that has new interfaces from the latest stamp of any of them, so that no
    /// interface is preferred until it has caught up. Clears the pins, because an interface of such a peer may see any
    /// local interface.
    // [PATH-51]
    fn level(&mut self, id: PeerId) {
        let Some(peer) = self.kept.get_mut(id) else {
            return;
        };
        for id in peer.nets.iter().flat_map(|on| &on.nis) {
            if let Some(peer_ni) = self.nis.get_mut(*id) {
                peer.send_seq = peer.send_seq.max(peer_ni.seq);
                peer_ni.pinned = None;
            }
        }
    }

    /// Returns the first of these NIDs that another configured peer owns.
    // [PEER-11]
    pub(crate) fn owner_conflict(&self, primary: Nid, nids: &[Nid]) -> Option<Nid> {
        std::iter::once(&primary).chain(nids).copied().find(|&nid| {
            let owner = self.primary_of(nid);
            owner != primary && self.peer(owner).is_some_and(|peer| peer.configured)
        })
    }

    /// Removes a peer, or an interface that is a peer by itself. Returns its interfaces with the messages that wait
    /// for them.
    pub(crate) fn remove(&mut self, primary: Nid) -> Vec<PeerNi> {
        let nids = self
            .remove_kept(primary)
            .map_or_else(|| SmallVec::from_iter([primary]), |peer| peer.nids);
        nids.into_iter()
            .filter_map(|nid| {
                self.found_last.set(None);
                self.nis.remove(self.by_nid.remove(&nid)?)
            })
            .collect()
    }

    /// Removes an interface that belongs to no kept peer, unless a message depends on it. In that case it is removed
    /// later when the table needs room.
    pub(crate) fn forget_idle(&mut self, nid: Nid) {
        let is_idle = |ni: &PeerNi| ni.peer.is_none() && ni.is_idle();
        if self.by_nid(nid).is_some_and(is_idle) {
            self.remove(nid);
        }
    }

    /// Zeroes the latencies of all interfaces; with `with_counts`, also their counts.
    pub(in crate::fabric) fn reset_stats(&mut self, with_counts: bool) {
        for peer_ni in self.nis.iter_mut() {
            peer_ni.latency = None;
            if with_counts {
                peer_ni.stats = MessageStats::default();
                peer_ni.health_stats = PeerHealthStats::default();
            }
        }
    }

    /// Removes the connections of a local interface that was removed.
    pub(crate) fn disconnect(&mut self, ni: NiId) {
        for peer_ni in self.nis.iter_mut() {
            peer_ni.connected.retain(|known| *known != ni);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PeerNi> {
        self.nis.iter().map(|(_, peer_ni)| peer_ni)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = PeerNiId> {
        self.nis.iter().map(|(id, _)| id)
    }

    /// Sets the health of a peer NI, and updates the health of its net.
    // [PATH-21]
    pub(crate) fn set_health(&mut self, id: PeerNiId, health: Health) {
        let Some(peer_ni) = self.nis.get_mut(id) else {
            return;
        };
        peer_ni.health = health;
        let net = peer_ni.nid.net();
        let Some(peer) = peer_ni.peer.and_then(|peer| self.kept.get_mut(peer)) else {
            return;
        };
        let Some(on) = peer.nets.iter_mut().find(|on| on.net == net) else {
            return;
        };
        if health >= on.health {
            // Nothing on the net is healthier. This avoids a pass over all interfaces for each interface that joins a
            // large peer.
            on.health = health;
            return;
        }
        let nis = on.nis.iter().filter_map(|&id| self.nis.get(id));
        on.health = nis.map(|ni| ni.health).max().unwrap_or(Health::MAX);
    }

    /// Stamps a peer NI and its net as used last.
    pub(in crate::fabric) fn stamp(&mut self, id: PeerNiId) {
        let Some(peer_ni) = self.nis.get_mut(id) else {
            return;
        };
        let peer = peer_ni.peer.and_then(|peer| self.kept.get_mut(peer));
        let Some(peer) = peer else {
            peer_ni.seq += 1;
            return;
        };
        peer.send_seq += 1;
        peer_ni.seq = peer.send_seq;
        let net = peer_ni.nid.net();
        if let Some(on) = peer.nets.iter_mut().find(|on| on.net == net) {
            on.seq = peer.send_seq;
        }
    }

    /// Returns the kept peer with this primary NID, and creates it if there is none.
    fn keep(&mut self, primary: Nid) -> PeerId {
        if let Some(&id) = self.by_primary.get(&primary) {
            return id;
        }
        let id = self.kept.insert(Peer::new(primary));
        self.by_primary.insert(primary, id);
        self.join(primary, id, primary);
        id
    }

    fn join(&mut self, nid: Nid, peer: PeerId, primary: Nid) {
        let Some(id) = self.id_of(nid) else { return };
        let Some(peer_ni) = self.nis.get_mut(id) else {
            return;
        };
        (peer_ni.peer, peer_ni.primary) = (Some(peer), primary);
        let health = peer_ni.health;
        if let Some(peer) = self.kept.get_mut(peer) {
            peer.adopt(nid, id);
        }
        self.set_health(id, health);
    }

    /// Removes a kept peer. Each of its NIs stands for itself afterwards.
    fn remove_kept(&mut self, primary: Nid) -> Option<Peer> {
        let peer = self.kept.remove(self.by_primary.remove(&primary)?)?;
        for &nid in &peer.nids {
            if let Some(peer_ni) = self.by_nid_mut(nid) {
                (peer_ni.peer, peer_ni.primary) = (None, nid);
            }
        }
        Some(peer)
    }

    /// Returns whether a peer NI may be removed: its peer is neither configured nor locked, no route needs it, and
    /// none of its interfaces is in use.
    fn may_forget(&self, peer_ni: &PeerNi) -> bool {
        let Some(peer) = self.owner(peer_ni) else {
            return peer_ni.is_idle();
        };
        let is_idle = |nid: &Nid| self.by_nid(*nid).is_none_or(PeerNi::is_idle);
        !peer.stays() && peer.nids.iter().all(is_idle)
    }

    /// Makes room in the table: among the next few removable entries, removes the peer that was idle for longest.
    fn forget_one(&mut self) -> Option<()> {
        let mut oldest: Option<(Time, PeerNiId)> = None;
        let mut candidates = 0;
        for _ in 0..EVICTION_PROBES.min(self.capacity) {
            self.hand = (self.hand + 1) % self.capacity;
            let Some((id, peer_ni)) = self.nis.at(self.hand) else {
                continue;
            };
            if !self.may_forget(peer_ni) {
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
        let name = self.nis.get(oldest?.1)?.primary;
        (!self.remove(name).is_empty()).then_some(())
    }
}
