//! Random traffic over a router, with random failures and random unlinking: every descriptor ends with exactly one
//! last event, and everything is at rest afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::Net;
use super::net::{any_me, one_shot, open_md};
use crate::*;

#[derive(Clone, Debug)]
enum Step {
    Put {
        node: usize,
        length: usize,
        ack: bool,
    },
    Get {
        node: usize,
        length: usize,
    },
    Post {
        node: usize,
        length: u32,
    },
    Answer {
        node: usize,
        status: MessageStatus,
    },
    Unlink {
        node: usize,
        which: usize,
    },
    Wait {
        seconds: u64,
    },
    Break {
        node: usize,
    },
    Routing(bool),
}

const SERVER: [&str; 3] = ["10.1.0.2@tcp1", "10.1.0.2@tcp1", "10.0.0.1@tcp"];

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![Just(0_usize), Just(2)];
    let length = prop_oneof![Just(0_usize), 1..64_usize, 4096..4100_usize];
    let status = prop_oneof![
        6 => Just(MessageStatus::Ok),
        1 => Just(MessageStatus::RemoteDropped),
        1 => Just(MessageStatus::NetworkTimeout),
    ];
    prop_oneof![
        6 => (end.clone(), length.clone(), any::<bool>())
            .prop_map(|(node, length, ack)| Step::Put { node, length, ack }),
        3 => (end.clone(), length).prop_map(|(node, length)| Step::Get { node, length }),
        4 => (end.clone(), 0..5000_u32).prop_map(|(node, length)| Step::Post { node, length }),
        20 => (0..3_usize, status).prop_map(|(node, status)| Step::Answer { node, status }),
        2 => (end, any::<usize>()).prop_map(|(node, which)| Step::Unlink { node, which }),
        1 => (1..80_u64).prop_map(|seconds| Step::Wait { seconds }),
        1 => (0..3_usize).prop_map(|node| Step::Break { node }),
        1 => any::<bool>().prop_map(Step::Routing),
    ]
}

fn apply(net: &mut Net, step: Step) {
    let now = net.now;
    match step {
        Step::Put { node, length, ack } => {
            net.put(node, &vec![1; length], ack, SERVER[node]);
        }
        Step::Get { node, length } => {
            net.get(node, length, SERVER[node]);
        }
        Step::Post { node, length } => {
            net.attach(node, any_me(), one_shot(length));
        }
        Step::Answer { node, status } => {
            net.answer(node, status);
        }
        Step::Unlink { node, which } => {
            let handles: Vec<_> = net.nodes[node].memory.keys().copied().collect();
            if !handles.is_empty() {
                // The descriptor may be dead already and wait only for its last operation.
                let _ = net
                    .core(node)
                    .md_unlink(handles[which % handles.len()], now);
            }
        }
        Step::Wait { seconds } => net.advance(Duration::from_secs(seconds)),
        Step::Break { node } => net.break_held(node),
        Step::Routing(on) => net.core(1).set_routing(on, now),
    }
    net.run();
}

/// Ends everything that is still open.
fn wind_up(net: &mut Net) {
    for node in [0, 2] {
        let now = net.now;
        net.core(node).clear_lazy(30, now).unwrap();
    }
    for node in [0, 1, 2].into_iter().cycle().take(3000) {
        net.break_held(node);
        net.answer(node, MessageStatus::Ok);
    }
    for node in [0, 2] {
        let handles: Vec<_> = net.nodes[node].memory.keys().copied().collect();
        let now = net.now;
        for handle in handles {
            net.core(node).md_unlink(handle, now).unwrap();
        }
    }
    net.run();
}

fn last_events(net: &Net, node: usize) -> BTreeMap<MdHandle, usize> {
    let mut last = BTreeMap::new();
    for event in &net.nodes[node].events {
        *last.entry(event.md).or_default() += usize::from(event.unlinked);
    }
    last
}

/// Counts the SEND events of each descriptor; a descriptor of one operation must have exactly one.
fn sends(net: &Net, node: usize) -> BTreeMap<MdHandle, usize> {
    let mut sends = BTreeMap::new();
    for event in net.nodes[node]
        .events
        .iter()
        .filter(|event| event.kind == EventKind::Send)
    {
        *sends.entry(event.md).or_default() += 1;
    }
    sends
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_every_descriptor_ends_once_and_nothing_is_left(
        lazy in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut net = Net::routed(RouterBuffers { tiny: 1, small: 2, large: 1 });
        if lazy {
            net.core(0).set_lazy(30).unwrap();
            net.core(2).set_lazy(30).unwrap();
        }
        net.attach(2, MeSpec { match_bits: 8, ..any_me() }, open_md(16));
        net.run();
        net.keep_answers = true;
        let mut started = [0; 3];
        for step in steps {
            if let Step::Put { node, .. } | Step::Get { node, .. } = step {
                started[node] += 1;
            }
            apply(&mut net, step);
        }
        wind_up(&mut net);
        for node in [0, 2] {
            prop_assert!(net.nodes[node].memory.is_empty());
            prop_assert!(last_events(&net, node).values().all(|&count| count == 1));
            let sends = sends(&net, node);
            prop_assert_eq!(sends.len(), started[node]);
            prop_assert!(sends.values().all(|&count| count == 1));
        }
        net.assert_at_rest();
    }
}
