//! A node on a machine: the stack of a running node, and the memory of its programs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use lnet_core::{
    Core, CoreConfig, Entropy, GetRequest, InsertPosition, MdHandle, MdOptions, MdSpec, MeSpec,
    NiConfig, PortalError, PutRequest, RouterBuffers,
};
use lnet_node::stack::{EventSink, Memory, NodeEvent, Rdma, Registered, Stack};
use lnet_tcp::{
    AcceptMode, Job, LndNi, NiTuning, Readiness, Socklnd, SocklndConfig, SourcePorts, Staging,
};
use lnet_types::{ProcessId, Time};

use crate::stacks::driver::Drive;
use crate::stacks::plan::{Kind, Machine, Operation, Plan, Program};
use crate::stacks::port::{Handle, Port, Shared};
use crate::stacks::rdma::{self, Device, RdmaNet};
use crate::stacks::world::{Defect, Options};

/// The portal that programs use.
pub(crate) const PORTAL: u32 = 30;

/// The mark in the user value of a descriptor that accepts an operation.
pub(crate) const TARGET: u64 = 1 << 32;

/// The queue of a node's events.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<VecDeque<NodeEvent>>);

impl EventSink for Inbox {
    fn push(&self, event: NodeEvent) -> bool {
        self.lock().push_back(event);
        true
    }
}

impl Inbox {
    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<NodeEvent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> VecDeque<NodeEvent> {
        std::mem::take(&mut *self.lock())
    }
}

/// A node.
pub(crate) struct Node {
    pub(crate) stack: Stack<Port, Inbox, Device>,
    pub(crate) inbox: Arc<Inbox>,
    /// The descriptors that accept operations.
    pub(crate) sinks: Vec<MdHandle>,
    /// The largest number of events that one turn delivered.
    pub(crate) longest_turn: usize,
}

/// Returns the byte at a place of an operation's payload.
pub(crate) fn pattern(operation: u32, at: usize) -> u8 {
    let mixed = (u64::from(operation) << 32 | at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 56) as u8
}

fn payload(operation: u32, length: u32) -> Vec<u8> {
    (0..length as usize)
        .map(|at| pattern(operation, at))
        .collect()
}

impl Node {
    /// Boots the node of a machine, for the first time or after a fault.
    pub(crate) fn boot(
        plan: &Plan,
        machine: u32,
        life: u32,
        (fabric, rdma): (&Shared, &RdmaNet),
        options: Options,
        now: Time,
    ) -> Option<Self> {
        let defect = options.defect;
        let spec = plan.machines.get(machine as usize)?;
        let mut core = core(plan, machine, life, now);
        if let Some(record) = options.record {
            core.record(record(machine, life)).ok()?;
        }
        let mut lnd = lnd(plan, machine, life, fabric);
        let mut rdma = rdma.lnd(plan, machine);
        for &nid in &spec.nids {
            let config = NiConfig {
                nid,
                tunables: plan.tunables,
            };
            let ni = core.add_ni(config, now).ok()?;
            match rdma.as_mut().filter(|_| rdma::is_o2ib(nid)) {
                Some(rdma) => rdma::serve(rdma, ni, nid, plan, life).ok()?,
                None => serve(&mut lnd, ni, nid, life).ok()?,
            }
        }
        let is_told = |peer: &&Machine| peer.nids.len() > 1 && !plan.globals.discovery;
        for peer in plan.machines.iter().filter(is_told) {
            if let Some(&primary) = peer.nids.first().filter(|_| peer.nids != spec.nids) {
                // The NIDs of different machines differ, so the core accepts the peer.
                let _checked = core.add_peer(primary, &peer.nids, true);
            }
        }
        for &route in &spec.routes {
            let _checked = core.add_route(route, now);
        }
        plant_in_core(&mut core, defect);
        plant_in_lnd(&mut lnd, machine, defect);
        let mut node = Self {
            stack: stack(lnd, core, rdma),
            inbox: Arc::default(),
            sinks: Vec::new(),
            longest_turn: 0,
        };
        plant_in_stack(&mut node.stack, defect);
        for (number, operation) in plan.targeted(machine) {
            let sink = node.accept(number, operation, now).ok()?;
            node.sinks.push(sink);
        }
        Some(node)
    }

