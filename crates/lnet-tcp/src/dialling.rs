//! The dialling of one peer as a state machine (sections 2.9, 2.10 and 2.13).
//!
//! ```text
//!             begin                 connecting              connected, more wanted
//!   RESTING ---------> (next type) ------------> CONNECTING -----------------------+
//!      ^  ^                 ^                       |   |                          |
//!      |  |                 |  time, or a           |   | declined                 |
//!      |  |                 |  connection came      |   v                          |
//!      |  |                 +-------------------- WAITING                          |
//!      |  +--- failed: pause 1, 2, 4 .. 60 s -------+                              |
//!      +------ nothing more wanted <-----------------------------------------------+
//! ```
//!
//! One pass at a time opens one connection at a time. No sockets here: the caller connects and says what
//! became of it.

use std::time::Duration;

use lnet_types::Time;
use lnet_wire::{Ctype, HelloVersion};

/// Refusals in a row after which a peer is not asked again (sections 2.6 and 18).
// [SET-8]
const REFUSALS_MAX: u8 = 3;

/// The pause after a refusal is between half and whole this long (section 18).
// [SET-7]
const REFUSAL_PAUSE: Duration = Duration::from_secs(1);

/// Connections with one peer, by type in our naming.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypeCounts {
    pub(crate) any: usize,
    pub(crate) control: usize,
    pub(crate) bulk_in: usize,
    pub(crate) bulk_out: usize,
}

impl TypeCounts {
    /// Counts connections by their types.
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

    /// The type to dial next, where `pairs` of bulk connections are wanted; untyped nodes want one
    /// connection that carries messages, which `BULK_IN` does not.
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

    /// True when there is at least one of each type that a node needs.
    pub(crate) fn has_each(self) -> bool {
        self.control > 0 && self.bulk_in > 0 && self.bulk_out > 0
    }
}

/// What the caller does after a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRefusal {
    /// Wait; [`Dialler::is_due`] tells when it is over.
    Wait,
    /// Dial again at once, in the version that the peer named.
    AtOnce,
    /// Ask for no more: there is one connection of each type.
    Content,
    /// Give up: the pass has failed.
    GiveUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Resting,
    Connecting,
    Waiting { until: Time },
}

/// The dialling of one peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialler {
    phase: Phase,
    /// When the pass that is under way has failed.
    deadline: Time,
    /// The pause after the last failure; zero after a success.
    pause: Duration,
    /// The end of that pause.
    retry_at: Time,
    refusals: u8,
    /// The peer wants no more connections than there are.
    content: bool,
    version: Option<HelloVersion>,
}

impl Default for Dialler {
    fn default() -> Self {
        Self {
            phase: Phase::Resting,
            deadline: Time::ZERO,
            pause: Duration::ZERO,
            retry_at: Time::ZERO,
            refusals: 0,
            content: false,
            version: None,
        }
    }
}

impl Dialler {
    /// True when a pass may begin.
    pub(crate) fn may_begin(&self, now: Time) -> bool {
        self.phase == Phase::Resting && now >= self.retry_at && !self.content
    }

    /// True during a pass.
    pub(crate) fn is_active(&self) -> bool {
        self.phase != Phase::Resting
    }

    /// True while a connection is being made.
    pub(crate) fn is_connecting(&self) -> bool {
        self.phase == Phase::Connecting
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting { .. })
    }

    /// The HELLO version that the peer asked for, if it did.
    pub(crate) fn version(&self) -> Option<HelloVersion> {
        self.version
    }

    /// The end of the pass.
    pub(crate) fn deadline(&self) -> Time {
        self.deadline
    }

    /// A pass begins, and may last for `timeout`.
    pub(crate) fn begin(&mut self, now: Time, timeout: Duration) {
        self.refusals = 0;
        self.deadline = now + timeout;
    }

    /// A connection is being made.
    pub(crate) fn connecting(&mut self) {
        self.phase = Phase::Connecting;
    }

    /// Nothing more is wanted.
    pub(crate) fn rest(&mut self) {
        self.phase = Phase::Resting;
    }

    /// A connection that we dialled is there.
    pub(crate) fn connected(&mut self) {
        self.phase = Phase::Resting;
        self.refusals = 0;
        self.pause = Duration::ZERO;
        self.retry_at = Time::ZERO;
    }

    /// The peer dialled us: its refusals were those of a race, and say nothing of the next attempt.
    pub(crate) fn met(&mut self) {
        self.refusals = 0;
    }

    /// Connections of another version are wanted beside those that there are.
    pub(crate) fn want_more(&mut self) {
        self.content = false;
    }

    /// A connection has gone: more may be wanted again.
    pub(crate) fn lost(&mut self, was_last: bool) {
        self.content = false;
        if was_last {
            self.version = None;
        }
    }

    /// The pass has failed; the next may begin after a pause that doubles each time.
    // [SET-11]
    pub(crate) fn failed(&mut self, now: Time, min: Duration, max: Duration) {
        self.phase = Phase::Resting;
        self.pause = (self.pause * 2).clamp(min, max.max(min));
        self.retry_at = now + self.pause;
    }

    /// The peer answered `NONE` in `version`; `jitter` is any number.
    pub(crate) fn refused(
        &mut self,
        now: Time,
        version: HelloVersion,
        spoken: HelloVersion,
        counts: TypeCounts,
        jitter: u64,
    ) -> AfterRefusal {
        self.refusals = self.refusals.saturating_add(1);
        if self.refusals >= REFUSALS_MAX {
            self.phase = Phase::Resting;
            if counts.has_each() {
                self.content = true;
                return AfterRefusal::Content;
            }
            return AfterRefusal::GiveUp;
        }
        if version != spoken {
            self.version = Some(version);
            self.phase = Phase::Resting;
            return AfterRefusal::AtOnce;
        }
        let half = REFUSAL_PAUSE / 2;
        let spread = Duration::from_nanos(jitter % 500_000_000);
        self.phase = Phase::Waiting {
            until: now + half + spread,
        };
        AfterRefusal::Wait
    }

    /// True when the pause after a refusal is over.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        matches!(self.phase, Phase::Waiting { until } if now >= until.min(self.deadline))
    }

    /// When the caller should look again. The connection that is being made has a deadline of its own.
    pub(crate) fn next_due(&self) -> Option<Time> {
        match self.phase {
            Phase::Resting | Phase::Connecting => None,
            Phase::Waiting { until } => Some(until.min(self.deadline)),
        }
    }

    /// Until when a peer without connections must be remembered for its pause to grow.
    pub(crate) fn forget_at(&self) -> Option<Time> {
        (self.pause > Duration::ZERO).then(|| self.retry_at + self.pause)
    }
}

#[cfg(test)]
#[path = "dialling_tests.rs"]
mod tests;
