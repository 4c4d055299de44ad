//! Verdicts that were wrong: about servers that hang, were not reached, or were not asked.

use std::slice::from_ref;
use std::time::Duration;

use lnet_ptlrpc::client::{Failure, Granted};
use lnet_ptlrpc::mount::{
    Answer, Facts, KINDS, Knock, Mgs, Reach, Severity, TargetFacts, Verdict, Way, Why, check,
};

use super::{
    facts, healthy, kinds, lost, no_reply, none_there, reach, silent, target, unexamined, untried,
};

fn knock(nid: &str, failure: Failure) -> Knock {
    let (nid, result) = (nid.to_owned(), Err(failure));
    Knock { nid, result }
}

fn served(nid: &str) -> Knock {
    let (nid, result) = (nid.to_owned(), Ok((Granted::default(), None)));
    Knock { nid, result }
}

fn refused(opc: u32, status: i32) -> Failure {
    let is_banned = false;
    Failure::Refused {
        opc,
        status,
        is_banned,
    }
}

fn garbage(opc: u32) -> Failure {
    let what = "bytes".to_owned();
    Failure::Garbage { opc, what }
}

/// Returns the verdict about a file system with this MDT0000.
fn of_mdt(nodes: &[Vec<Reach>], now: &[Reach], knocks: &[Knock]) -> Verdict {
    let mut mdt = target("fs1-MDT0000", Vec::new());
    (mdt.nodes, mdt.now, mdt.knocks) = (nodes.to_vec(), now.to_vec(), knocks.to_vec());
    check(&facts(healthy(), vec![mdt]))
}

/// Returns the verdict about a file system with these nodes of the MGS.
fn of_mgs(nodes: &[Mgs]) -> Verdict {
    let mut facts = facts(None, Vec::new());
    facts.mgs = nodes.to_vec();
    check(&facts)
}

fn asked(nid: &str, failure: Failure) -> Mgs {
    let (nids, outcome) = (vec![reach(nid, Answer::Yes)], Some(Err(failure)));
    Mgs { nids, outcome }
}

fn not_asked(reach: Reach) -> Mgs {
    let (nids, outcome) = (vec![reach], None);
    Mgs { nids, outcome }
}

const ONE: &str = "10.0.0.3@tcp";
const OTHER: &str = "10.0.0.4@tcp";

fn yes(nid: &str) -> Vec<Reach> {
    vec![reach(nid, Answer::Yes)]
}

#[test]
fn a_failover_node_that_answers_a_ping_is_not_known_to_serve_the_target() {
    let nodes = [vec![silent(ONE)], yes(OTHER)];
    let verdict = of_mdt(&nodes, &[], &[]);
    assert_eq!(kinds(&verdict), ["target-unproven"], "{verdict}");
    assert_eq!(verdict.findings[0].severity, Severity::Unknown);
    let text = verdict.to_string();
    assert!(text.contains("is not known yet: fs1-MDT0000"), "{text}");
    assert!(text.contains(&format!("no reply from {ONE}")), "{text}");
    for known in [
        of_mdt(&nodes, &yes(OTHER), &[]),
        of_mdt(&nodes, &[], &[served(OTHER)]),
    ] {
        assert_eq!(kinds(&known), ["target-on-failover"], "{known}");
        assert_eq!(known.findings[0].severity, Severity::Suffers);
    }
    // It is there, and in recovery.
    let there = of_mdt(&nodes, &[], &[knock(OTHER, refused(41, -11))]);
    assert_eq!(kinds(&there), ["target-recovering", "target-on-failover"]);
}

#[test]
fn a_target_that_hangs_behind_its_connect_is_there() {
    let late = no_reply(13);
    let two = [yes(ONE), yes(OTHER)];
    for verdict in [
        of_mdt(&[yes(ONE)], &[], &[knock(ONE, late.clone())]),
        of_mdt(
            &two,
            &[],
            &[knock(ONE, none_there(38)), knock(OTHER, late.clone())],
        ),
        of_mdt(
            &two,
            &[],
            &[knock(ONE, late.clone()), knock(OTHER, none_there(38))],
        ),
        of_mdt(
            &[yes(ONE), vec![silent(OTHER)]],
            &[],
            &[knock(ONE, late.clone())],
        ),
    ] {
        let text = verdict.to_string();
        assert_eq!(verdict.findings[0].kind.name, "target-late", "{text}");
        assert!(text.contains(&format!("{late}")), "{text}");
        assert!(!text.contains("mount the target"), "{text}");
        assert!(!kinds(&verdict).contains(&"target-not-found"), "{text}");
    }
}

