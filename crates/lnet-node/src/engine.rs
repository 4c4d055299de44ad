//! The engine: core, LND and memory behind the node's one lock.
//!
//! [`Engine::decide`] is the heart: it carries the core's outputs to the LND, the queues and loopback.
//! Everything that may make the core produce outputs ends with it. It ends after so many outputs, however
//! many there are: what is left is another turn, behind whoever waits. Bytes move between
//! [`Engine::next_job`] and [`Engine::finish`], when nobody has the lock.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::ops::Range;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use lnd::{Disposition, Failure, NiId, RxId, TxId, Upper};
use lnet_config::NiConfig;
use lnet_core::{
    Core, CoreBuffer, Event, Landing, MessageStatus, Output, Payload, Place, Transmit, Verdict,
};
use lnet_tcp::{Job, SendRequest, Socklnd, Source, Staging};
use lnet_types::{ProcessId, Time};
use lnet_wire::Header;
use rustc_hash::FxHashMap;
use sys::span::Span;
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
    /// What is received for a buffer of the core's, which is copied there when it is whole.
    for_core: FxHashMap<RxId, (CoreBuffer, Span)>,
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
            for_core: FxHashMap::default(),
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

    /// Carries out what the core wants, for one turn. True when something is left for the next one.
    pub(crate) fn decide(&mut self, now: Time) -> bool {
        for _ in 0..OUTPUTS_PER_TURN {
            let Some(output) = self.side.core.poll_output() else {
                return false;
            };
            self.carry_out(output, now);
        }
        true
    }

    /// The next bytes to be moved, without the node's lock; then comes [`Engine::finish`].
    pub(crate) fn next_job(&mut self, now: Time) -> Option<Job<TcpStream>> {
        self.lnd.next_job(now, &mut self.side)
    }

    /// Takes note of the bytes that were moved.
    pub(crate) fn finish(&mut self, job: Job<TcpStream>, staging: &mut Staging, now: Time) {
        self.lnd.finish(job, staging, now, &mut self.side);
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
            Output::Cancel { rx } => self.lnd.cancel(rx, now, &mut self.side),
            Output::Event(event) => self.side.deliver(event),
            Output::Gateway { nid, alive: true } => info!(gateway = %nid, "gateway is alive"),
            Output::Gateway { nid, alive: false } => info!(gateway = %nid, "gateway is dead"),
        }
    }

    fn transmit(&mut self, transmit: &Transmit, now: Time) {
        let request = SendRequest {
            tx: transmit.tx,
            ni: transmit.ni,
            to: transmit.to,
            header: transmit.header,
            payload: transmit
                .payload
                .and_then(|payload| self.side.source(payload)),
            deadline: transmit.deadline,
        };
        self.lnd.send(request, now, &mut self.side);
    }

    fn resume(&mut self, rx: RxId, landing: Option<Landing>, now: Time) {
        if loopback::resume(&mut self.side, rx, landing, now) {
            return;
        }
        let landing = landing.and_then(|landing| self.side.landing(rx, landing));
        // The connection may have gone before the core's decision was carried out.
        if !self.lnd.resume(rx, landing, now) {
            self.side.for_core.remove(&rx);
        }
    }
}

impl Side {
    /// The memory of a payload; `None` when there are no bytes.
    pub(crate) fn source(&mut self, payload: Payload) -> Option<Source> {
        let range = range(payload.offset, payload.length);
        if range.is_empty() {
            return None;
        }
        let source = match payload.place {
            Place::Md(md) => self.memory.source(md, range),
            Place::Router(buffer) => self.memory.router(buffer, range).map(Source::Span),
            Place::Core(buffer) => {
                let bytes = self.core.core_buffer(buffer).get(range);
                bytes.map(|bytes| Source::Shared(Bytes::copy_from_slice(bytes)))
            }
        };
        debug_assert!(source.is_some(), "no memory for {payload:?}");
        source
    }

    /// The memory of a landing; `None` when nothing is wanted.
    pub(crate) fn landing(&mut self, rx: RxId, landing: Landing) -> Option<Span> {
        let range = range(landing.offset, landing.length);
        if range.is_empty() {
            return None;
        }
        let span = match landing.place {
            Place::Md(md) => self.memory.landing(md, range),
            Place::Router(buffer) => self.memory.router(buffer, range),
            Place::Core(buffer) => {
                // The core's landings begin with their buffer.
                let span = Span::from(vec![0; range.len()]);
                self.for_core.insert(rx, (buffer, span.clone()));
                Some(span)
            }
        };
        debug_assert!(span.is_some(), "no memory for {landing:?}");
        span
    }

    /// Tells the core that a message is where it wanted it, or failed.
    pub(crate) fn arrived(&mut self, rx: RxId, result: Result<(), MessageStatus>, now: Time) {
        if let Some((buffer, span)) = self.for_core.remove(&rx)
            && result.is_ok()
        {
            span.copy_out(self.core.core_buffer_mut(buffer));
        }
        self.core.arrived(rx, result, now);
    }

    fn deliver(&mut self, event: Event) {
        self.delivered = true;
        let md = event.md;
        let taken = if event.unlinked {
            self.memory.release(md).is_none_or(|registered| {
                let queue = Arc::clone(&registered.queue);
                let memory = Some(registered.into_memory());
                queue.push(NodeEvent { event, memory })
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
    type Landing = Span;
    type Payload = Source;

    fn header(
        &mut self,
        ni: NiId,
        peer: ProcessId,
        header: &Header,
        now: Time,
    ) -> Disposition<Span> {
        match self.core.header(ni, peer, header, now) {
            Verdict::Receive { rx, landing } => {
                let wanted = landing.length > 0;
                let landing = self.landing(rx, landing);
                if wanted && landing.is_none() {
                    // The tables of the core and of the memory disagree: the message is lost, not more.
                    self.core.arrived(rx, Err(MessageStatus::LocalError), now);
                    return Disposition::Discard;
                }
                Disposition::Receive { rx, landing }
            }
            Verdict::Hold { rx } => Disposition::Hold(rx),
            Verdict::Discard(reason) => {
                debug!(?reason, %peer, ?header, "message dropped");
                Disposition::Discard
            }
            Verdict::Refuse(error) => Disposition::Refuse(error.reason()),
        }
    }

    fn received(&mut self, rx: RxId, result: Result<(), Failure>, now: Time) {
        self.arrived(rx, result.map_err(status), now);
    }

    fn sent(&mut self, tx: TxId, result: Result<(), Failure>, now: Time) {
        let status = result.map_or_else(status, |()| MessageStatus::Ok);
        self.core.sent(tx, status, now);
    }

    fn peer_changed(&mut self, ni: NiId, peer: ProcessId, alive: bool, now: Time) {
        // A tool that presents itself as a user-space process comes and goes without its node.
        if !peer.is_userspace() {
            self.core.peer_notify(ni, peer.nid, alive, now);
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
