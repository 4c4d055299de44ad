//! The changes that can be tried, and their effects.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use lnet_explain::{
    Change, ChangeError, Difference, Node, Question, Settings, Source, Switch, Target, WhatIfError,
    import, what_if,
};
use lnet_policy::Profile;

const NODE: &str = "\
net:
    - net type: tcp
      local NI(s):
        - nid: 10.0.0.1@tcp
          interfaces:
              0: eth0
        - nid: 10.0.0.2@tcp
          interfaces:
              0: eth1
    - net type: tcp1
      local NI(s):
        - nid: 10.1.0.1@tcp1
          interfaces:
              0: eth2
route:
    - net: tcp9
      gateway: 10.0.0.8@tcp
    - net: tcp9
      gateway: 10.1.0.9@tcp1
      priority: 1
peer:
    - primary nid: 10.0.0.7@tcp
      Multi-Rail: True
      peer ni:
        - nid: 10.0.0.7@tcp
        - nid: 10.0.0.6@tcp
        - nid: 10.1.0.7@tcp1
udsp:
    - idx: 0
      src: tcp
      action:
          priority: 3
";

fn node() -> Node {
    let source = Source {
        name: "node",
        text: NODE,
    };
    import(&[source], &Settings::default()).unwrap().node
}

fn attempt(to: &str, change: Change) -> Result<Difference, WhatIfError> {
    let question = Question {
        to: to.parse().unwrap(),
        from: None,
        size: 0,
        sends: 8,
    };
    what_if(&node(), &question, &[change])
}

/// Returns the path after a change.
#[track_caller]
fn after(to: &str, change: Change) -> String {
    let answer = attempt(to, change).unwrap().after.answer;
    answer
        .path
        .map_or_else(|| answer.error.unwrap(), |path| path.to_string())
}

const PEER: &str = "10.0.0.7@tcp";
const FAR: &str = "10.9.0.1@tcp9";

fn fail(text: &str) -> Change {
    Change::Fail(Target::parse(text))
}

#[test]
fn nothing_changed_is_the_first_of_equals() {
    let same = Change::Switch(Switch::Discovery, false);
    assert_eq!(
        after(PEER, same.clone()),
        "10.0.0.1@tcp (eth0) → 10.0.0.7@tcp"
    );
    assert_eq!(
        after(FAR, same),
        "10.0.0.1@tcp (eth0) → 10.0.0.8@tcp → 10.9.0.1@tcp9"
    );
}

#[test]
fn what_fails_is_left_by_the_traffic() {
    assert_eq!(
        after(PEER, fail("10.0.0.1@tcp")),
        "10.0.0.2@tcp (eth1) → 10.0.0.7@tcp"
    );
    assert_eq!(
        after(PEER, fail("eth0")),
        "10.0.0.2@tcp (eth1) → 10.0.0.7@tcp"
    );
    assert_eq!(
        after(PEER, fail("10.0.0.7@tcp")),
        "10.0.0.1@tcp (eth0) → 10.0.0.6@tcp"
    );
    let by_other = "10.1.0.1@tcp1 (eth2) → 10.1.0.9@tcp1 → 10.9.0.1@tcp9";
    assert_eq!(after(FAR, fail("10.0.0.8@tcp")), by_other);
}

#[test]
fn what_failed_and_is_restored_is_as_before() {
    let question = Question {
        to: PEER.parse().unwrap(),
        from: None,
        size: 0,
        sends: 8,
    };
    for target in ["eth0", "10.0.0.7@tcp", "10.0.0.8@tcp"] {
        let target = Target::parse(target);
        let changes = [Change::Fail(target.clone()), Change::Restore(target)];
        let difference = what_if(&node(), &question, &changes).unwrap();
        assert!(
            difference.differing.is_empty(),
            "{:?}",
            difference.differing
        );
    }
}

#[test]
fn health_moves_traffic() {
    let lowered = Change::health("10.0.0.1@tcp=999").unwrap();
    assert_eq!(after(PEER, lowered), "10.0.0.2@tcp (eth1) → 10.0.0.7@tcp");
}

#[test]
fn rules_move_traffic_and_stop_moving_it() {
    let rule = |text| Change::add_rule(text, Profile::Design).unwrap();
    let over_tcp1 = "10.1.0.1@tcp1 (eth2) → 10.1.0.7@tcp1";
    assert_eq!(after(PEER, rule("--src tcp1 --priority 0")), over_tcp1);
    assert_eq!(after(PEER, rule("dst=tcp1 priority=0 idx=0")), over_tcp1);
    assert_eq!(
        after(PEER, Change::set("rule.0=1").unwrap()),
        "10.0.0.1@tcp (eth0) → 10.0.0.7@tcp"
    );
    let difference = attempt(PEER, Change::delete_rule("0").unwrap()).unwrap();
    assert_eq!(
        difference.shares["10.1.0.1@tcp1 (eth2) → 10.1.0.7@tcp1"],
        (0, 4)
    );
}

