//! What the LND reports of peers: connections, and restarts.

use lnet_types::{Nid, Time};

use crate::ground::io::NiId;
use crate::upkeep::Upkeep;

impl Upkeep {
    pub(crate) fn peer_notify(&mut self, ni: NiId, peer: Nid, alive: bool, now: Time) {
        self.note_time(now);
        let Some(peer_ni) = self.traffic.fabric.peers.by_nid_mut(peer) else {
            return;
        };
        let was_down = peer_ni.down_since.is_some();
        peer_ni.notify(ni, alive, now);
        if peer_ni.down_since.is_some() {
            let is_gateway = self
                .traffic
                .fabric
                .peers
                .owner_of(peer)
                .is_some_and(|owner| owner.routes > 0);
            self.traffic.fabric.paths_lost += u64::from(is_gateway && !was_down);
            self.gateway_disconnected(peer, now);
        }
        self.traffic.fabric.report_peer(peer, was_down);
    }

    pub(crate) fn peer_incarnation(&mut self, peer: Nid, incarnation: u64, now: Time) {
        self.note_time(now);
        let Some(peer_ni) = self.traffic.fabric.peers.by_nid_mut(peer) else {
            return;
        };
        let before = peer_ni.incarnation.replace(incarnation);
        if before.is_none_or(|before| before == incarnation) {
            return;
        }
        let name = self.traffic.fabric.peers.primary_of(peer);
        let known = self.traffic.fabric.peers.by_nid_mut(name);
        if let Some(discovery) = known.and_then(|peer_ni| peer_ni.discovery.as_mut()) {
            discovery.restart();
        }
    }
}
