//! The time of a test.

use std::time::{Duration, Instant};

/// The time of a test: at least one turn, then as many as there is time for.
pub(crate) struct Turns {
    wait: Duration,
    /// `None` before the first turn, and for a wait that never ends.
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

    /// How much time is left for another turn; `None` when it is over.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        match self.state {
            Turn::First => {
                self.state = if self.wait.is_zero() {
                    Turn::Over
                } else {
                    Turn::Later
                };
                // A test without time needs no clock.
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

    /// This turn is the last.
    pub(crate) fn end(&mut self) {
        self.state = Turn::Over;
    }
}
