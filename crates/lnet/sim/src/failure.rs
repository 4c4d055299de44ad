//! Describes a failing run: the seed, the smallest schedule that still fails, and its trace.

use std::fmt;

use serde::Serialize;

use crate::invariant::Violation;
use crate::shrink::{Schedule, shrink};

/// A failing run after its reduction.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The violated invariant, in the smallest run.
    pub violation: Violation,
    /// The number of faults and operations in the original plan.
    pub parts_before: usize,
    /// The number of faults and operations in the smallest plan.
    pub parts: usize,
    /// The number of runs that the reduction took.
    pub shrink_runs: u32,
    /// The nodes, faults and operations of the smallest plan, one in each line.
    pub schedule: Vec<String>,
    /// The trace of the smallest run, one line for each event.
    pub trace: String,
}

impl Failure {
    /// Reduces a failing plan to the smallest part that fails in the same way, in at most `runs_max` runs. Returns
    /// `None` if the plan does not fail.
    #[must_use]
    pub fn of<S: Schedule>(plan: &S, options: S::Options, runs_max: u32) -> Option<Self> {
        let shrunk = shrink(plan, options, runs_max)?;
        let outcome = shrunk.plan.run(options, true);
        Some(Self {
            seed: plan.seed(),
            violation: shrunk.violation,
            parts_before: plan.parts().len(),
            parts: shrunk.plan.parts().len(),
            shrink_runs: shrunk.runs,
            schedule: shrunk.plan.lines(),
            trace: outcome.trace.unwrap_or_default(),
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed,
            violation,
            parts_before,
            parts,
            shrink_runs,
            schedule,
            trace,
        } = self;
        writeln!(f, "seed {seed} fails: {violation}")?;
        writeln!(
            f,
            "smallest schedule: {parts} of {parts_before} faults and operations, in {shrink_runs} runs"
        )?;
        for line in schedule {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "trace:")?;
        for line in trace.lines() {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}
