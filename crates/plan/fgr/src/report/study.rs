//! Every figure of a report, calculated once.

use crate::assign::assign;
use crate::evaluate::{
    Evaluation, Failure, Gateways, JobEfficiency, LinkLoads, Traffic, Unit, bounds,
    clients_of_routers, compact_jobs, single_failures,
};
use crate::machine::Machine;
use crate::metrics::{
    LeafCrossing, NearestModule, RandomLosses, Region, Successor, leaf_crossing, nearest_module,
    random_losses, regions, successors,
};
use crate::plan::{Plan, PlanWarning};
use crate::policy::{Cut, Metric, Options, Policy, TieRule};
use crate::rates::{RouterRate, router_rates};
use crate::serves::{Area, areas};
use crate::topology::Fabric;

/// Numbers of modules that die at random, number of trials, and seed.
const RANDOM_COUNTS: [usize; 4] = [2, 3, 5, 10];
const TRIALS: usize = 40;
const SEED: u64 = 1;

/// Number of compact jobs, whose starts are spread over the whole machine.
const JOBS: usize = 97;

/// The figures of one policy, for comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Name of the policy with its parameters.
    pub name: String,
    /// Figures of the plan and of compact jobs, or why the policy gives no plan.
    pub result: Result<(Evaluation, JobEfficiency), String>,
    /// Number of different route tables of clients, including the order of backups.
    pub tables: usize,
    /// Estimated total size of the clients' configurations in bytes, one for each table.
    pub bytes: u64,
    /// Whether this is the plan of the report.
    pub is_this: bool,
}

/// Lower limits of all plans.
#[derive(Clone, Copy, Debug)]
pub(super) struct Floors {
    /// Mean and largest number of hops with the modules at their places.
    pub hops: (f64, f64),
    /// Mean and largest cost with the modules at their places.
    pub cost: (f64, f64),
    /// Mean cost with equal loads and whole modules, if it could be calculated.
    pub balanced_cost: Option<f64>,
}

/// The contents of a report on a plan.
#[derive(Clone, Debug)]
pub struct Study {
    pub(super) plan: Plan,
    pub(super) evaluation: Evaluation,
    pub(super) job_size: usize,
    pub(super) comparisons: Vec<Comparison>,
    pub(super) floors: Floors,
    pub(super) write: LinkLoads,
    pub(super) read: LinkLoads,
    /// Number of clients of each router.
    pub(super) clients: Vec<f64>,
    pub(super) nearest: NearestModule,
    pub(super) regions: Vec<Region>,
    pub(super) crossing: LeafCrossing,
    pub(super) failures: Vec<Failure>,
    pub(super) random: Vec<RandomLosses>,
    pub(super) successors: Vec<Successor>,
    /// The areas of the machine, each with the primaries of its clients.
    pub(super) areas: Vec<Area>,
    /// Routers that the plan gives more than they forward.
    pub(super) router_rates: Vec<RouterRate>,
}

impl Study {
    /// Studies a plan and compares it with all other policies. Takes some seconds for Titan.
    #[must_use]
    pub fn new(machine: &Machine, plan: Plan, options: &Options) -> Self {
        // The size of the compact job in the planning description; smaller on small machines.
        let job_size = 1_008.min(machine.clients.len() / 4).max(1);
        let comparisons = compare(machine, &plan, options, job_size);
        let clients = clients_of_routers(machine, &plan, Gateways::Primary);
        let parts = plan.parts() as f64;
        let loads = |traffic| LinkLoads::new(machine, &plan, Gateways::Primary, traffic);
        let evaluation = Evaluation::new(machine, &plan, Gateways::Primary);
        Self {
            floors: floors(machine, &comparisons),
            write: loads(Traffic::Write),
            read: loads(Traffic::Read),
            clients: clients.into_iter().map(|c| c as f64 / parts).collect(),
            nearest: nearest_module(machine, Metric::Hops),
            regions: regions(machine),
            crossing: leaf_crossing(machine, &plan),
            failures: single_failures(machine, &plan, Unit::Module),
            random: random_losses(machine, &plan, Unit::Module, &RANDOM_COUNTS, TRIALS, SEED),
            successors: successors(machine, &plan),
            areas: areas(machine, &plan),
            router_rates: router_rates(machine, &plan),
            comparisons,
            job_size,
            evaluation,
            plan,
        }
    }

    /// The figures of all policies, including that of the plan.
    #[must_use]
    pub fn comparisons(&self) -> &[Comparison] {
        &self.comparisons
    }
}

