//! The core, the LND and the memory, and the code that carries the outputs of one to the others.
//!
//! [`Stack::decide`] carries the core's outputs to the LND, the event sinks and loopback. It follows
//! every call that may make the core produce outputs. One call carries out a limited number of outputs; the rest is
//! left for the next turn, so that waiting threads get the lock in between. Bytes move between [`Stack::next_job`]
//! and [`Stack::finish`], while no thread holds the stack.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use lnd::{Disposition, Failure, NiId, RxId, TxId, Upper};
use lnet_core::{
    Core, CoreBuffer, Event, MdHandle, MdSpec, MeSpec, MessageStatus, Output, Payload, Place,
    PortalError, Transmit, Verdict,
};
use lnet_tcp::{Destination, Job, Network, Readiness, SendRequest, Socklnd, Source, Staging};
use lnet_types::{ProcessId, Time};
use lnet_verbs::VerbsDevice;
use lnet_wire::Header;
use rustc_hash::FxHashMap;
use sys::span::Span;
use tracing::{debug, info};

use crate::stack::event::{EventSink, NodeEvent};
use crate::stack::loopback::{self, Parked};
use crate::stack::memory::{MemoryTable, Registered};
use crate::stack::rdma::{Rdma, RdmaDevice};
use crate::stack::tap::{Tap, Watcher};

/// Core, LND and memory. The times passed to its calls must not go backwards.
pub struct Stack<N: Network, Q, D: RdmaDevice = VerbsDevice> {
    /// The socket LND.
    pub lnd: Socklnd<N>,
    /// The o2ib LND, from the first o2ib interface on.
    pub rdma: Option<Box<Rdma<D>>>,
    /// The part that the LND calls back into.
    pub side: Side<Q>,
    /// Outputs of the core that are carried out before all later ones.
    outputs: VecDeque<Output>,
    outputs_max: u32,
}

/// The most outputs of the core that one turn carries out. They take a fraction of a millisecond, after which a
/// thread that waits for the lock gets it.
pub const OUTPUTS_PER_TURN: u32 = 1024;

/// The stack without the LND: the part that the LND calls back into.
pub struct Side<Q> {
    /// The node's state machine.
    pub core: Core,
    /// The memory behind descriptors and router buffers.
    pub memory: MemoryTable<Q>,
    /// True if an event was delivered since this flag was last cleared.
    pub delivered: bool,
    /// The number of events lost because their sink was full.
    pub events_lost: u64,
    pub(crate) parked: Parked,
    /// Last events of descriptors whose memory a thread may still move bytes of.
    leaving: Vec<(Event, Registered<Q>)>,
    /// Messages being received for a buffer of the core. The payload is copied to the buffer when it is complete.
    for_core: FxHashMap<RxId, (CoreBuffer, Span)>,
    /// Ports of RDMA devices that have become inactive (true) or active, by their interfaces.
    pub(crate) port_news: Vec<(NiId, bool)>,
    /// Who looks at messages; mostly nobody.
    pub(crate) tap: Option<Tap>,
}

impl<N: Network, Q: EventSink, D: RdmaDevice> Stack<N, Q, D> {
    /// Returns a stack without interfaces.
    pub fn new(lnd: Socklnd<N>, core: Core) -> Self {
        let side = Side {
            core,
            memory: MemoryTable::default(),
            delivered: false,
            events_lost: 0,
            parked: Parked::default(),
            leaving: Vec::new(),
            for_core: FxHashMap::default(),
            port_news: Vec::new(),
            tap: None,
        };
        Self {
            lnd,
            rdma: None,
            side,
            outputs: VecDeque::new(),
            outputs_max: OUTPUTS_PER_TURN,
        }
    }

    /// Lets a watcher look at the messages from now on; `None` ends that.
    pub fn watch_messages(&mut self, watcher: Option<Box<dyn Watcher>>) {
        self.side.tap = watcher.map(Tap::new);
    }

