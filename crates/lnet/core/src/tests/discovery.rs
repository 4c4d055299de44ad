//! Tests of discovery: which peers are pinged, pushed to and merged, which messages wait meanwhile, and what a peer
//! cannot make this node do: among others [PEER-5], [PEER-12], [PEER-13].

use std::time::Duration;

use lnet_types::{Nid, ProcessId};
use lnet_wire::{
    Body, Handle, Header, LNET_PORTAL, MessageType, NiStatus, PING_MATCH_BITS, PingFeatures,
    PingInfoRepr, PingNi, Put,
};

use super::net::{Net, any_me, nid, open_md};
use crate::*;

pub(super) const A: [&str; 2] = ["10.0.0.1@tcp", "10.1.0.1@tcp1"];
pub(super) const B: [&str; 2] = ["10.0.0.2@tcp", "10.1.0.2@tcp1"];
/// The state that kernels print for a discovered Multi-Rail peer.
const DISCOVERED: u32 = 273;

/// Creates two nodes with two rails each that discover their peers; B accepts messages.
pub(super) fn rails() -> Net {
    let mut net = Net::new();
    net.add_discovering(&A);
    net.add_discovering(&B);
    net.attach(1, any_me(), open_md(4096));
    net
}

fn kinds_of(net: &mut Net, node: usize) -> Vec<(MessageType, bool)> {
    let trace = std::mem::take(&mut net.trace);
    let of_node = trace.iter().filter(|(from, _)| *from == node);
    of_node
        .map(|(_, header)| {
            let reserved = match header.body {
                Body::Put(put) => put.ptl_index == LNET_PORTAL,
                Body::Get(get) => get.ptl_index == LNET_PORTAL,
                _ => false,
            };
            (header.body.message_type(), reserved)
        })
        .collect()
}

pub(super) fn nids_of(net: &mut Net, node: usize, peer: &str) -> Vec<Nid> {
    let peer = net.core(node).peer_with(nid(peer)).unwrap();
    peer.nis.iter().map(|ni| ni.nid).collect()
}

pub(super) fn state_of(net: &mut Net, node: usize, peer: &str) -> PeerState {
    net.core(node).discovery(nid(peer)).unwrap().state
}

pub(super) fn info(features: PingFeatures, sequence: u32, nids: &[Nid]) -> Vec<u8> {
    let nis: Vec<PingNi> = nids
        .iter()
        .map(|&nid| PingNi {
            nid,
            status: NiStatus::UP,
        })
        .collect();
    let info = PingInfoRepr {
        features,
        pid: 12345,
        sequence,
        nis: &nis,
    };
    let mut bytes = vec![0; info.encoded_len()];
    info.encode(&mut bytes).unwrap();
    bytes
}

pub(super) fn multi_rail() -> PingFeatures {
    PingFeatures::NI_STATUS
        | PingFeatures::RTE_DISABLED
        | PingFeatures::MULTI_RAIL
        | PingFeatures::DISCOVERY
}

/// Delivers a push from a NID to a node, as if it arrived over a connection.
pub(super) fn push(net: &mut Net, node: usize, from: &str, data: &[u8]) {
    let (ni, own) = net.nodes[node].nis[0];
    let from = ProcessId::lustre(nid(from));
    let header = Header {
        dest_nid: own,
        src_nid: from.nid,
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: data.len() as u32,
        body: Body::Put(Put {
            ack_wmd: Handle::NONE,
            match_bits: PING_MATCH_BITS,
            hdr_data: 0,
            ptl_index: LNET_PORTAL,
            offset: 0,
        }),
    };
    let now = net.now;
    let core = net.core(node);
    match core.header(ni, from, &header, now) {
        Verdict::Receive { rx, landing } => {
            let Place::Core(buffer) = landing.place else {
                panic!("a push lands in the core's memory");
            };
            let length = landing.length as usize;
            core.core_buffer_mut(buffer)[..length].copy_from_slice(&data[..length]);
            core.arrived(rx, Ok(()), now);
        }
        verdict => panic!("{verdict:?}"),
    }
    net.run();
}

