//! The node's selection rules, and what they say of its interfaces and peers (section 4.4 of
//! lnet-selection).
//!
//! Effective values are a function of the rules, the profile, the local NIDs, the gateways and the
//! object; they are computed when one of these changes and kept with the object, so that selection
//! reads numbers and never matches anything:
//!
//! ```text
//!  rule, profile ──┐
//!  local NI ───────┼──▶ compile ──▶ local nets, local NIs ──▶ all peers, if anything changes for them
//!  gateway ────────┘
//!  peer NI, peer net ─────────────▶ this peer
//! ```
//!
//! Many peers are looked at in several steps, by [`steps`].

mod steps;

use lnet_policy::{
    Added, Effective, Gateway, PeerNiEffect, Policy, PolicyError, PreferredList, Priority, Profile,
    Rule, RuleList,
};
use lnet_types::{Nid, Time};
use rustc_hash::FxHashMap;

use crate::Core;
use crate::ni::Ni;
use crate::peer::{PeerNi, PeerNiId};
use crate::record::Input;
use crate::select::PathRequest;

/// Names a list of preferred local interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceListId(u64);

impl SourceListId {
    /// No interface is preferred.
    pub(crate) const NONE: Self = Self(0);
}

/// Distinct lists; with more, all are made again, without those that no peer uses any more.
const LISTS_MAX: usize = 1 << 16;

/// A preferred list as selection reads it: by the slot of a local interface.
#[derive(Debug)]
struct SourceList {
    list: PreferredList,
    ranks: Box<[Priority]>,
}

/// What an entry of a preferred list is compared by.
type ListKey = Box<[(Nid, Priority, usize)]>;

/// The rules and what is kept of them.
#[derive(Debug)]
pub(crate) struct Policies {
    rules: RuleList,
    compiled: Policy,
    lists: Vec<SourceList>,
    by_content: FxHashMap<ListKey, SourceListId>,
    /// Several changes are being made; the rules are applied after the last one.
    held: bool,
    /// Something has changed meanwhile that the rules must be applied for.
    missed: bool,
    /// Numbers what is made of the rules for peers.
    round: u32,
    /// The peer interfaces from this slot on may not know the present rules; `None`: all do.
    next_slot: Option<usize>,
    /// The name of the first list: names of lists of earlier rounds are those of none.
    first_list: u64,
    /// How often the rules have changed.
    changes: u64,
}

impl Policies {
    pub(crate) fn new(profile: Profile) -> Self {
        let rules = RuleList::new();
        Self {
            compiled: Policy::new(&rules, profile, &[], &[]),
            rules,
            lists: Vec::new(),
            by_content: FxHashMap::default(),
            held: false,
            missed: false,
            round: 0,
            next_slot: None,
            first_list: 1,
            changes: 0,
        }
    }

    /// How much a local interface is preferred on this list.
    pub(crate) fn rank(&self, list: SourceListId, ni: &Ni) -> Priority {
        let entry = self.list_of(list);
        let rank = entry.and_then(|entry| entry.ranks.get(ni.slot));
        rank.copied().unwrap_or(Priority::NONE)
    }

    /// The entries of a list, with the rules they come from.
    pub(crate) fn list(&self, list: SourceListId) -> Option<&PreferredList> {
        self.list_of(list).map(|entry| &entry.list)
    }

    fn list_of(&self, list: SourceListId) -> Option<&SourceList> {
        let at = list.0.checked_sub(self.first_list)?;
        self.lists.get(usize::try_from(at).ok()?)
    }

    /// What the rules say of a peer interface that is not known; `None`: nothing. Slow, for the copy:
    /// a message makes its destination known before it asks ([`Core::ensure_target_known`]), so that this is only
    /// for questions, which change nothing.
    pub(crate) fn of_stranger(&self, nid: Nid) -> Option<PeerNiEffect> {
        let any = !self.rules.rules().is_empty();
        any.then(|| self.compiled.clone().peer_ni(nid, false))
    }

    /// Whether the rules are not to be applied now, but when all changes are made.
    fn is_held(&mut self) -> bool {
        self.missed |= self.held;
        self.held
    }

    fn intern(&mut self, list: &PreferredList, nis: &[Ni]) -> SourceListId {
        if list.is_empty() {
            return SourceListId::NONE;
        }
        let entries = list.entries().iter();
        let key: ListKey = entries.map(|e| (e.nid, e.rank, e.set_by)).collect();
        if let Some(&known) = self.by_content.get(&key) {
            return known;
        }
        let id = SourceListId(self.first_list + self.lists.len() as u64);
        self.lists.push(SourceList {
            list: list.clone(),
            ranks: nis.iter().map(|ni| list.rank_of(ni.nid)).collect(),
        });
        self.by_content.insert(key, id);
        id
    }

