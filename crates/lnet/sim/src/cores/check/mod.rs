//! Checks a run of cores. [`Invariant`] says what must hold; the checks use only the outputs and the visible state of
//! the cores.

mod class;
mod counters;

use lnet_core::{Core, Event, EventKind, NiId};
use lnet_policy::{Profile, RuleList};
use lnet_types::Nid;
use smallvec::SmallVec;

use self::counters::Counted;
use crate::cores::plan::{OperationKind, Plan};
use crate::invariant::{Invariant, Violation};
use crate::rest::unrest;

/// The facts about one operation.
#[derive(Clone, Debug, Default)]
struct Record {
    started: Option<u64>,
    deliveries: u32,
    lies: u32,
    sends: u8,
    /// An event reported the response or its timeout.
    answered: bool,
    /// An event reported the response.
    responded: bool,
    cancelled: bool,
    /// The last event of its descriptor was seen.
    ended: bool,
    /// The node crashed while the operation was in flight.
    orphaned: bool,
    paths: SmallVec<[(NiId, Nid); 2]>,
    /// The paths that the first attempt may take, if they are known.
    wanted: Option<Box<class::Paths>>,
}

/// All checkers of a run.
#[derive(Debug)]
pub(crate) struct Checker {
    timeout: u64,
    design: bool,
    records: Vec<Record>,
    counted: Vec<Counted>,
    first: Option<Violation>,
}

impl Checker {
    pub(crate) fn new(plan: &Plan) -> Self {
        let globals = &plan.world.globals;
        Self {
            timeout: globals.transaction_timeout.as_nanos() as u64,
            design: globals.profile == Profile::Design,
            records: vec![Record::default(); plan.operations.len()],
            counted: vec![Counted::default(); plan.world.nodes.len()],
            first: None,
        }
    }

