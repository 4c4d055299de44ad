//! Changes the health of the interfaces that a message used, depending on how the attempt ended. The rules
//! are in `docs/selection/health.md`.
//!
//! | how it ended | local interface | peer interface |
//! |---|---|---|
//! | sent | + | |
//! | received | + | +; to full health for a gateway, and on a router |
//! | `LOCAL_*` | − | |
//! | `REMOTE_*` | | − |
//! | `NETWORK_TIMEOUT` | − | − |
//! | no response in time | | − (the next hop's) |
//!
//! A failure after the message's deadline changes no health. The health of a peer's only interface is
//! not lowered, unless the peer is a gateway or this node routes. A recovery ping that cannot be sent
//! does not lower the health of the interface that it pings: only a missing answer does.

use lnet_policy::Profile;
use lnet_types::{Nid, Time};

use crate::fabric::Fabric;
use crate::fabric::own::Outdated;
use crate::fabric::peer::{Peer, PeerNi};
use crate::fabric::watch::HealthCause;
use crate::ground::config::ConfigError;
use crate::ground::health::Health;
use crate::ground::ids::PeerNiId;
use crate::ground::io::NiId;
use crate::ground::status::MessageStatus;
use crate::ground::timer::RecoveryTarget;

impl Fabric {
    // [HEALTH-31] [RECOV-10]
    pub(crate) fn set_ni_health(
        &mut self,
        ni: NiId,
        health: Health,
        now: Time,
    ) -> Result<(), ConfigError> {
        let entry = self.nis.get_mut(ni).filter(|ni| ni.id != NiId::LOOPBACK);
        let entry = entry.ok_or(ConfigError::UnknownNi)?;
        let (nid, before) = (entry.nid, entry.health);
        entry.health = health;
        self.ni_health_happened(nid, (before, health), HealthCause::Administrator);
        match health {
            Health::ZERO => self.set_ni_status(ni, false),
            Health::MAX => self.set_ni_status(ni, true),
            _ => {}
        }
        if health.is_full() {
            self.leave_recovery(RecoveryTarget::Ni(ni));
        } else {
            self.begin_recovery_at(RecoveryTarget::Ni(ni), now);
        }
        Ok(())
    }

    pub(crate) fn set_peer_ni_health(
        &mut self,
        nid: Nid,
        health: Health,
        now: Time,
    ) -> Result<(), ConfigError> {
        let id = self.peers.id_of(nid).ok_or(ConfigError::UnknownPeer(nid))?;
        let before = self.peers.get(id).map_or(health, |peer_ni| peer_ni.health);
        self.peers.set_health(id, health);
        self.peer_health_happened(id, before, HealthCause::Administrator);
        if health.is_full() {
            self.leave_recovery(RecoveryTarget::Peer(id));
        } else {
            let at = now + std::time::Duration::from_secs(1);
            self.begin_recovery_at(RecoveryTarget::Peer(id), at);
        }
        Ok(())
    }

    pub(crate) fn set_all_peer_health(&mut self, health: Health, now: Time) {
        let nids: Vec<Nid> = self.peers.iter().map(|peer_ni| peer_ni.nid).collect();
        for nid in nids {
            // The NIDs come from the table, so none is unknown.
            let _known = self.set_peer_ni_health(nid, health, now);
        }
    }

    /// Returns whether an interface has a fatal error. Such an interface ranks last anyway, and its failures say nothing
    /// about the time after the link has returned. Kernels lower its health, too.
    // [HEALTH-33]
    pub(crate) fn is_fatal(&self, id: NiId) -> bool {
        let is_fatal = self.nis.get(id).is_some_and(|ni| ni.fatal);
        is_fatal && self.globals().profile != Profile::Lustre
    }

