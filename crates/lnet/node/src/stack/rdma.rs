//! The o2ib LND of a stack: the device behind it, and its memory in the terms of the node's.
//!
//! The LND and the socket LND stand side by side below one core. The interface of a message says which one sends it, and
//! the message that the core continues or cancels is known to one of them. Everything else goes to both.

use std::time::Duration;

use lnd::{Disposition, Failure, NiId, RxId, SendRequest, TxId, Upper};
use lnet_core::Transmit;
use lnet_o2ib::{
    AddNiError, ConnectionView, DeviceError, LndNi, O2ibConfig, O2ibStats, O2iblnd, OtherVersion,
    PolledDevice,
};
use lnet_tcp::Destination;
use lnet_types::{ProcessId, Time};
use lnet_verbs::{Landing, Payload, VerbsDevice};
use lnet_wire::Header;
use lnet_wire::o2ib::VERSION;
use tracing::warn;

use crate::stack::event::EventSink;
use crate::stack::turn::Side;

/// A device whose memory is that of a node.
pub trait RdmaDevice: PolledDevice<Source = Payload, Sink = Landing> {}

impl<D: PolledDevice<Source = Payload, Sink = Landing>> RdmaDevice for D {}

/// The o2ib LND with its devices: those of the machine, or of a simulation.
pub struct Rdma<D: RdmaDevice = VerbsDevice> {
    lnd: O2iblnd<D>,
    /// True if a user was told that the device cannot be asked for news.
    has_warned: bool,
}

impl<D: RdmaDevice> Rdma<D> {
    /// Returns the LND without interfaces.
    #[must_use]
    pub fn new(config: O2ibConfig, device: D) -> Self {
        Self {
            lnd: O2iblnd::new(config, device),
            has_warned: false,
        }
    }

    /// Breaks the LND on purpose.
    #[cfg(feature = "defects")]
    pub fn plant(&mut self, defect: lnet_o2ib::Defect) {
        self.lnd.plant(defect);
    }

    /// Adds an interface and listens at its address.
    ///
    /// # Errors
    ///
    /// Those of [`O2iblnd::add_ni`].
    pub fn add_ni(&mut self, ni: LndNi) -> Result<(), AddNiError> {
        self.lnd.add_ni(ni)
    }

    /// Changes settings of an interface as [`O2iblnd::tune`] does.
    pub fn tune(&mut self, ni: NiId, conns_per_peer: u8, timeout: Option<Duration>) {
        self.lnd.tune(ni, conns_per_peer, timeout);
    }

