//! Algorithm 1: as printed and corrected.
//!
//! ```text
//!   client ─▶ sub-group whose window holds it ─▶ its modules by distance in the second dimension
//!                  (dearest dimension)               first: primary, the others: backups
//! ```
//!
//! Backups are modules of the same sub-group as far as the disjointness rule permits, then the
//! group's other modules in order of cost.

use rayon::prelude::*;

use crate::assign::Context;
use crate::assign::nearest::modules_by_cost;
use crate::costs::Costs;
use crate::machine::{Group, Role};
use crate::plan::{Part, Plan, PlanError, PlanWarning};
use crate::policy::{Metric, Policy, TieRule};
use crate::rule::{Axes, Window};
use crate::topology::Vertex;

/// Applies the corrected algorithm.
pub(super) fn strict(context: &Context<'_>, tie: TieRule) -> Result<Plan, PlanError> {
    let policy = Policy::Strict { tie };
    let axes = axes(context, policy)?;
    let mut plan = context.plan_by_site(policy, context.choices);
    let rules = data_groups(context).map(|group| Rule::new(context, axes, group, tie));
    let rules: Vec<Rule<'_>> = rules.collect();
    let homes = context.machine.modules.iter().map(|module| module.home);
    let costs = Costs::new(&context.machine.fabric, Metric::Cost, homes.collect());
    plan.fill_in_parts()
        .for_each(|part| assign_rows(axes, &rules, costs.clone(), part));
    for rule in &rules {
        warn(
            &mut plan,
            rule.group,
            rule.outside(),
            "they use the nearest one",
        );
    }
    Ok(plan)
}

/// Assigns the nets of all groups to some rows, given the costs of all modules.
fn assign_rows(axes: Axes<'_>, rules: &[Rule<'_>], mut costs: Costs<'_>, mut part: Part<'_>) {
    let must_widen = rules.iter().any(|rule| rule.must_widen);
    let is_positional = rules.iter().all(Rule::is_positional);
    // Rows at the same two positions have the same routers if nothing else counts.
    let near_size = usize::from(axes.grid.dimensions()[axes.near].size);
    let mut earlier = vec![None; usize::from(axes.window_size()) * near_size];
    let mut lists: Vec<List<'_>> = rules.iter().map(List::new).collect();
    for (row, site) in part.rows.iter().enumerate() {
        let plane = usize::from(axes.grid.position(site.vertex, axes.window));
        let near = axes.grid.position(site.vertex, axes.near);
        let alike = &mut earlier[plane * near_size + usize::from(near)];
        if let Some(other) = *alike {
            part.copy(other, row);
            continue;
        }
        let costs = if must_widen {
            costs.row(site.vertex)
        } else {
            &[]
        };
        for list in &mut lists {
            list.assign((plane, near), costs, &mut part, row);
        }
        if is_positional {
            *alike = Some(row);
        }
    }
}

/// Applies the algorithm as printed: every module of the sub-group is nearer than infinity, so the
/// last module becomes the primary; a client that matches no sub-group gets no router.
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
            write(context, &mut plan.fill(), row, group, &modules);
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

/// Appends the group's modules in order of cost. `modules` may then contain a module twice.
pub(super) fn widen(costs: &mut Costs<'_>, group: &Group, from: Vertex, modules: &mut Vec<u16>) {
    modules_by_cost(costs.row(from), group, modules);
}

