//! Rules compiled for the local interfaces and gateways.
//!
//! The answer of a [`Policy`] for a net or a NID depends only on that net or NID and on the rules,
//! the profile, the local NIDs and the gateways that the policy was made from. It does not depend
//! on earlier calls, so a new peer NI needs one call. After a change of a rule, a local NI or a
//! gateway, make a new policy; [`Policy::same_for_peers`] returns whether the values of peers may
//! have changed.

use lnet_types::expr::Descriptor;
use lnet_types::{Net, Nid};
use rustc_hash::FxHashMap;

use crate::list::RuleList;
use crate::matcher::{AddressTable, RuleSet};
use crate::preferred::PreferredList;
use crate::priority::Priority;
use crate::rule::{Profile, Rule, RuleKind, Selector, matches_net, matches_nid};
use crate::topology::Gateway;

/// The most nets, and the most combinations of list rules, whose answers are cached. The limit
/// keeps the memory small for any number of peers.
const MEMO_MAX: usize = 4096;

/// A priority and the rule it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The priority.
    pub priority: Priority,
    /// Index of the rule that set it; `None` exactly when the priority is [`Priority::NONE`].
    pub set_by: Option<usize>,
}

impl Effective {
    /// No rule.
    pub const NONE: Self = Self {
        priority: Priority::NONE,
        set_by: None,
    };
}

/// The values that the rules give to a peer NI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerNiEffect {
    /// Its priority among the NIs of its net.
    pub priority: Effective,
    /// The local NIDs preferred for it.
    pub sources: PreferredList,
    /// The gateways preferred for messages to this peer NI, by primary NID.
    pub gateways: PreferredList,
}

/// The rules that match by the net of a peer.
#[derive(Clone, Debug)]
struct NetMatch {
    /// The rules whose `dst` is a net that covers it.
    by_net: RuleSet,
    /// The rules whose `dst` is a NID expression whose net part covers it.
    by_net_part: RuleSet,
}

/// Compiled rules.
///
/// ```
/// use lnet_policy::{Policy, Priority, Profile, Rule, RuleList};
///
/// let mut rules = RuleList::new();
/// rules.add(Rule::remote("10.0.0.[1-4]@tcp".parse()?, Priority::BEST)?, None)?;
/// let mut policy = Policy::new(&rules, Profile::Design, &[], &[]);
/// let near = policy.peer_ni("10.0.0.3@tcp".parse()?, true);
/// assert_eq!((near.priority.priority, near.priority.set_by), (Priority::BEST, Some(0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    profile: Profile,
    rules: Vec<Rule>,
    /// By rule: the NIDs that it puts on preferred lists.
    listed: Vec<Vec<Nid>>,
    addresses: AddressTable,
    remote_nets: RuleSet,
    remote_nids: RuleSet,
    pairs: RuleSet,
    routers: RuleSet,
    nets: FxHashMap<Net, NetMatch>,
    lists: FxHashMap<RuleSet, PreferredList>,
    no_list: PreferredList,
    /// A buffer that is kept to avoid allocations.
    found: RuleSet,
    key: RuleSet,
}

impl Policy {
    /// Compiles `rules` for a node with these local NIDs and gateways, in this order.
    #[must_use]
    pub fn new(rules: &RuleList, profile: Profile, local: &[Nid], gateways: &[Gateway]) -> Self {
        let rules = rules.rules().to_vec();
        let listed: Vec<Vec<Nid>> = rules
            .iter()
            .map(|rule| listed_by(rule, local, gateways))
            .collect();
        let of_kinds = |kinds: &[RuleKind]| {
            RuleSet::of(rules.len(), |rule| {
                rules
                    .get(rule)
                    .is_some_and(|rule: &Rule| !rule.is_disabled() && kinds.contains(&rule.kind()))
            })
        };
        let addresses = rules.iter().enumerate().filter_map(|(index, rule)| {
            let [_, dst, _] = rule.selector().descriptors();
            match dst {
                Some(Descriptor::Nid(nid)) => Some((index, nid.address())),
                _ => None,
            }
        });
        Self {
            profile,
            addresses: AddressTable::new(rules.len(), addresses),
            remote_nets: of_kinds(&[RuleKind::RemoteNet]),
            remote_nids: of_kinds(&[RuleKind::RemoteNid]),
            pairs: of_kinds(&[RuleKind::NidPair, RuleKind::NetPair]),
            routers: of_kinds(&[RuleKind::Router]),
            nets: FxHashMap::default(),
            lists: FxHashMap::default(),
            no_list: PreferredList::empty(),
            found: RuleSet::new(rules.len()),
            key: RuleSet::new(rules.len()),
            listed,
            rules,
        }
    }

    /// Returns true if there are no rules; nothing then has a priority or a preferred list.
    // [UDSP-35]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The priority of a local net.
    #[must_use]
    pub fn local_net(&self, net: Net) -> Effective {
        self.first(|selector| matches!(selector, Selector::Local(local) if matches_net(local, net)))
    }

    /// The priority of a local NI. Rules for its net do not affect it.
    // [UDSP-5]
    #[must_use]
    pub fn local_ni(&self, nid: Nid) -> Effective {
        self.first(|selector| matches!(selector, Selector::Local(local) if matches_nid(local, nid)))
    }

    /// The priority of a net of a peer, which is the same for all peers.
    #[must_use]
    pub fn peer_net(&mut self, net: Net) -> Effective {
        self.remember(net);
        let found = self.nets.get(&net);
        let rule = found.and_then(|found| found.by_net.first_in(&self.remote_nets));
        self.effective(rule)
    }

