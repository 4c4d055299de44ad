//! The router checker: pings every gateway to learn which routes are usable.
//!
//! ```text
//!            ping answered, or a message came through it
//!   dead ──────────────────────────────────────────────▶ alive
//!        ◀──────────────────────────────────────────────
//!            ping failed, or unanswered for router_ping_timeout
//! ```
//!
//! A gateway whose ping failed, or which says that a route of this node is down, is pinged after 1, 2, 4 … seconds,
//! but no later than after the check interval. In kernels the recovery pings of the health code do the same. So a
//! router that restarts is used within seconds, not only after the next check a minute later.
//!
//! A gateway that has lost its connections, or through which messages are not answered, is pinged at once (`design`
//! profile). So a ping detects a gateway that is dead or does not respond, before the gateway loses much traffic.
//!
//! A ping that fails at a local interface shows nothing about the gateway. It is retried from another interface, while
//! there is one in full health.
//!
//! A Multi-Rail gateway is pinged over each net that it shares with this node, because a router calls a net down on
//! which it receives no pings. The gateway's own NID decides whether the gateway is alive. A ping over
//! another net counts only for the health of that interface. Kernels count the ping of each net for the gateway.
//!
//! Each route has a flag that the gateway's last information decides: the answer to a ping, or a push. Kernels have
//! this flag. For a Multi-Rail gateway they also check the interface statuses that the same information set. With
//! discovery, the checker's ping is also the ping of a discovery, and a push follows it. A ping
//! times out after `router_ping_timeout`, which is shorter than the interval: a dead gateway is detected within the
//! sum of both.

use std::collections::BTreeMap;

use lnet_policy::Profile;
use lnet_types::{Net, Nid, Time};
use lnet_wire::{NiStatus, PING_BUFFER_MIN};
use smallvec::SmallVec;

use crate::fabric::gateways::obstacle::RouteFault;
use crate::fabric::gateways::route::RouteState;
use crate::fabric::gateways::signs::FIRST_PAUSE;
use crate::fabric::ni::Ni;
use crate::fabric::said::Said;
use crate::ground::event::{Event, EventKind};
use crate::ground::globals::Globals;
use crate::ground::health::Health;
use crate::ground::io::CoreBuffer;
use crate::ground::md::MdHandle;
use crate::traffic::portals::descriptor::Owner;
use crate::upkeep::Upkeep;

/// Limit of doublings: the pause then exceeds every sensible check interval.
const PAUSE_DOUBLINGS: u32 = 16;

/// Sets the state of a route from ping information of its gateway.
// [ROUTE-14] [ROUTE-15] [GATE-10] [GATE-11] [GATE-12]
fn apply_ping_to_route(state: &mut RouteState, said: &Said, globals: &Globals) {
    let net = state.route.net;
    state.single_hop = said.is_on(net);
    let far_side_counts =
        globals.avoid_asym_router_failure && (state.single_hop || state.route.hops == Some(1));
    let near = state.route.gateway.net();
    state.fault = if !said.routes() {
        Some(RouteFault::NotRouting)
    } else if !said.is_up_on(near) {
        Some(RouteFault::NiDown(near))
    } else if far_side_counts && !said.is_up_on(net) {
        Some(RouteFault::NiDown(net))
    } else {
        None
    };
}

impl Upkeep {
    /// Pings a gateway, because its ping is due.
    // [ROUTE-11]
    pub(in crate::upkeep) fn check_gateway(&mut self, nid: Nid, now: Time) {
        let Some(gateway) = self.traffic.fabric.routes.gateway_mut(nid) else {
            return;
        };
        gateway.next_check = None;
        gateway.last_check = now;
        let under_way = gateway.ping.is_some();
        self.traffic
            .fabric
            .plan_check(nid, now + self.globals().alive_router_check_interval);
        if !under_way {
            self.ping_gateway(nid, now);
            for other in self.other_nets_of(nid).into_values() {
                self.ping_over_net(other, now);
            }
        }
    }

