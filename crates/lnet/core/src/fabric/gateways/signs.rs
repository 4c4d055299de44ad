//! What this node does when a gateway gives a sign of life, or none: when to ping it next.
//! The pings themselves are those of `upkeep::checker`.

use std::time::Duration;

use lnet_policy::Profile;
use lnet_types::{Net, Nid, Time};
use smallvec::SmallVec;

use crate::fabric::Fabric;
use crate::ground::io::Output;
use crate::ground::timer::Timer;

/// Pause after the first failed ping. Each further failure doubles it, as for recovery pings.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_secs(1);

impl Fabric {
    /// Plans a gateway's next ping, unless the checker is off.
    pub(crate) fn plan_check(&mut self, nid: Nid, at: Time) {
        let on = !self.globals().alive_router_check_interval.is_zero();
        let Some(gateway) = self.routes.gateway_mut(nid) else {
            return;
        };
        if let Some(before) = gateway.next_check.take() {
            self.ground.timers.disarm(before, Timer::Check(nid));
        }
        if on {
            gateway.next_check = Some(at);
            self.ground.timers.arm(at, Timer::Check(nid));
        }
    }

    /// Pings a gateway that counts as alive, because it may be dead: at once, but at least a second after the last
    /// ping. Kernels wait for the next check.
    // [GATE-18]
    pub(crate) fn check_soon(&mut self, nid: Nid, now: Time) {
        let Some(gateway) = self.routes.gateway(nid) else {
            return;
        };
        let at = now.max(gateway.last_check + FIRST_PAUSE);
        let sooner = gateway.next_check.is_some_and(|planned| at < planned);
        if gateway.alive && sooner && self.globals().profile == Profile::Design {
            self.plan_check(nid, at);
        }
    }

    /// Returns the gateways among the interfaces of a peer, as routes name them.
    pub(crate) fn gateways_of(&self, peer: Nid) -> SmallVec<[Nid; 2]> {
        let owner = self.peers.owner_of(peer).filter(|owner| owner.routes > 0);
        let nids = owner.map(|owner| owner.nids.iter()).into_iter().flatten();
        nids.copied()
            .filter(|&nid| self.routes.gateway(nid).is_some())
            .collect()
    }

    /// Sets the known status of some of a gateway's interfaces; health does not change.
    pub(crate) fn set_gateway_nis(&mut self, gateway: Nid, up: bool, of: impl Fn(Nid) -> bool) {
        let owner = self.peers.owner_of(gateway);
        let nids = owner.map(|peer| peer.nids.clone()).unwrap_or_default();
        for nid in nids.into_iter().filter(|&nid| of(nid)) {
            if let Some(peer_ni) = self.peers.by_nid_mut(nid) {
                peer_ni.status_up = up;
            }
        }
    }

    /// Notes that a gateway is alive because a message came through it. The next ping shows the state of the routes to
    /// nets other than the source's. This ping is sent at once, but at least a second after the last ping that a
    /// message caused. So a gateway that can send but not receive is not pinged at the rate of its messages.
    // [ROUTE-13] [GATE-15]
    pub(crate) fn revive_gateway(&mut self, sender: Nid, source: Net, now: Time) {
        for gateway in self.dead_gateways_of(sender) {
            for state in self.routes.via_mut(gateway) {
                state.fault.take_if(|_| state.route.net == source);
            }
            let heard = |nid: Nid| nid == sender || nid == gateway || nid.net() == source;
            self.set_gateway_nis(gateway, true, heard);
            self.set_gateway_alive(gateway, true);
            self.report_routes(gateway);
            self.ask_now(gateway, now);
        }
    }

    /// Pings a gateway that counts as dead, because the gateway has pinged this node, as it does after a restart.
    pub(in crate::fabric) fn gateway_pinged(&mut self, sender: Nid, now: Time) {
        for gateway in self.dead_gateways_of(sender) {
            self.ask_now(gateway, now);
        }
    }

    fn dead_gateways_of(&self, peer: Nid) -> SmallVec<[Nid; 2]> {
        let mut gateways = self.gateways_of(peer);
        gateways.retain(|nid| self.routes.gateway(*nid).is_some_and(|state| !state.alive));
        gateways
    }

    /// Pings a gateway after a sign of life: now, but at least a second after the ping of the last sign. Pings of the
    /// checker's schedule do not count: one that failed a moment ago says nothing about a gateway that has returned
    /// since.
    pub(crate) fn ask_now(&mut self, nid: Nid, now: Time) {
        let Some(gateway) = self.routes.gateway_mut(nid) else {
            return;
        };
        let at = match gateway.last_sign {
            // The ping of that sign is planned already.
            Some(sign) if sign > now => return,
            Some(sign) => now.max(sign + FIRST_PAUSE),
            None => now,
        };
        gateway.last_sign = Some(at);
        if gateway.next_check.is_none_or(|planned| at < planned) {
            self.plan_check(nid, at);
        }
    }

    pub(crate) fn set_gateway_alive(&mut self, nid: Nid, alive: bool) {
        let Some(gateway) = self.routes.gateway_mut(nid) else {
            return;
        };
        if gateway.alive != alive {
            gateway.alive = alive;
            self.ground
                .outputs
                .push_back(Output::Gateway { nid, alive });
        }
    }
}
