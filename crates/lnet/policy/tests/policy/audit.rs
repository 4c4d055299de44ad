//! Rules without effect and shadowed rules.

use lnet_policy::{Inert, Profile, RuleState, Side, audit};

use crate::build::{PROFILES, With, list, local, rule};

#[test]
fn every_rule_is_live_or_says_why_not() {
    let topology = local(&["10.0.0.1@tcp"])
        .peer(&["10.0.9.1@tcp"])
        .gateway(&["10.0.0.9@tcp"]);
    let cases = [
        ("--src tcp", RuleState::Live),
        ("--dst 10.0.9.1@tcp", RuleState::Live),
        ("--src 10.0.0.1@tcp --dst tcp", RuleState::Live),
        ("--dst tcp --rte 10.0.0.9@tcp", RuleState::Live),
        ("--src o2ib", RuleState::Unmatched(Side::Local)),
        ("--dst o2ib", RuleState::Unmatched(Side::Remote)),
        (
            "--src 1.1.1.1@tcp --dst tcp",
            RuleState::Unmatched(Side::Local),
        ),
        (
            "--src 10.0.0.1@tcp --dst o2ib",
            RuleState::Unmatched(Side::Remote),
        ),
        (
            "--dst tcp --rte 1.1.1.1@tcp",
            RuleState::Unmatched(Side::Gateway),
        ),
        ("--src tcp --dst tcp", RuleState::Inert(Inert::NetAsSource)),
        ("--dst tcp --rte tcp", RuleState::Inert(Inert::NetAsGateway)),
    ];
    for profile in PROFILES {
        for (text, expected) in &cases {
            let states = audit(&list(&[text]), &topology, profile);
            assert_eq!(states, std::slice::from_ref(expected), "{text}");
        }
    }
}

#[test]
fn a_disabled_rule_is_neither_dead_nor_a_winner() {
    let topology = local(&["10.0.0.1@tcp"]);
    let mut rules = list(&["--src tcp0"]);
    rules
        .add(rule("--src tcp").disabled(true), Some(0))
        .unwrap();
    assert_eq!(
        audit(&rules, &topology, Profile::Design),
        [RuleState::Disabled, RuleState::Live]
    );
}

#[test]
fn a_shadowed_rule_names_those_that_win_everywhere() {
    let topology = local(&["10.0.0.1@tcp"]).peer(&["10.0.9.1@tcp", "10.0.9.2@tcp"]);
    let rules = list(&[
        "--dst 10.0.9.1@tcp --priority 3",
        "--dst 10.0.9.2@tcp --priority 3",
        "--dst 10.0.9.*@tcp --priority 9",
    ]);
    for profile in PROFILES {
        assert_eq!(
            audit(&rules, &topology, profile)[2],
            RuleState::Shadowed { by: vec![0, 1] }
        );
    }
}

#[test]
fn a_pair_behind_another_is_shadowed_in_the_lustre_profile_only() {
    let topology = local(&["10.0.0.1@tcp", "10.0.0.2@tcp"]).peer(&["10.0.9.1@tcp"]);
    let rules = list(&[
        "--src 10.0.0.1@tcp --dst 10.0.9.1@tcp",
        "--src 10.0.0.2@tcp --dst tcp",
    ]);
    assert_eq!(
        audit(&rules, &topology, Profile::Design)[1],
        RuleState::Live
    );
    assert_eq!(
        audit(&rules, &topology, Profile::Lustre)[1],
        RuleState::Shadowed { by: vec![0] }
    );
}
