//! The client's side of one call: decides when to send the next attempt, and when the call is over.
//!
//! ```text
//!            due                    nothing heard in time, or the attempt failed, or "busy"
//!   Due ───────────▶ Waiting ─────────────────────────────────────────────────▶ Due (back-off)
//!    ▲                 │ wrong incarnation, unknown client
//!    │ reconnected     ▼
//!    └─────────── NoSession        (idempotent calls; others end here)
//!
//!   from everywhere: a reply ends the call once its memory is back, the deadline ends the call
//! ```
//!
//! The attempts of a call have the same transaction id, so that the server executes the call once. Each attempt
//! has match bits of its own. A reply to any attempt of the present session counts.
//!
//! This module does no I/O and reads no clock. It never waits beyond the call's deadline, so a call always
//! completes.

use std::time::Duration;

use lnet_types::Time;

use crate::proto::Outcome;

/// Whether a call may be executed a second time after the server lost its record of the first execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idempotence {
    /// A second execution does no harm: the client repeats the call after a restart of the server.
    Idempotent,
    /// A second execution would do harm: the call fails if it is not known whether it was executed.
    Once,
}

/// The times that a client waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// An attempt expires if the client hears nothing of it for this long.
    pub(crate) attempt: Duration,
    /// Pause before the second attempt; doubles with every further attempt.
    pub(crate) backoff: Duration,
    /// The limit of the pause between attempts.
    pub(crate) backoff_max: Duration,
    /// The seed of the jitter. The jitter keeps clients that lost the same router from retrying at the same
    /// time.
    pub(crate) seed: u64,
}

impl Schedule {
    /// Returns the pause after `attempt` attempts: between half of the nominal value and all of it.
    fn pause(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1).min(16);
        let nominal = self
            .backoff
            .saturating_mul(1 << doublings)
            .min(self.backoff_max);
        // Any odd multiplier spreads the seeds; this is the 64-bit golden ratio.
        let mixed = (self.seed ^ u64::from(attempt)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let share = (mixed >> 56) as u32;
        nominal / 2 + nominal.saturating_mul(share) / 512
    }
}

/// What the driver of a call does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send this attempt, with fresh match bits.
    Send(u32),
    /// Take the bulk memory back from the last attempt, because the next attempt, or the program, needs it.
    /// Comes at most once an attempt.
    Reclaim,
    /// Wait until this time, or until an event comes.
    Wait(Time),
    /// Open a new session, then call [`CallState::reconnected`].
    Connect,
    /// The call is over.
    End(End),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server executed the call and answered.
    Replied,
    /// The deadline passed.
    Deadline,
    /// The server restarted, and the call may not be repeated.
    Restarted,
    /// The server forgot this client, and the call may not be repeated.
    Forgotten,
    /// The server will never execute the call.
    Refused,
}

/// The state of one call.
#[derive(Debug)]
pub(crate) struct CallState {
    schedule: Schedule,
    idempotence: Idempotence,
    deadline: Time,
    attempt: u32,
    /// The last attempt of a session that is over. Replies to it and to earlier attempts do not count.
    void: u32,
    /// True if the driver was told to take the memory back from the last attempt.
    is_reclaiming: bool,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Due {
        at: Time,
    },
    Waiting {
        until: Time,
    },
    NoSession,
    /// The server answered, and the memory may not be back yet.
    Answered,
    Ended(End),
}

impl CallState {
    pub(crate) fn new(
        schedule: Schedule,
        idempotence: Idempotence,
        now: Time,
        deadline: Time,
    ) -> Self {
        Self {
            schedule,
            idempotence,
            deadline,
            attempt: 0,
            void: 0,
            is_reclaiming: false,
            phase: Phase::Due { at: now },
        }
    }

    /// Returns what to do now. `has_memory` tells whether the call's bulk memory (if any) is free, that is, not
    /// lent to an attempt.
    pub(crate) fn next(&mut self, now: Time, has_memory: bool) -> Step {
        if now >= self.deadline && !matches!(self.phase, Phase::Ended(_)) {
            self.phase = Phase::Ended(End::Deadline);
        }
        if let Phase::Waiting { until } = self.phase
            && now >= until
        {
            self.back_off(now);
        }
        match self.phase {
            Phase::Ended(end) => Step::End(end),
            Phase::NoSession => Step::Connect,
            Phase::Waiting { until } => Step::Wait(until.min(self.deadline)),
            Phase::Due { at } if now < at => Step::Wait(at.min(self.deadline)),
            Phase::Due { .. } | Phase::Answered if !has_memory => self.reclaim(),
            Phase::Due { .. } => self.begin_attempt(now),
            Phase::Answered => {
                self.phase = Phase::Ended(End::Replied);
                Step::End(End::Replied)
            }
        }
    }

    /// Notes that the attempt's request could not be sent, or that the network lost it.
    pub(crate) fn lost(&mut self, attempt: u32, now: Time) {
        if attempt == self.attempt && matches!(self.phase, Phase::Waiting { .. }) {
            self.back_off(now);
        }
    }

    /// Retries soon after a path was lost, because the request or its reply may have been on this path.
    pub(crate) fn path_lost(&mut self, now: Time) {
        let soon = now + self.schedule.pause(1);
        match &mut self.phase {
            Phase::Due { at } => *at = soon.min(*at),
            Phase::Waiting { .. } => self.phase = Phase::Due { at: soon },
            Phase::NoSession | Phase::Answered | Phase::Ended(_) => {}
        }
    }

    /// Notes that the server did something for this attempt: acknowledged it, or moved a piece of its bulk.
    pub(crate) fn alive(&mut self, attempt: u32, now: Time) {
        if attempt == self.attempt
            && let Phase::Waiting { until } = &mut self.phase
        {
            *until = now + self.schedule.attempt;
        }
    }

    /// Notes a reply to an attempt. Returns true if the call returns this reply.
    pub(crate) fn replied(&mut self, attempt: u32, outcome: Outcome, now: Time) -> bool {
        if attempt <= self.void || matches!(self.phase, Phase::Answered | Phase::Ended(_)) {
            return false;
        }
        match outcome {
            Outcome::Done => self.phase = Phase::Answered,
            Outcome::Refused => self.phase = Phase::Ended(End::Refused),
            Outcome::Busy => self.lost(attempt, now),
            Outcome::WrongIncarnation => self.session_lost(End::Restarted),
            Outcome::UnknownClient => self.session_lost(End::Forgotten),
        }
        outcome == Outcome::Done
    }

    /// Notes that there is a new session.
    pub(crate) fn reconnected(&mut self, now: Time) {
        if matches!(self.phase, Phase::NoSession) {
            self.void = self.attempt;
            self.phase = Phase::Due { at: now };
        }
    }

    /// Returns how many attempts were sent so far.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempt
    }

    fn session_lost(&mut self, end: End) {
        self.phase = match self.idempotence {
            Idempotence::Idempotent => Phase::NoSession,
            Idempotence::Once => Phase::Ended(end),
        };
    }

    fn begin_attempt(&mut self, now: Time) -> Step {
        self.attempt += 1;
        self.is_reclaiming = false;
        self.phase = Phase::Waiting {
            until: now + self.schedule.attempt,
        };
        Step::Send(self.attempt)
    }

    fn reclaim(&mut self) -> Step {
        if self.is_reclaiming {
            return Step::Wait(self.deadline);
        }
        self.is_reclaiming = true;
        Step::Reclaim
    }

    fn back_off(&mut self, now: Time) {
        let at = now + self.schedule.pause(self.attempt);
        self.phase = Phase::Due { at };
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
