//! The time budget of a test.

use std::time::{Duration, Instant};

/// The turns of a test: at least one, then as many as its time allows.
// [BMI-23]
pub(crate) struct Turns {
    wait: Duration,
    /// `None` before the first turn, and for an unlimited wait.
    deadline: Option<Instant>,
    state: Turn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    First,
    Later,
    Over,
}

impl Turns {
    pub(crate) fn new(wait: Duration) -> Turns {
        Turns {
            wait,
            deadline: None,
            state: Turn::First,
        }
    }

    /// Returns the time left for another turn; `None` if the time is over.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        match self.state {
            Turn::First => {
                self.state = if self.wait.is_zero() {
                    Turn::Over
                } else {
                    Turn::Later
                };
                // A test without a wait needs no clock.
                if !self.wait.is_zero() {
                    self.deadline = Instant::now().checked_add(self.wait);
                }
                Some(self.wait)
            }
            Turn::Later => match self.deadline {
                None => Some(self.wait),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    (!left.is_zero()).then_some(left)
                }
            },
            Turn::Over => None,
        }
    }

    /// Makes this turn the last.
    pub(crate) fn end(&mut self) {
        self.state = Turn::Over;
    }
}
