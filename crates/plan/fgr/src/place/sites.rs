//! The blades on which modules may be placed.

use std::collections::BTreeMap;

use crate::input::{MapNode, Table};
use crate::machine::Machine;
use crate::place::{PlaceError, Problem};
use crate::problem::{InputError, Problems};
use crate::topology::{Fabric, Grid, Vertex};

/// A blade on which a module may be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its name.
    pub blade: String,
    /// Its cabinet's name.
    pub cabinet: String,
    /// Numbers and vertices of the nodes, in the order in which a module uses them.
    pub nodes: Vec<(u32, Vertex)>,
    /// Whether the nodes are clients while no module is on the blade.
    pub computes: bool,
}

/// The blades of Titan. Without `any`, its service blades. With `any`, the compute blades and those
/// of `modules`, all of which compute while no module is on them; the other service blades then
/// keep their services.
#[must_use]
pub fn titan_sites(map: &[MapNode], grid: &Grid, any: bool, modules: &[&str]) -> Vec<Site> {
    let mut blades: BTreeMap<String, (Site, bool)> = BTreeMap::new();
    let mut nodes: Vec<&MapNode> = map.iter().collect();
    nodes.sort_by_key(|node| node.name);
    for node in nodes {
        let Some(vertex) = grid.vertex(&node.name.coordinates()) else {
            continue;
        };
        let blade = node.name.blade();
        let (site, serves) = blades.entry(blade.clone()).or_insert_with(|| {
            let site = Site {
                cabinet: node.name.cabinet(),
                nodes: Vec::new(),
                computes: any,
                blade,
            };
            (site, false)
        });
        site.nodes.push((node.id, vertex));
        *serves |= !node.compute;
    }
    let wanted = blades.into_values().filter(|(site, serves)| {
        let is_module = modules.contains(&site.blade.as_str());
        if any { !serves || is_module } else { *serves }
    });
    wanted.map(|(site, _)| site).collect()
}

/// Reads a table of blades with the header `blade,cabinet,kind,node,at` and a line for each node.
/// `kind` is `compute` for blades that compute while they are free and `service` for others. `node`
/// is a number, or the name of a node of the machine. `at` is one position per dimension, `group
/// switch` or an endpoint, separated by blanks; it is empty for the place that the machine gives.
///
/// # Errors
///
/// Every line that does not have this form or is outside the fabric.
pub fn read_sites(file: &str, text: &str, machine: &Machine) -> Result<Vec<Site>, InputError> {
    let known_nodes = nodes(machine);
    let mut problems = Problems::new(file);
    let mut sites: Vec<Site> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let table = Table::read(&mut problems, text, &["blade,cabinet,kind,node,at"]);
    for (line, fields) in &table.rows {
        let [blade, cabinet, kind, node, at] = &fields[..] else {
            continue;
        };
        let described = known_nodes.get(node.as_str()).copied();
        let id = node.parse().ok().or(described.map(|(id, _)| id));
        let vertex = match at.is_empty() {
            true => described.map(|(_, vertex)| vertex),
            false => vertex(&machine.fabric, at),
        };
        let (Some(id), Some(vertex)) = (id, vertex) else {
            let wanted = "a number or a node of the machine, and a place of the fabric";
            problems.value(*line, "node and at", &format!("{node},{at}"), wanted);
            continue;
        };
        if !["compute", "service"].contains(&kind.as_str()) {
            problems.value(*line, "kind", kind, "compute or service");
        }
        let site = *known.entry(blade.clone()).or_insert(sites.len());
        if site == sites.len() {
            sites.push(Site {
                blade: blade.clone(),
                cabinet: cabinet.clone(),
                nodes: Vec::new(),
                computes: kind == "compute",
            });
        }
        let computes = kind == "compute";
        if (sites[site].cabinet.as_str(), sites[site].computes) != (cabinet, computes) {
            let wanted = "the cabinet and the kind of the blade's first line";
            problems.value(
                *line,
                "cabinet and kind",
                &format!("{cabinet},{kind}"),
                wanted,
            );
        }
        sites[site].nodes.push((id, vertex));
    }
    problems.into_result(sites)
}

/// Numbers and places of the machine's nodes, by number and by name.
fn nodes(machine: &Machine) -> BTreeMap<String, (u32, Vertex)> {
    let mut found = BTreeMap::new();
    for client in &machine.clients {
        let entry = (client.id, client.vertex);
        found.insert(client.id.to_string(), entry);
        found.extend(client.name.as_deref().map(|name| (name.to_owned(), entry)));
    }
    for router in &machine.routers {
        let entry = (router.id, router.vertex);
        found.insert(router.id.to_string(), entry);
        let name = machine.details.names.get(&router.id);
        found.extend(name.map(|name| (name.to_string(), entry)));
    }
    found
}

fn vertex(fabric: &Fabric, at: &str) -> Option<Vertex> {
    let words = at.split_whitespace();
    let positions: Vec<u16> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    match (fabric, &positions[..]) {
        (Fabric::Grid(grid, _), at) => grid.vertex(at),
        (Fabric::Dragonfly(dragonfly, _), &[group, switch]) => dragonfly.switch(group, switch),
        (Fabric::FatTree(tree), &[endpoint]) => {
            Some(Vertex(endpoint.into())).filter(|v| v.0 < tree.vertices())
        }
        _ => None,
    }
}

/// The site of each module at the start.
pub(super) fn start(problem: &Problem<'_>) -> Result<Vec<u32>, PlaceError> {
    let mut by_blade: BTreeMap<&str, u32> = BTreeMap::new();
    let modules = &problem.machine.modules;
    let needed = modules.iter().map(|m| m.routers.len()).max().unwrap_or(0);
    for (index, site) in (0_u32..).zip(&problem.sites) {
        if by_blade.insert(&site.blade, index).is_some() {
            return Err(PlaceError::SiteTwice(site.blade.clone()));
        }
        if site.nodes.len() < needed {
            return Err(PlaceError::TooFewNodes {
                blade: site.blade.clone(),
                found: site.nodes.len(),
                needed,
            });
        }
    }
    let site_of = |blade: &str| by_blade.get(blade).copied();
    modules
        .iter()
        .map(|m| site_of(&m.blade).ok_or_else(|| PlaceError::NoSite(m.blade.clone())))
        .collect()
}
