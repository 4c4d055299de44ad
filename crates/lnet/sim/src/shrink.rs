//! Reduces a failing plan to the smallest part that still fails.
//!
//! The method is delta debugging (Zeller, Hildebrandt 2002) over the faults and operations together: halves are
//! left out, then quarters, down to single parts, as long as the same invariant is violated. Each trial is a
//! complete run with the same seed.

use crate::invariant::Violation;
use crate::summary::Outcome;

/// A plan that can run, and that consists of faults and operations.
pub trait Schedule: Sized {
    /// A fault or an operation.
    type Part: Clone;
    /// How to run.
    type Options: Copy;

    /// Returns the seed.
    fn seed(&self) -> u64;

    /// Returns the faults and operations.
    fn parts(&self) -> Vec<Self::Part>;

    /// Returns this plan with these faults and operations.
    #[must_use]
    fn with_parts(&self, parts: &[Self::Part]) -> Self;

    /// Runs the plan. The outcome has a trace if `trace` is true.
    fn run(&self, options: Self::Options, trace: bool) -> Outcome;

    /// Describes the nodes, the faults and the operations, each in one line.
    fn lines(&self) -> Vec<String>;
}

/// A failing plan, and the invariant that it violates.
#[derive(Clone, Debug)]
pub struct Shrunk<S> {
    /// The plan.
    pub plan: S,
    /// The violation. It is of the same invariant as in the original plan.
    pub violation: Violation,
    /// The number of runs that the reduction took.
    pub runs: u32,
}

/// Leaves out all parts that a failure does not need, in at most `runs_max` runs. Returns `None` if the plan does
/// not fail.
#[must_use]
pub fn shrink<S: Schedule>(plan: &S, options: S::Options, runs_max: u32) -> Option<Shrunk<S>> {
    let mut violation = plan.run(options, false).violation?;
    let fails = |parts: &[S::Part]| {
        let found = plan.with_parts(parts).run(options, false).violation;
        let same = found.filter(|found| found.invariant == violation.invariant);
        same.is_some_and(|same| {
            violation = same;
            true
        })
    };
    let (parts, trials) = smallest(plan.parts(), runs_max, fails);
    Some(Shrunk {
        plan: plan.with_parts(&parts),
        violation,
        runs: 1 + trials,
    })
}

/// Returns the smallest part of a list that still fails, and the number of trials. The number of trials is limited
/// to about `trials_max`. The whole list must fail.
fn smallest<P: Clone>(
    mut parts: Vec<P>,
    trials_max: u32,
    mut fails: impl FnMut(&[P]) -> bool,
) -> (Vec<P>, u32) {
    let mut trials = 0;
    let mut size = parts.len().div_ceil(2);
    while size > 0 && trials < trials_max {
        let before = parts.len();
        let mut at = 0;
        while at < parts.len() && trials < trials_max {
            let end = (at + size).min(parts.len());
            let mut fewer = parts.clone();
            fewer.drain(at..end);
            trials += 1;
            if fails(&fewer) {
                parts = fewer;
            } else {
                at = end;
            }
        }
        if parts.len() == before || size > parts.len() {
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }
    (parts, trials)
}
