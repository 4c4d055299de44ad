//! Which values change after each change of a node [UDSP-34]: a new policy has the values
//! that the change requires. Kernels apply rules to some objects only at their creation: Q-12 to
//! Q-15 in `docs/selection/releases.md`.

use lnet_policy::{Policy, Profile, Topology};

use crate::build::{PROFILES, With, effects, list, local, nid, rule};

#[track_caller]
fn before_and_after(rules: &[&str], before: &Topology, after: &Topology, expected: &[&str]) {
    for profile in PROFILES {
        let rules = list(rules);
        assert_eq!(effects(&rules, before, profile), [""; 0], "{profile:?}");
        assert_eq!(effects(&rules, after, profile), expected, "{profile:?}");
    }
}

#[test]
fn trigger_rule_added_changed_and_deleted() {
    let node = local(&["10.0.0.1@tcp"]);
    let mut rules = list(&["--src 10.0.0.*@tcp --priority 9"]);
    rules
        .add(rule("--src 10.0.0.1@tcp --priority 2"), Some(0))
        .unwrap();
    assert_eq!(
        effects(&rules, &node, Profile::Design),
        ["ni 10.0.0.1@tcp: 2#0"]
    );
    rules
        .add(rule("--src 10.0.0.1@tcp --priority 4"), None)
        .unwrap();
    assert_eq!(
        effects(&rules, &node, Profile::Design),
        ["ni 10.0.0.1@tcp: 4#0"]
    );
    rules.delete(0).unwrap();
    assert_eq!(
        effects(&rules, &node, Profile::Design),
        ["ni 10.0.0.1@tcp: 9#0"]
    );
}

#[test]
fn t_u34_trigger_local_net_added() {
    before_and_after(
        &["--src o2ib --priority 3"],
        &local(&["10.0.0.1@tcp"]),
        &local(&["10.0.0.1@tcp", "10.1.0.1@o2ib"]),
        &["net o2ib: 3#0"],
    );
}

#[test]
fn t_u34_trigger_local_ni_added() {
    before_and_after(
        &["--src 10.0.0.2@tcp --priority 4"],
        &local(&["10.0.0.1@tcp"]),
        &local(&["10.0.0.1@tcp", "10.0.0.2@tcp"]),
        &["ni 10.0.0.2@tcp: 4#0"],
    );
}

#[test]
fn t_u31_trigger_local_ni_added_joins_the_lists_of_pairs() {
    before_and_after(
        &["--src 10.0.0.2@tcp --dst 10.0.9.1@tcp"],
        &local(&["10.0.0.1@tcp"]).peer(&["10.0.9.1@tcp"]),
        &local(&["10.0.0.1@tcp", "10.0.0.2@tcp"]).peer(&["10.0.9.1@tcp"]),
        &["10.0.9.1@tcp from 10.0.0.2@tcp: 0#0"],
    );
}

#[test]
fn t_u32_trigger_peer_added_after_net_pair_and_net_router_rules() {
    let node = local(&["10.0.0.1@tcp"]).gateway(&["10.0.0.9@tcp"]);
    before_and_after(
        &[
            "--src 10.0.0.1@tcp --dst tcp5",
            "--dst tcp5 --rte 10.0.0.9@tcp",
        ],
        &node,
        &node.clone().peer(&["10.5.0.1@tcp5"]),
        &[
            "10.5.0.1@tcp5 from 10.0.0.1@tcp: 0#0",
            "10.5.0.1@tcp5 via 10.0.0.9@tcp: 0#1",
        ],
    );
}

#[test]
fn trigger_peer_net_added() {
    before_and_after(
        &["--dst o2ib --priority 1"],
        &local(&["10.0.0.1@tcp"]).peer(&["10.0.9.1@tcp"]),
        &local(&["10.0.0.1@tcp"]).peer(&["10.0.9.1@tcp", "10.1.9.1@o2ib"]),
        &["peer net o2ib: 1#0"],
    );
}

#[test]
fn trigger_peer_ni_added() {
    before_and_after(
        &[
            "--dst 10.0.9.2@tcp --priority 2",
            "--src 10.0.0.1@tcp --dst 10.0.9.2@tcp",
        ],
        &local(&["10.0.0.1@tcp"]).peer(&["10.0.9.1@tcp"]),
        &local(&["10.0.0.1@tcp"]).peer(&["10.0.9.1@tcp", "10.0.9.2@tcp"]),
        &[
            "peer ni 10.0.9.2@tcp: 2#0",
            "10.0.9.2@tcp from 10.0.0.1@tcp: 0#1",
        ],
    );
}

#[test]
fn t_u33_trigger_route_added_after_a_router_rule() {
    let node = local(&["10.0.0.1@tcp"]).peer(&["10.5.0.1@tcp5"]);
    before_and_after(
        &["--dst 10.5.0.1@tcp5 --rte 10.0.0.9@tcp"],
        &node,
        &node.clone().gateway(&["10.0.0.9@tcp"]),
        &["10.5.0.1@tcp5 via 10.0.0.9@tcp: 0#0"],
    );
}

#[test]
fn peers_need_new_answers_exactly_when_a_pair_or_router_rule_lists_something_else() {
    let rules = list(&[
        "--src tcp",
        "--src 10.0.0.*@tcp --dst tcp",
        "--dst tcp --rte 10.0.0.9@tcp",
    ]);
    let policy = |nids: &[&str], gateways: &Topology| {
        let node = local(nids);
        Policy::new(&rules, Profile::Design, &node.local, &gateways.gateways)
    };
    let none = Topology::default();
    let old = policy(&["10.0.0.1@tcp"], &none);
    assert!(old.same_for_peers(&policy(&["10.0.0.1@tcp", "10.7.0.1@tcp"], &none)));
    assert!(!old.same_for_peers(&policy(&["10.0.0.1@tcp", "10.0.0.2@tcp"], &none)));
    let other = none.clone().gateway(&["10.0.0.8@tcp"]);
    assert!(old.same_for_peers(&policy(&["10.0.0.1@tcp"], &other)));
    let gateway = none.gateway(&["10.0.0.9@tcp"]);
    let mut new = policy(&["10.0.0.1@tcp"], &gateway);
    assert!(!old.same_for_peers(&new));
    assert!(!new.peer_ni(nid("10.0.9.1@tcp"), true).gateways.is_empty());
}
