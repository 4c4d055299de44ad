//! Why no message can go to a NID: which gateways the routes to its net have, and what is wrong with each.

use std::fmt;

use lnet_types::{Net, Nid};
use thiserror::Error;

use crate::Core;
use crate::gateways::route::RouteState;
use crate::ni::Ni;

/// The most gateways that a [`NoPath`] names.
const GATEWAYS_NAMED: usize = 4;

/// Why a route is not used, as far as its gateway has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RouteFault {
    /// Gateways are asked before they are used, and this one has not answered yet.
    #[error("has not answered yet")]
    NotAnswered,
    /// The last ping failed or was not answered in time, or the gateway has no connection any more.
    #[error("does not answer")]
    Silent,
    /// It says that it forwards no messages.
    #[error("does not forward messages")]
    NotRouting,
    /// It says that it has no interface on the net, or that those it has are down.
    #[error("has no interface that is up on {0}")]
    NiDown(Net),
}

/// Why there is no path to a NID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPath {
    /// The net of the NID.
    pub net: Net,
    /// The gateways of the routes to the net, with what is wrong with each; at most four.
    pub gateways: Vec<(Nid, RouteFault)>,
    /// How many more gateways there are, all of them down.
    pub more: usize,
    /// A NID on a net on which this node has interfaces, none of them with an address of its size: no connection joins
    /// an address of 4 bytes and one of 16.
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

impl Core {
    /// What stands between this node and a NID; `None` if an interface or a live route leads to its net.
    #[must_use]
    pub fn no_path_to(&self, nid: Nid) -> Option<NoPath> {
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

    /// Why a message to a NID may have come to nothing, once its time is over: what stands between this node and the NID, or
    /// that gateways have not answered the ping under way. `None` if an interface, or a live route without such a ping,
    /// leads to its net.
    #[must_use]
    pub fn no_answer_from(&self, nid: Nid) -> Option<NoPath> {
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
