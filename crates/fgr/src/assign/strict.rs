//! Algorithm 1: as printed, and corrected.
//!
//! ```text
//!   client ─▶ sub-group whose window holds it ─▶ its modules by distance in the second dimension
//!                  (dearest dimension)               first: primary, the others: backups
//! ```
//!
//! Backups come from the same sub-group as far as the disjointness rule lets them, then from the
//! group's other modules by cost (planning, section 2.3).

use topology::Vertex;

use crate::assign::Context;
use crate::assign::nearest::modules_by_cost;
use crate::costs::Costs;
use crate::machine::{Group, Role};
use crate::plan::{Plan, PlanError, PlanWarning};
use crate::policy::{Metric, Policy, TieRule};
use crate::rule::Axes;

/// The corrected algorithm.
pub(super) fn strict(context: &Context<'_>, tie: TieRule) -> Result<Plan, PlanError> {
    let policy = Policy::Strict { tie };
    let axes = axes(context, policy)?;
    let mut plan = context.plan_by_site(policy, context.choices);
    for group in data_groups(context) {
        let outside = strict_group(context, &mut plan, axes, group, tie);
        warn(&mut plan, group, outside, "they use the nearest one");
    }
    Ok(plan)
}

/// Assigns the nets of one group; returns the clients that are in no window.
fn strict_group(
    context: &Context<'_>,
    plan: &mut Plan,
    axes: Axes<'_>,
    group: &Group,
    tie: TieRule,
) -> u32 {
    let mut outside = 0;
    let rule = Rule::new(context, axes, group, tie);
    let mut costs = modules_costs(context, group);
    let mut modules = Vec::new();
    // A row with the same sub-group and position as an earlier one has the same routers, if nothing
    // else counts.
    let near_size = usize::from(axes.grid.dimensions()[axes.near].size);
    let mut earlier = vec![None; group.sub_groups.len() * near_size];
    for (row, site) in context.sites.iter().enumerate() {
        let Some(window) = axes.sub_group(context.machine, group, site.vertex) else {
            continue;
        };
        if !window.inside {
            outside += site.clients;
        }
        let near = usize::from(axes.grid.position(site.vertex, axes.near));
        let alike = &mut earlier[window.sub_group * near_size + near];
        if let Some(other) = *alike {
            plan.copy(&group.nets, other, row);
            continue;
        }
        modules.clear();
        rule.order(window.sub_group, site.vertex, &mut modules);
        if rule.must_widen {
            widen(&mut costs, group, site.vertex, &mut modules);
        }
        write(context, plan, row, group, &modules);
        if rule.is_positional() {
            *alike = Some(row);
        }
    }
    outside
}

/// The algorithm as printed: every module of the sub-group is nearer than infinity, so the last one
/// is the primary, and a client that no sub-group matches gets nothing.
pub(super) fn printed(context: &Context<'_>, wrap: bool) -> Result<Plan, PlanError> {
    let policy = Policy::Printed { wrap };
    let axes = axes(context, policy)?;
    let mut plan = context.plan_by_site(policy, context.choices);
    for group in data_groups(context) {
        let mut outside = 0;
        for (row, site) in context.sites.iter().enumerate() {
            let machine = context.machine;
            let window = axes.sub_group(machine, group, site.vertex);
            let plain = |sub_group: usize| {
                let module = usize::from(group.sub_groups[sub_group].start);
                let position = |vertex| i32::from(axes.grid.position(vertex, axes.window));
                position(site.vertex) - position(machine.modules[module].home)
            };
            let matches = window.filter(|w| w.inside && (wrap || plain(w.sub_group) == w.offset));
            let Some(window) = matches else {
                outside += site.clients;
                continue;
            };
            let range = group.sub_groups[window.sub_group].clone();
            let last = range.end - 1;
            let modules: Vec<u16> = std::iter::once(last).chain(range.start..last).collect();
            write(context, &mut plan, row, group, &modules);
        }
        warn(
            &mut plan,
            group,
            outside,
            "the algorithm as printed gives them no router",
        );
    }
    Ok(plan)
}

pub(super) fn axes<'a>(context: &Context<'a>, policy: Policy) -> Result<Axes<'a>, PlanError> {
    Axes::of(&context.machine.fabric).ok_or(PlanError::NeedsGrid(policy.name()))
}

pub(super) fn data_groups<'a>(context: &Context<'a>) -> impl Iterator<Item = &'a Group> {
    let groups = context.machine.groups.iter();
    groups.filter(|group| group.role == Role::Data)
}

pub(super) fn modules_costs<'a>(context: &Context<'a>, group: &Group) -> Costs<'a> {
    let homes = group
        .modules()
        .map(|m| context.machine.modules[usize::from(m)].home);
    Costs::new(&context.machine.fabric, Metric::Cost, homes.collect())
}

/// Appends the group's modules by cost, which may repeat those that are there.
pub(super) fn widen(costs: &mut Costs<'_>, group: &Group, from: Vertex, modules: &mut Vec<u16>) {
    modules_by_cost(costs.row(from), group, modules);
}

