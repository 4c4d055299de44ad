//! Tests of the reports to observers, and that a query and a send select the same path.

use proptest::prelude::*;

use super::*;

const N1: &str = "10.0.0.1@tcp";
const N2: &str = "10.0.0.2@tcp";
const P1: &str = "10.0.1.1@tcp";
const P2: &str = "10.0.1.2@tcp";
const FAR: &str = "10.5.0.1@tcp5";
const GATEWAY: &str = "10.0.0.9@tcp";

type Values = Vec<(Criterion, i64)>;

/// An observer that records its reports.
#[derive(Debug, Default)]
struct Notes {
    classified: Vec<Classification>,
    candidates: Vec<(Level, Subject, Values)>,
    excluded: Vec<(Level, Subject, Exclusion)>,
    eliminated: Vec<(Level, Subject, Subject, Criterion)>,
    chosen: Vec<(Level, Subject)>,
    next: Vec<Option<(Subject, Criterion)>>,
}

impl Observer for Notes {
    fn classified(&mut self, classification: &Classification) {
        self.classified.push(*classification);
    }

    fn candidate(&mut self, level: Level, candidate: Subject, values: &[(Criterion, i64)]) {
        self.candidates.push((level, candidate, values.to_vec()));
    }

    fn excluded(&mut self, level: Level, subject: Subject, why: Exclusion) {
        self.excluded.push((level, subject, why));
    }

    fn eliminated(&mut self, level: Level, loser: Subject, winner: Subject, by: Criterion) {
        self.eliminated.push((level, loser, winner, by));
    }

    fn chosen(&mut self, level: Level, winner: Subject, next: Option<(Subject, Criterion)>) {
        self.chosen.push((level, winner));
        self.next.push(next);
    }
}

fn explain(bench: &Bench, query: &SendQuery) -> (Result<Choice, SelectError>, Notes) {
    let mut notes = Notes::default();
    let choice = bench.core.explain(query, &mut notes);
    (choice, notes)
}

fn peer_ni(text: &str) -> Subject {
    Subject::PeerNi(nid(text))
}

// [PATH-1]
#[test]
fn every_case_is_classified_by_its_three_facts() {
    let mut bench = Bench::two_by_two();
    bench.route("tcp5", GATEWAY, None, 0);
    bench
        .core
        .add_peer(nid("10.5.0.2@tcp5"), &[], true)
        .unwrap();
    let (single, far, far_multi) = ("10.0.7.7@tcp", FAR, "10.5.0.2@tcp5");
    for (source, target, case) in [
        (Some(N1), P1, Case::A1C),
        (Some(N1), single, Case::A1D),
        (Some(N1), far_multi, Case::A2C),
        (Some(N1), far, Case::A2D),
        (None, P1, Case::B1C),
        (None, single, Case::B1D),
        (None, far_multi, Case::B2C),
        (None, far, Case::B2D),
    ] {
        let query = SendQuery {
            source: source.map(nid),
            ..SendQuery::to(nid(target))
        };
        let (choice, notes) = explain(&bench, &query);
        assert!(choice.is_ok(), "{case}");
        let [classification] = notes.classified[..] else {
            panic!("{notes:?}")
        };
        assert_eq!(classification.case(), case);
        assert_eq!(classification.source, source.map(nid));
        let net = nid(target).net();
        let local = classification.locality == Locality::Local(net);
        assert_eq!(local, net == nid(N1).net());
    }
}

#[test]
fn every_loser_is_told_with_the_criterion_that_decided() {
    let mut bench = Bench::two_by_two();
    bench.set_health(N1, 900);
    bench.rule("", P2, "", Some(3));
    let (choice, notes) = explain(&bench, &SendQuery::to(nid(P1)));
    assert_eq!(choice.unwrap().next_hop, nid(P2));
    let lost: Vec<_> = notes.eliminated.iter().map(|e| (e.0, e.3)).collect();
    assert_eq!(
        lost,
        [
            (Level::LocalNi, Criterion::Health),
            (Level::PeerNi, Criterion::Priority)
        ]
    );
    assert_eq!(notes.eliminated[1].1, peer_ni(P1));
    let levels: Vec<Level> = notes.chosen.iter().map(|chosen| chosen.0).collect();
    assert_eq!(levels, [Level::Net, Level::LocalNi, Level::PeerNi]);
    let value = |subject, criterion| {
        let candidates = notes.candidates.iter();
        let (_, _, values) = candidates.clone().find(|c| c.1 == subject).unwrap();
        values.iter().find(|value| value.0 == criterion).unwrap().1
    };
    let n1 = Subject::Ni(bench.ni(N1).id, nid(N1));
    assert_eq!(value(n1, Criterion::Health), 900);
    assert_eq!(value(n1, Criterion::Credits), 256);
    assert_eq!(value(peer_ni(P2), Criterion::Priority), 3);
    assert_eq!(value(peer_ni(P1), Criterion::Priority), -1);
}

