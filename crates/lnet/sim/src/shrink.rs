//! Reduces a plan to the smallest part that still fails.
//!
//! The method is delta debugging (Zeller, Hildebrandt 2002) over the faults and operations together: halves are
//! left out, then quarters, down to single parts, as long as the same invariant is violated. Each trial is a
//! complete run with the same seed.

use std::rc::Rc;

use crate::check::Violation;
use crate::plan::{Fault, Operation, Plan};
use crate::sim::{Options, Sim};

/// A part of a plan that can be left out.
#[derive(Clone, Debug)]
enum Part {
    Fault(Fault),
    Operation(Operation),
}

/// A failing plan, and the invariant that it violates.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The plan.
    pub plan: Rc<Plan>,
    /// The violation. It is of the same invariant as in the original plan.
    pub violation: Violation,
    /// The number of runs that the reduction took.
    pub runs: u32,
}

/// Leaves out all parts that a failure does not need, in at most `runs_max` runs. Returns `None` if the plan does
/// not fail.
#[must_use]
pub fn shrink(plan: &Rc<Plan>, options: Options, runs_max: u32) -> Option<Shrunk> {
    let violation = Sim::run(Rc::clone(plan), options).violation?;
    let faults = plan.faults.iter().cloned().map(Part::Fault);
    let operations = plan.operations.iter().copied().map(Part::Operation);
    let mut best = Shrunk {
        plan: Rc::clone(plan),
        violation,
        runs: 1,
    };
    let fails = |parts: &[Part]| {
        let plan = Rc::new(plan_of(plan, parts));
        let found = Sim::run(Rc::clone(&plan), options).violation;
        let same = found.filter(|found| found.invariant == best.violation.invariant);
        let fails = same.is_some();
        if let Some(violation) = same {
            best.plan = plan;
            best.violation = violation;
        }
        fails
    };
    let (_, runs) = smallest(faults.chain(operations).collect(), runs_max, fails);
    best.runs += runs;
    Some(best)
}

/// Returns the smallest part of a list that still fails, and the number of trials. The number of trials is limited
/// to about `trials_max`. The whole list must fail.
pub fn smallest<P: Clone>(
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

fn plan_of(base: &Plan, parts: &[Part]) -> Plan {
    let mut plan = Plan {
        seed: base.seed,
        world: base.world.clone(),
        operations: Vec::new(),
        faults: Vec::new(),
    };
    for part in parts {
        match part {
            Part::Fault(fault) => plan.faults.push(fault.clone()),
            Part::Operation(operation) => plan.operations.push(*operation),
        }
    }
    plan
}
