//! How much each link carries, for writes (client to router) and reads (router to client).

use std::collections::BTreeSet;

use topology::{Fabric, Grid, Link, Vertex};

use crate::evaluate::gather::{Gather, Side};
use crate::evaluate::rings::Rings;
use crate::machine::Machine;
use crate::plan::Plan;

/// The direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// From the clients to the routers.
    Write,
    /// From the routers to the clients.
    Read,
}

/// Which routers of a plan are in use.
#[derive(Clone, Copy, Debug)]
pub enum Gateways<'a> {
    /// The primaries.
    Primary,
    /// The backup with this number, from 1; where there is none, no router.
    Backup(usize),
    /// What LNet falls back to when these routers, by index, are dead.
    Without(&'a BTreeSet<u16>),
}

impl Gateways<'_> {
    /// The routers that share a row's messages to a net; one at most unless the plan is flat.
    pub fn fill(self, plan: &Plan, row: usize, net: usize, routers: &mut Vec<u16>) {
        let all = plan.routers(row, net);
        let most = if plan.is_shared() { all.len() } else { 1 };
        routers.clear();
        match self {
            Self::Primary => routers.extend(all.iter().take(most)),
            Self::Backup(number) => routers.extend(all.iter().skip(number).take(most)),
            Self::Without(dead) => {
                let alive = all.iter().filter(|router| !dead.contains(router));
                routers.extend(alive.take(most));
            }
        }
    }
}

/// The load of every link in units: one unit is what one client exchanges with one net.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkLoads {
    /// By link number.
    units: Vec<f64>,
}

impl LinkLoads {
    /// The loads when every client exchanges one unit with every data net.
    #[must_use]
    pub fn new(machine: &Machine, plan: &Plan, gateways: Gateways<'_>, traffic: Traffic) -> Self {
        let Fabric::Grid(grid, tie) = &machine.fabric else {
            return Self::by_walking(machine, plan, gateways, traffic);
        };
        let mut gather = Gather::new(machine, grid, *tie, Side::of(traffic));
        each_stream(machine, plan, gateways, |client, router, parts| {
            gather.add(client, router, parts);
        });
        Self::of_rings(grid, plan, &gather.into_rings())
    }

    /// The loads of writes and of reads at once.
    #[must_use]
    pub fn both(machine: &Machine, plan: &Plan, gateways: Gateways<'_>) -> [Self; 2] {
        let both = [Traffic::Write, Traffic::Read];
        let Fabric::Grid(grid, tie) = &machine.fabric else {
            return both.map(|traffic| Self::by_walking(machine, plan, gateways, traffic));
        };
        let new = |traffic| Gather::new(machine, grid, *tie, Side::of(traffic));
        let [mut write, mut read] = both.map(new);
        each_stream(machine, plan, gateways, |client, router, parts| {
            write.add(client, router, parts);
            read.add(client, router, parts);
        });
        [write, read].map(|gather| Self::of_rings(grid, plan, &gather.into_rings()))
    }

    fn of_rings(grid: &Grid, plan: &Plan, rings: &Rings<'_>) -> Self {
        let scale = 2.0 * plan.parts() as f64;
        let mut units = vec![0.0; grid.link_slots() as usize];
        rings.each(|d, direction, vertex, halves| {
            let link = grid.slot(Vertex(vertex), d, direction);
            units[link.0 as usize] = halves as f64 / scale;
        });
        Self { units }
    }

    /// The same, by walking every path link by link: what other fabrics need, and the reference for
    /// those that do not.
    #[must_use]
    pub fn by_walking(
        machine: &Machine,
        plan: &Plan,
        gateways: Gateways<'_>,
        traffic: Traffic,
    ) -> Self {
        let mut units = vec![0.0; machine.fabric.link_slots() as usize];
        let scale = plan.parts() as f64;
        each_stream(machine, plan, gateways, |client, router, parts| {
            let (from, to) = match traffic {
                Traffic::Write => (client, router),
                Traffic::Read => (router, client),
            };
            machine.fabric.walk(from, to, &mut |link, share| {
                units[link.0 as usize] += share * parts as f64 / scale;
            });
        });
        Self { units }
    }

    /// Units on a link.
    #[must_use]
    pub fn load(&self, link: Link) -> f64 {
        self.units.get(link.0 as usize).copied().unwrap_or(0.0)
    }

    /// Every link of the fabric with its load in units and its capacity in GB/s.
    pub fn links<'a>(&'a self, fabric: &'a Fabric) -> impl Iterator<Item = (Link, f64, f64)> + 'a {
        let slots = (0..).map(Link).zip(&self.units);
        slots.filter_map(|(link, &load)| Some((link, load, fabric.capacity(link)?)))
    }
}

/// Tells every stream of a plan: the place of the clients, that of the router, and how many parts of
/// a unit. Streams of a row to one place are told as one where nets follow each other: on Titan that
/// halves them.
pub(super) fn each_stream(
    machine: &Machine,
    plan: &Plan,
    gateways: Gateways<'_>,
    mut visit: impl FnMut(Vertex, Vertex, u64),
) {
    let nets = nets_by_place(machine);
    let is_primary = matches!(gateways, Gateways::Primary) && !plan.is_shared();
    let mut routers = Vec::new();
    for (row, entry) in plan.rows().iter().enumerate() {
        let mut pending: Option<(Vertex, u64)> = None;
        let mut tell = |router: u16, parts| {
            let router = machine.routers[usize::from(router)].vertex;
            match &mut pending {
                Some((place, sum)) if *place == router => *sum += parts,
                _ => {
                    if let Some((place, sum)) = pending.replace((router, parts)) {
                        visit(entry.vertex, place, sum);
                    }
                }
            }
        };
        for &net in &nets {
            if is_primary {
                if let Some(router) = plan.primary(row, net) {
                    tell(router, parts_of(plan, entry.clients, 1));
                }
                continue;
            }
            gateways.fill(plan, row, net, &mut routers);
            let parts = parts_of(plan, entry.clients, routers.len());
            for &router in &routers {
                tell(router, parts);
            }
        }
        if let Some((place, sum)) = pending {
            visit(entry.vertex, place, sum);
        }
    }
}

/// The data nets, those of one group whose routers stand at the same places next to each other.
fn nets_by_place(machine: &Machine) -> Vec<usize> {
    let mut nets: Vec<usize> = machine.data_nets().collect();
    nets.sort_by_key(|&net| {
        let entry = &machine.nets[net];
        let first = entry.routers.first();
        (
            entry.group,
            first.map(|&router| machine.routers[usize::from(router)].vertex),
        )
    });
    nets
}

/// Parts of a unit that each of `routers` sharing routers gets from `clients` clients.
pub(super) fn parts_of(plan: &Plan, clients: u32, routers: usize) -> u64 {
    u64::from(clients) * plan.parts() / routers.max(1) as u64
}