/// Writes the routers of these modules for all nets of the group.
pub(super) fn write(
    context: &Context<'_>,
    plan: &mut Plan,
    row: usize,
    group: &Group,
    modules: &[u16],
) {
    let mut chosen = Vec::with_capacity(context.choices);
    for net in group.nets.iter().map(|&net| usize::from(net)) {
        let routers = modules
            .iter()
            .filter_map(|&m| context.router_on(m, net, row));
        chosen.clear();
        context.choose(routers, &mut chosen);
        plan.set(row, net, &chosen);
    }
}

pub(super) fn warn(plan: &mut Plan, group: &Group, clients: u32, consequence: &'static str) {
    if clients > 0 {
        let group = group.name.clone();
        plan.warnings.push(PlanWarning::NoWindow {
            group,
            clients,
            consequence,
        });
    }
}

/// The order of the modules of one group's sub-groups.
struct Rule<'a> {
    context: &'a Context<'a>,
    axes: Axes<'a>,
    group: &'a Group,
    tie: TieRule,
    /// By sub-group and position in the second dimension, the module that `balance` puts first.
    given: Vec<Vec<u16>>,
    /// Whether the sub-group's own modules may not be enough: too few of them, or some are excluded
    /// by the options.
    must_widen: bool,
}

impl<'a> Rule<'a> {
    fn new(context: &'a Context<'a>, axes: Axes<'a>, group: &'a Group, tie: TieRule) -> Self {
        let mut rule = Self {
            context,
            axes,
            group,
            tie,
            given: Vec::new(),
            must_widen: must_widen(context, group),
        };
        if tie == TieRule::Balance {
            let sub_groups = 0..group.sub_groups.len();
            rule.given = sub_groups
                .map(|sub_group| rule.hand_out(sub_group))
                .collect();
        }
        rule
    }

    /// Whether the routers depend on the sub-group and the position in the second dimension alone.
    fn is_positional(&self) -> bool {
        let mut modules = self.group.modules();
        let nets = self.group.nets.len();
        let one_each = modules.all(|m| self.context.on_net[usize::from(m)].len() <= nets);
        one_each && !self.must_widen && self.tie != TieRule::Rest
    }

    /// The modules of a sub-group, primary first.
    fn order(&self, sub_group: usize, from: Vertex, modules: &mut Vec<u16>) {
        let near = self.axes.grid.position(from, self.axes.near);
        modules.extend(self.group.sub_groups[sub_group].clone());
        match self.tie {
            TieRule::Index => modules.sort_by_key(|&m| self.distance(near, m)),
            TieRule::Rest => modules.sort_by_key(|&m| (self.distance(near, m), self.rest(from, m))),
            TieRule::Balance => {
                let first = self.given[sub_group][usize::from(near)];
                modules.sort_by_key(|&m| (self.distance(near, m), m != first));
            }
        }
    }

    fn distance(&self, near: u16, module: u16) -> u16 {
        let home = self.context.machine.modules[usize::from(module)].home;
        self.axes.hops_from(near, home)
    }

    /// Cost in the dimensions that the rule does not look at.
    fn rest(&self, from: Vertex, module: u16) -> u32 {
        let home = self.context.machine.modules[usize::from(module)].home;
        let grid = self.axes.grid;
        (0..grid.dimensions().len())
            .filter(|&d| d != self.axes.window && d != self.axes.near)
            .map(|d| {
                let hops = grid.distance(d, grid.position(from, d), grid.position(home, d));
                u32::from(hops) * grid.dimensions()[d].cost
            })
            .sum()
    }

    /// Gives each position the nearest module; of several the one with the fewest tied positions.
    fn hand_out(&self, sub_group: usize) -> Vec<u16> {
        let range = self.group.sub_groups[sub_group].clone();
        let mut tied_positions = vec![0_u32; range.len()];
        let size = self.axes.grid.dimensions()[self.axes.near].size;
        (0..size)
            .map(|near| {
                let nearest = range.clone().map(|m| self.distance(near, m)).min();
                let is_nearest = |m: &u16| Some(self.distance(near, *m)) == nearest;
                let tied = || range.clone().filter(is_nearest);
                let taken = |m: u16| usize::from(m - range.start);
                let first = tied().min_by_key(|&m| tied_positions[taken(m)]);
                // A sub-group has a module.
                let first = first.unwrap_or(range.start);
                if tied().count() > 1 {
                    tied_positions[taken(first)] += 1;
                }
                first
            })
            .collect()
    }
}

/// Whether a sub-group of a group cannot give every net all its choices.
pub(super) fn must_widen(context: &Context<'_>, group: &Group) -> bool {
    group
        .sub_groups
        .iter()
        .any(|range| is_short(context, range))
}

fn is_short(context: &Context<'_>, modules: &std::ops::Range<u16>) -> bool {
    let routers = modules
        .clone()
        .flat_map(|m| &context.on_net[usize::from(m)]);
    let mut domains: Vec<(u16, u16)> = routers
        .map(|&(net, router)| (net, context.domains[usize::from(router)]))
        .collect();
    domains.sort_unstable();
    domains.dedup();
    let group = context.machine.modules[usize::from(modules.start)].group;
    let nets = &context.machine.groups[usize::from(group)].nets;
    nets.iter().any(|net| {
        let on_net = domains.iter().filter(|(on, _)| on == net);
        on_net.count() < context.choices
    })
}
