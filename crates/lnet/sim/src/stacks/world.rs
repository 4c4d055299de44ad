//! A world of machines in one loop of virtual time.
//!
//! Events at the same time happen in the order in which they were planned. There is one thread and no clock, and
//! all random numbers come from [`Random`], so two runs of the same plan are identical to the byte. A run ends when
//! all operations have ended, all faults are over and every node is at rest, or when an invariant is violated.

mod faults;

use std::collections::BTreeSet;
use std::fmt::Write;

use lnet_core::{Core, DropReason, Recorder};
use lnet_node::stack::OUTPUTS_PER_TURN;
use lnet_tcp::{CloseReason, ConnectionView, Limits, ProtocolError};
use lnet_types::{Nid, ProcessId, Time};

use crate::invariant::Invariant;
use crate::invariant::Seconds;
use crate::random::Random;
use crate::rest::unrest;
use crate::stacks::check::Checker;
use crate::stacks::driver::{Driver, Next};
use crate::stacks::fabric::{Fabric, Happening};
use crate::stacks::links;
use crate::stacks::node::Node;
use crate::stacks::plan::{Operation, Plan};
use crate::stacks::port::Shared;
use crate::stacks::rdma::RdmaNet;
use crate::stacks::stranger::{Loot, Stranger};
use crate::summary::{Outcome, Summary};

/// The options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Record a line for every event.
    pub trace: bool,
    /// A defect to inject. Defects inside the stack require the feature `defects`.
    pub defect: Option<Defect>,
    /// Makes the recorder for each life of a machine that is a node; the arguments are the number of the machine
    /// and of its life.
    pub record: Option<NewRecorder>,
}

/// A function that makes a recorder for a machine and the number of its life.
pub type NewRecorder = fn(u32, u32) -> Box<dyn Recorder>;

/// Injected defects that the checkers must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A turn continues for as long as the core has outputs.
    UnboundTurns,
    /// The core accepts every response that carries its handle, from any node.
    BelieveAnybody,
    /// The LND forgets readiness that is reported during a read.
    LoseWakeups,
    /// Failed SEND events are not delivered.
    DropSendEvent,
    /// A byte of received memory is changed.
    SpoilPayload,
    /// The LND accepts a connection that loses the race of two dials.
    IgnoreRaces,
    /// No defect: the LND of machine 0 closes connections that crossed, as kernel nodes do. Its NID is the lowest: the
    /// dials of higher NIDs win races.
    Kernel,
    /// Beside such a machine, the other LNDs accept what crossed, and take its end for the end of the peer.
    TakeCrossed,
    /// The o2ib LND gives each credit back twice.
    CreditTwice,
    /// The o2ib LND reports a transfer of a closed connection before the device has stopped.
    EarlyReport,
    /// The o2ib LND writes with the key of the first transfer of a connection.
    FirstKey,
}

/// The program that runs on a machine.
enum Running {
    Node(Box<Node>),
    Stranger(Box<Stranger>),
    /// The machine is off.
    Nothing,
}

/// A machine.
struct Machine {
    running: Running,
    driver: Driver,
    life: u32,
    /// The number of faults that make it stand still.
    stands: u32,
    /// The number of faults that keep it off.
    off: u32,
}

/// A run of the simulation.
pub struct World {
    plan: Plan,
    options: Options,
    fabric: Shared,
    rdma: RdmaNet,
    machines: Vec<Machine>,
    loot: Loot,
    random: Random,
    checker: Checker,
    summary: Summary,
    trace: Option<String>,
    operations_left: usize,
    faults_left: usize,
    /// The time at which the last fault ended.
    calm_since: u64,
    happenings: u64,
    /// The time at which everything was at rest for the first time after the last fault.
    healed_at: Option<u64>,
    /// The faults that a handshake has triggered.
    fell: BTreeSet<u32>,
}

/// The time between two looks of the checkers, in nanoseconds.
const LOOK_NS: u64 = 250_000_000;

/// The limit on the events of a run. A run with more will never end.
const HAPPENINGS_MAX: u64 = 20_000_000;

