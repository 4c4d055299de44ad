//! Tests of the router checker: pings of gateways, and their effect on routes.

use std::time::Duration;

use lnet_policy::Profile;
use lnet_types::{Nid, ProcessId};
use lnet_wire::{Body, Handle, Header, Put};

use super::net::{any_me, config, open_md};
use super::{Net, nid};
use crate::*;

const SECOND: Duration = Duration::from_secs(1);

fn routed() -> Net {
    let mut net = Net::routed(RouterBuffers {
        tiny: 8,
        small: 8,
        large: 4,
    });
    net.advance(SECOND);
    net
}

fn alive(net: &mut Net) -> bool {
    net.core(0).routes().next().unwrap().alive
}

// [ROUTE-11] [GATE-23]
#[test]
fn a_new_gateway_is_pinged_at_once_and_then_every_interval() {
    let mut net = routed();
    let pings = |net: &Net| net.trace.iter().filter(|(node, _)| *node == 0).count();
    assert_eq!(pings(&net), 1);
    net.advance(SECOND * 180);
    assert_eq!(pings(&net), 4);
    assert!(alive(&mut net));
    assert!(net.core(0).routes().next().unwrap().single_hop);
    assert_eq!(net.take_events(0), [], "pings of the core show no events");
    net.assert_at_rest();
}

#[test]
fn a_gateway_that_cannot_be_reached_is_dead_and_one_that_answers_is_alive_again() {
    let mut net = routed();
    net.nodes[1].alive = false;
    net.advance(SECOND * 61);
    assert!(!alive(&mut net));
    assert_eq!(
        net.core(0).traffic().mds.len(),
        1,
        "a ping that failed is over"
    );
    net.nodes[1].alive = true;
    // Meanwhile the router has not received the server's ping either, and calls that net down. One more round is
    // needed until both have pinged the router.
    net.advance(SECOND * 121);
    assert!(alive(&mut net));
    let gateway = nid("10.0.0.9@tcp");
    assert_eq!(net.nodes[0].gateways, [(gateway, false), (gateway, true)]);
}

#[test]
fn what_becomes_of_routes_is_news_once_a_change() {
    let mut net = routed();
    let news = |net: &mut Net| -> Vec<String> {
        let (news, left_out) = net.core(0).take_news();
        assert_eq!(left_out, 0);
        news.iter().map(ToString::to_string).collect()
    };
    assert_eq!(news(&mut net), [""; 0], "a first answer is none");
    net.nodes[1].alive = false;
    net.advance(SECOND * 180);
    let told = news(&mut net);
    let down = "routes by 10.0.0.9@tcp are down: 1 of 1 (does not answer)";
    let of_routes = |told: &[String]| -> Vec<String> {
        let of_routes = told.iter().filter(|line| line.starts_with("routes"));
        of_routes.cloned().collect()
    };
    assert_eq!(of_routes(&told), [down]);
    net.nodes[1].alive = true;
    net.advance(SECOND * 400);
    let told = news(&mut net);
    let up = "routes by 10.0.0.9@tcp are up again: 1".to_owned();
    assert_eq!(of_routes(&told).last(), Some(&up));
}

#[test]
fn health_that_goes_and_comes_back_is_news_and_what_lies_between_is_not() {
    let mut net = Net::pair();
    net.keep_answers = true;
    for status in [
        MessageStatus::LocalError,
        MessageStatus::LocalError,
        MessageStatus::Ok,
    ] {
        net.put(0, b"x", false, "10.0.0.2@tcp");
        net.run();
        net.answer(0, status);
    }
    net.keep_answers = false;
    net.advance(SECOND * 900);
    let (news, _) = net.core(0).take_news();
    let told: Vec<String> = news.iter().map(ToString::to_string).collect();
    let expected = [
        "this node's interface 10.0.0.1@tcp has health 900: messages fail there",
        "this node's interface 10.0.0.1@tcp has full health again",
    ];
    assert_eq!(told, expected);
}

