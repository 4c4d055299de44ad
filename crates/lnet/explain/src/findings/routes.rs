//! Findings about routes and their gateways.

use lnet_core::{GatewaySelection, RouteFault, RouteSelection};
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
        let fault = fault(context, route, gateway)?;
        Some((route, gateway, fault))
    });
    let told = down.map(|(route, gateway, fault)| {
        let by = route.route.gateway;
        let text = format!(
            "the route to {} by {by} is down: {}. {}",
            route.route.net,
            failing_test(by, gateway.alive, fault),
            next_check(context, gateway)
        );
        let advice = remedy(by, gateway.alive, fault);
        finding(Code::RouteDown, Severity::Warning, by, text, advice)
    });
    told.collect()
}

/// Returns the reason why a route is down; `None` if the route is up.
fn fault(
    context: &Context<'_>,
    route: &RouteSelection,
    gateway: &GatewaySelection,
) -> Option<RouteFault> {
    let is_down = !gateway.alive || !route.up;
    let fault = || route.fault.unwrap_or_else(|| likely_fault(context, route));
    is_down.then(fault)
}

/// Returns the test of a route that fails, with its number in `docs/selection/routes.md`.
// [GATE-10] [GATE-11]
fn failing_test(by: Nid, alive: bool, fault: RouteFault) -> String {
    match fault {
        RouteFault::NotAnswered if !alive => {
            format!("test 1, gateway {by} has not answered a ping yet")
        }
        _ if !alive => format!("test 1, gateway {by} does not answer pings"),
        RouteFault::NotAnswered | RouteFault::Silent => {
            "test 2, the last ping of the gateway reported the route as down".to_owned()
        }
        RouteFault::NiDown(net) if net == by.net() => {
            format!("test 3, no interface of the gateway on {net} is up")
        }
        RouteFault::NiDown(net) => format!(
            "test 4, the gateway's side on {net} is not up (avoid_asym_router_failure is on)"
        ),
        RouteFault::NotRouting => "test 5, the gateway does not route".to_owned(),
    }
}

/// Returns what an administrator can do against the fault of a route.
fn remedy(by: Nid, alive: bool, fault: RouteFault) -> String {
    match fault {
        RouteFault::NiDown(net) if alive => format!(
            "`lnetctl net show --net {net}` at the gateway: the gateway needs an interface on this net whose status is up"
        ),
        RouteFault::NotRouting if alive => {
            "`lnetctl set routing 1` at the gateway, or a route through a gateway that forwards"
                .to_owned()
        }
        _ => format!(
            "`lnetctl ping {by}` from this node; a message through it restores the route at once"
        ),
    }
}

/// Infers the fault of a route from a document that only says that the route is down. If another route through the
/// gateway is up, the gateway forwards.
fn likely_fault(context: &Context<'_>, route: &RouteSelection) -> RouteFault {
    let by = route.route.gateway;
    let state = context.state();
    let owner = state.peers.iter().find(|peer| peer.nids.contains(&by));
    let nids = owner.into_iter().flat_map(|peer| &peer.nids);
    let near: Vec<&Nid> = nids.filter(|nid| nid.net() == by.net()).collect();
    let up = |nid: &&Nid| state.peer_nis.iter().any(|ni| ni.nid == **nid && ni.up);
    if !near.is_empty() && !near.iter().any(up) {
        return RouteFault::NiDown(by.net());
    }
    let single = route.single_hop || route.route.hops == Some(1);
    match state.config.globals.avoid_asym_router_failure && single {
        true => RouteFault::NiDown(route.route.net),
        false => RouteFault::Silent,
    }
}

fn next_check(context: &Context<'_>, gateway: &GatewaySelection) -> String {
    let interval = context.state().config.globals.alive_router_check_interval;
    let wait = gateway.next_check.map(|at| at - context.node.now);
    match wait.map(|wait| wait.as_secs()) {
        Some(0) => "The next ping of the gateway is due now".to_owned(),
        Some(seconds) => format!("The next ping of the gateway is in {seconds} s"),
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