    fn forget_lists(&mut self) {
        self.first_list += self.lists.len() as u64;
        self.lists.clear();
        self.by_content.clear();
    }
}

impl Core {
    /// The selection rules, in their order.
    #[must_use]
    pub fn rules(&self) -> &RuleList {
        &self.policies.rules
    }

    /// How often the rules have changed: two equal numbers mean that they have not meanwhile.
    #[must_use]
    pub fn rule_changes(&self) -> u64 {
        self.policies.changes
    }

    /// Adds a selection rule before the one that now has index `before`, or at the end; one with the
    /// same descriptors takes the new value. All effective values follow at once.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Exists`], [`PolicyError::TooMany`]; nothing has changed then.
    pub fn add_rule(&mut self, rule: Rule, before: Option<usize>) -> Result<Added, PolicyError> {
        let input = self.noted(|| Input::AddRule {
            rule: Box::new(rule.clone()),
            before,
        });
        self.take_in(input, |core| core.add_rule_unrecorded(rule, before))
    }

    fn add_rule_unrecorded(
        &mut self,
        rule: Rule,
        before: Option<usize>,
    ) -> Result<Added, PolicyError> {
        let added = self.policies.rules.add(rule, before)?;
        self.rules_changed();
        Ok(added)
    }

    /// Deletes a selection rule; what it hid comes into force.
    ///
    /// # Errors
    ///
    /// [`PolicyError::NotFound`].
    pub fn delete_rule(&mut self, index: usize) -> Result<Rule, PolicyError> {
        let input = self.noted(|| Input::DeleteRule { index });
        self.take_in(input, |core| core.delete_rule_unrecorded(index))
    }

    fn delete_rule_unrecorded(&mut self, index: usize) -> Result<Rule, PolicyError> {
        let deleted = self.policies.rules.delete(index)?;
        self.rules_changed();
        Ok(deleted)
    }

    /// Deletes all selection rules.
    pub fn clear_rules(&mut self) {
        let input = self.noted(|| Input::ClearRules);
        self.take_in(input, |core| core.clear_rules_unrecorded());
    }

    fn clear_rules_unrecorded(&mut self) {
        self.policies.rules.clear();
        self.rules_changed();
    }

    /// Puts another list of rules in place of the present one.
    pub fn set_rules(&mut self, rules: RuleList) {
        let input = self.noted(|| Input::SetRules {
            rules: rules.clone(),
        });
        self.take_in(input, |core| core.set_rules_unrecorded(rules));
    }

    fn set_rules_unrecorded(&mut self, rules: RuleList) {
        self.policies.rules = rules;
        self.rules_changed();
    }

    fn rules_changed(&mut self) {
        self.policies.changes += 1;
        self.apply_rules();
    }

    /// Several changes follow that are to be one: the rules are not applied until
    /// [`Core::release_rules`]. Nothing may be sent meanwhile. Without this, a thousand routes apply a
    /// thousand rules a thousand times.
    pub fn hold_rules(&mut self) {
        let input = self.noted(|| Input::HoldRules);
        self.take_in(input, |core| core.hold_rules_unrecorded());
    }

    fn hold_rules_unrecorded(&mut self) {
        self.policies.held = true;
    }

    /// The changes are made: the rules are applied to everything.
    pub fn release_rules(&mut self) {
        let input = self.noted(|| Input::ReleaseRules);
        self.take_in(input, |core| core.release_rules_unrecorded());
    }

    fn release_rules_unrecorded(&mut self) {
        self.policies.held = false;
        self.apply_rules();
        self.apply_rules_to_peers();
    }

    /// A rule, the profile, a local interface or a gateway has changed.
    pub(crate) fn apply_rules(&mut self) {
        if self.policies.is_held() {
            return;
        }
        let same = self.compile_rules();
        // A list names interfaces by their slots, which an interface that goes moves.
        if !same || !self.policies.lists.is_empty() {
            self.apply_rules_to_peers();
        }
    }

    /// Compiles the rules and applies them to what is local. True when they say the same of peers as
    /// before.
    fn compile_rules(&mut self) -> bool {
        let profile = self.config.globals.profile;
        let nids: Vec<Nid> = self.nis.real().iter().map(|ni| ni.nid).collect();
        let gateways = self.gateways_for_rules();
        let compiled = Policy::new(&self.policies.rules, profile, &nids, &gateways);
        let same = compiled.same_for_peers(&self.policies.compiled);
        self.policies.compiled = compiled;
        for ni in self.nis.real_mut() {
            ni.priority = self.policies.compiled.local_ni(ni.nid);
        }
        for state in self.nis.nets_mut() {
            state.priority = self.policies.compiled.local_net(state.net);
        }
        same
    }

