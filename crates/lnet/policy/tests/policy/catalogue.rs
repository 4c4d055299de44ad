//! Cases of the catalogue that need only rules and a topology; path selection compares the values
//! that are asserted here. The tests of `lnet-core` cover the cases with messages.

use lnet_policy::{Added, Profile, Rule, RuleList, RuleText, Topology};
use lnet_types::expr::{NetExpr, NidExpr};

use crate::build::{PROFILES, With, effects, list, local, net, nid, priority, rule, texts};

#[track_caller]
fn sets(rules: &RuleList, topology: &Topology, expected: &[&str]) {
    for profile in PROFILES {
        assert_eq!(effects(rules, topology, profile), expected, "{profile:?}");
    }
}

#[test]
fn t_u01_a_list_without_rules_shows_nothing() {
    assert!(RuleList::new().rules().is_empty());
    sets(&RuleList::new(), &local(&["10.0.0.1@tcp"]), &[]);
}

#[test]
fn t_u02_a_rule_for_a_bare_net_name_is_added_and_deleted() {
    let mut rules = list(&["--src tcp --priority 0"]);
    assert_eq!(rules.delete(0).unwrap(), rule("--src tcp"));
    assert!(rules.rules().is_empty());
}

#[test]
fn t_u03_a_net_rule_gives_the_net_of_a_later_peer_its_priority_and_its_nis_none() {
    let rules = list(&["--dst tcp --priority 1"]);
    let later = Topology::default().peer(&["10.0.9.1@tcp"]);
    sets(&rules, &Topology::default(), &[]);
    sets(&rules, &later, &["peer net tcp: 1#0"]);
}

#[test]
fn t_u04_a_net_rule_holds_for_a_peer_with_a_number_address() {
    let rules = list(&["--dst kfi"]);
    sets(
        &rules,
        &Topology::default().peer(&["402@kfi"]),
        &["peer net kfi: 0#0"],
    );
}

#[test]
fn t_u05_each_kind_of_priority_rule_shows_what_was_added() {
    for text in [
        "--src tcp",
        "--dst tcp",
        "--src 10.0.0.1@tcp",
        "--dst 10.0.0.1@tcp",
    ] {
        let text = format!("{text} --priority 1");
        let mut rules = list(&[&text]);
        assert_eq!(texts(&rules), [text]);
        rules.delete(0).unwrap();
        assert!(rules.rules().is_empty());
    }
}

/// Writes a rule as a document does and reads it back.
fn exported_and_imported(rule: &Rule) -> Rule {
    let texts = rule
        .selector()
        .descriptors()
        .map(|descriptor| descriptor.map(ToString::to_string));
    let [src, dst, rte] = texts.each_ref().map(Option::as_deref);
    let action = Some(rule.action());
    Rule::from_text(
        &RuleText {
            src,
            dst,
            rte,
            action,
        },
        Profile::Design,
    )
    .unwrap()
}

#[test]
fn t_u07_a_rule_of_best_priority_survives_export_and_import() {
    let rule = rule("--dst 10.0.0.*@tcp --priority 0");
    assert_eq!(exported_and_imported(&rule), rule);
}

#[test]
fn t_u08_pair_and_router_rules_survive_export_and_import() {
    for text in [
        "--src 10.0.0.1@tcp --dst o2ib",
        "--src 10.0.0.1@tcp --dst 1.1.1.1@tcp --priority 4",
        "--dst tcp5 --rte 10.1.0.9@tcp",
    ] {
        assert_eq!(exported_and_imported(&rule(text)), rule(text));
    }
}

#[test]
fn t_u09_t_u10_a_local_nid_rule_prefers_that_ni_until_it_is_deleted() {
    let node = local(&["10.0.0.1@tcp", "10.0.0.2@tcp"]);
    let mut rules = list(&["--src 10.0.0.2@tcp --priority 0"]);
    sets(&rules, &node, &["ni 10.0.0.2@tcp: 0#0"]);
    rules.delete(0).unwrap();
    sets(&rules, &node, &[]);
}

#[test]
fn t_u11_t_u12_equal_priorities_tie_and_one_alone_wins() {
    let node = local(&["10.0.0.1@tcp", "10.0.0.2@tcp", "10.0.0.3@tcp"]);
    let mut rules = list(&["--src 10.0.0.1@tcp", "--src 10.0.0.2@tcp"]);
    sets(
        &rules,
        &node,
        &["ni 10.0.0.1@tcp: 0#0", "ni 10.0.0.2@tcp: 0#1"],
    );
    rules.delete(0).unwrap();
    sets(&rules, &node, &["ni 10.0.0.2@tcp: 0#0"]);
}

#[test]
fn t_u13_t_u14_net_and_nid_rules_are_independent() {
    let node = local(&["10.0.0.1@tcp", "10.1.0.1@o2ib"]);
    let both = ["--src tcp", "--src 10.1.0.1@o2ib"];
    sets(
        &list(&both),
        &node,
        &["net tcp: 0#0", "ni 10.1.0.1@o2ib: 0#1"],
    );
    let mut rules = list(&both);
    rules.delete(0).unwrap();
    sets(&rules, &node, &["ni 10.1.0.1@o2ib: 0#0"]);
    let mut rules = list(&both);
    rules.delete(1).unwrap();
    sets(&rules, &node, &["net tcp: 0#0"]);
}

