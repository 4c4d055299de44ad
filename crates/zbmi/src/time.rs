//! Points in time, as the caller's monotonic clock has them.

use std::ops::Add;
use std::time::Duration;

/// A point in time: how long after an arbitrary start that the caller keeps for the engine's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Duration);

impl Time {
    /// The arbitrary start.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// This long after the start.
    #[must_use]
    pub const fn after(start: Duration) -> Self {
        Self(start)
    }

    /// How long after the start.
    #[must_use]
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// How long after `earlier`; zero if it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Ends at the last representable point: a timeout of centuries is one that never comes.
impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, after: Duration) -> Self {
        Self(self.0.saturating_add(after))
    }
}