// [DISC-1]
#[test]
fn t_s31_an_unknown_peer_is_pinged_before_the_first_message_to_it() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.run();
    let sent = kinds_of(&mut net, 0);
    let begun: Vec<_> = sent
        .iter()
        .filter(|(kind, _)| matches!(kind, MessageType::Get | MessageType::Put))
        .collect();
    let expected = [
        (MessageType::Get, true),
        (MessageType::Put, true),
        (MessageType::Put, false),
    ];
    assert_eq!(begun, expected.iter().collect::<Vec<_>>());
    assert_eq!(net.kinds(0), [EventKind::Send, EventKind::Ack]);
    assert_eq!(net.kinds(1), [EventKind::Put]);
    net.assert_at_rest();
}

// [DISC-4] [DISC-5] [PUSH-1]
#[test]
fn both_sides_know_each_other_as_one_multi_rail_peer_after_one_message() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.run();
    for (node, peer) in [(0, B), (1, A)] {
        for name in peer {
            assert_eq!(nids_of(&mut net, node, name), peer.map(nid));
            assert_eq!(state_of(&mut net, node, name).bits(), DISCOVERED);
        }
    }
    kinds_of(&mut net, 0);
    net.put(0, b"again", true, B[1]);
    net.run();
    assert_eq!(
        kinds_of(&mut net, 0),
        [(MessageType::Put, false)],
        "nothing waits"
    );
    net.assert_at_rest();
}

// [DISC-3]
#[test]
fn t_s32_messages_that_wait_fail_with_the_discovery_and_the_next_one_tries_again() {
    let mut net = Net::new();
    net.add_discovering(&A[..1]);
    net.keep_answers = true;
    let failed = |net: &mut Net| {
        net.put(0, b"one", true, "10.0.0.7@tcp");
        net.run();
        let now = net.now;
        let ping = net.nodes[0].kept.pop_front().unwrap();
        assert_eq!(ping.header.body.message_type(), MessageType::Get);
        net.core(0)
            .sent(ping.tx, MessageStatus::NetworkTimeout, now);
        net.run();
        let events = net.take_events(0);
        assert_eq!(events[0].kind, EventKind::Send);
        events[0].status
    };
    assert_eq!(failed(&mut net), Err(Errno::ETIMEDOUT));
    let state = state_of(&mut net, 0, "10.0.0.7@tcp");
    assert!(state.contains(PeerState::REDISCOVER));
    assert_eq!(failed(&mut net), Err(Errno::ETIMEDOUT));
    assert_eq!(net.core(0).counters().discoveries_failed, 2);
}

// [DISC-4] [PUSH-2]
#[test]
fn without_discovery_nothing_waits_and_no_peer_is_multi_rail() {
    let mut net = Net::pair();
    net.attach(1, any_me(), open_md(4096));
    net.put(0, b"hello", true, B[0]);
    net.run();
    assert_eq!(kinds_of(&mut net, 0), [(MessageType::Put, false)]);
    assert!(net.core(0).discovery(nid(B[0])).is_none());
}

#[test]
fn a_peer_that_answers_nothing_holds_messages_for_the_transaction_timeout_at_most() {
    let mut net = Net::new();
    net.add_discovering(&A[..1]);
    net.add(&["10.0.0.2@tcp"]);
    net.nodes[1].alive = false;
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(151));
    let kinds = net.kinds(0);
    assert!(kinds.contains(&EventKind::Send), "{kinds:?}");
    net.assert_at_rest();
}

#[test]
fn a_peer_without_multi_rail_is_asked_once_and_never_pushed_to() {
    let mut net = Net::new();
    net.add_discovering(&A);
    net.add(&B);
    net.attach(1, any_me(), open_md(4096));
    for _ in 0..2 {
        net.put(0, b"hello", true, B[0]);
        net.run();
    }
    let sent = kinds_of(&mut net, 0);
    let expected = [
        (MessageType::Get, true),
        (MessageType::Put, false),
        (MessageType::Put, false),
    ];
    assert_eq!(sent, expected);
    assert_eq!(nids_of(&mut net, 0, B[0]), [nid(B[0])]);
    net.assert_at_rest();
}

// [PUSH-5]
#[test]
fn what_changes_here_is_pushed_to_those_who_know_this_node() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.run();
    let tunables = Tunables::default();
    let (now, third) = (net.now, nid("10.2.0.2@tcp2"));
    let id = net.core(1).add_ni(
        NiConfig {
            nid: third,
            tunables,
        },
        now,
    );
    net.advance(Duration::from_secs(1));
    assert_eq!(nids_of(&mut net, 0, B[0]), [nid(B[0]), nid(B[1]), third]);
    let now = net.now;
    net.core(1).remove_ni(id.unwrap(), now).unwrap();
    net.advance(Duration::from_secs(1));
    assert_eq!(nids_of(&mut net, 0, B[0]), B.map(nid));
    net.assert_at_rest();
}