    /// Returns the healthiest interface of a gateway on each other net of this node. Interfaces that are gateways
    /// themselves are left out.
    fn other_nets_of(&self, gateway: Nid) -> BTreeMap<Net, Nid> {
        let mut best: BTreeMap<Net, (Health, Nid)> = BTreeMap::new();
        let owner = self.traffic.fabric.peers.owner_of(gateway);
        let nids = owner.map(|peer| peer.nids.as_slice()).unwrap_or_default();
        for &nid in nids {
            let net = nid.net();
            let is_shared = net != gateway.net() && self.traffic.fabric.nis.net(net).is_some();
            if !is_shared || self.traffic.fabric.routes.gateway(nid).is_some() {
                continue;
            }
            let Some(health) = self
                .traffic
                .fabric
                .peers
                .by_nid(nid)
                .map(|peer_ni| peer_ni.health)
            else {
                continue;
            };
            let known = best.entry(net).or_insert((health, nid));
            if health > known.0 {
                *known = (health, nid);
            }
        }
        best.into_iter().map(|(net, (_, nid))| (net, nid)).collect()
    }

    // [ROUTE-11]
    pub(in crate::upkeep) fn ping_over_net(&mut self, nid: Nid, now: Time) {
        if let Some(md) = self.bind_ping(PING_BUFFER_MIN, Owner::NetCheck) {
            let timeout = self.globals().router_ping_timeout;
            self.send_ping(md, nid, timeout, now);
        }
    }

    fn ping_gateway(&mut self, nid: Nid, now: Time) {
        let length = self
            .traffic
            .fabric
            .ping_size(self.traffic.fabric.peers.primary_of(nid));
        let Some(md) = self.bind_ping(length, |buffer| Owner::Check(buffer, nid)) else {
            return;
        };
        if let Some(gateway) = self.traffic.fabric.routes.gateway_mut(nid) {
            gateway.ping = Some(md);
        }
        let timeout = self.globals().router_ping_timeout;
        self.send_ping(md, nid, timeout, now);
    }

    /// Handles an event of a ping of the checker.
    pub(in crate::upkeep) fn check_event(
        &mut self,
        buffer: CoreBuffer,
        gateway: Nid,
        event: &Event,
    ) {
        match (event.kind, event.status) {
            (EventKind::Reply, Ok(())) => {
                let length = event.mlength as usize;
                let bytes = self.traffic.buffers.data(buffer);
                let data = bytes.get(..length).unwrap_or(bytes).to_vec();
                match Said::read(&data) {
                    Some(said) => {
                        self.gateway_answered(gateway, &said);
                        self.discovery_by_check(gateway, &said, data);
                    }
                    None => self.gateway_failed(gateway),
                }
            }
            (EventKind::Unlink, _) | (EventKind::Send, Ok(())) => {}
            _ if self.may_retry_ping(gateway) => self.ping_now(gateway),
            _ => self.gateway_failed(gateway),
        }
    }

    /// Returns whether to retry the ping from another local interface: a local interface failed, and another one is in
    /// full health. Retries end, because each failure lowers the health of one more interface. A node with one
    /// interface does not retry: the `lustre` profile does not lower the health of a node's only interface.
    // [GATE-16]
    fn may_retry_ping(&mut self, nid: Nid) -> bool {
        let failed_here = self
            .traffic
            .fabric
            .routes
            .gateway_mut(nid)
            .is_some_and(|gateway| std::mem::take(&mut gateway.failed_here));
        failed_here
            && self.globals().health_sensitivity > 0
            && self.traffic.fabric.nis.real().len() > 1
            && self
                .traffic
                .fabric
                .nis
                .on_net(nid.net())
                .any(Ni::is_optimal)
    }

    fn ping_now(&mut self, nid: Nid) {
        if let Some(last) = self
            .traffic
            .fabric
            .routes
            .gateway(nid)
            .map(|gateway| gateway.last_check)
        {
            self.traffic.fabric.plan_check(nid, last);
        }
    }

    /// Handles the loss of a gateway's last connection. The answer to a ping that was already sent would have come
    /// over a closed connection, so the ping is ended.
    pub(in crate::upkeep) fn gateway_disconnected(&mut self, nid: Nid, now: Time) {
        self.traffic.fabric.check_soon(nid, now);
        let ping = self
            .traffic
            .fabric
            .routes
            .gateway(nid)
            .and_then(|gateway| gateway.ping);
        let has_left = |md: &MdHandle| {
            self.traffic
                .mds
                .get(*md)
                .is_some_and(|md| md.sends.is_empty())
        };
        if self.globals().profile == Profile::Design
            && let Some(md) = ping.filter(has_left)
        {
            self.traffic.unlink_md(md, Ok(()), now);
        }
    }

