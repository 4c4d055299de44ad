//! The reduction of a failing plan: what can be left out, and how the rest is described.

use crate::shrink::Schedule;
use crate::stacks::plan::{Fault, Operation, Plan};
use crate::stacks::world::{Options, World};
use crate::summary::Outcome;

/// A part of a plan that can be left out.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// A fault.
    Fault(Fault),
    /// An operation.
    Operation(Operation),
}

impl Schedule for Plan {
    type Part = Part;
    type Options = Options;

    fn seed(&self) -> u64 {
        self.seed
    }

    fn parts(&self) -> Vec<Part> {
        let faults = self.faults.iter().copied().map(Part::Fault);
        let operations = self.operations.iter().copied().map(Part::Operation);
        faults.chain(operations).collect()
    }

    fn with_parts(&self, parts: &[Part]) -> Self {
        let mut plan = Self {
            operations: Vec::new(),
            faults: Vec::new(),
            ..self.clone()
        };
        for part in parts {
            match part {
                Part::Fault(fault) => plan.faults.push(*fault),
                Part::Operation(operation) => plan.operations.push(*operation),
            }
        }
        plan
    }

    fn run(&self, mut options: Options, trace: bool) -> Outcome {
        options.trace = trace;
        World::run(self.clone(), options)
    }

    fn lines(&self) -> Vec<String> {
        let machines = self.machines.iter().enumerate();
        let machines = machines.map(|(number, machine)| format!("machine {number}: {machine}"));
        let faults = self.faults.iter().map(ToString::to_string);
        let operations = self.operations.iter().map(ToString::to_string);
        machines.chain(faults).chain(operations).collect()
    }
}