#[test]
fn t_u15_a_remote_nid_rule_prefers_that_peer_ni_until_it_is_deleted() {
    let peers = Topology::default().peer(&["10.0.9.1@tcp", "10.0.9.2@tcp"]);
    let mut rules = list(&["--dst 10.0.9.2@tcp"]);
    sets(&rules, &peers, &["peer ni 10.0.9.2@tcp: 0#0"]);
    rules.delete(0).unwrap();
    sets(&rules, &peers, &[]);
}

#[test]
fn t_u16_a_rule_for_what_does_not_exist_holds_when_it_appears() {
    let rules = list(&["--src 10.0.0.7@tcp --priority 2", "--dst kfi5 --priority 3"]);
    sets(&rules, &local(&["10.0.0.1@tcp"]), &[]);
    let grown = local(&["10.0.0.1@tcp", "10.0.0.7@tcp"]).peer(&["4@kfi5"]);
    sets(
        &rules,
        &grown,
        &["ni 10.0.0.7@tcp: 2#0", "peer net kfi5: 3#1"],
    );
}

#[test]
fn t_u17_deleting_an_index_that_is_not_there_changes_nothing() {
    let mut rules = list(&["--src tcp", "--dst tcp"]);
    let before = rules.clone();
    assert_eq!(rules.delete(7).unwrap_err().errno(), -2);
    assert_eq!(rules, before);
}

#[test]
fn t_u22_a_pair_lists_its_source_for_its_destination_only() {
    let topology = local(&["10.0.0.1@tcp", "10.0.0.2@tcp"]).peer(&["10.0.9.1@tcp", "10.0.9.2@tcp"]);
    let rules = list(&["--src 10.0.0.1@tcp --dst 10.0.9.2@tcp"]);
    sets(&rules, &topology, &["10.0.9.2@tcp from 10.0.0.1@tcp: 0#0"]);
}

#[test]
fn t_u23_deleting_a_pair_of_several_local_nids_empties_the_lists() {
    let topology = local(&["10.0.0.1@tcp", "10.0.0.2@tcp"]).peer(&["10.0.9.1@tcp"]);
    let mut rules = list(&["--src 10.0.0.*@tcp --dst 10.0.9.1@tcp"]);
    assert_eq!(effects(&rules, &topology, Profile::Design).len(), 2);
    rules.delete(0).unwrap();
    sets(&rules, &topology, &[]);
}

#[test]
fn t_u24_a_pair_holds_with_a_single_local_ni() {
    let topology = local(&["10.0.0.1@tcp"]).peer(&["10.0.9.1@tcp"]);
    let rules = list(&["--src 10.0.0.1@tcp --dst 10.0.9.1@tcp"]);
    sets(&rules, &topology, &["10.0.9.1@tcp from 10.0.0.1@tcp: 0#0"]);
}

#[test]
fn t_u26_the_same_descriptors_with_a_new_priority_are_updated_in_place() {
    let mut rules = list(&["--src tcp --priority 1", "--dst tcp", "--src kfi"]);
    let added = rules.add(rule("--src tcp --priority 9"), Some(2));
    assert_eq!(added, Ok(Added::Updated(0)));
    assert_eq!(rules.rules()[0].priority(), priority(9));
    assert_eq!(rules.rules().len(), 3);
}

#[test]
fn t_u26_tcp_and_tcp0_are_two_rules() {
    let mut rules = list(&["--src tcp"]);
    assert_eq!(rules.add(rule("--src tcp0"), None), Ok(Added::Inserted(1)));
}

#[test]
fn t_u27_a_rule_is_inserted_before_the_one_at_its_index() {
    let mut rules = list(&["--src tcp", "--src tcp1", "--src tcp2"]);
    assert_eq!(
        rules.add(rule("--src tcp9"), Some(1)),
        Ok(Added::Inserted(1))
    );
    let nets = ["tcp", "tcp9", "tcp1", "tcp2"];
    assert_eq!(
        texts(&rules),
        nets.map(|net| format!("--src {net} --priority 0"))
    );
}

#[test]
fn t_u28_an_index_beyond_the_end_appends() {
    let mut rules = list(&["--src tcp", "--src tcp1", "--src tcp2"]);
    assert_eq!(
        rules.add(rule("--src tcp9"), Some(99)),
        Ok(Added::Inserted(3))
    );
}

#[test]
fn t_u29_t_u30_the_lowest_index_wins_and_the_survivor_counts_after_its_deletion() {
    let node = local(&["10.0.0.1@tcp"]);
    let mut rules = list(&["--src tcp* --priority 5", "--src tcp --priority 1"]);
    sets(&rules, &node, &["net tcp: 5#0"]);
    rules.delete(0).unwrap();
    sets(&rules, &node, &["net tcp: 1#0"]);
}