// [PUSH-10]
#[test]
fn switching_discovery_off_is_pushed_once_and_then_nobody_is_pushed_to() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.run();
    let globals = Globals {
        discovery: false,
        ..*net.core(1).globals()
    };
    let now = net.now;
    net.core(1).set_globals(globals, now);
    net.advance(Duration::from_secs(1));
    assert!(state_of(&mut net, 0, B[0]).contains(PeerState::NO_DISCOVERY));
    assert_eq!(net.core(1).counters().pushes_sent, 2);
    net.put(0, b"hello", true, B[0]);
    net.run();
    assert!(net.kinds(1).contains(&EventKind::Put));
    net.assert_at_rest();
}

#[test]
fn a_peer_that_is_discovered_under_two_names_at_the_same_time_is_known_at_once() {
    for first in 0..2 {
        let mut net = rails();
        net.keep_answers = true;
        for name in [B[first], B[1 - first]] {
            net.put(0, b"hello", true, name);
        }
        net.run();
        // The answer to one ping is merged, and a push is under way, when the answer to the other ping arrives.
        let mut more = true;
        while more {
            more = net.answer(0, MessageStatus::Ok).is_some();
            more |= net.answer(1, MessageStatus::Ok).is_some();
        }
        let acks = net
            .kinds(0)
            .into_iter()
            .filter(|&kind| kind == EventKind::Ack);
        assert_eq!(acks.count(), 2);
        assert_eq!(nids_of(&mut net, 0, B[0]), B.map(nid));
        net.assert_at_rest();
    }
}

#[test]
fn a_message_that_is_cancelled_while_it_waits_is_never_sent() {
    let mut net = rails();
    net.keep_answers = true;
    let md = net.put(0, b"hello", true, B[0]);
    net.run();
    let now = net.now;
    net.core(0).md_unlink(md, now).unwrap();
    net.keep_answers = false;
    while net.answer(0, MessageStatus::Ok).is_some() {}
    net.run();
    let sent = kinds_of(&mut net, 0);
    assert!(!sent.contains(&(MessageType::Put, false)), "{sent:?}");
    let ends = net.take_events(0);
    assert_eq!(
        ends.last().map(|e| (e.status, e.unlinked)),
        Some((Err(Errno::ECANCELED), true))
    );
}

#[test]
fn a_peer_that_is_removed_takes_the_messages_that_wait_for_it_along() {
    let mut net = Net::new();
    net.add_discovering(&A[..1]);
    net.keep_answers = true;
    net.put(0, b"hello", false, "10.0.0.7@tcp");
    net.run();
    net.core(0).remove_peer(nid("10.0.0.7@tcp")).unwrap();
    net.run();
    let events = net.take_events(0);
    let ends: Vec<_> = events
        .iter()
        .map(|event| (event.kind, event.status))
        .collect();
    assert_eq!(ends, [(EventKind::Send, Err(Errno::EHOSTUNREACH))]);
    let now = net.now;
    let ping = net.nodes[0].kept.pop_front().unwrap();
    net.core(0)
        .sent(ping.tx, MessageStatus::NetworkTimeout, now);
    net.run();
    net.assert_at_rest();
}

/// Returns how many of 40 messages to a peer use the peer's second NID, after a discovery before which the first NID
/// was already used.
fn share_of_the_second(own: &[&str], peer: [&str; 2]) -> usize {
    let mut net = Net::new();
    net.add(own);
    net.add_discovering(&peer);
    net.attach(1, any_me(), open_md(4096));
    let send = |net: &mut Net| {
        for _ in 0..40 {
            net.put(0, b"hello", false, peer[0]);
            net.run();
        }
    };
    send(&mut net);
    let globals = Globals {
        discovery: true,
        ..super::net::globals()
    };
    let now = net.now;
    net.core(0).set_globals(globals, now);
    net.core(0).discover(nid(peer[0]), now).unwrap();
    net.run();
    net.trace.clear();
    send(&mut net);
    let to_second = net.trace.iter().filter(|(from, header)| {
        let is_put = matches!(header.body, Body::Put(_));
        *from == 0 && header.dest_nid == nid(peer[1]) && is_put
    });
    to_second.count()
}

