//! Tests of peers that change their names, or whose NIDs others claim, while they are discovered.

use std::time::Duration;

use lnet_types::Nid;
use lnet_wire::Body;

use super::discovery::{
    A, B, ROUTER, info, is_routed, multi_rail, nids_of, push, rails, routed, state_of,
};
use super::net::{Net, any_me, nid, open_md};
use crate::*;

// [DISC-6]
#[test]
fn a_peer_that_gives_up_its_name_while_it_is_pinged_is_discovered_nevertheless() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    net.keep_answers = true;
    let now = net.now;
    net.core(0).discover(nid(B[0]), now).unwrap();
    net.run();
    assert_eq!(net.nodes[0].kept.len(), 1, "a ping");
    let own = net.nodes[0].nis[0].1;
    assert_eq!(own, nid(A[0]));
    net.keep_answers = false;
    push(&mut net, 0, B[1], &info(multi_rail(), 9, &[nid(B[1])]));
    while net.answer(0, MessageStatus::NetworkTimeout).is_some() {}
    net.advance(Duration::from_secs(400));
    let state = state_of(&mut net, 0, B[1]);
    assert!(!state.contains(PeerState::PING_SENT), "{state:?}");
}

#[test]
fn a_peer_that_gives_up_its_name_while_it_is_pushed_to_is_not_stuck() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    net.keep_answers = true;
    let (now, ours) = (net.now, net.nodes[0].nis[1].0);
    net.core(0).set_ni_fatal(ours, true, now);
    net.advance(Duration::from_millis(1));
    assert!(state_of(&mut net, 0, B[0]).contains(PeerState::PUSH_SENT));
    net.keep_answers = false;
    push(&mut net, 0, B[1], &info(multi_rail(), 9, &[nid(B[1])]));
    while net.answer(0, MessageStatus::Ok).is_some() {}
    net.advance(Duration::from_secs(400));
    net.take_events(0);
    let state = state_of(&mut net, 0, B[1]);
    net.put(0, b"hello", true, B[1]);
    net.advance(Duration::from_secs(400));
    let events: Vec<_> = net
        .take_events(0)
        .iter()
        .map(|e| (e.kind, e.status))
        .collect();
    assert!(
        !state.contains(PeerState::PUSH_SENT),
        "{state:?} {events:?}"
    );
}

#[test]
fn a_message_that_waits_for_a_nid_that_its_peer_gave_up_can_be_cancelled() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    net.keep_answers = true;
    let (now, ours) = (net.now, net.nodes[0].nis[1].0);
    net.core(0).set_ni_fatal(ours, true, now);
    net.advance(Duration::from_millis(1));
    // A push to the peer is under way; this message waits.
    let md = net.put(0, b"hello", true, B[1]);
    net.run();
    push(&mut net, 0, B[0], &info(multi_rail(), 9, &[nid(B[0])]));
    let now = net.now;
    net.core(0).md_unlink(md, now).unwrap();
    net.keep_answers = false;
    while net.answer(0, MessageStatus::Ok).is_some() || net.answer(1, MessageStatus::Ok).is_some() {
    }
    net.advance(Duration::from_secs(400));
    assert_eq!(net.core(0).counters().invariants_broken, 0);
}