#[test]
fn news_that_nobody_takes_are_bounded_and_counted() {
    let mut net = routed();
    for health in [Health::ZERO, Health::MAX].repeat(50) {
        let before = if health.is_full() {
            Health::ZERO
        } else {
            Health::MAX
        };
        net.core(0).fabric_mut().report_ni_health(
            nid("10.0.0.1@tcp"),
            (before, health),
            HealthCause::Administrator,
        );
    }
    let (news, left_out) = net.core(0).take_news();
    assert_eq!((news.len(), left_out), (64, 36));
}

// [GATE-17]
#[test]
fn a_dead_gateway_is_asked_again_after_pauses_that_double_up_to_the_interval() {
    let mut net = routed();
    net.nodes[1].alive = false;
    // A node that is dead here receives nothing, but its core runs on and would ping on its quiet nets.
    let silent = Globals {
        alive_router_check_interval: Duration::ZERO,
        ..super::net::globals()
    };
    let now = net.now;
    net.core(1).set_globals(silent, now);
    net.advance(SECOND * 60);
    assert!(!alive(&mut net));
    let asked = |net: &mut Net, seconds: u32| {
        let before = net.core(0).counters().errors;
        net.advance(SECOND * seconds);
        net.core(0).counters().errors - before
    };
    // The ping failed at the regular check and a second later. The next pings follow after 2, 4, 8, 16, 32, 60, 60 …
    // seconds.
    assert_eq!(asked(&mut net, 62), 5);
    assert_eq!(asked(&mut net, 120), 2);
}

#[test]
fn a_router_that_was_away_for_seconds_is_used_again_within_seconds() {
    let mut net = routed();
    net.advance(SECOND * 57);
    net.nodes[1].alive = false;
    net.advance(SECOND * 5);
    assert!(!alive(&mut net));
    net.nodes[1].alive = true;
    net.advance(SECOND * 5);
    assert!(alive(&mut net));
}

// [ROUTE-12]
#[test]
fn a_gateway_that_stays_silent_is_dead_after_router_ping_timeout() {
    let mut net = Net::routed(RouterBuffers::default());
    net.keep_answers = true;
    net.advance(SECOND);
    net.nodes[1].alive = false;
    net.answer(0, MessageStatus::Ok);
    net.advance(SECOND * 48);
    assert!(alive(&mut net));
    net.advance(SECOND);
    assert!(!alive(&mut net));
    assert_eq!(net.nodes[0].gateways, [(nid("10.0.0.9@tcp"), false)]);
}

/// Two routers on one net of clients, each of which knows the other by its configuration, or not.
fn siblings(known: bool) -> Net {
    let mut net = Net::new();
    let router = |cookie| CoreConfig {
        routing: true,
        ..config(cookie)
    };
    let nids = ["10.0.0.8@tcp", "10.0.0.9@tcp"];
    for (cookie, own) in (1..).zip(nids) {
        net.add_configured(router(cookie), &[own]);
    }
    for (node, other) in [(0, nid(nids[1])), (1, nid(nids[0]))] {
        if known {
            net.core(node).add_peer(other, &[other], false).unwrap();
        }
    }
    net
}

/// Ends the second router. A node that is dead here receives nothing, but its core would go on to ping.
fn end_second(net: &mut Net) {
    let silent = Globals {
        alive_router_check_interval: Duration::ZERO,
        ..super::net::globals()
    };
    net.nodes[1].alive = false;
    let now = net.now;
    net.core(1).set_globals(silent, now);
}

fn up(net: &mut Net, node: usize) -> bool {
    net.core(node).nis().nth(1).unwrap().up
}

