//! The client's side of one call: when to send the next attempt, and when it is over.
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
//! Attempts of a call share the transaction id, so the server executes it once; they differ in their
//! match bits. A reply to any attempt of the present session counts.
//!
//! No I/O, no clock. It never waits beyond the call's deadline, so a call always ends.

use std::time::Duration;

use lnet_types::Time;

use crate::proto::Outcome;

/// Whether a call may be executed a second time when the server's memory of the first is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idempotence {
    /// Twice is as good as once: repeated after a restart of the server.
    Idempotent,
    /// Twice is wrong: fails clearly when nobody knows whether it was executed.
    Once,
}

/// How patient a client is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// An attempt is given up when nothing was heard of it for this long.
    pub(crate) attempt: Duration,
    /// Pause before the second attempt; doubles with every further one …
    pub(crate) backoff: Duration,
    /// … up to this.
    pub(crate) backoff_max: Duration,
    /// Draws the jitter, so that clients that lost the same router do not come back in step.
    pub(crate) seed: u64,
}

impl Schedule {
    /// The pause after `attempt` attempts: between half of the nominal value and all of it.
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
    /// Take the bulk memory back from the last attempt: the next one, or the program, needs it. Asked once
    /// for an attempt.
    Reclaim,
    /// Nothing until then, or until something is heard.
    Wait(Time),
    /// Open a new session, then call [`CallState::reconnected`].
    Connect,
    /// It is over.
    End(End),
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server executed it and answered.
    Replied,
    /// Its time is over.
    Deadline,
    /// The server restarted, and the call may not be repeated.
    Restarted,
    /// The server forgot this client, and the call may not be repeated.
    Forgotten,
    /// The server will never execute it.
    Refused,
}

/// The state of one call.
#[derive(Debug)]
pub(crate) struct CallState {
    schedule: Schedule,
    idempotence: Idempotence,
    deadline: Time,
    attempt: u32,
    /// Attempts up to this one belong to a session that is over.
    void: u32,
    /// The memory of the last attempt was asked for.
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

    /// What to do now. `has_memory` says that the call's bulk memory (if any) is not lent to an attempt.
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

    /// The attempt's request could not be sent, or the network lost it.
    pub(crate) fn lost(&mut self, attempt: u32, now: Time) {
        if attempt == self.attempt && matches!(self.phase, Phase::Waiting { .. }) {
            self.back_off(now);
        }
    }

    /// A path was lost: whatever was sent by it, or was to come by it, is not waited for.
    pub(crate) fn path_lost(&mut self, now: Time) {
        let soon = now + self.schedule.pause(1);
        match &mut self.phase {
            Phase::Due { at } => *at = soon.min(*at),
            Phase::Waiting { .. } => self.phase = Phase::Due { at: soon },
            Phase::NoSession | Phase::Answered | Phase::Ended(_) => {}
        }
    }

    /// The server did something for this attempt: acknowledged it, or moved a piece of its bulk.
    pub(crate) fn alive(&mut self, attempt: u32, now: Time) {
        if attempt == self.attempt
            && let Phase::Waiting { until } = &mut self.phase
        {
            *until = now + self.schedule.attempt;
        }
    }

    /// A reply came to an attempt. True when it is the one that the call returns.
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

    /// There is a new session.
    pub(crate) fn reconnected(&mut self, now: Time) {
        if matches!(self.phase, Phase::NoSession) {
            self.void = self.attempt;
            self.phase = Phase::Due { at: now };
        }
    }

    /// Attempts sent so far.
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
