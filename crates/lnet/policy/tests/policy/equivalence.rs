//! Compares the compiled rules with the definition of their effect: start with no values, go
//! through the list from last to first, and let each rule overwrite the value.

use std::collections::BTreeMap;

use lnet_policy::{
    Effective, PeerNiEffect, Policy, Priority, Profile, Rule, RuleKind, RuleList, RuleState,
    Topology, audit, evaluate,
};
use lnet_types::expr::Descriptor;
use lnet_types::{Net, Nid};
use proptest::prelude::*;

use crate::build::PROFILES;
use crate::strategies::{any_list, any_nid, any_rule, any_topology};

fn covers_net(descriptor: Option<&Descriptor>, net: Net) -> bool {
    matches!(descriptor, Some(Descriptor::Net(expr)) if expr.matches(net))
}

fn covers_nid(descriptor: Option<&Descriptor>, nid: Nid) -> bool {
    matches!(descriptor, Some(Descriptor::Nid(expr)) if expr.matches(nid))
}

/// The fold from last to first; `sets` returns whether a rule sets the priority in question.
fn folded(rules: &RuleList, sets: impl Fn(&Rule) -> bool) -> Effective {
    let mut effective = Effective::NONE;
    for (index, rule) in rules.rules().iter().enumerate().rev() {
        if !rule.is_disabled() && sets(rule) {
            effective = Effective {
                priority: rule.priority(),
                set_by: Some(index),
            };
        }
    }
    effective
}

type List = Vec<(Nid, Priority, usize)>;

/// The preferred list that rules of `kinds` make for a peer NI, by rank, rule and interface.
fn listed(
    rules: &RuleList,
    kinds: &[RuleKind],
    peer_ni: Nid,
    profile: Profile,
    candidates: impl Fn(&Rule) -> Vec<Nid>,
) -> List {
    let mut list = List::new();
    for (index, rule) in rules.rules().iter().enumerate().rev() {
        let [_, dst, _] = rule.selector().descriptors();
        let covers = covers_nid(dst, peer_ni) || covers_net(dst, peer_ni.net());
        let nids = candidates(rule);
        if rule.is_disabled() || !kinds.contains(&rule.kind()) || !covers || nids.is_empty() {
            continue;
        }
        if profile == Profile::Lustre {
            list = nids
                .into_iter()
                .map(|nid| (nid, Priority::BEST, index))
                .collect();
            continue;
        }
        for nid in nids {
            let better = |entry: &(Nid, Priority, usize)| entry.0 == nid && entry.1 < rule.rank();
            if !list.iter().any(better) {
                list.retain(|entry| entry.0 != nid);
                list.push((nid, rule.rank(), index));
            }
        }
    }
    list.sort_by_key(|&(nid, rank, index)| (rank, index, nid));
    list
}

fn entries(list: &lnet_policy::PreferredList) -> List {
    let mut list: List = list
        .entries()
        .iter()
        .map(|entry| (entry.nid, entry.rank, entry.set_by))
        .collect();
    // Entries of one rule have the order of the interfaces, which the reference does not keep.
    list.sort_by_key(|&(nid, rank, index)| (rank, index, nid));
    list
}

fn check_peer_ni(
    rules: &RuleList,
    topology: &Topology,
    profile: Profile,
    (nid, effect): &(Nid, PeerNiEffect),
    multi_rail: bool,
) {
    let priority = folded(rules, |rule| {
        let [_, dst, _] = rule.selector().descriptors();
        rule.kind() == RuleKind::RemoteNid && covers_nid(dst, *nid)
    });
    assert_eq!(effect.priority, priority);
    let sources = listed(
        rules,
        &[RuleKind::NidPair, RuleKind::NetPair],
        *nid,
        profile,
        |rule| {
            let [src, ..] = rule.selector().descriptors();
            topology
                .local
                .iter()
                .copied()
                .filter(|&local| covers_nid(src, local))
                .collect()
        },
    );
    let kept = if profile == Profile::Lustre && !multi_rail {
        1
    } else {
        usize::MAX
    };
    let kept = sources.into_iter().take(kept).collect::<List>();
    assert_eq!(entries(&effect.sources), kept);
    let gateways = listed(rules, &[RuleKind::Router], *nid, profile, |rule| {
        let [_, _, rte] = rule.selector().descriptors();
        let found = topology.gateways.iter();
        let found = found.filter(|gateway| gateway.nids().any(|nid| covers_nid(rte, nid)));
        let unique: BTreeMap<Nid, ()> = found.map(|gateway| (gateway.primary, ())).collect();
        unique.into_keys().collect()
    });
    assert_eq!(entries(&effect.gateways), gateways);
}

