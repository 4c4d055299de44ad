//! Static routes and the state of their gateways.
//!
//! A route is usable if its gateway is alive and the gateway's last ping information did not report a fault of the
//! route. Both change with pings and with messages that come through the gateway. Neither ever removes a route.

use std::collections::BTreeMap;

use lnet_types::{Net, Nid, Time};

use crate::fabric::gateways::obstacle::RouteFault;
use crate::ground::config::{ConfigError, Route};
use crate::ground::md::MdHandle;

/// Counts of the messages that took a route. Responses are not included: they go back by the path of the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteStats {
    /// Messages that were sent to the gateway without error, including forwarded ones.
    pub sent: u64,
    /// Their payload, in bytes.
    pub sent_length: u64,
    /// Attempts that failed, and messages that failed while they waited. A message that is resent through another
    /// gateway counts here, too.
    pub dropped: u64,
}

/// A route and its state.
#[derive(Debug)]
pub(crate) struct RouteState {
    pub(crate) route: Route,
    /// The fault of the route that the gateway's last ping information shows.
    pub(crate) fault: Option<RouteFault>,
    /// True if the gateway has an interface on the remote net.
    pub(crate) single_hop: bool,
    /// Round-robin stamp.
    pub(crate) seq: u64,
    pub(crate) stats: RouteStats,
}

impl RouteState {
    /// Returns whether the route itself has no known fault.
    pub(crate) fn is_up(&self) -> bool {
        self.fault.is_none()
    }
}

/// A gateway and the state of its pings.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) alive: bool,
    /// The descriptor of the ping that is under way.
    pub(crate) ping: Option<MdHandle>,
    /// When the next ping is due; `None` while the checker does not run.
    pub(crate) next_check: Option<Time>,
    /// When the last ping was due.
    pub(crate) last_check: Time,
    /// The time of the last ping that a sign of life caused; may be in the future.
    pub(in crate::fabric) last_sign: Option<Time>,
    /// True if the last ping failed at a local interface.
    pub(crate) failed_here: bool,
    /// Number of consecutive pings after which a route was down.
    pub(crate) failures: u32,
    /// The number of routes that were down at the last report.
    pub(in crate::fabric) reported_down: u32,
}

/// The route table.
// [GATE-22]
#[derive(Debug, Default)]
pub(crate) struct Routes {
    by_net: BTreeMap<Net, Vec<RouteState>>,
    gateways: BTreeMap<Nid, Gateway>,
}

impl Routes {
    /// Adds a route, and its gateway if the gateway is new.
    pub(crate) fn add(&mut self, route: Route, alive: bool) -> Result<(), ConfigError> {
        let Route { net, gateway, .. } = route;
        let list = self.by_net.entry(net).or_default();
        if list.iter().any(|state| state.route.gateway == gateway) {
            return Err(ConfigError::DuplicateRoute { net, gateway });
        }
        list.push(RouteState {
            route,
            fault: (!alive).then_some(RouteFault::NotAnswered),
            single_hop: false,
            seq: 0,
            stats: RouteStats::default(),
        });
        self.gateways.entry(gateway).or_insert(Gateway {
            alive,
            ping: None,
            next_check: None,
            last_check: Time::ZERO,
            last_sign: None,
            failed_here: false,
            failures: 0,
            reported_down: 0,
        });
        Ok(())
    }

    /// Removes a route. Returns its gateway if the route was the last one through it.
    pub(crate) fn remove(
        &mut self,
        net: Net,
        gateway: Nid,
    ) -> Result<Option<Gateway>, ConfigError> {
        let unknown = ConfigError::UnknownRoute { net, gateway };
        let list = self.by_net.get_mut(&net).ok_or(unknown)?;
        let at = list
            .iter()
            .position(|state| state.route.gateway == gateway)
            .ok_or(unknown)?;
        list.remove(at);
        if list.is_empty() {
            self.by_net.remove(&net);
        }
        if self.via(gateway).next().is_some() {
            return Ok(None);
        }
        Ok(self.gateways.remove(&gateway))
    }

    /// Returns the routes to a net.
    pub(crate) fn to(&self, net: Net) -> &[RouteState] {
        self.by_net.get(&net).map_or(&[], Vec::as_slice)
    }

    /// Returns all routes, ordered by net.
    pub(crate) fn all(&self) -> impl Iterator<Item = &RouteState> {
        self.by_net.values().flatten()
    }

    pub(crate) fn via(&self, gateway: Nid) -> impl Iterator<Item = &RouteState> {
        self.all()
            .filter(move |state| state.route.gateway == gateway)
    }

    pub(crate) fn via_mut(&mut self, gateway: Nid) -> impl Iterator<Item = &mut RouteState> {
        self.by_net
            .values_mut()
            .flatten()
            .filter(move |state| state.route.gateway == gateway)
    }

    pub(crate) fn gateway(&self, nid: Nid) -> Option<&Gateway> {
        self.gateways.get(&nid)
    }

    pub(crate) fn gateway_mut(&mut self, nid: Nid) -> Option<&mut Gateway> {
        self.gateways.get_mut(&nid)
    }

    pub(crate) fn gateways(&self) -> impl Iterator<Item = Nid> {
        self.gateways.keys().copied()
    }

    /// Returns whether messages may take this route now.
    // [ROUTE-12] [ROUTE-14] [GATE-7] [GATE-10]
    pub(crate) fn is_alive(&self, state: &RouteState) -> bool {
        state.is_up()
            && self
                .gateway(state.route.gateway)
                .is_some_and(|gateway| gateway.alive)
    }

    /// Returns the counters of a route; `None` if the route has been removed.
    pub(crate) fn stats_mut(&mut self, net: Net, gateway: Nid) -> Option<&mut RouteStats> {
        let list = self.by_net.get_mut(&net)?;
        let state = list
            .iter_mut()
            .find(|state| state.route.gateway == gateway)?;
        Some(&mut state.stats)
    }

    /// Stamps a route as the most recently used one to its net.
    pub(in crate::fabric) fn stamp(&mut self, net: Net, gateway: Nid) {
        let Some(list) = self.by_net.get_mut(&net) else {
            return;
        };
        let next = list.iter().map(|state| state.seq).max().unwrap_or(0) + 1;
        if let Some(state) = list.iter_mut().find(|state| state.route.gateway == gateway) {
            state.seq = next;
        }
    }
}