#[test]
fn interfaces_of_a_discovered_peer_are_used_equally_from_the_first_message_on() {
    assert_eq!(share_of_the_second(&A, B), 20, "on two nets");
    let on_one_net = ["10.0.0.2@tcp", "10.0.0.3@tcp"];
    assert_eq!(share_of_the_second(&A[..1], on_one_net), 20, "on one net");
}

#[test]
fn a_push_with_too_many_nids_changes_nothing() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.run();
    let many = |count: u32| -> Vec<Nid> {
        let others = (1..count).map(|i| nid(&format!("11.0.{}.{}@tcp", i / 250, 1 + i % 250)));
        std::iter::once(nid(B[0])).chain(others).collect()
    };
    for count in [PEER_NIDS_MAX as u32 + 1, 3000] {
        push(&mut net, 0, B[0], &info(multi_rail(), 9, &many(count)));
        net.advance(Duration::from_secs(200));
        assert!(nids_of(&mut net, 0, B[0]).len() <= PEER_NIDS_MAX);
    }
    net.assert_at_rest();
}

#[test]
fn a_peer_whose_interfaces_find_no_room_stays_what_it_was() {
    let mut peers = crate::fabric::peer::Peers::new(7, 2);
    let now = lnet_types::Time::ZERO;
    peers.create(nid(B[0]), now).unwrap();
    let mut net = rails();
    net.core(0).fabric_mut().peers = peers;
    net.put(0, b"hello", true, B[0]);
    net.run();
    let third = [nid(B[0]), nid(B[1]), nid("10.2.0.2@tcp2")];
    push(&mut net, 0, B[0], &info(multi_rail(), 9, &third));
    net.advance(Duration::from_secs(200));
    assert_eq!(net.core(0).counters().discoveries_ignored, 1);
    let known = net.core(0).peers().flat_map(|peer| peer.nis).count();
    assert!(known <= 2, "{known}");
}

#[test]
fn a_peer_cannot_take_our_nids_nor_those_of_a_configured_peer() {
    let mut net = rails();
    let other = [nid("10.0.0.8@tcp"), nid("10.1.0.8@tcp1")];
    net.core(0).add_peer(other[0], &other, true).unwrap();
    net.put(0, b"hello", true, B[0]);
    net.run();
    let claims = [nid(B[0]), nid(A[0]), other[1], nid(B[1])];
    push(&mut net, 0, B[0], &info(multi_rail(), 9, &claims));
    net.advance(Duration::from_secs(200));
    assert_eq!(nids_of(&mut net, 0, B[0]), B.map(nid));
    assert_eq!(nids_of(&mut net, 0, "10.0.0.8@tcp"), other);
}

// [PUSH-9]
#[test]
fn a_push_that_does_not_name_its_sender_is_not_believed() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.run();
    let strangers = [nid("10.0.0.66@tcp"), nid("10.1.0.66@tcp1")];
    push(&mut net, 0, B[0], &info(multi_rail(), 9, &strangers));
    net.advance(Duration::from_secs(1));
    assert_eq!(nids_of(&mut net, 0, B[0]), B.map(nid));
    assert_eq!(net.core(0).counters().discoveries_ignored, 1);
}

#[test]
fn a_peer_that_pushes_without_end_and_changes_its_name_each_time_costs_a_bounded_amount() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.run();
    let before = net.core(0).census();
    for round in 0..500_u32 {
        let mut nids = B.map(nid);
        nids.rotate_left(round as usize % 2);
        push(&mut net, 0, B[0], &info(multi_rail(), 10 + round, &nids));
    }
    net.advance(Duration::from_secs(400));
    assert_eq!(net.core(0).census(), before);
    assert_eq!(nids_of(&mut net, 0, B[0]).len(), 2);
    net.assert_at_rest();
}

// [PUSH-6]
#[test]
fn rubbish_that_a_stranger_pushes_makes_this_node_send_nothing() {
    let mut net = rails();
    net.trace.clear();
    push(&mut net, 0, "10.0.0.66@tcp", &[0xA5; 272]);
    push(&mut net, 0, "10.0.0.66@tcp", b"");
    net.advance(Duration::from_secs(1));
    assert_eq!(kinds_of(&mut net, 0), []);
    assert_eq!(net.core(0).counters().pushes_refused, 2);
    net.assert_at_rest();
}

