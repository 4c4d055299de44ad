//! Explanations of the complete state of a running core are exact: random nodes, random histories.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use lnet_core::{
    Core, CoreConfig, Entropy, Globals, Health, MdOptions, MdSpec, MessageStatus, NiConfig, Output,
    PutRequest, Route, RouterBuffers, SendQuery, Tunables, UsedPaths,
};
use lnet_explain::{Change, Node, Path, Question, explain, what_if};
use lnet_policy::{Profile, Rule, RuleText};
use lnet_types::{Nid, ProcessId, Time};
use proptest::prelude::*;

const NOW: Time = Time::from_secs(1000);
const LOCAL: [&str; 5] = [
    "10.0.0.1@tcp",
    "10.0.0.2@tcp",
    "10.1.0.1@tcp1",
    "10.1.0.2@tcp1",
    "10.2.0.1@tcp2",
];
const REMOTE: [&str; 7] = [
    "10.0.9.1@tcp",
    "10.0.9.2@tcp",
    "10.1.9.1@tcp1",
    "10.1.9.2@tcp1",
    "10.2.9.1@tcp2",
    "10.9.9.1@tcp9",
    "10.9.9.2@tcp9",
];
const GATEWAYS: [&str; 3] = ["10.0.5.1@tcp", "10.1.5.1@tcp1", "10.2.5.1@tcp2"];
const SOURCES: [&str; 3] = ["tcp1", "10.0.0.2@tcp", "10.1.0.*@tcp1"];

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// A node, and the events that happened to it.
#[derive(Clone, Debug)]
struct History {
    lustre: bool,
    literal: bool,
    nis: usize,
    peer: Vec<usize>,
    multi_rail: bool,
    gateways: usize,
    rules: Vec<(usize, bool)>,
    sends: Vec<(usize, u32, usize)>,
    health: Vec<(usize, u16)>,
}

fn history() -> impl Strategy<Value = History> {
    let health = prop_oneof![2 => Just(1000_u16), 1 => 0..=1000_u16];
    (
        (
            any::<bool>(),
            any::<bool>(),
            1..=LOCAL.len(),
            any::<bool>(),
            0..=GATEWAYS.len(),
        ),
        proptest::sample::subsequence((0..REMOTE.len()).collect::<Vec<_>>(), 1..=REMOTE.len()),
        proptest::collection::vec((0..SOURCES.len(), any::<bool>()), 0..3),
        proptest::collection::vec((0..REMOTE.len(), 0..9000_u32, 0..14_usize), 0..40),
        proptest::collection::vec((0..REMOTE.len() + LOCAL.len(), health), 0..5),
    )
        .prop_map(
            |((lustre, literal, nis, multi_rail, gateways), peer, rules, sends, health)| History {
                lustre,
                literal,
                nis,
                peer,
                multi_rail,
                gateways,
                rules,
                sends,
                health,
            },
        )
}

fn core(history: &History) -> Core {
    let globals = Globals {
        profile: if history.lustre {
            Profile::Lustre
        } else {
            Profile::Design
        },
        used_paths: if history.literal {
            UsedPaths::Literal
        } else {
            UsedPaths::Pair
        },
        ..Globals::default()
    };
    let config = CoreConfig {
        entropy: Entropy::from_seed(7),
        seed: 7,
        globals,
        buffers: RouterBuffers::default(),
        routing: false,
        pid: 12345,
    };
    let mut core = Core::new(config, NOW);
    for text in LOCAL.iter().take(history.nis) {
        let tunables = Tunables {
            credits: 16,
            ..Tunables::default()
        };
        core.add_ni(
            NiConfig {
                nid: nid(text),
                tunables,
            },
            NOW,
        )
        .unwrap();
    }
    let nids: Vec<Nid> = history.peer.iter().map(|&at| nid(REMOTE[at])).collect();
    core.add_peer(nids[0], &nids, history.multi_rail).unwrap();
    for gateway in GATEWAYS.iter().take(history.gateways) {
        let net = "tcp9".parse().unwrap();
        let route = Route {
            net,
            gateway: nid(gateway),
            hops: None,
            priority: 0,
        };
        let _refused_without_the_net = core.add_route(route, NOW);
    }
    for &(rule, pair) in &history.rules {
        let dst = pair.then_some("10.*.9.2@tcp*");
        let text = RuleText {
            src: Some(SOURCES[rule]),
            dst,
            ..RuleText::default()
        };
        let _known_already = core.add_rule(Rule::from_text(&text, Profile::Design).unwrap(), None);
    }
    live(&mut core, history);
    core
}

fn live(core: &mut Core, history: &History) {
    for &(target, length, fate) in &history.sends {
        send(core, nid(REMOTE[target]), length);
        while let Some(output) = core.poll_output() {
            // An index beyond the classes leaves the message in flight.
            if let (Output::Transmit(sent), Some(status)) = (output, MessageStatus::ALL.get(fate)) {
                core.sent(sent.tx, *status, NOW);
            }
        }
        core.tick(NOW);
        while core.poll_output().is_some() {}
    }
    for &(at, health) in &history.health {
        let health = Health::new(health).unwrap();
        let local = at.checked_sub(REMOTE.len()).map(|at| nid(LOCAL[at]));
        let ni = core.nis().find(|ni| Some(ni.nid) == local).map(|ni| ni.id);
        match (ni, REMOTE.get(at)) {
            (Some(ni), _) => core.set_ni_health(ni, health, NOW).unwrap(),
            (None, Some(peer)) => drop(core.set_peer_ni_health(nid(peer), health, NOW)),
            _ => {}
        }
    }
    core.tick(NOW);
    while core.poll_output().is_some() {}
}

