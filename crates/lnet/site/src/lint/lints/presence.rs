//! Lints across nodes of what is there at one node and missing at all others: nets, peers, ports.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::Step;
use lnet_types::{Net, Nid};

use super::site::{owners, usual};
use crate::document::PORT;
use crate::lint::catalogue::{NET_ALONE, PEER_MISSING, PORT_DIFFERS, ROUTE_NET_MISSING};
use crate::lint::finding::Finding;
use crate::lint::node::{Node, listed};
use crate::lint::source::Source;

/// Returns the nets of all nodes; `None` if a document does not name its nets.
pub(super) fn all_nets(nodes: &[Node<'_>]) -> Option<BTreeSet<Net>> {
    let is_known = nodes.iter().all(|node| !node.is_partial());
    is_known.then(|| nodes.iter().flat_map(Node::nets).collect())
}

/// Reports nodes that reach nobody: no other node is on their nets, and no route leads there or away.
pub(super) fn net_alone(nodes: &[Node<'_>]) -> Vec<Finding> {
    if nodes.len() < 2 || all_nets(nodes).is_none() {
        return Vec::new();
    }
    let mut having: BTreeMap<Net, usize> = BTreeMap::new();
    let mut routed = BTreeSet::new();
    for node in nodes {
        for net in node.nets() {
            *having.entry(net).or_default() += node.count;
        }
        routed.extend(node.routes.iter().map(|route| route.show.net));
    }
    let is_alone = |net: &Net| having.get(net) == Some(&1) && !routed.contains(net);
    let ends = nodes.iter().filter(|node| {
        !node.is_router() && node.routes.is_empty() && !node.lacks(&["route", "routing"])
    });
    let alone = ends.filter(|node| node.nets().iter().all(is_alone));
    let told = alone.map(|node| {
        let nets = listed(node.nets());
        let reason = format!(
            "no other node of these files is on {nets}, and no route leads there or away: this node reaches nobody"
        );
        let fix = "correct the net under net, or add a route".to_owned();
        node.finding(&NET_ALONE, &[Step::Key("net"), Step::Item(0)], reason, fix)
    });
    told.collect()
}

/// Reports routes to a net that no node has, by a gateway that does not lead there.
pub(super) fn route_net_missing(nodes: &[Node<'_>]) -> Vec<Finding> {
    let Some(nets) = all_nets(nodes) else {
        return Vec::new();
    };
    let owners = owners(nodes);
    let mut found = Vec::new();
    for node in nodes {
        let mut told = BTreeSet::new();
        for route in &node.routes {
            let net = route.show.net;
            let gateway = owners.get(&route.show.gateway);
            let gateway = gateway.and_then(|&at| nodes.get(at));
            let leads =
                gateway.is_none_or(|gateway| gateway.reaches(net) || gateway.lacks(&["route"]));
            if nets.contains(&net) || leads || !told.insert(net) {
                continue;
            }
            let reason = format!(
                "no node of these files is on {net}, and the gateway {} has no route there",
                route.show.gateway
            );
            let fix = format!(
                "correct the net, or lnetctl route del --net {net} --gateway {}",
                route.show.gateway
            );
            let path = [route.path.as_slice(), &[Step::Key("net")]].concat();
            found.push(node.finding(&ROUTE_NET_MISSING, &path, reason, fix));
        }
    }
    found
}

/// Reports peers with NIDs that no node has. On a net with more such NIDs than nodes, the files do not have all nodes.
pub(super) fn peer_missing(nodes: &[Node<'_>]) -> Vec<Finding> {
    if nodes.len() < 2 || nodes.iter().any(|node| !node.knows_nids()) {
        return Vec::new();
    }
    let owners = owners(nodes);
    let mut known: BTreeMap<Net, usize> = BTreeMap::new();
    for nid in owners.keys() {
        *known.entry(nid.net()).or_default() += 1;
    }
    // On a net with routers only, the nodes at its far side were left out.
    let ends = nodes.iter().filter(|node| !node.is_router());
    let ends: BTreeSet<Net> = ends.flat_map(Node::nets).collect();
    let is_missing = |nid: &Nid| ends.contains(&nid.net()) && !owners.contains_key(nid);
    let mut missing: BTreeMap<Net, BTreeSet<Nid>> = BTreeMap::new();
    for nid in nodes
        .iter()
        .flat_map(peer_nids)
        .filter(|(_, nid)| is_missing(nid))
    {
        missing.entry(nid.1.net()).or_default().insert(nid.1);
    }
    missing.retain(|net, nids| Some(&nids.len()) <= known.get(net));
    let mut found = Vec::new();
    for node in nodes {
        let mut of_peer: BTreeMap<usize, BTreeSet<Nid>> = BTreeMap::new();
        for (at, nid) in peer_nids(node) {
            if missing
                .get(&nid.net())
                .is_some_and(|nids| nids.contains(&nid))
            {
                of_peer.entry(at).or_default().insert(nid);
            }
        }
        found.extend(of_peer.into_iter().map(|(at, nids)| {
            let reason = format!("no node of these files has {} of this peer", listed(nids));
            let fix =
                "correct the NID, remove the peer (lnetctl peer del), or give the node's file too";
            let path = [Step::Key("peer"), Step::Item(at), Step::Key("primary nid")];
            node.finding(&PEER_MISSING, &path, reason, fix.to_owned())
        }));
    }
    found
}

/// Returns the NIDs of a node's peers, each with the index of the peer.
fn peer_nids<'n>(node: &'n Node<'_>) -> impl Iterator<Item = (usize, Nid)> + 'n {
    node.peers().flat_map(|(at, peer)| {
        let nids = peer.nis.iter().map(|ni| ni.nid).chain([peer.primary]);
        nids.map(move |nid| (at, nid))
    })
}

/// Reports nodes whose port, or port of bulk connections, differs from that of most nodes of a net. Only options of the
/// module name a port.
pub(super) fn port_differs(nodes: &[Node<'_>]) -> Vec<Finding> {
    let mut found = one_port_differs(nodes, "accept_port", |source| source.port);
    let bulk = one_port_differs(nodes, "accept_port_bulk", |source| source.bulk_port);
    found.extend(bulk);
    found
}

fn one_port_differs(
    nodes: &[Node<'_>],
    option: &'static str,
    of: fn(&Source<'_>) -> Option<u16>,
) -> Vec<Finding> {
    let mut by_net: BTreeMap<Net, Vec<(&Node<'_>, u16)>> = BTreeMap::new();
    let is_known = |node: &&Node<'_>| node.source.is_options || of(node.source).is_some();
    for node in nodes.iter().filter(is_known) {
        let port = of(node.source).unwrap_or(PORT);
        for net in node
            .nets()
            .into_iter()
            .filter(|net| net.lnd == lnet_types::LndType::TCP)
        {
            by_net.entry(net).or_default().push((node, port));
        }
    }
    let mut found = Vec::new();
    let mut told = BTreeSet::new();
    for (net, mut of_net) in by_net {
        // Of two equally frequent ports, the usual one counts.
        of_net.sort_by_key(|(_, port)| *port != PORT);
        let Some(most) = usual(of_net.iter().map(|(node, port)| (*port, node.count))) else {
            continue;
        };
        let model = of_net.iter().find(|(_, port)| *port == most);
        let model = model.map_or("", |(node, _)| node.source.name);
        for (node, port) in of_net.iter().filter(|(_, port)| *port != most) {
            if !told.insert(node.source.name) {
                continue;
            }
            let reason = format!(
                "{option} is {port} here and {most} on {model}, which is on {net} too: a node listens and dials on its \
                 own port, so neither reaches the other"
            );
            let fix =
                format!("options lnet {option}={most}, or the same value on all nodes of {net}");
            found.push(node.finding(&PORT_DIFFERS, &[Step::Key(option)], reason, fix));
        }
    }
    found
}