#[test]
fn a_node_discovers_on_demand_and_says_why_it_cannot() {
    let mut net = rails();
    let now = net.now;
    let loopback = net.core(0).discover(nid("0@lo"), now);
    assert_eq!(loopback, Err(Errno::EINVAL));
    net.core(0).discover(nid(B[1]), now).unwrap();
    net.run();
    let view = net.core(0).discovery(nid(B[1])).unwrap();
    assert_eq!(view.failure, None);
    assert_eq!(view.finished, Some(now));
    let heard = view.heard.unwrap();
    assert_eq!((heard.at, heard.features, heard.nids), (now, 0x1E, 2));
    assert_eq!(nids_of(&mut net, 0, B[1]), B.map(nid));
    net.assert_at_rest();
}

#[test]
fn a_node_that_discovers_a_nid_of_its_own_is_one_peer_with_all_of_them() {
    for profile in lnet_policy::Profile::ALL {
        super::net::in_profile(profile, || {
            let mut net = rails();
            let now = net.now;
            net.core(0).discover(nid(A[1]), now).unwrap();
            net.advance(Duration::from_secs(1));
            let view = net.core(0).discovery(nid(A[1])).unwrap();
            assert_eq!(view.failure, None);
            assert_eq!(view.finished, Some(now));
            assert_eq!(nids_of(&mut net, 0, A[1]), A.map(nid));
            let itself = net.core(0).peer_with(nid(A[1])).unwrap();
            assert_eq!((itself.primary, itself.multi_rail), (nid(A[0]), true));
            // A change of the node's own status also ends.
            net.core(0)
                .set_ni_health(NiId(1), Health::ZERO, now)
                .unwrap();
            net.advance(Duration::from_secs(10));
            net.assert_at_rest();
        });
    }
}

#[test]
fn a_peer_that_names_our_nids_gets_none_of_them_although_we_know_ourselves() {
    let mut net = rails();
    let now = net.now;
    net.core(0).discover(nid(A[0]), now).unwrap();
    net.run();
    let claimed = [nid(B[0]), nid(A[0]), nid(A[1])];
    push(&mut net, 0, B[0], &info(multi_rail(), 9, &claimed));
    assert_eq!(nids_of(&mut net, 0, A[0]), A.map(nid));
    let of_b = nids_of(&mut net, 0, B[0]);
    assert!(
        of_b.iter().all(|nid| !A.map(self::nid).contains(nid)),
        "{of_b:?}"
    );
}

/// Creates a client, a router and a server that discover their peers, as in [`Net::routed`]; the routes are checked.
pub(super) fn routed() -> Net {
    let mut net = Net::new();
    net.add_discovering(&["10.0.0.1@tcp"]);
    let router = net.add_discovering(&ROUTER);
    let now = net.now;
    net.core(router).set_routing(true, now);
    net.add_discovering(&["10.1.0.2@tcp1"]);
    net.route(0, "tcp1", ROUTER[0]);
    net.route(2, "tcp", ROUTER[1]);
    net.advance(Duration::from_secs(2));
    net
}

pub(super) const ROUTER: [&str; 2] = ["10.0.0.9@tcp", "10.1.0.9@tcp1"];

pub(super) fn is_routed(net: &mut Net) -> bool {
    net.core(0).routes().next().unwrap().alive
}

#[test]
fn the_checker_discovers_a_gateway_and_pushes_to_it() {
    let mut net = routed();
    assert_eq!(nids_of(&mut net, 0, ROUTER[0]), ROUTER.map(nid));
    assert_eq!(nids_of(&mut net, 2, ROUTER[1]), ROUTER.map(nid));
    let routes = PeerState::from_bits_retain(DISCOVERED) | PeerState::ROUTER_ENABLED;
    assert_eq!(state_of(&mut net, 0, ROUTER[0]), routes);
    // The router was pushed to, and so knows the client as Multi-Rail without a ping of its own.
    assert!(
        net.core(1)
            .peer_with(nid("10.0.0.1@tcp"))
            .unwrap()
            .multi_rail
    );
    let pushed = net.core(0).counters().pushes_sent;
    net.advance(Duration::from_secs(60));
    assert_eq!(
        net.core(0).counters().pushes_sent,
        pushed + 1,
        "each check pushes"
    );
    net.assert_at_rest();
}

