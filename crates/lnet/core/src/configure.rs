//! Changes of the configuration, which are possible at any time. If an interface or a peer is removed, its
//! messages end: at once if the LND does not have them yet, otherwise when the LND reports their results.

use std::time::Duration;

use lnet_types::{Net, Nid, Time};

use crate::Core;
use crate::config::{ConfigError, Globals, NiConfig, NiDevice, Route};
use crate::discovery::table::PeerState;
use crate::event::Errno;
use crate::io::NiId;
use crate::record::Input;
use crate::send::tx::{End, SendStage, Tx};
use crate::status::DropReason;
use crate::watch::Watched;

impl Core {
    /// Adds an interface. The first interface of a net also adds the net.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidNid`], [`ConfigError::NoCredits`], [`ConfigError::DuplicateNid`],
    /// [`ConfigError::NetIsRouted`].
    pub fn add_ni(&mut self, config: NiConfig, now: Time) -> Result<NiId, ConfigError> {
        let input = self.noted(|| Input::AddNi { config, now });
        self.take_in(input, |core| core.add_ni_unrecorded(config, now))
    }

    // [GATE-21]
    fn add_ni_unrecorded(&mut self, config: NiConfig, now: Time) -> Result<NiId, ConfigError> {
        let id = self.insert_ni(config, now)?;
        self.apply_rules();
        self.rebuild_ping_info();
        Ok(id)
    }

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

