//! The engine: core, LND and memory behind the node's one lock.
//!
//! [`Engine::settle`] is the heart: it carries the core's outputs to the LND, the queues and loopback and
//! writes what is queued. Everything that may make the core produce outputs ends with it. It ends after
//! so many outputs, however many there are: what is left is another turn, behind whoever waits.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Weak;

use bytes::Bytes;
use lnet_config::NiConfig;
use lnet_core::{
    Core, Event, Landing, MessageStatus, NiId, Output, Payload, Place, RxId, Transmit, TxId,
    Verdict,
};
use lnet_tcp::{Disposition, Failure, NiKey, RxToken, SendRequest, Socklnd, TxToken, Upper};
use lnet_types::{ProcessId, Time};
use lnet_wire::Header;
use rustc_hash::{FxHashMap, FxHashSet};
use tracing::{debug, info};

use crate::clock::Clock;
use crate::links::Links;
use crate::loopback::{self, Parked};
use crate::memory::MemoryTable;
use crate::options::NodeOptions;
use crate::queue::{NodeEvent, QueueState};
use crate::setup::KeptGlobals;

/// Core, LND, memory and links.
pub(crate) struct Engine {
    pub(crate) lnd: Socklnd,
    pub(crate) side: Side,
    pub(crate) links: Links,
    /// What the configuration says of each interface that the core does not keep.
    pub(crate) configured: BTreeMap<NiId, NiConfig>,
    /// What it says of the node that nothing consults.
    pub(crate) kept: KeptGlobals,
    /// By what peers tell this life of the node from an earlier one.
    pub(crate) incarnation: u64,
    pub(crate) options: NodeOptions,
    clock: Clock,
    latest: Time,
}

/// Outputs of the core that one turn carries out: a fraction of a millisecond, after which whoever waits
/// for the lock has it.
const OUTPUTS_PER_TURN: u32 = 1024;

/// The engine without the LND: what the LND calls back into.
pub(crate) struct Side {
    pub(crate) core: Core,
    pub(crate) memory: MemoryTable,
    pub(crate) parked: Parked,
    /// The queues of programs, to be told of the end.
    pub(crate) queues: Vec<Weak<QueueState>>,
    /// An event was put into a queue since this was last cleared.
    pub(crate) delivered: bool,
    /// Events that were lost because their queue was full.
    pub(crate) events_lost: u64,
    landings: FxHashMap<RxId, Landing>,
    /// Messages that the LND holds until the core resumes them.
    held: FxHashSet<RxId>,
    payloads: FxHashMap<TxId, Payload>,
}

impl Engine {
    pub(crate) fn new(
        lnd: Socklnd,
        core: Core,
        incarnation: u64,
        options: NodeOptions,
        clock: Clock,
    ) -> Self {
        let side = Side {
            core,
            memory: MemoryTable::default(),
            parked: Parked::default(),
            queues: Vec::new(),
            delivered: false,
            events_lost: 0,
            landings: FxHashMap::default(),
            held: FxHashSet::default(),
            payloads: FxHashMap::default(),
        };
        Self {
            lnd,
            side,
            links: Links::default(),
            configured: BTreeMap::new(),
            kept: KeptGlobals::default(),
            incarnation,
            options,
            clock,
            latest: Time::ZERO,
        }
    }

    /// The time, which is read where it is used: under the node's lock, so that it never goes back.
    pub(crate) fn now(&mut self) -> Time {
        let now = self.clock.now();
        debug_assert!(now >= self.latest, "time went back");
        self.latest = now;
        now
    }

    /// Carries out what the core wants and writes what is queued, for one turn. True when something is
    /// left for the next one.
    pub(crate) fn settle(&mut self, now: Time) -> bool {
        let mut budget = OUTPUTS_PER_TURN;
        loop {
            self.carry_out_within(&mut budget, now);
            if !self.lnd.write_out(now, &mut self.side) {
                break;
            }
            // What left may let other messages go.
            if budget == 0 || !self.carry_out_within(&mut budget, now) {
                break;
            }
        }
        self.carry_out_within(&mut budget, now);
        budget == 0 || self.lnd.has_work()
    }