/// Writes the routers of these modules for all nets of the group.
pub(super) fn write(
    context: &Context<'_>,
    part: &mut Part<'_>,
    row: usize,
    group: &Group,
    modules: &[u16],
) {
    let mut chosen = Vec::with_capacity(context.choices);
    for net in group.nets.iter().map(|&net| usize::from(net)) {
        let routers = modules
            .iter()
            .filter_map(|&m| context.router_on(m, net, part.first + row));
        chosen.clear();
        context.choose(routers, &mut chosen);
        part.set(row, net, &chosen);
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

/// How clients in the windows of one group get modules.
struct Rule<'a> {
    context: &'a Context<'a>,
    axes: Axes<'a>,
    group: &'a Group,
    tie: TieRule,
    /// The windows, by position along the windowed dimension.
    windows: Vec<Option<Window>>,
    /// The modules of each sub-group in order, by position in the second dimension. Modules at
    /// equal distance are in order of index.
    orders: Vec<Vec<Vec<u16>>>,
    /// The routers of each sub-group's own modules, by position in the second dimension and net of
    /// the group. Empty if rows at one position differ in their routers.
    own: Vec<Vec<u16>>,
    /// The other modules of the group, by sub-group.
    others: Vec<Vec<u16>>,
    /// Whether the sub-group's own modules may not be enough: there are too few, or the options
    /// exclude some.
    must_widen: bool,
}

impl<'a> Rule<'a> {
    fn new(context: &'a Context<'a>, axes: Axes<'a>, group: &'a Group, tie: TieRule) -> Self {
        let mut rule = Self {
            context,
            axes,
            group,
            tie,
            windows: axes.windows(context.machine, group),
            orders: Vec::new(),
            own: Vec::new(),
            others: Vec::new(),
            must_widen: must_widen(context, group),
        };
        let orders = (0..group.sub_groups.len()).map(|sub_group| rule.orders(sub_group));
        rule.orders = orders.collect();
        let others = group.sub_groups.iter().map(|own| {
            let others = group.modules().filter(|module| !own.contains(module));
            others.collect()
        });
        rule.others = others.collect();
        if rule.own_is_positional() {
            let orders = rule.orders.iter().flatten();
            rule.own = orders.flat_map(|modules| rule.chosen(modules)).collect();
        }
        rule
    }

    /// Returns whether the routers depend only on the sub-group and the position in the second
    /// dimension.
    fn is_positional(&self) -> bool {
        self.own_is_positional() && !self.must_widen
    }

    /// Returns whether the routers of the sub-group's own modules depend only on these two.
    fn own_is_positional(&self) -> bool {
        let takes_turns = |module: u16| {
            let routers = &self.context.on_net[usize::from(module)];
            let mut nets: Vec<u16> = routers.iter().map(|&(net, _)| net).collect();
            nets.sort_unstable();
            nets.windows(2).any(|pair| pair[0] == pair[1])
        };
        self.tie != TieRule::Rest && !self.group.modules().any(takes_turns)
    }

    /// Returns the routers of these modules by net of the group, if no module takes turns.
    fn chosen(&self, modules: &[u16]) -> Vec<Vec<u16>> {
        let of_net = |&net: &u16| {
            let routers = modules
                .iter()
                .filter_map(|&module| self.context.router_on(module, net.into(), 0));
            let mut chosen = Vec::with_capacity(self.context.choices);
            self.context.choose(routers, &mut chosen);
            chosen
        };
        self.group.nets.iter().map(of_net).collect()
    }

    /// Returns the routers of the sub-group's own modules for a position in the second dimension,
    /// by net of the group.
    fn own(&self, sub_group: usize, near: u16) -> Option<&[Vec<u16>]> {
        let positions = usize::from(self.axes.grid.dimensions()[self.axes.near].size);
        let nets = self.group.nets.len();
        let first = (sub_group * positions + usize::from(near)) * nets;
        self.own
            .get(first..first + nets)
            .filter(|own| !own.is_empty())
    }

    /// Returns the number of clients outside all windows.
    fn outside(&self) -> u32 {
        let sites = self.context.sites.iter();
        let outside = sites.filter(|site| {
            let plane = self.axes.grid.position(site.vertex, self.axes.window);
            self.windows[usize::from(plane)].is_some_and(|window| !window.inside)
        });
        outside.map(|site| site.clients).sum()
    }

    /// Returns the modules of a sub-group for each position in the second dimension.
    fn orders(&self, sub_group: usize) -> Vec<Vec<u16>> {
        let size = self.axes.grid.dimensions()[self.axes.near].size;
        let first = match self.tie {
            TieRule::Balance => self.hand_out(sub_group).into_iter().map(Some).collect(),
            TieRule::Index | TieRule::Rest => vec![None; size.into()],
        };
        let order = |(near, first): (u16, Option<u16>)| {
            let mut modules: Vec<u16> = self.group.sub_groups[sub_group].clone().collect();
            modules.sort_by_key(|&m| (self.distance(near, m), first.is_some_and(|f| f != m)));
            modules
        };
        (0..size).zip(first).map(order).collect()
    }

    fn distance(&self, near: u16, module: u16) -> u16 {
        let home = self.context.machine.modules[usize::from(module)].home;
        self.axes.hops_from(near, home)
    }

    /// Returns the cost in the dimensions that the rule ignores.
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

    /// Assigns the nearest module to each position; of several, the one that won the fewest ties so
    /// far.
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
                // A sub-group has at least one module.
                let first = first.unwrap_or(range.start);
                if tied().count() > 1 {
                    tied_positions[taken(first)] += 1;
                }
                first
            })
            .collect()
    }
}

