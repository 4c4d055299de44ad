//! What the LND promises itself.
//!
//! A name from outside may stand for something that has gone: news of a slot come late, a message is cancelled that
//! has ended. Such a name is ignored. What the LND itself keeps must be there: a connection has a peer, a message
//! that is held has a connection. Where that does not hold the LND has an error, and going on as if nothing had
//! happened would hide it.

use crate::stats::SocklndStats;

impl SocklndStats {
    /// A promise was broken, in words that name it. Debug builds panic, so that no test and no simulation passes over
    /// it; release builds go on without the thing that is missing, count and log.
    #[cold]
    pub(crate) fn broken(&mut self, what: &'static str) {
        debug_assert!(false, "broken invariant: {what}");
        self.invariants_broken += 1;
        if self.invariants_broken == 1 {
            tracing::error!(
                what,
                "an invariant of the LND is broken: please report this"
            );
        }
    }
}
