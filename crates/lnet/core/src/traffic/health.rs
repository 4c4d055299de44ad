//! What the end of an attempt to send does to health. The rules are in `docs/selection/health.md`.

use lnet_types::Time;

use crate::fabric::watch::HealthCause;
use crate::ground::io::TxId;
use crate::ground::status::MessageStatus;
use crate::traffic::Traffic;

impl Traffic {
    /// Changes health after an attempt to send has ended with `status`.
    // [HEALTH-10] [HEALTH-11] [HEALTH-12] [HEALTH-13] [HEALTH-16] [HEALTH-22]
    pub(in crate::traffic) fn update_health(&mut self, id: TxId, status: MessageStatus, now: Time) {
        let Some(tx) = self.tx.get(id) else {
            return self.broken("a message whose attempt ended");
        };
        let (ni, deadline, probe) = (tx.ni, tx.deadline, tx.attempts.probe);
        let Some(peer) = tx.peer else { return };
        if status == MessageStatus::Ok {
            return self.fabric.raise_ni(ni, HealthCause::Sent);
        }
        if now >= deadline {
            self.counters().late_count += 1;
            let late = u64::try_from((now - deadline).as_nanos()).unwrap_or(u64::MAX);
            self.counters().late_nanoseconds =
                self.counters().late_nanoseconds.saturating_add(late);
            return;
        }
        if let Some(ni) = self.fabric.nis.get_mut(ni) {
            ni.health_stats.count(status);
        }
        if let Some(peer_ni) = self.fabric.peers.get_mut(peer) {
            peer_ni.health_stats.count(status);
        }
        if status.is_local_failure() && !self.fabric.spares_only_ni() && !self.fabric.is_fatal(ni) {
            self.fabric.lower_ni(ni, status, now);
        }
        if status.is_remote_failure() && !probe && self.fabric.may_lower_health(peer) {
            self.fabric
                .lower_peer_ni(peer, HealthCause::Failed(status), now);
        }
    }
}
