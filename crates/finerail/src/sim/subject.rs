//! The subject that `finerail sim` runs for each seed: a scenario on a fabric of cores, or node stacks on
//! virtual streams and virtual RDMA devices.

use std::rc::Rc;

use lnet_sim::cores::{Options, Scenario};
use lnet_sim::stacks::{Plan, draw, draw_over_rdma};
use lnet_sim::{Failure, Outcome, Schedule, stacks};

/// A kind of worlds of whole node stacks.
#[derive(Clone, Copy)]
pub(super) struct Stacks {
    pub(super) name: &'static str,
    summary: &'static str,
    draw: fn(u64) -> Plan,
}

/// The simulations of whole node stacks, whose names stand in the place of a scenario.
pub(super) const STACKS: [Stacks; 2] = [
    Stacks {
        name: "real-stack",
        summary: "2 to 6 machines with the whole stack of a node, core, LND and memory, on virtual streams; what fails \
                  and who is hostile is drawn from the seed",
        draw,
    },
    Stacks {
        name: "real-stack-rdma",
        summary: "2 to 5 such machines with o2ib networks on virtual RDMA devices, and routers to tcp networks; what \
                  fails is drawn from the seed",
        draw: draw_over_rdma,
    },
];

/// The limit of runs in the search for the smallest failing schedule. It is enough for every schedule that is
/// drawn from a seed. For a larger schedule the search ends with a small one, which is not always the smallest.
const SHRINK_RUNS_MAX: u32 = 5000;

/// The same limit for node stacks, whose runs take longer.
const STACK_SHRINK_RUNS_MAX: u32 = 1000;

/// What `finerail sim` runs.
pub(super) enum Subject {
    /// A scenario on a fabric of cores.
    Fabric(Box<Scenario>),
    /// Node stacks.
    Stacks(Stacks),
}

impl Subject {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Fabric(scenario) => &scenario.name,
            Self::Stacks(stacks) => stacks.name,
        }
    }

    pub(super) fn summary(&self) -> &str {
        match self {
            Self::Fabric(scenario) => &scenario.summary,
            Self::Stacks(stacks) => stacks.summary,
        }
    }

    /// Runs the simulation with a seed.
    pub(super) fn run(&self, seed: u64, trace: bool) -> Outcome {
        match self {
            Self::Fabric(scenario) => Rc::new(scenario.plan(seed)).run(Options::default(), trace),
            Self::Stacks(kind) => (kind.draw)(seed).run(stacks::Options::default(), trace),
        }
    }

    /// Returns the smallest failing schedule of a seed that fails.
    pub(super) fn failure(&self, seed: u64) -> Option<Failure> {
        match self {
            Self::Fabric(scenario) => {
                let plan = Rc::new(scenario.plan(seed));
                Failure::of(&plan, Options::default(), SHRINK_RUNS_MAX)
            }
            Self::Stacks(kind) => {
                let options = stacks::Options::default();
                Failure::of(&(kind.draw)(seed), options, STACK_SHRINK_RUNS_MAX)
            }
        }
    }
}