    /// Returns whether a failure may lower the health of this peer NI. If the peer has no other interface, a
    /// lower health would not change any path.
    // [HEALTH-14]
    pub(crate) fn may_lower_health(&self, id: PeerNiId) -> bool {
        self.peers.get(id).is_some_and(|peer_ni| {
            let routes = self.ground.config.routing || self.is_gateway(peer_ni);
            routes || self.peers.interfaces_beside(peer_ni) > 1
        })
    }

    fn is_gateway(&self, peer_ni: &PeerNi) -> bool {
        self.peers
            .owner(peer_ni)
            .is_some_and(|peer| peer.routes > 0)
    }

    /// Lowers the health of a next hop after a response to a message sent through it did not come in time.
    // [HEALTH-18]
    pub(crate) fn no_response_through(&mut self, nid: Nid, now: Time) {
        if let Some(id) = self.peers.id_of(nid) {
            self.lower_peer_ni(id, HealthCause::NoResponse, now);
        }
        self.note_no_answer_through(nid, now);
    }

    /// Counts a message through this gateway that was not answered. The checker pings the gateway to find out whether
    /// the gateway is the cause, unless it has just done so.
    pub(crate) fn note_no_answer_through(&mut self, gateway: Nid, now: Time) {
        let Some(peer) = self.owner_of_mut(gateway) else {
            return;
        };
        peer.silent = peer.silent.saturating_add(1);
        for nid in peer.nids.clone() {
            self.check_soon(nid, now);
        }
    }

    /// Resets the count of unanswered messages, because a complete message arrived through this gateway.
    pub(crate) fn note_received_through(&mut self, gateway: Nid) {
        if let Some(peer) = self.owner_of_mut(gateway) {
            peer.silent = 0;
        }
    }

    fn owner_of_mut(&mut self, nid: Nid) -> Option<&mut Peer> {
        let id = self.peers.id_of(nid)?;
        self.peers.owner_mut(id)
    }

    /// Raises health after a complete message was received.
    // [HEALTH-20] [HEALTH-21] [RECOV-8] [RECOV-9]
    pub(crate) fn update_health_on_receive(&mut self, ni: NiId, sender: Nid, now: Time) {
        if ni == NiId::LOOPBACK {
            return;
        }
        self.raise_ni(ni, HealthCause::Received);
        let Some(id) = self.peers.id_of(sender) else {
            return;
        };
        if let Some(ni) = self.nis.get_mut(ni) {
            ni.recovery.ping_count = 0;
        }
        let Some(peer_ni) = self.peers.get_mut(id) else {
            return self.broken("a peer that was found by its NID");
        };
        peer_ni.recovery.ping_count = 0;
        let health = peer_ni.health;
        let sensitivity = self.globals().health_sensitivity;
        if health.is_full() || sensitivity == 0 {
            return;
        }
        let trusted = self.ground.config.routing
            || self
                .peers
                .get(id)
                .is_some_and(|peer_ni| self.is_gateway(peer_ni));
        let raised = if trusted {
            Health::MAX
        } else {
            health.raised(sensitivity)
        };
        self.peers.set_health(id, raised);
        self.report_peer_health(id, health, HealthCause::Received);
        self.watch_peer_ni(id, raised, now);
    }

    fn watch_peer_ni(&mut self, id: PeerNiId, health: Health, now: Time) {
        if health.is_full() {
            self.leave_recovery(RecoveryTarget::Peer(id));
        } else {
            self.enter_recovery(RecoveryTarget::Peer(id), now);
        }
    }

    /// Raises the health of a local interface after a success.
    pub(crate) fn raise_ni(&mut self, id: NiId, cause: HealthCause) {
        let sensitivity = self.globals().health_sensitivity;
        let Some(ni) = self.nis.get_mut(id) else {
            return;
        };
        if sensitivity == 0 || ni.health.is_full() {
            return;
        }
        let (nid, before) = (ni.nid, ni.health);
        let health = before.raised(sensitivity);
        ni.health = health;
        self.report_ni_health(nid, (before, health), cause);
        if health.is_full() {
            self.leave_recovery(RecoveryTarget::Ni(id));
            self.set_ni_status(id, true);
        }
    }

