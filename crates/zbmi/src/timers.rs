//! What is due when. Whoever sets a timer keeps its time and clears it when it is over.

use std::collections::BTreeSet;

use crate::io::{CallId, GrantId, Peer, Pid, PluginId, RequestId};
use crate::time::Time;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A client's request has waited long enough.
    Request(Peer, RequestId),
    /// A sleeping command of the server has.
    Call(CallId),
    /// A held post has.
    Hold(PluginId),
    /// A transfer may have stalled.
    Stall(GrantId),
    /// A client did not come back.
    Reattach(Pid),
    /// Draining has lasted long enough.
    Drain,
}

#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(Time, Timer)>);

impl Timers {
    pub(crate) fn set(&mut self, at: Time, timer: Timer) {
        self.0.insert((at, timer));
    }

    pub(crate) fn clear(&mut self, at: Time, timer: Timer) {
        self.0.remove(&(at, timer));
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.0.first().map(|&(at, _)| at)
    }

    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Timer> {
        let &(at, timer) = self.0.first()?;
        (at <= now).then(|| {
            self.0.pop_first();
            timer
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
