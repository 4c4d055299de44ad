//! Lints of the routes of one node.

use std::collections::BTreeMap;

use lnet_config::modprobe::Skipped;
use lnet_config::{Status, Step};
use lnet_types::{Net, Nid};

use super::site::NAMED_MAX;
use crate::lint::catalogue::{
    DISCOVERY_OFF, GATEWAY_HEALTH, GATEWAY_NOT_LOCAL, HOP_UNDEFINED, ROUTE_DOWN, ROUTE_PASSED_OVER,
    Severity,
};
use crate::lint::finding::Finding;
use crate::lint::node::{Node, Route, listed};

/// The value of full health.
// [HEALTH-1]
pub(super) const HEALTH_MAX: u64 = 1000;

fn at(route: &Route<'_>, key: &'static str) -> Vec<Step<'static>> {
    [route.path.as_slice(), &[Step::Key(key)]].concat()
}

/// Reports routes without a hop count: LNet then does not know whether the gateway must be on the remote net
/// itself.
pub(super) fn hop_undefined(node: &Node<'_>) -> Vec<Finding> {
    let undefined = node.routes.iter().filter(|route| route.show.hop.is_none());
    let mut undefined = undefined.filter(|route| !node.is_rejected(&at(route, "hop")));
    let Some(first) = undefined.next() else {
        return Vec::new();
    };
    let more = undefined.count();
    let more = match more {
        0 => String::new(),
        _ => format!(" and {more} more have none"),
    };
    let reason = format!(
        "the route to {} by {} has no hops{more}: avoid_asym_router_failure, on by default, cannot tell whether the \
         gateway's far side must be up",
        first.show.net, first.show.gateway
    );
    let fix = "hop: 1 for a gateway that is on the remote network itself, else the number of gateways on the way";
    vec![node.finding(&HOP_UNDEFINED, &at(first, "hop"), reason, fix.to_owned())]
}

/// Reports gateways that are on no local net. LNet must reach a gateway directly.
pub(super) fn gateway_not_local(node: &Node<'_>) -> Vec<Finding> {
    if node.is_partial() {
        return Vec::new();
    }
    let local = listed(node.nets());
    let routes = node.routes.iter();
    let wrong = routes.filter(|route| !node.has_net(route.show.gateway.net()));
    // A gateway on the remote net itself is rejected by the reader, and the reader's finding names the same
    // mistake.
    let wrong = wrong.filter(|route| !node.is_rejected(&at(route, "gateway")));
    let told = wrong.map(|route| {
        let gateway = route.show.gateway;
        let reason = format!(
            "gateway {gateway} of the route to {} is on {}, and the local networks are {local}",
            route.show.net,
            gateway.net()
        );
        let fix = format!(
            "name the gateway by its NID on one of them, or add {} under net",
            gateway.net()
        );
        node.finding(&GATEWAY_NOT_LOCAL, &at(route, "gateway"), reason, fix)
    });
    told.collect()
}

/// Reports routes in module options that the module does not use: it passes over most of them without a message, and does
/// not start with the others. An import of YAML stops at all of them, which another lint reports.
pub(super) fn route_passed_over(node: &Node<'_>) -> Vec<Finding> {
    let path = [Step::Key("route")];
    let skipped = node.source.skipped.iter().map(|(route, skipped)| {
        let Skipped { why, stops_module } = skipped;
        let route = format!("the route to {} by {}", route.net, route.gateway);
        let fix = ROUTE_PASSED_OVER.helps.to_owned();
        if *stops_module {
            let reason = format!("the module does not start with {route}: {why}");
            let made = node.finding(&ROUTE_PASSED_OVER, &path, reason, fix);
            return made.with_severity(Severity::Error);
        }
        let reason = format!(
            "the module passes over {route} without a message: {why}; an import of it as YAML stops there"
        );
        node.finding(&ROUTE_PASSED_OVER, &path, reason, fix)
    });
    skipped.collect()
}

/// Reports routes that the document shows as down.
pub(super) fn route_down(node: &Node<'_>) -> Vec<Finding> {
    let routes = node.routes.iter();
    let down = routes.filter(|route| route.show.state == Some(Status::Down));
    let told = down.map(|route| {
        let gateway = route.show.gateway;
        let reason = format!(
            "the route to {} by {gateway} was down: its gateway did not answer, has no interface up there, or does \
             not route",
            route.show.net
        );
        let fix = format!("lnetctl ping {gateway}; a message through it restores the route at once");
        node.finding(&ROUTE_DOWN, &at(route, "state"), reason, fix)
    });
    told.collect()
}