// [PING-3] [PUSH-8]
#[test]
fn what_changes_at_a_peer_with_many_interfaces_is_noticed() {
    let mut net = Net::new();
    net.add_discovering(&A[..1]);
    let many: Vec<String> = (0..20).map(|i| format!("10.0.0.{}@tcp", 100 + i)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    net.add_discovering(&many);
    net.attach(1, any_me(), open_md(4096));
    net.put(0, b"hello", true, many[0]);
    net.advance(Duration::from_secs(1));
    assert_eq!(nids_of(&mut net, 0, many[0]).len(), 20);
    for which in [5, 6] {
        let (now, ni) = (net.now, net.nodes[1].nis[which].0);
        net.core(1).set_ni_fatal(ni, true, now);
        net.advance(Duration::from_secs(1));
        let known = net.core(0).peer_with(nid(many[0])).unwrap();
        let down = known.nis.iter().filter(|ni| !ni.advertised_up).count();
        assert_eq!(down, which - 4, "interfaces that B says are down");
    }
}

#[test]
fn a_later_push_does_not_take_the_way_of_an_earlier_ping() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    let now = net.now;
    net.core(0).discover(nid(B[0]), now).unwrap();
    net.advance(Duration::from_secs(3600));
    net.trace.clear();
    let (now, ours) = (net.now, net.nodes[0].nis[0].0);
    net.core(0).set_ni_fatal(ours, true, now);
    net.advance(Duration::from_millis(10));
    let pushes: Vec<_> = net
        .trace
        .iter()
        .filter(|(from, header)| *from == 0 && matches!(header.body, Body::Put(_)))
        .map(|(_, header)| (header.src_nid, header.dest_nid))
        .collect();
    let view = net.core(0).discovery(nid(B[0])).unwrap();
    assert!(
        !pushes.is_empty() && pushes.iter().all(|push| push.0 == nid(A[1])),
        "a push of what is down, from what is down: {pushes:?} {view:?}"
    );
}

#[test]
fn a_stranger_takes_no_gateway_and_its_routes() {
    let mut net = routed();
    assert!(is_routed(&mut net));
    let stranger = "10.0.0.66@tcp";
    push(
        &mut net,
        0,
        stranger,
        &info(multi_rail(), 9, &[nid(stranger), nid(ROUTER[0])]),
    );
    let primary = net.core(0).peer_with(nid(ROUTER[0])).unwrap().primary;
    assert_eq!(
        (primary, is_routed(&mut net)),
        (nid(ROUTER[0]), true),
        "whom the gateway belongs to, and the route"
    );
}

#[test]
fn a_peer_that_takes_one_nid_of_a_gateway_leaves_the_gateway_a_gateway() {
    let mut net = routed();
    let stranger = "10.0.0.66@tcp";
    push(
        &mut net,
        0,
        stranger,
        &info(multi_rail(), 9, &[nid(stranger), nid(ROUTER[1])]),
    );
    let gateway = nid(ROUTER[0]);
    assert_eq!(
        net.core(0).fabric().gateways_of(gateway).as_slice(),
        [gateway]
    );
    assert_eq!(
        net.core(0).remove_peer(gateway),
        Err(ConfigError::PeerIsGateway(gateway))
    );
}

#[test]
fn messages_that_wait_for_a_nid_that_is_configured_meanwhile_go_on() {
    let mut net = rails();
    net.keep_answers = true;
    net.put(0, b"hello", true, B[1]);
    net.run();
    net.core(0).add_peer(nid(B[0]), &B.map(nid), true).unwrap();
    net.keep_answers = false;
    while net.answer(0, MessageStatus::Ok).is_some() || net.answer(1, MessageStatus::Ok).is_some() {
    }
    net.advance(Duration::from_secs(1));
    assert_eq!(net.kinds(0), [EventKind::Send, EventKind::Ack]);
}

#[test]
fn a_discovered_peer_can_be_configured_under_another_of_its_names() {
    for all in [true, false] {
        let mut net = rails();
        net.put(0, b"hello", true, B[0]);
        net.advance(Duration::from_secs(1));
        let nids: Vec<Nid> = if all {
            vec![nid(B[1]), nid(B[0])]
        } else {
            vec![nid(B[1])]
        };
        net.core(0).add_peer(nid(B[1]), &nids, true).unwrap();
        let peers: Vec<(Nid, Vec<Nid>)> = net
            .core(0)
            .peers()
            .map(|peer| (peer.primary, peer.nis.iter().map(|ni| ni.nid).collect()))
            .collect();
        let mut all_nids: Vec<Nid> = peers.iter().flat_map(|(_, nids)| nids.clone()).collect();
        all_nids.sort();
        assert_eq!(all_nids, B.map(nid), "each NID in one peer: {peers:?}");
        assert_eq!(nids_of(&mut net, 0, B[1]), nids, "{peers:?}");
    }
}

