//! Lower limits on what any plan and any placement of the modules can reach.
//!
//! `Policy::Balanced` is an exact optimum for a given placement, net by net. [`by_module`] is the
//! optimum of plans that choose whole modules, as the strict rule does.

use crate::assign::{MAX_PAIRS, sites};
use crate::costs::{Costs, columns};
use crate::machine::{Group, Machine, Module, Role, Router};
use crate::policy::Metric;
use crate::topology::{Fabric, Vertex};
use crate::transport::{Piece, Transport, solve};

/// Lower limits of a mean and of a maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Lowest possible mean.
    pub mean: f64,
    /// Lowest possible maximum.
    pub max: f64,
}

/// Returns the lower limit of the distance if each of `servers` equal servers serves the vertices
/// nearest to it, on a fabric that looks the same from every vertex. The mean is over the nearest
/// `1 / servers` of all vertices. If there are several `places`, a server is a module, and its
/// distance is the mean of the distances to them.
#[must_use]
pub fn ball(fabric: &Fabric, by: Metric, places: &[Vertex], servers: u32) -> Bound {
    let mut costs = Costs::new(fabric, by, places.to_vec());
    let sum = |v| {
        costs
            .row(Vertex(v))
            .iter()
            .map(|&cost| u64::from(cost))
            .sum()
    };
    let mut sums: Vec<u64> = (0..fabric.vertices()).map(sum).collect();
    sums.sort_unstable();
    let share = (fabric.vertices() / servers.max(1)).max(1) as usize;
    let nearest = &sums[..share.min(sums.len())];
    let scale = places.len().max(1) as f64;
    Bound {
        mean: nearest.iter().sum::<u64>() as f64 / nearest.len() as f64 / scale,
        max: nearest.last().copied().unwrap_or(0) as f64 / scale,
    }
}

/// Returns the distance from each client to the nearest router of any group. That router need not
/// serve the net that the client wants.
#[must_use]
pub fn covering(machine: &Machine, by: Metric) -> Bound {
    let is_data = |m: &&Module| machine.groups[usize::from(m.group)].role == Role::Data;
    let modules = machine.modules.iter().filter(is_data);
    let routers = modules.flat_map(|module| module.routers.clone());
    let places = routers.map(|router| machine.routers[usize::from(router)].vertex);
    let mut costs = Costs::new(&machine.fabric, by, places.collect());
    let (mut sum, mut max) = (0_u64, 0);
    for client in &machine.clients {
        let distance = costs.row(client.vertex).iter().min().copied().unwrap_or(0);
        sum += u64::from(distance);
        max = max.max(distance);
    }
    Bound {
        mean: sum as f64 / machine.clients.len() as f64,
        max: f64::from(max),
    }
}

/// Returns the lowest mean distance for the given placement if a client uses one module for all
/// nets of a group. If `balanced`, the loads of a group's modules also differ by at most one
/// client. The distance to a module is the mean of the distances to its nodes. `None` if the
/// machine is too large for an exact optimum.
///
/// A plan that chooses for each net separately can be lower, as `Policy::Balanced` shows.
#[must_use]
pub fn by_module(machine: &Machine, by: Metric, balanced: bool) -> Option<f64> {
    let (mut sum, mut pairs) = (0.0, 0.0);
    let groups = machine.groups.iter();
    for group in groups.filter(|group| group.role == Role::Data) {
        let problem = module_problem(machine, group, by, balanced)?;
        let pieces = solve(&problem)?;
        let product = |p: &Piece| u64::from(p.units) * u64::from(problem.cost(p.site, p.sink));
        let total: u64 = pieces.iter().map(product).sum();
        // Every module of a group has a router on each net of the group.
        let nodes = machine.routers_of(group.modules().start).len();
        sum += total as f64 / nodes as f64 * group.nets.len() as f64;
        pairs += machine.clients.len() as f64 * group.nets.len() as f64;
    }
    Some(sum / pairs)
}

/// The assignment of clients to the modules of a group, with the summed distances to a module's
/// nodes as costs.
fn module_problem(
    machine: &Machine,
    group: &Group,
    by: Metric,
    balanced: bool,
) -> Option<Transport> {
    let modules = group.modules();
    let (clients, count) = (machine.clients.len() as u32, modules.len() as u32);
    let (sites, _) = sites(machine);
    if sites.len().saturating_mul(modules.len()) > MAX_PAIRS {
        return None;
    }
    let routers: Vec<&[Router]> = modules.map(|module| machine.routers_of(module)).collect();
    let places: Vec<Vertex> = routers.concat().iter().map(|r| r.vertex).collect();
    let vertices: Vec<Vertex> = sites.iter().map(|site| site.vertex).collect();
    let columns = columns(&machine.fabric, by, &places, &vertices);
    let mut columns = columns.chunks(sites.len().max(1));
    let mut sums = Vec::with_capacity(sites.len() * routers.len());
    for module in &routers {
        let mut sum = vec![0; sites.len()];
        for column in columns.by_ref().take(module.len()) {
            for (sum, &cost) in sum.iter_mut().zip(column) {
                *sum += cost;
            }
        }
        sums.append(&mut sum);
    }
    let (base, extra) = if balanced {
        (clients / count, clients % count)
    } else {
        (clients, 0)
    };
    Some(Transport {
        supplies: sites.iter().map(|site| site.clients).collect(),
        costs: sums,
        base: vec![base; count as usize],
        extra,
        sides: None,
    })
}

/// Lower limit of the utilisation at a vertex with routers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CutBound {
    /// The vertex.
    pub vertex: Vertex,
    /// Units that the routers of the vertex take if loads are balanced.
    pub units: f64,
    /// If all links into the vertex are used equally. Holds for every plan.
    pub any: f64,
    /// For rules that ignore the last dimension. Its two links into the vertex then take everything
    /// except what starts at the vertex's own position.
    pub blind: f64,
}

/// Returns the cut bound of each vertex with routers, in order of vertex; empty if the fabric is
/// not a grid.
#[must_use]
pub fn cuts(machine: &Machine) -> Vec<CutBound> {
    let Fabric::Grid(grid, _) = &machine.fabric else {
        return Vec::new();
    };
    let mut units = std::collections::BTreeMap::<Vertex, f64>::new();
    for net in machine.data_nets() {
        let routers = &machine.nets[net].routers;
        for &router in routers {
            let vertex = machine.routers[usize::from(router)].vertex;
            let share = machine.clients.len() as f64 / routers.len() as f64;
            *units.entry(vertex).or_insert(0.0) += share;
        }
    }
    let last = grid.dimensions().len() - 1;
    let size = f64::from(grid.dimensions()[last].size);
    units
        .into_iter()
        .map(|(vertex, units)| {
            // Links have the same capacity in both directions, so the outgoing ones represent the
            // incoming ones.
            let links = || grid.neighbours(vertex).map(|(link, _)| link);
            let all: f64 = links().filter_map(|link| grid.capacity(link)).sum();
            let along_last = links().filter(|&link| grid.describe(link).dimension == last);
            let narrow = along_last
                .filter_map(|link| grid.capacity(link))
                .fold(f64::INFINITY, f64::min);
            let blind = units * (size - 1.0) / size / 2.0 / narrow;
            CutBound {
                vertex,
                units,
                any: units / all,
                blind,
            }
        })
        .collect()
}