// [GATE-37]
#[test]
fn a_router_that_nobody_pings_asks_the_peers_of_its_configuration() {
    let mut net = siblings(false);
    net.advance(SECOND * 300);
    assert!(!up(&mut net, 0) && !up(&mut net, 1), "nobody asks");
    let mut net = siblings(true);
    let versions = |net: &mut Net| [0, 1].map(|node| net.core(node).fabric().own.version);
    let first = versions(&mut net);
    net.advance(SECOND * 300);
    assert!(up(&mut net, 0) && up(&mut net, 1));
    assert_eq!(versions(&mut net), first, "no router was down in between");
    net.assert_at_rest();
}

// [GATE-37]
#[test]
fn a_net_that_was_away_is_up_again_without_a_client() {
    let mut net = siblings(true);
    end_second(&mut net);
    net.advance(SECOND * 300);
    assert!(!up(&mut net, 0));
    // The second router answers again and asks nobody itself.
    net.nodes[1].alive = true;
    net.advance(SECOND * 120);
    assert!(up(&mut net, 0));
}

// [GATE-38]
#[test]
fn a_peer_that_went_down_while_the_net_was_quiet_is_tried_when_the_net_is_there_again() {
    let is_down = |net: &mut Net, peer: &str| {
        let now = net.now;
        let fabric = net.core(0).fabric();
        fabric.is_down(fabric.peers.id_of(nid(peer)).unwrap(), now)
    };
    let client = "10.0.0.1@tcp";
    let mut net = siblings(true);
    net.add_configured(config(3), &[client]);
    end_second(&mut net);
    net.nodes[2].alive = false;
    net.advance(SECOND * 300);
    assert!(!up(&mut net, 0), "the net is quiet");
    let (now, ni) = (net.now, net.nodes[0].nis[0].0);
    net.core(0)
        .add_peer(nid(client), &[nid(client)], false)
        .unwrap();
    net.core(0).peer_notify(ni, nid(client), false, now);
    assert!(is_down(&mut net, client));
    // The other router answers again.
    net.nodes[1].alive = true;
    net.advance(SECOND * 120);
    assert!(up(&mut net, 0));
    assert!(!is_down(&mut net, client));
    // A peer that goes down afterwards is down.
    let now = net.now;
    net.core(0).peer_notify(ni, nid(client), false, now);
    assert!(is_down(&mut net, client));
}

// [GATE-37]
#[test]
fn a_router_asks_the_four_that_it_heard_of_last_beside_those_of_its_configuration() {
    let mut net = siblings(true);
    let clients: Vec<String> = (1..=6).map(|host| format!("10.0.0.{host}@tcp")).collect();
    for (cookie, own) in (3..).zip(&clients) {
        net.add_configured(config(cookie), &[own]);
    }
    for client in 0..6 {
        net.advance(SECOND);
        let get = GetRequest {
            md: net.bind(client + 2, &[0; 512], 2),
            source: None,
            target: ProcessId::lustre(nid("10.0.0.8@tcp")),
            portal: lnet_wire::LNET_PORTAL,
            match_bits: lnet_wire::PING_MATCH_BITS,
            offset: 0,
        };
        let now = net.now;
        net.core(client + 2).get(get, now).unwrap();
        net.run();
    }
    end_second(&mut net);
    for client in &mut net.nodes[2..] {
        client.alive = false;
    }
    net.trace.clear();
    net.advance(SECOND * 100);
    let asked = net.trace.iter().filter(|(node, _)| *node == 0);
    let asked: Vec<String> = asked
        .map(|(_, header)| header.dest_nid.to_string())
        .collect();
    let named = "10.0.0.9@tcp".to_owned();
    let last = clients.iter().rev().take(4).cloned();
    let expected: Vec<String> = std::iter::once(named).chain(last).collect();
    assert_eq!(asked, expected);
}

#[test]
fn no_live_route_is_no_path() {
    let mut net = routed();
    net.nodes[1].alive = false;
    net.advance(SECOND * 61);
    net.put(0, b"x", false, "10.1.0.2@tcp1");
    net.run();
    assert_eq!(net.take_events(0)[0].status, Err(Errno::EHOSTUNREACH));
}

