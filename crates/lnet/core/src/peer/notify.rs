//! What the LND reports of peers: connections, and restarts.

use lnet_types::{Nid, Time};

use crate::Core;
use crate::io::NiId;

pub(crate) fn peer_notify(core: &mut Core, ni: NiId, peer: Nid, alive: bool, now: Time) {
    core.note_time(now);
    let Some(peer_ni) = core.peers.by_nid_mut(peer) else {
        return;
    };
    let was_down = peer_ni.down_since.is_some();
    peer_ni.notify(ni, alive, now);
    if peer_ni.down_since.is_some() {
        let is_gateway = core
            .peers
            .owner_of(peer)
            .is_some_and(|owner| owner.routes > 0);
        core.paths_lost += u64::from(is_gateway && !was_down);
        core.gateway_disconnected(peer, now);
    }
    core.report_peer(peer, was_down);
}

pub(crate) fn peer_incarnation(core: &mut Core, peer: Nid, incarnation: u64, now: Time) {
    core.note_time(now);
    let Some(peer_ni) = core.peers.by_nid_mut(peer) else {
        return;
    };
    let before = peer_ni.incarnation.replace(incarnation);
    if before.is_none_or(|before| before == incarnation) {
        return;
    }
    let name = core.peers.primary_of(peer);
    let known = core.peers.by_nid_mut(name);
    if let Some(discovery) = known.and_then(|peer_ni| peer_ni.discovery.as_mut()) {
        discovery.restart();
    }
}