    /// The values of an NI of a peer. `multi_rail` matters in the `lustre` profile, where a peer
    /// that is not Multi-Rail has at most one preferred local NID.
    // [UDSP-11]
    #[must_use]
    pub fn peer_ni(&mut self, nid: Nid, multi_rail: bool) -> PeerNiEffect {
        let found = self.collect(nid);
        let priority = self.effective(found.first_in(&self.remote_nids));
        let sources = self.list(&found, RuleKind::NidPair);
        let gateways = self.list(&found, RuleKind::Router);
        self.found = found;
        let sources = if self.profile.is_lustre() && !multi_rail {
            sources.cut(1)
        } else {
            sources
        };
        PeerNiEffect {
            priority,
            sources,
            gateways,
        }
    }

    /// Returns true if both policies give the same values to every peer net and peer NI. A change
    /// of local interfaces or gateways then needs no new values for peers.
    // [UDSP-34]
    #[must_use]
    pub fn same_for_peers(&self, other: &Self) -> bool {
        self.profile == other.profile && self.rules == other.rules && self.listed == other.listed
    }

    /// By rule: the local NIDs or gateways that it puts on preferred lists.
    pub(crate) fn listed(&self, rule: usize) -> &[Nid] {
        self.listed.get(rule).map_or(&[], Vec::as_slice)
    }

    /// The rules whose `dst` covers `nid` or its net.
    pub(crate) fn collect(&mut self, nid: Nid) -> RuleSet {
        let mut found = std::mem::take(&mut self.found);
        self.remember(nid.net());
        if let Some(net) = self.nets.get(&nid.net()) {
            found.set_to(&net.by_net);
            self.addresses.collect(nid, &net.by_net_part, &mut found);
        }
        found
    }

    /// The preferred list made by the pair rules or the router rules in `found`.
    fn list(&mut self, found: &RuleSet, kind: RuleKind) -> PreferredList {
        let mask = match kind {
            RuleKind::Router => &self.routers,
            _ => &self.pairs,
        };
        if found.first_in(mask).is_none() {
            return self.no_list.clone();
        }
        self.key.set_to_both(found, mask);
        if let Some(list) = self.lists.get(&self.key) {
            return list.clone();
        }
        let list = self.merged(&self.key);
        make_room(&mut self.lists);
        self.lists.insert(self.key.clone(), list.clone());
        list
    }

    // [UDSP-10]
    fn merged(&self, rules: &RuleSet) -> PreferredList {
        let entries = rules.iter().filter_map(|index| {
            let rule = self.rules.get(index)?;
            let rank = match self.profile {
                Profile::Design => rule.rank(),
                Profile::Lustre | Profile::Lustre217 => Priority::BEST,
            };
            let listed = self.listed(index);
            (!listed.is_empty()).then_some((index, rank, listed))
        });
        match self.profile {
            Profile::Design => PreferredList::merge(entries),
            // The rule of lowest index replaces the lists of the others.
            Profile::Lustre | Profile::Lustre217 => PreferredList::merge(entries.take(1)),
        }
    }

    /// Computes the rules for `net` if they are not cached.
    fn remember(&mut self, net: Net) {
        if self.nets.contains_key(&net) {
            return;
        }
        let by = |matches: fn(&Descriptor, Net) -> bool| {
            RuleSet::of(self.rules.len(), |index| {
                let dst = self.rules.get(index).and_then(|rule| {
                    let [_, dst, _] = rule.selector().descriptors();
                    dst
                });
                dst.is_some_and(|dst| matches(dst, net))
            })
        };
        let found = NetMatch {
            by_net: by(matches_net),
            by_net_part: by(
                |dst, net| matches!(dst, Descriptor::Nid(nid) if nid.net().matches(net)),
            ),
        };
        make_room(&mut self.nets);
        self.nets.insert(net, found);
    }

    /// The first enabled rule whose selector `matches`.
    // [UDSP-30]
    fn first(&self, matches: impl Fn(&Selector) -> bool) -> Effective {
        let mut rules = self.rules.iter();
        self.effective(rules.position(|rule| !rule.is_disabled() && matches(rule.selector())))
    }

    fn effective(&self, rule: Option<usize>) -> Effective {
        rule.and_then(|index| Some((index, self.rules.get(index)?)))
            .map_or(Effective::NONE, |(index, rule)| Effective {
                priority: rule.priority(),
                set_by: Some(index),
            })
    }
}

/// Clears the cache if it is full; its entries can be computed again.
fn make_room<K, V>(memo: &mut FxHashMap<K, V>) {
    if memo.len() >= MEMO_MAX {
        memo.clear();
    }
}

/// The NIDs that `rule` puts on preferred lists, in the order of the interfaces or gateways.
fn listed_by(rule: &Rule, local: &[Nid], gateways: &[Gateway]) -> Vec<Nid> {
    match rule.selector() {
        Selector::Pair { local: source, .. } => local
            .iter()
            .copied()
            .filter(|&nid| matches_nid(source, nid))
            .collect(),
        Selector::Router { gateway, .. } => gateways
            .iter()
            .filter(|candidate| candidate.nids().any(|nid| matches_nid(gateway, nid)))
            .map(|candidate| candidate.primary)
            .collect(),
        Selector::Local(_) | Selector::Remote(_) => Vec::new(),
    }
}