#[test]
fn where_there_is_no_path_each_gateway_is_named_with_what_is_wrong() {
    let mut net = routed();
    let said = |net: &mut Net, to: &str| net.core(0).no_path_to(nid(to)).map(|why| why.to_string());
    assert_eq!(said(&mut net, "10.1.0.2@tcp1"), None);
    let now = net.now;
    net.core(1).set_routing(false, now);
    net.advance(SECOND * 61);
    let why = "no live route to tcp1: gateway 10.0.0.9@tcp does not forward messages";
    assert_eq!(said(&mut net, "10.1.0.2@tcp1").as_deref(), Some(why));
    net.nodes[1].alive = false;
    net.advance(SECOND * 61);
    let why = "no live route to tcp1: gateway 10.0.0.9@tcp does not answer";
    assert_eq!(said(&mut net, "10.1.0.2@tcp1").as_deref(), Some(why));
    let why = "this node has no interface on tcp7 and no route to tcp7";
    assert_eq!(said(&mut net, "10.7.0.2@tcp7").as_deref(), Some(why));
}

#[test]
fn a_gateway_that_has_not_answered_its_ping_is_named_for_a_message_without_an_answer() {
    let mut net = Net::routed(RouterBuffers::default());
    net.keep_answers = true;
    net.advance(SECOND);
    net.nodes[1].alive = false;
    net.answer(0, MessageStatus::Ok);
    let to = nid("10.1.0.2@tcp1");
    assert_eq!(net.core(0).no_path_to(to), None);
    let said = |net: &mut Net| net.core(0).no_answer_from(to).map(|why| why.to_string());
    let why = "no live route to tcp1: gateway 10.0.0.9@tcp has not answered yet";
    assert_eq!(said(&mut net).as_deref(), Some(why));
    net.advance(SECOND * 49);
    let why = "no live route to tcp1: gateway 10.0.0.9@tcp does not answer";
    assert_eq!(said(&mut net).as_deref(), Some(why));
    assert_eq!(net.core(0).no_answer_from(nid("10.0.0.9@tcp")), None);
    assert_eq!(routed().core(0).no_answer_from(to), None);
}

#[test]
fn a_gateway_that_does_not_forward_yet_is_asked_again_within_seconds() {
    let mut net = routed();
    let now = net.now;
    net.core(1).set_routing(false, now);
    net.advance(SECOND * 61);
    assert!(!alive(&mut net));
    let now = net.now;
    net.core(1).set_routing(true, now);
    net.advance(SECOND * 5);
    assert!(alive(&mut net));
}

// [ROUTE-13]
#[test]
fn a_message_through_a_dead_gateway_revives_it() {
    let mut net = routed();
    net.attach(0, any_me(), open_md(16));
    net.nodes[1].alive = false;
    net.advance(SECOND * 61);
    assert!(!alive(&mut net));
    net.nodes[1].alive = true;
    net.route_back();
    net.put(2, b"hello", false, "10.0.0.1@tcp");
    net.run();
    assert!(alive(&mut net));
    let now = net.now;
    assert_eq!(
        net.core(0).next_deadline(),
        Some(now),
        "and it is pinged at once"
    );
}

#[test]
fn a_gateway_that_sends_is_asked_at_once_however_short_ago_a_check_of_it_failed() {
    let mut net = routed();
    net.nodes[1].alive = false;
    net.advance(SECOND * 60);
    assert!(!alive(&mut net), "the check of this moment failed");
    net.come_through();
    let now = net.now;
    assert_eq!(net.core(0).next_deadline(), Some(now));
}

