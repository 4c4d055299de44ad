//! The figures of a placement, group by group: a move changes one group or two, and the others keep
//! their loads.

use topology::{Link, Vertex};

use crate::assign::assign;
use crate::costs::Costs;
use crate::evaluate::{Gateways, LinkLoads, Traffic, clients_of_routers};
use crate::machine::{Group, Machine, NetEntry};
use crate::place::{Figures, Site, search_options};
use crate::plan::{Plan, PlanError};
use crate::policy::{Metric, Policy};

/// Puts a module on a site.
pub(super) fn stand(machine: &mut Machine, module: usize, site: &Site) {
    let entry = &mut machine.modules[module];
    entry.blade.clone_from(&site.blade);
    entry.cabinet.clone_from(&site.cabinet);
    entry.home = site.nodes.first().map_or(Vertex(0), |node| node.1);
    let range = usize::from(entry.routers.start)..usize::from(entry.routers.end);
    for (router, &(id, vertex)) in machine.routers[range].iter_mut().zip(&site.nodes) {
        router.id = id;
        router.vertex = vertex;
    }
}

/// What one group contributes.
#[derive(Clone)]
pub(super) struct GroupScore {
    /// Weighted hops of all pairs, and the pairs.
    cost: (u64, u64),
    /// Parts of clients of each router.
    clients: Vec<u64>,
    write: LinkLoads,
    read: LinkLoads,
}

impl GroupScore {
    /// Of a machine that has this group only.
    pub(super) fn of(machine: &Machine, policy: Policy) -> Result<Self, PlanError> {
        let plan = assign(machine, policy, &search_options())?;
        let loads = |traffic| LinkLoads::new(machine, &plan, Gateways::Primary, traffic);
        Ok(Self {
            cost: cost(machine, &plan),
            clients: clients_of_routers(machine, &plan, Gateways::Primary),
            write: loads(Traffic::Write),
            read: loads(Traffic::Read),
        })
    }
}

fn cost(machine: &Machine, plan: &Plan) -> (u64, u64) {
    let routers = machine.routers.iter().map(|router| router.vertex).collect();
    let mut costs = Costs::new(&machine.fabric, Metric::Cost, routers);
    let (mut sum, mut pairs) = (0, 0);
    for (row, entry) in plan.rows().iter().enumerate() {
        let costs = costs.row(entry.vertex);
        for net in 0..machine.nets.len() {
            // A flat plan shares; the others have one router.
            let routers = plan.routers(row, net);
            let used = if plan.is_shared() { routers.len() } else { 1 };
            for &router in routers.iter().take(used) {
                sum += u64::from(entry.clients) * u64::from(costs[usize::from(router)]);
                pairs += u64::from(entry.clients);
            }
        }
    }
    (sum, pairs)
}

/// The data group with this index as a machine of its own, its clients without names.
pub(super) fn group_machine(machine: &Machine, index: usize) -> Machine {
    let group = &machine.groups[index];
    let modules = group.modules();
    let first = usize::from(modules.start);
    let mut alone = Machine {
        modules: machine.modules[first..usize::from(modules.end)].to_vec(),
        routers: Vec::new(),
        groups: vec![Group {
            nets: (0..group.nets.len() as u16).collect(),
            sub_groups: group.sub_groups.clone(),
            ..group.clone()
        }],
        nets: Vec::new(),
        ..machine.clone()
    };
    for client in &mut alone.clients {
        client.name = None;
    }
    for range in &mut alone.groups[0].sub_groups {
        *range = range.start - modules.start..range.end - modules.start;
    }
    alone.nets = group
        .nets
        .iter()
        .map(|&net| NetEntry {
            net: machine.nets[usize::from(net)].net,
            group: 0,
            routers: Vec::new(),
        })
        .collect();
    for (module, index) in (0_u16..).zip(modules) {
        let start = alone.routers.len() as u16;
        for router in machine.routers_of(index) {
            let net = group.nets.partition_point(|&net| net < router.net);
            alone.nets[net].routers.push(alone.routers.len() as u16);
            let mut router = router.clone();
            router.module = module;
            router.net = net as u16;
            alone.routers.push(router);
        }
        let entry = &mut alone.modules[usize::from(module)];
        entry.group = 0;
        entry.routers = start..alone.routers.len() as u16;
    }
    alone
}

/// The figures of all groups together, and what leads the search where the hottest link or router is
/// not the one that moves: sixteenth powers weigh what is nearly as hot.
pub(super) struct Total {
    pub(super) figures: Figures,
    /// Of balance, write and read.
    pub(super) soft: [f64; 3],
}

/// Adds groups up over the links of one machine.
pub(super) struct Adder {
    /// One over GB/s, with the link, for every link there is.
    links: Vec<(Link, f64)>,
}

impl Adder {
    pub(super) fn new(machine: &Machine) -> Self {
        let slots = (0..machine.fabric.link_slots()).map(Link);
        let links = slots.filter_map(|link| Some((link, 1.0 / machine.fabric.capacity(link)?)));
        Self {
            links: links.collect(),
        }
    }

    pub(super) fn total(&self, groups: &[GroupScore]) -> Total {
        let sum: u64 = groups.iter().map(|g| g.cost.0).sum();
        let pairs: u64 = groups.iter().map(|g| g.cost.1).sum();
        let loads = || groups.iter().flat_map(|g| &g.clients).map(|&c| c as f64);
        let mean = loads().sum::<f64>() / loads().count().max(1) as f64;
        let (balance, soft_balance) = peak(loads().map(|load| load / mean));
        let (write, soft_write) = self.peak(groups, |group| &group.write);
        let (read, soft_read) = self.peak(groups, |group| &group.read);
        Total {
            figures: Figures {
                cost: sum as f64 / pairs.max(1) as f64,
                balance,
                write,
                read,
            },
            soft: [soft_balance, soft_write, soft_read],
        }
    }

    fn peak(&self, groups: &[GroupScore], of: impl Fn(&GroupScore) -> &LinkLoads) -> (f64, f64) {
        peak(self.links.iter().map(|&(link, scale)| {
            let units: f64 = groups.iter().map(|group| of(group).load(link)).sum();
            units * scale
        }))
    }
}

/// The largest value, and the sixteenth root of the sum of sixteenth powers.
fn peak(values: impl Iterator<Item = f64>) -> (f64, f64) {
    // Scaled so that the power of a utilisation of thousands is far from the largest number.
    const SCALE: f64 = 1.0 / 1024.0;
    let (mut max, mut sum) = (0.0_f64, 0.0);
    for value in values {
        max = max.max(value);
        let square = (value * SCALE) * (value * SCALE);
        let fourth = square * square;
        let eighth = fourth * fourth;
        sum += eighth * eighth;
    }
    (max, sum.sqrt().sqrt().sqrt().sqrt() / SCALE)
}