proptest! {
    #[test]
    fn compiled_rules_say_what_the_fold_from_last_to_first_says(
        rules in any_list(90),
        topology in any_topology(),
    ) {
        for profile in PROFILES {
            let effects = evaluate(&rules, &topology, profile);
            for (net, effective) in &effects.local_nets {
                let expected = folded(&rules, |rule| {
                    let [src, ..] = rule.selector().descriptors();
                    rule.kind() == RuleKind::LocalNet && covers_net(src, *net)
                });
                prop_assert_eq!(*effective, expected);
            }
            for (nid, effective) in &effects.local_nis {
                let expected = folded(&rules, |rule| {
                    let [src, ..] = rule.selector().descriptors();
                    rule.kind() == RuleKind::LocalNid && covers_nid(src, *nid)
                });
                prop_assert_eq!(*effective, expected);
            }
            for (peer, described) in effects.peers.iter().zip(&topology.peers) {
                for (net, effective) in &peer.nets {
                    let expected = folded(&rules, |rule| {
                        let [_, dst, _] = rule.selector().descriptors();
                        rule.kind() == RuleKind::RemoteNet && covers_net(dst, *net)
                    });
                    prop_assert_eq!(*effective, expected);
                }
                for ni in &peer.nis {
                    check_peer_ni(&rules, &topology, profile, ni, described.multi_rail);
                }
            }
        }
    }

    #[test]
    fn one_new_object_has_the_same_effects_alone_as_in_a_full_evaluation(
        rules in any_list(40),
        mut topology in any_topology(),
        new in any_nid(),
    ) {
        for profile in PROFILES {
            let mut policy = Policy::new(&rules, profile, &topology.local, &topology.gateways);
            let before = evaluate(&rules, &topology, profile);
            let peer = lnet_policy::Peer { primary: new, multi_rail: true, nis: vec![new] };
            let alone = policy.peer(&peer);
            topology.peers.push(peer);
            let after = evaluate(&rules, &topology, profile);
            prop_assert_eq!(Some(&alone), after.peers.last());
            prop_assert_eq!(&before.peers[..], &after.peers[..before.peers.len()]);
            topology.peers.pop();
        }
    }

    #[test]
    fn policies_that_are_the_same_for_peers_give_peers_the_same(
        rules in any_list(30),
        topology in any_topology(),
        new in any_nid(),
    ) {
        let mut grown = topology.clone();
        grown.local.push(new);
        let policy = |topology: &Topology| {
            Policy::new(&rules, Profile::Design, &topology.local, &topology.gateways)
        };
        if policy(&topology).same_for_peers(&policy(&grown)) {
            let effects = |topology| evaluate(&rules, topology, Profile::Design).peers;
            prop_assert_eq!(effects(&topology), effects(&grown));
        }
    }

    #[test]
    fn a_rule_is_live_exactly_when_it_is_named_by_an_effect(
        rules in any_list(40),
        topology in any_topology(),
    ) {
        for profile in PROFILES {
            let effects = evaluate(&rules, &topology, profile);
            let locals = effects.local_nets.iter().map(|(_, effective)| *effective);
            let locals = locals.chain(effects.local_nis.iter().map(|(_, effective)| *effective));
            let mut named: Vec<usize> = locals.filter_map(|effective| effective.set_by).collect();
            for peer in &effects.peers {
                named.extend(peer.nets.iter().filter_map(|(_, effective)| effective.set_by));
                for (_, effect) in &peer.nis {
                    named.extend(effect.priority.set_by);
                    let lists = [&effect.sources, &effect.gateways];
                    let entries = lists.into_iter().flat_map(|list| list.entries());
                    named.extend(entries.map(|entry| entry.set_by));
                }
            }
            for (index, state) in audit(&rules, &topology, profile).iter().enumerate() {
                prop_assert_eq!(*state == RuleState::Live, named.contains(&index), "{}", index);
            }
        }
    }

    #[test]
    fn a_rejected_or_repeated_change_leaves_the_list(rules in any_list(20), rule in any_rule()) {
        let mut once = rules.clone();
        let _ = once.add(rule.clone(), Some(3));
        let mut twice = once.clone();
        prop_assert!(twice.add(rule, None).is_err());
        prop_assert_eq!(once, twice);
    }
}