fn send(core: &mut Core, target: Nid, length: u32) {
    let md = core.md_bind(MdSpec {
        length,
        threshold: Some(1),
        max_size: 0,
        options: MdOptions::empty(),
        unlink_when_exhausted: true,
        user: 0,
    });
    let put = PutRequest {
        md: md.unwrap(),
        ack: false,
        source: None,
        target: ProcessId::lustre(target),
        portal: 9,
        match_bits: 0,
        offset: 0,
        hdr_data: 0,
    };
    core.put(put, NOW).unwrap();
}

fn ask(to: Nid, size: u32, sends: u32) -> Question {
    Question {
        to,
        from: None,
        size,
        sends,
    }
}

/// Returns the path that the running core takes.
fn picked(core: &Core, to: Nid) -> Option<Path> {
    let choice = core.choose(&SendQuery::to(to)).ok()?;
    let by = (choice.next_hop != choice.destination).then(|| choice.next_hop.to_string());
    Some(Path {
        source: choice.source.to_string(),
        interface: None,
        gateway: by,
        destination: choice.destination.to_string(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn the_next_hundred_picks_are_those_that_the_running_core_makes(
        history in history(),
        target in 0..REMOTE.len(),
        size in 0..9000_u32,
    ) {
        let mut running = core(&history);
        let node = Node::exact(running.selection_state(), NOW);
        let to = nid(REMOTE[target]);
        let told = explain(&node, &ask(to, size, 100)).unwrap();
        prop_assert!(told.assumed.is_empty());
        for pick in told.forecast.picks {
            prop_assert_eq!(pick.path, picked(&running, to));
            send(&mut running, to, size);
        }
    }

    #[test]
    fn a_state_that_was_sent_is_the_state_that_is_explained(history in history()) {
        let state = core(&history).selection_state();
        let sent = lnet_core::state_json::to_json(state.clone(), NOW).unwrap();
        prop_assert_eq!(Node::from_json(&sent).unwrap(), Node::exact(state, NOW));
    }

    #[test]
    fn the_levels_lead_to_the_answer(history in history(), target in 0..REMOTE.len()) {
        let node = Node::exact(core(&history).selection_state(), NOW);
        let told = explain(&node, &ask(nid(REMOTE[target]), 0, 1)).unwrap();
        let Some(path) = told.answer.path else { return Ok(()) };
        for table in told.levels {
            let winner = table.winner.unwrap_or_default();
            match table.level {
                "local NI" => prop_assert_eq!(winner, path.source.clone()),
                "peer NI" => prop_assert_eq!(winner, path.destination.clone()),
                "final peer NI" => prop_assert_eq!(winner, path.destination.clone()),
                _ => {}
            }
            let chosen = table.candidates.iter().filter(|row| row.eliminated_by.is_none());
            prop_assert!(chosen.count() <= 1);
        }
    }

    #[test]
    fn a_winner_that_falls_below_its_margin_of_health_loses(
        history in history(),
        target in 0..REMOTE.len(),
    ) {
        let node = Node::exact(core(&history).selection_state(), NOW);
        let question = ask(nid(REMOTE[target]), 0, 1);
        let told = explain(&node, &question).unwrap();
        for table in told.levels.iter().filter(|table| table.level == "local NI") {
            let Some(bound) = table.margin.as_deref().and_then(bound_of_health) else { continue };
            let Some(below) = bound.checked_sub(1) else { continue };
            let winner = table.winner.clone().unwrap();
            let change = Change::health(&format!("{winner}={below}")).unwrap();
            let changed = what_if(&node, &question, &[change]).unwrap().after;
            prop_assert_ne!(changed.answer.path.map(|path| path.source), Some(winner));
        }
    }
}

/// Returns the number N of "would lose to X with a fatal error, or health below N".
fn bound_of_health(margin: &str) -> Option<u16> {
    let (_, rest) = margin.split_once(" health below ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[test]
fn a_state_that_forgot_the_credits_foretells_other_picks() {
    let history = History {
        lustre: false,
        literal: false,
        nis: 2,
        peer: vec![0, 1],
        multi_rail: true,
        gateways: 0,
        rules: Vec::new(),
        sends: vec![(0, 0, 13), (0, 0, 13), (0, 0, 13)],
        health: Vec::new(),
    };
    let state = core(&history).selection_state();
    let mut forgetful = state.clone();
    forgetful.nis.iter_mut().for_each(|ni| ni.in_flight = 0);
    forgetful
        .peer_nis
        .iter_mut()
        .for_each(|ni| ni.in_flight = 0);
    forgetful.nis.iter_mut().for_each(|ni| ni.sequence = 0);
    let question = ask(nid(REMOTE[0]), 0, 3);
    let picks = |state| {
        explain(&Node::exact(state, NOW), &question)
            .unwrap()
            .forecast
            .picks
    };
    assert_ne!(picks(forgetful), picks(state));
}
