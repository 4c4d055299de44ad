//! Sends recovery pings and handles their answers. When to ping is decided in
//! [`fabric::health`](crate::fabric::health).

use std::time::Duration;

use lnet_types::{Nid, Time};
use lnet_wire::PING_BUFFER_MIN;

use crate::fabric::health::recovery::pause;
use crate::fabric::said::Said;
use crate::fabric::watch::HealthCause;
use crate::ground::event::{Event, EventKind};
use crate::ground::ids::PeerNiId;
use crate::ground::io::CoreBuffer;
use crate::ground::timer::{RecoveryTarget, Timer};
use crate::traffic::portals::descriptor::Owner;
use crate::upkeep::Upkeep;

impl Upkeep {
    /// Begins or ends all recoveries after health was switched on or off.
    pub(crate) fn health_switched(&mut self, on: bool, now: Time) {
        let ours = self.traffic.fabric.nis.real().iter();
        let ours = ours.map(|ni| (RecoveryTarget::Ni(ni.id), ni.health));
        let peers = self
            .traffic
            .fabric
            .peers
            .ids()
            .filter_map(|id| Some((id, self.traffic.fabric.peers.get(id)?)));
        let theirs = peers.map(|(id, peer_ni)| (RecoveryTarget::Peer(id), peer_ni.health));
        let ill = ours.chain(theirs).filter(|(_, health)| !health.is_full());
        let targets: Vec<RecoveryTarget> = ill.map(|(target, _)| target).collect();
        for target in targets {
            if on {
                self.traffic.fabric.enter_recovery(target, now);
            } else {
                self.traffic.fabric.leave_recovery(target);
            }
        }
    }

    /// Sends the ping that is due, and plans the next one.
    // [RECOV-3]
    pub(in crate::upkeep) fn recover(&mut self, target: RecoveryTarget, now: Time) {
        let longest = self.globals().max_recovery_ping_interval;
        let eligible = self.traffic.fabric.is_eligible(target, now);
        let Some(recovery) = self.traffic.fabric.recovery_mut(target) else {
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
        self.traffic
            .fabric
            .ground
            .timers
            .arm(at, Timer::Recover(target));
        self.send_recovery_ping(target, now);
    }

    fn send_recovery_ping(&mut self, target: RecoveryTarget, now: Time) {
        let Some((nid, length)) = self.recovery_ping_destination(target) else {
            return;
        };
        let Some(md) = self.bind_ping(length, |buffer| Owner::Recovery(buffer, target)) else {
            return;
        };
        if let Some(recovery) = self.traffic.fabric.recovery_mut(target) {
            (recovery.ping, recovery.sent) = (Some(md), now);
        }
        let timeout = self.globals().transaction_timeout;
        self.send_ping(md, nid, timeout, now);
    }

    /// Returns the NID to ping, and the bytes that the answer may need.
    // [RECOV-4] [RECOV-5] [RECOV-11]
    fn recovery_ping_destination(&self, target: RecoveryTarget) -> Option<(Nid, u32)> {
        let id = match target {
            RecoveryTarget::Ni(ni) => {
                return Some((self.traffic.fabric.nis.get(ni)?.nid, PING_BUFFER_MIN));
            }
            RecoveryTarget::Peer(id) => id,
        };
        let peer_ni = self.traffic.fabric.peers.get(id)?;
        if peer_ni.last_alive.is_some() {
            return Some((peer_ni.nid, PING_BUFFER_MIN));
        }
        let name = self.traffic.fabric.peers.primary_of(peer_ni.nid);
        let nids = &self.traffic.fabric.peers.peer(name)?.nids;
        let is_near = |nid: &Nid| self.traffic.fabric.nis.has_net(nid.net());
        // A node that shares a net with this one rejects a message for its interface on another net, because the route
        // may lead through the node itself.
        let has_near = nids.iter().any(is_near);
        let mut askable = nids.iter().filter(|nid| !has_near || is_near(nid));
        let is_up = |nid: &&Nid| {
            self.traffic
                .fabric
                .peers
                .by_nid(**nid)
                .is_some_and(|ni| ni.status_up)
        };
        let first = askable.clone().next().copied().unwrap_or(name);
        let asked = askable.find(is_up).copied().unwrap_or(first);
        Some((asked, self.traffic.fabric.ping_size(name)))
    }

    /// Handles an event of a recovery ping. For a peer interface, the receipt of the answer has already raised health.
    /// For a local interface, the answer itself raises it.
    pub(in crate::upkeep) fn recovery_event(
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
        if let Some(recovery) = self.traffic.fabric.recovery_mut(target) {
            recovery.failed = failed;
        }
        match target {
            RecoveryTarget::Ni(ni) if !failed => {
                self.traffic.fabric.raise_ni(ni, HealthCause::Recovered)
            }
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
        let Some(peer_ni) = self.traffic.fabric.peers.get(id) else {
            return;
        };
        let (heard, sent) = (peer_ni.last_alive, peer_ni.recovery.sent);
        let name = self.traffic.fabric.peers.primary_of(peer_ni.nid);
        if heard.is_some() {
            return self.end_doubt(id);
        }
        if self.has_said_more_since(name, sent) {
            return;
        }
        let bytes = self.traffic.buffers.data(buffer);
        let said = Said::read(bytes.get(..length as usize).unwrap_or(bytes));
        if let Some(said) = said {
            self.take_statuses(name, &said, now);
            self.end_doubt(id);
        }
    }

    /// Ends the doubt about an interface after the interface or its node answered. An interface that is up and in full
    /// health leaves recovery.
    fn end_doubt(&mut self, id: PeerNiId) {
        let Some(peer_ni) = self.traffic.fabric.peers.get_mut(id) else {
            return;
        };
        let is_well = peer_ni.is_optimal();
        if std::mem::take(&mut peer_ni.recovery.is_doubted) && is_well {
            self.traffic.fabric.leave_recovery(RecoveryTarget::Peer(id));
        }
    }

    /// Asks a node once to confirm that an interface is up that the node has pushed as up and from which nothing was
    /// ever received: pushes may arrive in another order than the node sent them.
    pub(in crate::upkeep) fn confirm(&mut self, id: PeerNiId, now: Time) {
        let target = RecoveryTarget::Peer(id);
        self.traffic
            .fabric
            .begin_recovery_at(target, now + pause(0, Duration::MAX));
        if let Some(recovery) = self.traffic.fabric.recovery_mut(target)
            && recovery.at.is_some()
        {
            recovery.is_doubted = true;
        }
    }
}
