//! The dialling of one peer as a state machine.
//!
//! ```text
//!             begin                 connecting              connected, more wanted
//!   RESTING ---------> (next type) ------------> CONNECTING -----------------------+
//!      ^  ^                 ^                       |   |                          |
//!      |  |                 |  time, or a           |   | declined                 |
//!      |  |                 |  connection came      |   v                          |
//!      |  |                 +-------------------- WAITING                          |
//!      |  +--- failed: a pause, then a longer one --+                              |
//!      +------ nothing more wanted <-----------------------------------------------+
//! ```
//!
//! A pass opens one connection after the other, and each peer has one pass at a time. This file has
//! no sockets: the caller connects and reports the outcome.

use std::time::Duration;

use lnet_types::Time;
use lnet_wire::{Ctype, HelloVersion};

use crate::stats::DialFailure;

/// After this many rejections in a row, a peer with which there is a connection of each type is not dialled any more.
// [SET-8]
const REFUSALS_MAX: u8 = 3;

/// The number of times in one pass that a peer may have another incarnation: more restarts take longer than a pass.
const RESTARTS_MAX: u8 = 2;

/// The longest pause after a rejection; the shortest is half of it.
// [SET-7]
const REFUSAL_PAUSE: Duration = Duration::from_secs(1);

/// The number of connections with one peer, by type in our naming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypeCounts {
    pub(crate) any: usize,
    pub(crate) control: usize,
    pub(crate) bulk_in: usize,
    pub(crate) bulk_out: usize,
}

impl TypeCounts {
    /// Counts connections by type.
    pub(crate) fn of(types: impl Iterator<Item = Ctype>) -> Self {
        let mut counts = Self::default();
        for ctype in types {
            match ctype {
                Ctype::CONTROL => counts.control += 1,
                Ctype::BULK_IN => counts.bulk_in += 1,
                Ctype::BULK_OUT => counts.bulk_out += 1,
                _ => counts.any += 1,
            }
        }
        counts
    }

    /// Returns the type to dial next, if `pairs` pairs of bulk connections are wanted. Untyped
    /// nodes want one connection that carries messages; a `BULK_IN` connection does not.
    // [SET-1] [SET-2] [SET-3]
    pub(crate) fn missing(self, typed: bool, pairs: usize) -> Option<Ctype> {
        if !typed {
            let carries = self.any + self.control + self.bulk_out > 0;
            return (!carries).then_some(Ctype::CONTROL);
        }
        if self.control == 0 {
            return Some(Ctype::CONTROL);
        }
        let in_wanted = self.bulk_in < pairs;
        let out_wanted = self.bulk_out < pairs;
        match (in_wanted, out_wanted) {
            (true, true) if self.bulk_in > self.bulk_out => Some(Ctype::BULK_OUT),
            (true, _) => Some(Ctype::BULK_IN),
            (false, true) => Some(Ctype::BULK_OUT),
            (false, false) => None,
        }
    }

    /// Returns true if there is at least one connection of each type that a node needs.
    pub(crate) fn has_each(self) -> bool {
        self.control > 0 && self.bulk_in > 0 && self.bulk_out > 0
    }
}

/// What the caller must do after a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRejection {
    /// Wait; [`Dialler::is_due`] reports when the pause is over.
    Wait,
    /// Dial at once, in the version that the peer named.
    AtOnce,
    /// Dial no more: there is one connection of each type.
    Content,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DialState {
    Resting,
    Connecting,
    Waiting { until: Time },
}

/// The state of dialling one peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialler {
    state: DialState,
    /// When the present pass fails.
    deadline: Time,
    /// The pause after the last failure; zero after a success.
    pause: Duration,
    /// When that pause ends.
    retry_at: Time,
    refusals: u8,
    /// The number of times in this pass that the peer had another incarnation than before.
    restarts: u8,
    /// The last pass failed because of that, and none has succeeded since: pauses go on growing.
    is_unsteady: bool,
    /// The peer wants no more connections than there are.
    content: bool,
    version: Option<HelloVersion>,
}

impl Default for Dialler {
    fn default() -> Self {
        Self {
            state: DialState::Resting,
            deadline: Time::ZERO,
            pause: Duration::ZERO,
            retry_at: Time::ZERO,
            refusals: 0,
            restarts: 0,
            is_unsteady: false,
            content: false,
            version: None,
        }
    }
}

impl Dialler {
    /// Returns whether a pass may begin.
    pub(crate) fn may_begin(&self, now: Time) -> bool {
        self.state == DialState::Resting && now >= self.retry_at && !self.content
    }