    fn gateway_answered(&mut self, gateway: Nid, said: &Said) {
        self.traffic
            .fabric
            .set_gateway_nis(gateway, true, |nid| nid == gateway);
        let since = self
            .traffic
            .fabric
            .routes
            .gateway(gateway)
            .map(|state| state.last_check);
        for &(nid, status) in &said.nis {
            let same = self.traffic.fabric.peers.primary_of(nid)
                == self.traffic.fabric.peers.primary_of(gateway);
            if same && let Some(since) = since {
                self.traffic
                    .fabric
                    .set_peer_ni_status(nid, status != NiStatus::DOWN, since);
            }
        }
        self.traffic.fabric.set_gateway_alive(gateway, true);
        if !self.apply_ping_to_routes(gateway, said) {
            self.ping_soon(gateway);
        } else if let Some(gateway) = self.traffic.fabric.routes.gateway_mut(gateway) {
            gateway.failures = 0;
        }
    }

    /// Handles a push of a peer: updates the routes through the peer at once, and pings a gateway that counts as dead.
    pub(in crate::upkeep) fn gateway_pushed(&mut self, peer: Nid, said: &Said, now: Time) {
        for gateway in self.traffic.fabric.gateways_of(peer) {
            let alive = self
                .traffic
                .fabric
                .routes
                .gateway(gateway)
                .is_some_and(|state| state.alive);
            if !alive {
                self.traffic.fabric.ask_now(gateway, now);
            } else if !self.apply_ping_to_routes(gateway, said) {
                self.ping_soon(gateway);
            }
        }
    }

    /// Updates the routes through a gateway from its ping information. Returns whether all of them are up.
    fn apply_ping_to_routes(&mut self, gateway: Nid, said: &Said) -> bool {
        let globals = *self.globals();
        let mut all_up = true;
        for state in self.traffic.fabric.routes.via_mut(gateway) {
            apply_ping_to_route(state, said, &globals);
            all_up &= state.is_up();
        }
        self.traffic.fabric.report_routes(gateway);
        all_up
    }

    // [ROUTE-12] [GATE-14]
    fn gateway_failed(&mut self, gateway: Nid) {
        for state in self.traffic.fabric.routes.via_mut(gateway) {
            state.fault = Some(RouteFault::Silent);
        }
        self.traffic
            .fabric
            .set_gateway_nis(gateway, false, |_| true);
        let was_alive = self
            .traffic
            .fabric
            .routes
            .gateway(gateway)
            .is_some_and(|known| known.alive);
        self.traffic.fabric.set_gateway_alive(gateway, false);
        self.traffic.fabric.report_routes(gateway);
        self.ping_soon(gateway);
        if was_alive && self.globals().profile == Profile::Design {
            self.ping_replacements(gateway);
        }
    }

    /// Pings the dead gateways to each net that has no live route since a gateway was lost, at once, but at least a
    /// second after their last pings. Otherwise the net would be cut off until the next check of a gateway that has
    /// returned meanwhile, which may be a minute. Kernels wait for that check.
    // [GATE-19]
    fn ping_replacements(&mut self, lost: Nid) {
        let nets: SmallVec<[Net; 4]> = self
            .traffic
            .fabric
            .routes
            .via(lost)
            .map(|via| via.route.net)
            .collect();
        for net in nets {
            let routes = self.traffic.fabric.routes.to(net);
            if routes
                .iter()
                .any(|state| self.traffic.fabric.routes.is_alive(state))
            {
                continue;
            }
            let others = routes.iter().map(|state| state.route.gateway);
            let others: SmallVec<[Nid; 4]> = others.filter(|&nid| nid != lost).collect();
            for nid in others {
                self.ping_replacement(nid);
            }
        }
    }

    fn ping_replacement(&mut self, nid: Nid) {
        let dead = self
            .traffic
            .fabric
            .routes
            .gateway(nid)
            .filter(|known| !known.alive);
        let Some((last, planned)) = dead.map(|known| (known.last_check, known.next_check)) else {
            return;
        };
        let at = last + FIRST_PAUSE;
        if planned.is_none_or(|planned| at < planned) {
            self.traffic.fabric.plan_check(nid, at);
        }
    }

    // [GATE-17]
    fn ping_soon(&mut self, nid: Nid) {
        let interval = self.globals().alive_router_check_interval;
        let Some(gateway) = self.traffic.fabric.routes.gateway_mut(nid) else {
            return;
        };
        let pause = FIRST_PAUSE.saturating_mul(1 << gateway.failures.min(PAUSE_DOUBLINGS));
        gateway.failures = gateway.failures.saturating_add(1);
        let at = gateway.last_check + pause.min(interval);
        self.traffic.fabric.plan_check(nid, at);
    }
}
