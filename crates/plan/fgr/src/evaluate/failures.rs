//! The state after a module or a node dies and LNet uses the first living backup.
//!
//! Only the streams of the dead routers move. A failure is therefore evaluated by changing the
//! differences of the whole plan, not by computing them again. All single-module failures together
//! move every stream once.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use lnet_types::SplitMix64;

use crate::evaluate::loads::parts_of;
use crate::evaluate::rings::Rings;
use crate::evaluate::{Gateways, clients_of_routers};
use crate::machine::{Machine, Role};
use crate::plan::Plan;
use crate::random::draw;
use crate::topology::{Fabric, Vertex};

/// What dies together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A whole module.
    Module,
    /// One node.
    Node,
}

/// The state after one failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The dead routers, by index.
    pub dead: Vec<u16>,
    /// Pairs of a client and a net that no router serves.
    pub unreachable: u64,
    /// The router with the most clients.
    pub worst_router: u16,
    /// Clients of that router, relative to the mean of all routers before the failure.
    pub worst_load: f64,
    /// Units per GB/s on the hottest link when clients write. Only on grids.
    pub write_max: Option<f64>,
    /// Units per GB/s on the hottest link when clients read. Only on grids.
    pub read_max: Option<f64>,
}

/// Evaluates every failure of one unit of data routers, in order of index.
#[must_use]
pub fn single_failures(machine: &Machine, plan: &Plan, unit: Unit) -> Vec<Failure> {
    let before = Before::new(machine, plan);
    let units = units(machine, unit).into_iter();
    units.map(|dead| before.fail(dead)).collect()
}

/// Evaluates `trials` random failures of `count` units at once. Equal seeds give equal failures.
#[must_use]
pub fn random_failures(
    machine: &Machine,
    plan: &Plan,
    unit: Unit,
    count: usize,
    trials: usize,
    seed: u64,
) -> Vec<Failure> {
    let before = Before::new(machine, plan);
    let mut units = units(machine, unit);
    let count = count.min(units.len());
    let mut random = SplitMix64::new(seed);
    let trial = |_| {
        draw(&mut random, &mut units, count);
        before.fail(units[..count].concat())
    };
    (0..trials).map(trial).collect()
}

/// Returns the routers of each unit of data routers.
fn units(machine: &Machine, unit: Unit) -> Vec<Vec<u16>> {
    let is_data = |role: u16| machine.groups[usize::from(role)].role == Role::Data;
    let modules = machine
        .modules
        .iter()
        .filter(|module| is_data(module.group));
    let routers = modules.flat_map(|module| match unit {
        Unit::Module => vec![module.routers.clone().collect()],
        Unit::Node => module.routers.clone().map(|router| vec![router]).collect(),
    });
    routers.collect()
}

/// The whole plan before the failure.
struct Before<'a> {
    machine: &'a Machine,
    plan: &'a Plan,
    clients: Vec<u64>,
    mean: f64,
    /// Rows and nets that each router serves.
    served_by: Vec<Vec<(u32, u16)>>,
    rings: Option<(Rings<'a>, Rings<'a>)>,
    /// GB/s by link number; 0 if no link has the number.
    capacities: Vec<f64>,
}

impl<'a> Before<'a> {
    fn new(machine: &'a Machine, plan: &'a Plan) -> Self {
        let clients = clients_of_routers(machine, plan, Gateways::Primary);
        let data_routers: usize = machine
            .data_nets()
            .map(|net| machine.nets[net].routers.len())
            .sum();
        let mut served_by = vec![Vec::new(); machine.routers.len()];
        let nets: Vec<usize> = machine.data_nets().collect();
        let mut routers = Vec::new();
        for row in 0..plan.rows().len() {
            for &net in &nets {
                Gateways::Primary.fill(plan, row, net, &mut routers);
                for &router in &routers {
                    // A plan has fewer rows than 2^32 and fewer nets than 2^16.
                    served_by[usize::from(router)].push((row as u32, net as u16));
                }
            }
        }
        let mut before = Self {
            machine,
            plan,
            mean: clients.iter().sum::<u64>() as f64 / data_routers.max(1) as f64,
            clients,
            served_by,
            rings: None,
            capacities: capacities(&machine.fabric),
        };
        before.rings = before.base_rings();
        before
    }