    /// Reads on where a turn of reading was over.
    pub(crate) fn read_on(&mut self, now: Time) {
        self.lnd.read_on(now, &mut self.side);
    }

    /// Carries out what the core wants, for one turn, and leaves what is queued at the sockets to the
    /// next [`Engine::settle`].
    pub(crate) fn carry_out_turn(&mut self, now: Time) {
        self.carry_out_within(&mut { OUTPUTS_PER_TURN }, now);
    }

    /// Carries out at most `budget` outputs; true when there was one.
    fn carry_out_within(&mut self, budget: &mut u32, now: Time) -> bool {
        let before = *budget;
        while *budget > 0
            && let Some(output) = self.side.core.poll_output()
        {
            *budget -= 1;
            self.carry_out(output, now);
        }
        *budget < before
    }

    /// Runs what is due.
    pub(crate) fn tick(&mut self, now: Time) {
        self.side.core.tick(now);
        self.lnd.tick(now, &mut self.side);
    }

    /// When [`Engine::tick`] has something to do next.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let deadlines = [self.side.core.next_deadline(), self.lnd.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// The links under the interfaces changed.
    pub(crate) fn links_changed(&mut self, now: Time) {
        self.links.ready(&mut self.side.core, now);
    }

    fn carry_out(&mut self, output: Output, now: Time) {
        match output {
            Output::Transmit(transmit) if transmit.ni == NiId::LOOPBACK => {
                loopback::carry(&mut self.side, transmit, now);
            }
            Output::Transmit(transmit) => self.transmit(&transmit, now),
            Output::Resume { rx, landing } => self.resume(rx, landing, now),
            Output::Cancel { rx } => self.lnd.cancel(RxToken(rx.0), now, &mut self.side),
            Output::Event(event) => self.side.deliver(event),
            Output::Gateway { nid, alive: true } => info!(gateway = %nid, "gateway is alive"),
            Output::Gateway { nid, alive: false } => info!(gateway = %nid, "gateway is dead"),
        }
    }

    fn transmit(&mut self, transmit: &Transmit, now: Time) {
        if let Some(payload) = transmit.payload {
            self.side.payloads.insert(transmit.tx, payload);
        }
        let request = SendRequest {
            tx: TxToken(transmit.tx.0),
            ni: NiKey(transmit.ni.0),
            to: transmit.to,
            header: transmit.header,
            deadline: transmit.deadline,
        };
        self.lnd.send(request, now, &mut self.side);
    }

    fn resume(&mut self, rx: RxId, landing: Option<Landing>, now: Time) {
        if loopback::resume(&mut self.side, rx, landing, now) {
            return;
        }
        // The connection may have gone before the core's decision was carried out.
        if !self.side.held.remove(&rx) {
            return;
        }
        if let Some(landing) = landing {
            self.side.landings.insert(rx, landing);
        }
        let wanted = landing.map(|landing| landing.length);
        self.lnd.resume(RxToken(rx.0), wanted, now, &mut self.side);
    }
}

impl Side {
    /// The bytes of a payload, without copying them where they are shared.
    pub(crate) fn shared(&self, payload: Payload) -> Bytes {
        match payload.place {
            Place::Md(md) => self
                .memory
                .shared(md, range(payload.offset, payload.length)),
            Place::Router(_) | Place::Core(_) => Bytes::copy_from_slice(self.bytes(payload)),
        }
    }

