//! Messages being sent, and the credits they need.
//!
//! ```text
//!  dispatch ─▶ PeerQueue ─(peer credit)─▶ NiQueue ─(NI credit)─▶ Handed ─▶ sent
//!                  ▲                                              │
//!                  └──────────────── Resend ◀─────────────────────┘ failed, and may be sent again
//! ```
//!
//! A queue is first in, first out. While there are credits, a message passes without waiting. The message holds its
//! credits until the LND reports how the attempt ended. A message of this node fails if it waits too long. A routed
//! message does not fail by waiting: it holds a buffer of this router, so its sender waits, too.

use lnet_types::{Net, Nid, ProcessId, Time};
use lnet_wire::Header;
use smallvec::SmallVec;

use crate::fabric::select::{Path, PathRequest};
use crate::ground::event::{Errno, Event};
use crate::ground::ids::PeerNiId;
use crate::ground::io::{NiId, Output, Payload, Place, RouterBuffer, Transmit, TxId};
use crate::ground::md::MdHandle;
use crate::ground::status::{DropReason, MessageStatus};
use crate::ground::timer::Timer;
use crate::traffic::Traffic;
use crate::traffic::latency::Departure;
use crate::traffic::portals::descriptor::Owner;
use crate::traffic::portals::responses::Departing;
use crate::traffic::router::forward::Passage;
use crate::traffic::watch::Attempted;

/// Bytes that each queued message counts in addition to its payload.
const HEADER_BYTES: u64 = 72;

/// The most places of messages that are kept for later ones.
const SPARE_MAX: usize = 256;

/// A message being sent.
#[derive(Debug)]
pub(crate) struct Tx {
    pub(in crate::traffic) header: Header,
    payload: Option<Payload>,
    pub(crate) ni: NiId,
    pub(in crate::traffic) to: ProcessId,
    /// The peer NI whose credit the message needs; `None` for loopback, which needs none.
    pub(in crate::traffic) peer: Option<PeerNiId>,
    /// The route that the present attempt takes: remote net and gateway.
    route: Option<(Net, Nid)>,
    pub(crate) deadline: Time,
    /// When the present attempt began.
    pub(in crate::traffic) begun: Time,
    pub(crate) stage: SendStage,
    pub(crate) work: Work,
    /// The index of the message in the list of its descriptor.
    place: usize,
    /// The request for a path. A resend chooses a path for the same request.
    pub(crate) send: PathRequest,
    pub(crate) attempts: Attempts,
}

/// The attempts of a message so far.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// Resends so far.
    pub(in crate::traffic) retries: u32,
    /// The pairs of interfaces of failed attempts.
    pub(crate) used: SmallVec<[(NiId, PeerNiId); 2]>,
    /// The peer NI that the next attempt takes if it is up and in full health.
    pub(in crate::traffic) named: Option<Nid>,
    /// True if the case of selection allows another path.
    pub(in crate::traffic) retryable: bool,
    /// True if a failure of the remote side does not lower the peer's health ([`Owner::spares_peer`]).
    pub(in crate::traffic) probe: bool,
    /// True for a recovery ping. It is never resent, because another path would restore the health of another
    /// interface.
    pub(in crate::traffic) recovery: bool,
    /// The status of the last attempt that failed.
    pub(in crate::traffic) failed: Option<MessageStatus>,
}

/// The stage of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendStage {
    PeerQueue,
    NiQueue,
    /// The LND has the message, or an injected fault delays it or is about to report it as failed.
    Handed,
    /// An attempt failed, and the next attempt has not begun.
    Resend,
    /// The message waits until its target is discovered; there was no attempt yet.
    Parked,
}

/// The purpose of a message, which decides what happens when the message ends.
#[derive(Debug)]
pub(crate) enum Work {
    /// A PUT or GET, which ends with a SEND event.
    Request {
        /// The descriptor.
        md: MdHandle,
        /// The target that the caller named.
        target: ProcessId,
        /// The next hop of the last attempt; the wildcard before the first one.
        sender: Nid,
    },
    /// A REPLY. This event is reported at the end.
    Reply(Box<Event>),
    /// An ACK.
    Ack,
    /// A routed message, and the buffer that holds it.
    Forward(RouterBuffer, Passage),
}

/// A message about to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(in crate::traffic) header: Header,
    pub(in crate::traffic) payload: Option<Payload>,
    pub(in crate::traffic) work: Work,
    /// Whose operation the message is; [`Owner::User`] for a response and a routed message.
    pub(in crate::traffic) owner: Owner,
    /// The peer NI that a resend takes if it is up and in full health.
    pub(in crate::traffic) named: Option<Nid>,
}

