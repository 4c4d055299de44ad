//! Draining: nothing new starts; running transfers may complete.

use crate::zbmi::Engine;
use crate::zbmi::client::Request;
use crate::zbmi::io::{Departure, Errno, Output, Reply};
use crate::zbmi::time::Time;
use crate::zbmi::timers::Timer;

/// The progress of draining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopping {
    /// The engine does not drain.
    No,
    /// Transfers still run.
    Draining,
    /// No transfer runs, and none will start.
    Drained,
}

impl Engine {
    /// Starts draining. Waiting requests are answered, new ones rejected, and running transfers have
    /// [`crate::zbmi::Config::drain`] to complete. Then the server's unanswered commands fail with
    /// [`Errno::NetDown`], and [`Output::Drained`] is the last output.
    // [DEATH-27]
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
            // The call that a held post waits for will not come.
            self.expire_hold(plugin);
        }
    }

    /// Stops transfers that did not complete in time.
    pub(crate) fn expire_drain(&mut self, now: Time) {
        self.fail_transfers(now, |_| true);
    }

    /// Completes draining once no output is left and the last transfer has ended.
    pub(crate) fn complete_drain(&mut self) {
        if self.stopping == Stopping::Draining && self.transfers.is_empty() {
            self.stopping = Stopping::Drained;
            self.end_calls(Departure::Orderly);
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
