//! Tests of answers and pushes of a peer that overtake each other.

use std::time::Duration;

use lnet_types::Nid;
use lnet_wire::{MessageType, NiStatus, PingInfoRepr, PingNi};

use super::discovery::{B, multi_rail, push, rails, state_of};
use super::net::{Net, config, globals, nid};
use crate::*;

#[test]
fn an_answer_that_a_push_has_overtaken_is_not_believed() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    let theirs = net.nodes[1].nis[1].0;
    let now = net.now;
    net.core(1).set_ni_fatal(theirs, true, now);
    net.advance(Duration::from_secs(1));
    let is_up = |net: &mut Net| net.core(0).peer_with(nid(B[0])).unwrap().nis[1].advertised_up;
    assert!(!is_up(&mut net));
    net.keep_answers = true;
    let now = net.now;
    net.core(0).discover(nid(B[0]), now).unwrap();
    net.run();
    let asked = net.answer(0, MessageStatus::Ok).unwrap();
    assert_eq!(asked.body.message_type(), MessageType::Get);
    net.keep_answers = false;
    net.core(1).set_ni_fatal(theirs, false, now);
    net.advance(Duration::from_secs(1));
    assert!(is_up(&mut net), "the push has come");
    let answer = net.answer(1, MessageStatus::Ok).unwrap();
    assert_eq!(answer.body.message_type(), MessageType::Reply);
    assert!(is_up(&mut net), "the answer is older than the push");
    net.advance(Duration::from_secs(400));
    assert_eq!(state_of(&mut net, 0, B[0]).bits(), 273);
    net.assert_at_rest();
}

/// Returns the information of B with these statuses.
fn said(near: NiStatus, far: NiStatus) -> Vec<u8> {
    let statuses = [(B[0], near), (B[1], far)];
    let nis = statuses.map(|(name, status)| PingNi {
        nid: nid(name),
        status,
    });
    let info = PingInfoRepr {
        features: multi_rail(),
        pid: 12345,
        sequence: 1,
        nis: &nis,
    };
    let mut bytes = vec![0; info.encoded_len()];
    info.encode(&mut bytes).unwrap();
    bytes
}

fn health_of(net: &mut Net, of: Nid) -> (Health, bool) {
    let peer = net.core(0).peer_with(of).unwrap();
    let shown = peer.nis.iter().find(|ni| ni.nid == of).unwrap();
    (shown.health.health, shown.health.in_recovery)
}

/// No message was received from the second interface of B, as if it were on a net behind a router.
// [RECOV-11]
#[test]
fn a_push_that_comes_after_a_newer_one_costs_health_until_the_node_is_asked_again() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    let far = nid(B[1]);
    net.core(0)
        .fabric_mut()
        .peers
        .by_nid_mut(far)
        .unwrap()
        .last_alive = None;
    let full = health_of(&mut net, far);
    push(&mut net, 0, B[0], &said(NiStatus::UP, NiStatus::DOWN));
    let less = health_of(&mut net, far);
    assert!(less.0 < full.0 && less.1, "{less:?}");
    net.trace.clear();
    net.advance(Duration::from_secs(2));
    assert_eq!(health_of(&mut net, far), full);
    let asked = net.trace.iter().filter(|(from, _)| *from == 0);
    let asked: Vec<Nid> = asked.map(|(_, header)| header.dest_nid).collect();
    assert_eq!(asked, [nid(B[0])], "the interface that is up, once");
    net.advance(Duration::from_secs(400));
    net.assert_at_rest();
}

/// The newer push says truly that the interface is down; the older push arrives last.
#[test]
fn a_late_push_that_says_up_is_believed_until_the_node_is_asked_again() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    let far = nid(B[1]);
    net.core(0)
        .fabric_mut()
        .peers
        .by_nid_mut(far)
        .unwrap()
        .last_alive = None;
    let (theirs, now) = (net.nodes[1].nis[1].0, net.now);
    net.core(1).set_ni_fatal(theirs, true, now);
    net.advance(Duration::from_millis(100));
    let less = health_of(&mut net, far);
    assert!(less.1, "in recovery");
    push(&mut net, 0, B[0], &said(NiStatus::UP, NiStatus::UP));
    assert!(health_of(&mut net, far).0 > less.0, "believed");
    net.trace.clear();
    net.advance(Duration::from_secs(3));
    assert_eq!(health_of(&mut net, far), less);
    let asked = net.trace.iter().filter(|(from, _)| *from == 0);
    assert!(asked.count() <= 3, "{:?}", net.trace);
    // A correct push causes one ping at most.
    let now = net.now;
    net.core(1).set_ni_fatal(theirs, false, now);
    net.trace.clear();
    net.advance(Duration::from_secs(1000));
    assert_eq!(health_of(&mut net, far).0, Health::MAX);
    let asked = net
        .trace
        .iter()
        .filter(|(from, header)| *from == 0 && header.body.message_type() == MessageType::Get);
    assert!(asked.count() <= 1, "{:?}", net.trace);
    net.assert_at_rest();
}