/// How the sending of a message ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// The message was sent.
    Sent,
    /// The message failed. Holds the error that its caller receives, and the drop reason that counts a routed message.
    Failed(Errno, DropReason),
}

impl End {
    fn result(self) -> Result<(), Errno> {
        match self {
            Self::Sent => Ok(()),
            Self::Failed(errno, _) => Err(errno),
        }
    }
}

impl Tx {
    /// Creates a message to `to` that waits for a discovery before its first attempt.
    pub(crate) fn parked(
        send: PathRequest,
        ni: NiId,
        to: ProcessId,
        message: Outgoing,
        deadline: Time,
        now: Time,
    ) -> Self {
        Self {
            header: message.header,
            payload: message.payload,
            ni,
            to,
            peer: None,
            route: None,
            deadline,
            begun: now,
            stage: SendStage::Parked,
            work: message.work,
            place: 0,
            send,
            attempts: Attempts {
                named: message.named,
                ..Attempts::default()
            },
        }
    }

    /// Sets the name of the peer whose discovery the message waits for.
    pub(crate) fn waits_for(&mut self, name: Nid) {
        self.to.nid = name;
    }

    pub(in crate::traffic) fn bytes(&self) -> u64 {
        HEADER_BYTES + u64::from(self.header.payload_length)
    }

    pub(in crate::traffic) fn is_queued(&self) -> bool {
        self.stage != SendStage::Handed
    }

    /// Returns the descriptor whose operation the message is.
    pub(crate) fn descriptor(&self) -> Option<MdHandle> {
        match &self.work {
            Work::Request { md, .. } => Some(*md),
            Work::Reply(event) => Some(event.md),
            Work::Ack | Work::Forward(..) => None,
        }
    }

    pub(in crate::traffic) fn is_forwarded(&self) -> bool {
        matches!(self.work, Work::Forward(..))
    }

    /// Returns whether this peer NI is the next hop, or the peer whose discovery the message waits for.
    pub(crate) fn goes_to(&self, nid: Nid) -> bool {
        (self.peer.is_some() || self.stage == SendStage::Parked) && self.to.nid == nid
    }
}

impl Traffic {
    pub(crate) fn sent(&mut self, tx: TxId, status: MessageStatus, now: Time) {
        self.attempt_ended(tx, status, None, now);
    }

    pub(crate) fn sent_try_next(&mut self, tx: TxId, status: MessageStatus, next: Nid, now: Time) {
        self.attempt_ended(tx, status, Some(next), now);
    }

    pub(crate) fn sent_in_no_form(&mut self, tx: TxId, now: Time) {
        self.note_time(now);
        if self.tx.get_mut(tx).is_none_or(|sent| sent.is_queued()) {
            self.counters().stale_answers += 1;
            return;
        }
        self.counters().count_status(MessageStatus::LocalError);
        self.count_along_route(tx, MessageStatus::LocalError);
        let Some(message) = self.tx.remove(tx) else {
            return self.broken("a message that was found");
        };
        let (ni, peer) = (message.ni, message.peer);
        let end = End::Failed(Errno::EAFNOSUPPORT, DropReason::NotForwarded);
        self.end_attempts(message, tx, MessageStatus::LocalError, end);
        if let Some(peer) = peer {
            self.return_ni_credit(ni, now);
            self.return_peer_credit(peer, now);
        }
    }

    /// Inserts a message that waits until its target is discovered.
    pub(crate) fn enter_parked(&mut self, mut tx: Tx) -> TxId {
        self.counters().begin_message();
        let md = tx.descriptor().and_then(|md| self.mds.get_mut(md));
        tx.place = md.as_ref().map_or(0, |md| md.sends.len());
        let id = self.tx.insert(Box::new(tx));
        if let Some(md) = md {
            md.sends.push(id);
        }
        id
    }

    /// Sends a message by a chosen path, or queues it.
    pub(in crate::traffic) fn dispatch(
        &mut self,
        send: PathRequest,
        path: Path,
        message: Outgoing,
        now: Time,
    ) {
        let Outgoing {
            header,
            payload,
            work,
            owner,
            named,
        } = message;
        let tx = Tx {
            header,
            payload,
            ni: path.ni,
            to: path.next_hop,
            peer: None,
            route: None,
            deadline: self.fabric.message_deadline(path.ni, now),
            begun: now,
            stage: SendStage::PeerQueue,
            attempts: Attempts {
                named,
                probe: owner.spares_peer(),
                recovery: matches!(owner, Owner::Recovery(..)),
                ..Attempts::default()
            },
            work,
            place: 0,
            send,
        };
        self.counters().begin_message();
        let tx = self.settled(tx);
        self.launch(tx, &path, now);
    }