impl World {
    /// Runs a plan to its end.
    #[must_use]
    pub fn run(plan: Plan, options: Options) -> Outcome {
        let mut world = Self::new(plan, options);
        while world.step() {}
        world.outcome()
    }

    fn new(plan: Plan, options: Options) -> Self {
        let homes = (0..).zip(&plan.machines).flat_map(|(number, machine)| {
            let addresses = machine.nids.iter().filter_map(|nid| nid.ip());
            addresses.map(move |address| (address, number))
        });
        let fabric = Fabric::new(plan.seed, homes.collect(), plan.machines.len());
        let machine = || Machine {
            running: Running::Nothing,
            driver: Driver::default(),
            life: 0,
            stands: 0,
            off: 0,
        };
        let machines = std::iter::repeat_with(machine);
        let mut world = Self {
            fabric: Shared::new(fabric),
            rdma: RdmaNet::new(plan.seed),
            machines: machines.take(plan.machines.len()).collect(),
            loot: Loot::default(),
            random: Random::stream(plan.seed, 12),
            checker: Checker::new(&plan),
            summary: Summary {
                runs: 1,
                ..Summary::default()
            },
            trace: options.trace.then(String::new),
            operations_left: plan.operations.len(),
            faults_left: plan.faults.len(),
            calm_since: 0,
            happenings: 0,
            healed_at: None,
            fell: BTreeSet::new(),
            plan,
            options,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for machine in 0..self.machines.len() as u32 {
            self.boot(machine);
        }
        let mut fabric = self.fabric.lock();
        for (index, operation) in (0..).zip(&self.plan.operations) {
            let what = Happening::Operation(index);
            fabric.agenda.plan(operation.at, what);
        }
        for (index, fault) in (0..).zip(&self.plan.faults) {
            fabric.agenda.plan(fault.at, Happening::FaultBegins(index));
            let end = fault.until.max(fault.at);
            fabric.agenda.plan(end, Happening::FaultEnds(index));
        }
        fabric.agenda.plan(LOOK_NS, Happening::Look);
    }

    /// Processes the next event; returns false when the run is over.
    fn step(&mut self) -> bool {
        let mut fabric = self.fabric.lock();
        let Some((at, happening)) = fabric.agenda.next() else {
            return false;
        };
        fabric.now = fabric.now.max(at);
        match happening {
            Happening::Arrival(line, end) => fabric.arrival(line, end),
            Happening::Room(line, end) => fabric.room(line, end),
            Happening::Dialled(line) => fabric.dialled(line),
            other => {
                drop(fabric);
                if !self.happen(other) {
                    return false;
                }
                self.plan_rdma();
            }
        }
        self.happenings += 1;
        if self.happenings > HAPPENINGS_MAX {
            let what = "the run does not come to an end".to_owned();
            self.checker.violated(self.now(), Invariant::Rest, what);
        }
        self.checker.violation().is_none()
    }

    fn happen(&mut self, happening: Happening) -> bool {
        match happening {
            Happening::Rdma => self.move_rdma(),
            Happening::Step(machine) => self.drive(machine),
            Happening::Operation(index) => self.operation(index),
            Happening::FaultBegins(index) => self.fault_begins(index),
            Happening::Falls(index) => self.falls(index),
            Happening::FaultEnds(index) => self.fault_ends(index),
            Happening::Look => return self.look(),
            Happening::Arrival(..) | Happening::Room(..) | Happening::Dialled(_) => {}
        }
        true
    }

    /// Plans the next moves over RDMA, if anything can move.
    fn plan_rdma(&mut self) {
        let rdma = &self.rdma;
        if !rdma.is_planned && rdma.pauses == 0 && !rdma.fabric.is_idle() {
            self.rdma.is_planned = true;
            let at = self.now() + self.random.within(500, 20_000);
            self.fabric.lock().agenda.plan(at, Happening::Rdma);
        }
    }

    fn move_rdma(&mut self) {
        self.rdma.is_planned = false;
        if self.rdma.pauses > 0 {
            return;
        }
        for _ in 0..self.random.within(1, 4) {
            let Some(machine) = self.rdma.fabric.advance() else {
                break;
            };
            let at = self.now() + self.random.within(500, 30_000);
            self.fabric.lock().wake(machine as u32, at);
        }
        if let Some(what) = self.rdma.violation() {
            self.checker.violated(self.now(), Invariant::Device, what);
        }
    }

    fn now(&self) -> u64 {
        self.fabric.lock().now
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now())
    }

