//! Checks a run of stacks. [`Invariant`] says what must hold; the checks use only the events of the nodes and their
//! visible state.
//!
//! A REPLY whose header arrived in time may complete later, by as much as the LND waits for a connection without
//! progress. An ACK or REPLY event may precede the SEND event of its request, because the response can be read
//! before the write of the request is reported.

use lnet_core::{Event, EventKind};
use lnet_node::stack::{Memory, NodeEvent};

use crate::invariant::{Invariant, Violation};
use crate::stacks::node::{TARGET, pattern};
use crate::stacks::plan::{Kind, Plan, Program, Trouble};

/// The facts about one operation.
#[derive(Clone, Debug, Default)]
struct Record {
    started: Option<u64>,
    sends: u32,
    failed: bool,
    answered: bool,
    responded: bool,
    ended: bool,
    /// The machine was switched off while the operation was in progress.
    orphaned: bool,
    deliveries: u32,
    /// The message was delivered, and the memory of the target that holds it still exists.
    landed: bool,
}

/// All checkers of a run.
#[derive(Debug)]
pub(crate) struct Checker {
    records: Vec<Record>,
    first: Option<Violation>,
}

/// The time that a node may be late in addition to the time that its machine stands still, in nanoseconds.
const LATE_NS: u64 = 200_000_000;

impl Checker {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            records: vec![Record::default(); plan.operations.len()],
            first: None,
        }
    }

    pub(crate) fn violation(&self) -> Option<&Violation> {
        self.first.as_ref()
    }

    pub(crate) fn violated(&mut self, at: u64, invariant: Invariant, what: String) {
        self.first.get_or_insert(Violation {
            at,
            invariant,
            what,
        });
    }

    fn deliveries(&self, operation: u32) -> u32 {
        let record = self.records.get(operation as usize);
        record.map_or(0, |record| record.deliveries)
    }

    fn record(&mut self, operation: u32) -> Option<&mut Record> {
        self.records.get_mut(operation as usize)
    }

    pub(crate) fn started(&mut self, operation: u32, now: u64) {
        if let Some(record) = self.record(operation) {
            record.started = Some(now);
        }
    }

    /// Records that a machine was switched off. Its operations are lost, and so is the memory that it provided for
    /// operations of others.
    pub(crate) fn switched_off(&mut self, plan: &Plan, machine: u32) {
        for (record, operation) in self.records.iter_mut().zip(&plan.operations) {
            let orphaned = record.started.is_some() && !record.ended;
            record.orphaned |= operation.from == machine && orphaned;
            record.landed &= operation.to != machine;
        }
    }

    /// Returns true if every operation that began has ended.
    pub(crate) fn all_ended(&self) -> bool {
        let done = |record: &Record| record.started.is_none() || record.orphaned || record.ended;
        self.records.iter().all(done)
    }

    /// Records an event of a program.
    pub(crate) fn told(&mut self, plan: &Plan, told: &NodeEvent, now: u64) {
        let operation = (told.event.user & (TARGET - 1)) as u32;
        if told.event.user & TARGET == 0 {
            self.initiator(plan, operation, told, now);
        } else {
            self.target(plan, operation, told, now);
        }
    }

    fn target(&mut self, plan: &Plan, operation: u32, told: &NodeEvent, now: u64) {
        let Some(spec) = plan.operations.get(operation as usize) else {
            return;
        };
        let event = &told.event;
        let arrived = matches!(event.kind, EventKind::Put | EventKind::Get) && event.status.is_ok();
        let attempts = if plan.is_calm() {
            1
        } else {
            1 + plan.globals.retry_count
        };
        let limit = spec.count * attempts;
        let Some(record) = self.record(operation) else {
            return;
        };
        record.deliveries += u32::from(arrived);
        record.landed |= arrived;
        let landed = record.landed;
        let deliveries = record.deliveries;
        if deliveries > limit {
            let what = format!("operation {operation} delivered {deliveries} times");
            return self.violated(now, Invariant::Delivery, what);
        }
        let is_put = spec.kind != Kind::Get;
        if let Some(memory) = told.memory.as_ref().filter(|_| is_put && landed) {
            self.payload(operation, memory, now);
        }
    }

    fn payload(&mut self, operation: u32, memory: &Memory, now: u64) {
        let bytes = memory.as_slice();
        let wrong = (0..bytes.len()).find(|&at| bytes.get(at) != Some(&pattern(operation, at)));
        if let Some(at) = wrong {
            let length = bytes.len();
            let what = format!("operation {operation}: byte {at} of {length} is not what was sent");
            self.violated(now, Invariant::Payload, what);
        }
    }

    fn initiator(&mut self, plan: &Plan, operation: u32, told: &NodeEvent, now: u64) {
        let Some(spec) = plan.operations.get(operation as usize) else {
            return self.violated(
                now,
                Invariant::LastEvent,
                format!("operation {operation} does not exist"),
            );
        };
        let event = &told.event;
        let Some(record) = self.record(operation) else {
            return;
        };
        let kind = event.kind;
        let after_the_end = record.ended;
        record.note(event);
        let (sends, responded) = (record.sends, record.responded);
        let started = record.started.unwrap_or(0);
        if after_the_end {
            let what = format!("operation {operation}: {kind:?} after its last event");
            return self.violated(now, Invariant::LastEvent, what);
        }
        if sends > spec.count {
            let what = format!("operation {operation} has {sends} SEND events");
            return self.violated(now, Invariant::OneSend, what);
        }
        let is_answer = matches!(kind, EventKind::Ack | EventKind::Reply | EventKind::Timeout);
        let destination = if kind == EventKind::Reply {
            reading_ns(plan)
        } else {
            0
        };
        if is_answer && now > deadline(plan, spec.from, started) + destination {
            let what = format!("operation {operation}: {kind:?} after its deadline");
            return self.violated(now, Invariant::Deadline, what);
        }
        let asked = plan.machines.get(spec.to as usize);
        if responded && asked.is_some_and(|machine| machine.program == Program::Thief) {
            let what = format!("operation {operation}: {kind:?} by somebody who was not asked");
            return self.violated(now, Invariant::Responder, what);
        }
        // The target of a GET gets its event when the REPLY has been written. This may be later than the REPLY
        // event of the initiator.
        let acknowledged = responded && spec.kind == Kind::PutAck;
        if acknowledged && self.deliveries(operation) == 0 {
            let what = format!("operation {operation}: {kind:?} of what was not delivered");
            return self.violated(now, Invariant::Delivery, what);
        }
        let memory = told.memory.as_ref();
        if let Some(memory) = memory.filter(|_| responded && spec.kind == Kind::Get) {
            self.payload(operation, memory, now);
        }
    }

    /// Checks at the end of the run that every operation has its events.
    pub(crate) fn finish(&mut self, plan: &Plan, now: u64) {
        for (number, spec) in plan.operations.iter().enumerate() {
            let Some(record) = self.records.get(number) else {
                continue;
            };
            if record.started.is_none() || record.orphaned {
                continue;
            }
            let wants_answer = spec.kind != Kind::Put;
            let complete = !record.failed
                && record.deliveries == spec.count
                && (record.responded || !wants_answer);
            let problem = if record.sends != spec.count {
                (
                    Invariant::OneSend,
                    format!("has {} SEND events", record.sends),
                )
            } else if wants_answer && !record.answered {
                (
                    Invariant::Deadline,
                    "ended in neither an answer nor TIMEOUT".to_owned(),
                )
            } else if !record.ended {
                (
                    Invariant::Leftover,
                    "has a descriptor that never ended".to_owned(),
                )
            } else if (plan.is_calm() || plan.is_sound_at(spec.at)) && !complete {
                (Invariant::Success, format!("did not succeed: {record:?}"))
            } else {
                continue;
            };
            self.violated(now, problem.0, format!("operation {number} {}", problem.1));
        }
    }

    /// Returns the number of operations that began, and how many of them failed.
    pub(crate) fn figures(&self) -> (u64, u64) {
        let begun = self
            .records
            .iter()
            .filter(|record| record.started.is_some());
        let failed = begun.clone().filter(|record| record.failed);
        (begun.count() as u64, failed.count() as u64)
    }
}