    /// Returns the first violation of an invariant.
    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.first.as_ref()
    }

    fn violated(&mut self, at: u64, invariant: Invariant, what: String) {
        self.first.get_or_insert(Violation {
            at,
            invariant,
            what,
        });
    }

    pub(crate) fn started(&mut self, operation: u32, now: u64) {
        if let Some(record) = self.records.get_mut(operation as usize) {
            record.started = Some(now);
        }
    }

    /// Derives the paths that an operation may take if it begins now.
    pub(crate) fn foresee(&mut self, operation: u32, rules: &RuleList, core: &Core, target: Nid) {
        if let Some(record) = self.records.get_mut(operation as usize) {
            let paths = class::first_paths(rules.rules(), core, target);
            record.wanted = Some(Box::new(paths));
        }
    }

    /// Records that an interface of a node went down, with the operations that the node starts. A message that waits
    /// for a credit of that interface leaves by another path, which is a resend although no driver has seen the
    /// message. The outputs do not show which messages wait there, so the first attempts that are still to come are
    /// not checked. Operations that begin later are.
    pub(crate) fn interface_down(&mut self, operations: impl Iterator<Item = u32>) {
        for operation in operations {
            if let Some(record) = self.records.get_mut(operation as usize) {
                record.wanted = None;
            }
        }
    }

    pub(crate) fn cancelled(&mut self, operation: u32) {
        if let Some(record) = self.records.get_mut(operation as usize) {
            record.cancelled = true;
        }
    }

    /// Records that a driver reported a failure for a message that had arrived.
    pub(crate) fn lied(&mut self, operation: u64) {
        if let Some(record) = self.records.get_mut(operation as usize) {
            record.lies += 1;
        }
    }

    /// Records that the initiator hands a message of its operation to a driver.
    pub(crate) fn attempt(&mut self, operation: u64, path: (NiId, Nid), now: u64) {
        let Some(record) = self.records.get_mut(operation as usize) else {
            return;
        };
        let again = record.paths.contains(&path);
        record.paths.push(path);
        if let Some(wanted) = record.wanted.take().filter(|wanted| !wanted.allow(path)) {
            let (ni, hop) = path;
            let what = format!(
                "operation {operation} from interface {} to {hop}, and better are {wanted:?}",
                ni.0
            );
            return self.violated(now, Invariant::BestPath, what);
        }
        if again && self.design {
            let (ni, hop) = path;
            let what = format!(
                "operation {operation} again from interface {} to {hop}",
                ni.0
            );
            self.violated(now, Invariant::FreshPath, what);
        }
    }

    /// Records an event of the program that accepts messages.
    pub(crate) fn accepted(&mut self, event: &Event, now: u64) {
        let operation = event.match_bits;
        if !matches!(event.kind, EventKind::Put | EventKind::Get) || event.status.is_err() {
            return;
        }
        let Some(record) = self.records.get_mut(operation as usize) else {
            return self.violated(
                now,
                Invariant::Delivery,
                format!("operation {operation} does not exist"),
            );
        };
        record.deliveries += 1;
        if record.deliveries > 1 + record.lies {
            let what = format!(
                "operation {operation} delivered {} times",
                record.deliveries
            );
            self.violated(now, Invariant::Delivery, what);
        }
    }

    /// Records an event of the program that started an operation.
    pub(crate) fn told(&mut self, event: &Event, now: u64) {
        let operation = event.user;
        let Some(record) = self.records.get_mut(operation as usize) else {
            return self.violated(
                now,
                Invariant::LastEvent,
                format!("operation {operation} does not exist"),
            );
        };
        let after_the_end = record.ended;
        record.ended |= event.unlinked;
        record.sends += u8::from(event.kind == EventKind::Send);
        let second_send = event.kind == EventKind::Send && record.sends > 1;
        let answers = matches!(
            event.kind,
            EventKind::Ack | EventKind::Reply | EventKind::Timeout
        );
        record.answered |= answers;
        record.responded |=
            matches!(event.kind, EventKind::Ack | EventKind::Reply) && event.status.is_ok();
        let late = answers
            && record
                .started
                .is_some_and(|begin| now > begin + self.timeout);
        let kind = event.kind;
        if after_the_end {
            self.violated(
                now,
                Invariant::LastEvent,
                format!("operation {operation}: {kind:?} after its last event"),
            );
        }
        if second_send {
            self.violated(
                now,
                Invariant::OneSend,
                format!("operation {operation} has a second SEND event"),
            );
        }
        if late {
            self.violated(
                now,
                Invariant::Deadline,
                format!("operation {operation}: {kind:?} after its deadline"),
            );
        }
    }

    /// Returns the operations that began and expect a response but did not get one.
    pub(crate) fn unanswered(&self, plan: &Plan) -> Vec<u32> {
        let operations = (0_u32..).zip(self.records.iter().zip(&plan.operations));
        let is_unanswered = |record: &Record, kind: OperationKind| {
            record.started.is_some() && !record.responded && kind != OperationKind::Put
        };
        operations
            .filter(|(_, (record, spec))| is_unanswered(record, spec.kind))
            .map(|(index, _)| index)
            .collect()
    }

    /// Records that a core rejected a message of another core as illegal.
    pub(crate) fn refused(&mut self, node: &str, why: &str, now: u64) {
        self.violated(
            now,
            Invariant::Rejected,
            format!("{node} refused a message: {why}"),
        );
    }

    /// Records that a node crashed, with the operations that it had started.
    pub(crate) fn crashed(&mut self, node: u32, operations: impl Iterator<Item = u32>) {
        if let Some(counted) = self.counted.get_mut(node as usize) {
            *counted = Counted::default();
        }
        for operation in operations {
            if let Some(record) = self.records.get_mut(operation as usize)
                && record.started.is_some()
            {
                record.orphaned = true;
            }
        }
    }

    /// Checks a node while it runs.
    pub(crate) fn look(&mut self, node: u32, name: &str, core: &Core, now: u64) {
        let Some(counted) = self.counted.get_mut(node as usize) else {
            return;
        };
        if let Err(what) = counted.check(core.counters()) {
            self.violated(now, Invariant::Counters, format!("{name}: {what}"));
        }
    }

    /// Returns what is not at rest in a core; `None` if everything is at rest.
    pub(crate) fn unrest(&self, core: &Core, sinks: usize) -> Option<(Invariant, String)> {
        unrest(core, sinks, &|_| true)
    }

    /// Records that the time limit has expired and a node is not at rest.
    pub(crate) fn restless(
        &mut self,
        name: &str,
        (invariant, what): (Invariant, String),
        now: u64,
    ) {
        self.violated(now, invariant, format!("{name}: {what}"));
    }

    /// Returns true if all operations have ended.
    pub(crate) fn all_ended(&self) -> bool {
        let done = |record: &Record| record.started.is_none() || record.orphaned || record.ended;
        self.records.iter().all(done)
    }

    /// Checks at the end of the run that every operation has its events.
    pub(crate) fn finish(&mut self, plan: &Plan, now: u64) {
        for operation in 0..self.records.len() {
            let Some((record, spec)) = self
                .records
                .get(operation)
                .zip(plan.operations.get(operation))
            else {
                continue;
            };
            if record.started.is_none() || record.orphaned {
                continue;
            }
            let tracked = spec.kind != OperationKind::Put;
            let problem = if record.sends != 1 {
                (
                    Invariant::OneSend,
                    format!("has {} SEND events", record.sends),
                )
            } else if tracked && !record.answered && !record.cancelled {
                (
                    Invariant::Deadline,
                    "ended in neither a response nor TIMEOUT".to_owned(),
                )
            } else if !record.ended {
                (
                    Invariant::Leftover,
                    "has a descriptor that never ended".to_owned(),
                )
            } else {
                continue;
            };
            self.violated(
                now,
                problem.0,
                format!("operation {operation} {}", problem.1),
            );
        }
    }
}
