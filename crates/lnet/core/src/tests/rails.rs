//! Random traffic between nodes with several interfaces, every class of failure, both profiles: each message ends in
//! one SEND event and is delivered at most once, and nothing remains in use.

use std::time::Duration;

use lnet_policy::Profile;
use lnet_types::ProcessId;
use lnet_wire::{Body, Handle, Header, Reply};
use proptest::prelude::*;

use super::net::{any_me, config, open_md};
use super::{Net, nid};
use crate::*;

const OURS: [&str; 3] = ["10.0.0.1@tcp", "10.0.0.2@tcp", "10.9.0.1@tcp1"];
const THEIRS: [&str; 3] = ["10.0.1.1@tcp", "10.0.1.2@tcp", "10.9.1.1@tcp1"];

#[derive(Clone, Debug)]
enum Step {
    Put { node: usize, ack: bool },
    Get { node: usize },
    Answer { node: usize, status: usize },
    Unlink { which: usize },
    Fatal { ni: usize, fatal: bool },
    Wait { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let node = 0..2_usize;
    let status = prop_oneof![3 => Just(0_usize), 2 => 1..11_usize];
    prop_oneof![
        4 => (node.clone(), any::<bool>()).prop_map(|(node, ack)| Step::Put { node, ack }),
        2 => node.clone().prop_map(|node| Step::Get { node }),
        20 => (node, status).prop_map(|(node, status)| Step::Answer { node, status }),
        1 => any::<usize>().prop_map(|which| Step::Unlink { which }),
        1 => (0..3_usize, any::<bool>()).prop_map(|(ni, fatal)| Step::Fatal { ni, fatal }),
        2 => (0..40_u64).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

fn net(profile: Profile, used_paths: UsedPaths) -> Net {
    let mut net = Net::new();
    for (cookie, nids, other) in [(1, OURS, THEIRS), (2, THEIRS, OURS)] {
        let globals = Globals {
            profile,
            used_paths,
            ..Globals::default()
        };
        let config = CoreConfig {
            globals,
            ..config(cookie)
        };
        let node = net.add_configured(config, &nids);
        let other = other.map(nid);
        net.core(node).add_peer(other[0], &other, true).unwrap();
    }
    net.attach(0, any_me(), open_md(16));
    net.attach(1, any_me(), open_md(16));
    net.keep_answers = true;
    net
}

/// Applies a step. Returns whether it started a message.
fn apply(net: &mut Net, step: &Step) -> bool {
    let now = net.now;
    let targets = [THEIRS[0], OURS[0]];
    match *step {
        Step::Put { node, ack } => {
            net.put(node, b"data", ack, targets[node]);
            return true;
        }
        Step::Get { node } => {
            net.get(node, 4, targets[node]);
            return true;
        }
        Step::Answer { node, status } => drop(net.answer(node, MessageStatus::ALL[status])),
        Step::Unlink { which } => {
            // The first descriptor is the one that accepts messages; the others belong to messages under way.
            let handles: Vec<_> = net.nodes[0].memory.keys().copied().skip(1).collect();
            if !handles.is_empty() {
                let _ended = net.core(0).md_unlink(handles[which % handles.len()], now);
            }
        }
        Step::Fatal { ni, fatal } => {
            let ni = net.nodes[0].nis[ni].0;
            net.core(0).set_ni_fatal(ni, fatal, now);
        }
        Step::Wait { seconds } => net.advance(Duration::from_secs(seconds)),
    }
    false
}

fn wind_up(net: &mut Net) {
    for _ in 0..2000 {
        net.advance(Duration::ZERO);
        let (a, b) = (
            net.answer(0, MessageStatus::Ok),
            net.answer(1, MessageStatus::Ok),
        );
        if a.is_none() && b.is_none() {
            break;
        }
    }
    for node in 0..2 {
        let now = net.now;
        for handle in net.nodes[node].memory.keys().copied().collect::<Vec<_>>() {
            net.core(node).md_unlink(handle, now).unwrap();
        }
    }
    net.run();
}

fn count(net: &Net, node: usize, kind: EventKind) -> usize {
    let events = net.nodes[node].events.iter();
    events.filter(|event| event.kind == kind).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_each_message_ends_once_and_arrives_at_most_once(
        lustre in any::<bool>(),
        literal in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let profile = if lustre { Profile::Lustre } else { Profile::Design };
        let used_paths = if literal { UsedPaths::Literal } else { UsedPaths::Pair };
        let mut net = net(profile, used_paths);
        let (mut started, mut puts) = ([0; 2], [0; 2]);
        for step in &steps {
            let is_message = apply(&mut net, step);
            if let (true, Step::Put { node, .. } | Step::Get { node }) = (is_message, step) {
                started[*node] += 1;
                puts[*node] += usize::from(matches!(step, Step::Put { .. }));
            }
            net.advance(Duration::ZERO);
        }
        wind_up(&mut net);
        for node in 0..2 {
            prop_assert_eq!(count(&net, node, EventKind::Send), started[node]);
            prop_assert!(count(&net, 1 - node, EventKind::Put) <= puts[node]);
            prop_assert!(net.nodes[node].memory.is_empty());
            let counters = net.core(node).counters();
            prop_assert!(counters.successful_resends <= counters.resend_count);
        }
        net.assert_at_rest();
    }
}

#[test]
fn a_peer_interface_first_heard_of_by_a_message_that_nobody_wants_is_recovered() {
    let mut net = net(Profile::Design, UsedPaths::Pair);
    net.put(0, b"data", false, THEIRS[0]);
    net.run();
    let tx = net.nodes[0].kept.pop_front().unwrap();
    let (hop, now) = (tx.to.nid, net.now);
    net.core(0).sent(tx.tx, MessageStatus::RemoteTimeout, now);
    let recovers = |net: &mut Net| {
        let nis = net.core(0).peers().flat_map(|peer| peer.nis);
        nis.filter(|peer_ni| peer_ni.nid == hop && peer_ni.health.in_recovery)
            .count()
            == 1
    };
    assert!(!recovers(&mut net), "never heard of");

    // For example, an answer to an operation that no longer waits for one.
    let ni = net.nodes[0]
        .nis
        .iter()
        .find(|(_, own)| own.net() == hop.net())
        .unwrap();
    let (ni, dest_nid) = *ni;
    let header = Header {
        dest_nid,
        src_nid: hop,
        body: Body::Reply(Reply {
            dst_wmd: Handle::NONE,
        }),
        payload_length: 0,
        ..tx.header
    };
    let verdict = net.core(0).header(ni, ProcessId::lustre(hop), &header, now);
    assert_eq!(verdict, Verdict::Drop(DropReason::UnknownHandle));
    assert!(recovers(&mut net));
}

#[test]
fn what_waits_to_be_sent_again_takes_another_rail_when_its_interface_is_removed() {
    let mut net = net(Profile::Design, UsedPaths::Pair);
    net.put(0, b"data", false, THEIRS[0]);
    net.run();
    let failed = net.nodes[0].kept.pop_front().unwrap();
    let now = net.now;
    net.core(0)
        .sent(failed.tx, MessageStatus::LocalDropped, now);
    net.core(0).remove_ni(failed.ni, now).unwrap();
    net.advance(Duration::ZERO);
    let again = net.nodes[0].kept.pop_front().expect("it goes out again");
    assert_ne!(again.ni, failed.ni);
    assert_eq!(net.kinds(0), []);
}

// [HEALTH-35]
#[test]
fn a_peer_interface_never_heard_of_is_well_when_its_node_says_that_it_is_up_again() {
    for profile in [Profile::Design, Profile::Lustre] {
        let mut net = net(profile, UsedPaths::Pair);
        let (far, now) = (nid(THEIRS[2]), net.now);
        let health = |net: &mut Net| {
            let nis = net.core(0).peers().flat_map(|peer| peer.nis);
            let mut found = nis.filter(|peer_ni| peer_ni.nid == far);
            let shown = found.next().expect("the peer has it").health;
            (shown.health, shown.in_recovery)
        };
        let full = health(&mut net);
        // New peer interfaces are up, so the first report of `up` changes nothing.
        for up in [true, false, false] {
            net.core(0).fabric_mut().set_peer_ni_status(far, up, now);
        }
        let less = health(&mut net);
        assert!(less.0 < full.0 && !less.1, "nobody could ping it");
        for _ in 0..2 {
            net.core(0).fabric_mut().set_peer_ni_status(far, true, now);
            assert_eq!(health(&mut net), full);
        }
        // A report of the status does not restore the health that an administrator took.
        let less = Health::new(500).unwrap();
        net.core(0).set_peer_ni_health(far, less, now).unwrap();
        net.core(0).fabric_mut().set_peer_ni_status(far, true, now);
        assert!(health(&mut net).0 < full.0);
    }
}
