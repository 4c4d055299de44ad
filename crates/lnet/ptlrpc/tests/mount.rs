//! What follows from the facts of a mount: the findings that need no server.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "mount/unknown.rs"]
mod unknown;

use std::collections::BTreeSet;
use std::slice::from_ref;
use std::time::Duration;

use lnet_ptlrpc::client::{Failure, Granted, Service};
use lnet_ptlrpc::mount::{
    Answer, Facts, KINDS, Knock, Mgs, Reach, Severity, TargetFacts, Verdict, Way, Why, check,
};

fn reach(nid: &str, answer: Answer) -> Reach {
    let way = Way::Direct {
        from: "10.0.0.1@tcp".to_owned(),
    };
    Reach {
        nid: nid.to_owned(),
        way,
        answer,
    }
}

fn silent(nid: &str) -> Reach {
    let seen = format!("no reply from {nid} within 5 s");
    let why = Why::Silent;
    reach(nid, Answer::No { why, seen })
}

fn target(name: &str, node: Vec<Reach>) -> TargetFacts {
    TargetFacts {
        name: name.to_owned(),
        service: Service::of_target(name).unwrap(),
        index: Some(0),
        is_inactive: false,
        nodes: vec![node],
        now: Vec::new(),
        knocks: Vec::new(),
        is_unasked: false,
    }
}

fn facts(outcome: Option<Result<Granted, Failure>>, targets: Vec<TargetFacts>) -> Facts {
    let answer = match outcome {
        Some(_) => reach("10.0.0.2@tcp", Answer::Yes),
        None => silent("10.0.0.2@tcp"),
    };
    Facts {
        fs: "fs1".to_owned(),
        has_log: matches!(outcome, Some(Ok(_))),
        mgs: vec![Mgs {
            nids: vec![answer],
            outcome,
        }],
        targets,
        ..Facts::default()
    }
}

fn healthy() -> Option<Result<Granted, Failure>> {
    Some(Ok(Granted::default()))
}

#[test]
fn silence_and_slowness_are_told_apart() {
    let silence = check(&facts(None, Vec::new()));
    assert_eq!(silence.findings[0].kind.name, "mgs-unreachable");
    let late = Failure::Late(Duration::from_secs(120));
    let slow = check(&facts(Some(Err(late)), Vec::new()));
    let expected = "fs1: this machine cannot mount it: the MGS at 10.0.0.2@tcp answers too slowly [mgs-late]\n\
                    seen: the time for the questions was over after 120 s\n\
                    to do: look for the load on the MGS, or give a longer --timeout\n";
    assert_eq!(slow.to_string(), expected);
}

#[test]
fn target_with_the_root_directory_is_worse_than_any_other() {
    let targets = |name| vec![target("fs1-MDT0000", vec![silent("10.0.0.3@tcp")]), name];
    let ost = target("fs1-OST0000", vec![silent("10.0.0.4@tcp")]);
    let verdict = check(&facts(healthy(), targets(ost.clone())));
    let worst = &verdict.findings[0];
    assert_eq!(
        (worst.kind.name, worst.severity),
        ("target-unreachable", Severity::Fails)
    );
    assert_eq!(worst.places[0].0, "fs1-MDT0000");
    assert_eq!(worst.places.len(), 2);
    let mdt = target("fs1-MDT0000", vec![reach("10.0.0.3@tcp", Answer::Yes)]);
    let verdict = check(&facts(healthy(), vec![mdt, ost]));
    assert_eq!(verdict.findings[0].severity, Severity::Suffers);
    assert!(
        verdict
            .to_string()
            .starts_with("fs1: this machine can mount it, but")
    );
}

#[test]
fn target_that_an_administrator_switched_off_is_no_finding() {
    let mdt = target("fs1-MDT0000", vec![reach("10.0.0.3@tcp", Answer::Yes)]);
    let mut ost = target("fs1-OST0000", vec![silent("10.0.0.4@tcp")]);
    ost.is_inactive = true;
    assert!(check(&facts(healthy(), vec![mdt, ost])).is_healthy());
}