#[test]
fn a_discovered_gateway_stays_multi_rail_when_its_last_route_goes() {
    let mut net = routed();
    assert_eq!(nids_of(&mut net, 0, ROUTER[0]), ROUTER.map(nid));
    net.core(0)
        .remove_route("tcp1".parse().unwrap(), nid(ROUTER[0]))
        .unwrap();
    net.advance(Duration::from_secs(1));
    let state = state_of(&mut net, 0, ROUTER[0]);
    assert!(state.contains(PeerState::MULTI_RAIL));
    assert_eq!(
        nids_of(&mut net, 0, ROUTER[0]),
        ROUTER.map(nid),
        "{state:?}"
    );
}

// [DISC-10]
#[test]
fn a_peer_cannot_claim_loopback_addresses() {
    for lo in ["0@lo", "1@lo"] {
        let mut net = rails();
        net.put(0, b"hello", true, B[0]);
        net.advance(Duration::from_secs(1));
        let claims = [nid(B[0]), nid(lo), nid(B[1])];
        push(&mut net, 0, B[0], &info(multi_rail(), 9, &claims));
        net.advance(Duration::from_secs(1));
        assert_eq!(nids_of(&mut net, 0, B[0]), B.map(nid), "{lo}");
    }
}

// [PEER-15]
#[test]
fn a_peer_that_switches_discovery_off_is_not_multi_rail_any_more() {
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
    let state = state_of(&mut net, 0, B[0]);
    let peer = net.core(0).peer_with(nid(B[0])).unwrap();
    assert_eq!(
        peer.multi_rail,
        state.contains(PeerState::MULTI_RAIL),
        "{state:?} {:?}",
        peer.nis.len()
    );
}

#[test]
fn a_node_with_discovery_off_pushes_that_and_nothing_more() {
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
    let before = net.core(1).counters().pushes_sent;
    let ni = net.nodes[1].nis[1].0;
    for round in 0..10 {
        let now = net.now;
        net.core(1).set_ni_fatal(ni, round % 2 == 0, now);
        net.advance(Duration::from_secs(1));
    }
    assert_eq!(net.core(1).counters().pushes_sent, before);
}

#[test]
fn a_push_to_a_node_that_takes_none_does_not_hold_up_its_connection() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    for node in [0, 1] {
        let globals = Globals {
            discovery: false,
            ..*net.core(node).globals()
        };
        let now = net.now;
        net.core(node).set_globals(globals, now);
        net.advance(Duration::from_secs(1));
    }
    let globals = Globals {
        discovery: true,
        ..*net.core(0).globals()
    };
    let now = net.now;
    net.core(0).set_globals(globals, now);
    net.advance(Duration::from_secs(1));
    assert_eq!(net.held(), 0);
}

#[test]
fn a_peer_that_is_removed_with_messages_for_a_nid_it_gave_up_takes_them_along() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.advance(Duration::from_secs(1));
    net.take_events(0);
    net.keep_answers = true;
    let (now, ours) = (net.now, net.nodes[0].nis[1].0);
    net.core(0).set_ni_fatal(ours, true, now);
    net.advance(Duration::from_millis(1));
    net.put(0, b"hello", true, B[1]);
    net.run();
    push(&mut net, 0, B[0], &info(multi_rail(), 9, &[nid(B[0])]));
    net.core(0).remove_peer(nid(B[0])).unwrap();
    net.run();
    assert_eq!(net.kinds(0), [EventKind::Send]);
}

#[test]
fn what_a_gateway_pushes_of_others_says_nothing_of_its_routes() {
    let mut net = routed();
    let strangers = [nid("10.0.0.66@tcp"), nid("10.1.0.66@tcp1")];
    push(&mut net, 0, ROUTER[0], &info(multi_rail(), 9, &strangers));
    assert_eq!(net.core(0).counters().discoveries_ignored, 1);
    assert!(is_routed(&mut net));
}

