//! The clients that each sub-group serves, how far they reach, and which links they share.

use topology::{Fabric, Vertex};

use crate::evaluate::Summary;
use crate::machine::Machine;
use crate::metrics::data_modules;
use crate::plan::Plan;

/// The clients of one sub-group, or of one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// Index of the group.
    pub group: u16,
    /// The sub-group, from 0; `None` for the group as a whole.
    pub sub_group: Option<u16>,
    /// Clients, the mean over the group's nets.
    pub clients: f64,
    /// Hops from a client to its primary.
    pub hops: Summary,
    /// Positions along each dimension that its clients stand at; empty where there are none.
    pub extent: Vec<u32>,
    /// Directed links that its writes cross.
    pub links: u64,
    /// Those that writes to other zones of the same kind cross too.
    pub shared: u64,
}

/// The zones of all groups and their sub-groups by the primaries of a plan, in order of group, the
/// group itself before its sub-groups.
#[must_use]
pub fn zones(machine: &Machine, plan: &Plan) -> Vec<Zone> {
    let mut kinds: Vec<(u16, Option<u16>)> = Vec::new();
    for (_, module) in data_modules(machine) {
        for key in [(module.group, None), (module.group, Some(module.sub_group))] {
            if !kinds.contains(&key) {
                kinds.push(key);
            }
        }
    }
    kinds.sort_unstable();
    let groups: Vec<_> = kinds.iter().copied().filter(|k| k.1.is_none()).collect();
    let parts: Vec<_> = kinds.iter().copied().filter(|k| k.1.is_some()).collect();
    let mut zones = collect(machine, plan, &groups);
    zones.extend(collect(machine, plan, &parts));
    zones.sort_by_key(|zone| (zone.group, zone.sub_group));
    zones
}

/// What is found of a zone while its streams are told.
#[derive(Clone)]
struct Found {
    clients: u64,
    hops: Vec<(u64, u64)>,
    /// By dimension, the positions seen.
    seen: Vec<Vec<bool>>,
}

/// The zones of one kind: what they share, they share with each other.
fn collect(machine: &Machine, plan: &Plan, kinds: &[(u16, Option<u16>)]) -> Vec<Zone> {
    let of_module: Vec<Option<usize>> = machine
        .modules
        .iter()
        .map(|module| {
            let is_it = |&(group, sub_group): &(u16, Option<u16>)| {
                group == module.group && sub_group.is_none_or(|s| s == module.sub_group)
            };
            kinds.iter().position(is_it)
        })
        .collect();
    let empty = Found {
        clients: 0,
        hops: Vec::new(),
        seen: dimensions(&machine.fabric),
    };
    let mut found = vec![empty; kinds.len()];
    let mut links = Links::new(machine.fabric.link_slots(), kinds.len());
    each_primary(machine, plan, |from, router, clients| {
        let router = &machine.routers[usize::from(router)];
        let Some(zone) = of_module[usize::from(router.module)] else {
            return;
        };
        found[zone].add(&machine.fabric, from, router.vertex, clients);
        links.cross(&machine.fabric, zone, from, router.vertex);
    });
    let counts = links.counts();
    let zones = kinds.iter().zip(found).zip(counts);
    zones
        .map(|((&(group, sub_group), found), (links, shared))| {
            let nets = machine.groups[usize::from(group)].nets.len().max(1);
            Zone {
                group,
                sub_group,
                clients: found.clients as f64 / nets as f64,
                extent: found.extent(),
                hops: Summary::of(found.hops.into_iter(), (1, 1)),
                links,
                shared,
            }
        })
        .collect()
}

fn dimensions(fabric: &Fabric) -> Vec<Vec<bool>> {
    match fabric {
        Fabric::Grid(grid, _) => {
            let sizes = grid.dimensions().iter().map(|d| usize::from(d.size));
            sizes.map(|size| vec![false; size]).collect()
        }
        _ => Vec::new(),
    }
}

fn each_primary(machine: &Machine, plan: &Plan, mut visit: impl FnMut(Vertex, u16, u32)) {
    let nets: Vec<usize> = machine.data_nets().collect();
    for (row, entry) in plan.rows().iter().enumerate() {
        for &net in &nets {
            if let Some(&router) = plan.routers(row, net).first() {
                visit(entry.vertex, router, entry.clients);
            }
        }
    }
}

impl Found {
    fn add(&mut self, fabric: &Fabric, from: Vertex, to: Vertex, clients: u32) {
        let clients = u64::from(clients);
        self.clients += clients;
        self.hops.push((fabric.hops(from, to).into(), clients));
        if let Fabric::Grid(grid, _) = fabric {
            for (d, seen) in self.seen.iter_mut().enumerate() {
                seen[usize::from(grid.position(from, d))] = true;
            }
        }
    }

    fn extent(&self) -> Vec<u32> {
        let count = |seen: &Vec<bool>| seen.iter().filter(|&&at| at).count() as u32;
        self.seen.iter().map(count).collect()
    }
}

/// Which zones cross which link: a bit for each.
struct Links {
    words: usize,
    zones: usize,
    bits: Vec<u64>,
}

impl Links {
    fn new(slots: u32, zones: usize) -> Self {
        let words = zones.div_ceil(64);
        Self {
            words,
            zones,
            bits: vec![0; slots as usize * words],
        }
    }

    fn cross(&mut self, fabric: &Fabric, zone: usize, from: Vertex, to: Vertex) {
        fabric.walk(from, to, &mut |link, _| {
            self.bits[link.0 as usize * self.words + zone / 64] |= 1 << (zone % 64);
        });
    }

    /// Of each zone the links that it crosses, and those that others cross too.
    fn counts(&self) -> Vec<(u64, u64)> {
        let mut counts = vec![(0, 0); self.zones];
        for link in self.bits.chunks(self.words.max(1)) {
            let users: u32 = link.iter().map(|word| word.count_ones()).sum();
            for (zone, count) in counts.iter_mut().enumerate() {
                if link[zone / 64] >> (zone % 64) & 1 == 1 {
                    count.0 += 1;
                    count.1 += u64::from(users > 1);
                }
            }
        }
        counts
    }
}
