//! The simulator: cores, drivers and a fabric in one loop of virtual time.
//!
//! ```text
//!          ┌─────────────── agenda of future events ───────────────┐
//!          ▼                                                       │
//!   operation  fault  arrival  connection  timers of cores and LNDs│
//!          │                                                       │
//!          ▼              Transmit           Post, Connect         │
//!        core ──settle──────────────▶ LND ─────────────▶ fabric ───┘
//!          │ events                    │ Sent, Fatal, Peer
//!          ▼                           └──────▶ core
//!       checker
//! ```
//!
//! Events at the same time happen in the order in which they were planned. There is one thread and no clock, and
//! all random numbers come from [`Random`], so two runs of the same plan are identical to the byte.
//!
//! A run ends when all operations have ended, all faults are over and every node is at rest again, or when an
//! invariant is violated.

mod node;
mod program;
mod trouble;
mod wire;

use std::rc::Rc;

use lnet_core::{Event, Output, Transmit};
#[cfg(feature = "defects")]
use lnet_policy::RuleList;
use lnet_types::{Nid, Time};
use rustc_hash::FxHashMap;
use slab::Slab;

use self::node::Node;
use self::wire::{Dialling, Flight};
use crate::agenda::Agenda;
use crate::cores::check::Checker;
use crate::cores::fabric::Fabric;
use crate::cores::lnd::{Actions, Message};
use crate::cores::plan::{Plan, PortId};
use crate::cores::tally::Tally;
use crate::cores::trace::Trace;
use crate::random::Random;
use crate::summary::Outcome;

pub(crate) use self::wire::operation_of;

/// The number of additional looks before a node counts as not at rest. The checks of gateways may keep step with
/// the ordinary looks, so that one is in flight at each of them.
const LAST_LOOKS: u32 = 3;

/// The time between additional looks, in nanoseconds. Unlike the intervals of other events, it is no simple fraction of
/// a second, so that these looks do not keep step with them.
const LAST_LOOKS_PAUSE: u64 = 7_000_000;

/// The options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Record a line for every event.
    pub trace: bool,
    /// A defect to inject.
    #[cfg(feature = "defects")]
    pub defect: Option<Defect>,
}

/// An event of the simulation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happening {
    /// A message is at the end of its path; the number is its index among the flights.
    Arrival(u32),
    /// A program begins an operation.
    Operation(u32),
    /// A program unlinks the memory of an operation.
    Cancel(u32),
    /// A connection was set up, or failed; the number is its index among the diallings.
    Dialled(u32),
    /// The timer of a core expires.
    CoreTimer(u32),
    /// The timer of a driver expires.
    LndTimer(PortId),
    /// A fault begins.
    FaultBegins(u32),
    /// A fault ends.
    FaultEnds(u32),
    /// The checkers examine all nodes.
    Look,
}

/// Injected defects that the checkers must find.
#[cfg(feature = "defects")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// The cores forget which paths their messages have used.
    ForgetUsedPaths,
    /// The cores send no recovery pings.
    ForgetRecoveries,
    /// The SEND event of a failed operation is not delivered.
    DropSendEvent,
    /// The rules of each core are in the opposite order.
    ReverseRules,
}

#[cfg(feature = "defects")]
impl Defect {
    /// Returns the rules that a core is given.
    fn rules(self, rules: &RuleList) -> RuleList {
        let mut given = RuleList::new();
        for rule in rules.rules() {
            let at = (self == Self::ReverseRules).then_some(0);
            // The rules were one list before, so the list accepts them.
            let _added = given.add(rule.clone(), at);
        }
        given
    }
}

/// A run of the simulation.
#[derive(Debug)]
pub struct Sim {
    plan: Rc<Plan>,
    now: u64,
    agenda: Agenda<Happening>,
    nodes: Vec<Node>,
    fabric: Fabric,
    /// The interface that has each NID.
    places: FxHashMap<Nid, PortId>,
    flights: Slab<Flight>,
    diallings: Slab<Dialling>,
    random: Random,
    /// The active partitions: the index of the fault, and for each node whether it is cut off.
    partitions: Vec<(usize, Vec<bool>)>,
    /// The number of faults that have not ended.
    faults_left: usize,
    operations_left: usize,
    /// The time at which the last fault ended.
    calm_since: u64,
    /// The number of looks at nodes that should be at rest by now.
    last_looks: u32,
    checker: Checker,
    tally: Tally,
    trace: Trace,
    actions: Actions,
    #[cfg(feature = "defects")]
    defect: Option<Defect>,
}

impl Sim {
    /// Runs a plan to its end.
    #[must_use]
    pub fn run(plan: Rc<Plan>, options: Options) -> Outcome {
        let mut sim = Self::new(plan, options);
        while sim.step() {}
        sim.outcome()
    }

