//! Tests that a core made from the state of another core selects the same paths, for random configurations and random
//! histories of messages, failures and changes.

use std::collections::VecDeque;
use std::time::Duration;

use lnet_policy::{Action, Priority, Profile, Rule, RuleText};
use lnet_types::{Nid, ProcessId, Time};
use proptest::prelude::*;

use super::net::config;
use super::nid;
use crate::*;

const LOCAL: [&str; 6] = [
    "10.0.0.1@tcp",
    "10.0.0.2@tcp",
    "10.1.0.1@tcp1",
    "10.1.0.2@tcp1",
    "10.1.0.3@tcp1",
    "10.2.0.1@tcp2",
];
/// The nets of the first three NIDs are among the local ones; only routes reach `tcp8` and `tcp9`.
const REMOTE: [&str; 10] = [
    "10.0.9.1@tcp",
    "10.0.9.2@tcp",
    "10.1.9.1@tcp1",
    "10.1.9.2@tcp1",
    "10.2.9.1@tcp2",
    "10.8.9.1@tcp8",
    "10.8.9.2@tcp8",
    "10.9.9.1@tcp9",
    "10.9.9.2@tcp9",
    "10.9.9.3@tcp9",
];
const GATEWAYS: [&str; 5] = [
    "10.0.5.1@tcp",
    "10.0.5.2@tcp",
    "10.1.5.1@tcp1",
    "10.1.5.2@tcp1",
    "10.2.5.1@tcp2",
];
/// The rules as `src`, `dst`, `rte`.
const RULES: [[&str; 3]; 9] = [
    ["tcp", "", ""],
    ["tcp[1-2]", "", ""],
    ["10.1.0.[1-2]@tcp1", "", ""],
    ["", "tcp1", ""],
    ["", "10.*.9.2@tcp*", ""],
    ["10.0.0.2@tcp", "*.*.*.*@tcp", ""],
    ["10.1.0.*@tcp1", "tcp1", ""],
    ["", "10.9.9.1@tcp9", "10.0.5.2@tcp"],
    ["", "tcp8", "10.*.5.1@tcp*"],
];