impl Record {
    fn note(&mut self, event: &Event) {
        let is_send = event.kind == EventKind::Send;
        self.sends += u32::from(is_send);
        self.failed |= event.kind == EventKind::Timeout || (is_send && event.status.is_err());
        let answers = matches!(
            event.kind,
            EventKind::Ack | EventKind::Reply | EventKind::Timeout
        );
        // A request that could not be sent gets no response.
        self.answered |= answers || (is_send && event.status.is_err());
        self.responded |=
            matches!(event.kind, EventKind::Ack | EventKind::Reply) && event.status.is_ok();
        self.ended |= event.unlinked;
    }
}

/// Returns how late a REPLY may complete. The LND limits the wait for a REPLY that has begun to arrive: it checks
/// for progress four times in each of its timeouts.
fn reading_ns(plan: &Plan) -> u64 {
    let timeout = plan.globals.lnd_timeout().as_nanos() as u64;
    timeout + timeout / 4
}

/// Returns the time by which a response must have been reported. A machine reports nothing while it stands still.
fn deadline(plan: &Plan, machine: u32, started: u64) -> u64 {
    let timeout = plan.globals.transaction_timeout.as_nanos() as u64;
    let stands = plan
        .faults
        .iter()
        .filter(|fault| fault.machine == machine && fault.what == Trouble::Standstill);
    let stood = stands.map(|fault| fault.until).max().unwrap_or(0);
    (started + timeout).max(stood) + LATE_NS
}