#[test]
fn target_that_is_where_nobody_answers_is_not_served_although_its_other_node_answers() {
    let mut mdt = target("fs1-MDT0000", vec![reach("10.0.0.3@tcp", Answer::Yes)]);
    mdt.now = vec![silent("10.0.0.4@tcp")];
    let verdict = check(&facts(healthy(), vec![mdt.clone()]));
    let worst = &verdict.findings[0];
    assert_eq!(
        (worst.kind.name, worst.severity),
        ("target-elsewhere", Severity::Fails)
    );
    for now in [
        reach("10.0.0.4@tcp", Answer::Yes),
        reach("10.0.0.4@tcp", Answer::NotAsked),
    ] {
        mdt.now.push(now);
        assert!(check(&facts(healthy(), vec![mdt.clone()])).is_healthy());
        mdt.now.pop();
    }
}

#[test]
fn target_to_which_the_check_connected_is_served_there_whatever_the_table_says() {
    let mut mdt = target("fs1-MDT0000", vec![reach("10.0.0.3@tcp", Answer::Yes)]);
    mdt.now = vec![untried("10.9.0.3@tcp9", Way::NoNet)];
    let away = check(&facts(healthy(), vec![mdt.clone()]));
    assert_eq!(away.findings[0].kind.name, "target-elsewhere");
    mdt.knocks.push(Knock {
        nid: "10.0.0.3@tcp".to_owned(),
        result: Ok((Granted::default(), None)),
    });
    let verdict = check(&facts(healthy(), vec![mdt]));
    assert!(verdict.is_healthy(), "{verdict}");
}

#[test]
fn nodes_of_which_one_has_all_nids_of_the_other_are_one_node() {
    let (a, b, c) = ("10.0.0.3@tcp", "10.0.0.4@tcp", "10.0.0.5@tcp");
    for (entries, is_healthy) in [
        (&[&[a][..], &[a, b]][..], true),
        (&[&[a, b], &[b], &[a]], true),
        (&[&[a], &[b], &[a, b, c]], true),
        (&[&[a, b], &[a, c]], false),
        (&[&[a], &[a, b], &[a, c]], false),
        (&[&[a, b], &[a], &[a, c]], false),
    ] {
        let targets = entries.iter().enumerate().map(|(at, nids)| {
            let nids = nids.iter().map(|nid| reach(nid, Answer::Yes)).collect();
            target(&format!("fs1-MDT{at:04x}"), nids)
        });
        let verdict = check(&facts(healthy(), targets.collect()));
        assert_eq!(verdict.is_healthy(), is_healthy, "{entries:?}: {verdict}");
    }
}

#[test]
fn places_stand_in_the_order_of_the_log_behind_those_that_fail() {
    let ost = |at: u32| target(&format!("fs1-OST{at:04x}"), vec![silent("10.0.0.4@tcp")]);
    let mdt = target("fs1-MDT0000", vec![silent("10.0.0.3@tcp")]);
    let mut facts = facts(healthy(), vec![ost(0), ost(1), mdt]);
    facts.problems = (0..65_536).map(|at| format!("command {at}")).collect();
    let verdict = check(&facts);
    let [unknown, unreached] = &verdict.findings[..] else {
        panic!("{verdict}");
    };
    let mut seen = unknown.places.iter().map(|(_, seen)| seen);
    assert!(seen.by_ref().eq(&facts.problems));
    let names: Vec<&str> = unreached.places.iter().map(|(name, _)| &name[..]).collect();
    assert_eq!(names, ["fs1-MDT0000", "fs1-OST0000", "fs1-OST0001"]);
}

