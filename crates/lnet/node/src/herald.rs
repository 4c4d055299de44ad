//! Logs the core's news: routes, health, peers.

use lnet_core::News;
use lnet_types::Time;
use tracing::warn;

use crate::news::NewsLimit;

/// The filter that chooses which news are logged; none if the options do not ask for them.
#[derive(Debug, Default)]
pub(crate) struct Herald {
    wanted: bool,
    limit: NewsLimit,
}

/// Lines to log after the node's lock is released.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<(News, u64)>);

impl Herald {
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            wanted,
            limit: NewsLimit::default(),
        }
    }

    /// Chooses the news to log. `missed` is the number of news that the core had already left out.
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
