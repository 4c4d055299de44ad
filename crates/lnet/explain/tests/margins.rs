//! Tests margins: after the change that a margin names, the winner loses to the rival that the margin names.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use lnet_explain::{Change, Question, explain, what_if};

use common::{ask, node, told};

/// Three NIs with falling health. The second best NI is not the last of the list.
const FALLING: &str = "\
net:
- net type: tcp
  local NI(s):
  - {nid: 10.0.1.1@tcp, health stats: {health value: 1000}}
  - {nid: 10.0.1.2@tcp, health stats: {health value: 900}}
  - {nid: 10.0.1.3@tcp, health stats: {health value: 500}}
";

#[test]
fn the_rival_is_the_next_best_one_wherever_it_stands() {
    let node = node(FALLING);
    let one = told(&node, "10.0.1.9@tcp");
    let margin = one.levels[0].margin.clone().unwrap();
    assert!(margin.contains("10.0.1.2@tcp"), "{margin}");
    assert!(margin.contains("health below 900 "), "{margin}");
    assert!(one.answer.because[0].contains("900 of 10.0.1.2@tcp"));
    let change = Change::health("10.0.1.1@tcp=899").unwrap();
    let after = what_if(&node, &ask("10.0.1.9@tcp"), &[change])
        .unwrap()
        .after;
    assert_eq!(after.answer.path.unwrap().source, "10.0.1.2@tcp");
}

#[test]
fn a_source_that_is_not_local_is_not_taken_for_loopback() {
    let question = Question {
        from: Some("10.9.9.9@tcp".parse().unwrap()),
        ..ask("10.0.1.9@tcp")
    };
    let one = explain(&node(FALLING), &question).unwrap();
    assert_eq!(one.answer.because, [] as [String; 0]);
    let error = one.answer.error.unwrap();
    assert!(error.contains("10.9.9.9@tcp is not a local NID"), "{error}");
}