    /// Makes a simulation in which all nodes are up and nothing has happened yet.
    #[must_use]
    pub fn new(plan: Rc<Plan>, options: Options) -> Self {
        let mut fabric = Fabric::new(&plan.world, plan.seed);
        let nodes = node::all(&plan, &mut fabric);
        let mut sim = Self {
            now: 0,
            agenda: Agenda::new(),
            places: node::places(&plan),
            nodes,
            fabric,
            flights: Slab::new(),
            diallings: Slab::new(),
            random: Random::stream(plan.seed, 3),
            partitions: Vec::new(),
            faults_left: plan.faults.len(),
            operations_left: plan.operations.len(),
            calm_since: 0,
            last_looks: 0,
            checker: Checker::new(&plan),
            tally: Tally::new(&plan),
            trace: Trace::new(options.trace),
            actions: Actions::new(),
            #[cfg(feature = "defects")]
            defect: options.defect,
            plan,
        };
        sim.begin();
        sim
    }

    fn begin(&mut self) {
        for node in 0..self.nodes.len() as u32 {
            self.boot(node);
        }
        let plan = Rc::clone(&self.plan);
        for (index, fault) in plan.faults.iter().enumerate() {
            self.agenda
                .plan(fault.at, Happening::FaultBegins(index as u32));
            self.agenda.plan(
                fault.until.max(fault.at),
                Happening::FaultEnds(index as u32),
            );
        }
        if let Some(first) = plan.operations.first() {
            self.agenda.plan(first.at, Happening::Operation(0));
        }
        self.agenda.plan(self.look_interval(), Happening::Look);
    }

    /// Returns the time between two looks. It grows with the number of nodes, so that the looks stay a small part
    /// of the work.
    fn look_interval(&self) -> u64 {
        (self.nodes.len() as u64 * 4_000_000).max(500_000_000)
    }

    /// Processes the next event; returns false when the run is over.
    pub fn step(&mut self) -> bool {
        let Some((at, happening)) = self.agenda.next() else {
            return false;
        };
        self.now = self.now.max(at);
        match happening {
            Happening::Arrival(flight) => self.arrival(flight),
            Happening::Operation(index) => self.operation(index),
            Happening::Cancel(index) => self.cancel(index),
            Happening::Dialled(dialling) => self.dialled(dialling),
            Happening::CoreTimer(node) => self.core_timer(node),
            Happening::LndTimer(port) => self.lnd_timer(port),
            Happening::FaultBegins(index) => self.fault_begins(index),
            Happening::FaultEnds(index) => self.fault_ends(index),
            Happening::Look => return self.look(),
        }
        self.checker.violation().is_none()
    }

    /// Returns the virtual time since the beginning, in nanoseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// Returns the result of the run so far.
    #[must_use]
    pub fn outcome(mut self) -> Outcome {
        if self.checker.violation().is_none() {
            self.checker.finish(&self.plan, self.now);
        }
        self.tally.close(
            self.now,
            self.nodes.iter().filter_map(|node| node.core.as_deref()),
        );
        Outcome {
            summary: self.tally.into_summary(),
            violation: self.checker.violation().cloned(),
            unanswered: self.checker.unanswered(&self.plan),
            trace: self.trace.into_text(),
        }
    }

    // --- between a core and its drivers ---

    /// Carries out the outputs of a core until it has no more.
    fn settle(&mut self, index: u32) {
        while let Some(output) = self.output_of(index) {
            match output {
                Output::Transmit(transmit) => self.transmit(index, transmit),
                Output::Event(event) => self.event(index, &event),
                Output::Resume { rx, landing } => self.resume(index, rx, landing),
                // In the simulation a payload lands at once, so there is none to cancel, and there are no connections.
                Output::Cancel { .. } | Output::Doubt { .. } => {}
                Output::Gateway { nid, alive } => {
                    self.trace
                        .gateway(self.now, &self.plan.world, index, nid, alive);
                }
            }
        }
        self.arm_core(index);
    }

    fn output_of(&mut self, index: u32) -> Option<Output> {
        self.nodes
            .get_mut(index as usize)?
            .core
            .as_deref_mut()?
            .poll_output()
    }