#[test]
fn two_gateways_that_are_one_node_become_one_peer() {
    let mut net = Net::new();
    net.add_discovering(&["10.0.0.1@tcp"]);
    let rails = [
        "10.0.0.9@tcp",
        "10.0.0.10@tcp",
        "10.1.0.9@tcp1",
        "10.2.0.9@tcp2",
    ];
    let router = net.add_discovering(&rails);
    let now = net.now;
    net.core(router).set_routing(true, now);
    net.route(0, "tcp1", rails[0]);
    net.route(0, "tcp2", rails[1]);
    net.advance(Duration::from_secs(200));
    assert_eq!(nids_of(&mut net, 0, rails[1]), rails.map(nid));
}

#[test]
fn no_push_is_owed_to_a_gateway_that_takes_none() {
    let mut net = Net::new();
    net.add_discovering(&["10.0.0.1@tcp"]);
    let router = net.add(&ROUTER);
    let now = net.now;
    net.core(router).set_routing(true, now);
    net.route(0, "tcp1", ROUTER[0]);
    net.advance(Duration::from_secs(2));
    let state = state_of(&mut net, 0, ROUTER[0]);
    assert!(!state.contains(PeerState::FORCE_PUSH), "{state:?}");
}

#[test]
fn a_gateway_that_is_configured_under_another_name_stays_a_gateway() {
    let mut net = routed();
    let names = [nid(ROUTER[1]), nid(ROUTER[0])];
    net.core(0).add_peer(names[0], &names, true).unwrap();
    assert_eq!(
        net.core(0).remove_peer(names[0]),
        Err(ConfigError::PeerIsGateway(names[0]))
    );
    assert!(is_routed(&mut net));
}

#[test]
fn a_locked_peer_that_switches_discovery_off_keeps_its_lock() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.run();
    let locked = PeerState::from_bits_retain(273) | PeerState::LOCK_PRIMARY;
    net.core(0).set_peer_state(nid(B[0]), locked).unwrap();
    let globals = Globals {
        discovery: false,
        ..*net.core(1).globals()
    };
    let now = net.now;
    net.core(1).set_globals(globals, now);
    net.advance(Duration::from_secs(1));
    let peer = net.core(0).peer_with(nid(B[1])).unwrap();
    assert_eq!(
        (peer.primary, peer.locked, peer.multi_rail),
        (nid(B[0]), true, false)
    );
}

// [PEER-7]
#[test]
fn a_peer_with_a_locked_name_has_its_interfaces_in_the_order_in_which_it_names_them() {
    let mut net = rails();
    net.put(0, b"hello", true, B[0]);
    net.run();
    let locked = PeerState::from_bits_retain(273) | PeerState::LOCK_PRIMARY;
    net.core(0).set_peer_state(nid(B[0]), locked).unwrap();
    let named = ["10.0.0.9@tcp", B[1], B[0]].map(nid);
    push(&mut net, 0, B[0], &info(multi_rail(), 9, &named));
    let peer = net.core(0).peer_with(named[0]).unwrap();
    assert_eq!(peer.primary, nid(B[0]));
    // Those of a net stand together.
    assert_eq!(nids_of(&mut net, 0, B[0]), [named[0], named[2], named[1]]);
    // The same information again changes nothing.
    push(&mut net, 0, B[0], &info(multi_rail(), 10, &named));
    assert_eq!(nids_of(&mut net, 0, B[0]), [named[0], named[2], named[1]]);
}

#[test]
fn a_peer_that_is_only_configured_has_no_discovery() {
    let mut net = rails();
    net.core(0).add_peer(nid(B[0]), &B.map(nid), true).unwrap();
    assert_eq!(net.core(0).discovery(nid(B[0])), None);
}