#[derive(Clone, Debug)]
enum Step {
    Send {
        target: usize,
        from: Option<usize>,
        length: u32,
    },
    Answer {
        which: usize,
        status: usize,
    },
    Wait {
        seconds: u64,
    },
    Fatal {
        ni: usize,
        fatal: bool,
    },
    NiHealth {
        ni: usize,
        health: u16,
    },
    PeerHealth {
        peer: usize,
        health: u16,
    },
    Rule {
        rule: usize,
        priority: u32,
    },
    DeleteRule {
        index: usize,
    },
    Peer {
        nids: Vec<usize>,
        multi_rail: bool,
    },
    Route {
        net: bool,
        gateway: usize,
        hops: Option<u8>,
        priority: u32,
    },
    DeleteRoute {
        net: bool,
        gateway: usize,
    },
    DeleteNi {
        ni: usize,
    },
    Heard {
        peer: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let hops = prop_oneof![Just(None), (1..4_u8).prop_map(Some)];
    let health = || prop_oneof![Just(1000_u16), 0..=1000_u16];
    prop_oneof![
        30 => (0..REMOTE.len(), proptest::option::weighted(0.2, 0..LOCAL.len()), 0..5000_u32)
            .prop_map(|(target, from, length)| Step::Send { target, from, length }),
        25 => (any::<usize>(), prop_oneof![3 => Just(0_usize), 1 => 1..11_usize])
            .prop_map(|(which, status)| Step::Answer { which, status }),
        2 => (0..90_u64).prop_map(|seconds| Step::Wait { seconds }),
        1 => (0..LOCAL.len(), any::<bool>()).prop_map(|(ni, fatal)| Step::Fatal { ni, fatal }),
        1 => (0..LOCAL.len(), health()).prop_map(|(ni, health)| Step::NiHealth { ni, health }),
        1 => (0..REMOTE.len(), health()).prop_map(|(peer, health)| Step::PeerHealth { peer, health }),
        2 => (0..RULES.len(), 0..3_u32).prop_map(|(rule, priority)| Step::Rule { rule, priority }),
        1 => (0..4_usize).prop_map(|index| Step::DeleteRule { index }),
        2 => (proptest::collection::vec(0..REMOTE.len() + GATEWAYS.len(), 1..5), any::<bool>())
            .prop_map(|(nids, multi_rail)| Step::Peer { nids, multi_rail }),
        3 => (any::<bool>(), 0..GATEWAYS.len(), hops, 0..2_u32)
            .prop_map(|(net, gateway, hops, priority)| Step::Route { net, gateway, hops, priority }),
        1 => (any::<bool>(), 0..GATEWAYS.len())
            .prop_map(|(net, gateway)| Step::DeleteRoute { net, gateway }),
        1 => (0..LOCAL.len()).prop_map(|ni| Step::DeleteNi { ni }),
        2 => (0..REMOTE.len()).prop_map(|peer| Step::Heard { peer }),
    ]
}

struct Driver {
    core: Core,
    now: Time,
    waiting: VecDeque<TxId>,
}

impl Driver {
    fn send(&mut self, target: Nid, source: Option<Nid>, length: u32) {
        let md = self.core.md_bind(MdSpec {
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
            source,
            target: ProcessId::lustre(target),
            portal: 30,
            match_bits: 0,
            offset: 0,
            hdr_data: 0,
        };
        self.core.put(put, self.now).unwrap();
    }

    fn settle(&mut self) {
        self.core.tick(self.now);
        while let Some(output) = self.core.poll_output() {
            if let Output::Transmit(message) = output {
                self.waiting.push_back(message.tx);
            }
        }
    }

    fn id(&self, nid: Nid) -> Option<NiId> {
        let mut nis = self.core.nis();
        nis.find(|ni| ni.nid == nid).map(|ni| ni.id)
    }

    fn apply(&mut self, step: &Step) {
        let now = self.now;
        match *step {
            Step::Send {
                target,
                from,
                length,
            } => {
                self.send(nid(REMOTE[target]), from.map(|at| nid(LOCAL[at])), length);
            }
            Step::Answer { which, status } if !self.waiting.is_empty() => {
                let tx = self.waiting.remove(which % self.waiting.len()).unwrap();
                self.core.sent(tx, MessageStatus::ALL[status], now);
            }
            Step::Answer { .. } => {}
            Step::Wait { seconds } => self.now = now + Duration::from_secs(seconds),
            _ => self.configure(step),
        }
        self.settle();
    }

    /// Changes the configuration. A rejected change is one more history.
    fn configure(&mut self, step: &Step) {
        let now = self.now;
        let net = |far| if far { "tcp9" } else { "tcp8" }.parse().unwrap();
        match *step {
            Step::Fatal { ni, fatal } => {
                if let Some(id) = self.id(nid(LOCAL[ni])) {
                    self.core.set_ni_fatal(id, fatal, now);
                }
            }
            Step::NiHealth { ni, health } => {
                if let Some(id) = self.id(nid(LOCAL[ni])) {
                    let health = Health::new(health).unwrap();
                    self.core.set_ni_health(id, health, now).unwrap();
                }
            }
            Step::PeerHealth { peer, health } => {
                let health = Health::new(health).unwrap();
                let _ = self.core.set_peer_ni_health(nid(REMOTE[peer]), health, now);
            }
            Step::Rule { rule, priority } => {
                let _ = self.core.add_rule(parsed(RULES[rule], priority), Some(0));
            }
            Step::DeleteRule { index } => drop(self.core.delete_rule(index)),
            Step::Peer {
                ref nids,
                multi_rail,
            } => {
                let all = || REMOTE.into_iter().chain(GATEWAYS);
                let nids: Vec<Nid> = nids.iter().map(|&at| nid(all().nth(at).unwrap())).collect();
                let _ = self.core.add_peer(nids[0], &nids, multi_rail);
            }
            Step::Route {
                net: far,
                gateway,
                hops,
                priority,
            } => {
                let (net, gateway) = (net(far), nid(GATEWAYS[gateway]));
                let _ = self.core.add_route(
                    Route {
                        net,
                        gateway,
                        hops,
                        priority,
                    },
                    now,
                );
            }
            Step::DeleteRoute { net: far, gateway } => {
                let _ = self.core.remove_route(net(far), nid(GATEWAYS[gateway]));
            }
            Step::DeleteNi { ni } => {
                let left = self.core.nis().count();
                if let Some(id) = self.id(nid(LOCAL[ni])).filter(|_| left > 2) {
                    self.core.remove_ni(id, now).unwrap();
                }
            }
            Step::Heard { peer } => {
                self.core.peer_notify(NiId(1), nid(REMOTE[peer]), true, now);
            }
            Step::Send { .. } | Step::Answer { .. } | Step::Wait { .. } => {}
        }
    }
}

fn parsed([src, dst, rte]: [&'static str; 3], priority: u32) -> Rule {
    let given = |text: &'static str| (!text.is_empty()).then_some(text);
    let list = [src, dst, rte]
        .iter()
        .filter(|text| !text.is_empty())
        .count()
        > 1;
    let action = Action::Priority(Priority::new(priority).unwrap());
    let text = RuleText {
        src: given(src),
        dst: given(dst),
        rte: given(rte),
        action: (!list).then_some(action),
    };
    Rule::from_text(&text, Profile::Lustre).unwrap()
}

fn driver(globals: Globals, credits: &[u32], distances: &[u32]) -> Driver {
    let now = Time::from_secs(1000);
    let mut core = Core::new(
        CoreConfig {
            globals,
            ..config(1)
        },
        now,
    );
    for ((text, &peer_credits), &distance) in LOCAL.iter().zip(credits).zip(distances) {
        let tunables = Tunables {
            credits: 3 * credits[0],
            // All interfaces of a net have the same value.
            peer_credits: if text.ends_with("tcp1") {
                credits[0]
            } else {
                peer_credits
            },
            ..Tunables::default()
        };
        let ni = NiConfig {
            nid: nid(text),
            tunables,
        };
        let id = core.add_ni(ni, now).unwrap();
        let device = NiDevice {
            rank: 0,
            distances: [distance].into_iter().collect(),
        };
        core.set_ni_device(id, device).unwrap();
    }
    let mut driver = Driver {
        core,
        now,
        waiting: VecDeque::new(),
    };
    driver.settle();
    driver
}

fn globals() -> impl Strategy<Value = Globals> {
    (
        any::<bool>(),
        any::<bool>(),
        0..3_u32,
        prop_oneof![Just(0), Just(15)],
    )
        .prop_map(|(lustre, literal, retry_count, numa_range)| Globals {
            profile: if lustre {
                Profile::Lustre
            } else {
                Profile::Design
            },
            used_paths: if literal {
                UsedPaths::Literal
            } else {
                UsedPaths::Pair
            },
            retry_count,
            numa_range,
            ..Globals::default()
        })
}

/// Returns the path that a message takes, by NIDs, which both cores share.
fn pick(core: &Core, target: Nid, source: Option<Nid>) -> Result<[Nid; 3], SelectError> {
    let query = SendQuery {
        source,
        ..SendQuery::to(target)
    };
    let choice = core.choose(&query)?;
    Ok([choice.source, choice.next_hop, choice.destination])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_core_made_from_a_state_makes_the_next_hundred_picks_of_the_running_one(
        globals in globals(),
        credits in proptest::collection::vec(1..6_u32, 6),
        distances in proptest::collection::vec(10..25_u32, 6),
        steps in proptest::collection::vec(step(), 1..200),
        sends in proptest::collection::vec(
            (0..REMOTE.len(), proptest::option::weighted(0.1, 0..LOCAL.len()), 0..9000_u32), 100),
    ) {
        let mut running = driver(globals, &credits, &distances);
        for step in &steps {
            running.apply(step);
        }
        let state = running.core.selection_state();
        let rebuilt = Core::from_selection_state(&state, running.now).unwrap();
        let mut rebuilt = Driver { core: rebuilt, now: running.now, waiting: VecDeque::new() };
        for (target, from, length) in sends {
            let (target, from) = (nid(REMOTE[target]), from.map(|at| nid(LOCAL[at])));
            let expected = pick(&running.core, target, from);
            prop_assert_eq!(pick(&rebuilt.core, target, from), expected);
            running.send(target, from, length);
            rebuilt.send(target, from, length);
        }
    }

    #[test]
    fn the_state_of_a_core_made_from_a_state_is_that_state(
        globals in globals(),
        steps in proptest::collection::vec(step(), 1..100),
    ) {
        let mut running = driver(globals, &[4; 6], &[10; 6]);
        for step in &steps {
            running.apply(step);
        }
        let state = running.core.selection_state();
        let mut rebuilt = Core::from_selection_state(&state, running.now).unwrap().selection_state();
        // Peers are listed by slot. A removed interface leaves a free slot, so that the order differs between the
        // cores.
        let by_nid = |a: &PeerNiSelection, b: &PeerNiSelection| a.nid.cmp(&b.nid);
        let mut state = state;
        state.peer_nis.sort_by(by_nid);
        rebuilt.peer_nis.sort_by(by_nid);
        prop_assert_eq!(rebuilt, state);
    }
}

#[test]
fn a_state_with_counts_that_would_overflow_is_refused() {
    let mut state = driver(Globals::default(), &[4; 6], &[10; 6])
        .core
        .selection_state();
    state.nis[2].sequence = u64::MAX;
    let refused = Core::from_selection_state(&state, Time::ZERO).unwrap_err();
    assert_eq!(refused, StateError::TooLarge(nid(LOCAL[2])));
}

#[test]
fn a_state_that_no_configuration_leads_to_is_refused() {
    let mut state = driver(Globals::default(), &[4; 6], &[10; 6])
        .core
        .selection_state();
    state.nis[1].nid = state.nis[0].nid;
    let refused = Core::from_selection_state(&state, Time::ZERO).unwrap_err();
    let twice = ConfigError::DuplicateNid(nid(LOCAL[0]));
    assert_eq!(refused, StateError::Config(twice));
}

#[test]
fn one_sequence_that_is_forgotten_changes_a_pick() {
    let mut running = driver(Globals::default(), &[4; 6], &[10; 6]);
    running
        .core
        .add_peer(nid(REMOTE[0]), &[nid(REMOTE[1])], true)
        .unwrap();
    running.send(nid(REMOTE[0]), None, 0);
    let mut state = running.core.selection_state();
    // The credit that the message holds would also tell the interfaces apart.
    for ni in &mut state.nis {
        (ni.sequence, ni.in_flight) = (0, 0);
    }
    let forgetful = Core::from_selection_state(&state, running.now).unwrap();
    let target = nid(REMOTE[0]);
    assert_ne!(
        pick(&forgetful, target, None),
        pick(&running.core, target, None)
    );
}
