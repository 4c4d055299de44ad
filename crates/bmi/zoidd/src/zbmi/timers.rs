//! Timers. The code that sets a timer stores its time and clears it when it is no longer needed.

use std::collections::BTreeSet;

use crate::zbmi::io::{CallId, GrantId, Peer, Pid, PluginId, RequestId};
use crate::zbmi::time::Time;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The timeout of a client's request.
    Request(Peer, RequestId),
    /// The timeout of a sleeping command of the server.
    Call(CallId),
    /// The end of a hold.
    Hold(PluginId),
    /// The next check for a stall.
    Stall(GrantId),
    /// The end of the time in which a client may come back.
    Reattach(Pid),
    /// The end of the time for draining.
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