// [GATE-19]
#[test]
fn a_gateway_that_is_back_is_pinged_when_the_last_other_one_is_lost() {
    let mut net = Net::new();
    net.add(&["10.0.0.1@tcp"]);
    net.add(&["10.0.0.8@tcp", "10.1.0.8@tcp1"]);
    net.add(&["10.0.0.9@tcp", "10.1.0.9@tcp1"]);
    net.route(0, "tcp1", "10.0.0.8@tcp");
    // The checks of the two gateways are half an interval apart.
    net.advance(SECOND * 30);
    net.route(0, "tcp1", "10.0.0.9@tcp");
    net.advance(SECOND);
    net.nodes[1].alive = false;
    net.advance(SECOND * 274);
    let (first, second) = (nid("10.0.0.8@tcp"), nid("10.0.0.9@tcp"));
    assert_eq!(net.nodes[0].gateways, [(first, false)]);
    net.nodes[1].alive = true;
    net.nodes[2].alive = false;
    while net.nodes[0].gateways.len() == 1 {
        net.advance(SECOND / 10);
    }
    let changes = [(first, false), (second, false), (first, true)];
    assert_eq!(net.nodes[0].gateways, changes);
}

#[test]
fn a_gateway_that_sends_and_cannot_be_reached_is_pinged_once_a_second_at_most() {
    let mut net = routed();
    net.nodes[1].alive = false;
    net.advance(SECOND * 61);
    let pings = |net: &Net| net.trace.iter().filter(|(node, _)| *node == 0).count();
    let before = pings(&net);
    for _ in 0..300 {
        net.come_through();
        net.advance(SECOND / 100);
    }
    // One ping per second, and the checks that were due after 1 and 2 seconds.
    assert!(pings(&net) - before <= 5, "{}", pings(&net) - before);
}

impl Net {
    /// Delivers a message of another net that the gateway forwards.
    fn come_through(&mut self) {
        let (ni, now) = (self.nodes[0].nis[0].0, self.now);
        let gateway = ProcessId::lustre(nid("10.0.0.9@tcp"));
        let header = Header {
            dest_nid: nid("10.0.0.1@tcp"),
            src_nid: nid("10.1.0.2@tcp1"),
            dest_pid: 12345,
            src_pid: 12345,
            payload_length: 0,
            body: Body::Put(Put {
                ack_wmd: Handle::NONE,
                match_bits: 7,
                hdr_data: 0,
                ptl_index: 63,
                offset: 0,
            }),
        };
        self.core(0).header(ni, gateway, &header, now);
    }

    /// Sets the server's gateway alive and its routes up, whatever the pings showed.
    fn route_back(&mut self) {
        let now = self.now;
        self.core(2)
            .remove_route("tcp".parse().unwrap(), nid("10.1.0.9@tcp1"))
            .unwrap();
        self.route(2, "tcp", "10.1.0.9@tcp1");
        self.core(2).tick(now);
        self.run();
    }
}

// [ROUTE-15]
#[test]
fn a_gateway_whose_far_side_is_down_is_not_used_single_hop() {
    let mut net = routed();
    let (far, now) = (net.nodes[1].nis[1].0, net.now);
    net.core(1).set_ni_fatal(far, true, now);
    net.advance(SECOND * 60);
    assert!(!alive(&mut net));
    assert_eq!(net.nodes[0].gateways, [], "the gateway itself lives");

    let globals = Globals {
        avoid_asym_router_failure: false,
        ..Globals::default()
    };
    let now = net.now;
    net.core(0).set_globals(globals, now);
    net.advance(SECOND * 60);
    assert!(alive(&mut net));
}

// [ROUTE-14]
#[test]
fn a_gateway_that_does_not_route_any_more_is_not_used() {
    let mut net = routed();
    let now = net.now;
    net.core(1).set_routing(false, now);
    net.advance(SECOND * 60);
    assert!(!alive(&mut net));
}

