//! The network driver (LND) of one interface, between a core and a fabric.
//!
//! ```text
//!            core                        LND                       fabric
//!   Output::Transmit ───▶ transmit ─┬─────────────▶ Connect, Post ───▶
//!   Core::sent       ◀─── Sent    ◀─┤
//!   set_ni_fatal     ◀─── Fatal   ◀─┤ ◀──────────── event: device, port, connection, completion
//!   peer_notify      ◀─── Peer    ◀─┘ ◀──────────── tick: a deadline has passed
//! ```
//!
//! An LND reports two things to the core: the class of a failure ([`MessageStatus`]), and whether the interface has
//! a fatal error. The core resends by class, so the class must be true: a class that allows a resend states that
//! the receiver certainly did not act on the message.
//!
//! # How to drive an LND
//!
//! Call [`Lnd::transmit`] for each message of the core, [`Lnd::event`] for each report of the fabric, and
//! [`Lnd::tick`] at the time of [`Lnd::next_deadline`] (earlier calls are harmless). Carry out the actions that
//! each call appends, in their order. Times must never decrease. Then
//!
//! * each message ends with exactly one [`Action::Sent`], at the latest when the LND timeout has expired, whether
//!   the message was posted or not;
//! * only [`Action::Post`] puts a message on the wire, at most once for each message. At most one
//!   [`LndEvent::Completion`] answers it; a late completion is ignored;
//! * one [`LndEvent::Connected`] or [`LndEvent::ConnectFailed`] answers each [`Action::Connect`].
//!
//! An LND must not know routes, peers of several interfaces, health or resends.

mod engine;
mod o2ib;
#[cfg(test)]
mod properties;
mod sock;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use lnet_core::{MessageStatus, TxId};
use lnet_types::{Nid, Time};
use lnet_wire::Header;

pub use engine::Lnd;

/// A message in the form in which an LND carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The core's identifier of the message.
    pub tx: TxId,
    /// The next hop.
    pub peer: Nid,
    /// The header that goes on the wire.
    pub header: Header,
    /// The payload if its bytes matter, as with ping information. Other payloads are represented by their length
    /// alone.
    pub bytes: Option<Box<[u8]>>,
    /// The deadline of the core. An LND may end the message earlier.
    pub deadline: Time,
}

/// The incarnation of the other end. A node that restarts has a new one, and does not know the connections of the
/// previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incarnation(pub u32);

/// An action that an LND requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Set up a connection.
    Connect {
        /// The interface to connect to.
        peer: Nid,
    },
    /// Put a message on the wire.
    Post {
        /// The message.
        message: Message,
        /// The incarnation of the peer that the connection belongs to.
        connection: Incarnation,
    },
    /// Close a connection. The other end drops the messages that it holds of the connection.
    Close {
        /// The interface at the other end.
        peer: Nid,
    },
    /// Report the result of a message to the core.
    Sent {
        /// The message.
        tx: TxId,
        /// The result.
        status: MessageStatus,
    },
    /// Report to the core that the interface has a fatal error, or has none any more.
    Fatal(bool),
    /// Report to the core whether a peer can be reached.
    Peer {
        /// The peer's interface.
        nid: Nid,
        /// True if the peer can be reached.
        alive: bool,
    },
}

/// Actions in their order.
pub type Actions = VecDeque<Action>;

/// An event that the fabric reports to an LND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LndEvent {
    /// The device failed: all its connections and messages are lost.
    DeviceFatal,
    /// The device works again, without any earlier state.
    DeviceReady,
    /// The port lost its link.
    PortDown,
    /// The port has its link again.
    PortUp,
    /// The driver is stopped and restarted for this interface.
    Interrupted,
    /// A connection was set up.
    Connected {
        /// The interface at the other end.
        peer: Nid,
        /// The incarnation of the peer.
        incarnation: Incarnation,
    },
    /// A connection could not be set up.
    ConnectFailed {
        /// The interface at the other end.
        peer: Nid,
        /// The reason.
        error: ConnectError,
    },
    /// The other end closed a connection, or does not know it.
    Closed {
        /// The interface at the other end.
        peer: Nid,
    },
    /// A posted message has completed.
    Completion {
        /// The message.
        tx: TxId,
        /// The result.
        result: Result<(), CompletionError>,
    },
}

/// The reason why there is no connection. In all these cases nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The peer rejected the connection.
    Rejected,
    /// The peer does not answer.
    Unreachable,
    /// No path leads from this interface to the peer.
    NoRoute,
    /// This end cancelled the attempt.
    Aborted,
}

/// The failure of a posted message, in the terms of a work completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompletionError {
    /// The local adapter rejected the message: a protection or length error.
    Local,
    /// The connection broke while the message was in flight.
    Flushed,
    /// The peer's adapter never acknowledged the message.
    RetryExceeded,
    /// The peer had no receive posted for the message, after all retries.
    ReceiverNotReady,
    /// The peer's adapter or driver rejected the message after it had seen it.
    Remote,
}

impl CompletionError {
    /// All failures.
    pub const ALL: [Self; 5] = [
        Self::Local,
        Self::Flushed,
        Self::RetryExceeded,
        Self::ReceiverNotReady,
        Self::Remote,
    ];

    /// Returns true if the peer may have acted on the message in spite of the failure.
    #[must_use]
    pub const fn may_have_arrived(self) -> bool {
        matches!(self, Self::Flushed | Self::RetryExceeded | Self::Remote)
    }
}

/// The kinds of driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LndKind {
    /// InfiniBand verbs.
    #[default]
    O2ib,
    /// TCP.
    Sock,
}
