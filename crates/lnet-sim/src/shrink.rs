//! The smallest plan that still fails.
//!
//! Delta debugging (Zeller, Hildebrandt 2002) over the faults and the operations together: halves are
//! left out, then quarters, down to single ones, as long as the same invariant is broken. A run is
//! repeated from its beginning each time, with the same seed.

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

/// A failing plan and what it breaks.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The plan.
    pub plan: Rc<Plan>,
    /// What it breaks: the same invariant as the original.
    pub violation: Violation,
    /// Runs that it took.
    pub runs: u32,
}

/// Leaves out all that a failure does not need, in at most so many runs. `None` when the plan does not
/// fail.
#[must_use]
pub fn shrink(plan: &Rc<Plan>, options: Options, runs_max: u32) -> Option<Shrunk> {
    let violation = Sim::run(Rc::clone(plan), options).violation?;
    let mut search = Search {
        base: Rc::clone(plan),
        options,
        best: Shrunk {
            plan: Rc::clone(plan),
            violation,
            runs: 1,
        },
        runs_max,
    };
    search.reduce();
    Some(search.best)
}

struct Search {
    base: Rc<Plan>,
    options: Options,
    best: Shrunk,
    runs_max: u32,
}

impl Search {
    fn reduce(&mut self) {
        let faults = self.base.faults.iter().cloned().map(Part::Fault);
        let operations = self.base.operations.iter().copied().map(Part::Operation);
        let mut parts: Vec<Part> = faults.chain(operations).collect();
        let mut size = parts.len().div_ceil(2);
        while size > 0 && self.best.runs < self.runs_max {
            let before = parts.len();
            parts = self.without_pieces(parts, size);
            if parts.len() == before || size > parts.len() {
                size = if size == 1 { 0 } else { size.div_ceil(2) };
            }
        }
    }

    /// Leaves out every piece of this size that is not needed.
    fn without_pieces(&mut self, mut parts: Vec<Part>, size: usize) -> Vec<Part> {
        let mut at = 0;
        while at < parts.len() && self.best.runs < self.runs_max {
            let end = (at + size).min(parts.len());
            let mut fewer = parts.clone();
            fewer.drain(at..end);
            if self.still_fails(&fewer) {
                parts = fewer;
            } else {
                at = end;
            }
        }
        parts
    }

    fn still_fails(&mut self, parts: &[Part]) -> bool {
        self.best.runs += 1;
        let plan = Rc::new(self.plan_of(parts));
        let outcome = Sim::run(Rc::clone(&plan), self.options);
        match outcome.violation {
            Some(found) if found.invariant == self.best.violation.invariant => {
                self.best.plan = plan;
                self.best.violation = found;
                true
            }
            _ => false,
        }
    }

    fn plan_of(&self, parts: &[Part]) -> Plan {
        let mut plan = Plan {
            seed: self.base.seed,
            world: self.base.world.clone(),
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
}