    /// Removes an interface. Messages that are queued for the interface end with [`Errno::ENODEV`]. Messages that wait
    /// for a resend take another interface if there is one.
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownNi`], also for loopback.
    pub fn remove_ni(&mut self, ni: NiId, now: Time) -> Result<(), ConfigError> {
        let input = self.noted(|| Input::RemoveNi { ni, now });
        self.take_in(input, |core| core.remove_ni_unrecorded(ni, now))
    }

    // [PEER-10]
    fn remove_ni_unrecorded(&mut self, ni: NiId, now: Time) -> Result<(), ConfigError> {
        let net = self
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
        self.cancel_queued_where(queued, end, now);
        let watch = self.nis.net(net).and_then(|state| state.watch);
        self.nis.remove(ni);
        self.peers.disconnect(ni);
        if let Some(at) = watch.filter(|_| !self.nis.has_net(net)) {
            self.timers.disarm(at, crate::timer::Timer::Quiet(net));
        }
        self.apply_rules();
        self.rebuild_ping_info();
        Ok(())
    }

    /// Takes the LND's report that an interface has a fatal error, such as a link that is down, or no longer has one.
    pub fn set_ni_fatal(&mut self, ni: NiId, fatal: bool, now: Time) {
        let input = self.noted(|| Input::SetNiFatal { ni, fatal, now });
        self.take_in(input, |core| core.set_ni_fatal_unrecorded(ni, fatal, now));
    }

    fn set_ni_fatal_unrecorded(&mut self, ni: NiId, fatal: bool, now: Time) {
        let Some(entry) = self.nis.get_mut(ni).filter(|entry| entry.fatal != fatal) else {
            return;
        };
        // [HEALTH-32] [HEALTH-36]
        entry.fatal = fatal;
        let nid = entry.nid;
        self.happened(Watched::Fatal { nid, fatal });
        if self.config.routing {
            self.rewrite_ping_info();
        } else {
            self.rebuild_ping_info();
        }
        if fatal {
            self.paths_lost += 1;
            self.leave_ni(ni, now);
        }
    }

    /// Sets the hardware that is behind an interface.
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownNi`].
    pub fn set_ni_device(&mut self, ni: NiId, device: NiDevice) -> Result<(), ConfigError> {
        let input = self.noted(|| Input::SetNiDevice {
            ni,
            device: device.clone(),
        });
        self.take_in(input, |core| core.set_ni_device_unrecorded(ni, device))
    }

    fn set_ni_device_unrecorded(&mut self, ni: NiId, device: NiDevice) -> Result<(), ConfigError> {
        self.nis.get_mut(ni).ok_or(ConfigError::UnknownNi)?.device = device;
        Ok(())
    }

    /// Sets how long the LND of an interface may take for one attempt; `None` means [`Globals::lnd_timeout`].
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownNi`].
    pub fn set_ni_lnd_timeout(
        &mut self,
        ni: NiId,
        timeout: Option<Duration>,
    ) -> Result<(), ConfigError> {
        let input = self.noted(|| Input::SetNiLndTimeout { ni, timeout });
        self.take_in(input, |core| {
            core.set_ni_lnd_timeout_unrecorded(ni, timeout)
        })
    }

    fn set_ni_lnd_timeout_unrecorded(
        &mut self,
        ni: NiId,
        timeout: Option<Duration>,
    ) -> Result<(), ConfigError> {
        self.nis
            .get_mut(ni)
            .ok_or(ConfigError::UnknownNi)?
            .lnd_timeout = timeout;
        Ok(())
    }

    /// Adds a static route, and pings its gateway.
    ///
    /// # Errors
    ///
    /// [`ConfigError::NotRemote`], [`ConfigError::InvalidNid`], [`ConfigError::GatewayNotLocal`],
    /// [`ConfigError::HopsOutOfRange`], [`ConfigError::DuplicateRoute`],
    /// [`ConfigError::TooManyPeers`].
    pub fn add_route(&mut self, route: Route, now: Time) -> Result<(), ConfigError> {
        let input = self.noted(|| Input::AddRoute { route, now });
        self.take_in(input, |core| core.add_route_unrecorded(route, now))
    }

    // [GATE-13] [GATE-20] [GATE-23]
    fn add_route_unrecorded(&mut self, route: Route, now: Time) -> Result<(), ConfigError> {
        let Route {
            net, gateway, hops, ..
        } = route;
        if net == Net::LO || net == Net::ANY || self.nis.has_net(net) {
            return Err(ConfigError::NotRemote(net));
        }
        let own = self.nis.by_nid(gateway).is_some();
        if own || gateway.is_any() || gateway.net() == Net::LO || gateway.net() == net {
            return Err(ConfigError::InvalidNid(gateway));
        }
        if !self.nis.has_net(gateway.net()) {
            return Err(ConfigError::GatewayNotLocal(gateway));
        }
        if hops == Some(0) {
            return Err(ConfigError::HopsOutOfRange);
        }
        let primary = self.peers.primary_of(gateway);
        let mut others = self.routes.to(net).iter().map(|state| state.route.gateway);
        if others.any(|other| self.peers.primary_of(other) == primary) {
            return Err(ConfigError::DuplicateRoute { net, gateway });
        }
        self.peer_ni(gateway, now)
            .ok_or(ConfigError::TooManyPeers)?;
        let alive = !self.config.globals.check_routers_before_use;
        self.routes.add(route, alive)?;
        self.peers.add_gateway(gateway);
        self.apply_rules_to_peer(self.peers.primary_of(gateway));
        self.plan_check(gateway, now);
        Ok(())
    }

    /// Removes a route. Messages that have already chosen the route keep their path.
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownRoute`].
    pub fn remove_route(&mut self, net: Net, gateway: Nid) -> Result<(), ConfigError> {
        let input = self.noted(|| Input::RemoveRoute { net, gateway });
        self.take_in(input, |core| core.remove_route_unrecorded(net, gateway))
    }

    fn remove_route_unrecorded(&mut self, net: Net, gateway: Nid) -> Result<(), ConfigError> {
        let gone = self.routes.remove(net, gateway)?;
        self.peers.remove_gateway(gateway);
        self.apply_rules();
        if let Some(at) = gone.and_then(|gateway| gateway.next_check) {
            self.timers.disarm(at, crate::timer::Timer::Check(gateway));
        }
        Ok(())
    }

    /// Configures a peer, or adds NIDs to a configured peer. Peer NIs that traffic created under these NIDs become
    /// part of the peer.
    ///
    /// # Errors
    ///
    /// [`ConfigError::InvalidNid`], [`ConfigError::NidOfAnotherPeer`], [`ConfigError::TooManyPeers`].
    pub fn add_peer(
        &mut self,
        primary: Nid,
        nids: &[Nid],
        multi_rail: bool,
    ) -> Result<(), ConfigError> {
        let input = self.noted(|| Input::AddPeer {
            primary,
            nids: nids.to_vec(),
            multi_rail,
        });
        self.take_in(input, |core| {
            core.add_peer_unrecorded(primary, nids, multi_rail)
        })
    }

    fn add_peer_unrecorded(
        &mut self,
        primary: Nid,
        nids: &[Nid],
        multi_rail: bool,
    ) -> Result<(), ConfigError> {
        let all = || std::iter::once(primary).chain(nids.iter().copied());
        if let Some(nid) = all().find(|nid| nid.is_any() || nid.net() == Net::LO) {
            return Err(ConfigError::InvalidNid(nid));
        }
        if let Some(nid) = self.peers.owner_conflict(primary, nids) {
            return Err(ConfigError::NidOfAnotherPeer(nid));
        }
        for nid in all() {
            self.peer_ni(nid, Time::ZERO)
                .ok_or(ConfigError::TooManyPeers)?;
        }
        let apart = self.peers.configure(primary, nids, multi_rail);
        self.after_merge(primary, &apart);
        self.go_on_with_discovery(primary);
        self.apply_rules_to_peer(primary);
        Ok(())
    }

    /// Sets the state bits of the peer with this NID, on behalf of an administrator. With [`PeerState::LOCK_PRIMARY`]
    /// discovery keeps the peer's primary NID. The bits of a discovery that is under way do not change.
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownPeer`].
    pub fn set_peer_state(&mut self, nid: Nid, state: PeerState) -> Result<(), ConfigError> {
        let input = self.noted(|| Input::SetPeerState { nid, state });
        self.take_in(input, |core| core.set_peer_state_unrecorded(nid, state))
    }

    fn set_peer_state_unrecorded(&mut self, nid: Nid, state: PeerState) -> Result<(), ConfigError> {
        let name = self.peers.primary_of(nid);
        let under_way = PeerState::DISCOVERING
            | PeerState::DATA_PRESENT
            | PeerState::PING_SENT
            | PeerState::PUSH_SENT;
        let discovery = self.discovery_mut(name);
        let discovery = discovery.ok_or(ConfigError::UnknownPeer(nid))?;
        discovery.set(PeerState::all() - under_way, false);
        discovery.set(state - under_way, true);
        let configured = state.contains(PeerState::CONFIGURED);
        let multi_rail = state.contains(PeerState::MULTI_RAIL);
        self.peers.set_kind(name, configured, multi_rail);
        let locked = state.contains(PeerState::LOCK_PRIMARY);
        self.peers.lock(name, locked);
        self.apply_rules_to_peer(name);
        Ok(())
    }

    /// Removes a peer, also a peer that traffic created. Messages that are queued for the peer end with
    /// [`Errno::EHOSTUNREACH`]. If the primary NID of the peer is locked, the peer keeps that NID and loses the
    /// others.
    ///
    /// # Errors
    ///
    /// [`ConfigError::UnknownPeer`], [`ConfigError::PeerIsGateway`].
    pub fn remove_peer(&mut self, primary: Nid) -> Result<(), ConfigError> {
        let input = self.noted(|| Input::RemovePeer { primary });
        self.take_in(input, |core| core.remove_peer_unrecorded(primary))
    }

    fn remove_peer_unrecorded(&mut self, primary: Nid) -> Result<(), ConfigError> {
        let kept = self.peers.peer(primary);
        if kept.is_some_and(|peer| peer.routes > 0) {
            return Err(ConfigError::PeerIsGateway(primary));
        }
        let is_alone = || {
            let alone = self.peers.by_nid(primary);
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
        self.cancel_queued_where(|tx| nids.iter().any(|&nid| tx.goes_to(nid)), end, now);
        for nid in nids {
            let held = self
                .peers
                .by_nid(nid)
                .map(|peer_ni| peer_ni.router_credits.waiting().clone());
            for id in held.into_iter().flatten() {
                self.drop_held_forward(id, DropReason::NoRoute);
            }
        }
        if is_locked {
            self.peers.remove_others(primary);
        } else {
            self.peers.remove(primary);
        }
        Ok(())
    }

    /// Changes the node's parameters within the limits for an administrator. Switching
    /// health off also switches resends off.
    ///
    /// # Errors
    ///
    /// [`ConfigError::SensitivityOutOfRange`], [`ConfigError::RetryWithoutHealth`],
    /// [`ConfigError::TooManyRetries`], [`ConfigError::TimeoutTooShort`]; nothing has changed then.
    pub fn change_globals(&mut self, globals: Globals, now: Time) -> Result<(), ConfigError> {
        let input = self.noted(|| Input::ChangeGlobals { globals, now });
        self.take_in(input, |core| core.change_globals_unrecorded(globals, now))
    }

    fn change_globals_unrecorded(
        &mut self,
        globals: Globals,
        now: Time,
    ) -> Result<(), ConfigError> {
        let changed = globals.checked_change_of(&self.config.globals)?;
        self.set_globals(changed, now);
        Ok(())
    }

    /// Sets the parameters without a check. Operations that wait for a response keep their deadlines.
    pub fn set_globals(&mut self, globals: Globals, now: Time) {
        let input = self.noted(|| Input::SetGlobals { globals, now });
        self.take_in(input, |core| core.set_globals_unrecorded(globals, now));
    }

    fn set_globals_unrecorded(&mut self, globals: Globals, now: Time) {
        let before = std::mem::replace(&mut self.config.globals, globals);
        if globals.profile != before.profile {
            self.apply_rules();
        }
        if globals.discovery != before.discovery {
            self.set_push_target(globals.discovery, now);
            self.rebuild_ping_info();
            // The last push to other nodes says that discovery is off here.
            self.plan_pushes();
        }
        let on = globals.health_sensitivity > 0;
        if on != (before.health_sensitivity > 0) {
            self.health_switched(on, now);
        }
        let gateways: Vec<Nid> = self.routes.gateways().collect();
        for gateway in gateways {
            self.plan_check(gateway, now);
        }
        let nets: Vec<Net> = self.nis.nets().iter().map(|state| state.net).collect();
        for net in nets {
            self.watch_net(net, now);
        }
    }
}