    /// Returns whether a pass is in progress.
    pub(crate) fn is_active(&self) -> bool {
        self.state != DialState::Resting
    }

    /// Returns whether a connection is being made.
    pub(crate) fn is_connecting(&self) -> bool {
        self.state == DialState::Connecting
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, DialState::Waiting { .. })
    }

    /// Returns the HELLO version that the peer asked for, if it asked.
    pub(crate) fn version(&self) -> Option<HelloVersion> {
        self.version
    }

    /// Returns when the present pass fails.
    pub(crate) fn deadline(&self) -> Time {
        self.deadline
    }

    /// Begins a pass, which may last for `timeout`.
    pub(crate) fn begin(&mut self, now: Time, timeout: Duration) {
        self.refusals = 0;
        self.restarts = 0;
        self.deadline = now + timeout;
    }

    /// Records that a connection is being made.
    pub(crate) fn connecting(&mut self) {
        self.state = DialState::Connecting;
    }

    /// Ends dialling: nothing more is wanted.
    pub(crate) fn rest(&mut self) {
        self.state = DialState::Resting;
        self.is_unsteady = false;
    }

    /// Records that the peer's answer has another incarnation than its connections. Returns true if that is no
    /// restart, because it happens again and again: then the pass must fail, and the next one waits longer.
    // [SET-17]
    pub(crate) fn restarted(&mut self) -> bool {
        self.restarts = self.restarts.saturating_add(1);
        self.is_unsteady |= self.restarts > RESTARTS_MAX;
        self.restarts > RESTARTS_MAX
    }

    /// Returns why a pass whose time is over has failed.
    pub(crate) fn why_late(&self) -> DialFailure {
        match self.refusals {
            0 => DialFailure::TimedOut,
            _ => DialFailure::DeclinedTooOften,
        }
    }

    /// Records that a connection that we dialled is established.
    pub(crate) fn connected(&mut self) {
        self.state = DialState::Resting;
        self.refusals = 0;
        self.retry_at = Time::ZERO;
        if !self.is_unsteady {
            self.pause = Duration::ZERO;
        }
    }

    /// Records that the peer dialled us: its rejections came from simultaneous dials and do not
    /// predict the next attempt.
    pub(crate) fn met(&mut self) {
        self.refusals = 0;
    }

    /// Allows dialling to continue: connections of another version are wanted beside the present ones.
    pub(crate) fn want_more(&mut self) {
        self.content = false;
    }

    /// Records that a connection has closed: dialling may be needed.
    pub(crate) fn lost(&mut self, was_last: bool) {
        self.content = false;
        if was_last {
            self.version = None;
        }
    }

    /// Records that the pass has failed; the next may begin after a pause that doubles each time.
    // [SET-11]
    pub(crate) fn failed(&mut self, now: Time, min: Duration, max: Duration) {
        self.state = DialState::Resting;
        self.pause = (self.pause * 2).clamp(min, max.max(min));
        self.retry_at = now + self.pause;
    }

    /// Records that the peer answered `NONE` in `version`; `jitter` is any number.
    pub(crate) fn refused(
        &mut self,
        now: Time,
        version: HelloVersion,
        spoken: HelloVersion,
        counts: TypeCounts,
        jitter: u64,
    ) -> AfterRejection {
        self.refusals = self.refusals.saturating_add(1);
        if self.refusals >= REFUSALS_MAX && counts.has_each() {
            self.state = DialState::Resting;
            self.content = true;
            return AfterRejection::Content;
        }
        if version != spoken {
            self.version = Some(version);
            self.state = DialState::Resting;
            return AfterRejection::AtOnce;
        }
        let half = REFUSAL_PAUSE / 2;
        let spread = Duration::from_nanos(jitter % 500_000_000);
        self.state = DialState::Waiting {
            until: now + half + spread,
        };
        AfterRejection::Wait
    }

    /// Returns whether the pause after a rejection is over.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        matches!(self.state, DialState::Waiting { until } if now >= until.min(self.deadline))
    }

    /// Returns when the caller must check the dialler next. A connection that is being made has its own
    /// deadline.
    pub(crate) fn next_due(&self) -> Option<Time> {
        match self.state {
            DialState::Resting | DialState::Connecting => None,
            DialState::Waiting { until } => Some(until.min(self.deadline)),
        }
    }

    /// Returns until when a peer without connections must be remembered, so that its pause can
    /// grow.
    pub(crate) fn forget_at(&self) -> Option<Time> {
        (self.pause > Duration::ZERO).then(|| self.retry_at + self.pause)
    }
}

#[cfg(test)]
#[path = "dialling_tests.rs"]
mod tests;