/// The pings about an interface that stays down have growing pauses, and stop when its health is full.
// [RECOV-11]
#[test]
fn a_node_is_asked_of_its_interface_that_is_down_ever_more_seldom() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    let far = nid(B[1]);
    net.core(0)
        .fabric_mut()
        .peers
        .by_nid_mut(far)
        .unwrap()
        .last_alive = None;
    let (theirs, now) = (net.nodes[1].nis[1].0, net.now);
    net.core(1).set_ni_fatal(theirs, true, now);
    net.trace.clear();
    net.advance(Duration::from_secs(1_000));
    let pings = |net: &Net| {
        let gets = net
            .trace
            .iter()
            .filter(|(from, header)| *from == 0 && header.body.message_type() == MessageType::Get);
        gets.count()
    };
    // The pings are 1, 2, 4 … 512 s apart.
    assert!((8..=11).contains(&pings(&net)), "{}", pings(&net));
    let now = net.now;
    net.core(1).set_ni_fatal(theirs, false, now);
    net.advance(Duration::from_secs(1));
    net.trace.clear();
    net.advance(Duration::from_secs(2_000));
    assert_eq!(pings(&net), 0);
    net.assert_at_rest();
}

/// The answer was sent before the push that says that the interface is down.
#[test]
fn an_answer_about_an_interface_that_a_push_has_overtaken_is_not_believed() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    let far = nid(B[1]);
    net.core(0)
        .fabric_mut()
        .peers
        .by_nid_mut(far)
        .unwrap()
        .last_alive = None;
    push(&mut net, 0, B[0], &said(NiStatus::UP, NiStatus::DOWN));
    net.keep_answers = true;
    net.advance(Duration::from_secs(1));
    let asked = net.answer(0, MessageStatus::Ok).unwrap();
    assert_eq!(asked.body.message_type(), MessageType::Get);
    push(&mut net, 0, B[0], &said(NiStatus::UP, NiStatus::DOWN));
    let less = health_of(&mut net, far);
    net.answer(1, MessageStatus::Ok).unwrap();
    assert_eq!(health_of(&mut net, far), less);
    net.keep_answers = false;
    net.advance(Duration::from_secs(400));
    assert!(!health_of(&mut net, far).1, "asked again, it is up");
    net.assert_at_rest();
}

/// The only route to the first interface of the router leads through the router itself, which rejects messages for it
/// that arrive over another net.
#[test]
fn a_router_is_asked_at_the_interface_on_the_shared_net() {
    const ROUTER: [&str; 3] = ["10.0.0.9@tcp", "10.1.0.9@tcp1", "10.2.0.9@tcp2"];
    let discovering = |cookie, routing| CoreConfig {
        routing,
        globals: Globals {
            discovery: true,
            ..globals()
        },
        ..config(cookie)
    };
    let mut net = Net::new();
    net.add_configured(discovering(1, false), &["10.1.0.2@tcp1"]);
    net.add_configured(discovering(2, true), &ROUTER);
    net.route(0, "tcp", ROUTER[1]);
    net.route(0, "tcp2", ROUTER[1]);
    net.put(0, b"hello", true, ROUTER[1]);
    net.advance(Duration::from_secs(1));
    let (far, now) = (net.nodes[1].nis[2].0, net.now);
    net.core(1).set_ni_fatal(far, true, now);
    net.advance(Duration::from_millis(500));
    assert!(health_of(&mut net, nid(ROUTER[2])).1, "in recovery");
    net.trace.clear();
    net.advance(Duration::from_secs(10));
    let asked = net
        .trace
        .iter()
        .filter(|(from, header)| *from == 0 && header.body.message_type() == MessageType::Get);
    let mut asked: Vec<Nid> = asked.map(|(_, header)| header.dest_nid).collect();
    asked.dedup();
    assert_eq!(asked, [nid(ROUTER[1])]);
    net.trace.clear();
    let now = net.now;
    net.core(0).discover(nid(ROUTER[0]), now).unwrap();
    net.advance(Duration::from_secs(1));
    let asked = net
        .trace
        .iter()
        .filter(|(from, header)| *from == 0 && header.body.message_type() == MessageType::Get);
    let asked: Vec<Nid> = asked.map(|(_, header)| header.dest_nid).collect();
    assert_eq!(
        asked.first(),
        Some(&nid(ROUTER[1])),
        "discovered there, too"
    );
}

#[test]
fn a_discovery_that_fails_at_the_peer_lowers_the_health_of_the_peer_as_a_ping_does() {
    for status in [
        MessageStatus::RemoteError,
        MessageStatus::RemoteTimeout,
        MessageStatus::NetworkTimeout,
    ] {
        let mut net = rails();
        net.put(0, b"hello", true, B[0]);
        net.run();
        net.keep_answers = true;
        let now = net.now;
        net.core(0).discover(nid(B[0]), now).unwrap();
        net.run();
        assert_eq!(net.nodes[0].kept.len(), 1);
        net.answer(0, status);
        let peer = net.core(0).peer_with(nid(B[0])).unwrap();
        let health = peer.nis.iter().map(|ni| ni.health.health.value());
        assert_eq!(health.collect::<Vec<_>>(), [900, 1000], "{status:?}");
    }
}
