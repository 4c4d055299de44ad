//! The fates of messages: status classes, drop reasons, protocol errors.

use thiserror::Error;

use crate::event::Errno;

/// How the sending of a message ended (section 9.1). The classes decide what health and resends do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MessageStatus {
    /// Sent.
    Ok = 0,
    /// The local interface was interrupted.
    LocalInterrupt = 1,
    /// Dropped before it reached the wire.
    LocalDropped = 2,
    /// Aborted before it reached the wire.
    LocalAborted = 3,
    /// No path from here.
    LocalNoRoute = 4,
    /// Failed here for another reason.
    LocalError = 5,
    /// Not sent in time.
    LocalTimeout = 6,
    /// The peer failed it.
    RemoteError = 7,
    /// Surely not received.
    RemoteDropped = 8,
    /// Perhaps received.
    RemoteTimeout = 9,
    /// Lost here or there, nobody knows.
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

    /// The local interface is to blame, or may be.
    pub(crate) const fn blames_local(self) -> bool {
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

    /// The peer interface is to blame, or may be.
    pub(crate) const fn blames_remote(self) -> bool {
        matches!(
            self,
            Self::RemoteError | Self::RemoteDropped | Self::RemoteTimeout | Self::NetworkTimeout
        )
    }

    /// It certainly never left this node, and another local interface may carry it.
    pub(crate) const fn allows_local_resend(self) -> bool {
        self.blames_local() && !matches!(self, Self::LocalError | Self::NetworkTimeout)
    }

    /// The peer certainly did not get it, and another of its interfaces may.
    pub(crate) const fn allows_remote_resend(self) -> bool {
        matches!(self, Self::RemoteDropped)
    }

    /// Returns what a caller receives for this status.
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

/// Why a message that arrived was dropped. Every drop is counted under one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum DropReason {
    /// For another network, and this node does not route.
    NotRouting,
    /// A portal number of 64 or more.
    BadPortal,
    /// No match entry takes it.
    NoMatch,
    /// A match entry takes it but it is too long and may not be truncated.
    TooLong,
    /// An ACK or REPLY whose handle is unknown, unlinked or exhausted.
    UnknownHandle,
    /// A lazy portal was cleared, or its queue is full.
    LazyPortal,
    /// No route or no local interface towards its destination.
    NoRoute,
    /// The next hop of a routed message is known to be down.
    NextHopDown,
    /// Routing was switched off while it waited.
    RoutingStopped,
    /// It came through a gateway that this node does not use for its source (`drop_asym_route`).
    AsymmetricRoute,
    /// A table that is bounded is full.
    NoMemory,
    /// Its source is a wildcard or a loopback NID, which no node has.
    BadSource,
    /// Its connection ended, or its payload was damaged, before all of it was here.
    Incomplete,
    /// A routed message that the LND could not send on.
    NotForwarded,
    /// A fault that was injected on purpose.
    FaultInjected,
    /// The only live routes to its destination lead back to where it came from.
    RoutingLoop,
    /// The memory that it was landing in was cancelled.
    Cancelled,
    /// An ACK or REPLY that names an operation of ours, from a node that was not asked.
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

/// How a peer broke the protocol (sections 4.4 and 5.1). The connection and its siblings close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{}", self.reason())]
#[non_exhaustive]
pub enum IllegalMessage {
    /// Addressed to a NID on this network that is not this interface's (check 3a).
    MisdirectedOnNet,
    /// Addressed to another interface of this node (check 3b).
    WrongInterface,
    /// A payload that its type may not have: on an ACK or GET any, on a PUT or REPLY more than 1 MiB.
    BadLength,
}

impl IllegalMessage {
    /// The same as its `Display`, for drivers that keep reasons as text.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::MisdirectedOnNet => "addressed to another node of this network",
            Self::WrongInterface => "addressed to another interface of this node",
            Self::BadLength => "payload length is not legal for the message type",
        }
    }
}