    // [HEALTH-4] [HEALTH-30]
    pub(crate) fn lower_ni(&mut self, id: NiId, status: MessageStatus, now: Time) {
        let sensitivity = self.globals().health_sensitivity;
        if sensitivity == 0 {
            return;
        }
        let Some(ni) = self.nis.get_mut(id) else {
            return;
        };
        let (nid, before) = (ni.nid, ni.health);
        let health = before.lowered(sensitivity);
        ni.health = health;
        if health == Health::ZERO {
            self.set_ni_status(id, false);
        }
        self.report_ni_health(nid, (before, health), HealthCause::Failed(status));
        self.enter_recovery(RecoveryTarget::Ni(id), now);
    }

    /// Returns whether local failures, network timeouts included, leave the health of a node's only interface beside
    /// loopback unchanged, as in kernels up to 2.16.
    // [HEALTH-15]
    pub(crate) fn spares_only_ni(&self) -> bool {
        self.globals().profile == Profile::Lustre && self.nis.real().len() <= 1
    }

    /// Sets the advertised status. It changes only when health reaches 0 or its maximum.
    fn set_ni_status(&mut self, id: NiId, up: bool) {
        let Some(ni) = self.nis.get_mut(id).filter(|ni| ni.status_up != up) else {
            return;
        };
        ni.status_up = up;
        self.own.changes(Outdated::Interfaces);
    }

    // [HEALTH-4] [HEALTH-17]
    pub(crate) fn lower_peer_ni(&mut self, id: PeerNiId, cause: HealthCause, now: Time) {
        let globals = self.globals();
        let Some(peer_ni) = self.peers.get(id) else {
            return;
        };
        let own = self.nis.by_nid(peer_ni.nid).is_some();
        if globals.health_sensitivity == 0 || own {
            return;
        }
        let before = peer_ni.health;
        let health = before.lowered(self.decrement_of(peer_ni));
        self.peers.set_health(id, health);
        self.report_peer_health(id, before, cause);
        self.enter_recovery(RecoveryTarget::Peer(id), now);
    }

    /// Sets the status of a peer's interface to what the peer's node said. An interface that goes down loses health
    /// once. An interface from which nothing was ever received, such as one on a net behind routers, is not pinged
    /// itself: its recovery pings another interface of its node. When the node says that the interface is up, the
    /// interface regains that health.
    // [HEALTH-34] [HEALTH-35]
    pub(crate) fn set_peer_ni_status(&mut self, nid: Nid, up: bool, now: Time) {
        let Some(id) = self.peers.id_of(nid) else {
            return;
        };
        let Some(peer_ni) = self.peers.get_mut(id) else {
            return self.broken("a peer that was found by its NID");
        };
        let was_up = std::mem::replace(&mut peer_ni.status_up, up);
        let is_unheard = peer_ni.last_alive.is_none();
        match (was_up, up) {
            (true, false) => self.lower_peer_ni(id, HealthCause::Told, now),
            (false, true) if is_unheard => self.restore_decrement(id),
            _ => {}
        }
    }

    /// Restores the health that one failure took.
    fn restore_decrement(&mut self, id: PeerNiId) {
        let Some(peer_ni) = self.peers.get(id) else {
            return;
        };
        let before = peer_ni.health;
        let health = before.raised(self.decrement_of(peer_ni));
        self.peers.set_health(id, health);
        self.report_peer_health(id, before, HealthCause::Told);
        if health.is_full() {
            self.leave_recovery(RecoveryTarget::Peer(id));
        }
    }

    /// Returns how much health a failure takes from a peer interface.
    // [HEALTH-19]
    fn decrement_of(&self, peer_ni: &PeerNi) -> u16 {
        let globals = self.globals();
        if self.is_gateway(peer_ni) {
            globals.gateway_sensitivity
        } else {
            globals.health_sensitivity
        }
    }
}