    /// Gives a message the place in which it stays until its end. A message is too large to be moved at each step.
    fn settled(&mut self, tx: Tx) -> Box<Tx> {
        match self.spare.pop() {
            Some(mut place) => {
                *place = tx;
                place
            }
            None => Box::new(tx),
        }
    }

    /// Begins an attempt.
    pub(crate) fn launch(&mut self, mut tx: Box<Tx>, path: &Path, now: Time) {
        if path.ni != NiId::LOOPBACK {
            let Some(hop) = self.fabric.peer_ni(path.next_hop.nid, now) else {
                self.counters().end_message();
                let Tx {
                    header,
                    payload,
                    work,
                    ..
                } = *tx;
                let message = Outgoing {
                    header,
                    payload,
                    work,
                    owner: Owner::User,
                    named: None,
                };
                return self.reject(message, Errno::ENOMEM);
            };
            tx.peer = Some(hop);
            self.fabric.commit(&tx.send, path, hop, now);
        }
        let id = self.tx.next_key();
        self.set_out(&mut tx, id, path, now);
        let (peer, bytes) = (tx.peer, tx.bytes());
        self.tx.insert(tx);
        match peer {
            None => self.transmit(id, now),
            Some(peer) => {
                if let Some(peer_ni) = self.fabric.peers.get_mut(peer) {
                    peer_ni.add_queued(bytes);
                }
                self.enter_peer_queue(id, peer, now);
            }
        }
    }

    /// Writes what follows from the path into the message, its header and its descriptor.
    fn set_out(&mut self, tx: &mut Tx, id: TxId, path: &Path, now: Time) {
        (tx.ni, tx.to, tx.stage) = (path.ni, path.next_hop, SendStage::PeerQueue);
        (tx.begun, tx.route) = (now, path.route);
        tx.attempts.retryable = path.retryable;
        let leaves = path.ni != NiId::LOOPBACK;
        match tx.send {
            PathRequest::Forward { .. } if leaves => tx.header.dest_nid = path.dest,
            PathRequest::Request(_) if leaves => {
                tx.header.dest_nid = path.dest;
                tx.header.src_nid = self.fabric.nis.get(path.ni).map_or(Nid::ANY, |ni| ni.nid);
            }
            _ => {}
        }
        if let Work::Request { sender, .. } = &mut tx.work {
            *sender = tx.to.nid;
        }
        let Some(handle) = tx.descriptor() else {
            return;
        };
        let Some(md) = self.mds.get_mut(handle) else {
            return self.broken("the descriptor of a message");
        };
        if let PathRequest::Request(request) = &tx.send {
            let departing = Departing {
                destination: path.dest,
                routed: path.route.is_some(),
                next_hop: path.next_hop.nid,
            };
            if leaves {
                md.responses.departs(request.target.nid, &departing);
            }
            md.departure = Some(Departure::of(tx, now));
        }
        tx.place = md.sends.len();
        md.sends.push(id);
    }

    /// Fails a message that cannot be queued.
    pub(crate) fn reject(&mut self, message: Outgoing, errno: Errno) {
        self.counters().errors += 1;
        self.release_payload(message.payload);
        let end = End::Failed(errno, DropReason::NoMemory);
        self.complete_work(&message.header, message.work, end);
    }

    fn attempt_ended(&mut self, id: TxId, status: MessageStatus, next: Option<Nid>, now: Time) {
        self.note_time(now);
        let Some(tx) = self.tx.get_mut(id).filter(|tx| !tx.is_queued()) else {
            self.counters().stale_answers += 1;
            return;
        };
        tx.attempts.named = next.or(tx.attempts.named);
        let (ni, peer) = (tx.ni, tx.peer);
        let attempted = self.fabric.watch.wants(status).then(|| Attempted::of(tx));
        // A failure after the deadline says nothing about an interface; `update_health` counts it as late instead.
        if status == MessageStatus::Ok || now < tx.deadline {
            self.counters().count_status(status);
        }
        self.update_health(id, status, now);
        self.count_along_route(id, status);
        let again = status != MessageStatus::Ok && self.may_resend(id, status, now);
        if let Some(attempted) = attempted {
            self.attempt_happened(&attempted, status, again);
        }
        if again {
            self.park_for_resend(id, status, now);
        } else if let Some(message) = self.tx.remove(id) {
            if status == MessageStatus::Ok {
                self.note_egress(&message, now);
            }
            self.complete_attempts(message, id, status);
        }
        if let Some(peer) = peer {
            self.return_ni_credit(ni, now);
            self.return_peer_credit(peer, now);
        }
    }