#[test]
fn check_that_was_cut_off_says_so_and_accuses_nobody() {
    let cut = |mut facts: Facts| {
        facts.cut = Some("interrupted".to_owned());
        let verdict = check(&facts);
        let names: Vec<&str> = verdict
            .findings
            .iter()
            .map(|found| found.kind.name)
            .collect();
        assert_eq!(names, ["check-unfinished"]);
        verdict.to_string()
    };
    let unasked = |nid| reach(nid, Answer::NotAsked);
    let mdt = target("fs1-MDT0000", vec![unasked("10.0.0.3@tcp")]);
    let half = vec![reach("10.0.0.3@tcp", Answer::Yes), unasked("10.0.0.4@tcp")];
    for node in [vec![unasked("10.0.0.3@tcp")], half] {
        let mdt = TargetFacts {
            nodes: vec![node, vec![unasked("10.0.0.5@tcp")]],
            is_unasked: true,
            ..mdt.clone()
        };
        let text = cut(facts(healthy(), vec![mdt]));
        let first = "fs1: whether this machine can mount it is not known yet: fs1-MDT0000 was not asked to the end";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("\nseen: interrupted\n"), "{text}");
    }
    // The first node of the MGS does not answer, and the second was not asked.
    let mut two = facts(None, Vec::new());
    two.mgs.push(Mgs {
        nids: vec![unasked("10.0.0.9@tcp")],
        outcome: None,
    });
    let text = cut(two);
    assert!(text.contains("the MGS at 10.0.0.9@tcp"), "{text}");
    assert!(
        text.contains("seen: interrupted; no reply from 10.0.0.2@tcp"),
        "{text}"
    );
    cut(facts(Some(Err(Failure::Stopped)), Vec::new()));
}

#[test]
fn the_mgs_that_hangs_is_told_before_a_node_without_one() {
    let node = |nid: &str, failure| Mgs {
        nids: vec![reach(nid, Answer::Yes)],
        outcome: Some(Err(failure)),
    };
    let refused = Failure::Refused {
        opc: 250,
        status: -19,
        is_banned: false,
    };
    let silence = |opc| Failure::NoReply {
        opc,
        after: Duration::from_secs(10),
    };
    for (opc, expected) in [(501, "mgs-late"), (250, "mgs-silent")] {
        let mut two = facts(None, Vec::new());
        two.mgs = vec![
            node("10.0.0.2@tcp", refused.clone()),
            node("10.0.0.3@tcp", silence(opc)),
        ];
        for _ in 0..2 {
            let text = check(&two).to_string();
            let first = text.lines().next().unwrap();
            assert!(first.contains("the MGS at 10.0.0.3@tcp "), "{text}");
            assert!(first.ends_with(&format!("[{expected}]")), "{text}");
            assert!(!text.contains("mount the MGT"), "{text}");
            two.mgs.reverse();
        }
    }
}

/// ENODEV to a connect: the node has no such target.
fn none_there(opc: u32) -> Failure {
    Failure::Refused {
        opc,
        status: -19,
        is_banned: false,
    }
}

fn no_reply(opc: u32) -> Failure {
    let after = Duration::from_secs(10);
    Failure::NoReply { opc, after }
}

fn lost() -> Failure {
    Failure::Unsent("Connection refused".to_owned())
}

fn kinds(verdict: &Verdict) -> Vec<&'static str> {
    let found = verdict.findings.iter();
    found.map(|found| found.kind.name).collect()
}