/// Reports each gateway that is not in full health. Its health only decides between gateways; it takes no route
/// down.
pub(super) fn gateway_health(node: &Node<'_>) -> Vec<Finding> {
    let by_gateway = node.routes.iter().map(|route| (route.show.gateway, route));
    let by_gateway: BTreeMap<Nid, &Route<'_>> = by_gateway.rev().collect();
    let ranked = ranked(node);
    let mut found = Vec::new();
    for (peer_at, peer) in node.peers() {
        for (item, ni) in peer.nis.iter().enumerate() {
            let health = ni.health.map_or(HEALTH_MAX, |health| health.health_value);
            let Some(route) = by_gateway.get(&ni.nid) else {
                continue;
            };
            if health >= HEALTH_MAX || route.show.state == Some(Status::Down) {
                continue;
            }
            let reason = format!(
                "gateway {} has health {health}, but its route to {} is up: health only decides among gateways of \
                 equal priority and hops",
                ni.nid, route.show.net
            );
            let same_net = ranked.get(&route.show.net).map_or(&[][..], Vec::as_slice);
            let fix = better_gateways(route, same_net.iter());
            let path = [
                Step::Key("peer"),
                Step::Item(peer_at),
                Step::Key("peer ni"),
                Step::Item(item),
            ];
            found.push(node.finding(&GATEWAY_HEALTH, &path, reason, fix));
        }
    }
    found
}

/// The order of gateways before health counts: priority, then hops. Lower is better.
type Rank = (u32, u8);

fn rank(route: &Route<'_>) -> Rank {
    (
        route.show.priority.unwrap_or(0),
        route.show.hop.unwrap_or(1),
    )
}

/// Returns the gateways to each net, each once, best first.
fn ranked(node: &Node<'_>) -> BTreeMap<Net, Vec<(Rank, Nid)>> {
    let mut best: BTreeMap<(Net, Nid), Rank> = BTreeMap::new();
    for route in &node.routes {
        let way = (route.show.net, route.show.gateway);
        let known = best.entry(way).or_insert_with(|| rank(route));
        *known = rank(route).min(*known);
    }
    let mut ranked: BTreeMap<Net, Vec<(Rank, Nid)>> = BTreeMap::new();
    for ((net, gateway), rank) in best {
        ranked.entry(net).or_default().push((rank, gateway));
    }
    ranked
        .values_mut()
        .for_each(|gateways| gateways.sort_unstable());
    ranked
}

/// Returns advice about a gateway that is not in full health. Health decides only between routes of equal priority
/// and hops, so a better priority or hop count keeps traffic on a failing gateway. Looks at no more gateways than
/// the advice names, because all gateways of a large node may be ill at once.
fn better_gateways<'g>(
    route: &Route<'_>,
    same_net: impl ExactSizeIterator<Item = &'g (Rank, Nid)>,
) -> String {
    let net = route.show.net;
    let more = same_net.len().saturating_sub(1 + NAMED_MAX);
    let others = same_net.filter(|(_, gateway)| *gateway != route.show.gateway);
    let others: Vec<&(Rank, Nid)> = others.take(NAMED_MAX).collect();
    let Some((best, _)) = others.first() else {
        return format!("check the gateway; it is the only one to {net}, so add a second one");
    };
    if *best > rank(route) {
        let named = listed(others.iter().map(|(_, gateway)| gateway));
        let more = match more {
            0 => String::new(),
            _ => format!(" and {more} more"),
        };
        return format!(
            "give the gateways to {net} the same priority and hops: while this one comes first, its health moves no \
             traffic to {named}{more}"
        );
    }
    "check the gateway; traffic moves automatically to gateways of equal priority and hops"
        .to_owned()
}

/// Reports that discovery is off although there are routes: the node then knows only the one NID of a gateway that
/// the route names.
pub(super) fn discovery_off(node: &Node<'_>) -> Vec<Finding> {
    let globals = &node.document().globals;
    // A node with drop_asym_route needs a fixed path for each message. Discovery would undo this, so it is off on
    // purpose.
    let is_meant = globals.drop_asym_route == Some(true);
    if globals.discovery != Some(false) || node.routes.is_empty() || is_meant {
        return Vec::new();
    }
    let reason = format!(
        "discovery is off and there are {} routes: the gateways' other interfaces stay unknown, and the state of \
         their far sides is only what their pings say",
        node.routes.len()
    );
    let fix = "lnetctl set discovery 1";
    let path = node.parameter("discovery");
    vec![node.finding(&DISCOVERY_OFF, &path, reason, fix.to_owned())]
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use lnet_config::RouteShow;

    use super::*;

    #[test]
    fn advice_about_one_gateway_looks_at_few_of_many_others() {
        const COUNT: u32 = 100_000;
        let nid = |number| Nid::from_number(Net::tcp(0), number);
        for (own, priority) in [(1, 0), (COUNT, 1), (COUNT / 2, 1)] {
            let gateways = (1..=COUNT).map(|n| ((u32::from(n != 1), 1), nid(n)));
            let gateways: Vec<(Rank, Nid)> = gateways.collect();
            let show = RouteShow {
                net: Net::tcp(1),
                gateway: nid(own),
                hop: Some(1),
                priority: Some(priority),
                health_sensitivity: None,
                state: None,
                kind: None,
            };
            let route = Route {
                show: &show,
                path: Vec::new(),
            };
            let looks = Cell::new(0);
            let seen = gateways.iter().inspect(|_| looks.set(looks.get() + 1));
            let advice = better_gateways(&route, seen);
            assert!(
                looks.get() <= NAMED_MAX + 1,
                "{} looks: {advice}",
                looks.get()
            );
            assert_eq!(advice.contains("99996 more"), own == 1, "{advice}");
        }
    }
}