    fn note(&mut self, line: std::fmt::Arguments<'_>) {
        let now = self.now();
        if let Some(trace) = &mut self.trace {
            // Writing to a string cannot fail.
            let _written = writeln!(trace, "{} {line}", Seconds(now));
        }
    }

    // --- machines ---

    fn boot(&mut self, number: u32) {
        let now = self.time();
        let Some(machine) = self.machines.get_mut(number as usize) else {
            return;
        };
        machine.life += 1;
        let life = machine.life;
        let is_node = self
            .plan
            .machines
            .get(number as usize)
            .is_some_and(|spec| spec.program.is_node());
        let running = if is_node {
            let node = Node::boot(
                &self.plan,
                number,
                life,
                (&self.fabric, &self.rdma),
                self.options,
                now,
            );
            node.map(|node| Running::Node(Box::new(node)))
        } else {
            let stranger = Stranger::boot(&self.plan, number, life, &self.fabric, &self.loot, now);
            stranger.map(|stranger| Running::Stranger(Box::new(stranger)))
        };
        machine.running = running.unwrap_or(Running::Nothing);
        if matches!(machine.running, Running::Nothing) {
            let what = format!("machine {number} cannot start");
            self.checker.violated(now.as_nanos(), Invariant::Rest, what);
        }
        self.fabric.lock().wake(number, now.as_nanos());
    }

    /// Switches a machine off, with everything that it had in progress.
    fn switch_off(&mut self, number: u32) {
        self.checker.switched_off(&self.plan, number);
        let Some(machine) = self.machines.get_mut(number as usize) else {
            return;
        };
        if let Running::Node(node) = &machine.running {
            self.summary.resent += node.stack.side.core.counters().resend_count;
        }
        machine.running = Running::Nothing;
        machine.driver = Driver::default();
        self.fabric.lock().forget(number);
    }

    /// Lets a machine continue for a moment.
    fn drive(&mut self, number: u32) {
        let (mut news, now) = {
            let mut fabric = self.fabric.lock();
            let now = fabric.now;
            let Some(plug) = fabric.plugs.get_mut(number as usize) else {
                return;
            };
            if plug.step_at != now {
                return;
            }
            plug.step_at = u64::MAX;
            (std::mem::take(&mut plug.news), now)
        };
        let time = Time::from_nanos(now);
        let Some(machine) = self.machines.get_mut(number as usize) else {
            return;
        };
        let (driver, random) = (&mut machine.driver, &mut self.random);
        let next = match &mut machine.running {
            _ if machine.stands > 0 => Next::Never,
            Running::Node(node) => driver.step(&mut **node, &mut news, time, random),
            Running::Stranger(stranger) => driver.step(&mut **stranger, &mut news, time, random),
            Running::Nothing => Next::Never,
        };
        let wrong = self.fabric.lock().wrong_answer.take();
        if let Some(what) = wrong {
            self.checker.violated(now, Invariant::Connections, what);
        }
        self.plan_step(number, news, next, now);
        self.listen(number);
    }

    /// Plans the next step, and keeps the readiness reports that were not taken.
    fn plan_step(
        &mut self,
        number: u32,
        mut news: std::collections::VecDeque<(usize, lnet_tcp::Readiness)>,
        next: Next,
        now: u64,
    ) {
        // The scheduler delays a thread at times.
        let pause = match self.random.below(64) {
            0 => self.random.below(2_000_000),
            _ => self.random.below(20_000),
        };
        let mut fabric = self.fabric.lock();
        if let Some(plug) = fabric.plugs.get_mut(number as usize) {
            news.append(&mut plug.news);
            plug.news = news;
        }
        match next {
            Next::Now => fabric.wake(number, now + 500 + pause),
            Next::At(time) => fabric.wake(number, time.as_nanos().max(now + 1)),
            Next::Never => {}
        }
    }

