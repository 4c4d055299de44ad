//! Explanations of the source interface of messages to a peer that is not Multi-Rail.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use lnet_explain::{Code, Explanation, Question, Settings, Source, explain, import};

/// Two rails, of which the first has no link.
const NODE: &str = "\
net:
- net type: tcp
  local NI(s):
  - nid: 10.0.0.1@tcp
    health stats: {fatal_error: 1, health value: 1000}
  - nid: 10.0.0.2@tcp
    health stats: {fatal_error: 0, health value: 1000}
";

fn explained(more: &str) -> Explanation {
    let text = format!("{NODE}{more}");
    let source = Source {
        name: "node",
        text: &text,
    };
    let node = import(&[source], &Settings::default()).unwrap().node;
    let question = Question {
        to: "10.0.0.7@tcp".parse().unwrap(),
        from: None,
        size: 0,
        sends: 1,
    };
    explain(&node, &question).unwrap()
}

const RULE: &str = "udsp:\n- {idx: 0, src: 10.0.0.1@tcp, dst: 10.0.0.7@tcp}\n";

#[test]
fn a_pair_rule_that_pins_the_source_is_named_as_the_reason() {
    let peer =
        "peer: [{primary nid: 10.0.0.7@tcp, Multi-Rail: false, peer ni: [{nid: 10.0.0.7@tcp}]}]\n";
    for known in ["", peer] {
        let one = explained(&format!("{RULE}{known}"));
        let path = one.answer.path.unwrap().to_string();
        assert_eq!(path, "10.0.0.1@tcp → 10.0.0.7@tcp");
        let because = one.answer.because.join("; ");
        let due =
            "rule 0 prefers 10.0.0.1@tcp for 10.0.0.7@tcp, a NID of a peer that is not Multi-Rail";
        assert!(because.contains(due), "{because}");
    }
}

#[test]
fn no_margin_asks_for_an_error_that_is_worse_than_a_fatal_one() {
    let one = explained("");
    let margins: Vec<String> = one
        .levels
        .iter()
        .filter_map(|level| level.margin.clone())
        .collect();
    assert!(
        margins.iter().all(|margin| !margin.contains("fatal above")),
        "{margins:?}"
    );
    let because = one.answer.because.join("; ");
    assert!(
        because.contains("10.0.0.2@tcp by fatal, 0 against 1"),
        "{because}"
    );
}

#[test]
fn the_lnd_timeout_of_a_release_is_not_misaligned() {
    let with = |timeout| {
        let text = format!(
            "net: [{{net type: tcp, local NI(s): [{{nid: 10.0.0.1@tcp, lnd tunables: {{timeout: {timeout}}}}}]}}]\n"
        );
        let source = Source {
            name: "node",
            text: &text,
        };
        let node = import(&[source], &Settings::default()).unwrap().node;
        let question = Question {
            to: "10.0.0.7@tcp".parse().unwrap(),
            from: None,
            size: 0,
            sends: 1,
        };
        let found = explain(&node, &question).unwrap().findings;
        found
            .iter()
            .any(|finding| finding.code == Code::TimeoutsMisaligned)
    };
    // 49 s is what 2.16.1 derives, 50 s is what 2.17.0 has.
    assert_eq!([49, 50, 51].map(with), [false, false, true]);
}
