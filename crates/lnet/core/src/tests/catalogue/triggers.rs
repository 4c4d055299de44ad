//! When rules are applied [UDSP-34], with one test per trigger. Each test checks every kind of
//! effect that the trigger can have, with rules that existed before.

use lnet_policy::Priority;

use super::*;

const N1: &str = "10.0.0.1@tcp";
const N2: &str = "10.0.0.2@tcp";
const P1: &str = "10.0.1.1@tcp";
const P2: &str = "10.0.1.2@tcp";
const O1: &str = "10.9.0.1@o2ib";
const Q1: &str = "10.9.1.1@o2ib";
const R1: &str = "10.0.0.8@tcp";
const FAR: &str = "10.5.0.1@tcp5";

/// Returns the effective values of all objects as `what: value`, for values that rules set.
fn effects(bench: &Bench) -> Vec<String> {
    let mut found = Vec::new();
    let mut set = |what: String, priority: Priority| {
        if priority != Priority::NONE {
            found.push(format!("{what}: {priority}"));
        }
    };
    for ni in bench.core.nis().skip(1) {
        set(format!("net {}", ni.nid.net()), ni.net_priority.priority);
        set(format!("ni {}", ni.nid), ni.health.priority.priority);
    }
    let peer_nis: Vec<PeerNiView> = bench.core.peers().flat_map(|peer| peer.nis).collect();
    for ni in &peer_nis {
        set(
            format!("peer net {}", ni.nid.net()),
            ni.net_priority.priority,
        );
        set(format!("peer ni {}", ni.nid), ni.health.priority.priority);
    }
    for ni in &peer_nis {
        let lists = [
            ("sources", bench.core.preferred_sources(ni.nid)),
            ("gateways", bench.core.preferred_gateways(ni.nid)),
        ];
        for (what, list) in lists {
            let list = list.iter().map(|entry| entry.nid);
            found.extend(list.map(|nid| format!("{what} of {}: {nid}", ni.nid)));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Adds one rule of each kind, for all objects in these tests.
fn rules(bench: &mut Bench) {
    bench.rule("tcp", "", "", Some(1));
    bench.rule("o2ib", "", "", Some(2));
    bench.rule("*.*.*.*@tcp", "", "", Some(3));
    bench.rule("", "tcp", "", Some(4));
    bench.rule("", "o2ib", "", Some(5));
    bench.rule("", "*.*.*.*@tcp", "", Some(6));
    bench.rule("*.*.*.*@tcp", "10.0.1.*@tcp", "", None);
    bench.rule("*.*.*.*@o2ib", "o2ib", "", None);
    bench.rule("", "tcp5", "10.0.0.*@tcp", None);
}

#[test]
fn trigger_rule_reaches_everything_that_is_there_and_takes_it_back() {
    let mut bench = Bench::new(&[N1, O1]);
    bench.route("tcp5", R1, None, 0);
    bench.peer(&[P1, Q1, FAR]);
    let before = effects(&bench);
    assert_eq!(before, [""; 0]);
    rules(&mut bench);
    let expected = [
        "gateways of 10.5.0.1@tcp5: 10.0.0.8@tcp",
        "net o2ib: 2",
        "net tcp: 1",
        "ni 10.0.0.1@tcp: 3",
        "peer net o2ib: 5",
        "peer net tcp: 4",
        "peer ni 10.0.0.8@tcp: 6",
        "peer ni 10.0.1.1@tcp: 6",
        "sources of 10.0.1.1@tcp: 10.0.0.1@tcp",
        "sources of 10.9.1.1@o2ib: 10.9.0.1@o2ib",
    ];
    assert_eq!(effects(&bench), expected);
    for kept in (0..9).rev() {
        bench.core.delete_rule(kept).unwrap();
        assert!(effects(&bench).len() < expected.len() || kept == 8);
    }
    assert_eq!(effects(&bench), before);
}

/// Returns the effects that a change adds.
fn gained(bench: &mut Bench, change: impl FnOnce(&mut Bench)) -> Vec<String> {
    let before = effects(bench);
    change(bench);
    let after = effects(bench).into_iter();
    after.filter(|effect| !before.contains(effect)).collect()
}

#[test]
fn trigger_net_gives_a_new_local_net_its_priority() {
    let mut bench = Bench::new(&[N1]);
    rules(&mut bench);
    let gained = gained(&mut bench, |bench| _ = bench.add_ni(O1));
    assert_eq!(gained, ["net o2ib: 2"]);
}

#[test]
fn trigger_ni_gives_a_new_interface_its_priority_and_its_place_in_lists() {
    let mut bench = Bench::new(&[N1]);
    bench.peer(&[P1]);
    rules(&mut bench);
    let expected = [
        "ni 10.0.0.2@tcp: 3",
        "sources of 10.0.1.1@tcp: 10.0.0.2@tcp",
    ];
    assert_eq!(gained(&mut bench, |bench| _ = bench.add_ni(N2)), expected);
    let n1 = bench.ni(N1).id;
    bench.core.remove_ni(n1, bench.now).unwrap();
    let left = effects(&bench);
    assert!(left.iter().all(|effect| !effect.contains(N1)), "{left:?}");
}

#[test]
fn trigger_peer_gives_a_new_peer_all_that_is_its() {
    let mut bench = Bench::new(&[N1]);
    rules(&mut bench);
    let configured = gained(&mut bench, |bench| bench.peer(&[P1]));
    let expected = [
        "peer net tcp: 4",
        "peer ni 10.0.1.1@tcp: 6",
        "sources of 10.0.1.1@tcp: 10.0.0.1@tcp",
    ];
    assert_eq!(configured, expected);
    let by_traffic = gained(&mut bench, |bench| _ = bench.carry(P2));
    let expected = [
        "peer ni 10.0.1.2@tcp: 6",
        "sources of 10.0.1.2@tcp: 10.0.0.1@tcp",
    ];
    assert_eq!(by_traffic, expected);
}

#[test]
fn trigger_peer_net_gives_a_new_net_of_a_peer_its_priority_and_lists() {
    let mut bench = Bench::new(&[N1, O1]);
    bench.peer(&[P1]);
    rules(&mut bench);
    let add = |bench: &mut Bench| bench.core.add_peer(nid(P1), &[nid(Q1)], true).unwrap();
    let expected = [
        "peer net o2ib: 5",
        "sources of 10.9.1.1@o2ib: 10.9.0.1@o2ib",
    ];
    assert_eq!(gained(&mut bench, add), expected);
}

#[test]
fn trigger_peer_ni_gives_a_new_interface_of_a_peer_its_priority_and_lists() {
    let mut bench = Bench::new(&[N1]);
    bench.peer(&[P1]);
    rules(&mut bench);
    let add = |bench: &mut Bench| bench.core.add_peer(nid(P1), &[nid(P2)], true).unwrap();
    let expected = [
        "peer ni 10.0.1.2@tcp: 6",
        "sources of 10.0.1.2@tcp: 10.0.0.1@tcp",
    ];
    assert_eq!(gained(&mut bench, add), expected);
}

#[test]
fn trigger_route_puts_a_new_gateway_on_the_lists_and_takes_it_off() {
    let mut bench = Bench::new(&[N1]);
    bench.peer(&[FAR]);
    rules(&mut bench);
    let before = effects(&bench);
    let add = |bench: &mut Bench| bench.route("tcp5", R1, None, 0);
    let expected = [
        "gateways of 10.5.0.1@tcp5: 10.0.0.8@tcp",
        "peer net tcp: 4",
        "peer ni 10.0.0.8@tcp: 6",
    ];
    assert_eq!(gained(&mut bench, add), expected);
    let (net, gateway) = ("tcp5".parse().unwrap(), nid(R1));
    bench.core.remove_route(net, gateway).unwrap();
    let left = effects(&bench);
    let about_it = |effect: &String| effect.starts_with("gateways");
    assert!(!left.iter().any(about_it), "{left:?}");
    assert!(before.iter().all(|effect| left.contains(effect)));
}

/// Creates a node with rules of each kind for many peers that are changed in steps, so that some peers are outdated.
fn behind() -> Bench {
    let mut bench = Bench::new(&[N1, N2, O1]);
    bench.route("tcp5", R1, None, 0);
    for host in 1..=40 {
        let nids = [1, 2].map(|rail| format!("10.0.{rail}.{host}@tcp"));
        bench.peer(&nids.each_ref().map(String::as_str));
    }
    bench.peer(&[FAR]);
    bench.rule("", "10.0.1.*@tcp", "", Some(0));
    bench.rule(N1, "10.0.1.*@tcp", "", None);
    bench.core.hold_rules();
    bench.core.clear_rules();
    bench.rule("", "10.0.2.*@tcp", "", Some(0));
    bench.rule(N2, "10.0.2.*@tcp", "", None);
    bench.rule("", "tcp5", "10.0.0.*@tcp", None);
    bench.core.release_rules_in_steps();
    bench
}

#[test]
fn rules_that_are_applied_in_steps_end_where_those_applied_at_once_end() {
    for count in [1, 7, 1000] {
        let mut stepped = behind();
        while stepped.core.apply_rules_step(count) {}
        let mut at_once = behind();
        at_once.core.release_rules();
        assert_eq!(effects(&stepped), effects(&at_once), "{count} at a time");
        assert!(effects(&stepped).len() > 80);
        assert!(!stepped.core.apply_rules_step(count), "there is an end");
    }
}

#[test]
fn a_message_goes_by_the_new_rules_before_any_step_has_come_to_its_peer() {
    let mut bench = behind();
    assert_eq!(bench.carry("10.0.1.40@tcp").1, "10.0.2.40@tcp");
    // A peer that was not updated yet has no part of a list of the old rules.
    assert_eq!(bench.core.preferred_sources(nid("10.0.1.39@tcp")), &[]);
    bench.carry(FAR);
    let gateways = bench.core.preferred_gateways(nid(FAR));
    assert_eq!(
        gateways.iter().map(|one| one.nid).collect::<Vec<_>>(),
        [nid(R1)]
    );
}

#[test]
fn a_resend_goes_by_the_new_rules_before_any_step_has_come_to_its_peer() {
    let last = "10.0.1.3@tcp";
    let mut bench = Bench::new(&[N1, N2]);
    bench.peer(&[P1, P2, last]);
    let first = bench.send(P1);
    bench.core.hold_rules();
    bench.rule("", last, "", Some(0));
    bench.core.release_rules_in_steps();
    let again = bench.retried(&first, MessageStatus::LocalDropped);
    assert_eq!(bench.pair(&again).1, last);
}

#[test]
fn rules_that_change_again_between_two_steps_are_applied_to_everything() {
    let mut bench = behind();
    bench.core.apply_rules_step(10);
    bench.core.hold_rules();
    bench.core.clear_rules();
    bench.core.release_rules_in_steps();
    bench.core.apply_rules_step(10);
    assert_ne!(effects(&bench), [""; 0], "some are behind");
    while bench.core.apply_rules_step(10) {}
    assert_eq!(effects(&bench), [""; 0]);
}