    /// Takes the events of a node's programs.
    fn listen(&mut self, number: u32) {
        let now = self.now();
        let Some(Machine {
            running: Running::Node(node),
            ..
        }) = self.machines.get_mut(number as usize)
        else {
            return;
        };
        if node.longest_turn > OUTPUTS_PER_TURN as usize {
            let (turn, limit) = (node.longest_turn, OUTPUTS_PER_TURN);
            let what = format!("machine {number}: a turn delivered {turn} events, {limit} at most");
            self.checker.violated(now, Invariant::Turn, what);
        }
        for mut told in node.inbox.take() {
            let event = &told.event;
            if self.options.defect == Some(Defect::DropSendEvent)
                && event.kind == lnet_core::EventKind::Send
                && event.status.is_err()
            {
                continue;
            }
            if self.options.defect == Some(Defect::SpoilPayload)
                && let Some(lnet_node::stack::Memory::Sink(bytes)) = &mut told.memory
                && let Some(byte) = bytes.last_mut()
            {
                *byte ^= 1;
            }
            self.note(format_args!(
                "machine {number}: {:?} of {:#x}: {:?}, {} bytes{}",
                told.event.kind,
                told.event.user,
                told.event.status,
                told.event.mlength,
                if told.event.unlinked {
                    ", the last"
                } else {
                    ""
                },
            ));
            self.checker.told(&self.plan, &told, now);
        }
    }

    fn operation(&mut self, index: u32) {
        self.operations_left -= 1;
        let Some(operation) = self.plan.operations.get(index as usize).copied() else {
            return;
        };
        let now = self.now();
        let Some(target) = self.target(&operation) else {
            return;
        };
        let Some(machine) = self.machines.get_mut(operation.from as usize) else {
            return;
        };
        let Running::Node(node) = &mut machine.running else {
            return;
        };
        if machine.stands > 0 {
            return;
        }
        self.checker.started(index, now);
        let begun = node.begin(index, &operation, target, Time::from_nanos(now));
        match begun {
            Ok(more) => machine.driver.has_more(more),
            Err(error) => {
                let what = format!("operation {index} cannot begin: {error}");
                self.checker.violated(now, Invariant::Rest, what);
            }
        }
        self.note(format_args!("{operation}"));
        self.listen(operation.from);
        let at = now + 500;
        self.fabric.lock().wake(operation.from, at);
    }

    fn target(&self, operation: &Operation) -> Option<ProcessId> {
        let nid = self
            .plan
            .machines
            .get(operation.to as usize)?
            .nids
            .first()?;
        Some(ProcessId::lustre(*nid))
    }

    // --- the end ---

    /// Lets the checkers examine all machines; returns false when the run is over.
    fn look(&mut self) -> bool {
        self.look_at_limits();
        if self.plan.sound_from.is_some() && self.faults_left == 0 && self.healed_at.is_none() {
            self.look_for_health();
        }
        let busy = self.operations_left > 0 || self.faults_left > 0;
        if self.checker.violation().is_some() || (!busy && self.is_over()) {
            return false;
        }
        let mut fabric = self.fabric.lock();
        let at = fabric.now + LOOK_NS;
        fabric.agenda.plan(at, Happening::Look);
        true
    }

    fn look_at_limits(&mut self) {
        let limits = Limits::default();
        let now = self.now();
        for (number, machine) in self.machines.iter().enumerate() {
            let Running::Node(node) = &machine.running else {
                continue;
            };
            let stats = node.stack.lnd.stats();
            let wrong = stats.closed.iter().find(|(reason, count)| {
                let is_wrong = matches!(reason, CloseReason::Protocol(why) if *why != ProtocolError::Truncated);
                is_wrong && *count > 0
            });
            if let Some((reason, _)) = wrong {
                let what = format!("machine {number} closed a connection: {reason:?}");
                self.checker.violated(now, Invariant::Rejected, what);
            }
            let frames = node.stack.lnd.connections().map(|link| link.queued_frames);
            let most = frames.max().unwrap_or(0);
            if most > limits.queued_messages_max
                || stats.handshakes_open > limits.handshakes_max as u64
            {
                let what = format!("machine {number} holds {most} frames for a peer");
                self.checker.violated(now, Invariant::Rejected, what);
            }
        }
    }

