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

use lnet_types::{Nid, Time};
use lnet_wire::PING_BUFFER_MIN;

use crate::Core;
use crate::event::{Event, EventKind};
use crate::io::{CoreBuffer, NiId};
use crate::peer::PeerNiId;
use crate::ping::said::Said;
use crate::portals::descriptor::Owner;
use crate::portals::md::MdHandle;
use crate::timer::Timer;
use crate::watch::HealthCause;

/// The target of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RecoveryTarget {
    /// A local interface.
    Ni(NiId),
    /// An interface of a peer.
    Peer(PeerNiId),
}

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
    sent: Time,
    /// True if the last ping failed.
    pub(crate) failed: bool,
    /// True if a push says that the interface is up and the node is yet to confirm it.
    is_doubted: bool,
}

impl Recovery {
    fn plan(&mut self, at: Time) {
        (self.at, self.planned) = (Some(at), Some(at));
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.ping.is_some()
    }
}

/// Returns the pause after `ping_count` pings: powers of two seconds up to the longest pause.
// [RECOV-1]
fn pause(ping_count: u32, longest: Duration) -> Duration {
    let cap = longest.as_secs().checked_ilog2().unwrap_or(0);
    if ping_count > cap {
        return longest;
    }
    // The shift is below 64, since `cap` is, for any longest pause.
    Duration::from_secs(1 << ping_count)
}

impl Core {
    fn recovery_mut(&mut self, target: RecoveryTarget) -> Option<&mut Recovery> {
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
        let longest = self.config.globals.max_recovery_ping_interval;
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
        if self.config.globals.health_sensitivity == 0 {
            return;
        }
        let Some(recovery) = self.recovery_mut(target) else {
            return;
        };
        if recovery.at.is_none() {
            recovery.plan(at);
            self.timers.arm(at, Timer::Recover(target));
        }
    }

    /// Begins or ends all recoveries after health was switched on or off.
    pub(crate) fn health_switched(&mut self, on: bool, now: Time) {
        let ours = self.nis.real().iter();
        let ours = ours.map(|ni| (RecoveryTarget::Ni(ni.id), ni.health));
        let peers = self
            .peers
            .ids()
            .filter_map(|id| Some((id, self.peers.get(id)?)));
        let theirs = peers.map(|(id, peer_ni)| (RecoveryTarget::Peer(id), peer_ni.health));
        let ill = ours.chain(theirs).filter(|(_, health)| !health.is_full());
        let targets: Vec<RecoveryTarget> = ill.map(|(target, _)| target).collect();
        for target in targets {
            if on {
                self.enter_recovery(target, now);
            } else {
                self.leave_recovery(target);
            }
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
            self.timers.disarm(at, Timer::Recover(target));
        }
    }

    /// Returns whether to ping the target. A peer NI from which nothing was received for too long is not pinged.
    /// The node of a peer NI from which nothing was ever received is pinged only while the node's last
    /// information says that the NI is down.
    // [RECOV-6] [RECOV-7]
    fn is_eligible(&self, target: RecoveryTarget, now: Time) -> bool {
        let RecoveryTarget::Peer(id) = target else {
            return true;
        };
        let Some(peer_ni) = self.peers.get(id) else {
            return false;
        };
        let limit = self.config.globals.recovery_limit;
        match peer_ni.last_alive {
            Some(heard) => limit.is_zero() || now <= heard + limit,
            None => {
                let is_asked = !peer_ni.status_up || peer_ni.recovery.is_doubted;
                is_asked && self.config.globals.discovery
            }
        }
    }

    /// Sends the ping that is due, and plans the next one.
    // [RECOV-3]
    pub(crate) fn recover(&mut self, target: RecoveryTarget, now: Time) {
        let longest = self.config.globals.max_recovery_ping_interval;
        let eligible = self.is_eligible(target, now);
        let Some(recovery) = self.recovery_mut(target) else {
            return;
        };
        if !eligible {
            (recovery.at, recovery.ping_count) = (None, 0);
            return;
        }
        // The end of the ping under way arms the timer, so the next ping follows at once.
        if recovery.is_pending() {
            return;
        }
        recovery.ping_count = recovery.ping_count.saturating_add(1);
        let at = now + pause(recovery.ping_count, longest);
        recovery.plan(at);
        self.timers.arm(at, Timer::Recover(target));
        self.send_recovery_ping(target, now);
    }

