//! Compares forecast recovery with the rules: [RECOV-1], [RECOV-2].

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use lnet_core::UsedPaths;
use lnet_explain::{HealthReport, Node};
use lnet_policy::Profile;

use common::{node, node_in, told};

const PEER: &str = "10.0.0.7@tcp";

/// Two NIs, and a Multi-Rail peer with two NIs. `LOCAL` and `REMOTE` stand for the health statistics of the first
/// NI of each.
const NODE: &str = "\
net:
- net type: tcp
  local NI(s):
  - {nid: 10.0.0.1@tcp, health stats: {LOCAL}}
  - {nid: 10.0.0.2@tcp, health stats: {health value: 1000}}
peer:
- primary nid: 10.0.0.7@tcp
  Multi-Rail: true
  peer ni:
  - {nid: 10.0.0.7@tcp, health stats: {REMOTE}}
  - {nid: 10.0.0.8@tcp, health stats: {health value: 1000}}
";

fn text(local: &str, remote: &str) -> String {
    NODE.replace("LOCAL", local).replace("REMOTE", remote)
}

fn report(node: &Node) -> HealthReport {
    let one = told(node, PEER);
    assert_eq!(one.health.len(), 1, "one is not well");
    one.health.into_iter().next().unwrap()
}

#[test]
fn a_peer_ni_at_500_needs_five_pings_two_seconds_apart() {
    for profile in [Profile::Design, Profile::Lustre] {
        let text = text("health value: 1000", "health value: 500");
        let report = report(&node_in(&text, profile, UsedPaths::Pair));
        assert_eq!((report.pings, report.stuck), (5, None));
        assert_eq!(report.schedule_seconds, [0, 2, 4, 6, 8]);
        assert_eq!(report.full_after_seconds, Some(8));
    }
}

#[test]
fn a_ping_of_ones_own_nid_raises_it_by_five_sensitivities() {
    let report = report(&node(&text("health value: 400", "health value: 1000")));
    assert_eq!((report.local, report.pings), (true, 2));
}

#[test]
fn after_five_pings_in_vain_the_second_one_is_64_seconds_behind_the_first() {
    let remote = "health value: 700, ping_count: 5";
    let report = report(&node(&text("health value: 1000", remote)));
    assert_eq!(report.schedule_seconds, [0, 64, 66]);
}

#[test]
fn the_longest_pause_is_that_of_the_node() {
    let remote = "health value: 800, ping_count: 5";
    let text = text("health value: 1000", remote) + "global: {max_recovery_ping_interval: 4}\n";
    assert_eq!(report(&node(&text)).schedule_seconds, [0, 4]);
}

#[test]
fn a_router_is_satisfied_with_one_answer_of_a_peer() {
    let text = text("health value: 1000", "health value: 0") + "routing: {enable: 1}\n";
    assert_eq!(report(&node(&text)).pings, 1);
}

#[test]
fn without_sensitivity_nobody_recovers() {
    let text = text("health value: 1000", "health value: 0")
        + "global: {health_sensitivity: 0, retry_count: 0}\n";
    let report = report(&node(&text));
    assert!(report.stuck.unwrap().contains("health_sensitivity is 0"));
    assert_eq!(report.pings, 0);
}

#[test]
fn a_peer_ni_that_a_running_node_never_heard_of_is_not_pinged() {
    let read = node(&text("health value: 1000", "health value: 500"));
    let exact = Node::exact(read.state, read.now);
    let report = report(&exact);
    assert!(report.stuck.unwrap().contains("never heard of"));
}

#[test]
fn ten_thousand_steps_of_the_smallest_sensitivity_end() {
    let text = text("health value: 1000", "health value: 0")
        + "global: {health_sensitivity: 1, retry_count: 0}\n";
    let report = report(&node(&text));
    assert_eq!((report.pings, report.schedule_seconds.len()), (1000, 16));
}