    /// Checks that after the last fault everything recovers by itself, and in time.
    fn look_for_health(&mut self) {
        let now = self.now();
        match self.unrest() {
            None => {
                self.healed_at = Some(now);
                self.note(format_args!("everything is healed"));
            }
            Some((invariant, what)) if now > self.calm_since + self.plan.patience() => {
                self.checker.violated(now, invariant, what);
            }
            Some(_) => {}
        }
    }

    /// Returns true if everything has ended and every node is at rest, or if a node has exceeded its time to come
    /// to rest.
    fn is_over(&mut self) -> bool {
        let unrest = self.unrest();
        let now = self.now();
        let Some((invariant, what)) = unrest else {
            self.summary.worst_recovery_ns = if self.plan.faults.is_empty() {
                0
            } else {
                let healed = self.healed_at.unwrap_or(now);
                healed.saturating_sub(self.calm_since)
            };
            self.take_memory_back();
            return true;
        };
        let since = self.calm_since.max(self.plan.sound_from.unwrap_or(0));
        if now < since + self.plan.patience() {
            return false;
        }
        self.checker.violated(now, invariant, what);
        true
    }

    /// Returns what is not at rest, with the number of the violated invariant.
    fn unrest(&self) -> Option<(Invariant, String)> {
        if !self.checker.all_ended() {
            return Some((Invariant::Deadline, "an operation does not end".to_owned()));
        }
        let strangers: Vec<Nid> = self
            .plan
            .machines
            .iter()
            .filter(|machine| !machine.program.is_node())
            .flat_map(|machine| machine.nids.iter().copied())
            .collect();
        let judged = |nid: Nid| !strangers.contains(&nid);
        for (number, machine) in self.machines.iter().enumerate() {
            let Running::Node(node) = &machine.running else {
                continue;
            };
            let core = &node.stack.side.core;
            let recovered = self.plan.sound_from.and_then(|_| recovering(core));
            let unrest = unrest(core, node.sinks.len(), &judged)
                .or_else(|| recovered.map(|what| (Invariant::Health, what)));
            if let Some((invariant, what)) = unrest {
                return Some((invariant, format!("machine {number}: {what}")));
            }
            let queued = node.stack.lnd.connections();
            if queued
                .into_iter()
                .any(|link| link.queued_frames > 0 || link.held)
            {
                return Some((
                    Invariant::Credits,
                    format!("machine {number}: a connection has frames left"),
                ));
            }
        }
        if let Some(what) = self.plan.sound_from.and_then(|_| self.mismatch()) {
            return Some((Invariant::Connections, what));
        }
        let is_over = self.plan.sound_from.is_some() && self.operations_left == 0;
        if let Some(what) = is_over.then(|| self.undiscovered()).flatten() {
            return Some((Invariant::Discovery, what));
        }
        if self
            .machines
            .iter()
            .any(|machine| !machine.driver.is_idle())
        {
            return Some((Invariant::Credits, "a job is under way".to_owned()));
        }
        if let Some(what) = self.rdma.unrest() {
            return Some((Invariant::Leftover, what));
        }
        let fabric = self.fabric.lock();
        if fabric.plugs.iter().any(|plug| !plug.news.is_empty()) {
            return Some((Invariant::Credits, "news are not taken".to_owned()));
        }
        let mut ends = fabric.lines().flat_map(|line| line.ends.iter());
        let waits = ends.any(|end| end.open && end.pending() > 0);
        waits.then(|| (Invariant::Credits, "bytes that nobody reads".to_owned()))
    }

    /// Returns what is wrong with the connections between the nodes.
    fn mismatch(&self) -> Option<String> {
        let nodes: Vec<(&[Nid], Vec<ConnectionView>)> = self
            .plan
            .machines
            .iter()
            .zip(&self.machines)
            .filter_map(|(spec, machine)| match &machine.running {
                Running::Node(node) => {
                    Some((spec.nids.as_slice(), node.stack.lnd.connections().collect()))
                }
                _ => None,
            })
            .collect();
        links::mismatch(&nodes)
    }

