//! Invariants of the LND: what happens when one is broken.
//!
//! A name that comes from outside may refer to something that is gone: readiness of a freed slot,
//! or the cancelling of a message that has ended. The LND ignores such a name. Names that the LND
//! itself keeps must be valid: a connection has a peer, a held message has a connection. If one is
//! not valid, the LND has a bug, and continuing silently would hide it.

use crate::stats::SocklndStats;

impl SocklndStats {
    /// Reports a broken invariant; the text names it. Debug builds panic, so that no test and no
    /// simulation can miss it. Release builds count and log it, and continue without the missing
    /// thing.
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