    fn send_recovery_ping(&mut self, target: RecoveryTarget, now: Time) {
        let Some((nid, length)) = self.recovery_ping_destination(target) else {
            return;
        };
        let Some(md) = self.bind_ping(length, |buffer| Owner::Recovery(buffer, target)) else {
            return;
        };
        if let Some(recovery) = self.recovery_mut(target) {
            (recovery.ping, recovery.sent) = (Some(md), now);
        }
        let timeout = self.config.globals.transaction_timeout;
        self.send_ping(md, nid, timeout, now);
    }

    /// Returns the NID to ping, and the bytes that the answer may need.
    // [RECOV-4] [RECOV-5] [RECOV-11]
    fn recovery_ping_destination(&self, target: RecoveryTarget) -> Option<(Nid, u32)> {
        let id = match target {
            RecoveryTarget::Ni(ni) => return Some((self.nis.get(ni)?.nid, PING_BUFFER_MIN)),
            RecoveryTarget::Peer(id) => id,
        };
        let peer_ni = self.peers.get(id)?;
        if peer_ni.last_alive.is_some() {
            return Some((peer_ni.nid, PING_BUFFER_MIN));
        }
        let name = self.peers.primary_of(peer_ni.nid);
        let nids = &self.peers.peer(name)?.nids;
        let is_near = |nid: &Nid| self.nis.has_net(nid.net());
        // A node that shares a net with this one rejects a message for its interface on another net, because the route
        // may lead through the node itself.
        let has_near = nids.iter().any(is_near);
        let mut askable = nids.iter().filter(|nid| !has_near || is_near(nid));
        let is_up = |nid: &&Nid| self.peers.by_nid(**nid).is_some_and(|ni| ni.status_up);
        let first = askable.clone().next().copied().unwrap_or(name);
        let asked = askable.find(is_up).copied().unwrap_or(first);
        Some((asked, self.ping_size(name)))
    }

    /// Handles an event of a recovery ping. For a peer interface, the receipt of the answer has already raised health.
    /// For a local interface, the answer itself raises it.
    pub(crate) fn recovery_event(
        &mut self,
        buffer: CoreBuffer,
        target: RecoveryTarget,
        event: &Event,
        now: Time,
    ) {
        let failed = match (event.kind, event.status) {
            (EventKind::Reply, Ok(())) => false,
            (EventKind::Unlink, _) | (EventKind::Send, Ok(())) => return,
            _ => true,
        };
        if let Some(recovery) = self.recovery_mut(target) {
            recovery.failed = failed;
        }
        match target {
            RecoveryTarget::Ni(ni) if !failed => self.raise_ni(ni, HealthCause::Recovered),
            RecoveryTarget::Peer(id) if !failed => {
                self.node_answered(id, buffer, event.mlength, now)
            }
            _ => {}
        }
    }

    /// Handles a peer's answer to a recovery ping. If nothing was ever received from the peer interface, the answer is
    /// from its node and says whether the node's interfaces are up. A push that arrived after the ping was sent may be
    /// newer than the answer, which is then ignored.
    fn node_answered(&mut self, id: PeerNiId, buffer: CoreBuffer, length: u32, now: Time) {
        let Some(peer_ni) = self.peers.get(id) else {
            return;
        };
        let (heard, sent) = (peer_ni.last_alive, peer_ni.recovery.sent);
        let name = self.peers.primary_of(peer_ni.nid);
        if heard.is_some() {
            return self.end_doubt(id);
        }
        if self.has_said_more_since(name, sent) {
            return;
        }
        let bytes = self.buffers.data(buffer);
        let said = Said::read(bytes.get(..length as usize).unwrap_or(bytes));
        if let Some(said) = said {
            self.take_statuses(name, &said, now);
            self.end_doubt(id);
        }
    }

    /// Ends the doubt about an interface after the interface or its node answered. An interface that is up and in full
    /// health leaves recovery.
    fn end_doubt(&mut self, id: PeerNiId) {
        let Some(peer_ni) = self.peers.get_mut(id) else {
            return;
        };
        let is_well = peer_ni.is_optimal();
        if std::mem::take(&mut peer_ni.recovery.is_doubted) && is_well {
            self.leave_recovery(RecoveryTarget::Peer(id));
        }
    }

    /// Asks a node once to confirm that an interface is up that the node has pushed as up and from which nothing was
    /// ever received: pushes may arrive in another order than the node sent them.
    pub(crate) fn confirm(&mut self, id: PeerNiId, now: Time) {
        let target = RecoveryTarget::Peer(id);
        self.begin_recovery_at(target, now + pause(0, Duration::MAX));
        if let Some(recovery) = self.recovery_mut(target)
            && recovery.at.is_some()
        {
            recovery.is_doubted = true;
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
            self.timers.arm(at, Timer::Recover(target));
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
