//! Tests of NIDs that two peers name, and of peers that restart.

use std::time::Duration;

use lnet_types::Nid;
use lnet_wire::MessageType;

use super::discovery::{A, B, info, multi_rail, nids_of, push, rails};
use super::net::{Net, nid};

const STRANGER: &str = "10.0.0.66@tcp";

/// Returns how many pings node 0 has sent to this NID since the trace was last cleared.
fn pings_of(net: &Net, to: &str) -> usize {
    let to = nid(to);
    let is_ping = |header: &lnet_wire::Header| {
        header.dest_nid == to && header.body.message_type() == MessageType::Get
    };
    let sent = net.trace.iter().filter(|(from, _)| *from == 0);
    sent.filter(|(_, header)| is_ping(header)).count()
}

/// Sends node 0 a push that names these NIDs as those of one peer.
fn claim(net: &mut Net, from: &str, nids: &[&str]) {
    let nids: Vec<Nid> = nids.iter().map(|text| nid(text)).collect();
    push(net, 0, from, &info(multi_rail(), 9, &nids));
}

// [PUSH-9]
#[test]
fn a_push_that_names_the_nids_of_a_discovered_peer_takes_none_of_them() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    for named in [[STRANGER, B[0]], [STRANGER, B[1]], [B[0], STRANGER]] {
        claim(&mut net, STRANGER, &named);
        net.advance(Duration::from_secs(2));
        assert_eq!(nids_of(&mut net, 0, B[0]), B.map(nid), "{named:?}");
        assert_eq!(nids_of(&mut net, 0, STRANGER), [nid(STRANGER)], "{named:?}");
    }
}

// [PEER-14]
#[test]
fn a_nid_that_is_claimed_again_and_again_is_asked_once_a_second() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    net.trace.clear();
    for _ in 0..100 {
        claim(&mut net, STRANGER, &[STRANGER, B[1]]);
        net.advance(Duration::from_millis(20));
    }
    let pings = pings_of(&net, B[1]);
    assert!((2..=3).contains(&pings), "{pings} pings in two seconds");
}

#[test]
fn claims_of_many_nids_at_once_are_bounded() {
    let mut net = rails();
    let many: Vec<String> = (1..=200).map(|i| format!("10.0.1.{i}@tcp")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for peer in &many {
        claim(&mut net, peer, &[peer]);
    }
    net.advance(Duration::from_secs(400));
    net.trace.clear();
    for _ in 0..10 {
        claim(&mut net, STRANGER, &[&[STRANGER], &many[1..]].concat());
    }
    let pings: usize = many.iter().map(|peer| pings_of(&net, peer)).sum();
    assert!(pings <= 10, "{pings} pings for 10 pushes");
    net.advance(Duration::from_secs(400));
    net.assert_at_rest();
}

#[test]
fn a_node_that_has_got_another_primary_nid_is_one_peer() {
    let mut net = Net::new();
    net.add_discovering(&A);
    // The node had only B[1] when it was discovered. Now it has both NIDs, and B[0] is its primary NID.
    claim(&mut net, B[1], &[B[1]]);
    net.advance(Duration::from_secs(1));
    assert_eq!(nids_of(&mut net, 0, B[1]), [nid(B[1])]);
    net.add_discovering(&B);
    claim(&mut net, B[0], &B);
    net.advance(Duration::from_secs(1));
    for name in B {
        assert_eq!(nids_of(&mut net, 0, name), B.map(nid));
        assert_eq!(net.core(0).peer_with(nid(name)).unwrap().primary, nid(B[0]));
    }
}

#[test]
fn an_address_that_another_node_has_got_becomes_that_nodes() {
    let mut net = Net::new();
    net.add_discovering(&A);
    // B[0] is the name of a node that no longer exists, or that gave up B[1] without a push.
    claim(&mut net, B[0], &B);
    net.advance(Duration::from_secs(1));
    assert_eq!(nids_of(&mut net, 0, B[0]), B.map(nid));
    net.add_discovering(&[STRANGER, B[1]]);
    claim(&mut net, STRANGER, &[STRANGER, B[1]]);
    net.advance(Duration::from_secs(1));
    assert_eq!(nids_of(&mut net, 0, STRANGER), [STRANGER, B[1]].map(nid));
}

/// The route to the NID may lead through the router itself, which rejects messages for it that arrive over another
/// net.
#[test]
fn a_nid_on_a_net_behind_routers_is_not_asked() {
    let mut net = rails();
    net.route(0, "tcp2", B[0]);
    let far = "10.2.0.2@tcp2";
    claim(&mut net, far, &[far]);
    net.advance(Duration::from_secs(1));
    net.trace.clear();
    claim(&mut net, STRANGER, &[STRANGER, far]);
    net.advance(Duration::from_secs(1));
    assert_eq!(pings_of(&net, far), 0);
    assert_eq!(nids_of(&mut net, 0, far), [STRANGER, far].map(nid));
}

#[test]
fn a_peer_that_restarts_is_asked_before_the_next_message_to_it() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    let (now, pushed) = (net.now, net.core(0).counters().pushes_sent);
    net.core(0).peer_incarnation(nid(B[0]), 7, now);
    net.core(0).peer_incarnation(nid(B[0]), 7, now);
    net.trace.clear();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    assert_eq!(pings_of(&net, B[0]), 0, "the same incarnation");
    let now = net.now;
    net.core(0).peer_incarnation(nid(B[0]), 8, now);
    net.advance(Duration::from_secs(1));
    assert_eq!(pings_of(&net, B[0]), 0, "nobody wants to send");
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    assert_eq!(pings_of(&net, B[0]), 1);
    let again = net.core(0).counters().pushes_sent;
    assert_eq!(again, pushed + 1, "it has forgotten what was pushed");
    net.assert_at_rest();
}