    /// Ends a message whose last attempt ended with `status`.
    fn complete_attempts(&mut self, message: Box<Tx>, id: TxId, status: MessageStatus) {
        let end = match status.result() {
            Ok(()) => End::Sent,
            Err(errno) => End::Failed(errno, DropReason::NotForwarded),
        };
        self.end_attempts(message, id, status, end);
    }

    fn end_attempts(&mut self, mut message: Box<Tx>, id: TxId, status: MessageStatus, end: End) {
        self.counters().end_message();
        self.counters()
            .count_sent(status, message.header.payload_length);
        if status == MessageStatus::Ok && message.attempts.retries > 0 {
            self.counters().successful_resends += 1;
        }
        self.count_sent_by(&message, status);
        if status.is_local_failure()
            && !status.is_remote_failure()
            && let Some(md) = message.descriptor()
        {
            self.check_failed_here(md);
        }
        self.subtract_queued_bytes(&message);
        self.remove_from_md(&message, id);
        self.release_payload(message.payload);
        let work = std::mem::replace(&mut message.work, Work::Ack);
        self.complete_work(&message.header, work, end);
        if self.spare.len() < SPARE_MAX {
            self.spare.push(message);
        }
    }

    /// Counts an attempt at the route that it took.
    fn count_along_route(&mut self, id: TxId, status: MessageStatus) {
        let Some(tx) = self.tx.get(id) else {
            return self.broken("a message whose attempt ended");
        };
        let length = u64::from(tx.header.payload_length);
        let route = tx.route;
        let Some(stats) =
            route.and_then(|(net, gateway)| self.fabric.routes.stats_mut(net, gateway))
        else {
            return;
        };
        if status == MessageStatus::Ok {
            stats.sent += 1;
            stats.sent_length += length;
        } else {
            stats.dropped += 1;
        }
    }

    pub(in crate::traffic) fn count_sent_by(&mut self, tx: &Tx, status: MessageStatus) {
        let kind = tx.header.body.message_type();
        let ni = self.fabric.nis.get_mut(tx.ni).map(|ni| &mut ni.stats);
        let peer = tx
            .peer
            .and_then(|id| self.fabric.peers.get_mut(id))
            .map(|peer_ni| &mut peer_ni.stats);
        for stats in ni.into_iter().chain(peer) {
            if status == MessageStatus::Ok {
                stats.sent.count(kind);
                stats.sent_length += u64::from(tx.header.payload_length);
            } else {
                stats.dropped.count(kind);
            }
        }
    }

    /// Subtracts the message from the bytes that are queued to its peer NI.
    pub(in crate::traffic) fn subtract_queued_bytes(&mut self, tx: &Tx) {
        let peer_ni = tx.peer.and_then(|peer| self.fabric.peers.get_mut(peer));
        if peer_ni.is_some_and(|peer_ni| !peer_ni.subtract_queued(tx.bytes())) {
            self.broken("bytes that were not counted as queued");
        }
    }

    /// Removes the message from its descriptor's list. The last message of the list takes the free place. There is
    /// no search, since a descriptor may have thousands of messages.
    pub(crate) fn remove_from_md(&mut self, tx: &Tx, id: TxId) {
        let Some(md) = tx.descriptor().and_then(|md| self.mds.get_mut(md)) else {
            return;
        };
        if md.sends.get(tx.place) != Some(&id) {
            return self.broken("a message among those of its descriptor");
        }
        md.sends.swap_remove(tx.place);
        let moved = md.sends.get(tx.place).copied();
        if let Some(moved) = moved.and_then(|moved| self.tx.get_mut(moved)) {
            moved.place = tx.place;
        }
    }

    fn release_payload(&mut self, payload: Option<Payload>) {
        if let Some(Payload {
            place: Place::Core(buffer),
            ..
        }) = payload
        {
            self.release_buffer(buffer);
        }
    }

