//! Findings about routes and their gateways.

use lnet_core::{GatewaySelection, RouteSelection};
use lnet_types::Nid;

use super::{Context, finding, listed};
use crate::finding::{Code, Finding, Severity};
use crate::watch::health_of;

/// Returns the routes to the nets of the destination.
fn routes<'a>(context: &Context<'a>) -> Vec<&'a RouteSelection> {
    let peer = context.peer();
    let asked = |route: &&RouteSelection| {
        let net = route.route.net;
        let of_peer = peer.is_some_and(|peer| peer.nids.iter().any(|nid| nid.net() == net));
        net == context.question.to.net() || of_peer
    };
    context.state().routes.iter().filter(asked).collect()
}

fn gateway<'a>(context: &Context<'a>, route: &RouteSelection) -> Option<&'a GatewaySelection> {
    let mut gateways = context.state().gateways.iter();
    gateways.find(|gateway| gateway.nid == route.route.gateway)
}

/// Reports each route that is down, with the test that fails and the time of the next ping of its gateway.
pub(super) fn route_down(context: &Context<'_>) -> Vec<Finding> {
    let down = routes(context).into_iter().filter_map(|route| {
        let gateway = gateway(context, route)?;
        let why = failing_test(context, route, gateway)?;
        Some((route, gateway, why))
    });
    let told = down.map(|(route, gateway, why)| {
        let by = route.route.gateway;
        let text = format!(
            "the route to {} by {by} is down: {why}. {}",
            route.route.net,
            next_check(context, gateway)
        );
        let advice = format!(
            "`lnetctl ping {by}` from this node; a message through it restores the route at once"
        );
        finding(Code::RouteDown, Severity::Warning, by, text, advice)
    });
    told.collect()
}

/// Returns the first of the five tests of a route that fails, as far as the state can distinguish the tests
/// (lnet-selection, section 2.6.1).
fn failing_test(
    context: &Context<'_>,
    route: &RouteSelection,
    gateway: &GatewaySelection,
) -> Option<String> {
    let by = route.route.gateway;
    if !gateway.alive {
        return Some(format!("test 1, gateway {by} does not answer pings"));
    }
    if route.up {
        return None;
    }
    let state = context.state();
    let owner = state.peers.iter().find(|peer| peer.nids.contains(&by));
    let on = |net| {
        let nids = owner.into_iter().flat_map(|peer| &peer.nids);
        let nids: Vec<_> = nids.filter(|nid| nid.net() == net).collect();
        let up = |nid: &&lnet_types::Nid| state.peer_nis.iter().any(|ni| ni.nid == **nid && ni.up);
        (!nids.is_empty()).then(|| nids.iter().any(up))
    };
    if on(by.net()) == Some(false) {
        return Some(format!(
            "test 3, no interface of the gateway on {} is up",
            by.net()
        ));
    }
    let single = route.single_hop || route.route.hops == Some(1);
    if state.config.globals.avoid_asym_router_failure && single {
        let net = route.route.net;
        return Some(format!(
            "test 4, the gateway's side on {net} is not up (avoid_asym_router_failure is on), or test 5, \
             it does not route"
        ));
    }
    Some(
        "test 2, its last ping reported the route as down, or test 5, the gateway does not route"
            .to_owned(),
    )
}

fn next_check(context: &Context<'_>, gateway: &GatewaySelection) -> String {
    let interval = context.state().config.globals.alive_router_check_interval;
    match gateway.next_check {
        Some(at) => format!(
            "The next ping of the gateway is in {} s",
            (at - context.node.now).as_secs()
        ),
        None if interval.is_zero() => {
            "The router checker is off: there is no further ping".to_owned()
        }
        None => format!(
            "The next ping of the gateway is within {} s (alive_router_check_interval)",
            interval.as_secs()
        ),
    }
}

/// Reports each gateway that is not in full health. Its health only decides between gateways; it takes no route
/// down.
pub(super) fn gateway_health(context: &Context<'_>) -> Vec<Finding> {
    let routes = routes(context);
    let ailing = routes.iter().filter_map(|route| {
        let by = route.route.gateway;
        let health = health_of(context.state(), by).filter(|health| !health.is_full())?;
        let alive = gateway(context, route).is_some_and(|gateway| gateway.alive) && route.up;
        alive.then_some((by, health))
    });
    let globals = &context.state().config.globals;
    let told = ailing.map(|(by, health)| {
        let equals = routes.iter().filter(|route| route.route.gateway != by);
        let others = listed(equals.map(|route| route.route.gateway));
        let others = if others.is_empty() { "there is none".to_owned() } else { others };
        let text = format!(
            "gateway {by} has health {}, but its route is up: health only decides among gateways \
             of equal preference, priority and hops ({others}). One failure lowers the health of a gateway by {}, \
             any message received through it restores it fully",
            health.value(),
            globals.gateway_sensitivity
        );
        let advice = better_gateways(&routes, by);
        finding(Code::GatewayHealth, Severity::Note, by, text, advice)
    });
    told.collect()
}

/// Returns advice about a gateway that is not in full health. Health decides only between routes of equal priority
/// and hops, so a better priority or hop count keeps traffic on a failing gateway.
fn better_gateways(routes: &[&RouteSelection], by: Nid) -> String {
    let rank = |one: &RouteSelection| (one.route.priority, one.route.hops.unwrap_or(1));
    let own = routes
        .iter()
        .find(|one| one.route.gateway == by)
        .map(|one| rank(one));
    let others = routes.iter().filter(|one| one.route.gateway != by);
    let others: Vec<_> = others.collect();
    if others.is_empty() {
        return "check the gateway; it is the only one, so add a second one".to_owned();
    }
    if own.is_some_and(|own| others.iter().all(|one| rank(one) > own)) {
        return format!(
            "give the gateways the same priority and hops: while {by} comes first, its health moves no traffic to {}",
            listed(others.iter().map(|one| one.route.gateway))
        );
    }
    "check the gateway; traffic moves automatically to gateways of equal priority and hops"
        .to_owned()
}
