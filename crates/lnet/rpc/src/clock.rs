//! The clock of a client or a server. The modules that decide take its times as arguments.

use std::time::Duration;

use lnet_types::Time;
use rustix::time::{ClockId, clock_gettime};

/// Time since the client or server began. The clock runs on while the machine sleeps, because deadlines do.
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

    /// Returns the time that is left until `time`.
    pub(crate) fn until(self, time: Time) -> Duration {
        time.saturating_since(self.now())
    }
}

fn since_boot() -> Duration {
    // A time since the boot is not negative.
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}
