//! The blades that modules may stand on.

use std::collections::BTreeMap;

use topology::{Grid, Vertex};

use crate::input::MapNode;
use crate::place::{PlaceError, Problem};

/// A blade that a module may stand on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its name.
    pub blade: String,
    /// Its cabinet's name.
    pub cabinet: String,
    /// Number and place of its nodes, in the order in which a module uses them.
    pub nodes: Vec<(u32, Vertex)>,
    /// Whether its nodes are clients while no module stands on it.
    pub computes: bool,
}

/// The blades of Titan: its service blades alone, or with `any` the compute blades and those of
/// `modules`, all of which compute while no module stands on them; the other service blades then keep
/// their services and their places.
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

/// The site of each module in the start.
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
