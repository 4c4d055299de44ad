//! Compares the routes of nodes of one kind: nodes with the same nets that all forward, or all do not.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::Step;
use lnet_types::{Net, Nid};

use super::site::{NAMED_MAX, usual};
use crate::lint::catalogue::ROUTES_DIFFER;
use crate::lint::finding::Finding;
use crate::lint::node::{Node, listed};

/// The kind of a node: whether it forwards, and its nets.
type Kind = (bool, BTreeSet<Net>);

/// The number of nodes of a kind from which on their routes are compared.
const NODES_MIN: usize = 5;

/// The share of a kind's nodes, in percent, that must have a value, so that another value is a mistake: in sites with
/// fine-grained routing, nodes of one kind have different gateways on purpose.
const SHARE_MIN: usize = 80;

/// Returns the nodes by their kind. Nodes whose kind is not known are left out.
pub(super) fn kinds<'n, 's>(nodes: &'n [Node<'s>]) -> Vec<Vec<&'n Node<'s>>> {
    let mut kinds: BTreeMap<Kind, Vec<&Node<'s>>> = BTreeMap::new();
    let known = |node: &&Node<'_>| !node.is_partial() && !node.lacks(&["routing"]);
    for node in nodes.iter().filter(known) {
        let kind = (node.is_router(), node.nets().into_iter().collect());
        kinds.entry(kind).or_default().push(node);
    }
    kinds.into_values().collect()
}

/// Returns the value that nearly all nodes have, with the number of nodes that have it.
fn common<T: Ord + Clone>(values: &[(T, usize)], nodes: usize) -> Option<(T, usize)> {
    let most = usual(values.iter().cloned())?;
    let with = values.iter().filter(|(value, _)| *value == most);
    let count: usize = with.map(|(_, count)| count).sum();
    (count * 100 >= nodes * SHARE_MIN).then_some((most, count))
}

/// Reports nodes that lack gateways, or have other hops, than nearly all nodes of their kind.
pub(super) fn routes_differ(nodes: &[Node<'_>]) -> Vec<Finding> {
    let mut found = Vec::new();
    for alike in kinds(nodes) {
        let alike: Vec<&Node<'_>> = alike
            .into_iter()
            .filter(|node| !node.lacks(&["route"]))
            .collect();
        let count: usize = alike.iter().map(|node| node.count).sum();
        if alike.len() > 1 && count >= NODES_MIN {
            found.extend(other_gateways(&alike, count));
            found.extend(other_hops(&alike, count));
        }
    }
    found
}

fn gateways(node: &Node<'_>, net: Net) -> BTreeSet<Nid> {
    let routes = node.routes.iter().filter(|route| route.show.net == net);
    routes.map(|route| route.show.gateway).collect()
}

fn other_gateways(alike: &[&Node<'_>], nodes: usize) -> Vec<Finding> {
    let nets = alike
        .iter()
        .flat_map(|node| node.routes.iter().map(|route| route.show.net));
    let nets: BTreeSet<Net> = nets.collect();
    let mut found = Vec::new();
    for net in nets {
        let sets: Vec<(BTreeSet<Nid>, usize)> = alike
            .iter()
            .map(|node| (gateways(node, net), node.count))
            .collect();
        let Some((most, count)) = common(&sets, nodes).filter(|(most, _)| !most.is_empty()) else {
            continue;
        };
        for (node, (own, _)) in alike.iter().zip(&sets) {
            let lacking: BTreeSet<Nid> = most.difference(own).copied().collect();
            if lacking.is_empty() {
                continue;
            }
            let more = match lacking.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let reason = format!(
                "this node has routes to {net} by {} of the {} gateways that {count} of the {nodes} nodes with these \
                 networks and this role use: {}{more} {} missing",
                own.intersection(&most).count(),
                most.len(),
                listed(lacking.iter().take(NAMED_MAX)),
                if lacking.len() == 1 { "is" } else { "are" },
            );
            let fix = "add the routes, or remove them from the others".to_owned();
            found.push(node.finding(&ROUTES_DIFFER, &[Step::Key("route")], reason, fix));
        }
    }
    found
}

fn other_hops(alike: &[&Node<'_>], nodes: usize) -> Vec<Finding> {
    let mut by_route: BTreeMap<(Net, Nid), Vec<(u8, usize)>> = BTreeMap::new();
    let each = alike
        .iter()
        .flat_map(|node| node.routes.iter().map(move |route| (node, route)));
    for (node, route) in each.clone() {
        if let Some(hop) = route.show.hop {
            let hops = by_route
                .entry((route.show.net, route.show.gateway))
                .or_default();
            hops.push((hop, node.count));
        }
    }
    let told = each.filter_map(|(node, route)| {
        let (net, gateway, hop) = (route.show.net, route.show.gateway, route.show.hop?);
        let (most, count) = common(by_route.get(&(net, gateway))?, nodes)?;
        let reason = format!(
            "the route to {net} by {gateway} has hop {hop}, and {most} on {count} of the {nodes} nodes with these \
             networks and this role"
        );
        let path = [route.path.as_slice(), &[Step::Key("hop")]].concat();
        let fix = format!("hop: {most}, or the same value on all of them");
        (hop != most).then(|| node.finding(&ROUTES_DIFFER, &path, reason, fix))
    });
    told.collect()
}
