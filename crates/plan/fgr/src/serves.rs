//! Who serves whom: the routers of clients, the clients of routers, and the areas of a machine, which
//! are cabinets where the names of clients tell them.

use std::collections::BTreeMap;

use crate::machine::Machine;
use crate::plan::Plan;
use crate::topology::{Fabric, Vertex};

/// A router and some clients that use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serving {
    /// The router, by index; it belongs to one net.
    pub router: u16,
    /// 0 if the router is the primary of these clients, from 1 as a backup.
    pub rank: usize,
    /// Number of clients.
    pub clients: usize,
}

/// Returns the routers of these clients, by net and rank, and among them those with most clients
/// first. In a shared plan every router of a net is a primary.
#[must_use]
pub fn who_serves(machine: &Machine, plan: &Plan, clients: &[usize]) -> Vec<Serving> {
    let mut of_row: BTreeMap<usize, usize> = BTreeMap::new();
    for &client in clients {
        *of_row.entry(plan.row_of(client)).or_default() += 1;
    }
    let mut counts: BTreeMap<(usize, u16), usize> = BTreeMap::new();
    for (row, clients) in of_row {
        for net in 0..machine.nets.len() {
            for (rank, &router) in plan.routers(row, net).iter().enumerate() {
                let rank = if plan.is_shared() { 0 } else { rank };
                *counts.entry((rank, router)).or_default() += clients;
            }
        }
    }
    let servings = counts.into_iter().map(|((rank, router), clients)| Serving {
        router,
        rank,
        clients,
    });
    let mut servings: Vec<Serving> = servings.collect();
    let net = |serving: &Serving| machine.routers[usize::from(serving.router)].net;
    servings.sort_by_key(|one| {
        (
            one.rank,
            net(one),
            std::cmp::Reverse(one.clients),
            one.router,
        )
    });
    servings
}

/// Returns the clients that use a router, as indices in ascending order: of the primary, of the first
/// backup, and so on.
#[must_use]
pub fn serves(machine: &Machine, plan: &Plan, router: u16) -> Vec<Vec<usize>> {
    let net = usize::from(machine.routers[usize::from(router)].net);
    let mut rank_of_row: BTreeMap<usize, usize> = BTreeMap::new();
    for row in 0..plan.rows().len() {
        let mut routers = plan.routers(row, net).iter();
        if let Some(rank) = routers.position(|&other| other == router) {
            rank_of_row.insert(row, if plan.is_shared() { 0 } else { rank });
        }
    }
    let mut found: Vec<Vec<usize>> = Vec::new();
    for client in 0..machine.clients.len() {
        if let Some(&rank) = rank_of_row.get(&plan.row_of(client)) {
            if found.len() <= rank {
                found.resize(rank + 1, Vec::new());
            }
            found[rank].push(client);
        }
    }
    found
}

/// A part of the machine, with the primaries of its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// The name of the area.
    pub name: String,
    /// Number of clients.
    pub clients: usize,
    /// The primaries of the clients, with the number of clients of the area that use each.
    pub servings: Vec<Serving>,
}

/// Returns the areas with clients, in the order of their first clients.
#[must_use]
pub fn areas(machine: &Machine, plan: &Plan) -> Vec<Area> {
    let areas = clients_by_area(machine)
        .into_iter()
        .map(|(name, clients)| Area {
            servings: who_serves(machine, plan, &clients)
                .into_iter()
                .filter(|serving| serving.rank == 0)
                .collect(),
            clients: clients.len(),
            name,
        });
    areas.collect()
}

/// Returns the indices of the clients of each area, with the area's name.
#[must_use]
pub fn clients_by_area(machine: &Machine) -> Vec<(String, Vec<usize>)> {
    let mut number: BTreeMap<String, usize> = BTreeMap::new();
    let mut areas: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, client) in machine.clients.iter().enumerate() {
        let cabinet = client.name.as_deref().and_then(cabinet);
        let name = cabinet.map_or_else(|| area(&machine.fabric, client.vertex), str::to_owned);
        let next = areas.len();
        let at = *number.entry(name.clone()).or_insert(next);
        if at == next {
            areas.push((name, Vec::new()));
        }
        areas[at].1.push(index);
    }
    areas
}

/// Returns the indices of the clients of each part of the machine by its name: of the cabinets in the names of clients, and
/// of the parts of the fabric.
#[must_use]
pub fn parts(machine: &Machine) -> BTreeMap<String, Vec<usize>> {
    let mut parts: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, client) in machine.clients.iter().enumerate() {
        let cabinet = client.name.as_deref().and_then(cabinet);
        let names = cabinet.map(str::to_owned).into_iter();
        for name in names.chain([area(&machine.fabric, client.vertex)]) {
            parts.entry(name).or_default().push(index);
        }
    }
    parts
}

/// Returns the cabinet in a name of the form `c12-3c1s4n2` or `x1000c0s4b0n1`.
fn cabinet(name: &str) -> Option<&str> {
    let rest = name.strip_prefix(['c', 'x'])?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-')?;
    let is_cabinet = end > 0 && rest[end..].starts_with('c') && rest[end..].contains('s');
    // One more byte, for the letter in front.
    is_cabinet.then(|| &name[..=end])
}

/// Returns the blade in a name of such a form: `c12-3c1s4`.
pub(crate) fn blade(name: &str) -> Option<&str> {
    cabinet(name)?;
    Some(&name[..name.rfind('n')?])
}

/// The part of a fabric that a vertex belongs to: a group, a leaf, or a plane of the first dimension.
fn area(fabric: &Fabric, vertex: Vertex) -> String {
    match fabric {
        Fabric::Grid(grid, _) => {
            let name = &grid.dimensions()[0].name;
            format!("{name}{}", grid.position(vertex, 0))
        }
        Fabric::Dragonfly(dragonfly, _) => format!("group{}", dragonfly.group(vertex)),
        Fabric::FatTree(tree) => {
            let down = tree.levels().first().map_or(1, |level| level.down);
            format!("leaf{}", vertex.0 / u32::from(down))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cabinets_are_read_from_names() {
        assert_eq!(cabinet("c12-3c1s4n2"), Some("c12-3"));
        assert_eq!(cabinet("x1000c0s4b0n1"), Some("x1000"));
        for other in ["cn1", "c12", "node7", "x", "c1-2x"] {
            assert_eq!(cabinet(other), None, "{other}");
            assert_eq!(blade(other), None, "{other}");
        }
        assert_eq!(blade("c12-3c1s4n2"), Some("c12-3c1s4"));
        assert_eq!(blade("x1000c0s4b0n1"), Some("x1000c0s4b0"));
    }
}