#[test]
fn t_u37_a_stride_of_networks_counts_from_the_lower_bound() {
    let expr: NetExpr = "tcp[1-5/2]".parse().unwrap();
    let matched: Vec<u16> = (0..7)
        .filter(|n| expr.matches(net(&format!("tcp{n}"))))
        .collect();
    assert_eq!(matched, [1, 3, 5]);
}

#[test]
fn t_u38_lists_and_strides_of_octets_match_element_by_element() {
    let expr: NidExpr = "10.0.[0,2].[1-10/3]@o2ib".parse().unwrap();
    let all = (0..4).flat_map(|c| (0..12).map(move |d| (c, d)));
    let matched: Vec<(u8, u8)> = all
        .filter(|(c, d)| expr.matches(nid(&format!("10.0.{c}.{d}@o2ib"))))
        .collect();
    let expected = [0, 2]
        .into_iter()
        .flat_map(|c| [1, 4, 7, 10].map(|d| (c, d)));
    assert!(expected.eq(matched));
}

#[test]
fn t_u39_without_rules_nothing_is_preferred() {
    let topology = local(&["10.0.0.1@tcp"])
        .peer(&["10.0.9.1@tcp"])
        .gateway(&["10.0.0.9@tcp"]);
    let mut rules = list(&[
        "--src tcp",
        "--dst 10.0.9.1@tcp",
        "--src 10.0.0.1@tcp --dst tcp",
        "--dst tcp --rte 10.0.0.9@tcp",
    ]);
    assert_eq!(effects(&rules, &topology, Profile::Design).len(), 4);
    rules.clear();
    sets(&rules, &topology, &[]);
}

#[test]
fn t_u42_design_ranked_pairs_order_the_peer_nis_of_one_local_ni() {
    let topology = local(&["10.0.0.1@tcp"]).peer(&["10.0.9.1@tcp", "10.0.9.2@tcp"]);
    let rules = list(&[
        "--src 10.0.0.1@tcp --dst 10.0.9.1@tcp --priority 0",
        "--src 10.0.0.1@tcp --dst 10.0.9.2@tcp --priority 1",
    ]);
    assert_eq!(
        effects(&rules, &topology, Profile::Design),
        [
            "10.0.9.1@tcp from 10.0.0.1@tcp: 0#0",
            "10.0.9.2@tcp from 10.0.0.1@tcp: 1#1"
        ]
    );
}

#[test]
fn t_u43_design_several_local_nis_prefer_one_peer_ni_by_rules_of_their_own() {
    let topology = local(&["10.0.0.1@tcp", "10.0.0.2@tcp", "10.0.0.3@tcp"])
        .peer(&["10.0.9.1@tcp", "10.0.9.2@tcp"]);
    let rules = list(&[
        "--src 10.0.0.1@tcp --dst 10.0.9.1@tcp",
        "--src 10.0.0.2@tcp --dst 10.0.9.1@tcp",
        "--src 10.0.0.3@tcp --dst 10.0.9.2@tcp",
    ]);
    assert_eq!(
        effects(&rules, &topology, Profile::Design),
        [
            "10.0.9.1@tcp from 10.0.0.1@tcp: 0#0",
            "10.0.9.1@tcp from 10.0.0.2@tcp: 0#1",
            "10.0.9.2@tcp from 10.0.0.3@tcp: 0#2",
        ]
    );
}

#[test]
fn t_u44_a_rule_for_the_servers_direct_nid_leaves_the_routed_one_without_priority() {
    let server = local(&["10.0.0.1@o2ib"]).peer(&["10.0.9.1@o2ib", "10.1.9.1@o2ib1"]);
    let rules = list(&["--dst 10.0.9.1@o2ib"]);
    sets(&rules, &server, &["peer ni 10.0.9.1@o2ib: 0#0"]);
}

#[test]
fn t_u45_the_ni_on_the_optimal_link_alone_has_the_best_priority() {
    let node = local(&["10.0.0.1@o2ib", "10.0.0.2@o2ib"]);
    sets(
        &list(&["--src 10.0.0.2@o2ib --priority 0"]),
        &node,
        &["ni 10.0.0.2@o2ib: 0#0"],
    );
}

#[test]
fn t_u50_t_u51_a_nid_rule_leaves_nets_equal_and_a_net_rule_decides_between_them() {
    let node = local(&["10.0.0.1@tcp", "10.0.0.2@tcp", "10.1.0.1@tcp1"]);
    let mut rules = list(&["--src 10.0.0.1@tcp"]);
    sets(&rules, &node, &["ni 10.0.0.1@tcp: 0#0"]);
    rules.add(rule("--src tcp1"), None).unwrap();
    sets(&rules, &node, &["net tcp1: 0#1", "ni 10.0.0.1@tcp: 0#0"]);
}

#[test]
fn t_u53_a_router_rule_lists_its_gateway_only() {
    let topology = Topology::default()
        .peer(&["10.5.0.1@tcp5"])
        .gateway(&["10.0.0.8@tcp"])
        .gateway(&["10.0.0.9@tcp"]);
    let rules = list(&["--dst 10.5.0.1@tcp5 --rte 10.0.0.9@tcp"]);
    sets(&rules, &topology, &["10.5.0.1@tcp5 via 10.0.0.9@tcp: 0#0"]);
}
