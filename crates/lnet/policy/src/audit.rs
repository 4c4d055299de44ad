//! Which rules have an effect in a topology, and why the others have none.

use std::collections::BTreeSet;

use lnet_types::Nid;
use lnet_types::expr::Descriptor;
use rustc_hash::FxHashSet;

use crate::list::RuleList;
use crate::matcher::RuleSet;
use crate::policy::Policy;
use crate::rule::{Profile, Rule, RuleKind, Selector, matches_net, matches_nid};
use crate::topology::{Topology, nets};

/// The effect of a rule in a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleState {
    /// It sets at least one value.
    Live,
    /// It is disabled.
    Disabled,
    /// The rule cannot set anything in any topology.
    Inert(Inert),
    /// One descriptor of the rule matches nothing in this topology.
    Unmatched(Side),
    /// Other rules set everything that the rule matches: those with these indices, in ascending
    /// order.
    Shadowed {
        /// The rules that win.
        by: Vec<usize>,
    },
}

/// Why a rule is without effect in every topology. A net matches no NID.
// [UDSP-23]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inert {
    /// The `src` of a pair is a net.
    NetAsSource,
    /// The `rte` of a router rule is a net.
    NetAsGateway,
}

/// The side of a rule that matches nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// No local net or NI.
    Local,
    /// No peer net or NI.
    Remote,
    /// No gateway.
    Gateway,
}

/// The state of every rule, by index.
///
/// ```
/// use lnet_policy::{Priority, Profile, Rule, RuleList, RuleState, Topology, audit};
///
/// let mut rules = RuleList::new();
/// rules.add(Rule::local("tcp*".parse()?, Priority::new(5).unwrap())?, None)?;
/// rules.add(Rule::local("tcp".parse()?, Priority::BEST)?, None)?;
/// let topology = Topology { local: vec!["10.0.0.1@tcp".parse()?], ..Topology::default() };
/// let states = audit(&rules, &topology, Profile::Design);
/// assert_eq!(states, [RuleState::Live, RuleState::Shadowed { by: vec![0] }]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn audit(rules: &RuleList, topology: &Topology, profile: Profile) -> Vec<RuleState> {
    let mut policy = Policy::new(rules, profile, &topology.local, &topology.gateways);
    let mut tallies = vec![Tally::default(); rules.rules().len()];
    tally_local(rules, &topology.local, &mut tallies);
    tally_peers(rules, topology, &mut policy, &mut tallies);
    rules
        .rules()
        .iter()
        .zip(tallies)
        .enumerate()
        .map(|(index, (rule, tally))| state(rule, tally, policy.listed(index).is_empty()))
        .collect()
}

/// Counts for one rule.
#[derive(Clone, Debug, Default)]
struct Tally {
    sets: bool,
    lost_to: BTreeSet<usize>,
}

fn state(rule: &Rule, tally: Tally, lists_nothing: bool) -> RuleState {
    let missing = match rule.selector() {
        _ if rule.is_disabled() => return RuleState::Disabled,
        _ if tally.sets => return RuleState::Live,
        Selector::Pair {
            local: Descriptor::Net(_),
            ..
        } => return RuleState::Inert(Inert::NetAsSource),
        Selector::Router {
            gateway: Descriptor::Net(_),
            ..
        } => return RuleState::Inert(Inert::NetAsGateway),
        Selector::Pair { .. } if lists_nothing => Side::Local,
        Selector::Router { .. } if lists_nothing => Side::Gateway,
        Selector::Local(_) => Side::Local,
        Selector::Remote(_) | Selector::Pair { .. } | Selector::Router { .. } => Side::Remote,
    };
    if tally.lost_to.is_empty() {
        return RuleState::Unmatched(missing);
    }
    RuleState::Shadowed {
        by: tally.lost_to.into_iter().collect(),
    }
}

/// The first of `matching` sets the value, and the others are shadowed by it.
fn tally_first(matching: impl Iterator<Item = usize>, tallies: &mut [Tally]) {
    let mut winner = None;
    for index in matching {
        let winner = *winner.get_or_insert(index);
        if let Some(tally) = tallies.get_mut(index) {
            tally.sets |= winner == index;
            if winner != index {
                tally.lost_to.insert(winner);
            }
        }
    }
}

fn tally_local(rules: &RuleList, local: &[Nid], tallies: &mut [Tally]) {
    let mut tally = |covers: &dyn Fn(&Descriptor) -> bool| {
        let rules = rules.rules().iter().enumerate();
        let matching = rules.filter(|(_, rule)| {
            !rule.is_disabled()
                && matches!(rule.selector(), Selector::Local(local) if covers(local))
        });
        tally_first(matching.map(|(index, _)| index), tallies);
    };
    for net in nets(local) {
        tally(&|descriptor| matches_net(descriptor, net));
    }
    for &nid in local {
        tally(&|descriptor| matches_nid(descriptor, nid));
    }
}

/// Skips a peer NI if the same rules match as for an earlier one, because it adds no information.
fn tally_peers(rules: &RuleList, topology: &Topology, policy: &mut Policy, tallies: &mut [Tally]) {
    let mut seen: FxHashSet<(RuleSet, bool)> = FxHashSet::default();
    for peer in &topology.peers {
        for &nid in &peer.nis {
            let found = policy.collect(nid);
            if !seen.insert((found.clone(), peer.multi_rail)) {
                continue;
            }
            let of_kind = |kind: RuleKind| {
                found.iter().filter(move |&index| {
                    rules
                        .get(index)
                        .is_some_and(|rule| rule.kind() == kind && !rule.is_disabled())
                })
            };
            tally_first(of_kind(RuleKind::RemoteNet), tallies);
            tally_first(of_kind(RuleKind::RemoteNid), tallies);
            let effect = policy.peer_ni(nid, peer.multi_rail);
            let lists = [
                (RuleKind::NidPair, &effect.sources),
                (RuleKind::NetPair, &effect.sources),
                (RuleKind::Router, &effect.gateways),
            ];
            for (kind, list) in lists {
                let winners: BTreeSet<usize> =
                    list.entries().iter().map(|entry| entry.set_by).collect();
                let matching = of_kind(kind).filter(|&index| !policy.listed(index).is_empty());
                tally_list(matching, &winners, tallies);
            }
        }
    }
}

/// Rules of `matching` with an entry on the list set something; the others are shadowed by those.
fn tally_list(
    matching: impl Iterator<Item = usize>,
    winners: &BTreeSet<usize>,
    tallies: &mut [Tally],
) {
    for index in matching {
        if let Some(tally) = tallies.get_mut(index) {
            if winners.contains(&index) {
                tally.sets = true;
            } else {
                tally.lost_to.extend(winners);
            }
        }
    }
}
