//! Applies new rules to many peers, some at a time.
//!
//! A node may know a hundred thousand peer interfaces, and nothing is sent while the core is busy. So a change of
//! rules is made in two parts:
//!
//! ```text
//!  release_rules_in_steps   compiled; local nets, local NIs, gateways ── in force
//!  apply_rules_step …       peer interfaces, `count` per step, until there are no more
//! ```
//!
//! After the first part no message uses the old rules: if no step has updated the target of a message yet, the target
//! is updated when the path is chosen.

use lnet_types::Nid;
use smallvec::SmallVec;

use crate::fabric::Fabric;
use crate::fabric::peer::PeerNi;
use crate::fabric::select::PathRequest;
use crate::ground::ids::PeerNiId;

impl super::Policies {
    /// Starts a new round: the effective values that peers hold are outdated.
    pub(super) fn begin_round(&mut self) {
        // The number wraps after 2^32 changes, so that two rounds with the same number are far apart.
        self.round = self.round.wrapping_add(1);
        self.forget_lists();
    }

    /// Returns whether this peer interface holds the effective values of the present rules.
    pub(super) fn is_up_to_date(&self, peer_ni: &PeerNi) -> bool {
        peer_ni.rules_round == self.round
    }
}

impl Fabric {
    pub(crate) fn release_rules_in_steps(&mut self) {
        self.policies.held = false;
        if !std::mem::take(&mut self.policies.missed) {
            return;
        }
        let were_any = !self.policies.compiled.is_empty();
        self.compile_rules();
        if !were_any && self.policies.compiled.is_empty() {
            // Neither the new nor the old rules apply to anything.
            return;
        }
        self.policies.begin_round();
        self.policies.next_slot = Some(0);
        // Any message may be routed, so gateways are updated at once.
        let gateways: Vec<Nid> = self.routes.gateways().collect();
        for gateway in gateways {
            self.bring_up_to_date(gateway);
        }
    }

    pub(crate) fn apply_rules_step(&mut self, count: usize) -> bool {
        let Some(from) = self.policies.next_slot else {
            return false;
        };
        let to = from.saturating_add(count.max(1));
        let Some(in_slots) = self.peers.in_slots(from..to) else {
            self.policies.next_slot = None;
            return false;
        };
        let behind: Vec<Nid> = in_slots
            .filter(|peer_ni| !self.policies.is_up_to_date(peer_ni))
            .map(|peer_ni| peer_ni.nid)
            .collect();
        for nid in behind {
            if let Some(id) = self.peers.id_of(nid) {
                self.apply_rules_to(id);
            }
        }
        self.policies.next_slot = Some(to);
        let are_more = self.peers.in_slots(to..to.saturating_add(1)).is_some();
        if !are_more {
            self.policies.next_slot = None;
        }
        are_more
    }

    /// Updates the target of a message if no step has updated it yet. A response needs no update: it goes back by the
    /// path of its request, whatever the rules are.
    pub(crate) fn bring_target_up_to_date(&mut self, send: &PathRequest) {
        match send {
            _ if self.policies.next_slot.is_none() => {}
            PathRequest::Request(request) => self.bring_up_to_date(request.target.nid),
            PathRequest::Forward { target, .. } => self.bring_up_to_date(target.nid),
            PathRequest::Response { .. } => {}
        }
    }

    /// Updates all interfaces of the peer with this NID.
    fn bring_up_to_date(&mut self, nid: Nid) {
        let nids: SmallVec<[Nid; 8]> = match self.peers.owner_of(nid) {
            Some(owner) => owner.nids.iter().copied().collect(),
            None => std::iter::once(nid).collect(),
        };
        let behind: SmallVec<[PeerNiId; 8]> = nids
            .into_iter()
            .filter_map(|nid| self.peers.id_of(nid))
            .filter(|&id| {
                let peer_ni = self.peers.get(id);
                peer_ni.is_some_and(|peer_ni| !self.policies.is_up_to_date(peer_ni))
            })
            .collect();
        for id in behind {
            self.apply_rules_to(id);
        }
    }
}
