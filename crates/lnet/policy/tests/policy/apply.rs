//! The values that each kind of rule sets.

use lnet_policy::{Policy, Priority, Profile, Topology, evaluate};

use crate::build::{PROFILES, With, effects, list, local, nid, rule};

fn here() -> Topology {
    local(&["10.0.0.1@tcp", "10.0.0.2@tcp", "10.1.0.1@o2ib"])
        .peer(&["10.0.9.1@tcp", "10.0.9.2@tcp", "10.1.9.1@o2ib"])
        .gateway(&["10.0.0.9@tcp", "10.2.0.9@tcp1"])
}

#[track_caller]
fn sets(rules: &[&str], expected: &[&str]) {
    for profile in PROFILES {
        assert_eq!(
            effects(&list(rules), &here(), profile),
            expected,
            "{profile:?}"
        );
    }
}

#[test]
fn a_local_net_rule_sets_local_nets_only() {
    sets(&["--src tcp --priority 4"], &["net tcp: 4#0"]);
}

#[test]
fn a_local_nid_rule_sets_local_nis_only() {
    sets(
        &["--src 10.0.*.*@tcp"],
        &["ni 10.0.0.1@tcp: 0#0", "ni 10.0.0.2@tcp: 0#0"],
    );
}

#[test]
fn a_remote_net_rule_sets_peer_nets_only() {
    sets(&["--dst o2ib --priority 1"], &["peer net o2ib: 1#0"]);
}

#[test]
fn a_remote_nid_rule_sets_peer_nis_only() {
    sets(&["--dst 10.0.9.[2-9]@tcp"], &["peer ni 10.0.9.2@tcp: 0#0"]);
}

#[test]
fn a_pair_puts_every_matching_local_nid_on_the_list_in_the_order_of_the_interfaces() {
    sets(
        &["--src *.*.*.*@tcp --dst 10.0.9.1@tcp"],
        &[
            "10.0.9.1@tcp from 10.0.0.1@tcp: 0#0",
            "10.0.9.1@tcp from 10.0.0.2@tcp: 0#0",
        ],
    );
}

#[test]
fn a_net_pair_sets_the_list_of_all_peer_nis_of_the_net() {
    sets(
        &["--src 10.0.0.2@tcp --dst tcp"],
        &[
            "10.0.9.1@tcp from 10.0.0.2@tcp: 0#0",
            "10.0.9.2@tcp from 10.0.0.2@tcp: 0#0",
        ],
    );
}

#[test]
fn a_router_rule_prefers_a_gateway_by_primary_nid_whichever_of_its_nids_matches() {
    sets(
        &["--dst 10.1.9.1@o2ib --rte 10.2.0.9@tcp1"],
        &["10.1.9.1@o2ib via 10.0.0.9@tcp: 0#0"],
    );
}

// [UDSP-23]
#[test]
fn a_net_matches_no_nid() {
    sets(&["--src tcp --dst tcp", "--dst tcp --rte tcp"], &[]);
}

#[test]
fn the_lowest_index_wins_and_a_disabled_rule_does_not_take_part() {
    sets(
        &["--dst tcp* --priority 7", "--dst tcp --priority 1"],
        &["peer net tcp: 7#0"],
    );
    let mut rules = list(&[]);
    rules
        .add(rule("--dst tcp* --priority 7").disabled(true), None)
        .unwrap();
    rules.add(rule("--dst tcp --priority 1"), None).unwrap();
    for profile in PROFILES {
        assert_eq!(effects(&rules, &here(), profile), ["peer net tcp: 1#1"]);
    }
}

// [UDSP-10]
#[test]
fn in_the_design_profile_lists_of_several_rules_merge_by_rank() {
    let rules = list(&[
        "--src 10.0.0.1@tcp --dst 10.0.9.1@tcp --priority 5",
        "--src 10.0.0.2@tcp --dst 10.0.9.1@tcp --priority 2",
        "--src 10.0.0.[1-2]@tcp --dst tcp --priority 3",
    ]);
    assert_eq!(
        effects(&rules, &here(), Profile::Design),
        [
            "10.0.9.1@tcp from 10.0.0.2@tcp: 2#1",
            "10.0.9.1@tcp from 10.0.0.1@tcp: 3#2",
            "10.0.9.2@tcp from 10.0.0.1@tcp: 3#2",
            "10.0.9.2@tcp from 10.0.0.2@tcp: 3#2",
        ]
    );
}

// [UDSP-10]
#[test]
fn in_the_lustre_profile_the_lowest_index_that_lists_anything_gives_the_whole_list() {
    let rules = list(&[
        "--src 10.7.7.7@tcp --dst 10.0.9.1@tcp",
        "--src 10.0.0.2@tcp --dst 10.0.9.1@tcp",
        "--src 10.0.0.1@tcp --dst 10.0.9.1@tcp",
    ]);
    assert_eq!(
        effects(&rules, &here(), Profile::Lustre),
        ["10.0.9.1@tcp from 10.0.0.2@tcp: 0#1"]
    );
}

// [UDSP-11]
#[test]
fn a_peer_that_is_not_multi_rail_gets_one_preferred_nid_in_the_lustre_profile() {
    let rules = list(&["--src *.*.*.*@tcp --dst tcp"]);
    let topology = here();
    let count = |profile, multi_rail| {
        let mut policy = Policy::new(&rules, profile, &topology.local, &[]);
        let effect = policy.peer_ni(nid("10.0.9.1@tcp"), multi_rail);
        effect.sources.entries().len()
    };
    assert_eq!(count(Profile::Lustre, false), 1);
    assert_eq!(count(Profile::Lustre, true), 2);
    assert_eq!(count(Profile::Design, false), 2);
}

#[test]
fn rank_of_a_nid_that_is_not_preferred_is_worse_than_any() {
    let rules = list(&["--src 10.0.0.1@tcp --dst 10.0.9.1@tcp --priority 4294967294"]);
    let effects = evaluate(&rules, &here(), Profile::Design);
    let sources = &effects.peers[0].nis[0].1.sources;
    assert_eq!(sources.rank_of(nid("10.0.0.1@tcp")).value(), u32::MAX - 1);
    assert_eq!(sources.rank_of(nid("10.0.0.2@tcp")), Priority::NONE);
    assert!(Priority::NONE > sources.rank_of(nid("10.0.0.1@tcp")));
}

#[test]
fn number_and_ipv6_addresses_match_like_quads() {
    let topology = local(&[]).peer(&["5@gni", "fd00::5@tcp"]);
    let rules = list(&[
        "--dst [1-9/4]@gni --priority 1",
        "--dst fd00::/64@tcp --priority 2",
    ]);
    assert_eq!(
        effects(&rules, &topology, Profile::Design),
        ["peer ni 5@gni: 1#0", "peer ni fd00::5@tcp: 2#1"]
    );
}

#[test]
fn an_answer_does_not_depend_on_what_was_asked_before() {
    let rules = list(&[
        "--dst tcp*",
        "--src *.*.*.*@tcp --dst 10.*.*.[0-255/2]@tcp*",
    ]);
    let topology = here();
    let mut asked = Policy::new(&rules, Profile::Design, &topology.local, &[]);
    // More nets than the cache of a policy holds.
    for number in 0..5000 {
        let _ = asked.peer_ni(
            lnet_types::Nid::from_number(lnet_types::Net::tcp(number), 4),
            true,
        );
    }
    let mut fresh = Policy::new(&rules, Profile::Design, &topology.local, &[]);
    let peer = nid("10.0.0.4@tcp77");
    assert_eq!(asked.peer_ni(peer, true), fresh.peer_ni(peer, true));
}
