//! The router checker (section 8.2): pings every gateway, and learns which routes are usable.
//!
//! ```text
//!            ping answered, or a message came through it
//!   dead ──────────────────────────────────────────────▶ alive
//!        ◀──────────────────────────────────────────────
//!            ping failed, or unanswered for router_ping_timeout
//! ```
//!
//! A gateway whose ping failed, or which says that a route of ours is down, is asked again after 1, 2, 4 … seconds, at most the check interval. Kernel
//! nodes do the same by the recovery pings of their health code: a router that restarts is used again
//! within seconds, not at the next check a minute later.
//!
//! A gateway whose connections have gone, or through which messages do not come back, is asked at once (`design` profile):
//! one that hangs or has died is found out by a ping, not by the traffic that it swallows.
//!
//! A ping that fails at an interface of ours says nothing of the gateway: it is asked again from another
//! interface, while there is one in full health.
//!
//! A Multi-Rail gateway is pinged over each net that it shares with this node, since a router calls a net down that
//! nobody pings it over (section 8.3). The gateway's own NID decides whether the gateway is alive; a ping over
//! another net counts for the health of that interface only. Kernels take each net's ping for the gateway's.
//!
//! Each route has a flag that the gateway's last information decides: the answer to a ping, or a push. Kernels have
//! this flag (rule 2) and, for a Multi-Rail gateway, ask the same of the statuses that the same information set (rules
//! 3 to 5). With discovery the checker's ping is also that of a discovery, and is followed by a push. A ping is waited
//! for as long as `router_ping_timeout`, which is shorter than the interval: a gateway that went is known within both
//! together.

use std::collections::BTreeMap;
use std::time::Duration;

use lnet_policy::Profile;
use lnet_types::{Net, Nid, Time};
use lnet_wire::{NiStatus, PING_BUFFER_MIN};
use smallvec::SmallVec;

use crate::Core;
use crate::Health;
use crate::config::Globals;
use crate::event::{Event, EventKind};
use crate::gateways::obstacle::RouteFault;
use crate::gateways::route::RouteState;
use crate::io::{CoreBuffer, Output};
use crate::ni::Ni;
use crate::ping::said::Said;
use crate::portals::descriptor::Owner;
use crate::portals::md::MdHandle;
use crate::timer::Timer;

/// Pause after the first failed ping; each further failure doubles it (as recovery pings, section 9.2).
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Enough to pass every sensible check interval.
const PAUSE_DOUBLINGS: u32 = 16;

impl Core {
    /// Plans a gateway's next ping; none while the checker is off.
    pub(crate) fn plan_check(&mut self, nid: Nid, at: Time) {
        let on = !self.config.globals.alive_router_check_interval.is_zero();
        let Some(gateway) = self.routes.gateway_mut(nid) else {
            return;
        };
        if let Some(before) = gateway.next_check.take() {
            self.timers.disarm(before, Timer::Check(nid));
        }
        if on {
            gateway.next_check = Some(at);
            self.timers.arm(at, Timer::Check(nid));
        }
    }

    /// A gateway's ping is due.
    // [ROUTE-11]
    pub(crate) fn check_gateway(&mut self, nid: Nid, now: Time) {
        let Some(gateway) = self.routes.gateway_mut(nid) else {
            return;
        };
        gateway.next_check = None;
        gateway.last_check = now;
        let under_way = gateway.ping.is_some();
        self.plan_check(nid, now + self.config.globals.alive_router_check_interval);
        if !under_way {
            self.ping_gateway(nid, now);
            for other in self.other_nets_of(nid).into_values() {
                self.ping_over_net(other, now);
            }
        }
    }