#[test]
fn an_mgs_is_not_said_to_be_absent_while_one_of_its_nodes_was_not_reached() {
    let (one, other) = ("10.0.0.2@tcp", "10.0.0.3@tcp");
    let asked = |nid, failure| Mgs {
        nids: vec![reach(nid, Answer::Yes)],
        outcome: Some(Err(failure)),
    };
    let missed = |reach| Mgs {
        nids: vec![reach],
        outcome: None,
    };
    let verdict = |mut nodes: Vec<Mgs>, is_turned: bool| {
        if is_turned {
            nodes.reverse();
        }
        let mut facts = facts(None, Vec::new());
        facts.mgs = nodes;
        check(&facts)
    };
    for is_turned in [false, true] {
        for gone in [
            missed(silent(one)),
            missed(untried(one, Way::NoNet)),
            asked(one, lost()),
        ] {
            for failure in [none_there(250), no_reply(250)] {
                let nodes = vec![gone.clone(), asked(other, failure.clone())];
                let verdict = verdict(nodes, is_turned);
                let text = verdict.to_string();
                assert_eq!(kinds(&verdict), ["mgs-not-found"], "{text}");
                assert!(text.contains(&format!("{one} was not reached")), "{text}");
                assert!(text.contains(&format!("{other}: {failure}")), "{text}");
                assert!(text.contains("to do: bring up the node"), "{text}");
                assert!(!text.contains("mount the MGT"), "{text}");
            }
            // What answers with something else has an MGS.
            let nodes = vec![gone, asked(other, no_reply(501))];
            assert_eq!(kinds(&verdict(nodes, is_turned)), ["mgs-late"]);
        }
        let both = vec![asked(one, none_there(250)), asked(other, none_there(250))];
        let both = verdict(both, false);
        assert_eq!(kinds(&both), ["mgs-absent"]);
        let text = both.to_string();
        assert!(
            text.contains("the MGS at 10.0.0.2@tcp:10.0.0.3@tcp runs"),
            "{text}"
        );
        // This machine failed, and nothing is known of that node.
        let own = Failure::Own("cannot write the record".to_owned());
        let half = vec![asked(one, own), asked(other, none_there(250))];
        assert_eq!(kinds(&verdict(half, is_turned)), ["check-unfinished"]);
        let served = Mgs {
            nids: vec![reach(other, Answer::Yes)],
            outcome: healthy(),
        };
        let nodes = vec![missed(silent(one)), served];
        assert!(!kinds(&verdict(nodes, is_turned)).contains(&"mgs-not-found"));
    }
    let gone = vec![asked(one, lost())];
    assert_eq!(kinds(&verdict(gone, false)), ["mgs-unreachable"]);
}

#[test]
fn a_target_is_not_said_to_be_absent_while_one_of_its_nodes_was_not_reached() {
    let (one, other) = ("10.0.0.3@tcp", "10.0.0.4@tcp");
    let yes = |nid| vec![reach(nid, Answer::Yes)];
    let knock = |nid: &str, result| Knock {
        nid: nid.to_owned(),
        result,
    };
    let refused = |nid| knock(nid, Err(none_there(38)));
    let verdict = |nodes: [Vec<Reach>; 2], knocks: Vec<Knock>, is_turned: bool| {
        let mut mdt = target("fs1-MDT0000", Vec::new());
        (mdt.nodes, mdt.knocks) = (nodes.to_vec(), knocks);
        if is_turned {
            mdt.nodes.reverse();
        }
        check(&facts(healthy(), vec![mdt]))
    };
    for is_turned in [false, true] {
        for failure in [none_there(38), no_reply(38)] {
            let nodes = [vec![silent(one)], yes(other)];
            let knocks = vec![knock(other, Err(failure.clone()))];
            let verdict = verdict(nodes, knocks, is_turned);
            let text = verdict.to_string();
            assert_eq!(kinds(&verdict), ["target-not-found"], "{text}");
            assert_eq!(verdict.findings[0].severity, Severity::Fails);
            assert!(text.contains("no reply from 10.0.0.3@tcp"), "{text}");
            assert!(text.contains(&format!("{other}: {failure}")), "{text}");
            assert!(!text.contains("to do: mount"), "{text}");
        }
        let lost = vec![knock(one, Err(lost())), refused(other)];
        let lost = verdict([yes(one), yes(other)], lost, is_turned);
        assert_eq!(kinds(&lost), ["target-not-found"]);
        let both = vec![refused(one), refused(other)];
        let both = verdict([yes(one), yes(other)], both, is_turned);
        assert_eq!(kinds(&both), ["target-absent"]);
        // The time was over before the second node was asked, and one that cannot be examined.
        let half = verdict([yes(one), yes(other)], vec![refused(one)], is_turned);
        assert_eq!(kinds(&half), ["check-unfinished"]);
        let o2ib = vec![unexamined("10.7.0.3@o2ib")];
        let unknown = verdict([o2ib, yes(other)], vec![refused(other)], is_turned);
        assert_eq!(kinds(&unknown), ["not-examined"]);
        let served = vec![knock(other, Ok((Granted::default(), None)))];
        let served = verdict([vec![silent(one)], yes(other)], served, is_turned);
        let kind = ["target-on-failover", "failover-unreachable"][usize::from(is_turned)];
        assert_eq!(kinds(&served), [kind]);
        assert_eq!(served.findings[0].severity, Severity::Suffers);
    }
}

