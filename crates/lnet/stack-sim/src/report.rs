//! Describes a failing run: the smallest schedule that still fails, and its trace.

use lnet_sim::{Failure, smallest};

use crate::plan::{Fault, Operation, Plan};
use crate::world::{Options, World};

/// A part of a plan that can be left out.
#[derive(Clone, Copy, Debug)]
enum Part {
    Fault(Fault),
    Operation(Operation),
}

/// Reduces a failing plan to the smallest part that violates the same invariant, in at most `runs_max` runs.
/// Returns `None` if the plan does not fail.
#[must_use]
pub fn failure(plan: &Plan, options: Options, runs_max: u32) -> Option<Failure> {
    let violation = World::run(plan.clone(), options).violation?;
    let faults = plan.faults.iter().copied().map(Part::Fault);
    let operations = plan.operations.iter().copied().map(Part::Operation);
    let parts: Vec<Part> = faults.chain(operations).collect();
    let parts_before = parts.len();
    let fails = |parts: &[Part]| {
        let found = World::run(plan_of(plan, parts), options).violation;
        found.is_some_and(|found| found.invariant == violation.invariant)
    };
    let (parts, shrink_runs) = smallest(parts, runs_max, fails);
    let left = plan_of(plan, &parts);
    let traced = Options {
        trace: true,
        ..options
    };
    let outcome = World::run(left.clone(), traced);
    Some(Failure {
        seed: plan.seed,
        violation: outcome.violation.unwrap_or(violation),
        parts_before,
        parts: parts.len(),
        shrink_runs: shrink_runs + 2,
        schedule: schedule(&left),
        trace: outcome.trace.unwrap_or_default(),
    })
}

fn plan_of(base: &Plan, parts: &[Part]) -> Plan {
    let mut plan = Plan {
        operations: Vec::new(),
        faults: Vec::new(),
        ..base.clone()
    };
    for part in parts {
        match part {
            Part::Fault(fault) => plan.faults.push(*fault),
            Part::Operation(operation) => plan.operations.push(*operation),
        }
    }
    plan
}

fn schedule(plan: &Plan) -> Vec<String> {
    let machines = plan.machines.iter().enumerate();
    let machines = machines.map(|(number, machine)| format!("machine {number}: {machine}"));
    let faults = plan.faults.iter().map(ToString::to_string);
    let operations = plan.operations.iter().map(ToString::to_string);
    machines.chain(faults).chain(operations).collect()
}