#[test]
fn a_target_that_is_slow_is_not_known_and_no_timeout_helps() {
    let slow = Failure::Late(Duration::from_secs(6));
    let verdict = of_mdt(&[yes(ONE)], &[], &[knock(ONE, slow)]);
    let text = verdict.to_string();
    assert_eq!(kinds(&verdict), ["target-slow"], "{text}");
    assert_eq!(verdict.findings[0].severity, Severity::Unknown);
    assert!(!text.contains("--timeout"), "{text}");
}

#[test]
fn a_node_that_does_not_answer_the_connect_may_have_the_target() {
    for (gone, mute) in [(ONE, OTHER), (OTHER, ONE)] {
        let knocks = [knock(gone, none_there(38)), knock(mute, no_reply(38))];
        let verdict = of_mdt(&[yes(ONE), yes(OTHER)], &[], &knocks);
        let text = verdict.to_string();
        assert_eq!(kinds(&verdict), ["target-silent"], "{text}");
        assert!(text.contains(&format!("seen: {mute}: no reply")), "{text}");
        assert!(!text.contains("mount the target"), "{text}");
    }
}

#[test]
fn what_an_mgs_answers_is_told_before_nodes_that_were_not_tried() {
    let o2ib = || not_asked(unexamined("10.7.0.2@o2ib"));
    let unasked = || not_asked(reach(OTHER, Answer::NotAsked));
    let slow = Failure::Late(Duration::from_secs(120));
    for (failure, expected) in [
        (refused(250, -1), "mgs-banned"),
        (refused(250, -13), "mgs-flavor"),
        (refused(250, -11), "mgs-starting"),
        (refused(250, -71), "mgs-protocol"),
        (no_reply(501), "mgs-late"),
        (slow, "mgs-late"),
    ] {
        for rest in [o2ib(), unasked(), not_asked(silent(OTHER))] {
            let mut nodes = vec![asked(ONE, failure.clone()), rest];
            for _ in 0..2 {
                let verdict = of_mgs(&nodes);
                let text = verdict.to_string();
                assert_eq!(kinds(&verdict), [expected], "{text}");
                assert!(text.contains(&format!("the MGS at {ONE} ")), "{text}");
                assert!(text.contains(&format!("{ONE}: {failure}")), "{text}");
                nodes.reverse();
            }
        }
    }
    let half = of_mgs(&[asked(ONE, none_there(250)), unasked()]);
    let text = half.to_string();
    assert_eq!(kinds(&half), ["check-unfinished"], "{text}");
    assert!(text.contains(&format!("; {ONE}: MGS_CONNECT")), "{text}");
}

#[test]
fn all_nodes_of_the_mgs_that_were_not_reached_are_named() {
    let closed = |nid: &str| {
        let seen = format!("{nid} cannot be reached: Connection refused");
        let why = Why::PortClosed;
        not_asked(reach(nid, Answer::No { why, seen }))
    };
    let gone = || not_asked(silent(ONE));
    for (mut nodes, expected) in [
        (vec![gone(), not_asked(silent(OTHER))], "mgs-unreachable"),
        (vec![closed(ONE), closed(OTHER)], "mgs-port-closed"),
        (vec![gone(), closed(OTHER)], "mgs-port-closed"),
        (vec![gone(), asked(OTHER, lost())], "mgs-unreachable"),
        (vec![gone(), asked(OTHER, garbage(250))], "mgs-not-found"),
    ] {
        for _ in 0..2 {
            let verdict = of_mgs(&nodes);
            let text = verdict.to_string();
            assert_eq!(kinds(&verdict), [expected], "{text}");
            assert!(text.contains(ONE) && text.contains(OTHER), "{text}");
            nodes.reverse();
        }
    }
    let verdict = of_mgs(&[asked(ONE, garbage(250)), asked(OTHER, none_there(250))]);
    assert_eq!(kinds(&verdict), ["mgs-garbage"], "{verdict}");
}

#[test]
fn what_a_target_just_answered_counts_more_than_the_table() {
    let nodes = [vec![silent(ONE)], yes(OTHER)];
    for (failure, expected) in [
        (refused(41, -11), "target-recovering"),
        (refused(38, -11), "target-starting"),
        (refused(38, -1), "target-banned"),
        (refused(38, -13), "target-flavor"),
        (none_there(38), "target-elsewhere"),
        (no_reply(38), "target-elsewhere"),
        (garbage(38), "target-elsewhere"),
    ] {
        let verdict = of_mdt(&nodes, &[silent(ONE)], &[knock(OTHER, failure)]);
        assert_eq!(verdict.findings[0].kind.name, expected, "{verdict}");
    }
}