    /// Carries out the core's outputs for one turn. Returns true if outputs may be left for the next turn.
    pub fn decide(&mut self, now: Time) -> bool {
        let mut left = self.outputs_max as usize;
        while left > 0 {
            if self.outputs.is_empty() && !self.side.core.swap_outputs(&mut self.outputs) {
                return false;
            }
            let count = self.outputs.len().min(left);
            left -= count;
            // Events of the LND add outputs to the core's queue meanwhile, never to this one.
            let mut outputs = std::mem::take(&mut self.outputs);
            for output in outputs.range(..count) {
                self.carry_out(output, now);
            }
            if count == outputs.len() {
                outputs.clear();
            } else {
                outputs.drain(..count);
            }
            self.outputs = outputs;
        }
        true
    }

    /// Attaches a descriptor behind a new match entry.
    ///
    /// # Errors
    ///
    /// Those of [`Core::me_attach`] and [`Core::md_attach`]; after an error, the entry is removed.
    pub fn attach(
        &mut self,
        entry: MeSpec,
        md: MdSpec,
        registered: Registered<Q>,
        now: Time,
    ) -> Result<MdHandle, PortalError> {
        let core = &mut self.side.core;
        let me = core.me_attach(entry)?;
        let handle = core.md_attach(me, md, now).inspect_err(|_| {
            // The entry was made above and is known only here.
            let _gone = core.me_unlink(me, now);
        })?;
        self.side.memory.register(handle, registered);
        Ok(handle)
    }

    /// Binds a descriptor.
    ///
    /// # Errors
    ///
    /// Those of [`Core::md_bind`].
    pub fn bind(&mut self, md: MdSpec, registered: Registered<Q>) -> Result<MdHandle, PortalError> {
        let handle = self.side.core.md_bind(md)?;
        self.side.memory.register(handle, registered);
        Ok(handle)
    }

    /// Handles the readiness of a slot of the LND.
    pub fn ready(&mut self, slot: usize, readiness: Readiness, now: Time) {
        self.lnd.ready(slot, readiness, now, &mut self.side);
    }

    /// Takes what RDMA devices have to tell.
    pub fn rdma_ready(&mut self, now: Time) {
        if let Some(rdma) = &mut self.rdma {
            rdma.poll(now, &mut self.side);
        }
    }

    /// Prepares a wait for RDMA devices. Returns false if they have something to tell already.
    pub(crate) fn may_sleep(&mut self) -> bool {
        self.rdma.as_mut().is_none_or(|rdma| rdma.may_sleep())
    }

    /// Returns the next bytes to move. [`Stack::finish`] must follow.
    pub fn next_job(&mut self, now: Time) -> Option<Job<N::Stream>> {
        self.lnd.next_job(now, &mut self.side)
    }

    /// Records the result of the moved bytes.
    pub fn finish(&mut self, job: Job<N::Stream>, staging: &mut Staging, now: Time) {
        self.lnd.finish(job, staging, now, &mut self.side);
        self.side.deliver_leaving();
    }

    /// Does the work that is due.
    pub fn tick(&mut self, now: Time) {
        self.side.core.tick(now);
        self.lnd.tick(now, &mut self.side);
        if let Some(rdma) = &mut self.rdma {
            rdma.tick(now, &mut self.side);
        }
        self.side.deliver_leaving();
    }