#[test]
fn what_a_resend_may_not_use_is_told_with_the_reason() {
    let mut bench = Bench::two_by_two().with(LITERAL);
    bench.set_health(N1, 900);
    let query = SendQuery {
        used: Some(vec![(nid(N1), nid(P1))]),
        ..SendQuery::to(nid(P1))
    };
    let (choice, notes) = explain(&bench, &query);
    let choice = choice.unwrap();
    assert_eq!((choice.source, choice.next_hop), (nid(N2), nid(P2)));
    let n1 = Subject::Ni(bench.ni(N1).id, nid(N1));
    assert!(
        notes
            .excluded
            .contains(&(Level::LocalNi, n1, Exclusion::NotOptimal))
    );
    assert!(
        notes
            .excluded
            .contains(&(Level::PeerNi, peer_ni(P1), Exclusion::Used))
    );
}

#[test]
fn a_dead_route_is_told_as_such() {
    let mut bench = Bench::new(&[N1]);
    bench.route("tcp5", GATEWAY, None, 0);
    bench
        .core
        .fabric_mut()
        .routes
        .gateway_mut(nid(GATEWAY))
        .unwrap()
        .alive = false;
    let (choice, notes) = explain(&bench, &SendQuery::to(nid(FAR)));
    assert_eq!(choice, Err(SelectError::NoRoute(nid(FAR).net())));
    let route = Subject::Route {
        net: nid(FAR).net(),
        gateway: nid(GATEWAY),
    };
    assert_eq!(
        notes.excluded,
        [(Level::Route, route, Exclusion::DeadRoute)]
    );
}

#[test]
fn asking_changes_nothing() {
    let bench = Bench::two_by_two();
    let query = SendQuery::to(nid(P1));
    let first = bench.core.choose(&query);
    assert_eq!(bench.core.choose(&query), first);
    assert!(bench.core.is_idle());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn what_is_asked_is_what_is_sent(
        locals in 1..5_u32,
        remotes in 1..5_u32,
        nets in 1..3_u32,
        states in proptest::collection::vec((0..10_u32, 0..11_u16, 0..9_u32), 0..12),
        rules in proptest::collection::vec((0..5_u32, 0..5_u32, 0..3_u32), 0..6),
        lustre in any::<bool>(),
    ) {
        let nids = |prefix: &str, count| -> Vec<String> {
            (1..=count).map(|n| format!("10.{}.{prefix}.{n}@tcp{}", n % nets, n % nets)).collect()
        };
        let (ours, theirs) = (nids("0", locals), nids("1", remotes));
        let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
        let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
        let mut bench = Bench::new(&ours);
        bench.peer(&theirs);
        if lustre {
            bench.set(LUSTRE);
        }
        let all: Vec<&str> = ours.iter().chain(&theirs).copied().collect();
        for (&at, (_, health, credits)) in all.iter().zip(states) {
            bench.set_health(at, health * 100);
            bench.use_credits(at, credits.min(7));
        }
        for (src, dst, priority) in rules {
            let src = ours.get(src as usize).copied().unwrap_or("");
            let dst = theirs.get(dst as usize).copied().unwrap_or("");
            if !src.is_empty() || !dst.is_empty() {
                // Two rules with the same descriptors are rejected or merged; both are fine.
                let _ = bench.core.add_rule(rule(src, dst, "", Some(priority)), None);
            }
        }
        for _ in 0..20 {
            let query = SendQuery::to(nid(theirs[0]));
            let (asked, notes) = explain(&bench, &query);
            prop_assert_eq!(asked, bench.core.choose(&query));
            let Ok(asked) = asked else {
                prop_assert!(bench.start(None, theirs[0], SendHints::default()) != bench::Step::Ended(Ok(())));
                continue;
            };
            let transmit = bench.send(theirs[0]);
            prop_assert_eq!(transmit.ni, asked.ni);
            prop_assert_eq!(transmit.to.nid, asked.next_hop);
            prop_assert_eq!(transmit.header.dest_nid, asked.destination);
            prop_assert_eq!(notes.chosen.len(), 3);
            prop_assert_eq!(notes.candidates.len(), notes.eliminated.len() + 3);
            bench.answer(&transmit, MessageStatus::Ok);
        }
    }
}