#[test]
fn failover_node_of_the_mgs_that_does_not_answer_is_a_finding() {
    let with = |nids: Vec<Reach>| {
        let mdt = target("fs1-MDT0000", vec![reach("10.0.0.3@tcp", Answer::Yes)]);
        let mut facts = facts(healthy(), vec![mdt]);
        let outcome = None;
        facts.mgs.push(Mgs { nids, outcome });
        let found = check(&facts).findings;
        let names = found.iter().map(|found| found.kind.name);
        names.collect::<Vec<_>>().join(" ")
    };
    let (one, other) = ("10.0.0.4@tcp", "10.0.0.5@tcp");
    assert_eq!(with(vec![reach(one, Answer::Yes)]), "");
    assert_eq!(
        with(vec![silent(one), silent(other)]),
        "failover-unreachable"
    );
    let half = vec![silent(one), reach(other, Answer::Yes)];
    assert_eq!(with(half), "interface-unreachable");
    assert_eq!(with(vec![reach(one, Answer::NotAsked)]), "");
    assert_eq!(with(vec![unexamined(one)]), "");
}

#[test]
fn what_failed_on_this_machine_accuses_no_server() {
    let own = || Failure::Own("cannot write the record".to_owned());
    let verdict = check(&facts(Some(Err(own())), Vec::new()));
    let text = verdict.to_string();
    assert_eq!(verdict.findings[0].kind.name, "check-unfinished", "{text}");
    assert!(text.contains("cannot write the record"), "{text}");
    let mut mdt = target("fs1-MDT0000", vec![reach("10.0.0.3@tcp", Answer::Yes)]);
    mdt.knocks.push(Knock {
        nid: "10.0.0.3@tcp".to_owned(),
        result: Err(own()),
    });
    let verdict = check(&facts(healthy(), vec![mdt]));
    assert_eq!(verdict.findings[0].kind.name, "check-unfinished");
}

#[test]
fn target_with_many_silent_rails_is_named_once() {
    let mut nids: Vec<Reach> = (3..8)
        .map(|at| silent(&format!("10.0.0.{at}@tcp")))
        .collect();
    nids.push(reach("10.0.0.9@tcp", Answer::Yes));
    let verdict = check(&facts(healthy(), vec![target("fs1-MDT0000", nids)]));
    let first = verdict.findings[0].to_string();
    assert_eq!(first.matches("fs1-MDT0000").count(), 1, "{first}");
    assert!(!first.contains("more"), "{first}");
}

fn untried(nid: &str, way: Way) -> Reach {
    Reach {
        way,
        ..reach(nid, Answer::NotAsked)
    }
}

fn no_device(nid: &str) -> Reach {
    let why = "this machine has no RDMA device".to_owned();
    untried(nid, Way::NoDevice { why })
}

fn unexamined(nid: &str) -> Reach {
    let why = "the kernel module ko2iblnd runs here".to_owned();
    untried(nid, Way::Unexamined { why })
}

/// Asserts the worst finding, and that it says what kept the check from the node.
fn expect(verdict: &Verdict, name: &str, severity: Severity) {
    let worst = &verdict.findings[0];
    assert_eq!(
        (worst.kind.name, worst.severity),
        (name, severity),
        "{verdict}"
    );
    let text = verdict.to_string();
    let is_said = text.contains("no RDMA device") || text.contains("ko2iblnd runs here");
    assert!(is_said, "{text}");
}

#[test]
fn an_mgs_that_could_not_be_tried_is_not_said_to_be_away() {
    let verdict = |nids: Vec<Reach>| {
        let mut facts = facts(None, Vec::new());
        facts.mgs[0].nids = nids;
        check(&facts)
    };
    let (o2ib, tcp) = ("10.7.0.2@o2ib", "10.0.0.2@tcp");
    expect(
        &verdict(vec![no_device(o2ib)]),
        "mgs-no-device",
        Severity::Fails,
    );
    expect(
        &verdict(vec![unexamined(o2ib)]),
        "not-examined",
        Severity::Unknown,
    );
    let both = verdict(vec![silent(tcp), unexamined(o2ib)]);
    expect(&both, "not-examined", Severity::Unknown);
}

