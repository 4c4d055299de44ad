//! News of the core in the log: routes, health, peers.

use lnet_core::News;
use lnet_types::Time;
use tracing::warn;

use crate::news::NewsLimit;

/// Says what changed, where that is wanted.
#[derive(Debug, Default)]
pub(crate) struct Herald {
    wanted: bool,
    limit: NewsLimit,
}

/// What is to be logged when nobody waits for the node's lock.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<(News, u64)>);

impl Herald {
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            wanted,
            limit: NewsLimit::default(),
        }
    }

    /// Chooses from these news, and those that were left out before, what is logged.
    pub(crate) fn choose(&mut self, (news, missed): (Vec<News>, u64), now: Time) -> Lines {
        if !self.wanted {
            return Lines::default();
        }
        self.limit.leave_out(missed);
        let admitted = news
            .into_iter()
            .filter_map(|news| Some((news, self.limit.admit(now)?)));
        Lines(admitted.collect())
    }
}

impl Lines {
    pub(crate) fn log(self) {
        for (news, left_out) in self.0 {
            if left_out > 0 {
                warn!(left_out, "{news}");
            } else {
                warn!("{news}");
            }
        }
    }
}