    fn arm_core(&mut self, index: u32) {
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return;
        };
        let Some(due) = node
            .core
            .as_deref()
            .and_then(lnet_core::Core::next_deadline)
        else {
            return;
        };
        let due = due.as_nanos().max(self.now);
        if due < node.wake_at {
            node.wake_at = due;
            self.agenda.plan(due, Happening::CoreTimer(index));
        }
    }

    fn core_timer(&mut self, index: u32) {
        let now = self.time();
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return;
        };
        // The timer was planned for another time since.
        if node.wake_at != self.now {
            return;
        }
        node.wake_at = u64::MAX;
        if let Some(core) = node.core.as_deref_mut() {
            #[cfg(feature = "defects")]
            match self.defect {
                Some(Defect::ForgetUsedPaths) => core.forget_used_paths(),
                Some(Defect::ForgetRecoveries) => core.forget_recoveries(),
                _ => {}
            }
            core.tick(now);
        }
        self.settle(index);
    }

    fn transmit(&mut self, index: u32, transmit: Transmit) {
        let operation = wire::operation_of(&transmit.header);
        let own = |operation: &u64| {
            let spec = self.plan.operations.get(*operation as usize);
            spec.is_some_and(|spec| spec.from == index)
        };
        if let Some(operation) = operation.filter(own) {
            let path = (transmit.ni, transmit.to.nid);
            self.checker.attempt(operation, path, self.now);
        }
        self.trace
            .transmit(self.now, &self.plan.world, index, &transmit);
        let now = self.time();
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return;
        };
        let message = Message {
            tx: transmit.tx,
            peer: transmit.to.nid,
            bytes: node.payload(&transmit),
            header: transmit.header,
            deadline: transmit.deadline,
        };
        let Some(port) = node.port_of(transmit.ni) else {
            return self.loop_back(index, message);
        };
        if let Some(port) = node.ports.get_mut(usize::from(port)) {
            port.lnd.transmit(message, now, &mut self.actions);
        }
        self.act(PortId {
            node: index,
            ni: port,
        });
    }

    fn event(&mut self, index: u32, event: &Event) {
        #[cfg(feature = "defects")]
        if self.defect == Some(Defect::DropSendEvent)
            && event.kind == lnet_core::EventKind::Send
            && event.status.is_err()
        {
            return;
        }
        self.trace.event(self.now, &self.plan.world, index, event);
        let is_sink = self
            .nodes
            .get(index as usize)
            .is_some_and(|node| node.sink == Some(event.md));
        if is_sink {
            self.checker.accepted(event, self.now);
        } else {
            self.tally.told(event);
            self.checker.told(event, self.now);
        }
    }

    // --- the end ---

    /// Lets the checkers examine all nodes; returns false when the run is over.
    fn look(&mut self) -> bool {
        let plan = Rc::clone(&self.plan);
        for (index, node) in self.nodes.iter().enumerate() {
            if let (Some(core), Some(spec)) = (node.core.as_deref(), plan.world.nodes.get(index)) {
                self.checker.look(index as u32, &spec.name, core, self.now);
            }
        }
        let busy = self.operations_left > 0 || self.faults_left > 0;
        if self.checker.violation().is_some() || (!busy && self.is_over()) {
            return false;
        }
        // Nodes that should be at rest are examined often, so that the time of the recovery is known precisely.
        let interval = match self.last_looks {
            0 => self.look_interval(),
            _ => LAST_LOOKS_PAUSE,
        };
        self.agenda.plan(self.now + interval, Happening::Look);
        true
    }

    /// Returns true if everything has ended and every node is at rest, or if a node has exceeded its time to come
    /// to rest.
    fn is_over(&mut self) -> bool {
        let plan = Rc::clone(&self.plan);
        let quiet = self.flights.is_empty() && self.checker.all_ended();
        let unrest = self
            .nodes
            .iter()
            .zip(&plan.world.nodes)
            .find_map(|(node, spec)| {
                let core = node.core.as_deref()?;
                let what = self.checker.unrest(core, 1)?;
                Some((spec.name.as_str(), what))
            });
        if quiet && unrest.is_none() {
            if !plan.faults.is_empty() {
                let span = self.now.saturating_sub(self.calm_since);
                self.tally.recovered(span);
            }
            return true;
        }
        if self.now < self.calm_since + self.patience() {
            return false;
        }
        if unrest.is_some() && self.last_looks < LAST_LOOKS {
            self.last_looks += 1;
            return false;
        }
        if let Some((name, what)) = unrest {
            self.checker.restless(name, what, self.now);
        }
        true
    }

    /// Returns the time within which everything must come to rest after the last fault: operations in flight time
    /// out, and an interface whose health is 0 needs one ping for each step up, each after the longest pause.
    fn patience(&self) -> u64 {
        let globals = &self.plan.world.globals;
        let steps = 1000 / u32::from(globals.health_sensitivity.max(1)) + 10;
        let pauses = globals.max_recovery_ping_interval.saturating_mul(steps);
        let checks = globals.alive_router_check_interval.saturating_mul(4);
        let timeouts = globals.transaction_timeout.saturating_mul(4);
        (pauses + checks + timeouts).as_nanos() as u64
    }
}
