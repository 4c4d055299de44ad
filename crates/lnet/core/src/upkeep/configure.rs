//! Changes of the configuration, which are possible at any time. If an interface or a peer is removed, its
//! messages end: at once if the LND does not have them yet, otherwise when the LND reports their results.

use std::time::Duration;

use lnet_types::{Net, Nid, Time};

use crate::fabric::discovery::PeerState;
use crate::fabric::watch::Watched;
use crate::ground::config::{ConfigError, NiConfig, NiDevice, Route};
use crate::ground::event::Errno;
use crate::ground::globals::Globals;
use crate::ground::io::NiId;
use crate::ground::status::DropReason;
use crate::traffic::send::tx::{End, SendStage, Tx};
use crate::upkeep::Upkeep;

impl Upkeep {
    // [GATE-21]
    pub(crate) fn add_ni(&mut self, config: NiConfig, now: Time) -> Result<NiId, ConfigError> {
        let id = self.traffic.fabric.insert_ni(config, now)?;
        self.traffic.fabric.apply_rules();
        self.traffic.rebuild_ping_info();
        Ok(id)
    }

    // [PEER-10]
    pub(crate) fn remove_ni(&mut self, ni: NiId, now: Time) -> Result<(), ConfigError> {
        let net = self
            .traffic
            .fabric
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
        self.traffic.cancel_queued_where(queued, end, now);
        let watch = self
            .traffic
            .fabric
            .nis
            .net(net)
            .and_then(|state| state.watch);
        self.traffic.fabric.nis.remove(ni);
        self.traffic.fabric.peers.disconnect(ni);
        if let Some(at) = watch.filter(|_| !self.traffic.fabric.nis.has_net(net)) {
            self.traffic
                .fabric
                .ground
                .timers
                .disarm(at, crate::ground::timer::Timer::Quiet(net));
        }
        self.traffic.fabric.apply_rules();
        self.traffic.rebuild_ping_info();
        Ok(())
    }

    pub(crate) fn set_ni_fatal(&mut self, ni: NiId, fatal: bool, now: Time) {
        let Some(entry) = self
            .traffic
            .fabric
            .nis
            .get_mut(ni)
            .filter(|entry| entry.fatal != fatal)
        else {
            return;
        };
        // [HEALTH-32] [HEALTH-36]
        entry.fatal = fatal;
        let nid = entry.nid;
        self.traffic.fabric.happened(Watched::Fatal { nid, fatal });
        if self.traffic.fabric.ground.config.routing {
            self.traffic.rewrite_ping_info();
        } else {
            self.traffic.rebuild_ping_info();
        }
        if fatal {
            self.traffic.fabric.paths_lost += 1;
            self.traffic.leave_ni(ni, now);
        }
    }

    pub(crate) fn set_ni_device(&mut self, ni: NiId, device: NiDevice) -> Result<(), ConfigError> {
        self.traffic
            .fabric
            .nis
            .get_mut(ni)
            .ok_or(ConfigError::UnknownNi)?
            .device = device;
        Ok(())
    }

    pub(crate) fn set_ni_lnd_timeout(
        &mut self,
        ni: NiId,
        timeout: Option<Duration>,
    ) -> Result<(), ConfigError> {
        self.traffic
            .fabric
            .nis
            .get_mut(ni)
            .ok_or(ConfigError::UnknownNi)?
            .lnd_timeout = timeout;
        Ok(())
    }

    // [GATE-13] [GATE-20] [GATE-23]
    pub(crate) fn add_route(&mut self, route: Route, now: Time) -> Result<(), ConfigError> {
        let Route {
            net, gateway, hops, ..
        } = route;
        if net == Net::LO || net == Net::ANY || self.traffic.fabric.nis.has_net(net) {
            return Err(ConfigError::NotRemote(net));
        }
        let own = self.traffic.fabric.nis.by_nid(gateway).is_some();
        if own || gateway.is_any() || gateway.net() == Net::LO || gateway.net() == net {
            return Err(ConfigError::InvalidNid(gateway));
        }
        if !self.traffic.fabric.nis.has_net(gateway.net()) {
            return Err(ConfigError::GatewayNotLocal(gateway));
        }
        if hops == Some(0) {
            return Err(ConfigError::HopsOutOfRange);
        }
        let primary = self.traffic.fabric.peers.primary_of(gateway);
        let mut others = self
            .traffic
            .fabric
            .routes
            .to(net)
            .iter()
            .map(|state| state.route.gateway);
        if others.any(|other| self.traffic.fabric.peers.primary_of(other) == primary) {
            return Err(ConfigError::DuplicateRoute { net, gateway });
        }
        self.traffic
            .fabric
            .peer_ni(gateway, now)
            .ok_or(ConfigError::TooManyPeers)?;
        let alive = !self.globals().check_routers_before_use;
        self.traffic.fabric.routes.add(route, alive)?;
        self.traffic.fabric.peers.add_gateway(gateway);
        self.traffic
            .fabric
            .apply_rules_to_peer(self.traffic.fabric.peers.primary_of(gateway));
        self.traffic.fabric.plan_check(gateway, now);
        Ok(())
    }

