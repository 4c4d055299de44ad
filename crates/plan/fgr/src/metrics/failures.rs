//! The effect of random failures, and the modules that replace each failed one.

use std::collections::{BTreeMap, BTreeSet};

use crate::evaluate::{Gateways, Unit, expected_unreachable, random_failures};
use crate::machine::Machine;
use crate::metrics::data_modules;
use crate::plan::Plan;

/// The effect of `count` dead units, over several trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomLosses {
    /// Number of units that die at once.
    pub count: usize,
    /// Number of trials.
    pub trials: usize,
    /// Number of trials in which a client lost a net.
    pub with_losses: usize,
    /// Mean number of pairs of a client and a net without router.
    pub unreachable: f64,
    /// Load of the most loaded router relative to the mean before the failure: mean over the
    /// trials.
    pub worst_load_mean: f64,
    /// Load of the most loaded router relative to the mean before the failure: maximum over the
    /// trials.
    pub worst_load_max: f64,
    /// Units per GB/s on the hottest link of the worst trial when clients write. Only on grids.
    pub write_max: Option<f64>,
    /// Units per GB/s on the hottest link of the worst trial when clients read. Only on grids.
    pub read_max: Option<f64>,
    /// Expected number of sub-groups (of modules) or nets of sub-groups (of nodes) that lose all
    /// their routers. Only for groups whose sub-groups are alike.
    pub expected_dead: f64,
}

/// Calculates the losses for each of these numbers of units, which die at random in each of
/// `trials` trials. Equal seeds give equal trials.
#[must_use]
pub fn random_losses(
    machine: &Machine,
    plan: &Plan,
    unit: Unit,
    counts: &[usize],
    trials: usize,
    seed: u64,
) -> Vec<RandomLosses> {
    let of = |&count: &usize| losses(machine, plan, unit, count, trials, seed);
    counts.iter().map(of).collect()
}

fn losses(
    machine: &Machine,
    plan: &Plan,
    unit: Unit,
    count: usize,
    trials: usize,
    seed: u64,
) -> RandomLosses {
    let failures = random_failures(machine, plan, unit, count, trials, seed);
    let most = |values: &mut dyn Iterator<Item = f64>| values.reduce(f64::max);
    let sum: f64 = failures.iter().map(|failure| failure.worst_load).sum();
    let unreachable: u64 = failures.iter().map(|failure| failure.unreachable).sum();
    let trials = failures.len();
    RandomLosses {
        count,
        trials,
        with_losses: failures.iter().filter(|f| f.unreachable > 0).count(),
        unreachable: unreachable as f64 / trials.max(1) as f64,
        worst_load_mean: sum / trials.max(1) as f64,
        worst_load_max: most(&mut failures.iter().map(|f| f.worst_load)).unwrap_or(0.0),
        write_max: most(&mut failures.iter().filter_map(|f| f.write_max)),
        read_max: most(&mut failures.iter().filter_map(|f| f.read_max)),
        expected_dead: expected(machine, unit, count),
    }
}

fn expected(machine: &Machine, unit: Unit, count: usize) -> f64 {
    let mut sub_groups: BTreeMap<(u16, u16), u32> = BTreeMap::new();
    for (_, module) in data_modules(machine) {
        *sub_groups
            .entry((module.group, module.sub_group))
            .or_default() += 1;
    }
    let modules: u32 = sub_groups.values().sum();
    let routers: u32 = machine
        .data_nets()
        .map(|net| machine.nets[net].routers.len() as u32)
        .sum();
    let size = sub_groups.values().copied().min().unwrap_or(1);
    let sets = sub_groups.len() as u32;
    // The number of units is below that of routers, which is below 2^16.
    let count = count as u32;
    match unit {
        Unit::Module => expected_unreachable(modules, size, sets, count),
        Unit::Node => {
            let nodes = routers / modules.max(1);
            expected_unreachable(routers, size, sets * nodes, count)
        }
    }
}

/// A module that takes over some clients of a dead module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Successor {
    /// Index of the dead module.
    pub dead: u16,
    /// Index of the module that takes over; `None` for clients that lose the net.
    pub module: Option<u16>,
    /// Number of pairs of a client and a net that move to the successor.
    pub pairs: u64,
}

/// Returns the modules that take over when each data module dies, because LNet uses the living
/// gateway with the best priority. In order of the dead module, then in descending order of pairs.
#[must_use]
pub fn successors(machine: &Machine, plan: &Plan) -> Vec<Successor> {
    let mut pairs: BTreeMap<(u16, Option<u16>), u64> = BTreeMap::new();
    let nets: Vec<usize> = machine.data_nets().collect();
    let module_of = |router: u16| machine.routers[usize::from(router)].module;
    let mut after = Vec::new();
    for (row, entry) in plan.rows().iter().enumerate() {
        for &net in &nets {
            let Some(&primary) = plan.routers(row, net).first() else {
                continue;
            };
            let dead = module_of(primary);
            let range = machine.modules[usize::from(dead)].routers.clone();
            let gone: BTreeSet<u16> = range.collect();
            Gateways::Without(&gone).fill(plan, row, net, &mut after);
            let next = after.first().copied().map(module_of);
            *pairs.entry((dead, next)).or_default() += u64::from(entry.clients);
        }
    }
    let mut found: Vec<Successor> = pairs
        .into_iter()
        .map(|((dead, module), pairs)| Successor {
            dead,
            module,
            pairs,
        })
        .collect();
    found.sort_by_key(|s| (s.dead, std::cmp::Reverse(s.pairs), s.module));
    found
}
