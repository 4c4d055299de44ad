//! Enters the information of a peer about itself into the peer table.

use lnet_types::{Nid, Time};
use lnet_wire::{NiStatus, PingFeatures};

use crate::fabric::discovery::{Discovery, PeerState};
use crate::fabric::said::{NNIS_MAX, Said};
use crate::ground::ids::PeerNiId;
use crate::upkeep::Upkeep;

/// The limit of the size of a peer's information, in bytes: that of [`NNIS_MAX`] entries.
pub(in crate::upkeep) const INFO_SIZE_MAX: u32 = 16 * (NNIS_MAX + 1);

/// The limit of NIDs of one discovered peer; in kernels it is `lnet_interfaces_max`, 200.
// [PEER-13]
pub const PEER_NIDS_MAX: usize = 200;

impl Upkeep {
    /// Merges the kept information of a peer into the peer table. Returns the peer's name afterwards, which may have
    /// changed.
    // [DISC-4] [DISC-6]
    pub(in crate::upkeep) fn merge(&mut self, name: Nid, now: Time) -> Nid {
        let data = self
            .traffic
            .fabric
            .discovery_mut(name)
            .map(|known| known.take_data());
        let said = data.and_then(|data| Said::read(&data));
        let Some(said) = said.filter(|said| said.nis.len() <= PEER_NIDS_MAX) else {
            return name;
        };
        let enabled = self.globals().discovery;
        let configured = self
            .traffic
            .fabric
            .peers
            .peer(name)
            .is_some_and(|peer| peer.configured);
        let discovers = enabled && said.features.contains(PingFeatures::DISCOVERY);
        let multi_rail = said.features.contains(PingFeatures::MULTI_RAIL) && discovers;
        let keeps_rails = configured && self.traffic.fabric.peers.is_multi_rail(name);
        if let Some(known) = self.traffic.fabric.discovery_mut(name) {
            let discovery = said.features.contains(PingFeatures::DISCOVERY);
            known.set(PeerState::NO_DISCOVERY, !discovery);
            known.set(PeerState::ROUTER_ENABLED, said.routes());
            known.set(PeerState::CONFIGURED, configured);
            known.set(PeerState::MULTI_RAIL, multi_rail || keeps_rails);
            known.heard(said.features.bits(), said.nis.len() as u32, now);
        }
        let name = match (multi_rail, configured) {
            (true, false) => match self.learn_nids(name, &said, now) {
                Some(learned) => learned,
                None => return name,
            },
            (false, false) if enabled => self.forget_rails(name),
            _ => name,
        };
        let raised = self.raised_unheard(name, &said);
        self.take_statuses(name, &said, now);
        raised.into_iter().for_each(|id| self.confirm(id, now));
        self.gateway_pushed(name, &said, now);
        name
    }

    /// Returns the interfaces that a push says are up again, and from which no message was ever received. The push may
    /// be older than the one before, so the peer is asked to confirm it.
    fn raised_unheard(&mut self, name: Nid, said: &Said) -> Vec<PeerNiId> {
        if !self
            .traffic
            .fabric
            .discovery_mut(name)
            .is_some_and(|known| known.has_pushed())
        {
            return Vec::new();
        }
        let is_raised = |nid: Nid| {
            let peer_ni = self.traffic.fabric.peers.by_nid(nid)?;
            let is_of_peer = self.traffic.fabric.peers.primary_of(nid) == name;
            let is_so = is_of_peer && !peer_ni.status_up && peer_ni.last_alive.is_none();
            self.traffic.fabric.peers.id_of(nid).filter(|_| is_so)
        };
        let up = said
            .nis
            .iter()
            .filter(|(_, status)| *status != NiStatus::DOWN);
        up.filter_map(|&(nid, _)| is_raised(nid)).collect()
    }

    /// Takes over the statuses of those named interfaces that are known to be the peer's.
    // [DISC-7]
    pub(in crate::upkeep) fn take_statuses(&mut self, name: Nid, said: &Said, now: Time) {
        for &(nid, status) in &said.nis {
            if self.traffic.fabric.peers.primary_of(nid) == name {
                self.traffic
                    .fabric
                    .set_peer_ni_status(nid, status != NiStatus::DOWN, now);
            }
        }
    }