    /// The healthiest interface of a gateway on each other net of this node, but for those that are gateways
    /// themselves.
    fn other_nets_of(&self, gateway: Nid) -> BTreeMap<Net, Nid> {
        let mut best: BTreeMap<Net, (Health, Nid)> = BTreeMap::new();
        let owner = self.peers.owner_of(gateway);
        let nids = owner.map(|peer| peer.nids.as_slice()).unwrap_or_default();
        for &nid in nids {
            let net = nid.net();
            let is_shared = net != gateway.net() && self.nis.net(net).is_some();
            if !is_shared || self.routes.gateway(nid).is_some() {
                continue;
            }
            let Some(health) = self.peers.by_nid(nid).map(|peer_ni| peer_ni.health) else {
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
    fn ping_over_net(&mut self, nid: Nid, now: Time) {
        if let Some(md) = self.bind_ping(PING_BUFFER_MIN, Owner::NetCheck) {
            let timeout = self.config.globals.router_ping_timeout;
            self.send_ping(md, nid, timeout, now);
        }
    }

    fn ping_gateway(&mut self, nid: Nid, now: Time) {
        let length = self.ping_size(self.peers.primary_of(nid));
        let Some(md) = self.bind_ping(length, |buffer| Owner::Check(buffer, nid)) else {
            return;
        };
        if let Some(gateway) = self.routes.gateway_mut(nid) {
            gateway.ping = Some(md);
        }
        let timeout = self.config.globals.router_ping_timeout;
        self.send_ping(md, nid, timeout, now);
    }

    /// Something happened to a ping of ours.
    pub(crate) fn check_event(&mut self, buffer: CoreBuffer, gateway: Nid, event: &Event) {
        match (event.kind, event.status) {
            (EventKind::Reply, Ok(())) => {
                let length = event.mlength as usize;
                let bytes = self.buffers.data(buffer);
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
            _ if self.has_another_way(gateway) => self.ping_at_once(gateway),
            _ => self.gateway_failed(gateway),
        }
    }

    /// A ping of ours has failed, and it was an interface of ours that failed it.
    pub(crate) fn check_failed_here(&mut self, md: MdHandle) {
        if let Some(Owner::Check(_, gateway)) = self.mds.get(md).map(|md| md.owner)
            && let Some(gateway) = self.routes.gateway_mut(gateway)
        {
            gateway.failed_here = true;
        }
    }

    /// The gateway may be fine: what failed was an interface of ours, which its health now shows, and
    /// there is another one in full health. Each failure leaves one less, but for a node's only interface, which the
    /// `lustre` profile spares.
    fn has_another_way(&mut self, nid: Nid) -> bool {
        let failed_here = self
            .routes
            .gateway_mut(nid)
            .is_some_and(|gateway| std::mem::take(&mut gateway.failed_here));
        failed_here
            && self.config.globals.health_sensitivity > 0
            && self.nis.real().len() > 1
            && self.nis.on_net(nid.net()).any(Ni::is_optimal)
    }

    fn ping_at_once(&mut self, nid: Nid) {
        if let Some(last) = self.routes.gateway(nid).map(|gateway| gateway.last_check) {
            self.plan_check(nid, last);
        }
    }

    /// Something speaks against a gateway that counts as alive: it is asked at once, but a second after it was
    /// asked before. Kernels wait for the next check.
    pub(crate) fn check_soon(&mut self, nid: Nid, now: Time) {
        let Some(gateway) = self.routes.gateway(nid) else {
            return;
        };
        let at = now.max(gateway.last_check + FIRST_PAUSE);
        let sooner = gateway.next_check.is_some_and(|planned| at < planned);
        if gateway.alive && sooner && self.config.globals.profile == Profile::Design {
            self.plan_check(nid, at);
        }
    }

    /// A gateway has no connection any more. The answer to a ping that has left would have come over one of those
    /// that went, so it is not waited for.
    pub(crate) fn gateway_disconnected(&mut self, nid: Nid, now: Time) {
        self.check_soon(nid, now);
        let ping = self.routes.gateway(nid).and_then(|gateway| gateway.ping);
        let has_left = |md: &MdHandle| self.mds.get(*md).is_some_and(|md| md.sends.is_empty());
        if self.config.globals.profile == Profile::Design
            && let Some(md) = ping.filter(has_left)
        {
            self.unlink_md(md, Ok(()), now);
        }
    }

    fn gateway_answered(&mut self, gateway: Nid, said: &Said) {
        self.set_gateway_nis(gateway, true, |nid| nid == gateway);
        let since = self.routes.gateway(gateway).map(|state| state.last_check);
        for &(nid, status) in &said.nis {
            let same = self.peers.primary_of(nid) == self.peers.primary_of(gateway);
            if same && let Some(since) = since {
                self.set_peer_ni_status(nid, status != NiStatus::DOWN, since);
            }
        }
        self.set_gateway_alive(gateway, true);
        if !self.apply_ping_to_routes(gateway, said) {
            self.ask_again_soon(gateway);
        } else if let Some(gateway) = self.routes.gateway_mut(gateway) {
            gateway.failures = 0;
        }
    }

    /// A peer has pushed what it has: routes through it follow at once, and one that counts as dead is asked.
    pub(crate) fn gateway_pushed(&mut self, peer: Nid, said: &Said, now: Time) {
        for gateway in self.gateways_of(peer) {
            let alive = self
                .routes
                .gateway(gateway)
                .is_some_and(|state| state.alive);
            if !alive {
                self.ask_now(gateway, now);
            } else if !self.apply_ping_to_routes(gateway, said) {
                self.ask_again_soon(gateway);
            }
        }
    }

    /// The gateways among the interfaces of a peer, as routes name them.
    pub(crate) fn gateways_of(&self, peer: Nid) -> SmallVec<[Nid; 2]> {
        let owner = self.peers.owner_of(peer).filter(|owner| owner.routes > 0);
        let nids = owner.map(|owner| owner.nids.iter()).into_iter().flatten();
        nids.copied()
            .filter(|&nid| self.routes.gateway(nid).is_some())
            .collect()
    }

    /// True when all routes through the gateway are up.
    fn apply_ping_to_routes(&mut self, gateway: Nid, said: &Said) -> bool {
        let globals = self.config.globals;
        let mut all_up = true;
        for state in self.routes.via_mut(gateway) {
            apply_ping_to_route(state, said, &globals);
            all_up &= state.is_up();
        }
        self.report_routes(gateway);
        all_up
    }

    // [ROUTE-12]
    fn gateway_failed(&mut self, gateway: Nid) {
        for state in self.routes.via_mut(gateway) {
            state.fault = Some(RouteFault::Silent);
        }
        self.set_gateway_nis(gateway, false, |_| true);
        self.set_gateway_alive(gateway, false);
        self.report_routes(gateway);
        self.ask_again_soon(gateway);
    }

    /// Sets what is known of the status of some of a gateway's interfaces; no health is lost by it.
    fn set_gateway_nis(&mut self, gateway: Nid, up: bool, of: impl Fn(Nid) -> bool) {
        let owner = self.peers.owner_of(gateway);
        let nids = owner.map(|peer| peer.nids.clone()).unwrap_or_default();
        for nid in nids.into_iter().filter(|&nid| of(nid)) {
            if let Some(peer_ni) = self.peers.by_nid_mut(nid) {
                peer_ni.status_up = up;
            }
        }
    }

    fn ask_again_soon(&mut self, nid: Nid) {
        let interval = self.config.globals.alive_router_check_interval;
        let Some(gateway) = self.routes.gateway_mut(nid) else {
            return;
        };
        let pause = FIRST_PAUSE.saturating_mul(1 << gateway.failures.min(PAUSE_DOUBLINGS));
        gateway.failures = gateway.failures.saturating_add(1);
        let at = gateway.last_check + pause.min(interval);
        self.plan_check(nid, at);
    }

    /// A message came through a gateway: it lives. What that says of routes to other nets than the
    /// source's, the next ping tells, which is sent at once, but a second after the one that a message caused before: the
    /// messages of a gateway that sends and cannot be reached do not set the pace.
    // [ROUTE-13]
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

    /// A gateway that counts as dead has pinged this node, as it does after a restart: it is asked at once.
    pub(crate) fn gateway_pinged(&mut self, sender: Nid, now: Time) {
        for gateway in self.dead_gateways_of(sender) {
            self.ask_now(gateway, now);
        }
    }

    fn dead_gateways_of(&self, peer: Nid) -> SmallVec<[Nid; 2]> {
        let mut gateways = self.gateways_of(peer);
        gateways.retain(|nid| self.routes.gateway(*nid).is_some_and(|state| !state.alive));
        gateways
    }

    /// Asks a gateway of which there is a sign of life: now, but a second after the sign before. The checks that are due by
    /// the clock do not count: one that failed a moment ago says nothing of a gateway that has come back since.
    fn ask_now(&mut self, nid: Nid, now: Time) {
        let Some(gateway) = self.routes.gateway_mut(nid) else {
            return;
        };
        let at = match gateway.last_sign {
            // That sign's ping is planned.
            Some(sign) if sign > now => return,
            Some(sign) => now.max(sign + FIRST_PAUSE),
            None => now,
        };
        gateway.last_sign = Some(at);
        if gateway.next_check.is_none_or(|planned| at < planned) {
            self.plan_check(nid, at);
        }
    }

    fn set_gateway_alive(&mut self, nid: Nid, alive: bool) {
        let Some(gateway) = self.routes.gateway_mut(nid) else {
            return;
        };
        if gateway.alive != alive {
            gateway.alive = alive;
            self.outputs.push_back(Output::Gateway { nid, alive });
        }
    }
}

/// What ping information of the gateway says of a route.
// [ROUTE-14] [ROUTE-15]
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
