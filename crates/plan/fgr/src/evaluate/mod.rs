//! What a plan costs: distances, link loads, router balance, jobs, failures, and the lower limits
//! for any plan.
//!
//! All figures are for data nets; metadata is too little to load a link. Utilisation is units
//! divided by GB/s: `units / utilisation` of the hottest link is the rate in GB/s that all clients
//! together reach before that link is full.

pub mod bounds;
mod failures;
mod gather;
mod jobs;
mod loads;
mod rings;

pub use failures::{Failure, Unit, expected_unreachable, random_failures, single_failures};
pub use jobs::{JobEfficiency, compact_jobs, job_efficiency, scattered_jobs};
pub use loads::{Gateways, LinkLoads, Traffic};

use std::collections::BTreeMap;

use crate::costs::Costs;
use crate::evaluate::loads::{each_stream, parts_of};
use crate::evaluate::rings::Positions;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::policy::Metric;
use crate::topology::{Fabric, Link};

/// Minimum, maximum, mean and standard deviation of integers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Number of integers.
    pub count: u64,
    /// The minimum; 0 if there are no integers.
    pub min: f64,
    /// The maximum.
    pub max: f64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation of the whole population.
    pub deviation: f64,
}

impl Summary {
    /// Summarises integers, each given with its number of occurrences. `scale` holds the values
    /// that stand for 1 in the integers and in the occurrences.
    pub(crate) fn of(numbers: impl Iterator<Item = (u64, u64)>, scale: (u64, u64)) -> Self {
        // Integer sums do not depend on the order.
        let (mut count, mut sum, mut squares) = (0_u64, 0_u128, 0_u128);
        let (mut min, mut max) = (u64::MAX, 0);
        for (number, times) in numbers.filter(|&(_, times)| times > 0) {
            count += times;
            sum += u128::from(number) * u128::from(times);
            squares += u128::from(number).pow(2) * u128::from(times);
            min = min.min(number);
            max = max.max(number);
        }
        if count == 0 {
            return Self::default();
        }
        let mean = sum as f64 / count as f64;
        let variance = (squares as f64 / count as f64 - mean * mean).max(0.0);
        let unit = scale.0 as f64;
        Self {
            count: count / scale.1,
            min: min as f64 / unit,
            max: max as f64 / unit,
            mean: mean / unit,
            deviation: variance.sqrt() / unit,
        }
    }
}

/// Summary of link loads.
#[derive(Clone, Debug, PartialEq)]
pub struct Utilisation {
    /// Units per GB/s on the hottest link.
    pub max: f64,
    /// The hottest link; of equally hot links, the first.
    pub hottest: Option<Link>,
    /// GB/s of all clients together when the hottest link is full and all streams are equal.
    pub ceiling: f64,
    /// Sum of the utilisation of all links, which slows down jobs that use the fabric themselves.
    pub work: f64,
    /// Loads by dimension; empty if the fabric has no dimensions.
    pub by_dimension: Vec<DimensionLoad>,
}

/// The links of one dimension of a grid.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DimensionLoad {
    /// Mean load of a link in units.
    pub mean: f64,
    /// Units per GB/s on the hottest link.
    pub max: f64,
    /// Sum of the utilisation of the links.
    pub work: f64,
}

/// What a plan costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Pairs of a client and a net without a router.
    pub unserved: u64,
    /// Hops of each pair.
    pub hops: Summary,
    /// Number of pairs by hops. A pair is divided if several routers share it.
    pub hops_histogram: Vec<f64>,
    /// Weighted hops of each pair.
    pub cost: Summary,
    /// Weighted hops of each client, summed over its nets.
    pub client_cost: Summary,
    /// Mean hops along each dimension; empty if the fabric has no dimensions.
    pub hops_by_dimension: Vec<f64>,
    /// Clients of each router node of data nets, summed over the nets to which the node forwards.
    pub router_load: Summary,
    /// Loads of links when clients write.
    pub write: Utilisation,
    /// Loads of links when clients read.
    pub read: Utilisation,
}

impl Evaluation {
    /// Evaluates a plan if clients use these routers.
    #[must_use]
    pub fn new(machine: &Machine, plan: &Plan, gateways: Gateways<'_>) -> Self {
        let (distances, loads) = rayon::join(
            || Distances::new(machine, plan, gateways),
            || LinkLoads::both(machine, plan, gateways),
        );
        let parts = plan.parts();
        let pairs = distances.hops.iter().sum::<u64>() as f64 / parts as f64;
        let [write, read] = loads.map(|loads| utilisation(machine, &loads, pairs));
        let numbered = |counts: &[u64]| Summary::of((0..).zip(counts.iter().copied()), (1, parts));
        let histogram = distances
            .hops
            .iter()
            .map(|&count| count as f64 / parts as f64);
        Self {
            unserved: distances.unserved,
            hops: numbered(&distances.hops),
            hops_histogram: histogram.collect(),
            hops_by_dimension: dimension_hops(machine, plan, gateways, pairs),
            cost: numbered(&distances.cost),
            client_cost: Summary::of(distances.client_cost.into_iter(), (parts, 1)),
            router_load: router_load(machine, plan, gateways),
            write,
            read,
        }
    }

