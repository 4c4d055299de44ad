//! The node's selection rules, and their effective values for its interfaces and peers. The rules are in
//! `docs/selection/policies.md`.
//!
//! The effective values of an object follow from the rules, the profile, the local NIDs, the gateways and the object
//! itself. They are computed when one of these changes, and are stored with the object. So selection only reads
//! numbers and matches no rule:
//!
//! ```text
//!  rule, profile ──┐
//!  local NI ───────┼──▶ compile ──▶ local nets, local NIs ──▶ all peers, if anything changes for them
//!  gateway ────────┘
//!  peer NI, peer net ─────────────▶ this peer
//! ```
//!
//! Many peers are updated in several steps; see [`steps`].

pub(in crate::fabric) mod steps;

use lnet_policy::{
    Added, Effective, Gateway, PeerNiEffect, Policy, PolicyError, PreferredList, Priority, Profile,
    Rule, RuleList,
};
use lnet_types::{Nid, Time};
use rustc_hash::FxHashMap;

use crate::fabric::Fabric;
use crate::fabric::ni::Ni;
use crate::fabric::peer::PeerNi;
use crate::fabric::select::PathRequest;
use crate::ground::ids::PeerNiId;

/// Name of a list of preferred local interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceListId(u64);

impl SourceListId {
    /// The list that prefers no interface.
    pub(in crate::fabric) const NONE: Self = Self(0);
}

/// The limit of distinct lists. When it is reached, all lists are made again, without those that no peer uses any
/// more.
const LISTS_MAX: usize = 1 << 16;

/// A preferred list in the form that selection reads: the rank of a local interface is at the interface's slot.
#[derive(Debug)]
struct SourceList {
    list: PreferredList,
    ranks: Box<[Priority]>,
}

/// The content by which preferred lists are compared.
type ListKey = Box<[(Nid, Priority, usize)]>;

/// The rules, their compiled form, and the preferred lists that were made from them.
#[derive(Debug)]
pub(crate) struct Policies {
    rules: RuleList,
    compiled: Policy,
    lists: Vec<SourceList>,
    by_content: FxHashMap<ListKey, SourceListId>,
    /// True while a caller makes several changes; the rules are applied after the last one.
    held: bool,
    /// True if something changed meanwhile, so that the rules must be applied.
    missed: bool,
    /// The number of the present round: a round applies the rules to all peers.
    round: u32,
    /// The first slot from which peer interfaces may lack the effective values of the present rules; `None` if all
    /// have them.
    next_slot: Option<usize>,
    /// The name of the first list. Names below it are from earlier rounds and stand for no list.
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

    /// Returns the rules, in their order.
    pub(crate) fn rules(&self) -> &RuleList {
        &self.rules
    }

    /// Returns how often the rules have changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the rank of a local interface on this list.
    pub(in crate::fabric) fn rank(&self, list: SourceListId, ni: &Ni) -> Priority {
        let entry = self.list_of(list);
        let rank = entry.and_then(|entry| entry.ranks.get(ni.slot));
        rank.copied().unwrap_or(Priority::NONE)
    }

    /// Returns the entries of a list, with the rules that they come from.
    pub(crate) fn list(&self, list: SourceListId) -> Option<&PreferredList> {
        self.list_of(list).map(|entry| &entry.list)
    }

    fn list_of(&self, list: SourceListId) -> Option<&SourceList> {
        let at = list.0.checked_sub(self.first_list)?;
        self.lists.get(usize::try_from(at).ok()?)
    }

    /// Returns the effective values of the rules for a NID that is not in the peer table; `None` if there are no
    /// rules. Slow, because it copies the compiled rules. Only queries, which change nothing, use it: before a message
    /// is sent, its destination is entered into the table
    /// ([`Fabric::ensure_target_known`](crate::fabric::Fabric::ensure_target_known)).
    pub(in crate::fabric) fn of_stranger(&self, nid: Nid) -> Option<PeerNiEffect> {
        let any = !self.rules.rules().is_empty();
        any.then(|| self.compiled.clone().peer_ni(nid, false))
    }

    /// Returns whether the rules are held, so that they are applied only after the last change; notes a change that
    /// came meanwhile.
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

impl Fabric {
    pub(crate) fn add_rule(
        &mut self,
        rule: Rule,
        before: Option<usize>,
    ) -> Result<Added, PolicyError> {
        let added = self.policies.rules.add(rule, before)?;
        self.rules_changed();
        Ok(added)
    }

    pub(crate) fn delete_rule(&mut self, index: usize) -> Result<Rule, PolicyError> {
        let deleted = self.policies.rules.delete(index)?;
        self.rules_changed();
        Ok(deleted)
    }

    pub(crate) fn clear_rules(&mut self) {
        self.policies.rules.clear();
        self.rules_changed();
    }

    pub(crate) fn set_rules(&mut self, rules: RuleList) {
        self.policies.rules = rules;
        self.rules_changed();
    }

    pub(crate) fn hold_rules(&mut self) {
        self.policies.held = true;
    }

    pub(crate) fn release_rules(&mut self) {
        self.policies.held = false;
        self.apply_rules();
        self.apply_rules_to_peers();
    }

    fn rules_changed(&mut self) {
        self.policies.changes += 1;
        self.apply_rules();
    }

    /// Applies the rules after a rule, the profile, a local interface or a gateway has changed.
    // [UDSP-34]
    pub(crate) fn apply_rules(&mut self) {
        if self.policies.is_held() {
            return;
        }
        let same = self.compile_rules();
        // A list names interfaces by their slots, and the removal of an interface moves slots.
        if !same || !self.policies.lists.is_empty() {
            self.apply_rules_to_peers();
        }
    }

    /// Compiles the rules and applies them to local nets and interfaces. Returns whether the rules say the same about
    /// peers as before.
    fn compile_rules(&mut self) -> bool {
        let profile = self.globals().profile;
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

    /// Applies the rules after a peer was configured or became a gateway. Lists of other peers may name a gateway, so
    /// that a change of a gateway applies the rules to all.
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

    /// Applies the rules to a peer NI that is new or belongs to another peer now.
    pub(in crate::fabric) fn apply_rules_to(&mut self, id: PeerNiId) {
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

    /// Returns the effective values of the rules for the net of a peer NI.
    pub(crate) fn effective_of_peer_net(&self, peer_ni: &PeerNi) -> Effective {
        let on = self
            .peers
            .owner(peer_ni)
            .and_then(|peer| peer.on_net(peer_ni.nid.net()));
        on.map_or(Effective::NONE, |on| on.priority)
    }

    /// Enters the destination of a message into the peer table before its path is selected, so that the rules hold for
    /// the first message, too. If no rule exists, the destination is entered when the path is taken.
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
        // If the table has no room, the message is rejected when it takes its path.
        let _known = self.peer_ni(nid, now);
    }

    /// Returns the peer NI with this NID. A missing peer NI is created, and the rules are applied to it. Returns
    /// `None` if the table is full and no entry may be removed.
    // [PEER-1]
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