    /// Returns a node that is not Multi-Rail with all its interfaces in the view of a node that has just sent it a
    /// message. Returns `None` if nodes do not discover each other.
    fn undiscovered(&self) -> Option<String> {
        let from = self
            .plan
            .sound_from
            .filter(|_| self.plan.globals.discovery)?;
        let proofs = self
            .plan
            .operations
            .iter()
            .filter(|operation| operation.at >= from);
        proofs.into_iter().find_map(|proof| {
            let target = self.plan.machines.get(proof.to as usize)?;
            let Running::Node(node) = &self.machines.get(proof.from as usize)?.running else {
                return None;
            };
            let mut peers = node.stack.side.core.peers();
            let is_whole = peers.any(|peer| {
                let knows = |nid: &Nid| peer.nis.iter().any(|ni| ni.nid == *nid);
                peer.multi_rail
                    && peer.nis.len() == target.nids.len()
                    && target.nids.iter().all(knows)
            });
            let (from, to) = (proof.from, proof.to);
            (!is_whole).then(|| format!("machine {from} does not know machine {to} as a whole"))
        })
    }

    fn take_memory_back(&mut self) {
        let now = self.time();
        for number in 0..self.machines.len() as u32 {
            if let Some(Machine {
                running: Running::Node(node),
                ..
            }) = self.machines.get_mut(number as usize)
            {
                node.take_back(now);
                let lent = node.stack.side.memory.lent();
                if lent > 0 {
                    let what =
                        format!("machine {number}: {lent} pieces of memory do not come back");
                    self.checker
                        .violated(now.as_nanos(), Invariant::Leftover, what);
                }
            }
            self.listen(number);
        }
    }

    fn outcome(mut self) -> Outcome {
        let now = self.now();
        let races = self.fabric.lock().races;
        self.note(format_args!("the end, after {races} races"));
        if self.checker.violation().is_none() {
            self.checker.finish(&self.plan, now);
        }
        self.summary.virtual_ns = now;
        (self.summary.operations, self.summary.failed) = self.checker.figures();
        for machine in &self.machines {
            let Running::Node(node) = &machine.running else {
                continue;
            };
            let counters = node.stack.side.core.counters();
            self.summary.messages += counters.send_count;
            self.summary.delivered += counters.recv_count;
            self.summary.delivered_bytes += counters.recv_length;
            self.summary.resent += counters.resend_count;
            let dropped = DropReason::ALL.map(|reason| counters.dropped(reason));
            self.summary.dropped += dropped.iter().sum::<u64>();
        }
        Outcome {
            summary: self.summary,
            violation: self.checker.violation().cloned(),
            unanswered: Vec::new(),
            trace: self.trace,
        }
    }
}

/// Returns a NID in one of the recovery queues of a node, other than peer NIs that were never heard of. Nodes do
/// not ping peer NIs behind routers; for these it returns a NID whose health is not full.
fn recovering(core: &Core) -> Option<String> {
    let is_far = |nid: Nid| core.nis().all(|ni| ni.nid.net() != nid.net());
    let mut behind = core.peers().flat_map(|peer| peer.nis);
    if let Some(peer_ni) =
        behind.find(|peer_ni| is_far(peer_ni.nid) && !peer_ni.health.health.is_full())
    {
        return Some(format!("{} is not at full health", peer_ni.nid));
    }
    let own = core.nis().map(|ni| (ni.nid, ni.health.in_recovery));
    let peers = core.peers().flat_map(|peer| peer.nis);
    let heard_of = peers.filter(|peer_ni| peer_ni.last_alive.is_some());
    let mut all = own.chain(heard_of.map(|peer_ni| (peer_ni.nid, peer_ni.health.in_recovery)));
    let (nid, _) = all.find(|(_, in_recovery)| *in_recovery)?;
    Some(format!("{nid} is still being recovered"))
}
