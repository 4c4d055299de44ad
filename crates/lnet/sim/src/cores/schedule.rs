//! The reduction of a failing plan: what can be left out, and how the rest is described.

use std::fmt::Write;
use std::rc::Rc;

use crate::cores::plan::{Fault, Operation, OperationKind, Plan, ShownTrouble};
use crate::cores::sim::{Options, Sim};
use crate::invariant::Seconds;
use crate::shrink::Schedule;
use crate::summary::Outcome;

/// A part of a plan that can be left out.
#[derive(Clone, Debug)]
pub enum Part {
    /// A fault.
    Fault(Fault),
    /// An operation.
    Operation(Operation),
}

impl Schedule for Rc<Plan> {
    type Part = Part;
    type Options = Options;

    fn seed(&self) -> u64 {
        self.seed
    }

    fn parts(&self) -> Vec<Part> {
        let faults = self.faults.iter().cloned().map(Part::Fault);
        let operations = self.operations.iter().copied().map(Part::Operation);
        faults.chain(operations).collect()
    }

    fn with_parts(&self, parts: &[Part]) -> Self {
        let mut plan = Plan {
            seed: self.seed,
            world: self.world.clone(),
            operations: Vec::new(),
            faults: Vec::new(),
        };
        for part in parts {
            match part {
                Part::Fault(fault) => plan.faults.push(fault.clone()),
                Part::Operation(operation) => plan.operations.push(*operation),
            }
        }
        Self::new(plan)
    }

    fn run(&self, mut options: Options, trace: bool) -> Outcome {
        options.trace = trace;
        Sim::run(Self::clone(self), options)
    }

    fn lines(&self) -> Vec<String> {
        let world = &self.world;
        let mut lines = Vec::new();
        for node in &world.nodes {
            let mut line = node.name.clone();
            for ni in &node.nis {
                // Writing to a string cannot fail.
                let _written = write!(line, " {}", ni.nid);
            }
            lines.push(line);
        }
        for fault in &self.faults {
            let (at, until) = (Seconds(fault.at), Seconds(fault.until));
            let what = ShownTrouble(world, &fault.what);
            lines.push(format!("{at} to {until} s: {what}"));
        }
        for (number, operation) in self.operations.iter().enumerate() {
            let kind = match operation.kind {
                OperationKind::Put => "put",
                OperationKind::PutAck => "put with ack",
                OperationKind::Get => "get",
            };
            let (from, to) = (
                world.node_name(operation.from),
                world.node_name(operation.to),
            );
            let (at, length) = (Seconds(operation.at), operation.length);
            lines.push(format!(
                "{at} s: {from}: {kind} #{number} to {to}, {length} bytes"
            ));
        }
        lines
    }
}