    /// Clients of the router with the most, relative to the mean.
    #[must_use]
    pub fn balance(&self) -> f64 {
        self.router_load.max / self.router_load.mean
    }
}

/// Pairs by hops and by cost, and each row's cost over all nets.
#[derive(Default)]
struct Distances {
    unserved: u64,
    hops: Vec<u64>,
    cost: Vec<u64>,
    client_cost: Vec<(u64, u64)>,
}

impl Distances {
    fn new(machine: &Machine, plan: &Plan, gateways: Gateways<'_>) -> Self {
        let routers: Vec<_> = machine.routers.iter().map(|router| router.vertex).collect();
        let mut hops = Costs::new(&machine.fabric, Metric::Hops, routers.clone());
        let mut cost = Costs::new(&machine.fabric, Metric::Cost, routers);
        let nets: Vec<usize> = machine.data_nets().collect();
        let mut routers = Vec::new();
        let mut found = Self::default();
        for (row, entry) in plan.rows().iter().enumerate() {
            let (hops, cost) = (hops.row(entry.vertex), cost.row(entry.vertex));
            let clients = u64::from(entry.clients);
            let mut sum = 0;
            for &net in &nets {
                gateways.fill(plan, row, net, &mut routers);
                if routers.is_empty() {
                    found.unserved += clients;
                }
                let parts = parts_of(plan, entry.clients, routers.len());
                for router in routers.iter().map(|&router| usize::from(router)) {
                    count(&mut found.hops, hops[router], parts);
                    count(&mut found.cost, cost[router], parts);
                    sum += u64::from(cost[router]) * parts;
                }
            }
            found.client_cost.push((sum / clients.max(1), clients));
        }
        found
    }
}

fn count(histogram: &mut Vec<u64>, value: u32, times: u64) {
    let value = value as usize;
    if histogram.len() <= value {
        histogram.resize(value + 1, 0);
    }
    histogram[value] += times;
}

/// Mean hops along each dimension of a grid.
fn dimension_hops(machine: &Machine, plan: &Plan, gateways: Gateways<'_>, pairs: f64) -> Vec<f64> {
    let Fabric::Grid(grid, _) = &machine.fabric else {
        return Vec::new();
    };
    let mut sums = vec![0_u64; grid.dimensions().len()];
    let positions = Positions::new(grid);
    each_stream(machine, plan, gateways, |client, router, parts| {
        let (here, there) = (positions.of(client), positions.of(router));
        for (d, sum) in sums.iter_mut().enumerate() {
            *sum += u64::from(grid.distance(d, here[d], there[d])) * parts;
        }
    });
    let total = pairs * plan.parts() as f64;
    sums.iter().map(|&sum| sum as f64 / total).collect()
}

/// Parts of clients of each router, by index.
pub(crate) fn clients_of_routers(
    machine: &Machine,
    plan: &Plan,
    gateways: Gateways<'_>,
) -> Vec<u64> {
    let mut clients = vec![0; machine.routers.len()];
    let nets: Vec<usize> = machine.data_nets().collect();
    let mut routers = Vec::new();
    for (row, entry) in plan.rows().iter().enumerate() {
        for &net in &nets {
            gateways.fill(plan, row, net, &mut routers);
            for &router in &routers {
                clients[usize::from(router)] += parts_of(plan, entry.clients, routers.len());
            }
        }
    }
    clients
}

fn router_load(machine: &Machine, plan: &Plan, gateways: Gateways<'_>) -> Summary {
    let clients = clients_of_routers(machine, plan, gateways);
    let node_of = machine.nodes_of_routers();
    let nets = machine.data_nets();
    let routers = nets.flat_map(|net| &machine.nets[net].routers);
    let mut loads: BTreeMap<u16, u64> = BTreeMap::new();
    for &router in routers {
        let router = usize::from(router);
        *loads.entry(node_of[router]).or_default() += clients[router];
    }
    let loads = loads.into_values().map(|clients| (clients, 1));
    Summary::of(loads, (plan.parts(), 1))
}

fn utilisation(machine: &Machine, loads: &LinkLoads, pairs: f64) -> Utilisation {
    let mut found = Utilisation {
        max: 0.0,
        hottest: None,
        ceiling: f64::INFINITY,
        work: 0.0,
        by_dimension: Vec::new(),
    };
    let mut links_of = Vec::new();
    if let Fabric::Grid(grid, _) = &machine.fabric {
        found.by_dimension = vec![DimensionLoad::default(); grid.dimensions().len()];
        links_of = vec![0_u32; grid.dimensions().len()];
    }
    for (link, load, capacity) in loads.links(&machine.fabric) {
        let used = load / capacity;
        found.work += used;
        if used > found.max {
            (found.max, found.hottest) = (used, Some(link));
        }
        if let Fabric::Grid(grid, _) = &machine.fabric {
            let d = grid.describe(link).dimension;
            let entry = &mut found.by_dimension[d];
            entry.mean += load;
            entry.max = entry.max.max(used);
            entry.work += used;
            links_of[d] += 1;
        }
    }
    for (entry, links) in found.by_dimension.iter_mut().zip(links_of) {
        entry.mean /= f64::from(links.max(1));
    }
    found.ceiling = pairs / found.max;
    found
}