    /// The room that a landing names; shorter only if the core's and the memory's tables disagree.
    pub(crate) fn room(&mut self, landing: Landing) -> &mut [u8] {
        let whole = match landing.place {
            Place::Md(md) => self.memory.descriptor_mut(md),
            Place::Router(buffer) => self.memory.router_mut(buffer),
            Place::Core(buffer) => self.core.core_buffer_mut(buffer),
        };
        whole
            .get_mut(range(landing.offset, landing.length))
            .unwrap_or_default()
    }

    fn bytes(&self, payload: Payload) -> &[u8] {
        let whole = match payload.place {
            Place::Md(md) => self.memory.descriptor(md),
            Place::Router(buffer) => self.memory.router(buffer),
            Place::Core(buffer) => self.core.core_buffer(buffer),
        };
        whole
            .get(range(payload.offset, payload.length))
            .unwrap_or_default()
    }

    fn deliver(&mut self, event: Event) {
        self.delivered = true;
        let md = event.md;
        let taken = if event.unlinked {
            self.memory.release(md).is_none_or(|registered| {
                let memory = Some(registered.memory);
                registered.queue.push(NodeEvent { event, memory })
            })
        } else {
            self.memory.registered(md).is_none_or(|registered| {
                let memory = None;
                registered.queue.push(NodeEvent { event, memory })
            })
        };
        if !taken {
            self.events_lost += 1;
        }
    }
}

impl Upper for Side {
    fn header(&mut self, ni: NiKey, peer: ProcessId, header: &Header, now: Time) -> Disposition {
        match self.core.header(NiId(ni.0), peer, header, now) {
            Verdict::Receive { rx, landing } => {
                if landing.length > 0 {
                    self.landings.insert(rx, landing);
                }
                Disposition::Receive {
                    rx: RxToken(rx.0),
                    wanted: landing.length,
                }
            }
            Verdict::Hold { rx } => {
                self.held.insert(rx);
                Disposition::Hold(RxToken(rx.0))
            }
            Verdict::Discard(reason) => {
                debug!(?reason, %peer, ?header, "message dropped");
                Disposition::Discard
            }
            Verdict::Refuse(error) => Disposition::Refuse(error.reason()),
        }
    }

    fn landing(&mut self, rx: RxToken) -> &mut [u8] {
        match self.landings.get(&RxId(rx.0)) {
            Some(&landing) => self.room(landing),
            None => &mut [],
        }
    }

    fn received(&mut self, rx: RxToken, result: Result<(), Failure>, now: Time) {
        let rx = RxId(rx.0);
        self.landings.remove(&rx);
        self.held.remove(&rx);
        self.core.arrived(rx, result.map_err(status), now);
    }

    fn payload(&self, tx: TxToken) -> &[u8] {
        match self.payloads.get(&TxId(tx.0)) {
            Some(&payload) => self.bytes(payload),
            None => &[],
        }
    }

    fn sent(&mut self, tx: TxToken, result: Result<(), Failure>, now: Time) {
        let tx = TxId(tx.0);
        self.payloads.remove(&tx);
        let status = result.map_or_else(status, |()| MessageStatus::Ok);
        self.core.sent(tx, status, now);
    }

    fn peer_changed(&mut self, ni: NiKey, peer: ProcessId, alive: bool, now: Time) {
        // A tool that presents itself as a user-space process comes and goes without its node.
        if !peer.is_userspace() {
            self.core.peer_notify(NiId(ni.0), peer.nid, alive, now);
        }
    }
}

fn range(offset: u32, length: u32) -> Range<usize> {
    let start = offset as usize;
    start..start.saturating_add(length as usize)
}

/// The LND's failures are a subset of LNet's status classes (section 3.8).
fn status(failure: Failure) -> MessageStatus {
    match failure {
        Failure::LocalError => MessageStatus::LocalError,
        Failure::RemoteError => MessageStatus::RemoteError,
        Failure::RemoteDropped => MessageStatus::RemoteDropped,
        Failure::RemoteTimeout => MessageStatus::RemoteTimeout,
        Failure::NetworkTimeout => MessageStatus::NetworkTimeout,
    }
}