// [GATE-13]
#[test]
fn check_routers_before_use_starts_with_dead_gateways() {
    let mut net = Net::new();
    let globals = Globals {
        check_routers_before_use: true,
        ..Globals::default()
    };
    net.add_configured(
        CoreConfig {
            globals,
            ..config(1)
        },
        &["10.0.0.1@tcp"],
    );
    let router = CoreConfig {
        routing: true,
        ..config(2)
    };
    net.add_configured(router, &["10.0.0.9@tcp", "10.1.0.9@tcp1"]);
    net.route(0, "tcp1", "10.0.0.9@tcp");
    assert!(!alive(&mut net));
    net.advance(SECOND);
    assert!(alive(&mut net));
}

#[test]
fn interval_zero_switches_the_checker_off() {
    let mut net = Net::new();
    let globals = Globals {
        alive_router_check_interval: Duration::ZERO,
        ..Globals::default()
    };
    net.add_configured(
        CoreConfig {
            globals,
            ..config(1)
        },
        &["10.0.0.1@tcp"],
    );
    net.route(0, "tcp1", "10.0.0.9@tcp");
    assert_eq!(net.core(0).next_deadline(), None);
    net.advance(SECOND * 600);
    assert_eq!(net.trace.len(), 0);
    assert!(alive(&mut net));
}

/// Returns the gateways that four messages to tcp1 take, given routes as (gateway, priority, hops).
fn choices(routes: &[(&str, u32, Option<u8>)]) -> Vec<Nid> {
    let mut net = Net::new();
    net.add(&["10.0.0.1@tcp"]);
    let now = net.now;
    for &(gateway, priority, hops) in routes {
        let (remote, gateway) = ("tcp1".parse().unwrap(), nid(gateway));
        let route = Route {
            net: remote,
            gateway,
            hops,
            priority,
        };
        net.core(0).add_route(route, now).unwrap();
    }
    let mut taken = Vec::new();
    for _ in 0..4 {
        net.put(0, b"x", false, "10.1.0.2@tcp1");
        while let Some(output) = net.core(0).poll_output() {
            if let Output::Transmit(transmit) = output {
                taken.push(transmit.to.nid);
                net.core(0).sent(transmit.tx, MessageStatus::Ok, now);
            }
        }
    }
    taken
}

// [ROUTE-17]
#[test]
fn routes_are_chosen_by_priority_then_hops_then_in_turn() {
    let (five, six) = ("10.0.0.5@tcp", "10.0.0.6@tcp");
    assert_eq!(
        choices(&[(five, 1, Some(1)), (six, 0, Some(2))]),
        [nid(six); 4]
    );
    assert_eq!(
        choices(&[(five, 0, Some(2)), (six, 0, Some(1))]),
        [nid(six); 4]
    );
    let in_turn = [six, five, six, five].map(nid);
    assert_eq!(choices(&[(five, 0, Some(1)), (six, 0, None)]), in_turn);
}

#[test]
fn a_removed_route_leaves_no_ping_behind() {
    let mut net = Net::routed(RouterBuffers::default());
    net.keep_answers = true;
    net.advance(SECOND);
    net.core(0)
        .remove_route("tcp1".parse().unwrap(), nid("10.0.0.9@tcp"))
        .unwrap();
    net.answer(0, MessageStatus::Ok);
    net.advance(SECOND * 200);
    assert_eq!(net.core(0).next_deadline(), None);
    assert_eq!(net.core(0).traffic().mds.len(), 1);
}

fn disconnect(net: &mut Net) {
    let (ni, now) = (net.nodes[0].nis[0].0, net.now);
    net.core(0).peer_notify(ni, nid("10.0.0.9@tcp"), false, now);
}

// [GATE-18]
#[test]
fn a_gateway_whose_connections_go_is_asked_at_once() {
    let mut net = routed();
    net.advance(SECOND * 10);
    net.nodes[1].alive = false;
    disconnect(&mut net);
    net.advance(SECOND);
    assert!(!alive(&mut net));
}

