//! How much each link carries, for writes (client to router) and reads (router to client).

use std::collections::BTreeSet;

use topology::{Fabric, Grid, Link, Tie, Vertex};

use crate::evaluate::gather::gather;
use crate::evaluate::rings::Positions;
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
        if matches!(self, Self::Primary) && !plan.is_shared() {
            routers.clear();
            routers.extend(plan.primaries(row, &[net]));
            return;
        }
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
        let streams = Streams::new(machine, plan, gateways);
        Self::gathered(&streams, (grid, *tie), &Positions::new(grid), traffic)
    }

    /// The loads of writes and of reads at once.
    #[must_use]
    pub fn both(machine: &Machine, plan: &Plan, gateways: Gateways<'_>) -> [Self; 2] {
        let both = [Traffic::Write, Traffic::Read];
        let Fabric::Grid(grid, tie) = &machine.fabric else {
            return both.map(|traffic| Self::by_walking(machine, plan, gateways, traffic));
        };
        let streams = Streams::new(machine, plan, gateways);
        let positions = Positions::new(grid);
        let loads = |traffic| Self::gathered(&streams, (grid, *tie), &positions, traffic);
        let (write, read) = rayon::join(|| loads(Traffic::Write), || loads(Traffic::Read));
        [write, read]
    }

    fn gathered(
        streams: &Streams<'_>,
        (grid, tie): (&Grid, Tie),
        positions: &Positions,
        traffic: Traffic,
    ) -> Self {
        let halves = gather(streams, (grid, tie), positions, traffic);
        let scale = 2.0 * streams.plan.parts() as f64;
        // Links are numbered by vertex first, then as the halves are.
        let vertices = grid.vertices() as usize;
        let ports = halves.len() / vertices.max(1);
        let mut units = Vec::with_capacity(halves.len());
        for vertex in 0..vertices {
            let of = |port: usize| halves[port * vertices + vertex] as f64 / scale;
            units.extend((0..ports).map(of));
        }
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

    /// Every link that carries something, with its load in units and its capacity in GB/s.
    pub(crate) fn loaded<'a>(
        &'a self,
        fabric: &'a Fabric,
    ) -> impl Iterator<Item = (Link, f64, f64)> + 'a {
        let slots = (0..).map(Link).zip(&self.units);
        let loaded = slots.filter(|&(_, &load)| load > 0.0);
        loaded.filter_map(|(link, &load)| Some((link, load, fabric.capacity(link)?)))
    }

    /// Every link of the fabric with its load in units and its capacity in GB/s.
    pub fn links<'a>(&'a self, fabric: &'a Fabric) -> impl Iterator<Item = (Link, f64, f64)> + 'a {
        let slots = (0..).map(Link).zip(&self.units);
        slots.filter_map(|(link, &load)| Some((link, load, fabric.capacity(link)?)))
    }
}

/// The streams of a plan, from the clients of a row to a place with routers.
pub(super) struct Streams<'a> {
    plan: &'a Plan,
    gateways: Gateways<'a>,
    /// Places with routers of data nets, ascending.
    pub(super) places: Vec<Vertex>,
    /// The number of the place of each router.
    place_of: Vec<usize>,
    nets: Vec<usize>,
}

impl<'a> Streams<'a> {
    pub(super) fn new(machine: &Machine, plan: &'a Plan, gateways: Gateways<'a>) -> Self {
        let nets = nets_by_place(machine);
        let routers = nets.iter().flat_map(|&net| &machine.nets[net].routers);
        let vertices = routers.map(|&router| machine.routers[usize::from(router)].vertex);
        let mut places: Vec<Vertex> = vertices.collect();
        places.sort_unstable();
        places.dedup();
        let routers = machine.routers.iter();
        let place_of = routers.map(|router| places.partition_point(|v| *v < router.vertex));
        Self {
            plan,
            gateways,
            place_of: place_of.collect(),
            places,
            nets,
        }
    }

    /// How many rows the plan has.
    pub(super) fn rows(&self) -> usize {
        self.plan.rows().len()
    }

    /// Where the clients of a row are.
    pub(super) fn vertex(&self, row: usize) -> Vertex {
        self.plan.rows()[row].vertex
    }

    /// Tells the streams of a row: the number of the place, and how many parts of a unit. Streams to
    /// one place are told as one where nets follow each other: on Titan that halves them.
    pub(super) fn of_row(&self, row: usize, mut visit: impl FnMut(usize, u64)) {
        let Self { plan, gateways, .. } = *self;
        let clients = plan.rows()[row].clients;
        let mut pending: Option<(usize, u64)> = None;
        let mut tell = |router: u16, parts| {
            let router = self.place_of[usize::from(router)];
            match &mut pending {
                Some((place, sum)) if *place == router => *sum += parts,
                _ => {
                    if let Some((place, sum)) = pending.replace((router, parts)) {
                        visit(place, sum);
                    }
                }
            }
        };
        if matches!(gateways, Gateways::Primary) && !plan.is_shared() {
            let parts = parts_of(plan, clients, 1);
            for router in plan.primaries(row, &self.nets) {
                tell(router, parts);
            }
        } else {
            let mut routers = Vec::new();
            for &net in &self.nets {
                gateways.fill(plan, row, net, &mut routers);
                let parts = parts_of(plan, clients, routers.len());
                routers.iter().for_each(|&router| tell(router, parts));
            }
        }
        if let Some((place, sum)) = pending {
            visit(place, sum);
        }
    }
}

/// Tells every stream of a plan: the place of the clients, that of the router, and how many parts of
/// a unit.
pub(super) fn each_stream(
    machine: &Machine,
    plan: &Plan,
    gateways: Gateways<'_>,
    mut visit: impl FnMut(Vertex, Vertex, u64),
) {
    let streams = Streams::new(machine, plan, gateways);
    for row in 0..streams.rows() {
        let client = streams.vertex(row);
        streams.of_row(row, |place, parts| {
            visit(client, streams.places[place], parts)
        });
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