    /// Returns whether information of the peer was merged at this time or later.
    pub(in crate::upkeep) fn has_said_more_since(&self, name: Nid, time: Time) -> bool {
        let known = self.traffic.fabric.peers.by_nid(name);
        let known = known.and_then(|peer_ni| peer_ni.discovery.as_ref());
        let heard = known.and_then(|known| known.view().heard);
        heard.is_some_and(|heard| heard.at >= time)
    }

    /// Sets the interfaces of a peer to those that the peer named. NIDs of configured peers are left out. NIDs of this
    /// node are left out unless the peer is this node.
    // [DISC-5] [DISC-10] [PEER-5] [PEER-6] [PEER-7] [PEER-12]
    fn learn_nids(&mut self, name: Nid, said: &Said, now: Time) -> Option<Nid> {
        let granted = self
            .traffic
            .fabric
            .discovery_mut(name)
            .and_then(Discovery::take_granted);
        let is_disputed = |nid: Nid| Some(nid) != granted && self.is_anothers(nid, name);
        let wanted = said.nis.iter().map(|&(nid, _)| nid);
        let free = wanted.filter(|&nid| self.traffic.fabric.may_join(nid, name));
        let (disputed, mut nids): (Vec<Nid>, Vec<Nid>) = free.partition(|&nid| is_disputed(nid));
        let names_itself = nids
            .iter()
            .any(|&nid| self.traffic.fabric.peers.primary_of(nid) == name);
        if let Some(&nid) = disputed.first().filter(|_| names_itself) {
            self.ping_claimed_nid(nid, name, now);
        }
        let primary = said.primary.filter(|primary| nids.contains(primary));
        let Some(primary) = primary.filter(|_| names_itself) else {
            self.counters().discoveries_ignored += 1;
            return None;
        };
        let owned = nids.iter().copied().chain([name]);
        let locked = self.traffic.fabric.peers.locked_first(owned);
        let primary = locked.unwrap_or(primary);
        nids.extend(locked.filter(|locked| !nids.contains(locked)));
        // A NID that a route names as the gateway stays an interface of the peer.
        let named = self.traffic.fabric.gateways_of(name).into_iter();
        nids.extend(named.filter(|nid| !said.nis.iter().any(|(other, _)| other == nid)));
        let created = nids
            .iter()
            .all(|&nid| self.traffic.fabric.peer_ni(nid, now).is_some());
        // In a full table, the creation of an interface may have removed another interface of this peer.
        let is_there = |nid: &Nid| self.traffic.fabric.peers.by_nid(*nid).is_some();
        if !created || !is_there(&name) || !nids.iter().all(is_there) {
            self.counters().discoveries_ignored += 1;
            return None;
        }
        let former = self
            .traffic
            .fabric
            .peers
            .peer(name)
            .map(|peer| peer.nids.clone());
        let apart = self.traffic.fabric.peers.learn(name, primary, &nids);
        self.after_merge(primary, &apart);
        for nid in former
            .into_iter()
            .flatten()
            .filter(|nid| !nids.contains(nid))
        {
            self.traffic.fabric.peers.forget_idle(nid);
        }
        self.traffic.fabric.apply_rules_to_peer(primary);
        Some(primary)
    }

    /// Makes a peer that was Multi-Rail and no longer says so a peer without discovery. If its primary
    /// NID is locked, the peer keeps its NIDs.
    // [PEER-15]
    fn forget_rails(&mut self, name: Nid) -> Nid {
        let is_locked = self
            .traffic
            .fabric
            .peers
            .peer(name)
            .is_some_and(|peer| peer.lock.is_some());
        if is_locked {
            self.traffic.fabric.peers.set_kind(name, false, false);
        } else if self.traffic.fabric.peers.is_multi_rail(name) {
            let apart = self.traffic.fabric.peers.take_apart(name);
            self.after_merge(name, &apart);
            for nid in apart.into_iter().filter(|&nid| nid != name) {
                self.traffic.fabric.peers.forget_idle(nid);
            }
            self.traffic.fabric.apply_rules_to_peer(name);
        }
        name
    }

    /// Completes a change in which peers with these NIDs were taken apart, most of them to become part of the peer of
    /// this name. Operations under way continue under that name, and gateways stay gateways.
    pub(in crate::upkeep) fn after_merge(&mut self, name: Nid, apart: &[Nid]) {
        self.renamed(name);
        for &nid in apart {
            let routes = self.traffic.fabric.routes.via_mut(nid).count();
            (0..routes).for_each(|_| self.traffic.fabric.peers.add_gateway(nid));
        }
    }
}
