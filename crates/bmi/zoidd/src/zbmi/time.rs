//! Points in time on the caller's monotonic clock.

use std::ops::Add;
use std::time::Duration;

/// A point in time: the duration since an arbitrary start that the caller keeps for the engine's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Duration);

impl Time {
    /// The arbitrary start.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// Returns the point in time this long after the start.
    #[must_use]
    pub const fn after(start: Duration) -> Self {
        Self(start)
    }

    /// Returns the duration since the start.
    #[must_use]
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// Returns the duration since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Saturates at the last representable point, which a clock never reaches.
impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, after: Duration) -> Self {
        Self(self.0.saturating_add(after))
    }
}