    /// Attaches the descriptor that accepts an operation.
    fn accept(
        &mut self,
        number: u32,
        operation: &Operation,
        now: Time,
    ) -> Result<MdHandle, PortalError> {
        let (options, memory) = match operation.kind {
            Kind::Get => (
                MdOptions::OP_GET,
                Memory::Source(payload(number, operation.length).into()),
            ),
            Kind::Put | Kind::PutAck => (
                MdOptions::OP_PUT,
                Memory::Sink(vec![0; operation.length as usize]),
            ),
        };
        let entry = MeSpec {
            portal: PORTAL,
            match_id: ProcessId::ANY,
            match_bits: number.into(),
            ignore_bits: 0,
            unlink_with_md: true,
            position: InsertPosition::After,
        };
        let spec = MdSpec {
            length: operation.length,
            threshold: None,
            max_size: 0,
            options: options | MdOptions::MANAGE_REMOTE,
            unlink_when_exhausted: false,
            user: TARGET | u64::from(number),
        };
        let registered = Registered::new(memory, Arc::clone(&self.inbox));
        self.stack.attach(entry, spec, registered, now)
    }

    /// Begins an operation. Returns true if one turn was not enough for its outputs.
    pub(crate) fn begin(
        &mut self,
        number: u32,
        operation: &Operation,
        target: ProcessId,
        now: Time,
    ) -> Result<bool, PortalError> {
        let answered = u32::from(operation.kind != Kind::Put);
        let memory = match operation.kind {
            Kind::Get => Memory::Sink(vec![0; operation.length as usize]),
            Kind::Put | Kind::PutAck => Memory::Source(payload(number, operation.length).into()),
        };
        let spec = MdSpec {
            length: operation.length,
            threshold: Some(operation.count * (1 + answered)),
            max_size: 0,
            options: MdOptions::empty(),
            unlink_when_exhausted: true,
            user: number.into(),
        };
        let registered = Registered::new(memory, Arc::clone(&self.inbox));
        let md = self.stack.bind(spec, registered)?;
        for _ in 0..operation.count {
            self.start(md, number, operation, target, now)?;
        }
        Ok(self.decide(now))
    }

    fn start(
        &mut self,
        md: MdHandle,
        number: u32,
        operation: &Operation,
        target: ProcessId,
        now: Time,
    ) -> Result<(), PortalError> {
        let (portal, match_bits) = (PORTAL, u64::from(number));
        let core = &mut self.stack.side.core;
        if operation.kind == Kind::Get {
            let get = GetRequest {
                md,
                source: None,
                target,
                portal,
                match_bits,
                offset: 0,
            };
            return core.get(get, now);
        }
        let put = PutRequest {
            md,
            ack: operation.kind == Kind::PutAck,
            source: None,
            target,
            portal,
            match_bits,
            offset: 0,
            hdr_data: match_bits,
        };
        core.put(put, now)
    }

    /// Unlinks the memory of the node's programs at the end of a run.
    pub(crate) fn take_back(&mut self, now: Time) {
        for sink in std::mem::take(&mut self.sinks) {
            // A descriptor that no longer exists has returned its memory already.
            let _gone = self.stack.side.core.md_unlink(sink, now);
        }
        while self.stack.decide(now) {}
    }
}

fn stack(lnd: Socklnd<Port>, core: Core, rdma: Option<Rdma<Device>>) -> Stack<Port, Inbox, Device> {
    let mut stack = Stack::new(lnd, core);
    if let Some(rdma) = rdma {
        stack.rdma = Some(Box::new(rdma));
        stack.side.memory.use_memory_only();
    }
    stack
}

impl Drive for Node {
    fn ready(&mut self, slot: usize, readiness: Readiness, now: Time) {
        self.stack.ready(slot, readiness, now);
    }

    fn has_rdma_news(&self) -> bool {
        let rdma = self.stack.rdma.as_ref();
        rdma.is_some_and(|rdma| rdma.devices().has_event())
    }

    fn rdma_ready(&mut self, now: Time) {
        self.stack.rdma_ready(now);
    }

    fn tick(&mut self, now: Time) {
        self.stack.tick(now);
    }

