//! Rejected rules, with the texts and numbers of `lnetctl`.

use std::error::Error as _;

use lnet_policy::{Action, PolicyError, Priority, Profile, Rule, RuleList, RuleText, parse_index};

use crate::build::{PROFILES, list, parse, rule};

/// The text, the errno that the tool prints, and its exit status.
fn rejection(error: &PolicyError) -> (String, i32, u8) {
    (
        error.to_string(),
        error.lnetctl_errno(),
        error.exit_status(),
    )
}

#[track_caller]
fn rejected(arguments: &str, descr: &str, errno: i32, status: u8) {
    for profile in PROFILES {
        let error = parse(arguments, profile).unwrap_err();
        assert_eq!(
            rejection(&error),
            (descr.to_owned(), errno, status),
            "{arguments}"
        );
    }
}

#[test]
fn t_u35_every_combination_of_descriptors_gives_its_message_and_exit_status() {
    rejected(
        "--src tcp --dst tcp --rte 1.1.1.1@tcp",
        "The combination of src, dst and rte is not supported",
        -22,
        234,
    );
    for (name, text) in [
        ("src", "--src t"),
        ("dst", "--dst t"),
        ("rte", "--dst tcp --rte t"),
    ] {
        rejected(text, &format!("failed to parse {name} parameter"), -22, 234);
    }
    for text in [
        "abc",
        "-1",
        "",
        "+1",
        "4294967295",
        "4294967296",
        "99999999999999999999",
    ] {
        let error = text.parse::<Priority>().unwrap_err();
        let descr = format!("Invalid priority \"{text}\"");
        assert_eq!(rejection(&error), (descr, -22, 234));
    }
    for text in ["x", "-1", "-2", "", "+1", "4294967296"] {
        let error = parse_index(text).unwrap_err();
        assert_eq!(
            rejection(&error),
            (format!("Invalid index \"{text}\""), -22, 234)
        );
    }
    rejected(
        "--src tcp[1,3]",
        "cannot add udsp: Invalid argument",
        22,
        22,
    );
    let nothing = Rule::from_text(&RuleText::default(), Profile::Design).unwrap_err();
    assert_eq!(
        rejection(&nothing),
        ("Missing required argument(s)".to_owned(), -22, 234)
    );
    let action = Action::from_name("T", None).unwrap_err();
    assert_eq!(
        rejection(&action),
        ("bad action type specified: T".to_owned(), -22, 234)
    );
    let missing = RuleList::new().delete(7).unwrap_err();
    assert_eq!(
        rejection(&missing),
        (
            "cannot del udsp: No such file or directory".to_owned(),
            -2,
            254
        )
    );
}

#[test]
fn t_u35_the_action_follows_from_the_descriptors() {
    for profile in PROFILES {
        for text in ["--src tcp", "--dst 10.0.0.1@tcp"] {
            assert_eq!(
                parse(text, profile).unwrap().action(),
                Action::Priority(Priority::BEST)
            );
        }
        for text in ["--src 1.1.1.1@tcp --dst tcp", "--dst tcp --rte 1.1.1.1@tcp"] {
            assert_eq!(parse(text, profile).unwrap().action(), Action::Preferred);
        }
        let preferred = RuleText {
            src: Some("tcp"),
            action: Some(Action::Preferred),
            ..RuleText::default()
        };
        let rule = Rule::from_text(&preferred, profile).unwrap();
        assert_eq!(rule.action(), Action::Priority(Priority::BEST));
    }
    assert_eq!(Action::from_name("preferred", None), Ok(Action::Preferred));
    let one = Priority::new(1).unwrap();
    assert_eq!(
        Action::from_name("priority", Some(one)),
        Ok(Action::Priority(one))
    );
}

#[test]
fn a_pair_with_a_priority_is_ranked_in_the_design_profile_and_rejected_in_the_other() {
    let text = "--src 1.1.1.1@tcp --dst tcp --priority 3";
    assert_eq!(parse(text, Profile::Design).unwrap().priority().value(), 3);
    let error = parse(text, Profile::Lustre).unwrap_err();
    assert_eq!((error.errno(), error.exit_status()), (-22, 234));
}

#[test]
fn rules_that_kernels_store_without_effect_are_rejected() {
    for profile in PROFILES {
        for text in [
            "--rte 1.1.1.1@tcp",
            "--dst tcp --rte 1.1.1.1@tcp --priority 3",
        ] {
            assert_eq!(parse(text, profile).unwrap_err().errno(), -22, "{text}");
        }
    }
}

#[test]
fn t_u36_descriptors_outside_the_grammar_are_rejected() {
    let texts = [
        "*@tcp",
        "tcp*[1]",
        "[2-1]@gni",
        "[1-9/x]@gni",
        "[1-9/0]@gni",
        "1.2.3@tcp",
        "foo",
    ];
    for text in texts
        .into_iter()
        .chain(["tcp1[2-3]", "tcp[5-1]", "lo3", "tcp70000"])
    {
        rejected(
            &format!("--src {text}"),
            "failed to parse src parameter",
            -22,
            234,
        );
    }
}

#[test]
fn a_descriptor_that_does_not_parse_says_where() {
    let error = parse("--dst 10.0.0.[4-1]@tcp", Profile::Design).unwrap_err();
    let place = error.source().unwrap().to_string();
    assert!(place.starts_with("the range 4-1 runs backwards"), "{place}");
}

#[test]
fn a_network_type_without_a_name_is_rejected() {
    let error = parse("--dst tcp --rte 5@<23>", Profile::Design).unwrap_err();
    assert_eq!(
        error.to_string(),
        "rte: <23> is not a network type that rules can name"
    );
    assert_eq!(error.errno(), -22);
}

#[test]
fn t_u52_src_with_rte_is_rejected() {
    rejected(
        "--src tcp2 --rte 1.1.1.1@tcp",
        "src and rte cannot be combined",
        -22,
        234,
    );
}

#[test]
fn t_u25_the_same_rule_again_is_rejected_with_114() {
    for text in [
        "--src tcp --priority 1",
        "--src 1.1.1.1@tcp --dst tcp",
        "--dst tcp --rte 1.1.1.1@tcp",
    ] {
        let mut rules = list(&["--dst kfi", text]);
        let before = rules.clone();
        let error = rules.add(rule(text), Some(0)).unwrap_err();
        assert_eq!(error, PolicyError::Exists { index: 1 });
        let descr = "cannot add udsp: Operation already in progress";
        assert_eq!(rejection(&error), (descr.to_owned(), 114, 114));
        assert_eq!(rules, before);
    }
}

#[test]
fn a_full_list_takes_changes_but_no_more_rules() {
    let mut rules = RuleList::new();
    for number in 0..RuleList::MAX_LEN {
        rules
            .add(rule(&format!("--src tcp{number}")), None)
            .unwrap();
    }
    let error = rules.add(rule("--src o2ib"), None).unwrap_err();
    assert_eq!(
        (error.errno(), rules.rules().len()),
        (-7, RuleList::MAX_LEN)
    );
    rules.add(rule("--src tcp7 --priority 4"), None).unwrap();
}
