//! What the core promises itself.
//!
//! An id from outside may name something that has gone: an answer comes late, a peer or an interface was removed while a
//! message of it was with the LND. Such an id is ignored, or counted in [`Counters::stale_answers`]. An id that the
//! core itself keeps must name something: what is queued is in the table of messages, a descriptor with an operation is
//! there. Where that does not hold the core has an error, and going on as if nothing had happened would hide it.

use lnet_types::Time;

use crate::Core;
use crate::counts::counters::Counters;

impl Counters {
    /// A promise was broken, in words that name it. Debug builds panic, so that no test and no simulation passes over
    /// it; release builds go on without the thing that is missing, and count.
    #[cold]
    pub(crate) fn broken(&mut self, what: &'static str) {
        debug_assert!(false, "broken invariant: {what}");
        self.invariants_broken += 1;
        self.last_broken_invariant = Some(what);
    }
}

impl Core {
    /// As [`Counters::broken`].
    #[cold]
    pub(crate) fn broken(&mut self, what: &'static str) {
        self.counters.broken(what);
    }

    /// An input came at this time. Deadlines rest on a time that never goes back.
    pub(crate) fn note_time(&mut self, now: Time) {
        if now < self.latest {
            self.broken("time goes back");
        }
        self.latest = now;
    }
}

#[cfg(test)]
mod tests {
    use lnet_types::Time;

    use crate::tests::net::config;
    use crate::{Core, TxId};

    /// A core that has a message in a queue which is in no table.
    fn broken() -> Core {
        let mut core = Core::new(config(1), Time::ZERO);
        core.resends.push_back(TxId(77));
        core
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "broken invariant: a message that waits for its next attempt")]
    fn a_broken_invariant_fails_tests() {
        broken().resend_all(Time::ZERO);
    }

    #[test]
    #[cfg(not(debug_assertions))]
    fn a_broken_invariant_is_counted() {
        let mut core = broken();
        core.resend_all(Time::ZERO);
        assert_eq!(core.counters().invariants_broken, 1);
        assert!(core.counters().last_broken_invariant.is_some());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "time goes back")]
    fn time_never_goes_back() {
        let mut core = Core::new(config(1), Time::ZERO);
        core.tick(Time::from_secs(2));
        core.tick(Time::from_secs(1));
    }
}