#[test]
fn a_node_behind_a_router_that_is_discovered_pushes_back() {
    let mut net = routed();
    let (now, before) = (net.now, net.core(2).counters().pushes_sent);
    net.core(0).discover(nid("10.1.0.2@tcp1"), now).unwrap();
    net.advance(Duration::from_secs(1));
    assert_eq!(net.core(2).counters().pushes_sent, before + 1);
    let known = net.core(2).peer_with(nid("10.0.0.1@tcp")).unwrap();
    assert!(known.multi_rail);
    net.assert_at_rest();
}

#[test]
fn a_router_that_loses_its_far_interface_says_so_and_the_route_is_down_before_the_next_check() {
    let mut net = routed();
    assert!(is_routed(&mut net));
    let far = net.nodes[1].nis[1].0;
    for fatal in [true, false] {
        let now = net.now;
        net.core(1).set_ni_fatal(far, fatal, now);
        net.advance(Duration::from_millis(10));
        assert_eq!(is_routed(&mut net), !fatal);
    }
    net.advance(Duration::from_secs(200));
    net.assert_at_rest();
}

// [DISC-9]
#[test]
fn the_push_after_a_ping_takes_the_way_of_the_ping() {
    for (asked, ours) in [(B[0], A[0]), (B[1], A[1])] {
        let mut net = rails();
        let now = net.now;
        net.core(0).discover(nid(asked), now).unwrap();
        net.run();
        let is_push = |(from, header): &&(usize, Header)| {
            *from == 0 && header.body.message_type() == MessageType::Put
        };
        let (_, push) = net.trace.iter().find(is_push).unwrap();
        assert_eq!((push.src_nid, push.dest_nid), (nid(ours), nid(asked)));
    }
}

#[test]
fn an_interface_that_a_peer_gives_up_is_forgotten_but_not_one_that_a_route_names() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.run();
    push(&mut net, 0, B[0], &info(multi_rail(), 9, &[nid(B[0])]));
    net.advance(Duration::from_secs(1));
    let known: Vec<Nid> = net.core(0).peers().map(|peer| peer.primary).collect();
    assert_eq!(known, [nid(B[0])]);

    let mut net = routed();
    push(
        &mut net,
        0,
        ROUTER[0],
        &info(multi_rail(), 9, &[nid(ROUTER[1]), nid("10.0.0.8@tcp")]),
    );
    assert!(nids_of(&mut net, 0, ROUTER[1]).contains(&nid(ROUTER[0])));
    net.advance(Duration::from_secs(200));
    net.assert_at_rest();
}

#[test]
fn a_change_of_a_status_is_pushed_under_the_same_number() {
    let mut net = routed();
    let far = net.nodes[1].nis[1].0;
    let before = net.core(1).fabric().ping_info();
    let now = net.now;
    net.trace.clear();
    net.core(1).set_ni_fatal(far, true, now);
    net.advance(Duration::from_millis(10));
    let after = net.core(1).fabric().ping_info();
    let number = |data: &[u8]| lnet_wire::PingInfo::parse(data).unwrap().sequence();
    assert_eq!(number(&before), number(&after));
    assert_ne!(before, after);
    let pushes = kinds_of(&mut net, 1);
    assert!(pushes.contains(&(MessageType::Put, true)), "{pushes:?}");
}

#[test]
fn a_gateway_that_comes_back_and_pings_is_asked_at_once() {
    let mut net = routed();
    net.nodes[1].alive = false;
    net.advance(Duration::from_secs(400));
    assert!(!is_routed(&mut net));
    net.nodes[1].alive = true;
    let now = net.now;
    net.core(1).discover(nid("10.0.0.1@tcp"), now).unwrap();
    net.advance(Duration::from_secs(1));
    assert!(is_routed(&mut net));
}

#[test]
fn a_message_from_another_interface_of_a_gateway_revives_it_too() {
    let mut net = Net::new();
    net.add_discovering(&["10.0.0.1@tcp"]);
    let rails = ["10.0.0.9@tcp", "10.0.0.10@tcp", "10.1.0.9@tcp1"];
    let router = net.add_discovering(&rails);
    let now = net.now;
    net.core(router).set_routing(true, now);
    net.route(0, "tcp1", rails[0]);
    net.advance(Duration::from_secs(2));
    net.nodes[1].alive = false;
    net.advance(Duration::from_secs(61));
    assert!(!is_routed(&mut net));
    let (ni, own) = net.nodes[0].nis[0];
    let stranger = nid("10.1.0.2@tcp1");
    let header = Header {
        dest_nid: own,
        src_nid: stranger,
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: 0,
        body: Body::Put(Put {
            ack_wmd: Handle::NONE,
            match_bits: 7,
            hdr_data: 0,
            ptl_index: 30,
            offset: 0,
        }),
    };
    let now = net.now;
    let from = ProcessId::lustre(nid(rails[1]));
    net.core(0).header(ni, from, &header, now);
    assert!(is_routed(&mut net));
}

