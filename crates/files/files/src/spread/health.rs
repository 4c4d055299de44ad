//! Whether a gateway gets operations: a state machine over time.
//!
//! ```text
//!   New ──answered──▶ Up ──failed──▶ Down ──answered──▶ Up
//!    └─────failed────────────────────▲ │
//!                                    └─┘ failed: the pause doubles
//! ```
//!
//! A gateway that is down gets no operations. It is probed after its pause, and when no other gateway remains. In the
//! code, to probe is to probe.

use std::time::Duration;

/// How long a gateway that is down is not probed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pauses {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The gateway was not asked yet.
    New,
    Up,
    Down {
        /// When the gateway is probed next.
        until: Duration,
        pause: Duration,
    },
}

#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) state: State,
    /// Number of changes of the state. An operation that began in an earlier epoch does not change the present state.
    pub(crate) epoch: u64,
    is_knocking: bool,
    pauses: Pauses,
}

impl Health {
    pub(crate) fn new(pauses: Pauses) -> Self {
        Self {
            state: State::New,
            epoch: 0,
            is_knocking: false,
            pauses,
        }
    }

    /// Records that an operation that began in `epoch` was lost.
    pub(crate) fn failed(&mut self, epoch: u64, now: Duration) {
        if epoch != self.epoch {
            return;
        }
        let pause = match self.state {
            State::Down { pause, .. } => (pause * 2).min(self.pauses.longest),
            State::New | State::Up => self.pauses.first,
        };
        self.epoch += 1;
        self.state = State::Down {
            until: now + pause,
            pause,
        };
    }

    /// Records that the gateway answered a probe.
    pub(crate) fn answered(&mut self) {
        if self.state != State::Up {
            self.epoch += 1;
            self.state = State::Up;
        }
    }

    /// Returns whether the caller must probe now. Then returns `false` until [`Health::probed`] is called.
    pub(crate) fn take_probe(&mut self, now: Duration) -> bool {
        let is_due = matches!(self.state, State::Down { until, .. } if until <= now);
        let take = is_due && !self.is_knocking;
        self.is_knocking |= take;
        take
    }

    /// Records that the probe has ended.
    pub(crate) fn probed(&mut self) {
        self.is_knocking = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn health() -> Health {
        Health::new(Pauses {
            first: SECOND,
            longest: 4 * SECOND,
        })
    }

    #[test]
    fn the_pause_doubles_up_to_the_longest_and_begins_anew_after_an_answer() {
        let mut health = health();
        let mut pauses = Vec::new();
        for round in 0..6 {
            if round == 4 {
                health.answered();
            }
            health.failed(health.epoch, SECOND);
            match health.state {
                State::Down { until, pause } => pauses.push((until - SECOND, pause)),
                other => panic!("{other:?}"),
            }
        }
        let expected = [1, 2, 4, 4, 1, 2].map(|seconds| (seconds * SECOND, seconds * SECOND));
        assert_eq!(pauses, expected);
    }

    #[test]
    fn the_end_of_an_operation_from_before_the_answer_says_nothing() {
        let mut health = health();
        let before = health.epoch;
        health.failed(before, SECOND);
        health.answered();
        health.failed(before, SECOND);
        assert_eq!(health.state, State::Up);
    }

    #[test]
    fn one_at_a_time_knocks_and_only_when_the_pause_is_over() {
        let mut health = health();
        assert!(!health.take_probe(9 * SECOND));
        health.failed(0, SECOND);
        assert!(!health.take_probe(SECOND));
        assert!(health.take_probe(2 * SECOND));
        assert!(!health.take_probe(2 * SECOND));
        health.probed();
        assert!(health.take_probe(2 * SECOND));
    }
}