/// The policies that are compared, with their names.
const POLICIES: [(&str, Policy); 15] = [
    ("strict", Policy::STRICT),
    (
        "strict, ties by turns",
        Policy::Strict {
            tie: TieRule::Balance,
        },
    ),
    ("slices, at most 84 %", slices(84, 4)),
    ("slices, at most 67 %", slices(67, 4)),
    ("slices, at most 50 %", slices(50, 4)),
    ("slices, at most 42 %", slices(42, 2)),
    ("slices, at most 34 %", slices(34, 4)),
    (
        "slices, the nearest along z",
        Policy::Slices { cut: Cut::Near },
    ),
    ("slices, in turn", Policy::Slices { cut: Cut::Turns }),
    ("nearest by cost", Policy::Nearest { by: Metric::Cost }),
    ("nearest by hops", Policy::Nearest { by: Metric::Hops }),
    ("balanced by cost", Policy::Balanced { by: Metric::Cost }),
    ("spread", Policy::SPREAD),
    ("flat", Policy::Flat),
    ("as printed", Policy::Printed { wrap: true }),
];

const fn slices(cap: u32, run: u16) -> Policy {
    let cut = Cut::Cost { cap, run };
    Policy::Slices { cut }
}

fn compare(machine: &Machine, plan: &Plan, options: &Options, job: usize) -> Vec<Comparison> {
    let row = |name: &str, policy: Policy| {
        let other = assign(machine, policy, options).map_err(|error| error.to_string());
        comparison(machine, name, other.as_ref(), job, policy == plan.policy)
    };
    let mut rows: Vec<Comparison> = POLICIES
        .into_iter()
        .filter(|(_, policy)| policy.suits(&machine.fabric))
        .map(|(name, policy)| row(name, policy))
        .collect();
    if let Some(limit) = cool_limit(machine, &rows) {
        let (write, read) = (limit, limit);
        let policy = Policy::Cool { write, read };
        let other = assign(machine, policy, options).map_err(|error| error.to_string());
        let is_hot = |plan: &Plan| {
            let mut warnings = plan.warnings.iter();
            warnings.any(|warning| matches!(warning, PlanWarning::Hot { .. }))
        };
        let name = match other.as_ref().is_ok_and(is_hot) {
            true => "cool, as far as exchanges reach".to_owned(),
            false => format!("cool, up to {limit}"),
        };
        rows.push(comparison(
            machine,
            &name,
            other.as_ref(),
            job,
            policy == plan.policy,
        ));
    }
    if let Some(&sided @ Policy::Sided { side, .. }) = Policy::front(machine).last() {
        rows.push(row(&format!("balanced, side {side}"), sided));
    }
    if rows.iter().all(|row| !row.is_this) {
        rows.insert(
            0,
            comparison(machine, plan.policy.name(), Ok(plan), job, true),
        );
    }
    rows
}

/// The limit of `cool` in a comparison: the cooler direction of the strict rule; in a dragonfly, where
/// few paths share most links, half of the hottest link of `balanced`. The lowest limit that can be
/// reached takes too long to find.
fn cool_limit(machine: &Machine, rows: &[Comparison]) -> Option<u32> {
    let figures = |name: &str| {
        let row = rows.iter().find(|row| row.name == name)?;
        row.result.as_ref().ok().map(|(figures, _)| figures)
    };
    let limit = match (figures("strict"), &machine.fabric) {
        (Some(strict), _) => strict.write.max.min(strict.read.max),
        (None, Fabric::Dragonfly(..)) => {
            let balanced = figures("balanced by cost")?;
            (balanced.write.max.max(balanced.read.max) / 2.0).ceil()
        }
        _ => return None,
    };
    // Units per GB/s of a link are far below 2^32.
    Some(limit as u32)
}

fn comparison(
    machine: &Machine,
    name: &str,
    plan: Result<&Plan, &String>,
    job: usize,
    is_this: bool,
) -> Comparison {
    let step = ((machine.clients.len() - job) / JOBS).max(1);
    Comparison {
        name: name.to_owned(),
        result: plan.map_err(Clone::clone).map(|plan| {
            let evaluation = Evaluation::new(machine, plan, Gateways::Primary);
            (evaluation, compact_jobs(machine, plan, job, step))
        }),
        tables: plan.map_or(0, |plan| plan.distinct_tables().1),
        bytes: plan.map_or(0, |plan| plan.config_bytes()),
        is_this,
    }
}

fn floors(machine: &Machine, comparisons: &[Comparison]) -> Floors {
    let of = |name: &str, value: fn(&Evaluation) -> (f64, f64)| {
        let row = comparisons.iter().find(|row| row.name == name);
        let result = row.and_then(|row| row.result.as_ref().ok());
        result.map_or((0.0, 0.0), |(evaluation, _)| value(evaluation))
    };
    Floors {
        hops: of("nearest by hops", |e| (e.hops.mean, e.hops.max)),
        cost: of("nearest by cost", |e| (e.cost.mean, e.cost.max)),
        balanced_cost: bounds::by_module(machine, Metric::Cost, true),
    }
}
