//! Assignments to the nearest routers, to routers in turn, and to the modules of metadata nets.

use rayon::prelude::*;

use crate::assign::Context;
use crate::costs::{Costs, Near};
use crate::machine::{Group, Role};
use crate::plan::Plan;
use crate::policy::{Metric, Policy};
use crate::topology::Vertex;

/// Assigns the nearest routers of each net; of equally near ones, the lower slot first.
pub(super) fn nearest(context: &Context<'_>, by: Metric) -> Plan {
    let mut plan = context.plan_by_site(Policy::Nearest { by }, context.choices);
    let nets = context.data_nets();
    let costs = nets.map(|net| (net, router_costs(context, net, by)));
    let costs: Vec<(usize, Costs<'_>)> = costs.collect();
    plan.fill_in_parts().for_each(|mut part| {
        let mut chosen = Vec::with_capacity(context.choices);
        for (net, costs) in &costs {
            let mut best = Best::new(context, &context.usable[*net], costs);
            for (row, site) in part.rows.iter().enumerate() {
                best.of(site.vertex, &mut chosen);
                part.set(row, *net, &chosen);
            }
        }
    });
    plan
}

/// Returns the distances to the usable routers of a net.
pub(super) fn router_costs<'a>(context: &Context<'a>, net: usize, by: Metric) -> Costs<'a> {
    let vertex = |&router: &u16| context.machine.routers[usize::from(router)].vertex;
    let targets = context.usable[net].iter().map(vertex).collect();
    Costs::new(&context.machine.fabric, by, targets)
}

/// Finds the nearest routers in different failure domains for one vertex at a time.
pub(super) struct Best<'a> {
    context: &'a Context<'a>,
    routers: &'a [u16],
    near: Near<'a>,
    kept: Kept,
}

impl<'a> Best<'a> {
    pub(super) fn new(context: &'a Context<'a>, routers: &'a [u16], costs: &Costs<'a>) -> Self {
        Self {
            context,
            routers,
            near: Near::new(costs.clone()),
            kept: Kept::default(),
        }
    }

    /// Appends the nearest routers of a vertex to `chosen`; of equally near ones, the lower slot
    /// first.
    pub(super) fn of(&mut self, from: Vertex, chosen: &mut Vec<u16>) {
        chosen.clear();
        let routers = self.routers;
        chosen.extend(self.slots(from).map(|slot| routers[usize::from(slot)]));
    }

    /// Returns the slots of the nearest routers of a vertex, nearest first.
    pub(super) fn slots(&mut self, from: Vertex) -> impl Iterator<Item = u16> + '_ {
        let (routers, context) = (self.routers, self.context);
        let domain = |slot: u16| context.domains[usize::from(routers[usize::from(slot)])];
        let choices = context.choices;
        let near = self
            .near
            .row(from, |costs| self.kept.find(costs, choices, domain));
        self.kept.find(near, choices, domain);
        self.kept.0.iter().map(|&(_, slot, _)| slot)
    }
}

/// Distance, slot and domain of the nearest routers so far.
#[derive(Default)]
struct Kept(Vec<(u32, u16, u16)>);

impl Kept {
    /// Finds the nearest routers from distances and slots, with the slots in ascending order.
    /// Returns the distance of the last one if as many were found as wanted.
    fn find(
        &mut self,
        (costs, slots): (&[u32], &[u16]),
        choices: usize,
        domain: impl Fn(u16) -> u16,
    ) -> Option<u32> {
        self.0.clear();
        // Slots ascend: a router at an equal distance never replaces one that is kept.
        let mut limit = u32::MAX;
        for (&cost, &slot) in costs.iter().zip(slots) {
            if cost >= limit {
                continue;
            }
            let domain = domain(slot);
            match self.0.iter().position(|&(_, _, other)| other == domain) {
                Some(same) if self.0[same].0 <= cost => continue,
                Some(same) => {
                    self.0.remove(same);
                }
                None => {}
            }
            let at = self.0.partition_point(|&(other, ..)| other <= cost);
            self.0.insert(at, (cost, slot, domain));
            self.0.truncate(choices);
            if self.0.len() == choices {
                limit = self.0[choices - 1].0;
            }
        }
        (limit != u32::MAX).then_some(limit)
    }
}

/// Assigns all routers of each net.
pub(super) fn flat(context: &Context<'_>) -> Plan {
    let most = context.data_nets().map(|net| context.usable[net].len());
    let choices = most.max().unwrap_or(1);
    let mut plan = context.plan_by_site(Policy::Flat, choices);
    let mut part = plan.fill();
    for net in context.data_nets() {
        for row in 0..part.rows.len() {
            part.set(row, net, &context.usable[net]);
        }
    }
    plan
}

/// Adds the routes to the metadata nets: the modules in order of cost.
pub(super) fn metadata(context: &Context<'_>, plan: &mut Plan) {
    let groups = context.machine.groups.iter();
    for group in groups.filter(|group| group.role == Role::Metadata) {
        let homes = group
            .modules()
            .map(|m| context.machine.modules[usize::from(m)].home);
        let mut costs = Costs::new(&context.machine.fabric, Metric::Cost, homes.collect());
        let (mut modules, mut chosen) = (Vec::new(), Vec::new());
        let mut part = plan.fill();
        for row in 0..part.rows.len() {
            modules.clear();
            modules_by_cost(costs.row(part.rows[row].vertex), group, &mut modules);
            for net in group.nets.iter().map(|&net| usize::from(net)) {
                let routers = modules
                    .iter()
                    .filter_map(|&m| context.router_on(m, net, row));
                chosen.clear();
                context.choose(routers, &mut chosen);
                part.set(row, net, &chosen);
            }
        }
    }
}

/// Appends the modules of a group in order of cost; of equal ones, the lower number first.
pub(super) fn modules_by_cost(costs: &[u32], group: &Group, modules: &mut Vec<u16>) {
    let first = group.modules().start;
    let kept = modules.len();
    modules.extend(group.modules());
    modules[kept..].sort_by_key(|&module| costs[usize::from(module - first)]);
}
