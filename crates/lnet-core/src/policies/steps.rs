//! New rules for many peers, a few at a time.
//!
//! A node may know a hundred thousand peer interfaces, and nothing is sent while the core is busy. So a
//! change of rules is made in two parts:
//!
//! ```text
//!  release_rules_in_steps   compiled; local nets, local NIs, gateways ── in force
//!  apply_rules_step …       peer interfaces, so many a step, until there are no more
//! ```
//!
//! No message sees the rules before once the first part is done: what it is going to is looked at when
//! its path is chosen, if no step has come there yet.

use lnet_types::Nid;
use smallvec::SmallVec;

use crate::Core;
use crate::peer::{PeerNi, PeerNiId};
use crate::record::Input;
use crate::select::PathRequest;

impl Core {
    /// As [`Core::release_rules`], but that peers are left to [`Core::apply_rules_step`], which is to be
    /// called until it says that there are no more. What [`Core::peers`] tells of the rules may be that
    /// of the rules before until then; where messages go is not.
    pub fn release_rules_in_steps(&mut self) {
        let input = self.noted(|| Input::ReleaseRulesInSteps);
        self.take_in(input, |core| core.release_rules_in_steps_unrecorded());
    }

    fn release_rules_in_steps_unrecorded(&mut self) {
        self.policies.held = false;
        if !std::mem::take(&mut self.policies.missed) {
            return;
        }
        let were_any = !self.policies.compiled.is_empty();
        self.compile_rules();
        if !were_any && self.policies.compiled.is_empty() {
            // They say nothing of anybody, and have said nothing before.
            return;
        }
        self.policies.begin_round();
        self.policies.next_slot = Some(0);
        // Any message may be routed.
        let gateways: Vec<Nid> = self.routes.gateways().collect();
        for gateway in gateways {
            self.bring_up_to_date(gateway);
        }
    }

    /// Applies the rules to `count` more peer interfaces, or places where some may be. True when there
    /// are more.
    pub fn apply_rules_step(&mut self, count: usize) -> bool {
        let input = self.noted(|| Input::ApplyRulesStep { count });
        self.take_in(input, |core| core.apply_rules_step_unrecorded(count))
    }

    fn apply_rules_step_unrecorded(&mut self, count: usize) -> bool {
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

    /// No step may have come yet to what a message is going to. An answer goes back the way that its
    /// request came, whatever the rules are.
    pub(crate) fn bring_target_up_to_date(&mut self, send: &PathRequest) {
        match send {
            _ if self.policies.next_slot.is_none() => {}
            PathRequest::Request(request) => self.bring_up_to_date(request.target.nid),
            PathRequest::Forward { target, .. } => self.bring_up_to_date(target.nid),
            PathRequest::Response { .. } => {}
        }
    }

    /// The peer with this NID, with all of its interfaces.
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

impl super::Policies {
    /// What the rules have said of peers is no longer so.
    pub(super) fn begin_round(&mut self) {
        // Two to the power of 32 changes lie between two rounds with the same number.
        self.round = self.round.wrapping_add(1);
        self.forget_lists();
    }

    /// Whether what is kept with this peer interface is what the present rules say.
    pub(super) fn is_up_to_date(&self, peer_ni: &PeerNi) -> bool {
        peer_ni.rules_round == self.round
    }
}