#[test]
fn a_machine_is_not_said_to_mount_what_could_not_be_tried_from_it() {
    let (mdt0, ost, o2ib) = ("fs1-MDT0000", "fs1-OST0000", "10.7.0.3@o2ib");
    let answering = || reach("10.0.0.3@tcp", Answer::Yes);
    let verdict = |name: &str, nodes: &[Vec<Reach>], now: &[Reach]| {
        let mut other = target(name, Vec::new());
        (other.nodes, other.now) = (nodes.to_vec(), now.to_vec());
        let mdt = target(mdt0, vec![reach("10.0.0.2@tcp", Answer::Yes)]);
        let mut targets = vec![other];
        targets.extend((name != mdt0).then_some(mdt));
        check(&facts(healthy(), targets))
    };
    let (gone, unknown) = (vec![no_device(o2ib)], vec![unexamined(o2ib)]);
    let (fails, suffers) = (Severity::Fails, Severity::Suffers);
    expect(
        &verdict(mdt0, from_ref(&gone), &[]),
        "target-no-device",
        fails,
    );
    expect(
        &verdict(ost, from_ref(&gone), &[]),
        "target-no-device",
        suffers,
    );
    expect(
        &verdict(mdt0, from_ref(&unknown), &[]),
        "not-examined",
        Severity::Unknown,
    );
    let both = vec![silent("10.0.0.3@tcp"), unexamined(o2ib)];
    expect(&verdict(ost, &[both], &[]), "not-examined", suffers);
    // A failover node answers, and the node that serves was not tried.
    let nodes = [gone.clone(), vec![answering()]];
    expect(&verdict(mdt0, &nodes, &gone), "target-no-device", fails);
    expect(&verdict(ost, &nodes, &[]), "target-unproven", suffers);
    let now = [answering()];
    expect(&verdict(ost, &nodes, &now), "target-on-failover", suffers);
    let nodes = [unknown, vec![answering()]];
    expect(
        &verdict(mdt0, &nodes, &[]),
        "not-examined",
        Severity::Unknown,
    );
    // Beside a NID that answers, another net is not needed.
    let beside = vec![answering(), no_device(o2ib), unexamined("10.8.0.3@o2ib1")];
    let now = [no_device(o2ib), answering()];
    assert!(verdict(ost, &[beside], &now).is_healthy());
}

#[test]
fn many_places_are_one_finding_that_names_the_first() {
    let mut targets = vec![target(
        "fs1-MDT0000",
        vec![reach("10.0.0.3@tcp", Answer::Yes)],
    )];
    for index in 0..2000 {
        let name = format!("fs1-OST{index:04x}");
        targets.push(TargetFacts {
            index: Some(index),
            ..target(&name, vec![silent("10.0.0.4@tcp")])
        });
    }
    let verdict = check(&facts(healthy(), targets));
    assert_eq!(verdict.findings.len(), 1);
    let text = verdict.to_string();
    assert!(
        text.contains("fs1-OST0000, fs1-OST0001, fs1-OST0002 and 1997 more"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn page_has_every_finding_as_it_is() {
    let page = testkit::workspace::root().join("docs/doctor-mount.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let expected: Vec<String> = KINDS
        .iter()
        .map(|kind| {
            let severity = match kind.severity {
                Severity::Fails => "fails",
                Severity::Unknown => "unknown",
                Severity::Suffers => "suffers",
            };
            format!(
                "| `{}` | {severity} | {} | {} |",
                kind.name, kind.means, kind.to_do
            )
        })
        .collect();
    assert_eq!(rows, expected);
    let names: BTreeSet<&str> = KINDS.iter().map(|kind| kind.name).collect();
    assert_eq!(names.len(), KINDS.len());
}