/// The modules of one row at a time: those of the sub-group, unless their routers are known, then
/// the others of the group in order of cost as far as needed.
struct List<'a> {
    rule: &'a Rule<'a>,
    modules: Vec<u16>,
    /// Cost and number of the modules that are not in the list; filled when first needed.
    others: Vec<u64>,
    chosen: Vec<u16>,
}

/// Marks an entry of `others` whose module is in the list.
const LISTED: u64 = u64::MAX;

impl<'a> List<'a> {
    fn new(rule: &'a Rule<'a>) -> Self {
        Self {
            rule,
            modules: Vec::new(),
            others: Vec::new(),
            chosen: Vec::with_capacity(rule.context.choices),
        }
    }

    /// Writes the routers of a row at these positions of the windowed and the second dimension.
    fn assign(
        &mut self,
        (plane, near): (usize, u16),
        costs: &[u32],
        part: &mut Part<'_>,
        row: usize,
    ) {
        let Rule { context, group, .. } = *self.rule;
        let Some(Window { sub_group, .. }) = self.rule.windows[plane] else {
            return;
        };
        let own = self.rule.own(sub_group, near);
        self.modules.clear();
        if own.is_none() {
            self.order(sub_group, near, part.rows[row].vertex);
        }
        self.others.clear();
        for (index, net) in group.nets.iter().map(|&net| usize::from(net)).enumerate() {
            let router = |&m: &u16| context.router_on(m, net, part.first + row);
            self.chosen.clear();
            self.chosen.extend(own.map_or(&[][..], |own| &own[index]));
            context.choose(self.modules.iter().filter_map(router), &mut self.chosen);
            while self.rule.must_widen && self.chosen.len() < context.choices {
                let Some(module) = self.next(costs, sub_group) else {
                    break;
                };
                self.modules.push(module);
                context.choose(router(&module).into_iter(), &mut self.chosen);
            }
            part.set(row, net, &self.chosen);
        }
    }

    /// Starts the list with the modules of the sub-group.
    fn order(&mut self, sub_group: usize, near: u16, vertex: Vertex) {
        let rule = self.rule;
        self.modules
            .extend(&rule.orders[sub_group][usize::from(near)]);
        if rule.tie == TieRule::Rest {
            self.modules
                .sort_by_key(|&m| (rule.distance(near, m), rule.rest(vertex, m)));
        }
    }

    /// Returns the cheapest module of the group that is not in the list; of equal ones, the first.
    fn next(&mut self, costs: &[u32], sub_group: usize) -> Option<u16> {
        if self.others.is_empty() {
            let others = self.rule.others[sub_group].iter();
            let key =
                |&module: &u16| u64::from(costs[usize::from(module)]) << 16 | u64::from(module);
            self.others.extend(others.map(key));
        }
        let least = *self.others.iter().min().filter(|&&key| key != LISTED)?;
        let listed = self.others.iter_mut().filter(|key| **key == least);
        listed.for_each(|key| *key = LISTED);
        // The lower 16 bits are the number of the module.
        Some(least as u16)
    }
}

/// Returns whether some sub-group of a group has too few modules for all choices on every net.
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