#[test]
fn a_gateway_whose_connections_go_is_a_lost_path_once() {
    let mut net = routed();
    net.advance(SECOND * 10);
    assert_eq!(net.core(0).paths_lost(), 0);
    for _pass_that_failed in 0..3 {
        disconnect(&mut net);
    }
    assert_eq!(net.core(0).paths_lost(), 1);
    let (ni, now) = (net.nodes[0].nis[0].0, net.now);
    let stranger = "10.0.0.77@tcp";
    net.put(0, b"x", false, stranger);
    net.core(0).peer_notify(ni, nid(stranger), false, now);
    assert_eq!(net.core(0).paths_lost(), 1, "nothing else goes through it");
}

// [GATE-18]
#[test]
fn kernels_ask_a_gateway_whose_connections_go_at_the_next_check() {
    super::net::in_profile(lnet_policy::Profile::Lustre, || {
        let mut net = routed();
        net.advance(SECOND * 10);
        net.nodes[1].alive = false;
        disconnect(&mut net);
        net.advance(SECOND * 40);
        assert!(alive(&mut net));
    });
}

#[test]
fn a_ping_whose_answer_cannot_come_any_more_is_not_waited_for() {
    let mut net = routed();
    net.advance(SECOND * 10);
    // The router receives one more ping and then answers nothing.
    net.keep_answers = true;
    net.advance(SECOND * 48);
    let pings = |net: &Net| net.trace.iter().filter(|(node, _)| *node == 0).count();
    let before = pings(&net);
    net.advance(SECOND);
    net.nodes[1].alive = false;
    net.answer(0, MessageStatus::Ok).unwrap();
    assert_eq!(pings(&net), before + 1);
    net.advance(SECOND);
    disconnect(&mut net);
    net.advance(SECOND);
    assert_eq!(
        pings(&net),
        before + 2,
        "its connection has gone, and the answer with it"
    );
}

// [ROUTE-11]
#[test]
fn a_gateway_is_pinged_over_each_net_that_it_shares() {
    let mut net = Net::new();
    net.add_discovering(&["10.0.0.1@tcp", "10.2.0.1@tcp2"]);
    let router = net.add_discovering(&["10.0.0.9@tcp", "10.1.0.9@tcp1", "10.2.0.9@tcp2"]);
    let now = net.now;
    net.core(router).set_routing(true, now);
    net.add_discovering(&["10.1.0.2@tcp1"]);
    net.route(0, "tcp1", "10.0.0.9@tcp");
    net.route(2, "tcp", "10.1.0.9@tcp1");
    // This is longer than the time after which a router calls a net without pings down.
    net.advance(Duration::from_secs(300));
    let down: Vec<Nid> = net
        .core(router)
        .nis()
        .filter(|ni| !ni.up)
        .map(|ni| ni.nid)
        .collect();
    assert_eq!(down, []);
    net.assert_at_rest();
}

/// Kernels up to 2.16 do not lower the health of a node's only interface, so health does not end the attempts.
#[test]
fn a_ping_that_fails_at_the_only_interface_is_not_sent_again_at_once() {
    for profile in [Profile::Design, Profile::Lustre] {
        let mut net = Net::new();
        let client = CoreConfig {
            globals: Globals {
                profile,
                ..Globals::default()
            },
            ..config(1)
        };
        net.add_configured(client, &["10.0.0.1@tcp"]);
        net.route(0, "tcp1", "10.0.0.99@tcp");
        net.keep_answers = true;
        let mut pings = 0;
        for _ in 0..20 {
            let now = net.now;
            net.core(0).tick(now);
            net.run();
            pings += u32::from(net.answer(0, MessageStatus::LocalError).is_some());
        }
        assert_eq!(pings, 1, "{profile:?}");
        net.advance(SECOND * 10);
        assert!(net.answer(0, MessageStatus::LocalError).is_some());
    }
}
