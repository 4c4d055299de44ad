//! Real time, as the pure parts take it.

use std::time::{Duration, Instant};

use lnet_types::Time;

/// Time since the client or server began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    pub(crate) fn now(self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    /// How long it is until then.
    pub(crate) fn until(self, time: Time) -> Duration {
        time.saturating_since(self.now())
    }
}
