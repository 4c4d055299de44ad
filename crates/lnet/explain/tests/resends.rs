//! Compares the resend trees with the table of attempts and the classes: [RESEND-1], [RESEND-20], [RESEND-21],
//! [RESEND-22].

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use lnet_core::UsedPaths;
use lnet_explain::{Branch, Question, explain};
use lnet_policy::Profile;

use common::{ask, node_in};

const LOCAL_CLASSES: [&str; 5] = [
    "local_interrupt",
    "local_dropped",
    "local_aborted",
    "local_no_route",
    "local_timeout",
];
const NEVER: [&str; 4] = [
    "local_error",
    "remote_error",
    "remote_timeout",
    "network_timeout",
];

/// Returns a node with `ours` NIs and a peer with `theirs` NIs.
fn rails(ours: usize, theirs: usize, multi_rail: bool) -> String {
    let list = |prefix: &str, count| -> String {
        (1..=count)
            .map(|at| format!("  - {{nid: 10.0.{prefix}.{at}@tcp}}\n"))
            .collect()
    };
    format!(
        "net:\n- net type: tcp\n  local NI(s):\n{}peer:\n- primary nid: 10.0.7.1@tcp\n  \
         Multi-Rail: {multi_rail}\n  peer ni:\n{}",
        list("0", ours),
        list("7", theirs)
    )
}

/// Returns the branch of one class of failure in both profiles: design, lustre.
fn branches(text: &str, used: UsedPaths, class: &str, from: Option<&str>) -> [Branch; 2] {
    let node = node_in(text, Profile::Design, used);
    let question = Question {
        from: from.map(|from| from.parse().unwrap()),
        ..ask("10.0.7.1@tcp")
    };
    let told = explain(&node, &question).unwrap();
    ["design", "lustre"].map(|profile| {
        let mut trees = told.resends.iter();
        let tree = trees.find(|tree| tree.profile == profile).unwrap();
        let mut branches = tree.branches.iter();
        let found = branches.find(|branch| branch.classes.contains(&class));
        found.unwrap().clone()
    })
}

fn tries(text: &str, used: UsedPaths, class: &str) -> [usize; 2] {
    branches(text, used, class, None).map(|branch| branch.tries.len())
}

#[test]
fn attempts_are_those_of_the_table_for_the_literal_reading() {
    let table = [
        // NIs, peer NIs, attempts: design; lustre with local classes; lustre with remote classes
        (1, 1, 1, 1, 1),
        (2, 1, 1, 3, 1),
        (1, 2, 1, 1, 3),
        (2, 2, 2, 3, 3),
        (3, 3, 3, 3, 3),
    ];
    for (ours, theirs, design, local, remote) in table {
        let text = rails(ours, theirs, true);
        let case = format!("{ours} x {theirs}");
        let of = |class| tries(&text, UsedPaths::Literal, class);
        if ours > 1 {
            assert_eq!(of("local_dropped"), [design, local], "{case} local");
        }
        if theirs > 1 {
            assert_eq!(of("remote_dropped"), [design, remote], "{case} remote");
        }
        if ours == 1 {
            assert_eq!(of("local_dropped"), [1, 1], "{case} local");
        }
        if theirs == 1 {
            assert_eq!(of("remote_dropped"), [1, 1], "{case} remote");
        }
    }
}

#[test]
fn by_pairs_the_second_ni_is_used_for_a_local_failure_and_nothing_for_a_remote_one() {
    let text = rails(2, 1, true);
    assert_eq!(tries(&text, UsedPaths::Pair, "local_dropped"), [2, 3]);
    assert_eq!(tries(&text, UsedPaths::Pair, "remote_dropped"), [1, 1]);
}

#[test]
fn only_what_cannot_have_arrived_is_sent_again() {
    let text = rails(3, 3, true);
    for class in LOCAL_CLASSES.into_iter().chain(["remote_dropped"]) {
        assert_eq!(tries(&text, UsedPaths::Pair, class), [3, 3], "{class}");
    }
    for class in NEVER {
        assert_eq!(tries(&text, UsedPaths::Pair, class), [1, 1], "{class}");
    }
}

#[test]
fn a_given_source_and_a_single_rail_have_no_alternative_by_design() {
    let text = rails(2, 1, false);
    let source = Some("10.0.0.1@tcp");
    let [design, lustre] = branches(&text, UsedPaths::Pair, "local_dropped", source);
    assert_eq!((design.tries.len(), lustre.tries.len()), (1, 3));
}

#[test]
fn a_timeout_takes_what_the_lnd_may_take_and_tries_share_the_transaction_timeout() {
    let text = rails(3, 3, true);
    for branch in branches(&text, UsedPaths::Pair, "local_timeout", None) {
        let begun: Vec<u64> = branch.tries.iter().map(|one| one.at_seconds).collect();
        // (150 - 1) / (2 + 1) = 49
        assert_eq!((begun, branch.end_seconds), (vec![0, 49, 98], 147));
    }
}
