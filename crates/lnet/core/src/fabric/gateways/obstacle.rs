//! The reason why no message can go to a NID: the gateways of the routes to its net, and the fault of each.

use std::fmt;

use lnet_types::{Net, Nid};
use thiserror::Error;

use crate::fabric::Fabric;
use crate::fabric::gateways::route::RouteState;
use crate::fabric::ni::Ni;

/// The limit of gateways that a [`NoPath`] names.
const GATEWAYS_NAMED: usize = 4;

/// The reason why a route is not used, as far as its gateway has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RouteFault {
    /// Gateways are pinged before they are used, and this gateway has not answered yet.
    #[error("has not answered yet")]
    NotAnswered,
    /// The last ping failed or was not answered in time, or the gateway has lost its last connection.
    #[error("does not answer")]
    Silent,
    /// The gateway says that it forwards no messages.
    #[error("does not forward messages")]
    NotRouting,
    /// The gateway says that it has no interface on the net, or that its interfaces there are down.
    #[error("has no interface that is up on {0}")]
    NiDown(Net),
}

/// The reason why there is no path to a NID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPath {
    /// The net of the NID.
    pub net: Net,
    /// The gateways of the routes to the net, with the fault of each; at most four.
    pub gateways: Vec<(Nid, RouteFault)>,
    /// The number of further gateways, which are all down.
    pub more: usize,
    /// The NID, if this node has interfaces on its net but none with an address of the NID's size: no connection joins
    /// a 4-byte address and a 16-byte address.
    pub other_size: Option<Nid>,
}

impl fmt::Display for NoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let net = self.net;
        if let Some(nid) = self.other_size {
            let [its, ours] = if nid.is_large() { [16, 4] } else { [4, 16] };
            return write!(
                f,
                "{nid} has a {its}-byte address, and the interfaces here on {net} have {ours}-byte addresses only"
            );
        }
        if self.gateways.is_empty() {
            return write!(
                f,
                "this node has no interface on {net} and no route to {net}"
            );
        }
        write!(f, "no live route to {net}: ")?;
        for (at, (gateway, fault)) in self.gateways.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}gateway {gateway} {fault}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        }
    }
}

impl Fabric {
    /// Returns the reason why no message can go to a NID; `None` if an interface or a live route leads to its net.
    pub(crate) fn no_path_to(&self, nid: Nid) -> Option<NoPath> {
        let net = nid.net();
        let is_other = |ni: &Ni| ni.nid.is_large() != nid.is_large();
        if self.nis.has_net(net) && self.nis.on_net(net).all(is_other) {
            return Some(NoPath {
                net,
                gateways: Vec::new(),
                more: 0,
                other_size: Some(nid),
            });
        }
        self.no_route_to(nid, |state| self.fault_of(state))
    }

    /// Returns the probable reason why a message to a NID got no answer in time: the faults of the routes to the NID,
    /// or gateways that have not answered the ping in flight. `None` if an interface, or a live route without such a
    /// ping, leads to the net of the NID.
    pub(crate) fn no_answer_from(&self, nid: Nid) -> Option<NoPath> {
        let is_asked = |state: &RouteState| {
            let gateway = self.routes.gateway(state.route.gateway);
            gateway.is_some_and(|gateway| gateway.ping.is_some())
        };
        let asked = |state: &RouteState| is_asked(state).then_some(RouteFault::NotAnswered);
        let fault = |state: &RouteState| self.fault_of(state).or_else(|| asked(state));
        self.no_path_to(nid)
            .or_else(|| self.no_route_to(nid, fault))
    }

    fn fault_of(&self, state: &RouteState) -> Option<RouteFault> {
        let fault = state.fault.unwrap_or(RouteFault::Silent);
        (!self.routes.is_alive(state)).then_some(fault)
    }

    /// Names the gateways that lead to a NID, if each route has a fault.
    fn no_route_to(
        &self,
        nid: Nid,
        fault: impl Fn(&RouteState) -> Option<RouteFault>,
    ) -> Option<NoPath> {
        let net = nid.net();
        if nid.is_loopback() || self.nis.has_net(net) {
            return None;
        }
        let faults = self.routes.to(net).iter().map(|state| {
            let fault = fault(state)?;
            Some((state.route.gateway, fault))
        });
        let mut gateways = faults.collect::<Option<Vec<_>>>()?;
        let more = gateways.len().saturating_sub(GATEWAYS_NAMED);
        gateways.truncate(GATEWAYS_NAMED);
        Some(NoPath {
            net,
            gateways,
            more,
            other_size: None,
        })
    }
}
