//! Counters of the node, of an interface, of a peer NI, with the names of `lnetctl stats show` and
//! `net show`.
//!
//! All counters only count up; only [`Core::reset_stats`](crate::Core::reset_stats) resets them. They are 64 bits wide.
//! The selftest protocol, whose fields have 32 bits, takes the low half.

use lnet_types::Nid;
use lnet_wire::{Header, MessageType};

use crate::ground::io::NiId;
use crate::ground::status::{DropReason, MessageStatus};

/// Counters of the whole node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages under way now, in either direction.
    pub msgs_alloc: u64,
    /// The most messages that were ever under way at once.
    pub msgs_max: u64,
    /// Messages whose sending or receiving failed.
    pub errors: u64,
    /// Messages sent, including forwarded ones.
    pub send_count: u64,
    /// Payload bytes sent.
    pub send_length: u64,
    /// Messages received for this node.
    pub recv_count: u64,
    /// Payload bytes received for this node.
    pub recv_length: u64,
    /// Messages forwarded.
    pub route_count: u64,
    /// Payload bytes forwarded.
    pub route_length: u64,
    /// Routed messages that had to wait because others for the same next hop held its whole share of the router
    /// buffers.
    pub next_hop_waits: u64,
    /// Messages dropped, for any reason.
    pub drop_count: u64,
    /// Payload bytes dropped.
    pub drop_length: u64,
    /// ACKs and REPLYs that did not arrive in time.
    pub response_timeout_count: u64,
    /// Responses that this node waits for now.
    pub rst_alloc: u64,
    /// Resends.
    pub resend_count: u64,
    /// Messages that were resent and then sent successfully.
    pub successful_resends: u64,
    /// Messages that failed because they reached the limit of resends, or had no path left.
    pub failed_resends: u64,
    /// Failures reported after the message's deadline.
    pub late_count: u64,
    /// The sum of the times by which these failures were late, in nanoseconds.
    pub late_nanoseconds: u64,
    /// Answers of the driver whose id names no message, or no longer names one.
    pub stale_answers: u64,
    /// Messages rejected because the peer violated the protocol.
    pub refused: u64,
    /// Pushes of this node's ping information that were begun.
    pub pushes_sent: u64,
    /// Pushes of peers that arrived.
    pub pushes_received: u64,
    /// Pushes among these that were rejected: their information cannot be used, or their sender is not in the peer
    /// table.
    pub pushes_refused: u64,
    /// Discoveries of peers that failed.
    pub discoveries_failed: u64,
    /// Answers and pushes about interfaces that changed nothing: the peer did not name itself, or named a NID of
    /// another peer, or the table of peers had no room for its interfaces.
    pub discoveries_ignored: u64,
    /// Broken invariants: objects that the core's tables name but that do not exist. These are defects of the core.
    pub invariants_broken: u64,
    /// The name of the last broken invariant.
    pub last_broken_invariant: Option<&'static str>,
    drops: [u64; DropReason::ALL.len()],
    statuses: [u64; MessageStatus::COUNT],
    resends: [u64; MessageStatus::COUNT],
}

impl Counters {
    /// Returns the number of messages dropped for this reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Returns the number of attempts to send that ended with this status. One message may have several attempts.
    #[must_use]
    pub fn ended(&self, status: MessageStatus) -> u64 {
        self.statuses[status as usize]
    }

    /// Returns the number of resends after an attempt that ended with this status. The sum over all statuses is
    /// `resend_count`.
    #[must_use]
    pub fn resent_after(&self, status: MessageStatus) -> u64 {
        self.resends[status as usize]
    }

    /// Zeroes the counters, except those of things that exist now and of broken invariants.
    pub(crate) fn reset(&mut self) {
        *self = Self {
            msgs_alloc: self.msgs_alloc,
            invariants_broken: self.invariants_broken,
            last_broken_invariant: self.last_broken_invariant,
            rst_alloc: self.rst_alloc,
            ..Self::default()
        };
    }

    /// Counts one response fewer that this node waits for.
    pub(crate) fn end_wait(&mut self) {
        match self.rst_alloc.checked_sub(1) {
            Some(left) => self.rst_alloc = left,
            None => self.broken("a response that is waited for no longer was counted"),
        }
    }

    pub(crate) fn begin_message(&mut self) {
        self.msgs_alloc += 1;
        self.msgs_max = self.msgs_max.max(self.msgs_alloc);
    }

    pub(crate) fn end_message(&mut self) {
        match self.msgs_alloc.checked_sub(1) {
            Some(left) => self.msgs_alloc = left,
            None => self.broken("a message that ends was counted as begun"),
        }
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason, length: u32) {
        self.drop_count += 1;
        self.drop_length += u64::from(length);
        self.drops[reason as usize] += 1;
    }

    pub(crate) fn count_status(&mut self, status: MessageStatus) {
        self.statuses[status as usize] += 1;
    }

    pub(crate) fn count_resend(&mut self, after: Option<MessageStatus>) {
        self.resend_count += 1;
        if let Some(status) = after {
            self.resends[status as usize] += 1;
        }
    }

    /// Counts the result of a message. Its attempts are counted by status, one by one.
    pub(crate) fn count_sent(&mut self, status: MessageStatus, length: u32) {
        if status == MessageStatus::Ok {
            self.send_count += 1;
            self.send_length += u64::from(length);
        } else {
            self.errors += 1;
        }
    }
}

/// Messages by type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeCounts {
    /// PUTs.
    pub put: u64,
    /// GETs.
    pub get: u64,
    /// REPLYs.
    pub reply: u64,
    /// ACKs.
    pub ack: u64,
}

impl TypeCounts {
    /// Returns the number of messages of all types.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.put + self.get + self.reply + self.ack
    }

    pub(crate) fn count(&mut self, kind: MessageType) {
        match kind {
            MessageType::Ack => self.ack += 1,
            MessageType::Put => self.put += 1,
            MessageType::Get => self.get += 1,
            MessageType::Reply => self.reply += 1,
        }
    }
}

/// The counts that `lnetctl net show -v 2` and `peer show -v 2` print for an interface or a peer NI. The types are the
/// true ones; an end node of the kernel shows its own REPLYs under `get` and its ACKs under `put`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageStats {
    /// `sent_stats`: messages that were sent without error.
    pub sent: TypeCounts,
    /// `received_stats`.
    pub received: TypeCounts,
    /// `dropped_stats`.
    pub dropped: TypeCounts,
    /// Payload of the sent messages, in bytes; `lnetctl` does not print it.
    pub sent_length: u64,
    /// Payload of the received messages, in bytes.
    pub received_length: u64,
}

impl MessageStats {
    pub(crate) fn count_received(&mut self, arrival: Arrival) {
        self.received.count(arrival.kind);
        self.received_length += u64::from(arrival.length);
    }
}

/// The facts of an arrived message that are counted: the interface, the sender, the type and the length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) ni: NiId,
    pub(crate) sender: Nid,
    pub(crate) kind: MessageType,
    pub(crate) length: u32,
}

impl Arrival {
    pub(crate) fn new(ni: NiId, sender: Nid, header: &Header) -> Self {
        Self {
            ni,
            sender,
            kind: header.body.message_type(),
            length: header.payload_length,
        }
    }
}