    /// Returns when [`Stack::tick`] has work to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        let rdma = self.rdma.as_ref().and_then(|rdma| rdma.next_deadline());
        let deadlines = [
            self.side.core.next_deadline(),
            self.lnd.next_deadline(),
            rdma,
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Closes the connections of an interface and removes it from the LND and the core.
    pub fn remove_ni(&mut self, ni: NiId, now: Time) {
        self.lnd.remove_ni(ni, now, &mut self.side);
        if let Some(rdma) = &mut self.rdma {
            rdma.remove_ni(ni, now, &mut self.side);
        }
        // An error means that the core does not have the interface any more.
        let _gone = self.side.core.remove_ni(ni, now);
    }

    /// Fails at once what the socket LND has for an interface whose link or address is gone. The core knows of the
    /// loss. A connection of the o2ib LND stays: its device tries again by itself, and reports when it gives up.
    pub fn ni_went_down(&mut self, ni: NiId, now: Time) {
        self.lnd.ni_went_down(ni, now, &mut self.side);
    }

    /// Closes every connection and carries out all consequences.
    pub fn close_all(&mut self, now: Time) {
        self.lnd.close_all(now, &mut self.side);
        if let Some(rdma) = &mut self.rdma {
            rdma.close_all(now, &mut self.side);
        }
        // Nothing is in flight any more, so the loop ends.
        while self.decide(now) {}
    }

    /// Returns true while a thread may move bytes of foreign memory. Gives back what no thread uses any more.
    pub(crate) fn uses_foreign_memory(&mut self) -> bool {
        self.side.deliver_leaving();
        !self.side.leaving.is_empty() || self.side.memory.is_in_use()
    }

    /// Removes the limit of a turn: a turn continues as long as the core has outputs.
    #[cfg(feature = "defects")]
    pub fn unbound_turns(&mut self) {
        self.outputs_max = u32::MAX;
    }

    fn carry_out(&mut self, output: &Output, now: Time) {
        match output {
            Output::Transmit(transmit) => self.transmit(transmit, now),
            Output::Resume { rx, landing } => self.resume(*rx, *landing, now),
            Output::Cancel { rx } => self.cancel(*rx, now),
            Output::Doubt { nid } => self.lnd.doubt(*nid, now, &mut self.side),
            Output::Event(event) => self.side.deliver(event),
            Output::Gateway { nid, alive: true } => info!(gateway = %nid, "gateway is alive"),
            Output::Gateway { nid, alive: false } => info!(gateway = %nid, "gateway is dead"),
        }
    }

    /// Cancels a message that one of the LNDs is receiving; the other does not know the message.
    fn cancel(&mut self, rx: RxId, now: Time) {
        self.lnd.cancel(rx, now, &mut self.side);
        if let Some(rdma) = &mut self.rdma {
            rdma.cancel(rx, now, &mut self.side);
        }
    }

    fn transmit(&mut self, transmit: &Transmit, now: Time) {
        self.side.show_own(transmit, now);
        if transmit.ni == NiId::LOOPBACK {
            return loopback::carry(&mut self.side, transmit, now);
        }
        if let Some(rdma) = &mut self.rdma
            && rdma.has_ni(transmit.ni)
        {
            return rdma.transmit(transmit, now, &mut self.side);
        }
        let payload = transmit.payload;
        let payload = payload.and_then(|payload| self.side.source(payload));
        if payload.is_none() && transmit.header.payload_length > 0 {
            // The message is a resend of forwarded payload of which a part has already left its pipe.
            return self.side.core.sent_in_no_form(transmit.tx, now);
        }
        let request = SendRequest {
            tx: transmit.tx,
            ni: transmit.ni,
            to: transmit.to,
            header: transmit.header,
            payload,
            deadline: transmit.deadline,
        };
        self.lnd.send(request, now, &mut self.side);
    }

    fn resume(&mut self, rx: RxId, landing: Option<lnet_core::Landing>, now: Time) {
        if loopback::resume(&mut self.side, rx, landing, now) {
            return;
        }
        if let (None, Some(tap)) = (landing, &mut self.side.tap) {
            tap.forget(rx);
        }
        let destination = landing.and_then(|landing| self.side.destination(rx, landing));
        if let Some(rdma) = &mut self.rdma
            && rdma.holds(rx)
        {
            return rdma.resume(rx, destination, now, &mut self.side);
        }
        // The connection may have closed before the core's decision was carried out.
        if !self.lnd.resume(rx, destination, now) {
            self.side.for_core.remove(&rx);
            if let Some(tap) = &mut self.side.tap {
                tap.forget(rx);
            }
        }
    }
}

impl<Q: EventSink> Side<Q> {
    /// Shows a message that comes from this node itself. One that is forwarded was shown when it arrived.
    fn show_own(&mut self, transmit: &Transmit, now: Time) {
        let Some(tap) = &mut self.tap else { return };
        let header = &transmit.header;
        let Some(wanted) = tap.wants(header) else {
            return;
        };
        let payload = match transmit.payload.map(|payload| (payload.place, payload)) {
            Some((Place::Md(md), payload)) => {
                let length = wanted.min(payload.length as usize);
                let start = payload.offset as usize;
                Some((md, start..start.saturating_add(length)))
            }
            Some((Place::Router(_) | Place::Core(_), _)) => return,
            None if transmit.ni == NiId::LOOPBACK => None,
            None if self.core.owns(header.src_nid) => None,
            None => return,
        };
        tap.sent(header, payload, &mut self.memory, now);
    }

