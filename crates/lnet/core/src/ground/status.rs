//! The results of messages: status classes, drop reasons, protocol errors.

use thiserror::Error;

use crate::ground::event::Errno;

/// The result of an attempt to send. The class decides how health changes and whether to resend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MessageStatus {
    /// The message was sent.
    Ok = 0,
    /// The local interface was interrupted.
    LocalInterrupt = 1,
    /// The message was dropped before it reached the wire.
    LocalDropped = 2,
    /// The message was aborted before it reached the wire.
    LocalAborted = 3,
    /// This node has no path for the message.
    LocalNoRoute = 4,
    /// The message failed on this node for another reason.
    LocalError = 5,
    /// The message was not sent in time.
    LocalTimeout = 6,
    /// The peer reported a failure of the message.
    RemoteError = 7,
    /// The peer certainly did not receive the message.
    RemoteDropped = 8,
    /// The peer may have received the message.
    RemoteTimeout = 9,
    /// The message was lost on this node or beyond it; which of the two is unknown.
    NetworkTimeout = 10,
}

impl MessageStatus {
    /// All classes, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Ok,
        Self::LocalInterrupt,
        Self::LocalDropped,
        Self::LocalAborted,
        Self::LocalNoRoute,
        Self::LocalError,
        Self::LocalTimeout,
        Self::RemoteError,
        Self::RemoteDropped,
        Self::RemoteTimeout,
        Self::NetworkTimeout,
    ];

    /// Number of classes.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// Decides whether the local interface is, or may be, the cause.
    pub(crate) const fn is_local_failure(self) -> bool {
        matches!(
            self,
            Self::LocalInterrupt
                | Self::LocalDropped
                | Self::LocalAborted
                | Self::LocalNoRoute
                | Self::LocalError
                | Self::LocalTimeout
                | Self::NetworkTimeout
        )
    }

    /// Decides whether the peer interface is, or may be, the cause.
    pub(crate) const fn is_remote_failure(self) -> bool {
        matches!(
            self,
            Self::RemoteError | Self::RemoteDropped | Self::RemoteTimeout | Self::NetworkTimeout
        )
    }

    /// Decides whether the message certainly never left this node, so that another local interface may carry it.
    pub(crate) const fn allows_local_resend(self) -> bool {
        self.is_local_failure() && !matches!(self, Self::LocalError | Self::NetworkTimeout)
    }

    /// Decides whether the peer certainly did not receive the message, so that another interface of the peer may.
    pub(crate) const fn allows_remote_resend(self) -> bool {
        matches!(self, Self::RemoteDropped)
    }

    /// Returns the result that the caller of the operation receives for this status.
    ///
    /// # Errors
    ///
    /// The errno of a failure, for every class but [`MessageStatus::Ok`].
    pub const fn result(self) -> Result<(), Errno> {
        match self {
            Self::Ok => Ok(()),
            Self::LocalAborted => Err(Errno::ECANCELED),
            Self::LocalNoRoute | Self::RemoteDropped => Err(Errno::EHOSTUNREACH),
            Self::LocalTimeout | Self::RemoteTimeout | Self::NetworkTimeout => {
                Err(Errno::ETIMEDOUT)
            }
            Self::LocalInterrupt | Self::LocalDropped | Self::LocalError | Self::RemoteError => {
                Err(Errno::EIO)
            }
        }
    }
}

/// The reason why a message that arrived was dropped. Every drop is counted under one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum DropReason {
    /// The message is for another node, and this node does not route.
    NotRouting,
    /// The portal number is 64 or more.
    BadPortal,
    /// No match entry accepts the message.
    NoMatch,
    /// A match entry accepts the message, but the message is too long and may not be truncated.
    TooLong,
    /// The handle of an ACK or REPLY is unknown, unlinked or exhausted.
    UnknownHandle,
    /// The lazy portal that held the message was cleared, or its queue is full.
    LazyPortal,
    /// There is no route or no local interface towards the destination.
    NoRoute,
    /// The next hop of a routed message is known to be down.
    NextHopDown,
    /// Routing was switched off while the message waited.
    RoutingStopped,
    /// The message came through a gateway that this node does not use for the message's source (`drop_asym_route`).
    AsymmetricRoute,
    /// A table has reached its limit.
    NoMemory,
    /// The source is a wildcard or a loopback NID, which no node has; or it is a NID on the net of the connection and not
    /// one of the peer at the other end.
    BadSource,
    /// The connection ended or the payload was damaged before the whole payload arrived.
    Incomplete,
    /// The LND could not send a routed message to the next hop.
    NotForwarded,
    /// A fault was injected on purpose.
    FaultInjected,
    /// The only live routes to the destination lead back to the node that the message came from.
    RoutingLoop,
    /// The descriptor whose memory received the payload was cancelled.
    Cancelled,
    /// An ACK or REPLY names an operation of this node but comes from a node that was not asked.
    WrongResponder,
}

impl DropReason {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 18] = [
        Self::NotRouting,
        Self::BadPortal,
        Self::NoMatch,
        Self::TooLong,
        Self::UnknownHandle,
        Self::LazyPortal,
        Self::NoRoute,
        Self::NextHopDown,
        Self::RoutingStopped,
        Self::AsymmetricRoute,
        Self::NoMemory,
        Self::BadSource,
        Self::Incomplete,
        Self::NotForwarded,
        Self::FaultInjected,
        Self::RoutingLoop,
        Self::Cancelled,
        Self::WrongResponder,
    ];
}

/// How a peer violated the protocol. The connection and the other connections to the peer
/// close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{}", self.reason())]
#[non_exhaustive]
pub enum IllegalMessage {
    /// The message is addressed to a NID on the net of the interface that received it, but not to that interface
    /// (check 3a).
    MisdirectedOnNet,
    /// The message is addressed to another interface of this node (check 3b).
    WrongInterface,
    /// The payload length is not legal for the type: any payload on an ACK or GET, more than 1 MiB on a PUT or REPLY.
    BadLength,
}

impl IllegalMessage {
    /// Returns the text of `Display`, for drivers that store reasons as text.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::MisdirectedOnNet => "addressed to another node of this network",
            Self::WrongInterface => "addressed to another interface of this node",
            Self::BadLength => "payload length is not legal for the message type",
        }
    }
}
