//! The border between a node and its network drivers (LNDs): what both call the same thing.
//!
//! ```text
//!   node:  core, memory            Upper  ▲ header, received, sent, peer_changed
//!  ────────────────────────────────────────────────────────────────────────────── this crate
//!   LND:   peers, connections      SendRequest, resume  ▲ landings and payloads, by ownership
//! ```
//!
//! Memory crosses the border with the message that it belongs to and is owned by whoever holds it. An
//! LND can therefore move bytes without asking the node, and the memory lives until the move has ended,
//! whatever became of the descriptor that it was taken from. What memory is, the two sides agree on:
//! see [`Upper::Landing`] and [`Upper::Payload`].
//!
//! This crate holds no state, knows no network and moves nothing. Section numbers are those of the
//! LNet-over-TCP wire description that the project works from.

use lnet_types::{ProcessId, Time};
use lnet_wire::Header;

/// A local network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NiId(pub u32);

impl NiId {
    /// The loopback interface, which every node has.
    pub const LOOPBACK: Self = Self(0);
}

/// A message being received, from the verdict on its header until it is reported as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RxId(pub u64);

/// A message being sent, from the wish to transmit it until it is reported as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(pub u64);

/// What a node wants done with a message whose header arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition<L> {
    /// Read the start of the payload into the landing, throw away the rest, then call
    /// [`Upper::received`].
    Receive {
        /// Names the message.
        rx: RxId,
        /// As long as the part of the payload that is wanted; `None` when none is.
        landing: Option<L>,
    },
    /// Read nothing more from this connection until the node resumes the message.
    Hold(RxId),
    /// Read the payload and throw it away.
    Discard,
    /// The peer broke the protocol: close the connection and its siblings. The text says how.
    Refuse(&'static str),
}

/// How the sending or receiving of a message failed, as LNet's health classes (section 3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The write failed here, or the queue was flushed for a reason other than those below.
    LocalError,
    /// There was nothing to send on, or a received message could not be acknowledged.
    RemoteError,
    /// The queue was flushed because the peer could not be reached or reset the connection.
    RemoteDropped,
    /// The interface went down before all of the message was written: the peer did not get it.
    LocalDropped,
    /// The network gave up on bytes that had been handed to it.
    RemoteTimeout,
    /// No progress within the LND's timeout.
    NetworkTimeout,
    /// The peer reads no form in which the message's NIDs can be written. No interface is to blame.
    Unwritable,
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRequest<P> {
    /// Names the message until [`Upper::sent`].
    pub tx: TxId,
    /// Over which local interface.
    pub ni: NiId,
    /// Whose connections carry it (next hop).
    pub to: ProcessId,
    /// The header; its `payload_length` is the length of the payload.
    pub header: Header,
    /// The payload; `None` when the message has none.
    pub payload: Option<P>,
    /// Not worth sending after this point.
    pub deadline: Time,
}

/// The node above an LND.
pub trait Upper {
    /// Memory that payload is read into. Nobody else writes it until the message is reported.
    type Landing;
    /// Memory that payload is sent from. Nobody writes it until the message is reported.
    type Payload;

    /// A header arrived from `peer` on the interface `ni`.
    fn header(
        &mut self,
        ni: NiId,
        peer: ProcessId,
        header: &Header,
        now: Time,
    ) -> Disposition<Self::Landing>;

    /// The wanted payload is in place, or will never be. Called exactly once for every `Receive` and
    /// `Hold`.
    fn received(&mut self, rx: RxId, result: Result<(), Failure>, now: Time);

    /// The message is in the network (all of it), or failed. Called exactly once for every
    /// [`SendRequest`], possibly before the call that gave it returns.
    fn sent(&mut self, tx: TxId, result: Result<(), Failure>, now: Time);

    /// The first connection to `peer` came up, or there is none: the last one went, or could not be made.
    /// Of a peer that stays away this is told once for each failed pass. `incarnation` is that of the peer's last
    /// connections, if there were any: a peer that has restarted has another one.
    fn peer_changed(
        &mut self,
        ni: NiId,
        peer: ProcessId,
        alive: bool,
        incarnation: Option<u64>,
        now: Time,
    );
}
