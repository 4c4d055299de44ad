//! Checks routes against the local networks, by the rules of `route add`: [GATE-20].

use std::collections::BTreeSet;

use lnet_types::{LndType, Net, Nid};

use crate::document::{Document, RouteShow};
use crate::error::{Fault, Problem};
use crate::read::{PlacedRoute, Sections};

/// Checks each route by itself and against the others. If the document has local networks, checks
/// routes against those, too.
pub(crate) fn check(sections: &Sections) -> Result<(), Fault> {
    faults(sections).next().map_or(Ok(()), Err)
}

/// The faults that [`check`] finds, at most one for each route.
pub(crate) fn faults(sections: &Sections) -> impl Iterator<Item = Fault> {
    let local = Local::new(&sections.document);
    let mut seen = BTreeSet::new();
    let routes = sections.routes.iter();
    routes.filter_map(move |placed| {
        let PlacedRoute {
            route,
            net_place,
            gateway_place,
        } = placed;
        let (net, gateway) = (route.net, route.gateway);
        let is_new = seen.insert((net, gateway));
        if let Err(problem) = check_net(route, &local) {
            return Some(Fault::new(*net_place, problem));
        }
        let problem = match check_gateway(route, &local) {
            Err(problem) => problem,
            Ok(()) if is_new => return None,
            Ok(()) => Problem::RouteTwice { net, gateway },
        };
        Some(Fault::new(*gateway_place, problem))
    })
}

/// This node, as far as the document describes it.
struct Local {
    nets: BTreeSet<Net>,
    /// Networks that only some machines have.
    by_address: BTreeSet<Net>,
    nids: BTreeSet<Nid>,
}

impl Local {
    fn new(document: &Document) -> Self {
        // Loopback leads to no other node.
        let nets = document.nets.iter().filter(|net| net.net != Net::LO);
        Self {
            nets: nets.clone().map(|net| net.net).collect(),
            by_address: document.ip2nets.iter().map(|rule| rule.net).collect(),
            nids: nets
                .flat_map(|net| &net.nis)
                .filter_map(|ni| ni.config.nid)
                .collect(),
        }
    }
}

impl Local {
    /// Returns true if a network is or may be local: on some machines, or because the document does
    /// not name the local networks.
    fn may_have(&self, net: Net) -> bool {
        let is_partial = self.nets.is_empty() && self.by_address.is_empty();
        is_partial || self.nets.contains(&net) || self.by_address.contains(&net)
    }
}

fn check_net(route: &RouteShow, local: &Local) -> Result<(), Problem> {
    let net = route.net;
    if net.lnd == LndType::ANY || net.lnd == LndType::LO {
        return Err(Problem::NotRoutable(net));
    }
    if local.nets.contains(&net) {
        return Err(Problem::RouteToLocal(net));
    }
    Ok(())
}

fn check_gateway(route: &RouteShow, local: &Local) -> Result<(), Problem> {
    let RouteShow { net, gateway, .. } = *route;
    if gateway.net() == net {
        return Err(Problem::GatewayOnRemote { gateway, net });
    }
    if gateway.net().lnd == LndType::LO || local.nids.contains(&gateway) {
        return Err(Problem::GatewayIsSelf(gateway));
    }
    if !local.may_have(gateway.net()) {
        return Err(Problem::GatewayNotLocal(gateway));
    }
    Ok(())
}
