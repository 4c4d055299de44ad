//! Checks that a node is at rest: nothing is in flight, and nothing is broken.

use lnet_core::{Core, NiId, PeerNiView};
use lnet_types::Nid;

use crate::invariant::Invariant;

/// The number of descriptors of the core itself: its ping target.
const OWN_DESCRIPTORS: usize = 1;

/// Returns what is not at rest in a core, with the violated invariant. `sinks` is the number of
/// descriptors that the core's owner keeps. Peer NIs for which `judged` is false may have reduced health.
pub(crate) fn unrest(
    core: &Core,
    sinks: usize,
    judged: &dyn Fn(Nid) -> bool,
) -> Option<(Invariant, String)> {
    left(core, sinks)
        .map(|what| (Invariant::Leftover, what))
        .or_else(|| spent(core).map(|what| (Invariant::Credits, what)))
        .or_else(|| unwell(core, judged).map(|what| (Invariant::Health, what)))
}

fn left(core: &Core, sinks: usize) -> Option<String> {
    let census = core.census();
    let counters = core.counters();
    let counts = [
        (
            "descriptors",
            census.descriptors.abs_diff(sinks + OWN_DESCRIPTORS),
        ),
        ("messages being sent", census.sending),
        ("messages being received", census.receiving),
        ("messages waiting to be sent again", census.resending),
        ("buffers of the core", census.buffers.abs_diff(1)),
        (
            "messages counted as under way",
            counters.msgs_alloc as usize,
        ),
        (
            "responses counted as waited for",
            counters.rst_alloc as usize,
        ),
    ];
    let (name, count) = counts.into_iter().find(|(_, count)| *count != 0)?;
    Some(format!("{count} {name} left"))
}

fn spent(core: &Core) -> Option<String> {
    for ni in core.nis() {
        if ni.tx_credits != i64::from(ni.tunables.credits) {
            return Some(format!("{} has {} credits", ni.nid, ni.tx_credits));
        }
    }
    for pool in core.router_pools() {
        if pool.credits != i64::from(pool.buffers) {
            return Some(format!("{} of {:?} buffers", pool.credits, pool.pool));
        }
    }
    core.peers()
        .flat_map(|peer| peer.nis)
        .find_map(|peer_ni| spent_on(&peer_ni))
}

fn spent_on(peer_ni: &PeerNiView) -> Option<String> {
    let full = i64::from(peer_ni.max_tx_credits);
    let nid = peer_ni.nid;
    if peer_ni.tx_credits != full || peer_ni.queued_bytes != 0 {
        let (credits, bytes) = (peer_ni.tx_credits, peer_ni.queued_bytes);
        return Some(format!("{nid} has {credits} credits, {bytes} bytes queued"));
    }
    // By default a peer may hold as many router buffers as it has credits.
    if peer_ni.router_credits != full {
        let credits = peer_ni.router_credits;
        return Some(format!("{nid} has {credits} router credits"));
    }
    None
}

/// A peer NI that was never heard of is not recovered [RECOV-6]. Peer NIs on remote nets have
/// no credits here, and their health is not checked.
fn unwell(core: &Core, judged: &dyn Fn(Nid) -> bool) -> Option<String> {
    for ni in core.nis().filter(|ni| ni.id != NiId::LOOPBACK) {
        let health = ni.health.health;
        if !health.is_full() {
            return Some(format!("{} has health {}", ni.nid, health.value()));
        }
        if !ni.up || ni.fatal {
            let why = if ni.fatal {
                "a fatal error"
            } else {
                "no traffic"
            };
            return Some(format!("{} is down: {why}", ni.nid));
        }
    }
    if let Some(route) = core.routes().find(|route| !route.alive) {
        let route = route.route;
        return Some(format!(
            "route to {} by {} is down",
            route.net, route.gateway
        ));
    }
    let mut known = core
        .peers()
        .flat_map(|peer| peer.nis)
        .filter(|peer_ni| peer_ni.last_alive.is_some() && peer_ni.max_tx_credits > 0)
        .filter(|peer_ni| judged(peer_ni.nid));
    let ill = known.find(|peer_ni| !peer_ni.health.health.is_full())?;
    let health = ill.health.health.value();
    Some(format!("peer interface {} has health {health}", ill.nid))
}
