//! What must hold whatever fails: checked from outside, by what the nodes tell their programs and show.
//!
//! | # | invariant | checked |
//! |---|---|---|
//! | 1 | a message is delivered at most once for each attempt; in a calm run exactly once | at each PUT and GET event, and at the end |
//! | 2 | each message has exactly one SEND event | at each event, and at the end |
//! | 3 | what wants an answer ends in REPLY, ACK or TIMEOUT by its deadline | at each event, and at the end |
//! | 4 | nothing comes after the last event of a descriptor | at each event |
//! | 5 | payload arrives as it was sent, byte for byte | when memory comes back |
//! | 6 | an answer is believed only from whom was asked | at each ACK and REPLY event |
//! | 7 | a turn carries out a bounded number of outputs | after each step |
//! | 8 | no descriptor, message or memory is left | at the end |
//! | 9 | credits, buffers and health are as they were, and no byte waits on a line | at the end |
//! | 10 | nodes do not call each other's frames wrong, and hold no more than their limits | while it runs |
//! | 11 | in a calm run, and where the plan says that faults are over, everything succeeds | at the end |
//! | 12 | everything comes to rest | while it runs |
//! | 13 | a HELLO is answered, and connections are in the end, as sections 2.5 to 2.8 prescribe | at each answer, and at the end |
//! | 14 | where nodes discover each other, a peer that was sent something is Multi-Rail with all its interfaces | at the end |
//!
//! A REPLY whose header came in time may end later, by as much as the LND waits for a connection that stands still.
//! An ACK or REPLY may be told before the SEND event of its request: the answer can be read before the write that it
//! answers is reported.

use lnet_core::{Event, EventKind};
use lnet_sim::Violation;
use lnet_stack::{Memory, NodeEvent};

use crate::node::{TARGET, pattern};
use crate::plan::{Kind, Plan, Program, Trouble};

/// What is known of an operation.
#[derive(Clone, Debug, Default)]
struct Record {
    started: Option<u64>,
    sends: u32,
    failed: bool,
    answered: bool,
    responded: bool,
    ended: bool,
    /// Its machine was switched off with it.
    orphaned: bool,
    deliveries: u32,
    /// It was delivered to memory that is still lent.
    landed: bool,
}

/// All checkers of a run.
#[derive(Debug)]
pub(crate) struct Checker {
    records: Vec<Record>,
    first: Option<Violation>,
}

/// What a node may be late by, besides the time that its machine stands still.
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

    pub(crate) fn broken(&mut self, at: u64, invariant: u8, what: String) {
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

    /// A machine was switched off, with its operations and with the memory that it lent to those of others.
    pub(crate) fn switched_off(&mut self, plan: &Plan, machine: u32) {
        for (record, operation) in self.records.iter_mut().zip(&plan.operations) {
            let orphaned = record.started.is_some() && !record.ended;
            record.orphaned |= operation.from == machine && orphaned;
            record.landed &= operation.to != machine;
        }
    }

    /// Whether an operation was begun and has not ended.
    pub(crate) fn all_ended(&self) -> bool {
        let done = |record: &Record| record.started.is_none() || record.orphaned || record.ended;
        self.records.iter().all(done)
    }

    /// A program was told something.
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
            return self.broken(now, 1, what);
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
            self.broken(now, 5, what);
        }
    }

    fn initiator(&mut self, plan: &Plan, operation: u32, told: &NodeEvent, now: u64) {
        let Some(spec) = plan.operations.get(operation as usize) else {
            return self.broken(now, 4, format!("operation {operation} does not exist"));
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
            return self.broken(now, 4, what);
        }
        if sends > spec.count {
            let what = format!("operation {operation} has {sends} SEND events");
            return self.broken(now, 2, what);
        }
        let is_answer = matches!(kind, EventKind::Ack | EventKind::Reply | EventKind::Timeout);
        let landing = if kind == EventKind::Reply {
            landing_ns(plan)
        } else {
            0
        };
        if is_answer && now > deadline(plan, spec.from, started) + landing {
            let what = format!("operation {operation}: {kind:?} after its deadline");
            return self.broken(now, 3, what);
        }
        let asked = plan.machines.get(spec.to as usize);
        if responded && asked.is_some_and(|machine| machine.program == Program::Thief) {
            let what = format!("operation {operation}: {kind:?} by somebody who was not asked");
            return self.broken(now, 6, what);
        }
        // A GET is told to its target when the REPLY has been written, which may be later than here.
        let acknowledged = responded && spec.kind == Kind::PutAck;
        if acknowledged && self.deliveries(operation) == 0 {
            let what = format!("operation {operation}: {kind:?} of what was not delivered");
            return self.broken(now, 1, what);
        }
        let memory = told.memory.as_ref();
        if let Some(memory) = memory.filter(|_| responded && spec.kind == Kind::Get) {
            self.payload(operation, memory, now);
        }
    }

    /// The run is over: every operation has what it must have.
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
                (2, format!("has {} SEND events", record.sends))
            } else if wants_answer && !record.answered {
                (3, "ended in neither an answer nor TIMEOUT".to_owned())
            } else if !record.ended {
                (8, "has a descriptor that never ended".to_owned())
            } else if (plan.is_calm() || plan.is_sound_at(spec.at)) && !complete {
                (11, format!("did not succeed: {record:?}"))
            } else {
                continue;
            };
            self.broken(now, problem.0, format!("operation {number} {}", problem.1));
        }
    }

    /// Operations that were begun, and of these the failed ones.
    pub(crate) fn figures(&self) -> (u64, u64) {
        let begun = self.records.iter().filter(|it| it.started.is_some());
        let failed = begun.clone().filter(|it| it.failed);
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
        // Of a request that could not be sent nobody answers.
        self.answered |= answers || (is_send && event.status.is_err());
        self.responded |=
            matches!(event.kind, EventKind::Ack | EventKind::Reply) && event.status.is_ok();
        self.ended |= event.unlinked;
    }
}

/// A REPLY that has begun to arrive is waited for no longer, but for the LND, which looks for progress four times in
/// each of its timeouts.
fn landing_ns(plan: &Plan) -> u64 {
    let timeout = plan.globals.lnd_timeout().as_nanos() as u64;
    timeout + timeout / 4
}

/// When the answer to what a machine asked must have been told: it can tell nothing while it stands still.
fn deadline(plan: &Plan, machine: u32, started: u64) -> u64 {
    let timeout = plan.globals.transaction_timeout.as_nanos() as u64;
    let stands = plan
        .faults
        .iter()
        .filter(|fault| fault.machine == machine && fault.what == Trouble::Standstill);
    let stood = stands.map(|fault| fault.until).max().unwrap_or(0);
    (started + timeout).max(stood) + LATE_NS
}
