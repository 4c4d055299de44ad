//! Real time, as the pure parts take it.

use std::time::Duration;

use lnet_types::Time;
use rustix::time::{ClockId, clock_gettime};

/// Time since the client or server began. Goes on while the machine sleeps, because deadlines do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            origin: since_boot(),
        }
    }

    pub(crate) fn now(self) -> Time {
        Time::ZERO + since_boot().saturating_sub(self.origin)
    }

    /// How long it is until then.
    pub(crate) fn until(self, time: Time) -> Duration {
        time.saturating_since(self.now())
    }
}

fn since_boot() -> Duration {
    // A time since the boot is not negative.
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}