// [DISC-7] [PING-17]
#[test]
fn t_h21_a_link_that_goes_down_lowers_the_health_of_its_interface_at_those_who_know_it() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    let (now, ours) = (net.now, net.nodes[0].nis[1].0);
    net.core(0).set_ni_fatal(ours, true, now);
    net.advance(Duration::from_millis(10));
    let known = net.core(1).peer_with(nid(A[0])).unwrap();
    assert_eq!(known.primary, nid(A[0]));
    let healths: Vec<u16> = known
        .nis
        .iter()
        .map(|ni| ni.health.health.value())
        .collect();
    assert_eq!(healths[0], 1000);
    assert!(healths[1] < 1000, "{healths:?}");
    assert!(!known.nis[1].advertised_up);
}

#[test]
fn t_h22_an_interface_without_health_is_down_at_the_router_until_it_has_recovered() {
    let mut net = Net::new();
    net.add_discovering(&A);
    let router = net.add_discovering(&["10.0.0.9@tcp", "10.1.0.9@tcp1", "10.2.0.9@tcp2"]);
    let now = net.now;
    net.core(router).set_routing(true, now);
    net.route(0, "tcp2", "10.0.0.9@tcp");
    net.advance(Duration::from_secs(2));
    let up = |net: &mut Net| -> Vec<bool> {
        let known = net.core(1).peer_with(nid(A[0])).unwrap();
        known.nis.iter().map(|ni| ni.advertised_up).collect()
    };
    assert_eq!(up(&mut net), [true, true]);
    let (now, ours) = (net.now, net.nodes[0].nis[0].0);
    net.core(0).set_ni_health(ours, Health::ZERO, now).unwrap();
    net.advance(Duration::from_millis(10));
    assert_eq!(up(&mut net), [false, true]);
    net.advance(Duration::from_secs(3600));
    assert_eq!(up(&mut net), [true, true]);
    net.assert_at_rest();
}

#[test]
fn t_h24_a_link_that_flaps_while_pushes_are_held_up_ends_in_the_last_state_told() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    let ours = net.nodes[0].nis[1].0;
    net.keep_answers = true;
    for round in 0..51 {
        let now = net.now;
        net.core(0).set_ni_fatal(ours, round % 2 == 0, now);
        net.advance(Duration::from_millis(1));
    }
    net.keep_answers = false;
    while net.answer(0, MessageStatus::Ok).is_some() || net.answer(1, MessageStatus::Ok).is_some() {
    }
    net.advance(Duration::from_secs(1));
    assert!(!net.core(1).peer_with(nid(A[0])).unwrap().nis[1].advertised_up);
    net.advance(Duration::from_secs(400));
    net.assert_at_rest();
}

#[test]
fn t_h44_a_ping_that_fails_while_a_push_is_under_way_leaves_nothing_behind() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.run();
    let (now, ours) = (net.now, net.nodes[0].nis[1].0);
    net.keep_answers = true;
    net.core(0).set_ni_fatal(ours, true, now);
    net.advance(Duration::from_millis(1));
    let now = net.now;
    net.core(0).discover(nid(B[0]), now).unwrap();
    net.run();
    let busy = PeerState::PING_SENT | PeerState::PUSH_SENT;
    assert!(state_of(&mut net, 0, B[0]).contains(busy));
    // Both operations fail, the ping first.
    net.nodes[0].kept.rotate_left(1);
    while net.answer(0, MessageStatus::RemoteError).is_some() {}
    net.keep_answers = false;
    net.advance(Duration::from_secs(400));
    assert!(!state_of(&mut net, 0, B[0]).intersects(busy));
    net.assert_at_rest();
}

#[test]
fn a_copy_of_the_state_selects_as_the_node_does_and_discovers_nobody() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.run();
    let state = net.core(0).selection_state();
    let copy = Core::from_selection_state(&state, net.now).unwrap();
    assert_eq!(copy.selection_state(), state);
    let peer = copy.peer_with(nid(B[1])).unwrap();
    assert_eq!((peer.primary, peer.multi_rail), (nid(B[0]), true));
}
