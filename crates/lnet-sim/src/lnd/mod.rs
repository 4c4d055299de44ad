//! What stands between a core and a fabric: the network driver (LND) of one interface.
//!
//! ```text
//!            core                        LND                       fabric
//!   Output::Transmit ───▶ transmit ─┬─────────────▶ Connect, Post ───▶
//!   Core::sent       ◀─── Sent    ◀─┤
//!   set_ni_fatal     ◀─── Fatal   ◀─┤ ◀──────────── event: device, port, connection, completion
//!   peer_notify      ◀─── Peer    ◀─┘ ◀──────────── tick: a message was out for too long
//! ```
//!
//! An LND decides two things for the core: what class a failure has ([`MessageStatus`]), and whether
//! the interface has a fatal error. Classes decide about resends, so they must be true: a class that
//! allows a resend says that the receiver certainly did not act on the message.
//!
//! # How to drive one
//!
//! Call [`Lnd::transmit`] for each message of the core, [`Lnd::event`] for what the fabric reports and
//! [`Lnd::tick`] when [`Lnd::next_deadline`] has come (earlier calls do no harm), and carry out the
//! actions that each call appends, in their order. Times never go backwards. Then
//!
//! * each message ends with exactly one [`Action::Sent`], whatever happens and at the latest when the
//!   LND timeout has passed, however often it was or was not posted;
//! * [`Action::Post`] is the only way onto the wire, at most once for a message, and is answered by at
//!   most one [`LndEvent::Completion`]; late ones are ignored;
//! * [`Action::Connect`] is answered by one [`LndEvent::Connected`] or [`LndEvent::ConnectFailed`].
//!
//! An LND may never know of routes, peers of several interfaces, health or resends.

mod engine;
mod o2ib;
#[cfg(test)]
mod properties;
mod sock;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use lnet_core::{MessageStatus, TxId};
use lnet_types::{Nid, Time};
use lnet_wire::Header;

pub use o2ib::O2ibLnd;
pub use sock::SockLnd;

/// A driver of one interface.
pub trait Lnd: std::fmt::Debug {
    /// The core wants a message sent.
    fn transmit(&mut self, message: Message, now: Time, actions: &mut Actions);

    /// Something happened to the device, a connection or a message.
    fn event(&mut self, event: LndEvent, now: Time, actions: &mut Actions);

    /// When [`Lnd::tick`] has something to do; `None`: never, as things are.
    fn next_deadline(&self) -> Option<Time>;

    /// Ends what has been waiting for too long.
    fn tick(&mut self, now: Time, actions: &mut Actions);
}

/// A message as an LND carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name in the core.
    pub tx: TxId,
    /// The next hop.
    pub peer: Nid,
    /// The header as it goes on the wire.
    pub header: Header,
    /// The payload where its bytes matter: ping information. Others travel by their length alone.
    pub bytes: Option<Box<[u8]>>,
    /// The core's own deadline; an LND may give up earlier.
    pub deadline: Time,
}

/// The other end's life: a node that restarts has another one, and knows no connection of the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incarnation(pub u32);

/// What an LND wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Set up a connection.
    Connect {
        /// To this interface.
        peer: Nid,
    },
    /// Put a message on the wire.
    Post {
        /// The message.
        message: Message,
        /// The life of the peer that the connection belongs to.
        connection: Incarnation,
    },
    /// A connection is torn down; the other end drops what it holds of it.
    Close {
        /// To this interface.
        peer: Nid,
    },
    /// To the core: the fate of a message.
    Sent {
        /// The message.
        tx: TxId,
        /// How it ended.
        status: MessageStatus,
    },
    /// To the core: the interface has a fatal error, or none any more.
    Fatal(bool),
    /// To the core: a peer can be reached, or cannot.
    Peer {
        /// The peer's interface.
        nid: Nid,
        /// It can.
        alive: bool,
    },
}

/// Actions in their order.
pub type Actions = VecDeque<Action>;

/// What the fabric reports to an LND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LndEvent {
    /// The device failed: everything it had is gone.
    DeviceFatal,
    /// The device works again, from nothing.
    DeviceReady,
    /// The port lost its link.
    PortDown,
    /// The port has its link again.
    PortUp,
    /// The driver is stopped and started again for this interface.
    Interrupted,
    /// A connection is there.
    Connected {
        /// To this interface.
        peer: Nid,
        /// Of this life of the peer.
        incarnation: Incarnation,
    },
    /// A connection could not be set up.
    ConnectFailed {
        /// To this interface.
        peer: Nid,
        /// Why.
        error: ConnectError,
    },
    /// The other end closed a connection, or does not know it.
    Closed {
        /// Of this interface.
        peer: Nid,
    },
    /// A posted message is done.
    Completion {
        /// The message.
        tx: TxId,
        /// How.
        result: Result<(), CompletionError>,
    },
}

/// Why there is no connection. Nothing was sent in any of these cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The peer refuses it.
    Rejected,
    /// The peer does not answer.
    Unreachable,
    /// Nothing leads there from this interface.
    NoRoute,
    /// Our own side gave it up.
    Aborted,
}

/// How a posted message failed, in the terms of a work completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompletionError {
    /// Our own adapter refused it: a protection or length error.
    Local,
    /// The connection broke while it was out.
    Flushed,
    /// The peer's adapter never acknowledged it.
    RetryExceeded,
    /// The peer had no receive posted for it, to the end.
    ReceiverNotReady,
    /// The peer's adapter or driver refused it after having seen it.
    Remote,
}

impl CompletionError {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Local,
        Self::Flushed,
        Self::RetryExceeded,
        Self::ReceiverNotReady,
        Self::Remote,
    ];

    /// Whether the peer may have acted on the message all the same.
    #[must_use]
    pub const fn may_have_arrived(self) -> bool {
        matches!(self, Self::Flushed | Self::RetryExceeded | Self::Remote)
    }
}

/// The drivers there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LndKind {
    /// InfiniBand verbs: [`O2ibLnd`].
    #[default]
    O2ib,
    /// TCP: [`SockLnd`].
    Sock,
}

impl LndKind {
    /// A driver of this kind that gives a message so long.
    #[must_use]
    pub fn driver(self, timeout: Duration) -> Box<dyn Lnd> {
        match self {
            Self::O2ib => Box::new(O2ibLnd::new(timeout)),
            Self::Sock => Box::new(SockLnd::new(timeout)),
        }
    }
}