    /// Returns the memory of a payload; `None` if the payload is empty or no longer complete.
    pub(crate) fn source(&mut self, payload: Payload) -> Option<Source> {
        let range = range(payload.offset, payload.length);
        if range.is_empty() {
            return None;
        }
        let source = match payload.place {
            Place::Md(md) => self.memory.source(md, range),
            Place::Router(buffer) => return self.memory.router_source(buffer, range),
            Place::Core(buffer) => {
                let bytes = self.core.core_buffer(buffer).get(range);
                bytes.map(|bytes| Source::Shared(Bytes::copy_from_slice(bytes)))
            }
        };
        debug_assert!(source.is_some(), "no memory for {payload:?}");
        source
    }

    /// Returns the memory of a payload for a device that cannot read a pipe; `None` if the payload is empty or no longer
    /// complete.
    pub(crate) fn memory_of(&mut self, payload: Payload) -> Option<lnet_verbs::Payload> {
        let range = range(payload.offset, payload.length);
        if let Place::Router(buffer) = payload.place
            && !range.is_empty()
        {
            let memory = self.memory.router_memory(buffer, range);
            return memory.map(lnet_verbs::Payload::Span);
        }
        match self.source(payload)? {
            Source::Shared(bytes) => Some(lnet_verbs::Payload::Shared(bytes)),
            Source::Span(span) => Some(lnet_verbs::Payload::Span(span)),
            // Only forwarded payload is in a pipe.
            Source::Pipe(..) => None,
        }
    }

    /// Returns the memory that a reply lands in; `None` if it is not a program's.
    pub(crate) fn memory_for_reply(&self, landing: lnet_core::Landing) -> Option<Span> {
        match landing.place {
            Place::Md(md) => self
                .memory
                .destination(md, range(landing.offset, landing.length)),
            Place::Router(_) | Place::Core(_) => None,
        }
    }

    /// Returns the memory for a landing; `None` if no payload is wanted.
    pub(crate) fn destination(
        &mut self,
        rx: RxId,
        landing: lnet_core::Landing,
    ) -> Option<Destination> {
        let range = range(landing.offset, landing.length);
        if let Some(tap) = &mut self.tap {
            tap.lands(rx, landing.place, range.clone());
        }
        if range.is_empty() {
            return None;
        }
        let target = match landing.place {
            Place::Md(md) => self.memory.destination(md, range).map(Destination::from),
            Place::Router(buffer) => self.memory.router_destination(buffer, range),
            Place::Core(buffer) => {
                // A landing in a buffer of the core begins at the buffer's start.
                let span = Span::from(vec![0; range.len()]);
                self.for_core.insert(rx, (buffer, span.clone()));
                Some(span.into())
            }
        };
        debug_assert!(target.is_some(), "no memory for {landing:?}");
        target
    }

    /// Reports to the core that a message is in its memory, or failed.
    pub(crate) fn arrived(&mut self, rx: RxId, result: Result<(), MessageStatus>, now: Time) {
        if let Some((buffer, span)) = self.for_core.remove(&rx)
            && result.is_ok()
        {
            span.copy_out(self.core.core_buffer_mut(buffer));
        }
        if let Some(tap) = &mut self.tap {
            tap.arrived(rx, result.is_ok(), &mut self.memory, now);
        }
        self.core.arrived(rx, result, now);
    }

