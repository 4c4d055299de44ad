//! Changes of the configuration, which are possible at any time. If an interface or a peer is removed, its
//! messages end: at once if the LND does not have them yet, otherwise when the LND reports their results.

use std::time::Duration;

use lnet_types::{Net, Nid, Time};

use crate::Core;
use crate::config::{ConfigError, NiConfig, NiDevice, Route};
use crate::discovery::table::PeerState;
use crate::event::Errno;
use crate::globals::Globals;
use crate::io::NiId;
use crate::send::tx::{End, SendStage, Tx};
use crate::status::DropReason;
use crate::watch::Watched;

// [GATE-21]
pub(crate) fn add_ni(core: &mut Core, config: NiConfig, now: Time) -> Result<NiId, ConfigError> {
    let id = core.insert_ni(config, now)?;
    core.apply_rules();
    core.rebuild_ping_info();
    Ok(id)
}

// [PEER-10]
pub(crate) fn remove_ni(core: &mut Core, ni: NiId, now: Time) -> Result<(), ConfigError> {
    let net = core
        .nis
        .get(ni)
        .map(|ni| ni.nid.net())
        .ok_or(ConfigError::UnknownNi)?;
    if ni == NiId::LOOPBACK {
        return Err(ConfigError::UnknownNi);
    }
    let end = End::Failed(Errno::ENODEV, DropReason::NoRoute);
    // Messages that wait for a resend or for a discovery choose their path later, so they do not end here.
    let queued =
        |tx: &Tx| tx.ni == ni && !matches!(tx.stage, SendStage::Resend | SendStage::Parked);
    core.cancel_queued_where(queued, end, now);
    let watch = core.nis.net(net).and_then(|state| state.watch);
    core.nis.remove(ni);
    core.peers.disconnect(ni);
    if let Some(at) = watch.filter(|_| !core.nis.has_net(net)) {
        core.timers.disarm(at, crate::timer::Timer::Quiet(net));
    }
    core.apply_rules();
    core.rebuild_ping_info();
    Ok(())
}

pub(crate) fn set_ni_fatal(core: &mut Core, ni: NiId, fatal: bool, now: Time) {
    let Some(entry) = core.nis.get_mut(ni).filter(|entry| entry.fatal != fatal) else {
        return;
    };
    // [HEALTH-32] [HEALTH-36]
    entry.fatal = fatal;
    let nid = entry.nid;
    core.happened(Watched::Fatal { nid, fatal });
    if core.config.routing {
        core.rewrite_ping_info();
    } else {
        core.rebuild_ping_info();
    }
    if fatal {
        core.paths_lost += 1;
        core.leave_ni(ni, now);
    }
}

pub(crate) fn set_ni_device(
    core: &mut Core,
    ni: NiId,
    device: NiDevice,
) -> Result<(), ConfigError> {
    core.nis.get_mut(ni).ok_or(ConfigError::UnknownNi)?.device = device;
    Ok(())
}

pub(crate) fn set_ni_lnd_timeout(
    core: &mut Core,
    ni: NiId,
    timeout: Option<Duration>,
) -> Result<(), ConfigError> {
    core.nis
        .get_mut(ni)
        .ok_or(ConfigError::UnknownNi)?
        .lnd_timeout = timeout;
    Ok(())
}

// [GATE-13] [GATE-20] [GATE-23]
pub(crate) fn add_route(core: &mut Core, route: Route, now: Time) -> Result<(), ConfigError> {
    let Route {
        net, gateway, hops, ..
    } = route;
    if net == Net::LO || net == Net::ANY || core.nis.has_net(net) {
        return Err(ConfigError::NotRemote(net));
    }
    let own = core.nis.by_nid(gateway).is_some();
    if own || gateway.is_any() || gateway.net() == Net::LO || gateway.net() == net {
        return Err(ConfigError::InvalidNid(gateway));
    }
    if !core.nis.has_net(gateway.net()) {
        return Err(ConfigError::GatewayNotLocal(gateway));
    }
    if hops == Some(0) {
        return Err(ConfigError::HopsOutOfRange);
    }
    let primary = core.peers.primary_of(gateway);
    let mut others = core.routes.to(net).iter().map(|state| state.route.gateway);
    if others.any(|other| core.peers.primary_of(other) == primary) {
        return Err(ConfigError::DuplicateRoute { net, gateway });
    }
    core.peer_ni(gateway, now)
        .ok_or(ConfigError::TooManyPeers)?;
    let alive = !core.config.globals.check_routers_before_use;
    core.routes.add(route, alive)?;
    core.peers.add_gateway(gateway);
    core.apply_rules_to_peer(core.peers.primary_of(gateway));
    core.plan_check(gateway, now);
    Ok(())
}

pub(crate) fn remove_route(core: &mut Core, net: Net, gateway: Nid) -> Result<(), ConfigError> {
    let gone = core.routes.remove(net, gateway)?;
    core.peers.remove_gateway(gateway);
    core.apply_rules();
    if let Some(at) = gone.and_then(|gateway| gateway.next_check) {
        core.timers.disarm(at, crate::timer::Timer::Check(gateway));
    }
    Ok(())
}

