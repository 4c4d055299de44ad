//! The subject that `finerail sim` runs for each seed: a scenario on a fabric of cores, or node stacks on
//! virtual streams.

use std::rc::Rc;

use lnet_sim::cores::{Options, Scenario};
use lnet_sim::stacks::draw;
use lnet_sim::{Failure, Outcome, Schedule, stacks};

/// The name that selects the simulation of whole node stacks, in place of a scenario.
pub(super) const REAL_STACK: &str = "real-stack";

const REAL_STACK_SUMMARY: &str = "2 to 6 machines with the whole stack of a node, core, LND and memory, on virtual \
                                  streams; what fails and who is hostile is drawn from the seed";

/// The limit of runs in the search for the smallest failing schedule. It is enough for every schedule that is
/// drawn from a seed. For a larger schedule the search ends with a small one, which is not always the smallest.
const SHRINK_RUNS_MAX: u32 = 5000;

/// The same limit for node stacks, whose runs take longer.
const STACK_SHRINK_RUNS_MAX: u32 = 1000;

/// What `finerail sim` runs.
pub(super) enum Subject {
    /// A scenario on a fabric of cores.
    Fabric(Box<Scenario>),
    /// Node stacks on virtual streams.
    RealStack,
}

impl Subject {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Fabric(scenario) => &scenario.name,
            Self::RealStack => REAL_STACK,
        }
    }

    pub(super) fn summary(&self) -> &str {
        match self {
            Self::Fabric(scenario) => &scenario.summary,
            Self::RealStack => REAL_STACK_SUMMARY,
        }
    }

    /// Runs the simulation with a seed.
    pub(super) fn run(&self, seed: u64, trace: bool) -> Outcome {
        match self {
            Self::Fabric(scenario) => Rc::new(scenario.plan(seed)).run(Options::default(), trace),
            Self::RealStack => draw(seed).run(stacks::Options::default(), trace),
        }
    }

    /// Returns the smallest failing schedule of a seed that fails.
    pub(super) fn failure(&self, seed: u64) -> Option<Failure> {
        match self {
            Self::Fabric(scenario) => {
                let plan = Rc::new(scenario.plan(seed));
                Failure::of(&plan, Options::default(), SHRINK_RUNS_MAX)
            }
            Self::RealStack => {
                let options = stacks::Options::default();
                Failure::of(&draw(seed), options, STACK_SHRINK_RUNS_MAX)
            }
        }
    }
}
