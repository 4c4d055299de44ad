//! Timers: what to do at which time.
//!
//! The timers are an ordered set whose first entry is the next deadline. An entry is removed as soon as the awaited
//! thing happens, so that the set is only as large as the work under way.

use std::collections::BTreeSet;

use lnet_types::{Net, Nid, Time};

use crate::ground::ids::PeerNiId;
use crate::ground::io::{NiId, RxId, TxId};
use crate::ground::md::MdHandle;

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The response to an operation of this descriptor did not arrive in time.
    Response(MdHandle),
    /// A message that waits for a discovery has reached its deadline.
    Parked(TxId),
    /// A message in a queue may have reached its deadline.
    Queue(Queue),
    /// A ping of a gateway is due.
    Check(Nid),
    /// A router checks whether pings still arrive on a net.
    Quiet(Net),
    /// Messages wait for a resend.
    Resend,
    /// The node starts to route, or stops routing.
    Routing,
    /// The next recovery ping of an interface or peer interface is due.
    Recover(RecoveryTarget),
    /// An injected failure is due to be reported, or the delay of a message by an injected fault ends.
    Fault(Held),
    /// Pushes of this node's information are due to the peers from this slot of the peer table on.
    Push(usize),
}

/// A queue in which messages wait for a credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Queue {
    /// For a credit of the peer NI.
    Peer(PeerNiId),
    /// For a credit of the interface.
    Ni(NiId),
}

/// A message that an injected fault holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Held {
    /// A message that is about to be reported as failed.
    Failing(TxId),
    /// A message that is handed to the LND later.
    Sending(TxId),
    /// A message that is received later.
    Receiving(RxId),
}

/// The target of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RecoveryTarget {
    /// A local interface.
    Ni(NiId),
    /// An interface of a peer.
    Peer(PeerNiId),
}

/// All timers.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeSet<(Time, Timer)>,
}

impl Timers {
    pub(crate) fn arm(&mut self, at: Time, timer: Timer) {
        self.due.insert((at, timer));
    }

    pub(crate) fn disarm(&mut self, at: Time, timer: Timer) {
        self.due.remove(&(at, timer));
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.due.first().map(|&(at, _)| at)
    }

    /// Removes and returns one timer that is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.due.pop_first().map(|(_, timer)| timer)
    }
}
