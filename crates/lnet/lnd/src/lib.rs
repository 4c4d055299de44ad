//! The interface between a node and its network drivers (LNDs): the terms and types that both use.
//!
//! ```text
//!   node:  core, memory            Upper  ▲ header, received, sent, peer_changed
//!  ────────────────────────────────────────────────────────────────────────────── this crate
//!   LND:   peers, connections      SendRequest, resume  ▲ landings and payloads, by ownership
//! ```
//!
//! Memory crosses this border together with the message that it belongs to; the side that holds the message owns the
//! memory. So an LND can move bytes without a call to the node. The memory lives until the move has ended, even if
//! the descriptor that it was taken from is gone. The two sides agree on the type of the memory: see
//! [`Upper::Destination`] and [`Upper::Payload`].
//!
//! This crate holds no state, knows no network and moves nothing.

use lnet_types::{ProcessId, Time};
use lnet_wire::Header;

/// A local network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NiId(pub u32);

impl NiId {
    /// The loopback interface, which every node has.
    pub const LOOPBACK: Self = Self(0);
}

/// A message being received, from the decision on its header until it is reported as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RxId(pub u64);

/// A message being sent, from the node's request to send it until it is reported as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(pub u64);

/// The node's decision about a message whose header has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition<L> {
    /// Read the start of the payload into the destination, drop the rest, then call [`Upper::received`].
    Receive {
        /// The identifier of the message.
        rx: RxId,
        /// Memory as long as the wanted part of the payload; `None` if no part is wanted.
        destination: Option<L>,
    },
    /// Read nothing more from this connection until the node resumes the message.
    Hold(RxId),
    /// Read the payload and drop it.
    Drop,
    /// The peer broke the protocol: close the connection and its siblings. The text says how the peer broke it.
    Reject(&'static str),
}

/// The reason why a message could not be sent or received, as one of LNet's health classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The write failed here, or the queue was flushed for a reason other than those below.
    LocalError,
    /// The message was still queued here at its deadline: the peer did not get the message.
    LocalTimeout,
    /// There was no connection to send on, or a received message could not be acknowledged.
    RemoteError,
    /// The queue was flushed because the peer could not be reached or reset the connection.
    RemoteDropped,
    /// The interface went down before the whole message was written: the peer did not get the message.
    LocalDropped,
    /// TCP timed out on bytes that it had accepted: the peer did not acknowledge them.
    RemoteTimeout,
    /// No progress within the LND's timeout.
    NetworkTimeout,
    /// The peer accepts no version in which the message's NIDs can be written. No interface is at fault.
    Unwritable,
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRequest<P> {
    /// The identifier of the message until [`Upper::sent`].
    pub tx: TxId,
    /// The local interface to send from.
    pub ni: NiId,
    /// The next hop: the peer whose connections carry the message.
    pub to: ProcessId,
    /// The header; its `payload_length` is the length of the payload.
    pub header: Header,
    /// The payload; `None` if the message has none.
    pub payload: Option<P>,
    /// The time after which the message is no longer worth sending.
    pub deadline: Time,
}

/// The node above an LND.
pub trait Upper {
    /// Memory that payload is read into. Nothing else writes to it until the message is reported.
    type Destination;
    /// Memory that payload is sent from. Nothing writes to it until the message is reported.
    type Payload;

    /// Decides about a message whose header arrived from `peer` on the interface `ni`.
    fn header(
        &mut self,
        ni: NiId,
        peer: ProcessId,
        header: &Header,
        now: Time,
    ) -> Disposition<Self::Destination>;

    /// Reports that the wanted payload is in place, or never will be. Called exactly once for every `Receive` and
    /// `Hold`.
    fn received(&mut self, rx: RxId, result: Result<(), Failure>, now: Time);

    /// Reports that the whole message is in the network, or failed. Called exactly once for every [`SendRequest`],
    /// possibly before the call that made the request returns.
    fn sent(&mut self, tx: TxId, result: Result<(), Failure>, now: Time);

    /// Reports that `peer` has its first connection (`alive`), or that it has none: the last connection closed, or
    /// none could be made. For a peer that stays unreachable, the LND calls this once for each failed dialling pass.
    /// `incarnation` is that of the peer's last connections; `None` if there were none. A peer that has restarted has
    /// another incarnation.
    fn peer_changed(
        &mut self,
        ni: NiId,
        peer: ProcessId,
        alive: bool,
        incarnation: Option<u64>,
        now: Time,
    );

    /// Returns the memory in which the REPLY to the GET of this request will land, from its start; `None` if the LND
    /// must not write there by itself. An LND whose network can write to a peer's memory asks before it sends a GET to
    /// a neighbour. When the reply is in the memory, the LND calls [`Upper::header`] with the header of the REPLY, and
    /// [`Upper::received`] without a move.
    fn reply_memory(&mut self, _tx: TxId) -> Option<Self::Destination> {
        None
    }

    /// Reports that an interface has a fatal error, such as a port without a link, or has none any more. LNDs that
    /// learn this from the system's news of links do not call it.
    fn ni_fatal(&mut self, _ni: NiId, _is_fatal: bool, _now: Time) {}
}
