//! The load of each link, for writes (client to router) and reads (router to client).

use std::collections::BTreeSet;

use crate::evaluate::gather::gather;
use crate::evaluate::rings::Positions;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::topology::{Fabric, Grid, Link, Tie, Vertex};

/// The direction in which data moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// From the clients to the routers.
    Write,
    /// From the routers to the clients.
    Read,
}

/// Which routers of a plan clients use.
#[derive(Clone, Copy, Debug)]
pub enum Gateways<'a> {
    /// The primaries.
    Primary,
    /// The backup with this number, from 1; no router if there is no such backup.
    Backup(usize),
    /// The routers that LNet uses if these routers, by index, are dead.
    Without(&'a BTreeSet<u16>),
}

impl Gateways<'_> {
    /// Writes the routers that share a row's messages to a net: at most one, except in flat plans.
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

/// The load of every link in units. One unit is what one client exchanges with one net.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkLoads {
    /// Units by link number.
    units: Vec<f64>,
}

impl LinkLoads {
    /// Calculates the loads if every client exchanges one unit with every data net.
    #[must_use]
    pub fn new(machine: &Machine, plan: &Plan, gateways: Gateways<'_>, traffic: Traffic) -> Self {
        let Fabric::Grid(grid, tie) = &machine.fabric else {
            return Self::by_walking(machine, plan, gateways, traffic);
        };
        let streams = Streams::new(machine, plan, gateways);
        Self::gathered(&streams, (grid, *tie), &Positions::new(grid), traffic)
    }

    /// Calculates the loads of writes and of reads together.
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
        // Links are numbered by vertex first, then in the order of the halves.
        let vertices = grid.vertices() as usize;
        let ports = halves.len() / vertices.max(1);
        let mut units = Vec::with_capacity(halves.len());
        for vertex in 0..vertices {
            let of = |port: usize| halves[port * vertices + vertex] as f64 / scale;
            units.extend((0..ports).map(of));
        }
        Self { units }
    }

    /// Calculates the loads by walking every path link by link. Fabrics other than grids need this;
    /// for grids it is the reference.
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

    /// Load of a link in units.
    #[must_use]
    pub fn load(&self, link: Link) -> f64 {
        self.units.get(link.0 as usize).copied().unwrap_or(0.0)
    }

    /// Every link with a load, with its load in units and its capacity in GB/s.
    pub(crate) fn loaded<'a>(
        &'a self,
        fabric: &'a Fabric,
    ) -> impl Iterator<Item = (Link, f64, f64)> + 'a {
        let slots = (0..).map(Link).zip(&self.units);
        let loaded = slots.filter(|&(_, &load)| load > 0.0);
        loaded.filter_map(|(link, &load)| Some((link, load, fabric.capacity(link)?)))
    }

    /// Every link of the fabric, with its load in units and its capacity in GB/s.
    pub fn links<'a>(&'a self, fabric: &'a Fabric) -> impl Iterator<Item = (Link, f64, f64)> + 'a {
        let slots = (0..).map(Link).zip(&self.units);
        slots.filter_map(|(link, &load)| Some((link, load, fabric.capacity(link)?)))
    }
}

/// The streams of a plan, from the clients of a row to a place with routers.
pub(super) struct Streams<'a> {
    plan: &'a Plan,
    gateways: Gateways<'a>,
    /// Places with routers of data nets, in ascending order.
    pub(super) places: Vec<Vertex>,
    /// The index of each router's place.
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

    /// Number of rows of the plan.
    pub(super) fn rows(&self) -> usize {
        self.plan.rows().len()
    }

    /// The vertex of the clients of a row.
    pub(super) fn vertex(&self, row: usize) -> Vertex {
        self.plan.rows()[row].vertex
    }

    /// Calls `visit` for the streams of a row, with the index of the place and the number of parts
    /// of a unit. Consecutive nets with the same place count as one stream, which halves the calls
    /// on Titan.
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

/// Calls `visit` for every stream of a plan, with the place of the clients, the place of the
/// router, and the number of parts of a unit.
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

/// The data nets. Nets of one group whose routers have the same places are next to each other.
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

/// Parts of a unit that each of `routers` routers gets from `clients` clients that share them.
pub(super) fn parts_of(plan: &Plan, clients: u32, routers: usize) -> u64 {
    u64::from(clients) * plan.parts() / routers.max(1) as u64
}