    pub(crate) fn remove_route(&mut self, net: Net, gateway: Nid) -> Result<(), ConfigError> {
        let gone = self.traffic.fabric.routes.remove(net, gateway)?;
        self.traffic.fabric.peers.remove_gateway(gateway);
        self.traffic.fabric.apply_rules();
        if let Some(at) = gone.and_then(|gateway| gateway.next_check) {
            self.traffic
                .fabric
                .ground
                .timers
                .disarm(at, crate::ground::timer::Timer::Check(gateway));
        }
        Ok(())
    }

    pub(crate) fn add_peer(
        &mut self,
        primary: Nid,
        nids: &[Nid],
        multi_rail: bool,
    ) -> Result<(), ConfigError> {
        let all = || std::iter::once(primary).chain(nids.iter().copied());
        if let Some(nid) = all().find(|nid| nid.is_any() || nid.net() == Net::LO) {
            return Err(ConfigError::InvalidNid(nid));
        }
        if let Some(nid) = self.traffic.fabric.peers.owner_conflict(primary, nids) {
            return Err(ConfigError::NidOfAnotherPeer(nid));
        }
        for nid in all() {
            self.traffic
                .fabric
                .peer_ni(nid, Time::ZERO)
                .ok_or(ConfigError::TooManyPeers)?;
        }
        let apart = self
            .traffic
            .fabric
            .peers
            .configure(primary, nids, multi_rail);
        self.after_merge(primary, &apart);
        self.go_on_with_discovery(primary);
        self.traffic.fabric.apply_rules_to_peer(primary);
        Ok(())
    }

    pub(crate) fn set_peer_state(&mut self, nid: Nid, state: PeerState) -> Result<(), ConfigError> {
        let name = self.traffic.fabric.peers.primary_of(nid);
        let under_way = PeerState::DISCOVERING
            | PeerState::DATA_PRESENT
            | PeerState::PING_SENT
            | PeerState::PUSH_SENT;
        let discovery = self.traffic.fabric.discovery_mut(name);
        let discovery = discovery.ok_or(ConfigError::UnknownPeer(nid))?;
        discovery.set(PeerState::all() - under_way, false);
        discovery.set(state - under_way, true);
        let configured = state.contains(PeerState::CONFIGURED);
        let multi_rail = state.contains(PeerState::MULTI_RAIL);
        self.traffic
            .fabric
            .peers
            .set_kind(name, configured, multi_rail);
        let locked = state.contains(PeerState::LOCK_PRIMARY);
        self.traffic.fabric.peers.lock(name, locked);
        self.traffic.fabric.apply_rules_to_peer(name);
        Ok(())
    }

    pub(crate) fn remove_peer(&mut self, primary: Nid) -> Result<(), ConfigError> {
        let kept = self.traffic.fabric.peers.peer(primary);
        if kept.is_some_and(|peer| peer.routes > 0) {
            return Err(ConfigError::PeerIsGateway(primary));
        }
        let is_alone = || {
            let alone = self.traffic.fabric.peers.by_nid(primary);
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
        self.traffic
            .cancel_queued_where(|tx| nids.iter().any(|&nid| tx.goes_to(nid)), end, now);
        for nid in nids {
            let held = self
                .traffic
                .fabric
                .peers
                .by_nid(nid)
                .map(|peer_ni| peer_ni.router_credits.waiting().clone());
            for id in held.into_iter().flatten() {
                self.traffic.drop_held_forward(id, DropReason::NoRoute);
            }
        }
        if is_locked {
            self.traffic.fabric.peers.remove_others(primary);
        } else {
            self.traffic.fabric.peers.remove(primary);
        }
        Ok(())
    }

    pub(crate) fn change_globals(
        &mut self,
        globals: Globals,
        now: Time,
    ) -> Result<(), ConfigError> {
        let changed = globals.checked_change_of(self.globals())?;
        self.set_globals(changed, now);
        Ok(())
    }

    pub(crate) fn set_globals(&mut self, globals: Globals, now: Time) {
        let before = std::mem::replace(&mut self.traffic.fabric.ground.config.globals, globals);
        if globals.profile != before.profile {
            self.traffic.fabric.apply_rules();
        }
        if globals.discovery != before.discovery {
            self.set_push_target(globals.discovery, now);
            self.traffic.rebuild_ping_info();
            // The last push to other nodes says that discovery is off here.
            self.traffic.fabric.plan_pushes();
        }
        let on = globals.health_sensitivity > 0;
        if on != (before.health_sensitivity > 0) {
            self.health_switched(on, now);
        }
        let gateways: Vec<Nid> = self.traffic.fabric.routes.gateways().collect();
        for gateway in gateways {
            self.traffic.fabric.plan_check(gateway, now);
        }
        let nets: Vec<Net> = self
            .traffic
            .fabric
            .nis
            .nets()
            .iter()
            .map(|state| state.net)
            .collect();
        for net in nets {
            self.traffic.fabric.watch_net(net, now);
        }
    }
}
