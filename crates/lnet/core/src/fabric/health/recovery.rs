//! Recovery: interfaces and peer interfaces below full health are pinged until their health is full. The
//! rules are in `docs/selection/resend.md`.
//!
//! ```text
//!               failure, in 1 s                    2, 4, 8 … s later, up to the longest pause
//!  full health ────────────────▶ in recovery: ping ◀──────────────┐
//!       ▲                          │                               │
//!       └──── health reaches 1000 ─┴─ ping answered, or not ───────┘
//! ```
//!
//! For a local interface, this node pings the interface's own NID from the best local interface. A peer interface is
//! pinged itself if a message was ever received from it, the last one not longer ago than `recovery_limit`. One ping
//! is sent at a time: while it is under way, the next one waits. Any received message resets the pauses, but does not
//! bring the next ping forward.
//!
//! A peer interface from which nothing was ever received, such as one on a net behind routers, lost health because its
//! node said that the interface is down. The node may have said the opposite since: two pushes can overtake each
//! other, and nothing in them shows which is newer, because a change of a status keeps the sequence number. The
//! recovery of such an interface asks the node, at another interface of the node. If a push says
//! that such an interface is up, the node is asked once to confirm it. Kernels leave the interface unchanged until the
//! next push.

use std::time::Duration;

use lnet_types::Time;

use crate::fabric::Fabric;
use crate::ground::md::MdHandle;
use crate::ground::timer::RecoveryTarget;
use crate::ground::timer::Timer;

/// The state of the recovery of one interface or peer interface.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// Pings since the last message was received.
    pub(crate) ping_count: u32,
    /// When the next ping is due; `None` if the target is not in recovery.
    pub(crate) at: Option<Time>,
    /// The last value of `at`, which stays when the recovery ends.
    pub(crate) planned: Option<Time>,
    /// The ping that is under way.
    pub(crate) ping: Option<MdHandle>,
    /// When the last ping was sent.
    pub(crate) sent: Time,
    /// True if the last ping failed.
    pub(crate) failed: bool,
    /// True if a push says that the interface is up and the node is yet to confirm it.
    pub(crate) is_doubted: bool,
}

impl Recovery {
    pub(crate) fn plan(&mut self, at: Time) {
        (self.at, self.planned) = (Some(at), Some(at));
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.ping.is_some()
    }
}

/// Returns the pause after `ping_count` pings: powers of two seconds up to the longest pause.
// [RECOV-1]
pub(crate) fn pause(ping_count: u32, longest: Duration) -> Duration {
    let cap = longest.as_secs().checked_ilog2().unwrap_or(0);
    if ping_count > cap {
        return longest;
    }
    // The shift is below 64, since `cap` is, for any longest pause.
    Duration::from_secs(1 << ping_count)
}

impl Fabric {
    pub(crate) fn recovery_mut(&mut self, target: RecoveryTarget) -> Option<&mut Recovery> {
        match target {
            RecoveryTarget::Ni(ni) => self.nis.get_mut(ni).map(|ni| &mut ni.recovery),
            RecoveryTarget::Peer(peer) => self
                .peers
                .get_mut(peer)
                .map(|peer_ni| &mut peer_ni.recovery),
        }
    }

    /// Begins the recovery of a target after a failure. The first ping follows after a pause that grows with the
    /// pings that were sent before.
    pub(crate) fn enter_recovery(&mut self, target: RecoveryTarget, now: Time) {
        let longest = self.globals().max_recovery_ping_interval;
        if !self.is_eligible(target, now) {
            return;
        }
        if let Some(recovery) = self.recovery_mut(target)
            && recovery.at.is_none()
        {
            let at = now + pause(recovery.ping_count, longest);
            self.begin_recovery_at(target, at);
        }
    }

    /// Plans the first ping. A target that is already in recovery keeps its plan. While health is switched off, no
    /// recovery begins, because nothing would end it.
    pub(crate) fn begin_recovery_at(&mut self, target: RecoveryTarget, at: Time) {
        if self.globals().health_sensitivity == 0 {
            return;
        }
        let Some(recovery) = self.recovery_mut(target) else {
            return;
        };
        if recovery.at.is_none() {
            recovery.plan(at);
            self.ground.timers.arm(at, Timer::Recover(target));
        }
    }

    /// Ends the recovery of a target that has full health or is no longer pinged. Its next recovery begins
    /// with the shortest pause.
    // [RECOV-2]
    pub(crate) fn leave_recovery(&mut self, target: RecoveryTarget) {
        let Some(recovery) = self.recovery_mut(target) else {
            return;
        };
        recovery.ping_count = 0;
        recovery.is_doubted = false;
        if let Some(at) = recovery.at.take() {
            recovery.failed = false;
            self.ground.timers.disarm(at, Timer::Recover(target));
        }
    }

    /// Returns whether to ping the target. A peer NI from which nothing was received for too long is not pinged.
    /// The node of a peer NI from which nothing was ever received is pinged only while the node's last
    /// information says that the NI is down.
    // [RECOV-6] [RECOV-7]
    pub(crate) fn is_eligible(&self, target: RecoveryTarget, now: Time) -> bool {
        let RecoveryTarget::Peer(id) = target else {
            return true;
        };
        let Some(peer_ni) = self.peers.get(id) else {
            return false;
        };
        let limit = self.globals().recovery_limit;
        match peer_ni.last_alive {
            Some(heard) => limit.is_zero() || now <= heard + limit,
            None => {
                let is_asked = !peer_ni.status_up || peer_ni.recovery.is_doubted;
                is_asked && self.globals().discovery
            }
        }
    }

    /// Notes that a recovery ping has ended; the next one may be due already.
    pub(crate) fn recovery_ping_ended(&mut self, target: RecoveryTarget, ping: MdHandle) {
        let Some(recovery) = self.recovery_mut(target) else {
            return;
        };
        if recovery.ping == Some(ping) {
            recovery.ping = None;
        }
        // If the next ping is not due, its timer is armed already, and arming it again changes nothing.
        if let Some(at) = recovery.at {
            self.ground.timers.arm(at, Timer::Recover(target));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses = |longest| -> Vec<u64> {
            let longest = Duration::from_secs(longest);
            (0..12)
                .map(|count| pause(count, longest).as_secs())
                .collect()
        };
        assert_eq!(
            pauses(900),
            [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]
        );
        assert_eq!(pauses(4)[..5], [1, 2, 4, 4, 4]);
        assert_eq!(pauses(1)[..3], [1, 1, 1]);
    }
}
