//! Finds routers that forward messages in a circle without delivering them. LNet counts no hops, so such a message
//! circulates without end.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::Step;
use lnet_types::Net;

use super::site::owners;
use crate::lint::catalogue::ROUTER_LOOP;
use crate::lint::finding::Finding;
use crate::lint::node::{Node, listed};

/// For each router that is not on a net, the routers that its routes to the net lead to.
type Edges = BTreeMap<usize, BTreeSet<usize>>;

/// Reports the routes of routers to one net that form a circle, one circle for each net.
pub(super) fn router_loop(nodes: &[Node<'_>]) -> Vec<Finding> {
    let edges = edges(nodes).into_iter();
    let circles = edges.filter_map(|(net, edges)| Some((net, circle(edges)?)));
    let told = circles.filter_map(|(net, circle)| {
        let first = nodes.get(*circle.first()?)?;
        let names = circle.iter().filter_map(|&at| nodes.get(at));
        let names = listed(names.map(|node| node.source.name));
        let route = first.routes.iter().find(|route| route.show.net == net)?;
        let path = [route.path.as_slice(), &[Step::Key("gateway")]].concat();
        let reason = format!(
            "messages for {net} are forwarded in a circle: the routes of {names} lead from one to the next and back, and \
             none of them is on {net}"
        );
        let fix = format!("let the routes to {net} of each router lead towards it");
        Some(first.finding(&ROUTER_LOOP, &path, reason, fix))
    });
    told.collect()
}

fn edges(nodes: &[Node<'_>]) -> BTreeMap<Net, Edges> {
    let owners = owners(nodes);
    let mut by_net: BTreeMap<Net, Edges> = BTreeMap::new();
    for (at, node) in nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.is_router())
    {
        for route in node
            .routes
            .iter()
            .filter(|route| !node.has_net(route.show.net))
        {
            if let Some(&next) = owners.get(&route.show.gateway) {
                let edges = by_net.entry(route.show.net).or_default();
                edges.entry(at).or_default().insert(next);
            }
        }
    }
    by_net
}

/// Returns the routers of a circle, in the order in which a message passes them.
fn circle(mut edges: Edges) -> Option<Vec<usize>> {
    // Removes the routers from which no edge leads to a router with edges. From each remaining router an edge leads
    // to another remaining one.
    loop {
        let known: BTreeSet<usize> = edges.keys().copied().collect();
        for next in edges.values_mut() {
            next.retain(|at| known.contains(at));
        }
        edges.retain(|_, next| !next.is_empty());
        if edges.len() == known.len() {
            break;
        }
    }
    let mut passed = vec![*edges.keys().next()?];
    loop {
        let next = *edges.get(passed.last()?)?.first()?;
        if let Some(start) = passed.iter().position(|&at| at == next) {
            return Some(passed.split_off(start));
        }
        passed.push(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges_of(pairs: &[(usize, usize)]) -> Edges {
        let mut edges = Edges::new();
        for &(from, to) in pairs {
            edges.entry(from).or_default().insert(to);
        }
        edges
    }

    #[test]
    fn a_circle_is_found_behind_a_way_that_leads_into_it() {
        let edges = edges_of(&[(0, 1), (1, 2), (2, 3), (3, 1), (4, 5)]);
        assert_eq!(circle(edges), Some(vec![1, 2, 3]));
    }

    #[test]
    fn ways_that_end_are_no_circle() {
        assert_eq!(circle(edges_of(&[(0, 1), (0, 2), (1, 3), (2, 3)])), None);
        assert_eq!(circle(edges_of(&[])), None);
    }
}
