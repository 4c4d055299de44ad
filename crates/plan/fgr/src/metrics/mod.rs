//! Figures about a plan: the positions of the modules, whom each of them serves, and what remains
//! when some die.
//!
//! ```text
//!   placement   distance from a client to the nearest module, modules of each region
//!   failures    any k units at random; who takes over from each module
//! ```
//!
//! These figures describe a plan; they choose nothing. Figures of distance come with a lower limit
//! for any placement of the same number of modules.

mod failures;

pub use failures::{RandomLosses, Successor, random_losses, successors};

use crate::costs::Costs;
use crate::evaluate::Summary;
use crate::evaluate::bounds::{self, Bound};
use crate::machine::{Machine, Module, Role};
use crate::plan::Plan;
use crate::policy::Metric;
use crate::rule::Axes;
use crate::topology::{Fabric, Vertex};

/// Distance from each client to the nearest router of any group, with the lower limit of its mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NearestModule {
    /// The distances of all clients. Their spread is the standard deviation.
    pub distance: Summary,
    /// Lower limit for any placement of as many router places, on a fabric that looks the same from
    /// every vertex.
    pub bound: Bound,
}

/// Calculates the distance from each client to its nearest router, for any net.
#[must_use]
pub fn nearest_module(machine: &Machine, by: Metric) -> NearestModule {
    let mut places: Vec<Vertex> = data_modules(machine)
        .flat_map(|(index, _)| machine.routers_of(index))
        .map(|router| router.vertex)
        .collect();
    places.sort_unstable();
    places.dedup();
    // A machine has fewer than 2^16 routers.
    let servers = places.len() as u32;
    let first = places.first().copied().unwrap_or_default();
    let mut costs = Costs::new(&machine.fabric, by, places);
    let nearest = machine.clients.iter().map(|client| {
        let nearest = costs.row(client.vertex).iter().min().copied();
        (u64::from(nearest.unwrap_or(0)), 1)
    });
    NearestModule {
        distance: Summary::of(nearest, (1, 1)),
        bound: bounds::ball(&machine.fabric, by, &[first], servers),
    }
}

/// A part of the machine, with the number of modules in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Name of the region: `x 0-7, y 4-7`, or `group 12`.
    pub name: String,
    /// Number of data modules in the region.
    pub modules: u32,
}

/// Counts modules by region. Sizes of regions differ by at most one plane. On a grid, the windowed
/// dimension has as many slices as a group has sub-groups, and the next dimension as many as a
/// sub-group has modules. The regions of a dragonfly are its groups, those of a fat tree 16 ranges
/// of endpoints.
#[must_use]
pub fn regions(machine: &Machine) -> Vec<Region> {
    let modules = || data_modules(machine).map(|(_, module)| module.home);
    if let Some(axes) = Axes::of(&machine.fabric) {
        return grid_regions(machine, &axes);
    }
    let (count, name): (u32, fn(u32) -> String) = match &machine.fabric {
        Fabric::Dragonfly(dragonfly, _) => {
            (dragonfly.size().groups.into(), |i| format!("group {i}"))
        }
        _ => (16, |i| format!("endpoints, part {}", i + 1)),
    };
    let vertices = u64::from(machine.fabric.vertices());
    let of = |vertex: Vertex| u64::from(vertex.0) * u64::from(count) / vertices.max(1);
    (0..count)
        .map(|index| Region {
            name: name(index),
            modules: modules()
                .filter(|&home| of(home) == u64::from(index))
                .count() as u32,
        })
        .collect()
}

fn grid_regions(machine: &Machine, axes: &Axes<'_>) -> Vec<Region> {
    let groups = || machine.groups.iter().filter(|g| g.role == Role::Data);
    let rows = groups().map(|g| g.sub_groups.len()).max().unwrap_or(1);
    let sub_groups = groups().flat_map(|g| &g.sub_groups);
    let columns = sub_groups.map(|range| range.len()).max().unwrap_or(1);
    let part = |d: usize, parts: usize, vertex| {
        let size = usize::from(axes.grid.dimensions()[d].size);
        usize::from(axes.grid.position(vertex, d)) * parts / size
    };
    let range = |d: usize, parts: usize, index: usize| {
        let dimension = &axes.grid.dimensions()[d];
        let from = (index * usize::from(dimension.size)).div_ceil(parts);
        let behind = ((index + 1) * usize::from(dimension.size)).div_ceil(parts);
        format!("{} {from}-{}", dimension.name, behind.max(1) - 1)
    };
    let mut counts = vec![0; rows * columns];
    for (_, module) in data_modules(machine) {
        let row = part(axes.window, rows, module.home);
        counts[row * columns + part(axes.near, columns, module.home)] += 1;
    }
    let named = counts.into_iter().enumerate().map(|(index, modules)| {
        let near = range(axes.near, columns, index % columns);
        let window = range(axes.window, rows, index / columns);
        Region {
            name: format!("{near}, {window}"),
            modules,
        }
    });
    named.collect()
}

/// Share of the traffic that crosses from one leaf switch to another, because a router is not on
/// the net of the server to which it writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeafCrossing {
    /// With the plan.
    pub plan: f64,
    /// If all routers served all nets, as without fine-grained routing.
    pub flat: f64,
}

/// Calculates the leaf crossings of a plan if each net is one leaf switch.
#[must_use]
pub fn leaf_crossing(machine: &Machine, plan: &Plan) -> LeafCrossing {
    let nets: Vec<usize> = machine.data_nets().collect();
    let (mut pairs, mut crossing) = (0_u64, 0_u64);
    for (row, entry) in plan.rows().iter().enumerate() {
        for &net in &nets {
            if let Some(&router) = plan.routers(row, net).first() {
                let is_away = usize::from(machine.routers[usize::from(router)].net) != net;
                pairs += u64::from(entry.clients);
                crossing += u64::from(entry.clients) * u64::from(is_away);
            }
        }
    }
    let count = nets.len().max(1) as f64;
    LeafCrossing {
        plan: crossing as f64 / pairs.max(1) as f64,
        flat: (count - 1.0) / count,
    }
}

/// The modules that carry file data, with their indices.
pub(crate) fn data_modules(machine: &Machine) -> impl Iterator<Item = (u16, &Module)> {
    let modules = (0_u16..).zip(&machine.modules);
    modules.filter(|(_, m)| machine.groups[usize::from(m.group)].role == Role::Data)
}