#[test]
fn a_bad_nid_beside_one_that_answers_is_a_warning() {
    let bad = |way| untried("127.0.1.1@tcp", way);
    let both = || [Way::Here, Way::Unreadable];
    for way in both() {
        let failover = [yes(ONE), vec![bad(way.clone())]];
        let beside = [vec![reach(ONE, Answer::Yes), bad(way.clone())]];
        for (nodes, knocks) in [
            (&failover[..], vec![served(ONE)]),
            (&failover, Vec::new()),
            (&beside, Vec::new()),
        ] {
            let verdict = of_mdt(nodes, &[], &knocks);
            let text = verdict.to_string();
            assert_eq!(kinds(&verdict), ["nid-unusable"], "{text}");
            assert!(text.contains("can mount it, but"), "{text}");
            assert!(text.contains("127.0.1.1@tcp"), "{text}");
        }
    }
    for (way, name) in both().into_iter().zip(["target-here", "target-bad-nid"]) {
        let alone = [vec![bad(way.clone())], vec![silent(ONE)]];
        assert_eq!(of_mdt(&alone, &[], &[]).findings[0].kind.name, name);
        // The target may be behind the bad NID.
        let knocks = [knock(ONE, none_there(38))];
        let missing = of_mdt(&[yes(ONE), vec![bad(way)]], &[], &knocks);
        assert_eq!(kinds(&missing), [name], "{missing}");
        assert_eq!(missing.findings[0].severity, Severity::Fails);
    }
}

#[test]
fn an_unknown_ost_leaves_the_mount() {
    let mdt = || target("fs1-MDT0000", yes(ONE));
    let mut ost = target("fs1-OST0000", vec![reach(OTHER, Answer::NotAsked)]);
    ost.is_unasked = true;
    let unknown = check(&facts(healthy(), vec![mdt(), ost.clone()])).to_string();
    let first = "fs1: this machine can mount it, but whether all of it can be used is not known yet: fs1-OST0000 was";
    assert!(unknown.starts_with(first), "{unknown}");
    // What is known to be broken comes first, and what is only a warning last.
    let gone = target("fs1-OST0001", vec![silent("10.0.0.9@tcp")]);
    let mut mdt = mdt();
    mdt.nodes.push(vec![silent("10.0.0.8@tcp")]);
    let all = check(&facts(healthy(), vec![mdt, ost, gone]));
    let expected = [
        "target-unreachable",
        "check-unfinished",
        "failover-unreachable",
    ];
    assert_eq!(kinds(&all), expected, "{all}");
}

#[test]
fn a_warning_does_not_say_that_a_part_cannot_be_used() {
    let nodes = [yes(ONE), vec![silent(OTHER)]];
    let text = of_mdt(&nodes, &[], &[]).to_string();
    let first =
        "fs1: this machine can mount it, but not all is in order: fs1-MDT0000 has a failover";
    assert!(text.starts_with(first), "{text}");
    let gap = TargetFacts {
        index: Some(1),
        ..target("fs1-MDT0001", yes(ONE))
    };
    let verdict = check(&facts(healthy(), vec![gap]));
    assert_eq!(kinds(&verdict), ["log-no-root"], "{verdict}");
    assert_eq!(verdict.findings[0].severity, Severity::Fails);
}

#[test]
fn a_net_that_this_machine_does_not_have_is_no_finding_beside_one_that_it_has() {
    let node = vec![
        reach(ONE, Answer::Yes),
        untried("10.7.0.3@o2ib", Way::NoNet),
    ];
    let verdict = of_mdt(from_ref(&node), &[], &[]);
    assert!(verdict.is_healthy(), "{verdict}");
    let facts = Facts {
        mgs: vec![Mgs {
            nids: node,
            outcome: healthy(),
        }],
        ..facts(healthy(), vec![target("fs1-MDT0000", yes(ONE))])
    };
    assert!(check(&facts).is_healthy());
}

#[test]
fn a_rule_that_asks_for_keys_leaves_open_whether_this_machine_has_them() {
    let kind = KINDS.iter().find(|kind| kind.name == "flavor-needed");
    assert_eq!(kind.unwrap().severity, Severity::Unknown);
}
