//! The explanations of selection rules.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use lnet_explain::{Code, Explanation, Question, Settings, Source, explain, import};
use lnet_policy::Profile;

/// A node with two rails that shows what its rules do; the rules are appended, and `SHOWN` stands for the shown
/// priority.
const NODE: &str = "\
net:
    - net type: tcp
      local NI(s):
        - nid: 10.0.0.1@tcp
          udsp info:
              net priority: -1
              nid priority: SHOWN
        - nid: 10.0.0.2@tcp
peer:
    - primary nid: 10.0.0.7@tcp
      Multi-Rail: True
      peer ni:
        - nid: 10.0.0.7@tcp
        - nid: 10.0.0.8@tcp
udsp:
";

fn told(rules: &str, shown: i64, profile: Profile) -> Explanation {
    let text = NODE.replace("SHOWN", &shown.to_string()) + rules;
    let settings = Settings {
        profile: Some(profile),
        ..Settings::default()
    };
    let source = Source {
        name: "node",
        text: &text,
    };
    let node = import(&[source], &settings).unwrap().node;
    let question = Question {
        to: "10.0.0.7@tcp".parse().unwrap(),
        from: None,
        size: 0,
        sends: 4,
    };
    explain(&node, &question).unwrap()
}

fn rule(index: usize, src: &str, dst: &str, priority: Option<u32>) -> String {
    let action = priority.map(|p| format!("      action:\n          priority: {p}\n"));
    let action = action.unwrap_or_default();
    format!("    - idx: {index}\n      src: {src}\n      dst: {dst}\n      rte: NA\n{action}")
}

#[test]
fn each_value_names_the_rule_that_set_it() {
    let rules = rule(0, "10.0.0.2@tcp", "NA", Some(4)) + &rule(1, "NA", "10.0.0.8@tcp", Some(0));
    let told = told(&rules, -1, Profile::Design);
    let values: Vec<String> = told
        .policies
        .values
        .iter()
        .map(|value| {
            format!(
                "{}: {} by {} ({})",
                value.object, value.value, value.rule, value.text
            )
        })
        .collect();
    let expected = [
        "local NI 10.0.0.2@tcp: priority 4 by 0 (--src 10.0.0.2@tcp --priority 4)",
        "peer NI 10.0.0.8@tcp: priority 0 by 1 (--dst 10.0.0.8@tcp --priority 0)",
    ];
    assert_eq!(values, expected);
    assert_eq!(
        told.answer.path.unwrap().to_string(),
        "10.0.0.2@tcp → 10.0.0.8@tcp"
    );
}

#[test]
fn a_rule_behind_one_that_covers_it_is_shadowed() {
    let rules = rule(0, "10.0.0.*@tcp", "NA", Some(4)) + &rule(1, "10.0.0.1@tcp", "NA", Some(0));
    let told = told(&rules, -1, Profile::Design);
    assert_eq!(
        told.policies.rules[1].state,
        "shadowed: everything that it matches is set by rule 0"
    );
    assert!(
        told.findings
            .iter()
            .any(|finding| finding.code == Code::RuleWithoutEffect)
    );
}

#[test]
fn a_pair_of_a_net_and_a_net_can_do_nothing() {
    let told = told(&rule(0, "tcp", "tcp", None), -1, Profile::Design);
    assert!(
        told.policies.rules[0]
            .state
            .starts_with("can do nothing: its source is a net")
    );
}

#[test]
fn a_pair_rule_does_not_draw_traffic_to_its_source() {
    let told = told(
        &rule(0, "10.0.0.2@tcp", "10.0.0.7@tcp", None),
        -1,
        Profile::Design,
    );
    let found = told
        .findings
        .iter()
        .find(|finding| finding.code == Code::PairDoesNotAttract);
    assert!(found.unwrap().text.contains("10.0.0.1@tcp was chosen"));
}

#[test]
fn a_rule_that_kernels_store_without_effect_is_dead() {
    let told = told(
        &rule(0, "10.0.0.2@tcp", "10.0.0.7@tcp", Some(4)),
        -1,
        Profile::Lustre,
    );
    assert!(
        told.findings
            .iter()
            .any(|finding| finding.code == Code::RuleDead)
    );
}

#[test]
fn a_priority_that_a_kernel_does_not_show_was_not_applied() {
    let rules = rule(0, "10.0.0.1@tcp", "NA", Some(4));
    let told_of = |shown| told(&rules, shown, Profile::Lustre).policies.unapplied;
    assert_eq!(told_of(4), [""; 0]);
    let unapplied = told_of(-1);
    assert!(
        unapplied[0].starts_with("10.0.0.1@tcp: the node shows NID priority -1, its rules say 4")
    );
}

#[test]
fn kinds_of_rule_that_order_may_leave_out_are_named_in_the_lustre_profile() {
    let rules = rule(0, "10.0.0.2@tcp", "tcp", None);
    let unapplied = told(&rules, -1, Profile::Lustre).policies.unapplied;
    assert!(unapplied[0].ends_with("does not reach peers created after it (Q-12)"));
    assert_eq!(
        told(&rules, -1, Profile::Design).policies.unapplied,
        [""; 0]
    );
}

#[test]
fn outputs_in_pieces_are_explained_or_refused_but_never_panic() {
    let text = NODE.replace("SHOWN", "3") + &rule(0, "10.0.0.2@tcp", "10.0.0.7@tcp", None);
    let lines: Vec<&str> = text.lines().collect();
    for left_out in 0..lines.len() {
        for cut in left_out..lines.len() {
            let kept = lines
                .iter()
                .enumerate()
                .filter(|&(at, _)| at != left_out && at <= cut);
            let piece: Vec<&str> = kept.map(|(_, line)| *line).collect();
            let piece = piece.join("\n");
            let source = Source {
                name: "piece",
                text: &piece,
            };
            let Ok(imported) = import(&[source], &Settings::default()) else {
                continue;
            };
            let question = Question {
                to: "10.0.0.7@tcp".parse().unwrap(),
                from: None,
                size: 0,
                sends: 1,
            };
            let told = explain(&imported.node, &question);
            assert!(told.is_ok(), "{piece}: {told:?}");
        }
    }
}