    fn base_rings(&self) -> Option<(Rings<'a>, Rings<'a>)> {
        let Fabric::Grid(grid, tie) = &self.machine.fabric else {
            return None;
        };
        let empty = Rings::new(grid, *tie);
        let mut rings = (empty.clone(), empty);
        for (router, cells) in (0..).zip(&self.served_by) {
            for &(row, net) in cells {
                let sharing = self.sharing(row, net);
                self.shift(&mut rings, row, &[router], sharing, 1);
            }
        }
        Some(rings)
    }

    /// Number of routers that share a cell before the failure.
    fn sharing(&self, row: u32, net: u16) -> usize {
        let routers = self.plan.routers(row as usize, usize::from(net)).len();
        if self.plan.is_shared() { routers } else { 1 }
    }

    fn vertex(&self, router: u16) -> Vertex {
        self.machine.routers[usize::from(router)].vertex
    }

    /// Adds a row's streams to and from routers, each with a share of one in `sharing`. A sign of
    /// -1 removes them.
    fn shift(
        &self,
        rings: &mut (Rings<'_>, Rings<'_>),
        row: u32,
        routers: &[u16],
        sharing: usize,
        sign: i64,
    ) {
        let entry = self.plan.rows()[row as usize];
        let units = sign * parts_of(self.plan, entry.clients, sharing) as i64;
        for &router in routers {
            rings.0.add(entry.vertex, self.vertex(router), units);
            rings.1.add(self.vertex(router), entry.vertex, units);
        }
    }

    fn fail(&self, dead: Vec<u16>) -> Failure {
        let mut rings = self.rings.clone();
        let mut clients = self.clients.clone();
        let mut unreachable = 0;
        let gone: BTreeSet<u16> = dead.iter().copied().collect();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        // A cell that several dead routers share moves once.
        let cells: BTreeSet<(u32, u16)> = dead
            .iter()
            .flat_map(|&router| self.served_by[usize::from(router)].iter().copied())
            .collect();
        for (row, net) in cells {
            let (at, to) = (row as usize, usize::from(net));
            Gateways::Primary.fill(self.plan, at, to, &mut before);
            Gateways::Without(&gone).fill(self.plan, at, to, &mut after);
            let units = self.plan.rows()[at].clients;
            for (routers, sign) in [(&before, -1), (&after, 1)] {
                if let Some(rings) = &mut rings {
                    self.shift(rings, row, routers, routers.len(), sign);
                }
                let parts = sign * parts_of(self.plan, units, routers.len()) as i64;
                for &router in routers {
                    let load = &mut clients[usize::from(router)];
                    *load = load.saturating_add_signed(parts);
                }
            }
            if after.is_empty() {
                unreachable += u64::from(units);
            }
        }
        let worst = (0_u16..)
            .zip(&clients)
            .max_by_key(|&(router, &load)| (load, Reverse(router)));
        let (worst_router, worst) = worst.map_or((0, 0), |(router, &load)| (router, load));
        Failure {
            dead,
            unreachable,
            worst_router,
            worst_load: worst as f64 / self.mean,
            write_max: rings.as_ref().map(|(write, _)| self.hottest(write)),
            read_max: rings.as_ref().map(|(_, read)| self.hottest(read)),
        }
    }

    fn hottest(&self, rings: &Rings<'_>) -> f64 {
        let Fabric::Grid(grid, _) = &self.machine.fabric else {
            return 0.0;
        };
        let scale = 2.0 * self.plan.parts() as f64;
        let mut most = 0.0_f64;
        rings.each(|d, direction, vertex, halves| {
            if halves > 0 {
                let link = grid.slot(Vertex(vertex), d, direction);
                most = most.max(halves as f64 / scale / self.capacities[link.0 as usize]);
            }
        });
        most
    }
}

fn capacities(fabric: &Fabric) -> Vec<f64> {
    let slots = (0..fabric.link_slots()).map(crate::topology::Link);
    slots
        .map(|link| fabric.capacity(link).unwrap_or(0.0))
        .collect()
}

/// Returns the expected number of `sets` sets of `size` units that are completely dead if `dead` of
/// `units` units die at random: `sets · C(units - size, dead - size) / C(units, dead)`.
#[must_use]
pub fn expected_unreachable(units: u32, size: u32, sets: u32, dead: u32) -> f64 {
    // The chance that the first unit of the set is dead, then the second of the remaining units,
    // and so on.
    let chance =
        |i: u32| f64::from(dead.saturating_sub(i)) / f64::from(units.saturating_sub(i).max(1));
    f64::from(sets) * (0..size).map(chance).product::<f64>()
}
