//! Defects to order. A checker that was never seen to fail proves nothing, so tests break the core here
//! and look whether it is noticed. The feature `broken` is never on in what ships.

use lnet_types::Time;

use crate::Core;

impl Core {
    /// Forgets which paths every message has used, so that a resend may take one of them again.
    pub fn forget_used_paths(&mut self) {
        for tx in self.tx.iter_mut() {
            tx.attempts.used.clear();
        }
    }

    /// Gives up the recovery of every interface that is ill.
    pub fn forget_recoveries(&mut self) {
        // Ending them takes no time.
        self.health_switched(false, Time::ZERO);
    }

    /// Believes every answer that knows its handle, whoever sends it.
    pub fn believe_anybody(&mut self) {
        self.gullible = true;
    }
}
