//! The graceful stop (section 3.4, last row): nothing new starts, what runs may end.

use crate::Engine;
use crate::client::Request;
use crate::io::{Departure, Errno, Output, Reply};
use crate::time::Time;
use crate::timers::Timer;

/// How far the stop has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopping {
    /// There is none.
    No,
    /// Transfers run.
    Draining,
    /// None runs, none will.
    Drained,
}

impl Engine {
    /// Stops gracefully: waiting requests are answered, new ones refused, running transfers have
    /// [`crate::Config::drain`] to end. Then the server's unanswered commands fail with
    /// [`Errno::NetDown`], and [`Output::Drained`] is the last output.
    pub fn drain(&mut self, now: Time) {
        if self.stopping != Stopping::No {
            return;
        }
        self.stopping = Stopping::Draining;
        self.timers.set(now + self.config.drain, Timer::Drain);
        let clients = self.clients.values();
        let waiting: Vec<_> = clients
            .flat_map(|client| {
                client
                    .requests
                    .keys()
                    .map(|&request| (client.peer, request))
            })
            .collect();
        for (peer, request) in waiting {
            match self.take_waiting(peer, request) {
                Some(Request::Send { .. }) => {
                    self.reply(peer, request, Reply::Failed(Errno::TryAgain));
                }
                Some(Request::Recv { .. }) => self.not_now(peer, request),
                Some(Request::Test { entries, .. }) => {
                    self.reply(peer, request, Reply::Ready(vec![0; entries.len()]));
                }
                Some(Request::Moving(_)) | None => {}
            }
        }
        let posts: Vec<_> = self.posts.keys().copied().collect();
        for plugin in posts {
            // No follow-up will come for a held one.
            self.expire_hold(plugin);
        }
    }

    /// Transfers that did not end in time are stopped.
    pub(crate) fn expire_drain(&mut self, now: Time) {
        self.fail_transfers(now, |_| true);
    }

    /// Called when no output is left: whether that was the last transfer.
    pub(crate) fn finish_drain(&mut self) {
        if self.stopping == Stopping::Draining && self.transfers.is_empty() {
            self.stopping = Stopping::Drained;
            self.end_calls(Departure::Farewell);
            self.outputs.push_back(Output::Drained);
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping != Stopping::No
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.stopping == Stopping::Drained
    }
}
