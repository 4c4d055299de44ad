//! Tests of forwarding: buffers, credits, back-pressure.

use std::time::Duration;

use super::net::{any_me, config, one_shot, open_md};
use super::{Net, nid};
use crate::*;

const ONE_EACH: RouterBuffers = RouterBuffers {
    tiny: 1,
    small: 1,
    large: 1,
};

fn server_md(net: &mut Net, node: usize) {
    net.attach(node, any_me(), open_md(1 << 20));
}

// [ROUTE-1] [ROUTE-2] [DATA-5] [MSG-11]
#[test]
fn put_get_and_their_answers_cross_one_router() {
    let mut net = Net::routed(RouterBuffers {
        tiny: 8,
        small: 8,
        large: 4,
    });
    server_md(&mut net, 2);
    net.run();
    net.trace.clear();
    net.put(0, &[7; 100_000], true, "10.1.0.2@tcp1");
    net.run();
    net.get(0, 5000, "10.1.0.2@tcp1");
    net.run();

    let put = net.trace[0].1;
    assert_eq!(
        put.src_nid,
        nid("10.0.0.1@tcp"),
        "our NI on the net shared with the router"
    );
    assert_eq!(net.trace[1].1, put, "a router changes nothing");
    let events = net.take_events(2);
    assert_eq!(events[0].initiator.nid, nid("10.0.0.1@tcp"));
    assert_eq!(events[0].sender, nid("10.1.0.9@tcp1"));
    let kinds = net.kinds(0);
    let expected = [
        EventKind::Send,
        EventKind::Ack,
        EventKind::Send,
        EventKind::Reply,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(net.core(1).counters().route_count, 4);
    assert_eq!(net.core(1).counters().route_length, 105_000);
    net.assert_at_rest();
}

// [ROUTE-2]
#[test]
fn put_and_ack_cross_two_routers() {
    let mut net = Net::new();
    net.add(&["10.0.0.1@tcp"]);
    let routing = |cookie| CoreConfig {
        routing: true,
        ..config(cookie)
    };
    net.add_configured(routing(2), &["10.0.0.9@tcp", "10.1.0.9@tcp1"]);
    net.add_configured(routing(3), &["10.1.0.8@tcp1", "10.2.0.8@tcp2"]);
    net.add(&["10.2.0.2@tcp2"]);
    net.route(0, "tcp2", "10.0.0.9@tcp");
    net.route(1, "tcp2", "10.1.0.8@tcp1");
    net.route(2, "tcp", "10.1.0.9@tcp1");
    net.attach(3, any_me(), one_shot(64));
    net.put(0, b"far away", true, "10.2.0.2@tcp2");
    net.run();
    assert_eq!(net.kinds(0), [EventKind::Send, EventKind::Ack]);
    assert_eq!(net.take_events(3)[0].sender, nid("10.2.0.8@tcp2"));
    net.assert_at_rest();
}

#[test]
fn one_buffer_of_each_pool_is_enough_to_make_progress() {
    let mut net = Net::routed(ONE_EACH);
    server_md(&mut net, 2);
    for length in [0, 1, 4096, 4097, 1 << 20] {
        for _ in 0..4 {
            net.put(0, &vec![1; length], true, "10.1.0.2@tcp1");
        }
    }
    net.run();
    assert_eq!(
        net.kinds(0)
            .iter()
            .filter(|kind| **kind == EventKind::Ack)
            .count(),
        20
    );
    for pool in net.core(1).router_pools() {
        assert_eq!(
            (pool.credits, pool.min_credits <= 0),
            (1, true),
            "{:?}",
            pool.pool
        );
    }
    net.assert_at_rest();
}

/// Creates a router with one buffer in each pool (node 0), and clients that know it.
fn small_router(clients: usize) -> Net {
    let mut net = Net::new();
    let router = CoreConfig {
        routing: true,
        buffers: ONE_EACH,
        ..config(2)
    };
    net.add_configured(router, &["10.0.0.9@tcp", "10.1.0.9@tcp1"]);
    for client in 1..=clients {
        let node = net.add(&[&format!("10.0.0.{client}@tcp")]);
        net.route(node, "tcp1", "10.0.0.9@tcp");
    }
    net.run();
    net
}

// [ROUTE-7]
#[test]
fn messages_wait_for_a_buffer_in_the_order_of_their_arrival() {
    let mut net = small_router(3);
    net.keep_answers = true;
    for node in 1..=3 {
        net.put(node, &[0; 9], false, "10.1.0.2@tcp1");
        net.run();
        net.answer(node, MessageStatus::Ok);
    }
    assert_eq!(net.held(), 2);
    assert_eq!(net.core(0).router_pools()[1].credits, -2);
    let mut sources = Vec::new();
    while let Some(header) = net.answer(0, MessageStatus::Ok) {
        sources.push(header.src_nid);
    }
    assert_eq!(
        sources,
        ["10.0.0.1@tcp", "10.0.0.2@tcp", "10.0.0.3@tcp"].map(nid)
    );
    net.assert_at_rest();
}

// [ROUTE-8]
#[test]
fn one_sender_holds_no_more_buffers_than_its_credits() {
    let mut net = Net::routed(RouterBuffers {
        tiny: 64,
        small: 64,
        large: 64,
    });
    net.run();
    net.keep_answers = true;
    for _ in 0..9 {
        net.put(0, b"x", false, "10.1.0.2@tcp1");
        net.run();
        net.answer(0, MessageStatus::Ok);
    }
    let small = net.core(1).router_pools()[1];
    assert_eq!(small.credits, 64 - 8);
    assert_eq!(net.held(), 1);
    while net.answer(1, MessageStatus::Ok).is_some() {}
    assert_eq!(net.held(), 0);
    net.assert_at_rest();
}

#[test]
fn a_held_routed_message_whose_connection_breaks_frees_its_place() {
    let mut net = Net::routed(RouterBuffers {
        tiny: 1,
        small: 1,
        large: 1,
    });
    net.run();
    net.keep_answers = true;
    for _ in 0..2 {
        net.put(0, b"x", false, "10.1.0.2@tcp1");
        net.run();
        net.answer(0, MessageStatus::Ok);
    }
    assert_eq!(net.held(), 1);
    net.break_held(1);
    while net.answer(1, MessageStatus::Ok).is_some() {}
    net.assert_at_rest();
}

// [ROUTE-5] [ROUTE-9]
#[test]
fn no_route_to_the_destination_drops_and_counts() {
    let mut net = small_router(1);
    net.route(1, "tcp7", "10.0.0.9@tcp");
    net.put(1, b"x", false, "10.7.0.1@tcp7");
    net.run();
    assert_eq!(net.core(0).counters().dropped(DropReason::NoRoute), 1);
    net.assert_at_rest();
}

// [MSG-10]
#[test]
fn a_node_that_does_not_route_drops_what_is_for_elsewhere() {
    let mut net = small_router(1);
    let now = net.now;
    net.core(0).set_routing(false, now);
    net.put(1, b"x", false, "10.1.0.2@tcp1");
    net.run();
    assert_eq!(net.core(0).counters().dropped(DropReason::NotRouting), 1);
}

#[test]
fn switching_routing_off_drops_what_waits() {
    let mut net = Net::routed(ONE_EACH);
    net.run();
    net.keep_answers = true;
    for _ in 0..2 {
        net.put(0, b"x", false, "10.1.0.2@tcp1");
        net.run();
        net.answer(0, MessageStatus::Ok);
    }
    let now = net.now;
    net.core(1).set_routing(false, now);
    net.run();
    assert_eq!(net.held(), 0);
    assert_eq!(
        net.core(1).counters().dropped(DropReason::RoutingStopped),
        1
    );
    while net.answer(1, MessageStatus::Ok).is_some() {}
    net.assert_at_rest();
}

#[test]
fn switching_routing_off_drops_what_waits_for_the_next_hop() {
    let mut net = small_router(2);
    let now = net.now;
    net.core(0).set_router_buffers(
        RouterBuffers {
            tiny: 64,
            small: 64,
            large: 64,
        },
        now,
    );
    net.keep_answers = true;
    for node in [1, 2] {
        for _ in 0..8 {
            net.put(node, b"x", false, "10.1.0.2@tcp1");
            net.run();
            net.answer(node, MessageStatus::Ok);
        }
    }
    assert_eq!(net.nodes[0].kept.len(), 8, "the credits of the next hop");
    net.core(0).set_routing(false, now);
    net.run();
    assert_eq!(
        net.core(0).counters().dropped(DropReason::RoutingStopped),
        8
    );
    while net.answer(0, MessageStatus::Ok).is_some() {}
    net.assert_at_rest();
}

#[test]
fn a_next_hop_that_is_down_gets_no_routed_message_until_peer_timeout() {
    let mut net = Net::routed(ONE_EACH);
    server_md(&mut net, 2);
    net.put(0, b"x", true, "10.1.0.2@tcp1");
    net.run();
    let (ni, now) = (net.nodes[1].nis[1].0, net.now);
    net.core(1)
        .peer_notify(ni, nid("10.1.0.2@tcp1"), false, now);
    net.take_events(0);
    net.put(0, b"x", true, "10.1.0.2@tcp1");
    net.run();
    assert_eq!(net.core(1).counters().dropped(DropReason::NextHopDown), 1);
    net.now = net.now + Duration::from_secs(180);
    net.put(0, b"x", true, "10.1.0.2@tcp1");
    net.run();
    assert!(net.kinds(0).contains(&EventKind::Ack));
}

/// When a pass of dialling fails, the LND returns the messages that it has. The messages that wait behind them do not
/// try.
#[test]
fn what_waits_behind_a_failed_pass_is_dropped_with_it() {
    let mut net = small_router(2);
    net.advance(Duration::from_secs(1));
    let now = net.now;
    let room = RouterBuffers {
        tiny: 64,
        small: 64,
        large: 64,
    };
    net.core(0).set_router_buffers(room, now);
    net.keep_answers = true;
    for node in [1, 2] {
        for _ in 0..8 {
            net.put(node, b"x", false, "10.1.0.2@tcp1");
            net.run();
            net.answer(node, MessageStatus::Ok);
        }
    }
    assert_eq!(net.nodes[0].kept.len(), 8, "the credits of the next hop");
    let ni = net.nodes[0].nis[1].0;
    let now = net.now;
    net.core(0)
        .peer_notify(ni, nid("10.1.0.2@tcp1"), false, now);
    for _ in 0..8 {
        net.answer(0, MessageStatus::RemoteDropped);
        net.run();
    }
    assert_eq!(net.nodes[0].kept.len(), 0);
    assert_eq!(net.core(0).counters().dropped(DropReason::NextHopDown), 8);
    net.assert_at_rest();
}

#[test]
fn a_locked_primary_nid_that_is_told_to_be_gone_is_down_as_any_other() {
    let mut net = Net::pair();
    let (ni, now) = (net.nodes[0].nis[0].0, net.now);
    let (primary, other) = (nid("10.0.0.2@tcp"), nid("10.0.0.3@tcp"));
    net.core(0).add_peer(primary, &[other], true).unwrap();
    let locked = PeerState::MULTI_RAIL | PeerState::LOCK_PRIMARY;
    net.core(0).set_peer_state(primary, locked).unwrap();
    for nid in [primary, other] {
        net.core(0).peer_notify(ni, nid, true, now);
    }
    net.core(0).peer_notify(ni, primary, false, now);
    let peer = net.core(0).peer_with(other).unwrap();
    assert_eq!((peer.primary, peer.locked), (primary, true));
    let up: Vec<_> = peer.nis.iter().map(|ni| (ni.nid, ni.up)).collect();
    assert_eq!(up, [(primary, false), (other, true)]);
}

#[test]
fn a_next_hop_is_down_when_the_last_of_our_interfaces_has_lost_it() {
    let peer = nid("10.1.0.2@tcp1");
    let mut core = Core::new(super::net::config(1), lnet_types::Time::ZERO);
    let now = lnet_types::Time::from_secs(1);
    let nis = ["10.1.0.8@tcp1", "10.1.0.9@tcp1"].map(|text| {
        let tunables = Tunables::default();
        let config = NiConfig {
            nid: nid(text),
            tunables,
        };
        core.add_ni(config, now).unwrap()
    });
    core.add_peer(peer, &[], false).unwrap();
    let up = |core: &Core| core.peers().all(|peer| peer.nis[0].up);
    core.peer_notify(nis[0], peer, true, now);
    core.peer_notify(nis[1], peer, true, now);
    core.peer_notify(nis[0], peer, false, now);
    assert!(up(&core), "the other one has connections");
    core.peer_notify(nis[1], peer, false, now);
    assert!(!up(&core));
    core.peer_notify(nis[1], peer, true, now);
    core.peer_notify(nis[0], peer, true, now);
    core.remove_ni(nis[1], now).unwrap();
    core.peer_notify(nis[0], peer, false, now);
    assert!(!up(&core), "an interface that is gone has none");
}

#[test]
fn a_next_hop_that_is_heard_of_is_not_down_any_more() {
    let mut net = Net::routed(ONE_EACH);
    server_md(&mut net, 2);
    net.advance(Duration::from_secs(1));
    let (ni, now) = (net.nodes[1].nis[1].0, net.now);
    net.core(1)
        .peer_notify(ni, nid("10.1.0.2@tcp1"), false, now);
    net.put(2, b"x", false, "10.1.0.9@tcp1");
    net.run();
    net.put(0, b"x", true, "10.1.0.2@tcp1");
    net.run();
    assert!(net.kinds(0).contains(&EventKind::Ack));
}

#[test]
fn more_buffers_let_what_waits_go_on() {
    let mut net = Net::routed(ONE_EACH);
    net.run();
    net.keep_answers = true;
    for _ in 0..3 {
        net.put(0, b"x", false, "10.1.0.2@tcp1");
        net.run();
        net.answer(0, MessageStatus::Ok);
    }
    assert_eq!(net.held(), 1);
    let now = net.now;
    net.core(1).set_router_buffers(
        RouterBuffers {
            tiny: 9,
            small: 9,
            large: 9,
        },
        now,
    );
    net.run();
    assert_eq!(net.held(), 0);
    while net.answer(1, MessageStatus::Ok).is_some() {}
    net.assert_at_rest();
}

/// Creates two routers on tcp and tcp1 that each have a route to tcp9 through the other, and a client of the first
/// one.
fn routers_in_a_circle() -> Net {
    let mut net = Net::new();
    net.add(&["10.0.0.1@tcp"]);
    let routing = |cookie| CoreConfig {
        routing: true,
        globals: Globals {
            alive_router_check_interval: Duration::ZERO,
            ..super::net::globals()
        },
        ..config(cookie)
    };
    net.add_configured(routing(2), &["10.0.0.8@tcp", "10.1.0.8@tcp1"]);
    net.add_configured(routing(3), &["10.0.0.9@tcp", "10.1.0.9@tcp1"]);
    net.route(0, "tcp9", "10.0.0.8@tcp");
    net.route(1, "tcp9", "10.1.0.9@tcp1");
    net.route(2, "tcp9", "10.1.0.8@tcp1");
    net
}

// [ROUTE-6]
#[test]
fn a_router_sends_no_message_back_to_where_it_came_from() {
    let mut net = routers_in_a_circle();
    net.put(0, b"round and round", false, "10.9.0.1@tcp9");
    net.run();
    let dropped = |net: &mut Net, node| net.core(node).counters().dropped(DropReason::RoutingLoop);
    assert_eq!((dropped(&mut net, 1), dropped(&mut net, 2)), (0, 1));
    assert_eq!(net.core(1).counters().route_count, 1);
    net.assert_at_rest();
}

#[test]
fn a_router_takes_another_way_than_back() {
    let mut net = routers_in_a_circle();
    net.add_configured(
        CoreConfig {
            routing: true,
            ..config(4)
        },
        &["10.1.0.7@tcp1", "10.9.0.7@tcp9"],
    );
    net.add(&["10.9.0.1@tcp9"]);
    net.attach(4, any_me(), open_md(64));
    // The route back is preferred.
    let route = Route {
        net: "tcp9".parse().unwrap(),
        gateway: nid("10.1.0.7@tcp1"),
        hops: None,
        priority: 1,
    };
    let now = net.now;
    net.core(2).add_route(route, now).unwrap();
    net.put(0, b"onwards", false, "10.9.0.1@tcp9");
    net.run();
    assert_eq!(net.kinds(4), [EventKind::Put]);
}

/// Creates a router with four buffers in each pool (node 0), and six clients that know it. The messages that it
/// forwards keep their buffers until they are answered.
fn router_of_slow_hops() -> Net {
    let mut net = Net::new();
    let router = CoreConfig {
        routing: true,
        buffers: RouterBuffers {
            tiny: 4,
            small: 4,
            large: 4,
        },
        ..config(2)
    };
    net.add_configured(router, &["10.0.0.9@tcp", "10.1.0.9@tcp1"]);
    for client in 1..=6 {
        let node = net.add(&[&format!("10.0.0.{client}@tcp")]);
        net.route(node, "tcp1", "10.0.0.9@tcp");
    }
    net.run();
    net.keep_answers = true;
    net
}

fn send_through(net: &mut Net, client: usize, to: &str) {
    net.put(client, &[0; 9], false, to);
    net.run();
    net.answer(client, MessageStatus::Ok).unwrap();
}

fn small_left(net: &Net) -> i64 {
    net.nodes[0].core.router_pools()[1].credits
}

// [GATE-36]
#[test]
fn one_slow_next_hop_leaves_buffers_for_the_others() {
    let mut net = router_of_slow_hops();
    for client in 1..=5 {
        send_through(&mut net, client, "10.1.0.2@tcp1");
    }
    assert_eq!((small_left(&net), net.held()), (1, 2), "three of four");
    assert_eq!(net.core(0).counters().next_hop_waits, 2);
    send_through(&mut net, 6, "10.1.0.3@tcp1");
    assert_eq!((small_left(&net), net.held()), (0, 2));

    // The slow next hop completes its messages at last, in the order of their arrival.
    let mut sources = Vec::new();
    while let Some(header) = net.answer(0, MessageStatus::Ok) {
        if header.dest_nid == nid("10.1.0.2@tcp1") {
            sources.push(header.src_nid.to_string());
        }
    }
    let expected = [1, 2, 3, 4, 5].map(|client| format!("10.0.0.{client}@tcp"));
    assert_eq!(sources, expected);
    assert!(net.core(0).traffic().hops.is_empty());
}

#[test]
fn what_waits_for_the_share_of_its_next_hop_goes_with_its_connection() {
    let mut net = router_of_slow_hops();
    for client in 1..=4 {
        send_through(&mut net, client, "10.1.0.2@tcp1");
    }
    assert_eq!(net.held(), 1);
    net.break_held(0);
    while net.answer(0, MessageStatus::Ok).is_some() {}
    assert!(net.core(0).traffic().hops.is_empty());
    assert_eq!(small_left(&net), 4);
}