    fn gateways_for_rules(&self) -> Vec<Gateway> {
        let mut gateways: Vec<Gateway> = Vec::new();
        for nid in self.routes.gateways() {
            let primary = self.peers.primary_of(nid);
            if gateways.iter().any(|known| known.primary == primary) {
                continue;
            }
            let nids = self.peers.peer(primary).map(|peer| peer.nids.clone());
            let others = nids.into_iter().flatten().filter(|&nid| nid != primary);
            gateways.push(Gateway {
                primary,
                others: others.collect(),
            });
        }
        gateways
    }

    fn apply_rules_to_peers(&mut self) {
        self.policies.begin_round();
        let ids: Vec<PeerNiId> = self.peers.ids().collect();
        for id in ids {
            self.apply_rules_to(id);
        }
        self.policies.next_slot = None;
    }

    /// A peer was configured, or has become a gateway; then lists of other peers may name it.
    pub(crate) fn apply_rules_to_peer(&mut self, primary: Nid) {
        let Some(peer) = self.peers.peer(primary) else {
            return;
        };
        if self.policies.is_held() {
            return;
        }
        let (nets, is_gateway) = (peer.nets.clone(), peer.routes > 0);
        if is_gateway {
            self.apply_rules();
        }
        for id in nets.iter().flat_map(|on| on.nis.iter().copied()) {
            self.apply_rules_to(id);
        }
    }

    /// A peer NI is new, or its peer has become another one.
    pub(crate) fn apply_rules_to(&mut self, id: PeerNiId) {
        if self.policies.is_held() {
            return;
        }
        let Some(peer_ni) = self.peers.get(id) else {
            return;
        };
        let nid = peer_ni.nid;
        let multi_rail = self
            .peers
            .owner(peer_ni)
            .is_some_and(|peer| peer.multi_rail);
        let effect = self.policies.compiled.peer_ni(nid, multi_rail);
        let of_net = self.policies.compiled.peer_net(nid.net());
        let sources = self.policies.intern(&effect.sources, self.nis.all());
        let round = self.policies.round;
        if let Some(peer_ni) = self.peers.get_mut(id) {
            peer_ni.rules_round = round;
            peer_ni.priority = effect.priority;
            peer_ni.sources = sources;
            peer_ni.gateways = Some(effect.gateways).filter(|list| !list.is_empty());
        }
        if let Some(peer) = self.peers.owner_mut(id)
            && let Some(on) = peer.nets.iter_mut().find(|on| on.net == nid.net())
        {
            on.priority = of_net;
        }
    }

    /// What the rules say of the net of a peer NI.
    pub(crate) fn effective_of_peer_net(&self, peer_ni: &PeerNi) -> Effective {
        let on = self
            .peers
            .owner(peer_ni)
            .and_then(|peer| peer.on_net(peer_ni.nid.net()));
        on.map_or(Effective::NONE, |on| on.priority)
    }

    /// Makes the destination of a message known before its path is chosen, so that the rules hold for
    /// the first message, too. What no rule can be about becomes known with the path.
    pub(crate) fn ensure_target_known(&mut self, send: &PathRequest, now: Time) {
        self.bring_target_up_to_date(send);
        if self.policies.rules.rules().is_empty() {
            return;
        }
        let nid = match send {
            PathRequest::Request(request) if self.view().is_for_peer(request) => request.target.nid,
            PathRequest::Forward { target, .. } => target.nid,
            PathRequest::Request(_) | PathRequest::Response { .. } => return,
        };
        // Without room for it the message is refused when it takes its path.
        let _known = self.peer_ni(nid, now);
    }

    /// The peer NI with this NID, created if need be, with what the rules say of it; `None` when the
    /// table is full and nothing may be forgotten.
    pub(crate) fn peer_ni(&mut self, nid: Nid, now: Time) -> Option<PeerNiId> {
        if let Some(id) = self.peers.touch(nid, now) {
            return Some(id);
        }
        let id = self.peers.create(nid, now)?;
        if self.policies.lists.len() >= LISTS_MAX {
            self.apply_rules_to_peers();
        } else if !self.policies.rules.rules().is_empty() {
            self.apply_rules_to(id);
        }
        Some(id)
    }
}
