//! Cuts lines of clients into slices, so that a job on neighbouring nodes uses many routers.
//!
//! ```text
//!   line of clients along the last dimension        cap 50 %: no module more than half of it
//!   ├── module 2 ──┤├──── module 1 ────┤├ m. 2 ┤    cut where the sum of costs is least
//! ```
//!
//! Clients with neighbouring numbers fill whole lines. The strict rule assigns a line to one
//! module; the cap spreads a line over several modules of the same sub-group. The cut is the
//! cheapest that the cap allows: an exact optimum for each line. Clients at one position stay
//! together, which keeps the number of route tables low.

use crate::assign::Context;
use crate::assign::strict::{axes, data_groups, modules_costs, must_widen, warn, widen, write};
use crate::machine::Group;
use crate::plan::{Part, Plan, PlanError};
use crate::policy::{Cut, Policy};
use crate::rule::Axes;
use crate::transport::{Transport, solve};

/// Assigns each line to modules of its sub-group.
pub(super) fn slices(context: &Context<'_>, cut: Cut) -> Result<Plan, PlanError> {
    if matches!(cut, Cut::Cost { cap, run } if cap == 0 || cap > 100 || run == 0) {
        return Err(PlanError::Slices);
    }
    let policy = Policy::Slices { cut };
    let axes = axes(context, policy)?;
    let dimensions = axes.grid.dimensions().len();
    let along = (0..dimensions)
        .rfind(|&d| d != axes.window && d != axes.near)
        .ok_or(PlanError::NeedsGrid(policy.name()))?;
    let mut plan = context.plan_by_site(policy, context.choices);
    for group in data_groups(context) {
        let line = Line {
            context,
            axes,
            along,
            cut,
        };
        let outside = line.assign(&mut plan.fill(), group);
        warn(&mut plan, group, outside, "they use the nearest one");
    }
    Ok(plan)
}

struct Line<'a> {
    context: &'a Context<'a>,
    axes: Axes<'a>,
    along: usize,
    cut: Cut,
}

impl Line<'_> {
    /// Assigns the nets of one group. Returns the number of clients outside all windows.
    fn assign(&self, part: &mut Part<'_>, group: &Group) -> u32 {
        let grid = self.axes.grid;
        let columns = usize::from(grid.dimensions()[self.axes.near].size);
        let mut cuts: Vec<Option<Vec<u16>>> = vec![None; group.sub_groups.len() * columns];
        let (mut outside, mut modules) = (0, Vec::new());
        let widens = must_widen(self.context, group);
        let mut costs = modules_costs(self.context, group);
        for (row, site) in self.context.sites.iter().enumerate() {
            let machine = self.context.machine;
            let Some(window) = self.axes.sub_group(machine, group, site.vertex) else {
                continue;
            };
            if !window.inside {
                outside += site.clients;
            }
            let near = grid.position(site.vertex, self.axes.near);
            let range = group.sub_groups[window.sub_group].clone();
            let at = grid.position(site.vertex, self.along);
            modules.clear();
            modules.extend(range.clone());
            match self.cut {
                Cut::Near => modules.sort_by_key(|&m| {
                    let home = machine.modules[usize::from(m)].home;
                    grid.distance(self.along, at, grid.position(home, self.along))
                }),
                Cut::Turns => {
                    let count = modules.len().max(1);
                    modules.rotate_left(usize::from(at) % count);
                }
                Cut::Cost { cap, run } => {
                    let cut = cuts[window.sub_group * columns + usize::from(near)]
                        .get_or_insert_with(|| self.cut(near, range, (cap, run.into())));
                    let first = cut[usize::from(at / run)];
                    modules.sort_by_key(|&m| {
                        let home = machine.modules[usize::from(m)].home;
                        (m != first, self.axes.hops_from(near, home))
                    });
                }
            }
            if widens {
                widen(&mut costs, group, site.vertex, &mut modules);
            }
            write(self.context, part, row, group, &modules);
        }
        outside
    }

    /// Returns the module of each position of the line at position `near` of the second dimension.
    /// No module gets more than `cap` per cent of the line.
    fn cut(
        &self,
        near: u16,
        modules: std::ops::Range<u16>,
        (cap, run_size): (u32, usize),
    ) -> Vec<u16> {
        let grid = self.axes.grid;
        let dimensions = grid.dimensions();
        let size = usize::from(dimensions[self.along].size);
        let runs = size.div_ceil(run_size);
        let cost = |run: usize, module: u16| -> u32 {
            let home = self.context.machine.modules[usize::from(module)].home;
            let across =
                u32::from(self.axes.hops_from(near, home)) * dimensions[self.axes.near].cost;
            let there = grid.position(home, self.along);
            let positions = run * run_size..((run + 1) * run_size).min(size);
            // A size fits in 16 bits.
            let each = positions.map(|p| {
                let hops = grid.distance(self.along, p as u16, there);
                across + u32::from(hops) * dimensions[self.along].cost
            });
            each.sum()
        };
        let count = modules.len();
        let least = runs.div_ceil(count.max(1));
        let most = (runs * cap as usize / 100).max(least);
        let problem = Transport {
            supplies: vec![1; runs],
            costs: modules
                .clone()
                .flat_map(|module| (0..runs).map(move |run| (run, module)))
                .map(|(run, module)| cost(run, module))
                .collect(),
            base: vec![most as u32; count],
            extra: 0,
            sides: None,
        };
        // The caps add up to at least the line, so a solution exists.
        let pieces = solve(&problem);
        debug_assert!(pieces.is_some(), "no way to share a line");
        let pieces = pieces.unwrap_or_default();
        // The clients of one position are one unit and have exactly one piece.
        pieces
            .iter()
            .map(|piece| modules.start + piece.sink as u16)
            .collect()
    }
}
