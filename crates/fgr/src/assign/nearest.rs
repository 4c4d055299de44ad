//! The nearest routers, routers in turn, and the modules for metadata.

use crate::assign::Context;
use crate::costs::Costs;
use crate::machine::{Group, Role};
use crate::plan::Plan;
use crate::policy::{Metric, Policy};

/// Each net's nearest routers, equal ones in order of slot.
pub(super) fn nearest(context: &Context<'_>, by: Metric) -> Plan {
    let mut plan = context.plan_by_site(Policy::Nearest { by }, context.choices);
    for net in context.data_nets() {
        let routers = &context.usable[net];
        let mut costs = router_costs(context, net, by);
        let mut best = Best::new(context, routers);
        let mut chosen = Vec::with_capacity(context.choices);
        for (row, site) in context.sites.iter().enumerate() {
            best.of(costs.row(site.vertex), &mut chosen);
            plan.set(row, net, &chosen);
        }
    }
    plan
}

/// Distances to the usable routers of a net.
pub(super) fn router_costs<'a>(context: &Context<'a>, net: usize, by: Metric) -> Costs<'a> {
    let vertex = |&router: &u16| context.machine.routers[usize::from(router)].vertex;
    let targets = context.usable[net].iter().map(vertex).collect();
    Costs::new(&context.machine.fabric, by, targets)
}

/// Finds the best routers of different failure domains in one pass over their distances.
pub(super) struct Best<'a> {
    context: &'a Context<'a>,
    routers: &'a [u16],
    /// Distance, slot and domain of the best so far.
    kept: Vec<(u32, usize, u16)>,
}

impl<'a> Best<'a> {
    pub(super) fn new(context: &'a Context<'a>, routers: &'a [u16]) -> Self {
        Self {
            context,
            routers,
            kept: Vec::with_capacity(context.choices + 1),
        }
    }

    /// The best routers by these distances, equal ones in order of slot.
    pub(super) fn of(&mut self, costs: &[u32], chosen: &mut Vec<u16>) {
        self.find(costs);
        chosen.clear();
        chosen.extend(self.kept.iter().map(|&(_, slot, _)| self.routers[slot]));
    }

    /// The slots of the best routers by these distances, equal ones in order.
    pub(super) fn slots(&mut self, costs: &[u32]) -> impl Iterator<Item = u16> + '_ {
        self.find(costs);
        // Routers are numbered in 16 bits.
        self.kept.iter().map(|&(_, slot, _)| slot as u16)
    }

    fn find(&mut self, costs: &[u32]) {
        let choices = self.context.choices;
        self.kept.clear();
        // Slots ascend, so an equal distance is never better than one that is kept.
        let mut limit = u32::MAX;
        for (slot, &cost) in costs.iter().enumerate() {
            if cost >= limit {
                continue;
            }
            let domain = self.context.domains[usize::from(self.routers[slot])];
            match self.kept.iter().position(|&(_, _, other)| other == domain) {
                Some(same) if self.kept[same].0 <= cost => continue,
                Some(same) => {
                    self.kept.remove(same);
                }
                None => {}
            }
            let at = self.kept.partition_point(|&(other, ..)| other <= cost);
            self.kept.insert(at, (cost, slot, domain));
            self.kept.truncate(choices);
            if self.kept.len() == choices {
                limit = self.kept[choices - 1].0;
            }
        }
    }
}

/// All routers of each net.
pub(super) fn flat(context: &Context<'_>) -> Plan {
    let most = context.data_nets().map(|net| context.usable[net].len());
    let choices = most.max().unwrap_or(1);
    let mut plan = context.plan_by_site(Policy::Flat, choices);
    for net in context.data_nets() {
        for row in 0..plan.rows().len() {
            plan.set(row, net, &context.usable[net]);
        }
    }
    plan
}

/// Routes to the metadata nets: the modules by cost.
pub(super) fn metadata(context: &Context<'_>, plan: &mut Plan) {
    let groups = context.machine.groups.iter();
    for group in groups.filter(|group| group.role == Role::Metadata) {
        let homes = group
            .modules()
            .map(|m| context.machine.modules[usize::from(m)].home);
        let mut costs = Costs::new(&context.machine.fabric, Metric::Cost, homes.collect());
        let (mut modules, mut chosen) = (Vec::new(), Vec::new());
        for row in 0..plan.rows().len() {
            modules.clear();
            modules_by_cost(costs.row(plan.rows()[row].vertex), group, &mut modules);
            for net in group.nets.iter().map(|&net| usize::from(net)) {
                let routers = modules
                    .iter()
                    .filter_map(|&m| context.router_on(m, net, row));
                chosen.clear();
                context.choose(routers, &mut chosen);
                plan.set(row, net, &chosen);
            }
        }
    }
}

/// Appends the modules of a group by these costs, equal ones in order.
pub(super) fn modules_by_cost(costs: &[u32], group: &Group, modules: &mut Vec<u16>) {
    let first = group.modules().start;
    let kept = modules.len();
    modules.extend(group.modules());
    modules[kept..].sort_by_key(|&module| costs[usize::from(module - first)]);
}
