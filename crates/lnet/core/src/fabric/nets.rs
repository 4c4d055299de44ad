//! Local nets: new interfaces, and the watch of a router over nets from which no ping comes.

use std::time::Duration;

use lnet_policy::Profile;
use lnet_types::{Net, Time};
use lnet_wire::{Body, Header, LNET_PORTAL};

use crate::fabric::Fabric;
use crate::fabric::own::Outdated;
use crate::ground::config::{ConfigError, NiConfig};
use crate::ground::io::NiId;
use crate::ground::timer::Timer;

impl Fabric {
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

    /// Handles a ping from another node. For a router, a ping by a remote node shows that the net it came over works.
    /// For every node, a ping by a gateway shows that the gateway is alive.
    // [ROUTE-16]
    pub(crate) fn note_ping(&mut self, ni: NiId, header: &Header, now: Time) {
        let Body::Get(get) = header.body else { return };
        let foreign = self.nis.by_nid(header.src_nid).is_none();
        if get.ptl_index != LNET_PORTAL || !foreign {
            return;
        }
        self.gateway_pinged(header.src_nid, now);
        if !self.ground.config.routing {
            return;
        }
        if let Some(net) = self.nis.get(ni).map(|ni| ni.nid.net()) {
            self.net_works(net, now);
        }
    }

    /// Notes that messages pass over a net in both directions.
    pub(crate) fn net_works(&mut self, net: Net, now: Time) {
        let Some(state) = self.nis.net_mut(net) else {
            return;
        };
        (state.last_ping, state.asked) = (now, false);
        if std::mem::take(&mut state.quiet) {
            state.returned = Some(now);
            self.watch_net(net, now);
            self.own.changes(Outdated::Status);
        }
    }

    /// Starts to watch all nets when routing begins, or stops when routing ends.
    pub(crate) fn watch_nets(&mut self, now: Time) {
        for state in self.nis.nets_mut() {
            (state.last_ping, state.asked) = (now, false);
            state.quiet = false;
        }
        let nets: Vec<_> = self.nis.nets().iter().map(|state| state.net).collect();
        for net in nets {
            self.watch_net(net, now);
        }
    }

    /// Arms a net's timer if the node routes and the checker is on.
    pub(crate) fn watch_net(&mut self, net: Net, now: Time) {
        let (window, unasked) = self.quiet_times();
        let on =
            self.ground.config.routing && !self.globals().alive_router_check_interval.is_zero();
        let asks = self.asks_known_peers();
        let Some(state) = self.nis.net_mut(net) else {
            return;
        };
        if let Some(at) = state.watch.take() {
            self.ground.timers.disarm(at, Timer::Quiet(net));
        }
        let at = match (state.quiet, state.asked) {
            (true, _) => now + window,
            (false, true) => state.last_ping + window,
            (false, false) => state.last_ping + unasked,
        };
        if on && (asks || !state.quiet) {
            let at = at.max(now);
            state.watch = Some(at);
            self.ground.timers.arm(at, Timer::Quiet(net));
        }
    }

    /// Returns whether this node pings the peers that it knows on a net before it calls the net down. Kernels do not.
    pub(crate) fn asks_known_peers(&self) -> bool {
        self.globals().profile == Profile::Design
    }

    /// Returns after which time without a ping a net counts as down, and after which time this node pings peers on the
    /// net: peers that check their gateways have pinged by then, and there is time for the answer.
    pub(crate) fn quiet_times(&self) -> (Duration, Duration) {
        let globals = self.globals();
        let window = globals.quiet_window();
        let answer = globals.router_ping_timeout / 2;
        let unasked = match self.asks_known_peers() {
            true => window.saturating_sub(answer),
            false => window,
        };
        (window, unasked)
    }
}