    fn deliver(&mut self, event: &Event) {
        self.delivered = true;
        if event.unlinked {
            if let Some(registered) = self.memory.release(event.md) {
                self.give_back(event.clone(), registered);
            }
            return;
        }
        let registered = self.memory.registered(event.md);
        let taken = registered.is_none_or(|registered| {
            registered.queue.push(NodeEvent {
                event: event.clone(),
                memory: None,
            })
        });
        if !taken {
            self.events_lost += 1;
        }
    }

    /// Delivers the last event of a descriptor, with its memory, as soon as no thread moves bytes of it.
    fn give_back(&mut self, event: Event, mut registered: Registered<Q>) {
        if !registered.may_be_given_back() {
            return self.leaving.push((event, registered));
        }
        let queue = Arc::clone(&registered.queue);
        let memory = Some(registered.into_memory());
        if !queue.push(NodeEvent { event, memory }) {
            self.events_lost += 1;
        }
    }

    fn deliver_leaving(&mut self) {
        for (event, registered) in std::mem::take(&mut self.leaving) {
            self.give_back(event, registered);
        }
    }
}

impl<Q: EventSink> Upper for Side<Q> {
    type Destination = Destination;
    type Payload = Source;

    fn header(
        &mut self,
        ni: NiId,
        peer: ProcessId,
        header: &Header,
        now: Time,
    ) -> Disposition<Destination> {
        let verdict = self.core.header(ni, peer, header, now);
        if let Some(tap) = &mut self.tap
            && let Verdict::Receive { rx, .. } | Verdict::Hold { rx } = verdict
        {
            tap.begin(rx, ni, header);
        }
        match verdict {
            Verdict::Receive { rx, landing } => {
                let wanted = landing.length > 0;
                let destination = self.destination(rx, landing);
                if wanted && destination.is_none() {
                    // The tables of the core and of the memory disagree: only this message is lost.
                    self.arrived(rx, Err(MessageStatus::LocalError), now);
                    return Disposition::Drop;
                }
                Disposition::Receive { rx, destination }
            }
            Verdict::Hold { rx } => Disposition::Hold(rx),
            Verdict::Drop(reason) => {
                debug!(?reason, %peer, ?header, "message dropped");
                Disposition::Drop
            }
            Verdict::Reject(error) => Disposition::Reject(error.reason()),
        }
    }

    fn received(&mut self, rx: RxId, result: Result<(), Failure>, now: Time) {
        self.arrived(rx, result.map_err(status), now);
    }

    fn sent(&mut self, tx: TxId, result: Result<(), Failure>, now: Time) {
        if result == Err(Failure::Unwritable) {
            return self.core.sent_in_no_form(tx, now);
        }
        let status = result.map_or_else(status, |()| MessageStatus::Ok);
        self.core.sent(tx, status, now);
    }

    fn peer_changed(
        &mut self,
        ni: NiId,
        peer: ProcessId,
        alive: bool,
        incarnation: Option<u64>,
        now: Time,
    ) {
        // A tool may present itself as a user-space process. It starts and ends independently of its node.
        if !peer.is_userspace() {
            self.core.peer_notify(ni, peer.nid, alive, now);
            if let Some(incarnation) = incarnation {
                self.core.peer_incarnation(peer.nid, incarnation, now);
            }
        }
    }
}

fn range(offset: u32, length: u32) -> Range<usize> {
    let start = offset as usize;
    start..start.saturating_add(length as usize)
}

/// Returns the status class of an LND's failure. The LND's failures are a subset of LNet's classes.
fn status(failure: Failure) -> MessageStatus {
    match failure {
        Failure::LocalError | Failure::Unwritable => MessageStatus::LocalError,
        Failure::LocalTimeout => MessageStatus::LocalTimeout,
        Failure::LocalDropped => MessageStatus::LocalDropped,
        Failure::RemoteError => MessageStatus::RemoteError,
        Failure::RemoteDropped => MessageStatus::RemoteDropped,
        Failure::RemoteTimeout => MessageStatus::RemoteTimeout,
        Failure::NetworkTimeout => MessageStatus::NetworkTimeout,
    }
}
