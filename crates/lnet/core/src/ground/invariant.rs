//! The invariants of the core, and what happens when one is broken.
//!
//! An id from outside may name something that no longer exists: an answer comes late, or a peer or an interface was
//! removed while the LND had a message for it. Such an id is ignored, or counted in [`Counters::stale_answers`]. An id
//! that the core itself keeps must name something: a queued message is in the table of messages, a descriptor with an
//! operation exists. If this does not hold, the core has a defect, and to continue silently would hide it.

use lnet_types::Time;

use crate::ground::Ground;
use crate::ground::counters::Counters;

impl Counters {
    /// Reports a broken invariant; `what` names it. Debug builds panic, so that no test and no simulation ignores it.
    /// Release builds count it and continue without the thing that is missing.
    #[cold]
    pub(crate) fn broken(&mut self, what: &'static str) {
        debug_assert!(false, "broken invariant: {what}");
        self.invariants_broken += 1;
        self.last_broken_invariant = Some(what);
    }
}

impl Ground {
    /// Does the same as [`Counters::broken`].
    #[cold]
    pub(crate) fn broken(&mut self, what: &'static str) {
        self.counters.broken(what);
    }

    /// Notes the time of an input. Deadlines rely on a time that never goes back.
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

    /// Returns a core with a queued message that is in no table.
    fn broken() -> Core {
        let mut core = Core::new(config(1), Time::ZERO);
        core.upkeep.traffic.resends.push_back(TxId(77));
        core
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "broken invariant: a message that waits for its next attempt")]
    fn a_broken_invariant_fails_tests() {
        broken().upkeep.traffic.resend_all(Time::ZERO);
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
