//! Describes a failing run: the seed, the smallest schedule that still fails, and its trace.

use std::fmt::{self, Write};
use std::rc::Rc;

use serde::Serialize;

use crate::check::Violation;
use crate::plan::{OperationKind, Plan, Seconds, ShownTrouble};
use crate::shrink::shrink;
use crate::sim::{Options, Sim};

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
    pub fn of(plan: Plan, options: Options, runs_max: u32) -> Option<Self> {
        let plan = Rc::new(plan);
        let shrunk = shrink(&plan, options, runs_max)?;
        let outcome = Sim::run(Rc::clone(&shrunk.plan), options.traced());
        let parts = |plan: &Plan| plan.faults.len() + plan.operations.len();
        Some(Self {
            seed: plan.seed,
            violation: shrunk.violation,
            parts_before: parts(&plan),
            parts: parts(&shrunk.plan),
            shrink_runs: shrunk.runs,
            schedule: schedule(&shrunk.plan),
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

fn schedule(plan: &Plan) -> Vec<String> {
    let world = &plan.world;
    let mut lines = Vec::new();
    for node in &world.nodes {
        let mut line = node.name.clone();
        for ni in &node.nis {
            // Writing to a string cannot fail.
            let _written = write!(line, " {}", ni.nid);
        }
        lines.push(line);
    }
    for fault in &plan.faults {
        let (at, until) = (Seconds(fault.at), Seconds(fault.until));
        let what = ShownTrouble(world, &fault.what);
        lines.push(format!("{at} to {until} s: {what}"));
    }
    for (number, operation) in plan.operations.iter().enumerate() {
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
