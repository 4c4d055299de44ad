//! What is due when.
//!
//! An ordered set: the next deadline is its first entry, and an entry is removed as soon as what it
//! waits for has happened, so the set is as small as what is under way.

use std::collections::BTreeSet;

use lnet_types::{Net, Nid, Time};

use crate::fault::Held;
use crate::health::recovery::RecoveryTarget;
use crate::io::TxId;
use crate::portals::md::MdHandle;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The response to an operation of this descriptor is overdue (section 5.8).
    Response(MdHandle),
    /// A queued message is no longer worth sending.
    Queued(TxId),
    /// A gateway is to be pinged (section 8.2).
    Check(Nid),
    /// No ping was seen on a net for too long (section 8.3).
    Quiet(Net),
    /// Messages wait to be sent again.
    Resend,
    /// The node becomes a router, or ceases to be one.
    Routing,
    /// The next recovery ping of an interface or peer interface.
    Recover(RecoveryTarget),
    /// An injected fault strikes, or a message that one delays goes on.
    Fault(Held),
    /// Peers from this slot of the peer table on hear of our own information.
    Push(usize),
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

    /// Takes one timer that is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.due.pop_first().map(|(_, timer)| timer)
    }
}
