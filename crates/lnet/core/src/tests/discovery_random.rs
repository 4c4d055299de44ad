//! Random tests of two nodes that discover each other while everything changes that can change. Discovery always ends,
//! no NID is in two peers, and no node pushes without end.

use std::time::Duration;

use lnet_types::Nid;
use lnet_wire::Body;
use proptest::prelude::*;

use super::discovery::{A, B, info, multi_rail, push, rails};
use super::net::{Net, any_me, nid, open_md};
use crate::*;

const NAMES: [[&str; 2]; 2] = [A, B];
/// The third interface that each node may get.
const THIRD: [&str; 2] = ["10.2.0.1@tcp2", "10.2.0.2@tcp2"];

/// The events at a node.
#[derive(Clone, Debug)]
enum Step {
    Put {
        to: usize,
        ack: bool,
    },
    Discover {
        which: usize,
    },
    Link {
        which: usize,
        down: bool,
    },
    Discovery(bool),
    RemovePeer {
        which: usize,
    },
    Configure {
        first: usize,
    },
    /// An interface is removed, and is added again or replaced by the third one.
    Replace {
        which: usize,
        by_third: bool,
    },
    /// A forged push names other interfaces than the node has.
    Claim {
        from: usize,
        first: usize,
        count: usize,
    },
    KeepAnswers(bool),
    Answer(MessageStatus),
    Wait {
        milliseconds: u64,
    },
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let two = 0..2_usize;
    let status = prop_oneof![
        Just(MessageStatus::Ok),
        Just(MessageStatus::RemoteError),
        Just(MessageStatus::NetworkTimeout),
    ];
    prop_oneof![
        3 => (two.clone(), any::<bool>()).prop_map(|(to, ack)| Step::Put { to, ack }),
        1 => two.clone().prop_map(|which| Step::Discover { which }),
        1 => (two.clone(), any::<bool>()).prop_map(|(which, down)| Step::Link { which, down }),
        1 => any::<bool>().prop_map(Step::Discovery),
        1 => two.clone().prop_map(|which| Step::RemovePeer { which }),
        1 => two.clone().prop_map(|first| Step::Configure { first }),
        1 => (two.clone(), any::<bool>())
            .prop_map(|(which, by_third)| Step::Replace { which, by_third }),
        1 => (two, 0..3_usize, 1..4_usize)
            .prop_map(|(from, first, count)| Step::Claim { from, first, count }),
        1 => any::<bool>().prop_map(Step::KeepAnswers),
        6 => status.prop_map(Step::Answer),
        1 => (0..3000_u64).prop_map(|milliseconds| Step::Wait { milliseconds }),
        5 => Just(Step::Settle),
    ]
}

fn play(net: &mut Net, node: usize, step: Step) {
    let (now, other) = (net.now, 1 - node);
    match step {
        Step::Put { to, ack } => _ = net.put(node, b"hello", ack, NAMES[other][to]),
        // A rejected call changes nothing.
        Step::Discover { which } => _ = net.core(node).discover(nid(NAMES[other][which]), now),
        Step::Link { which, down } => {
            let nis = &net.nodes[node].nis;
            let ni = nis[which % nis.len()].0;
            net.core(node).set_ni_fatal(ni, down, now);
        }
        Step::Discovery(discovery) => {
            let globals = Globals {
                discovery,
                ..*net.core(node).globals()
            };
            net.core(node).set_globals(globals, now);
        }
        Step::RemovePeer { which } => {
            let known = net.core(node).peers().nth(which).map(|peer| peer.primary);
            let removed = known.map(|name| net.core(node).remove_peer(name));
            assert!(removed.is_none_or(|removed| removed.is_ok()));
        }
        Step::Configure { first } => {
            let mut nids = NAMES[other].map(nid);
            nids.rotate_left(first);
            _ = net.core(node).add_peer(nids[0], &nids, true);
        }
        Step::Replace { which, by_third } => replace(net, node, which, by_third),
        Step::Claim { from, first, count } => claim(net, node, from, first, count),
        Step::KeepAnswers(keep) => net.keep_answers = keep,
        Step::Answer(status) => while net.answer(node, status).is_some() {},
        Step::Wait { milliseconds } => net.advance(Duration::from_millis(milliseconds)),
        Step::Settle => net.run(),
    }
}

