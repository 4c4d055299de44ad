//! Counters: every message, byte, rejection and close by its reason.

use std::collections::BTreeMap;

use lnet_wire::o2ib::{MessageKind, RejectionReason};

use crate::device::ConnectFailure;

/// Numbers by reason. Reasons that never occurred have no entry and count as 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts<K: Ord>(BTreeMap<K, u64>);

impl<K: Ord + Copy> Counts<K> {
    /// Returns how often `reason` occurred.
    #[must_use]
    pub fn of(&self, reason: K) -> u64 {
        self.0.get(&reason).copied().unwrap_or(0)
    }

    /// Returns the reasons that occurred, in order, each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (K, u64)> {
        self.0.iter().map(|(&reason, &count)| (reason, count))
    }

    pub(crate) fn add(&mut self, reason: K) {
        *self.0.entry(reason).or_insert(0) += 1;
    }
}

impl<K: Ord> Default for Counts<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// The reason why a connection was closed, or not established after the CM had made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CloseReason {
    /// The other end closed it, or it broke.
    Disconnected,
    /// A posted message failed.
    SendFailed,
    /// The device rejected work.
    DeviceRefused,
    /// A message is malformed.
    Malformed,
    /// A message is of a type that has no place there.
    UnexpectedType,
    /// A message names an end or an incarnation that is not that of the connection.
    Stale,
    /// The peer gave back more credits than it had got, or used more than it had.
    Credits,
    /// The peer answered something that waits for no such answer.
    Cookie,
    /// The node above found the LNet header malformed.
    Header,
    /// The acceptor's reply does not fit the request.
    BadReply,
    /// A message was not complete at its deadline.
    Deadline,
    /// The connection request took too long.
    ConnectDeadline,
    /// The peer has another incarnation now.
    PeerRestarted,
    /// The interface was removed, or the node shuts down.
    Shutdown,
    /// The device was removed.
    DeviceRemoved,
    /// The address of the interface has moved to another port or device.
    AddressMoved,
    /// The node above cancelled a message whose memory the peer may write to.
    Cancelled,
}

/// The LND's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct O2ibStats {
    /// Messages sent, by type.
    pub sent: Counts<MessageKind>,
    /// Messages received, by type.
    pub received: Counts<MessageKind>,
    /// Bytes of payload that were written to peers by RDMA.
    pub bytes_written: u64,
    /// Bytes of payload that peers wrote here by RDMA.
    pub bytes_landed: u64,
    /// Bytes of payload that were copied into or out of messages.
    pub bytes_copied: u64,
    /// Messages that had to wait for a credit.
    pub waited_for_credit: u64,
    /// Connections that were established.
    pub established: u64,
    /// Connections that were closed, by reason.
    pub closed: Counts<CloseReason>,
    /// Connection requests that were rejected here, by reason. Requests of other versions of the protocol count as
    /// [`RejectionReason::ConnUncompat`], although the rejection says FATAL.
    pub rejected: Counts<RejectionReason>,
    /// Connection requests that peers rejected, by reason.
    pub rejections: Counts<RejectionReason>,
    /// Dialled connections that were not made, by reason.
    pub failed: Counts<ConnectFailure>,
    /// Attempts to dial again after a rejection that allows it.
    pub retries: u64,
    /// Memory that could not be registered.
    pub unmapped: u64,
    /// Events of the device that name no connection or message, such as late ones.
    pub stray_events: u64,
}