    fn decide(&mut self, now: Time) -> bool {
        let before = self.inbox.lock().len();
        let more = self.stack.decide(now);
        let delivered = self.inbox.lock().len() - before;
        self.longest_turn = self.longest_turn.max(delivered);
        more
    }

    fn next_job(&mut self, now: Time) -> Option<Job<Handle>> {
        self.stack.next_job(now)
    }

    fn finish(&mut self, job: Job<Handle>, staging: &mut Staging, now: Time) {
        self.stack.finish(job, staging, now);
    }

    fn has_work(&self) -> bool {
        self.stack.lnd.has_work()
    }

    fn next_deadline(&self) -> Option<Time> {
        self.stack.next_deadline()
    }
}

fn core(plan: &Plan, machine: u32, life: u32, now: Time) -> Core {
    let cookie = plan.seed ^ (u64::from(machine) << 32 | u64::from(life));
    let buffers = match plan
        .machines
        .get(machine as usize)
        .map(|machine| machine.program)
    {
        Some(Program::Router(buffers)) => Some(buffers),
        _ => None,
    };
    let config = CoreConfig {
        entropy: Entropy::from_seed(cookie),
        seed: cookie,
        globals: plan.globals,
        buffers: buffers.unwrap_or_else(RouterBuffers::default),
        routing: buffers.is_some(),
        pid: ProcessId::LUSTRE_PID,
    };
    Core::new(config, now)
}

/// Returns the LND of a machine, without interfaces.
pub(crate) fn lnd(plan: &Plan, machine: u32, life: u32, fabric: &Shared) -> Socklnd<Port> {
    let config = SocklndConfig {
        accept: AcceptMode::All,
        source_ports: SourcePorts::Any,
        sock_timeout: plan.globals.lnd_timeout(),
        reconnect_max: plan.globals.max_recovery_ping_interval,
        ..SocklndConfig::default()
    };
    let port = Port {
        fabric: fabric.clone(),
        machine,
    };
    Socklnd::new(config, port, plan.seed ^ u64::from(machine ^ life << 16))
}

/// Adds an interface to the LND, with the incarnation of this life of the machine.
pub(crate) fn serve(
    lnd: &mut Socklnd<Port>,
    ni: lnd::NiId,
    nid: lnet_types::Nid,
    life: u32,
) -> Result<(), lnet_tcp::AddNiError> {
    lnd.add_ni(LndNi {
        ni,
        nid,
        tuning: NiTuning::default(),
        incarnation: u64::from(life),
    })
}

#[cfg(feature = "defects")]
fn plant_in_core(core: &mut Core, defect: Option<Defect>) {
    if defect == Some(Defect::BelieveAnybody) {
        core.believe_anybody();
    }
}

#[cfg(feature = "defects")]
fn plant_in_lnd(lnd: &mut Socklnd<Port>, machine: u32, defect: Option<Defect>) {
    match defect {
        Some(Defect::LoseWakeups) => lnd.forget_news_during_reads(),
        Some(Defect::IgnoreRaces) => lnd.ignore_races(),
        Some(Defect::Kernel | Defect::TakeCrossed) if machine == 0 => lnd.close_crossed(),
        Some(Defect::TakeCrossed) => lnd.take_crossed(),
        _ => {}
    }
}

#[cfg(feature = "defects")]
fn plant_in_stack(stack: &mut Stack<Port, Inbox, Device>, defect: Option<Defect>) {
    if defect == Some(Defect::UnboundTurns) {
        stack.unbound_turns();
    }
    let in_rdma = match defect {
        Some(Defect::CreditTwice) => lnet_o2ib::Defect::CreditTwice,
        Some(Defect::EarlyReport) => lnet_o2ib::Defect::EarlyReport,
        Some(Defect::FirstKey) => lnet_o2ib::Defect::FirstKey,
        _ => return,
    };
    if let Some(rdma) = &mut stack.rdma {
        rdma.plant(in_rdma);
    }
}

#[cfg(not(feature = "defects"))]
fn plant_in_core(_: &mut Core, _: Option<Defect>) {}

#[cfg(not(feature = "defects"))]
fn plant_in_lnd(_: &mut Socklnd<Port>, _: u32, _: Option<Defect>) {}

#[cfg(not(feature = "defects"))]
fn plant_in_stack(_: &mut Stack<Port, Inbox, Device>, _: Option<Defect>) {}
