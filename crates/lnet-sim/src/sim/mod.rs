//! The simulator: cores, drivers and a fabric in one loop of virtual time.
//!
//! ```text
//!          ┌────────────── heap of what happens when ──────────────┐
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
//! What happens at the same time happens in the order in which it was planned. There is one thread, no
//! clock and no chance but [`Random`], so the same plan gives the same run to the byte.
//!
//! A run ends when all operations have ended, all faults are over and every node is at rest again, or
//! when an invariant is broken.

mod heap;
mod node;
mod program;
mod trouble;
mod wire;

use std::rc::Rc;

use lnet_core::{Event, Output, Transmit};
#[cfg(feature = "broken")]
use lnet_policy::RuleList;
use lnet_types::{Nid, Time};
use rustc_hash::FxHashMap;
use slab::Slab;

use self::heap::{Happening, Heap};
use self::node::Node;
use self::wire::{Dialling, Flight};
use crate::check::Checker;
use crate::fabric::Fabric;
use crate::lnd::{Actions, Message};
use crate::plan::{Plan, PortId};
use crate::random::Random;
use crate::summary::{Outcome, Tally};
use crate::trace::Trace;

pub(crate) use self::wire::operation_of;

/// Looks before a node counts as restless. The checks of gateways keep step with the ordinary looks: there may be one
/// under way at each of these.
const LAST_LOOKS: u32 = 3;

/// The time between them, in nanoseconds: no fraction of a second that anything else happens in.
const LAST_LOOKS_PAUSE: u64 = 7_000_000;

/// How to run a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Keep a line for everything that happens.
    pub trace: bool,
    /// A defect to order.
    #[cfg(feature = "broken")]
    pub sabotage: Option<Sabotage>,
}

impl Options {
    /// The same with a line for everything that happens.
    #[must_use]
    pub const fn traced(mut self) -> Self {
        self.trace = true;
        self
    }
}

/// Defects that the checkers must see.
#[cfg(feature = "broken")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// The cores forget which paths their messages have used.
    ForgetUsedPaths,
    /// The cores ask no interface that is ill whether it is well again.
    ForgetRecoveries,
    /// A failed operation's SEND event is not delivered.
    DropSendEvent,
    /// The cores have the rules in the opposite order.
    ReverseRules,
}

#[cfg(feature = "broken")]
impl Sabotage {
    /// The rules that a core is given.
    fn rules(self, rules: &RuleList) -> RuleList {
        let mut given = RuleList::new();
        for rule in rules.rules() {
            let at = (self == Self::ReverseRules).then_some(0);
            // They were one list before.
            let _added = given.add(rule.clone(), at);
        }
        given
    }
}

/// A run.
#[derive(Debug)]
pub struct Sim {
    plan: Rc<Plan>,
    now: u64,
    heap: Heap,
    nodes: Vec<Node>,
    fabric: Fabric,
    /// Which interface has a NID.
    places: FxHashMap<Nid, PortId>,
    flights: Slab<Flight>,
    diallings: Slab<Dialling>,
    random: Random,
    /// The faults that cut nodes off, by index, and who is on one side.
    partitions: Vec<(usize, Vec<bool>)>,
    /// Faults that have not ended.
    faults_left: usize,
    operations_left: usize,
    /// When the last fault was over.
    calm_since: u64,
    /// Looks at nodes that should have come to rest by now.
    last_looks: u32,
    checker: Checker,
    tally: Tally,
    trace: Trace,
    actions: Actions,
    #[cfg(feature = "broken")]
    sabotage: Option<Sabotage>,
}

impl Sim {
    /// Runs a plan to its end.
    #[must_use]
    pub fn run(plan: Rc<Plan>, options: Options) -> Outcome {
        let mut sim = Self::new(plan, options);
        while sim.step() {}
        sim.outcome()
    }

    /// All nodes up, nothing happened yet.
    #[must_use]
    pub fn new(plan: Rc<Plan>, options: Options) -> Self {
        let mut fabric = Fabric::new(&plan.world, plan.seed);
        let nodes = node::all(&plan, &mut fabric);
        let mut sim = Self {
            now: 0,
            heap: Heap::default(),
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
            #[cfg(feature = "broken")]
            sabotage: options.sabotage,
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
            self.heap
                .plan(fault.at, Happening::FaultBegins(index as u32));
            self.heap.plan(
                fault.until.max(fault.at),
                Happening::FaultEnds(index as u32),
            );
        }
        if let Some(first) = plan.operations.first() {
            self.heap.plan(first.at, Happening::Operation(0));
        }
        self.heap.plan(self.look_interval(), Happening::Look);
    }

    /// Large worlds are looked at less often, so that looking stays a small part of the work.
    fn look_interval(&self) -> u64 {
        (self.nodes.len() as u64 * 4_000_000).max(500_000_000)
    }

    /// Does what happens next; false when the run is over.
    pub fn step(&mut self) -> bool {
        let Some((at, happening)) = self.heap.next() else {
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

    /// Virtual time since the beginning, in nanoseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// What came of it so far.
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

    /// Carries out all that a core wants, until it wants nothing more.
    fn settle(&mut self, index: u32) {
        while let Some(output) = self.output_of(index) {
            match output {
                Output::Transmit(transmit) => self.transmit(index, transmit),
                Output::Event(event) => self.event(index, &event),
                Output::Resume { rx, landing } => self.resume(index, rx, landing),
                // A payload lands at once here, so that none is under way.
                Output::Cancel { .. } => {}
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
            self.heap.plan(due, Happening::CoreTimer(index));
        }
    }

    fn core_timer(&mut self, index: u32) {
        let now = self.time();
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return;
        };
        // Planned for later or earlier by what happened since.
        if node.wake_at != self.now {
            return;
        }
        node.wake_at = u64::MAX;
        if let Some(core) = node.core.as_deref_mut() {
            #[cfg(feature = "broken")]
            match self.sabotage {
                Some(Sabotage::ForgetUsedPaths) => core.forget_used_paths(),
                Some(Sabotage::ForgetRecoveries) => core.forget_recoveries(),
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
        #[cfg(feature = "broken")]
        if self.sabotage == Some(Sabotage::DropSendEvent)
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

    /// Looks at everything; false when the run is over.
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
        // Resting nodes are asked often, so that a recovery's time is known well enough.
        let interval = match self.last_looks {
            0 => self.look_interval(),
            _ => LAST_LOOKS_PAUSE,
        };
        self.heap.plan(self.now + interval, Happening::Look);
        true
    }

    /// Everything has ended and every node is at rest, or will never be.
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

    /// How long everything may take to come to rest after the last fault: what is under way times out,
    /// and an interface from the bottom of its health needs a ping for each step up, each after the
    /// longest pause.
    fn patience(&self) -> u64 {
        let globals = &self.plan.world.globals;
        let steps = 1000 / u32::from(globals.health_sensitivity.max(1)) + 10;
        let pauses = globals.max_recovery_ping_interval.saturating_mul(steps);
        let checks = globals.alive_router_check_interval.saturating_mul(4);
        let timeouts = globals.transaction_timeout.saturating_mul(4);
        (pauses + checks + timeouts).as_nanos() as u64
    }
}
