//! Lints that compare the documents of several nodes.
//!
//! A node is identified by its NIDs. If NIDs are not known, because a document names interfaces and their addresses
//! were not given, the lints draw no conclusion from missing NIDs.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::{NiConfig, Step};
use lnet_types::{LndType, Net, Nid};

use super::presence::all_nets;
use crate::lint::catalogue::{
    ASYMMETRIC_ROUTE, GATEWAY_LACKS_NET, GATEWAY_MISSING, GATEWAY_NOT_ROUTING,
    MAP_ON_DEMAND_DIFFERS, MTU_DIFFERS, NID_CLAIMED_TWICE, ONE_SIDED_ROUTE, QUEUE_DEPTH_DIFFERS,
    Severity,
};
use crate::lint::finding::Finding;
use crate::lint::node::{Ni, Node, Route, listed};

/// The limit on the names that a text lists. The number of the others is printed.
pub(super) const NAMED_MAX: usize = 3;

/// Returns the node that has each NID. If several nodes claim a NID, the first one counts.
pub(super) fn owners(nodes: &[Node<'_>]) -> BTreeMap<Nid, usize> {
    let mut owners = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        for nid in node.nids() {
            owners.entry(nid).or_insert(at);
        }
    }
    owners
}

/// Returns the first names, and the number of the others.
fn some(names: &BTreeSet<String>) -> String {
    let first = listed(names.iter().take(NAMED_MAX));
    match names.len().saturating_sub(NAMED_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Returns the value that most nodes have. Each value comes with the number of nodes that have it. If two values
/// are equally frequent, the first one counts.
pub(super) fn usual<T: Ord + Clone>(values: impl Iterator<Item = (T, usize)>) -> Option<T> {
    let mut counts: BTreeMap<T, (usize, std::cmp::Reverse<usize>)> = BTreeMap::new();
    for (at, (value, nodes)) in values.enumerate() {
        counts.entry(value).or_insert((0, std::cmp::Reverse(at))).0 += nodes;
    }
    let most = counts.into_iter().max_by_key(|(_, rank)| *rank);
    most.map(|(value, _)| value)
}

/// Reports interfaces whose MTU differs from that of most interfaces of the net: larger packets do not pass.
pub(super) fn mtu_differs(nodes: &[Node<'_>]) -> Vec<Finding> {
    let mut by_net: BTreeMap<Net, Vec<_>> = BTreeMap::new();
    for node in nodes {
        for ni in &node.nis {
            let interface = node.machine().zip(ni.interface.as_ref());
            let mtu = interface.and_then(|(machine, name)| machine.interface(name)?.mtu);
            if let Some(mtu) = mtu {
                by_net.entry(ni.net).or_default().push((node, ni, mtu));
            }
        }
    }
    let mut found = Vec::new();
    for (net, nis) in by_net {
        let Some(most) = usual(nis.iter().map(|&(node, _, mtu)| (mtu, node.count))) else {
            continue;
        };
        let others = nis.into_iter().filter(|&(_, _, mtu)| mtu != most);
        found.extend(others.map(|(node, ni, mtu)| {
            let reason = format!(
                "{} has an MTU of {mtu}, and other interfaces of {net} one of {most}: large packets between them are \
                 lost or split",
                Node::label(ni)
            );
            let fix = format!("ip link set INTERFACE mtu {most}, if every switch on the path accepts it");
            node.finding(&MTU_DIFFERS, &ni.path, reason, fix)
        }));
    }
    found
}

/// Reports o2ib nets whose nodes have different `peer_credits`, once for each net: the depth of a queue is agreed by a
/// rejected request.
// [IB-17]
pub(super) fn queue_depth_differs(nodes: &[Node<'_>]) -> Vec<Finding> {
    let depth = |ni: &NiConfig| Some(ni.tunables.peer_credits.unwrap_or(8));
    let found = differing_o2ib(nodes, depth).into_iter().map(|one| {
        let Differing { node, ni, own, most } = one;
        let net = ni.net;
        let reason = format!(
            "{} has peer_credits {own}, and other nodes of {net} have {most}: the node with more is rejected once by \
             each peer with less, and their connections have the lower number",
            Node::label(ni)
        );
        let fix = format!("peer_credits: {most}, or the same number on all nodes of {net}");
        let path = [ni.path.as_slice(), &[Step::Key("tunables"), Step::Key("peer_credits")]].concat();
        node.finding(&QUEUE_DEPTH_DIFFERS, &path, reason, fix)
    });
    found.collect()
}

/// Reports o2ib nets whose nodes have different `map_on_demand`, once for each net. Nodes that do not say theirs have the
/// default of their release, which is not known.
// [IB-17]
pub(super) fn map_on_demand_differs(nodes: &[Node<'_>]) -> Vec<Finding> {
    let fragments = |ni: &NiConfig| ni.lnd_tunables.other.get("map_on_demand")?.parse().ok();
    let found = differing_o2ib(nodes, fragments).into_iter().map(|one| {
        let Differing { node, ni, own, most } = one;
        let net = ni.net;
        let reason = format!(
            "{} has map_on_demand {own}, and other nodes of {net} have {most}: nodes that cannot map all memory of a \
             transfer at once agree on fragments by a rejected request, and the lower number makes transfers slow",
            Node::label(ni)
        );
        let fix = format!("map_on_demand: {most}, or the same number on all nodes of {net}");
        let path = [ni.path.as_slice(), &[Step::Key("lnd tunables"), Step::Key("map_on_demand")]].concat();
        node.finding(&MAP_ON_DEMAND_DIFFERS, &path, reason, fix)
    });
    found.collect()
}

/// The first node of an o2ib net whose value is not that of most nodes.
struct Differing<'n, 's> {
    node: &'n Node<'s>,
    ni: &'n Ni<'s>,
    own: u32,
    most: u32,
}

/// Compares a value of the first NI that each node has on each o2ib net; `None` is not compared.
fn differing_o2ib<'n, 's>(
    nodes: &'n [Node<'s>],
    value: impl Fn(&NiConfig) -> Option<u32>,
) -> Vec<Differing<'n, 's>> {
    let mut by_net: BTreeMap<Net, Vec<_>> = BTreeMap::new();
    for node in nodes {
        let mut seen = BTreeSet::new();
        let of_o2ib = |ni: &&Ni<'_>| ni.net.lnd == LndType::O2IB && seen.insert(ni.net);
        for ni in node.nis.iter().filter(of_o2ib) {
            let is_known = !node.is_rejected(ni.path.get(..2).unwrap_or(&ni.path));
            let show = ni.show.filter(|_| is_known);
            if let Some(own) = show.and_then(|show| value(&show.config)) {
                by_net.entry(ni.net).or_default().push((node, ni, own));
            }
        }
    }
    let differing = by_net.into_values().filter_map(|nis| {
        let most = usual(nis.iter().map(|&(node, _, own)| (own, node.count)))?;
        let (node, ni, own) = *nis.iter().find(|&&(_, _, own)| own != most)?;
        Some(Differing {
            node,
            ni,
            own,
            most,
        })
    });
    differing.collect()
}

/// Reports NIDs that two nodes have.
pub(super) fn nid_claimed_twice(nodes: &[Node<'_>]) -> Vec<Finding> {
    let owners = owners(nodes);
    let mut found = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        for ni in &node.nis {
            let owner = ni.nid.and_then(|nid| Some((nid, *owners.get(&nid)?)));
            let Some((nid, owner)) = owner.filter(|&(_, owner)| owner != at) else {
                continue;
            };
            let other = nodes.get(owner).map_or("", |node| node.source.name);
            let reason = format!("{nid} is an NI of this node and of the one in {other}");
            let fix = "give one of the two another address".to_owned();
            found.push(node.finding(&NID_CLAIMED_TWICE, &ni.path, reason, fix));
        }
    }
    found
}

/// Reports gateways that no node is. This requires routers among the documents: if there are none, the site's
/// routers were left out.
pub(super) fn gateway_missing(nodes: &[Node<'_>]) -> Vec<Finding> {
    let owners = owners(nodes);
    let routers = nodes.iter().any(Node::is_router);
    let is_unknown = nodes.iter().any(|node| node.lacks(&["net", "ip2nets"]));
    if !routers || nodes.len() < 2 || is_unknown {
        return Vec::new();
    }
    // Nets on which some NIDs are not known.
    let unknown: BTreeSet<Net> = nodes
        .iter()
        .filter(|node| !node.knows_nids())
        .flat_map(Node::nets)
        .collect();
    let missing = each_route(nodes, |route| {
        let gateway = route.show.gateway;
        !owners.contains_key(&gateway) && !unknown.contains(&gateway.net())
    });
    let told = missing.into_iter().map(|(node, route)| {
        let gateway = route.show.gateway;
        let reason = format!(
            "no node of these files has {gateway}, the gateway of the route to {}",
            route.show.net
        );
        let fix = "correct the NID, or give the gateway's file too".to_owned();
        node.finding(&GATEWAY_MISSING, &at_gateway(route), reason, fix)
    });
    told.collect()
}

fn at_gateway(route: &Route<'_>) -> Vec<Step<'static>> {
    [route.path.as_slice(), &[Step::Key("gateway")]].concat()
}

/// Returns the routes of all nodes for which `wanted` is true.
fn each_route<'n, 's>(
    nodes: &'n [Node<'s>],
    wanted: impl Fn(&Route<'s>) -> bool,
) -> Vec<(&'n Node<'s>, &'n Route<'s>)> {
    let mut found = Vec::new();
    for node in nodes {
        let routes = node.routes.iter().filter(|route| wanted(route));
        found.extend(routes.map(|route| (node, route)));
    }
    found
}

/// Returns, by the index of each gateway's node, the remote nets for which it is used and the names of the nodes
/// that use it.
fn used_as_gateway(nodes: &[Node<'_>]) -> BTreeMap<usize, BTreeMap<Net, BTreeSet<String>>> {
    let owners = owners(nodes);
    let mut used: BTreeMap<usize, BTreeMap<Net, BTreeSet<String>>> = BTreeMap::new();
    for node in nodes {
        for route in &node.routes {
            if let Some(&owner) = owners.get(&route.show.gateway) {
                let nets = used.entry(owner).or_default();
                let users = nets.entry(route.show.net).or_default();
                users.insert(node.source.name.to_owned());
            }
        }
    }
    used
}

/// Reports gateways that do not forward: they drop the messages that they receive for others.
pub(super) fn gateway_not_routing(nodes: &[Node<'_>]) -> Vec<Finding> {
    let used = used_as_gateway(nodes).into_iter();
    let told = used.filter_map(|(at, nets)| {
        let gateway = nodes.get(at)?;
        if gateway.is_router() || gateway.lacks(&["routing"]) {
            return None;
        }
        let users: BTreeSet<String> = nets.into_values().flatten().collect();
        let reason = format!(
            "this node is a gateway of {} and does not forward",
            some(&users)
        );
        let fix = "routing: {enable: 1}, or take it out of their routes".to_owned();
        Some(gateway.finding(&GATEWAY_NOT_ROUTING, &[Step::Key("routing")], reason, fix))
    });
    told.collect()
}

/// Returns true if all nets that a node can reach are known, so that any other net is out of reach.
fn knows_ways(node: &Node<'_>) -> bool {
    !node.is_partial() && !node.lacks(&["route"])
}

/// Reports gateways that are neither on the remote net nor have a route to it.
pub(super) fn gateway_lacks_net(nodes: &[Node<'_>]) -> Vec<Finding> {
    let mut found = Vec::new();
    // If no node has the net, the routes are wrong, and another lint reports them.
    let known = all_nets(nodes);
    let exists = |net: &Net| known.as_ref().is_none_or(|known| known.contains(net));
    for (at, nets) in used_as_gateway(nodes) {
        let Some(gateway) = nodes.get(at).filter(|node| knows_ways(node)) else {
            continue;
        };
        let missing = nets
            .into_iter()
            .filter(|(net, _)| exists(net) && !gateway.reaches(*net));
        found.extend(missing.map(|(net, users)| {
            let reason = format!(
                "messages of {} for {net} come to this node, which has neither {net} nor a route to it",
                some(&users)
            );
            let fix = format!("add an NI on {net} or a route to it here, or use another gateway");
            gateway.finding(&GATEWAY_LACKS_NET, &[Step::Key("net")], reason, fix)
        }));
    }
    found
}

/// The gateways of a node's routes, by the local net through which a route leaves and the net to which it leads.
type Ways = BTreeMap<(Net, Net), BTreeSet<Nid>>;

fn ways(node: &Node<'_>) -> Ways {
    let mut ways = Ways::new();
    for route in &node.routes {
        let gateway = route.show.gateway;
        let way = ways.entry((gateway.net(), route.show.net)).or_default();
        way.insert(gateway);
    }
    ways
}

/// Reports nodes that receive messages by a route but have no route for the responses. The finding is at the node
/// without the route.
pub(super) fn one_sided_route(nodes: &[Node<'_>]) -> Vec<Finding> {
    // The nodes that use a route from one net to another. Routers are left out: they have routes for the messages
    // of others, and the senders of these messages are among the other nodes.
    let mut users: BTreeMap<(Net, Net), BTreeSet<String>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| !node.is_router()) {
        // A gateway that is on no local net cannot be used; another lint reports this.
        let usable = ways(node)
            .into_keys()
            .filter(|(from, _)| node.has_net(*from));
        for way in usable {
            let names = users.entry(way).or_default();
            names.insert(node.source.name.to_owned());
        }
    }
    let mut found = Vec::new();
    // A router sends no responses of its own; another lint checks the messages that it forwards.
    let ends = nodes.iter().filter(|node| !node.is_router());
    for node in ends.filter(|node| knows_ways(node) && !node.lacks(&["routing"])) {
        let stuck = users.iter().filter(|((from, to), names)| {
            let alone = names.len() == 1 && names.contains(node.source.name);
            node.has_net(*to) && !node.reaches(*from) && !alone
        });
        found.extend(stuck.map(|((from, to), names)| {
            let reason = format!(
                "{to} is reached from {from} by routes of {}, and this node on {to} has no route back to {from}",
                some(names)
            );
            let fix = format!("add a route to {from} by a gateway on {to}");
            node.finding(&ONE_SIDED_ROUTE, &[Step::Key("route")], reason, fix)
        }));
    }
    found
}

/// Reports nodes whose responses take other gateways than the requests. Only nodes are examined whose gateways are
/// all among the documents and on the remote net themselves: in a chain of gateways the first gateways of the two
/// directions differ anyway.
///
/// A gateway is recognized by any of its NIDs. Nodes that steer traffic with a net of their own for each gateway
/// may receive responses by all gateways.
pub(super) fn asymmetric_route(nodes: &[Node<'_>]) -> Vec<Finding> {
    let owners = owners(nodes);
    let joins = |at: usize, net| nodes.get(at).is_some_and(|node| node.has_net(net));
    let of = |nids: &BTreeSet<Nid>, to: Net| {
        let known = nids.iter().map(|nid| owners.get(nid).copied());
        let known: Option<BTreeSet<usize>> = known.collect();
        known.filter(|known| known.iter().all(|&at| joins(at, to)))
    };
    // For each pair of nets, the sets of gateways that nodes use, and the first node with each set.
    let mut all: BTreeMap<(Net, Net), BTreeMap<BTreeSet<usize>, &str>> = BTreeMap::new();
    for node in nodes {
        for (way, gateways) in ways(node) {
            if let Some(gateways) = of(&gateways, way.1) {
                let sets = all.entry(way).or_default();
                sets.entry(gateways).or_insert(node.source.name);
            }
        }
    }
    let mut found = Vec::new();
    for node in nodes.iter().filter(|node| !node.lacks(&["route"])) {
        let ways = ways(node);
        let mut by_net: BTreeMap<Net, BTreeSet<Nid>> = BTreeMap::new();
        for ((_, to), nids) in &ways {
            by_net.entry(*to).or_default().extend(nids);
        }
        for &(from, to) in ways.keys() {
            let gateways = by_net.get(&to).and_then(|nids| of(nids, to));
            let Some((gateways, back)) = gateways.zip(all.get(&(to, from))) else {
                continue;
            };
            let other = back.iter().find(|(set, _)| !set.is_subset(&gateways));
            let Some((set, name)) = other else { continue };
            let extra = set.difference(&gateways).filter_map(|&at| nodes.get(at));
            let extra: BTreeSet<String> = extra.map(|one| one.source.name.to_owned()).collect();
            found.push(asymmetry(node, (from, to), name, &some(&extra)));
        }
    }
    found
}

fn asymmetry(node: &Node<'_>, (from, to): (Net, Net), other: &str, extra: &str) -> Finding {
    let drops = node.document().globals.drop_asym_route == Some(true);
    let what = if drops {
        "and drop_asym_route drops messages that arrive by it"
    } else {
        "so that a failure there affects responses but not requests"
    };
    let reason = format!(
        "{other} answers from {to} by the gateway in {extra}, by which this node on {from} has no route to {to}, {what}"
    );
    let fix = "name the same gateways on both sides".to_owned();
    let mut routes = node.routes.iter();
    let first = routes.find(|route| route.show.net == to && route.show.gateway.net() == from);
    let path = first.map_or_else(|| vec![Step::Key("route")], |route| at_gateway(route));
    let made = node.finding(&ASYMMETRIC_ROUTE, &path, reason, fix);
    let severity = if drops {
        Severity::Error
    } else {
        made.severity
    };
    made.with_severity(severity)
}