    /// Completes the work of a message that was sent or has failed.
    fn complete_work(&mut self, header: &Header, work: Work, end: End) {
        match (work, end) {
            (Work::Request { md, target, sender }, end) => {
                let mut event = self.send_event(md, target, sender, header);
                event.status = end.result();
                self.complete_operation(event);
            }
            (Work::Reply(mut event), end) => {
                event.status = end.result();
                self.complete_operation(*event);
            }
            (Work::Ack, _) => {}
            (Work::Forward(buffer, passage), end) => {
                match end {
                    End::Sent => {
                        self.counters().route_count += 1;
                        self.counters().route_length += u64::from(header.payload_length);
                    }
                    End::Failed(_, reason) => {
                        self.counters().count_drop(reason, header.payload_length);
                    }
                }
                self.return_buffer(buffer, passage);
            }
        }
    }

    /// Passes a message that has its credits to the LND, unless an injected fault holds it.
    pub(in crate::traffic) fn transmit(&mut self, id: TxId, now: Time) {
        let Some(tx) = self.tx.get_mut(id) else {
            return self.broken("a message that has its credits");
        };
        tx.stage = SendStage::Handed;
        if tx.peer.is_none() || !self.fault_on_send(id, now) {
            self.hand_over(id, now);
        }
    }

    /// Hands a message to the LND.
    pub(in crate::traffic) fn hand_over(&mut self, id: TxId, now: Time) {
        let timeout = self.globals().transaction_timeout;
        let Some(tx) = self.tx.get(id) else {
            return self.broken("a message that goes to the LND");
        };
        let deadline = if tx.is_forwarded() {
            now + timeout
        } else {
            tx.deadline
        };
        self.fabric
            .ground
            .outputs
            .push_back(Output::Transmit(Transmit {
                tx: id,
                ni: tx.ni,
                to: tx.to,
                header: tx.header,
                payload: tx.payload,
                deadline,
            }));
    }

    /// Cancels a message that the LND does not have.
    pub(in crate::traffic) fn cancel_queued(&mut self, id: TxId, end: End, now: Time) {
        let tx = self.tx.get(id);
        if tx.is_none_or(|tx| tx.stage == SendStage::Handed) {
            return;
        }
        let freed = self.leave_queue(id);
        self.fail_message(id, end);
        if let Some(peer) = freed {
            self.return_peer_credit(peer, now);
        }
    }

    /// Fails a message that is in no queue and holds no credit.
    pub(crate) fn fail_message(&mut self, id: TxId, end: End) {
        let Some(tx) = self.tx.remove(id) else {
            return self.broken("a message that fails");
        };
        self.counters().end_message();
        self.counters().errors += 1;
        self.failure_happened(&tx, end);
        if tx.stage == SendStage::Parked {
            self.fabric
                .ground
                .timers
                .disarm(tx.deadline, Timer::Parked(id));
        }
        if !matches!(tx.stage, SendStage::Resend | SendStage::Parked) {
            self.subtract_queued_bytes(&tx);
            self.count_lost_on_route(&tx);
        }
        self.remove_from_md(&tx, id);
        let Tx {
            header,
            payload,
            ni,
            peer,
            work,
            ..
        } = *tx;
        self.count_failed_send(ni, peer, &header);
        self.release_payload(payload);
        self.complete_work(&header, work, end);
    }

    /// Counts a message that failed before the LND had it. `count_along_route` counts the failures of the LND.
    fn count_lost_on_route(&mut self, tx: &Tx) {
        let route = tx.route;
        if let Some(stats) =
            route.and_then(|(net, gateway)| self.fabric.routes.stats_mut(net, gateway))
        {
            stats.dropped += 1;
        }
    }

    fn count_failed_send(&mut self, ni: NiId, peer: Option<PeerNiId>, header: &Header) {
        let kind = header.body.message_type();
        if let Some(ni) = self.fabric.nis.get_mut(ni) {
            ni.stats.dropped.count(kind);
        }
        if let Some(peer_ni) = peer.and_then(|id| self.fabric.peers.get_mut(id)) {
            peer_ni.stats.dropped.count(kind);
        }
    }

    /// Cancels every queued message for which `gone` holds. Messages without a credit are cancelled first, so that a
    /// credit that another message returns does not move them on.
    pub(crate) fn cancel_queued_where(&mut self, gone: impl Fn(&Tx) -> bool, end: End, now: Time) {
        for stage in [
            SendStage::Parked,
            SendStage::Resend,
            SendStage::PeerQueue,
            SendStage::NiQueue,
        ] {
            let ids: Vec<TxId> = self
                .tx
                .iter()
                .filter(|(_, tx)| tx.stage == stage && gone(tx))
                .map(|(id, _)| id)
                .collect();
            for id in ids {
                self.cancel_queued(id, end, now);
            }
        }
    }
}