#[test]
fn interfaces_and_nets_come_and_go() {
    let added = attempt(PEER, Change::add_ni("10.0.0.3@tcp=eth3").unwrap()).unwrap();
    assert!(
        added
            .shares
            .keys()
            .any(|path| path.starts_with("10.0.0.3@tcp (eth3)"))
    );
    assert_eq!(
        after(PEER, Change::delete_ni("10.0.0.1@tcp").unwrap()),
        "10.0.0.2@tcp (eth1) → 10.0.0.7@tcp"
    );
    assert_eq!(
        after(PEER, Change::delete_net("tcp").unwrap()),
        "10.1.0.1@tcp1 (eth2) → 10.1.0.7@tcp1"
    );
    // Routes to a net are removed when the net becomes local.
    assert_eq!(
        after(FAR, Change::add_net("tcp9=10.9.0.5@tcp9").unwrap()),
        "10.9.0.5@tcp9 → 10.9.0.1@tcp9"
    );
}

#[test]
fn peers_and_routes_come_and_go() {
    let nid = Change::add_peer_nid("10.0.0.7@tcp=10.0.0.5@tcp").unwrap();
    let shares = attempt(PEER, nid).unwrap().shares;
    assert!(shares.keys().any(|path| path.ends_with("10.0.0.5@tcp")));
    let gone = Change::delete_peer_nid("10.0.0.7@tcp").unwrap();
    assert_eq!(
        after("10.0.0.6@tcp", gone),
        "10.0.0.1@tcp (eth0) → 10.0.0.6@tcp"
    );
    let route = Change::add_route("tcp8=10.1.0.9@tcp1,hop=2,priority=1").unwrap();
    assert_eq!(
        after("10.8.0.1@tcp8", route),
        "10.1.0.1@tcp1 (eth2) → 10.1.0.9@tcp1 → 10.8.0.1@tcp8"
    );
    let gone = Change::delete_route("tcp9=10.0.0.8@tcp").unwrap();
    assert_eq!(
        after(FAR, gone),
        "10.1.0.1@tcp1 (eth2) → 10.1.0.9@tcp1 → 10.9.0.1@tcp9"
    );
    let last = Change::set("route.tcp9.10.0.0.8@tcp=5").unwrap();
    assert_eq!(
        after(FAR, last),
        "10.1.0.1@tcp1 (eth2) → 10.1.0.9@tcp1 → 10.9.0.1@tcp9"
    );
}

#[test]
fn parameters_change_what_follows_a_failure() {
    let once = attempt(PEER, Change::set("retry_count=0").unwrap()).unwrap();
    let resends = once
        .differing
        .iter()
        .filter(|(subject, ..)| subject.starts_with("after"));
    assert!(resends.count() > 0);
    let off = attempt(PEER, Change::set("health_sensitivity=0").unwrap()).unwrap();
    assert!(
        off.new
            .iter()
            .any(|finding| finding.code == lnet_explain::Code::HealthOff)
    );
    let longer = attempt(PEER, Change::set("transaction_timeout=300").unwrap()).unwrap();
    let ends: Vec<u64> = longer.after.resends[0]
        .branches
        .iter()
        .map(|one| one.end_seconds)
        .collect();
    assert!(ends.contains(&99), "{ends:?}");
}

#[test]
fn a_peer_that_is_not_multi_rail_keeps_one_nid() {
    let change = Change::Switch(Switch::MultiRail, false);
    let told = attempt("10.0.0.6@tcp", change).unwrap().after;
    assert_eq!(told.classification.unwrap().case, "B1D");
    assert_eq!(told.forecast.shares.len(), 1);
    assert_eq!(told.answer.path.unwrap().destination, "10.0.0.6@tcp");
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let refused = |change: Change| attempt(PEER, change).unwrap_err().to_string();
    assert_eq!(refused(fail("eth9")), "the node has no interface eth9");
    let nid = Change::delete_ni("10.0.0.9@tcp").unwrap();
    assert_eq!(refused(nid), "the node has no local NI 10.0.0.9@tcp");
    let twice = Change::add_ni("10.0.0.1@tcp").unwrap();
    assert_eq!(refused(twice), "the node has 10.0.0.1@tcp already");
    let route = Change::delete_route("tcp9=10.0.0.9@tcp").unwrap();
    assert_eq!(
        refused(route),
        "the node has no route to tcp9 by 10.0.0.9@tcp"
    );
    let retries = refused(Change::set("retry_count=200").unwrap());
    assert_eq!(
        retries,
        "retry_count 200 is more than transaction_timeout has seconds"
    );
    let same = Change::add_rule("--src tcp --priority 3", Profile::Design).unwrap();
    let error = lnet_policy::PolicyError::Exists { index: 0 };
    assert_eq!(refused(same), error.to_string());
}

#[test]
fn what_cannot_be_read_says_what_would_be_right() {
    let unreadable = |result: Result<Change, ChangeError>| match result.unwrap_err() {
        ChangeError::Unreadable { expected, .. } => expected,
        other => panic!("{other}"),
    };
    assert!(unreadable(Change::health("10.0.0.1@tcp=1001")).contains("0 to 1000"));
    assert!(unreadable(Change::add_net("tcp2=10.0.0.1@tcp")).contains("on that net"));
    assert!(unreadable(Change::add_route("tcp2")).contains("hop=N"));
    assert!(unreadable(Change::add_rule("src", Profile::Design)).contains("--src tcp"));
    assert!(unreadable(Change::set("mtu=+1")).contains("retry_count=N"));
    assert!(matches!(
        Change::add_rule("--rte 10.0.0.1@tcp", Profile::Design),
        Err(ChangeError::Rule(_))
    ));
}