pub(crate) fn add_peer(
    core: &mut Core,
    primary: Nid,
    nids: &[Nid],
    multi_rail: bool,
) -> Result<(), ConfigError> {
    let all = || std::iter::once(primary).chain(nids.iter().copied());
    if let Some(nid) = all().find(|nid| nid.is_any() || nid.net() == Net::LO) {
        return Err(ConfigError::InvalidNid(nid));
    }
    if let Some(nid) = core.peers.owner_conflict(primary, nids) {
        return Err(ConfigError::NidOfAnotherPeer(nid));
    }
    for nid in all() {
        core.peer_ni(nid, Time::ZERO)
            .ok_or(ConfigError::TooManyPeers)?;
    }
    let apart = core.peers.configure(primary, nids, multi_rail);
    core.after_merge(primary, &apart);
    core.go_on_with_discovery(primary);
    core.apply_rules_to_peer(primary);
    Ok(())
}

pub(crate) fn set_peer_state(
    core: &mut Core,
    nid: Nid,
    state: PeerState,
) -> Result<(), ConfigError> {
    let name = core.peers.primary_of(nid);
    let under_way = PeerState::DISCOVERING
        | PeerState::DATA_PRESENT
        | PeerState::PING_SENT
        | PeerState::PUSH_SENT;
    let discovery = core.discovery_mut(name);
    let discovery = discovery.ok_or(ConfigError::UnknownPeer(nid))?;
    discovery.set(PeerState::all() - under_way, false);
    discovery.set(state - under_way, true);
    let configured = state.contains(PeerState::CONFIGURED);
    let multi_rail = state.contains(PeerState::MULTI_RAIL);
    core.peers.set_kind(name, configured, multi_rail);
    let locked = state.contains(PeerState::LOCK_PRIMARY);
    core.peers.lock(name, locked);
    core.apply_rules_to_peer(name);
    Ok(())
}

pub(crate) fn remove_peer(core: &mut Core, primary: Nid) -> Result<(), ConfigError> {
    let kept = core.peers.peer(primary);
    if kept.is_some_and(|peer| peer.routes > 0) {
        return Err(ConfigError::PeerIsGateway(primary));
    }
    let is_alone = || {
        let alone = core.peers.by_nid(primary);
        alone.is_some_and(|peer_ni| peer_ni.peer.is_none())
    };
    let is_locked = kept.is_some_and(|peer| peer.lock.is_some());
    let nids = match kept {
        Some(peer) if is_locked => peer.nids.iter().copied().skip(1).collect(),
        Some(peer) => peer.nids.clone(),
        None if is_alone() => std::iter::once(primary).collect(),
        None => return Err(ConfigError::UnknownPeer(primary)),
    };
    // The call has no time parameter. Time zero is safe: no deadline has passed for a message that leaves a queue
    // here.
    let now = Time::ZERO;
    let end = End::Failed(Errno::EHOSTUNREACH, DropReason::NoRoute);
    core.cancel_queued_where(|tx| nids.iter().any(|&nid| tx.goes_to(nid)), end, now);
    for nid in nids {
        let held = core
            .peers
            .by_nid(nid)
            .map(|peer_ni| peer_ni.router_credits.waiting().clone());
        for id in held.into_iter().flatten() {
            core.drop_held_forward(id, DropReason::NoRoute);
        }
    }
    if is_locked {
        core.peers.remove_others(primary);
    } else {
        core.peers.remove(primary);
    }
    Ok(())
}

pub(crate) fn change_globals(
    core: &mut Core,
    globals: Globals,
    now: Time,
) -> Result<(), ConfigError> {
    let changed = globals.checked_change_of(&core.config.globals)?;
    core.set_globals(changed, now);
    Ok(())
}

pub(crate) fn set_globals(core: &mut Core, globals: Globals, now: Time) {
    let before = std::mem::replace(&mut core.config.globals, globals);
    if globals.profile != before.profile {
        core.apply_rules();
    }
    if globals.discovery != before.discovery {
        core.set_push_target(globals.discovery, now);
        core.rebuild_ping_info();
        // The last push to other nodes says that discovery is off here.
        core.plan_pushes();
    }
    let on = globals.health_sensitivity > 0;
    if on != (before.health_sensitivity > 0) {
        core.health_switched(on, now);
    }
    let gateways: Vec<Nid> = core.routes.gateways().collect();
    for gateway in gateways {
        core.plan_check(gateway, now);
    }
    let nets: Vec<Net> = core.nis.nets().iter().map(|state| state.net).collect();
    for net in nets {
        core.watch_net(net, now);
    }
}

impl Core {
    /// Adds an interface without updating rules or ping information. A caller that adds many interfaces updates both
    /// once at the end.
    pub(crate) fn insert_ni(&mut self, config: NiConfig, now: Time) -> Result<NiId, ConfigError> {
        let nid = config.nid;
        let net = nid.net();
        if nid.is_any() || net == Net::LO {
            return Err(ConfigError::InvalidNid(nid));
        }
        if config.tunables.credits == 0 || config.tunables.peer_credits == 0 {
            return Err(ConfigError::NoCredits);
        }
        if self.nis.by_nid(nid).is_some() {
            return Err(ConfigError::DuplicateNid(nid));
        }
        if !self.routes.to(net).is_empty() {
            return Err(ConfigError::NetIsRouted(net));
        }
        let new_net = !self.nis.has_net(net);
        let id = self.nis.add(config, now);
        if new_net {
            self.watch_net(net, now);
        }
        Ok(id)
    }
}