fn replace(net: &mut Net, node: usize, which: usize, by_third: bool) {
    if net.nodes[node].nis.len() < 2 {
        return;
    }
    net.run();
    while net.answer(node, MessageStatus::NetworkTimeout).is_some() {}
    let now = net.now;
    let (ni, gone) = net.nodes[node].nis.remove(which);
    net.core(node).remove_ni(ni, now).unwrap();
    let back = if by_third { nid(THIRD[node]) } else { gone };
    if net.nodes[node].nis.iter().all(|(_, own)| *own != back) {
        let config = NiConfig {
            nid: back,
            tunables: Tunables::default(),
        };
        let ni = net.core(node).add_ni(config, now).unwrap();
        net.nodes[node].nis.push((ni, back));
    }
}

fn claim(net: &mut Net, node: usize, from: usize, first: usize, count: usize) {
    let other = 1 - node;
    let mut nids = NAMES[other].map(nid).to_vec();
    nids.push(nid(THIRD[other]));
    nids.rotate_left(first);
    nids.truncate(count);
    let from = NAMES[other][from];
    let takes = net.core(node).upkeep.push_target.posted() > 0;
    if takes && net.nodes[node].nis[0].1.net() == nid(from).net() {
        push(net, node, from, &info(multi_rail(), 9, &nids));
    }
}

/// Drops all answers that were held back, and lets a long time pass.
fn come_to_rest(net: &mut Net) {
    net.keep_answers = false;
    let lost = MessageStatus::NetworkTimeout;
    while (0..2).any(|node| net.answer(node, lost).is_some()) {}
    net.advance(Duration::from_secs(3000));
}

fn check(net: &mut Net, node: usize) {
    assert_eq!(net.core(node).counters().invariants_broken, 0);
    let peers = net.core(node).peers().flat_map(|peer| peer.nis);
    let mut nids: Vec<Nid> = peers.map(|ni| ni.nid).collect();
    let all = nids.len();
    nids.sort();
    nids.dedup();
    assert_eq!(nids.len(), all, "a NID is in two peers: {nids:?}");
    let under_way = PeerState::DISCOVERING
        | PeerState::PING_SENT
        | PeerState::PUSH_SENT
        | PeerState::DATA_PRESENT;
    for ni in net.core(node).fabric().peers.iter() {
        let Some(known) = &ni.discovery else { continue };
        assert_eq!(ni.primary, ni.nid, "a discovery belongs to a name");
        assert!(
            known.is_idle() && !known.state().intersects(under_way),
            "{:?}",
            known.view()
        );
    }
}

/// Plays the steps, lets everything come to rest, and checks the invariants that must hold then.
fn run(steps: Vec<(usize, Step)>) {
    let mut net = rails();
    net.attach(0, any_me(), open_md(4096));
    for (node, step) in steps {
        play(&mut net, node, step);
    }
    come_to_rest(&mut net);
    net.trace.clear();
    net.advance(Duration::from_secs(3000));
    let is_push = |(_, header): &&(usize, lnet_wire::Header)| matches!(header.body, Body::Put(_));
    let pushes = net.trace.iter().filter(is_push).count();
    assert_eq!(pushes, 0, "pushes for ever");
    (0..2).for_each(|node| check(&mut net, node));
}

#[test]
fn a_ping_answered_after_the_push_failed_is_merged() {
    run(vec![
        (0, Step::KeepAnswers(true)),
        (
            1,
            Step::Replace {
                which: 0,
                by_third: false,
            },
        ),
        (1, Step::Put { to: 0, ack: false }),
        (
            0,
            Step::Claim {
                from: 0,
                first: 0,
                count: 1,
            },
        ),
        (0, Step::Discover { which: 0 }),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_happens_discovery_ends_and_no_nid_is_in_two_peers(
        steps in prop::collection::vec((0..2_usize, step()), 1..200),
    ) {
        run(steps);
    }
}
