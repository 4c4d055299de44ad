//! Defects that tests switch on. A checker that was never seen to fail proves nothing, so tests break the core on
//! purpose and check that the checker notices. The feature `defects` is never enabled in what ships.

use lnet_types::Time;

use crate::Core;

impl Core {
    /// Clears the used paths of every message, so that a resend may take one of them again.
    pub fn forget_used_paths(&mut self) {
        for tx in self.upkeep.traffic.tx.iter_mut() {
            tx.attempts.used.clear();
        }
    }

    /// Ends the recovery of every interface that is not in full health.
    pub fn forget_recoveries(&mut self) {
        // The call has no time parameter, and ending a recovery needs no time.
        self.upkeep.health_switched(false, Time::ZERO);
    }

    /// Accepts every response whose handle is known, from any sender.
    pub fn believe_anybody(&mut self) {
        self.upkeep.traffic.gullible = true;
    }
}