    /// Sets how long a message may take from now on, on interfaces without a timeout of their own.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.lnd.set_timeout(timeout);
    }

    /// Returns the counters.
    #[must_use]
    pub fn stats(&self) -> &O2ibStats {
        self.lnd.stats()
    }

    /// Returns the connections that are not closed.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionView> {
        self.lnd.connections()
    }

    /// Returns the devices, to look at them and to wait for them.
    #[must_use]
    pub fn devices(&self) -> &D {
        self.lnd.driver()
    }

    /// Returns true if the port of an interface is not active.
    pub(crate) fn is_fatal(&self, ni: NiId) -> bool {
        self.lnd.is_fatal(ni)
    }

    pub(crate) fn has_ni(&self, ni: NiId) -> bool {
        self.lnd.has_ni(ni)
    }

    pub(crate) fn holds(&self, rx: RxId) -> bool {
        self.lnd.holds(rx)
    }

    /// Prepares a wait for the descriptor. Returns false if there is something to do instead.
    pub(crate) fn may_sleep(&mut self) -> bool {
        let armed = self.lnd.device().arm();
        !self.told(armed).unwrap_or(false)
    }

    /// Takes what the devices have to tell.
    pub(crate) fn poll<Q: EventSink>(&mut self, now: Time, side: &mut Side<Q>) {
        let polled = self.lnd.device().poll();
        self.told(polled);
        self.follow_up(now, side);
    }

    pub(crate) fn tick<Q: EventSink>(&mut self, now: Time, side: &mut Side<Q>) {
        self.poll(now, side);
        self.lnd.tick(now, &mut Bridge(side));
        self.follow_up(now, side);
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.lnd.next_deadline()
    }

    pub(crate) fn transmit<Q: EventSink>(
        &mut self,
        transmit: &Transmit,
        now: Time,
        side: &mut Side<Q>,
    ) {
        let payload = transmit.payload;
        let payload = payload.and_then(|payload| side.memory_of(payload));
        if payload.is_none() && transmit.header.payload_length > 0 {
            return side.core.sent_in_no_form(transmit.tx, now);
        }
        let request = SendRequest {
            tx: transmit.tx,
            ni: transmit.ni,
            to: transmit.to,
            header: transmit.header,
            payload,
            deadline: transmit.deadline,
        };
        self.lnd.send(request, now, &mut Bridge(side));
        self.follow_up(now, side);
    }

    pub(crate) fn resume<Q: EventSink>(
        &mut self,
        rx: RxId,
        destination: Option<Destination>,
        now: Time,
        side: &mut Side<Q>,
    ) {
        let landing = destination.as_ref().map(landing);
        self.lnd.resume(rx, landing, now, &mut Bridge(side));
        self.follow_up(now, side);
    }

    pub(crate) fn cancel<Q: EventSink>(&mut self, rx: RxId, now: Time, side: &mut Side<Q>) {
        self.lnd.cancel(rx, now, &mut Bridge(side));
        self.follow_up(now, side);
    }

    pub(crate) fn remove_ni<Q: EventSink>(&mut self, ni: NiId, now: Time, side: &mut Side<Q>) {
        self.lnd.remove_ni(ni, now, &mut Bridge(side));
        self.follow_up(now, side);
    }

    pub(crate) fn close_all<Q: EventSink>(&mut self, now: Time, side: &mut Side<Q>) {
        self.lnd.close_all(now, &mut Bridge(side));
        self.follow_up(now, side);
    }

    /// Handles the events of the device. A call of the LND may leave some, such as the end of a connection.
    fn follow_up<Q: EventSink>(&mut self, now: Time, side: &mut Side<Q>) {
        while let Some(event) = self.lnd.device().next_event() {
            self.lnd.event(event.view(), now, &mut Bridge(side));
        }
        while let Some(other) = self.lnd.next_other_version() {
            tell_of(other);
        }
    }

    fn told<T>(&mut self, result: Result<T, DeviceError>) -> Option<T> {
        if let Err(error) = &result
            && !std::mem::replace(&mut self.has_warned, true)
        {
            warn!(%error, "an RDMA device cannot be asked for news");
        }
        result.ok()
    }
}

/// Says that a peer speaks another version of the protocol.
fn tell_of(OtherVersion { peer, version }: OtherVersion) {
    let peer = peer.map_or_else(|| "a peer".to_owned(), |nid| nid.to_string());
    warn!(
        "{peer} speaks version {version:#x} of the o2ib protocol, and this node speaks {VERSION:#x}: they cannot connect; \
         update the older one"
    );
}

/// The upper side of the LND, whose memory is that of the devices.
struct Bridge<'a, Q>(&'a mut Side<Q>);

impl<Q: EventSink> Upper for Bridge<'_, Q> {
    type Destination = Landing;
    type Payload = Payload;

    fn header(
        &mut self,
        ni: NiId,
        peer: ProcessId,
        header: &Header,
        now: Time,
    ) -> Disposition<Landing> {
        match self.0.header(ni, peer, header, now) {
            Disposition::Receive { rx, destination } => Disposition::Receive {
                rx,
                destination: destination.as_ref().map(landing),
            },
            Disposition::Hold(rx) => Disposition::Hold(rx),
            Disposition::Drop => Disposition::Drop,
            Disposition::Reject(reason) => Disposition::Reject(reason),
        }
    }

    fn received(&mut self, rx: RxId, result: Result<(), Failure>, now: Time) {
        self.0.received(rx, result, now);
    }

    fn sent(&mut self, tx: TxId, result: Result<(), Failure>, now: Time) {
        self.0.sent(tx, result, now);
    }

    fn peer_changed(
        &mut self,
        ni: NiId,
        peer: ProcessId,
        alive: bool,
        incarnation: Option<u64>,
        now: Time,
    ) {
        self.0.peer_changed(ni, peer, alive, incarnation, now);
    }

    fn reply_memory(&mut self, tx: TxId) -> Option<Landing> {
        let place = self.0.core.reply_landing(tx)?;
        self.0.memory_for_reply(place).map(Landing)
    }

    fn ni_fatal(&mut self, ni: NiId, is_fatal: bool, _now: Time) {
        self.0.port_news.push((ni, is_fatal));
    }
}

fn landing(destination: &Destination) -> Landing {
    Landing(destination.memory().clone())
}
