//! The cases T-R: routers and routes, as far as the control plane is not needed.

use std::time::Duration;

use lnet_types::ProcessId;
use lnet_wire::{Body, Get, Handle, Header};

use super::bench::Step;
use super::*;

const N1: &str = "10.0.0.1@tcp";
const N2: &str = "10.0.0.2@tcp";
const R1: &str = "10.0.0.8@tcp";
const R2: &str = "10.0.0.9@tcp";
const FAR: &str = "10.5.0.1@tcp5";

fn net_of(text: &str) -> lnet_types::Net {
    text.parse().unwrap()
}

fn two_gateways() -> Bench {
    let mut bench = Bench::new(&[N1]);
    bench.route("tcp5", R1, None, 0);
    bench.route("tcp5", R2, None, 0);
    bench
}

/// Creates a host, a router and a peer without routes.
fn unrouted(avoid_asym_router_failure: bool, discovery: bool) -> Net {
    let globals = Globals {
        avoid_asym_router_failure,
        discovery,
        alive_router_check_interval: Duration::from_secs(5),
        router_ping_timeout: Duration::from_secs(5),
        ..net::globals()
    };
    let mut net = Net::new();
    let config = |cookie, routing| CoreConfig {
        routing,
        globals,
        ..net::config(cookie)
    };
    net.add_configured(config(1, false), &["10.0.0.1@tcp"]);
    net.add_configured(config(2, true), &["10.0.0.9@tcp", "10.1.0.9@tcp1"]);
    net.add_configured(config(3, false), &["10.1.0.2@tcp1"]);
    net
}

/// Returns which interfaces of the router are up.
fn router_up(net: &mut Net) -> Vec<bool> {
    net.core(1).nis().skip(1).map(|ni| ni.up).collect()
}

fn route_alive(net: &mut Net, node: usize) -> bool {
    net.core(node).routes().all(|route| route.alive)
}

/// Pings from one node to the other end. Returns whether the answer arrives.
fn ping(net: &mut Net, node: usize, to: &str) -> bool {
    let md = net.bind(node, &[0; 512], 2);
    let get = GetRequest {
        md,
        source: None,
        target: ProcessId::lustre(nid(to)),
        portal: 0,
        match_bits: lnet_wire::PING_MATCH_BITS,
        offset: 0,
    };
    let now = net.now;
    net.core(node).get(get, now).unwrap();
    net.run();
    net.kinds(node).contains(&EventKind::Reply)
}

/// Removes the host, so that it pings no node.
fn unconfigure_host(net: &mut Net) {
    net.core(0)
        .remove_route(net_of("tcp1"), nid("10.0.0.9@tcp"))
        .unwrap();
    net.nodes[0].alive = false;
}

fn seconds(net: &mut Net, seconds: u64) {
    net.advance(Duration::from_secs(seconds));
}

fn everything_is_up_and_carries_bulk(discovery: bool) {
    let mut net = Net::routed(RouterBuffers::default());
    let globals = Globals {
        discovery,
        ..net::globals()
    };
    let now = net.now;
    (0..3).for_each(|node| net.core(node).set_globals(globals, now));
    seconds(&mut net, 1);
    assert!(route_alive(&mut net, 0) && route_alive(&mut net, 2));
    assert_eq!(router_up(&mut net), [true, true]);
    assert!(ping(&mut net, 0, "10.1.0.2@tcp1"));
    assert!(ping(&mut net, 2, "10.0.0.1@tcp"));
    net.attach(2, any_me(), open_md(1 << 20));
    net.put(0, &vec![7; 1 << 20], true, "10.1.0.2@tcp1");
    net.run();
    assert_eq!(net.kinds(0), [EventKind::Send, EventKind::Ack]);
}

#[test]
pub(super) fn t_r01_with_discovery_and_routes_on_both_sides_everything_is_up_and_carries_bulk() {
    everything_is_up_and_carries_bulk(true);
}

#[test]
pub(super) fn t_r02_with_routes_on_both_sides_everything_is_up_and_carries_bulk() {
    everything_is_up_and_carries_bulk(false);
}

fn without_routes(net: &mut Net) {
    seconds(net, 20);
    assert_eq!(router_up(net), [false, false]);
    assert!(!ping(net, 0, "10.1.0.2@tcp1"));
}

fn with_a_route_of_the_host(net: &mut Net) {
    net.route(0, "tcp1", "10.0.0.9@tcp");
    seconds(net, 12);
    assert_eq!(router_up(net), [true, false]);
    assert!(!route_alive(net, 0), "its far side is down");
}

fn with_both_routes(net: &mut Net) {
    net.route(2, "tcp", "10.1.0.9@tcp1");
    seconds(net, 12);
    assert_eq!(router_up(net), [true, true]);
    assert!(route_alive(net, 0) && route_alive(net, 2));
    assert!(ping(net, 0, "10.1.0.2@tcp1"));
    assert!(ping(net, 2, "10.0.0.1@tcp"));
}

fn with_an_unconfigured_host(net: &mut Net) {
    unconfigure_host(net);
    seconds(net, 20);
    assert_eq!(router_up(net), [false, true]);
    assert!(!route_alive(net, 2));
}

#[test]
pub(super) fn t_r03_a_router_that_nobody_pings_is_down_on_both_sides() {
    without_routes(&mut unrouted(true, true));
}

#[test]
pub(super) fn t_r04_with_a_route_of_the_host_only_its_side_is_up_and_the_route_is_down() {
    let mut net = unrouted(true, true);
    without_routes(&mut net);
    with_a_route_of_the_host(&mut net);
}

#[test]
pub(super) fn t_r05_with_the_route_of_the_peer_everything_is_up() {
    let mut net = unrouted(true, true);
    with_a_route_of_the_host(&mut net);
    with_both_routes(&mut net);
}

#[test]
pub(super) fn t_r06_without_the_host_its_side_is_down_and_so_is_the_route_of_the_peer() {
    let mut net = unrouted(true, true);
    with_a_route_of_the_host(&mut net);
    with_both_routes(&mut net);
    with_an_unconfigured_host(&mut net);
}

#[test]
pub(super) fn t_r07_a_router_without_traffic_is_down_and_a_route_with_one_dead_end_is_too() {
    let mut net = unrouted(true, false);
    without_routes(&mut net);
    with_a_route_of_the_host(&mut net);
    with_both_routes(&mut net);
    with_an_unconfigured_host(&mut net);
}

#[test]
pub(super) fn t_r08_without_the_asymmetry_rule_a_route_needs_its_near_side_only() {
    let mut net = unrouted(false, false);
    seconds(&mut net, 20);
    net.route(0, "tcp1", "10.0.0.9@tcp");
    seconds(&mut net, 1);
    assert!(route_alive(&mut net, 0));
    net.route(2, "tcp", "10.1.0.9@tcp1");
    seconds(&mut net, 12);
    unconfigure_host(&mut net);
    seconds(&mut net, 30);
    assert!(route_alive(&mut net, 2));
}

#[test]
pub(super) fn t_r09_a_peer_that_lacks_a_route_via_one_router_breaks_nothing() {
    let mut net = Net::new();
    let router = |cookie| CoreConfig {
        routing: true,
        ..net::config(cookie)
    };
    net.add(&["10.0.0.1@tcp"]);
    net.add_configured(router(2), &["10.0.0.8@tcp", "10.1.0.8@tcp1"]);
    net.add_configured(router(3), &["10.0.0.9@tcp", "10.1.0.9@tcp1"]);
    net.add(&["10.1.0.2@tcp1"]);
    net.route(0, "tcp1", "10.0.0.8@tcp");
    net.route(0, "tcp1", "10.0.0.9@tcp");
    net.route(3, "tcp", "10.1.0.8@tcp1");
    for _ in 0..50 {
        ping(&mut net, 0, "10.1.0.2@tcp1");
        seconds(&mut net, 7);
    }
    net.nodes[0].events.clear();
    assert!(ping(&mut net, 3, "10.0.0.1@tcp"));
    seconds(&mut net, 200);
    net.assert_at_rest();
}

#[test]
pub(super) fn t_r10_a_router_counts_what_it_drops_for_a_peer_that_is_gone() {
    let mut net = Net::routed(RouterBuffers::default());
    let now = net.now;
    let globals = Globals {
        health_sensitivity: 0,
        retry_count: 0,
        ..net::globals()
    };
    net.core(1).set_globals(globals, now);
    seconds(&mut net, 1);
    net.nodes[2].alive = false;
    for _ in 0..3 {
        ping(&mut net, 0, "10.1.0.2@tcp1");
    }
    let dropped = net
        .core(1)
        .fabric()
        .peers
        .by_nid(nid("10.1.0.2@tcp1"))
        .unwrap()
        .stats
        .dropped;
    assert_eq!(dropped.get, 3);
}

#[test]
pub(super) fn t_r11_gateways_in_half_health_carry_all_the_same() {
    let mut bench = two_gateways();
    bench.set_health(R1, 500);
    bench.set_health(R2, 500);
    let hops = bench.hops(50, FAR);
    assert!(hops.iter().any(|hop| hop == R1) && hops.iter().any(|hop| hop == R2));
}

/// Returns the next hops of pings that a router forwards from a source to the first interface of a peer. This
/// interface has health 0 at the router.
fn diverted(source_is_multi_rail: bool) -> Vec<String> {
    let (first, second) = ("10.5.0.1@tcp5", "10.5.0.2@tcp5");
    let mut bench = Bench::new(&[R1, "10.5.0.8@tcp5"]);
    bench.core.set_routing(true, bench.now);
    bench.peer(&[first, second]);
    bench
        .core
        .add_peer(nid(N1), &[nid(N2)], source_is_multi_rail)
        .unwrap();
    bench.set_health(first, 0);
    let header = Header {
        dest_nid: nid(first),
        src_nid: nid(N1),
        dest_pid: 12345,
        src_pid: 12345,
        payload_length: 0,
        body: Body::Get(Get {
            return_wmd: Handle::NONE,
            match_bits: 0,
            ptl_index: 0,
            src_offset: 0,
            sink_length: 0,
        }),
    };
    let ni = bench.ni(R1).id;
    (0..50)
        .map(|_| {
            let from = ProcessId::lustre(nid(N1));
            let verdict = bench.core.header(ni, from, &header, bench.now);
            let Verdict::Receive { rx, .. } = verdict else {
                panic!("{verdict:?}")
            };
            bench.core.arrived(rx, Ok(()), bench.now);
            let bench::Step::Sent(transmit) = bench.step() else {
                panic!("not forwarded")
            };
            bench.core.sent(transmit.tx, MessageStatus::Ok, bench.now);
            assert_eq!(transmit.header.dest_nid, transmit.to.nid);
            transmit.to.nid.to_string()
        })
        .collect()
}

// [ROUTE-4]
#[test]
pub(super) fn t_r12_the_last_hop_of_a_multi_rail_source_avoids_an_interface_that_is_ill() {
    assert!(diverted(true).iter().all(|hop| hop == "10.5.0.2@tcp5"));
}

// [ROUTE-4]
#[test]
pub(super) fn t_r13_the_last_hop_of_another_source_keeps_the_interface_it_chose() {
    assert!(diverted(false).iter().all(|hop| hop == "10.5.0.1@tcp5"));
}

#[test]
pub(super) fn t_r14_a_router_keeps_what_waits_for_credits_past_every_deadline() {
    let mut net = Net::routed(RouterBuffers {
        tiny: 64,
        small: 8,
        large: 4,
    });
    seconds(&mut net, 1);
    net.attach(2, any_me(), open_md(8));
    net.keep_answers = true;
    for _ in 0..16 {
        net.put(0, b"", false, "10.1.0.2@tcp1");
    }
    net.run();
    for _ in 0..16 {
        net.answer(0, MessageStatus::Ok);
    }
    seconds(&mut net, 400);
    assert_eq!(net.core(1).counters().drop_count, 0);
    while net.answer(1, MessageStatus::Ok).is_some() {}
    for _ in 0..16 {
        net.answer(0, MessageStatus::Ok);
        net.answer(1, MessageStatus::Ok);
    }
    let arrived = net.kinds(2);
    assert_eq!(
        arrived
            .iter()
            .filter(|kind| **kind == EventKind::Put)
            .count(),
        16
    );
}

#[test]
pub(super) fn t_r16_a_rail_that_fails_here_does_not_take_the_route_down() {
    let globals = Globals {
        alive_router_check_interval: Duration::from_secs(5),
        router_ping_timeout: Duration::from_secs(5),
        ..net::globals()
    };
    let config = |cookie, routing| CoreConfig {
        routing,
        globals,
        ..net::config(cookie)
    };
    let mut net = Net::new();
    net.add_configured(config(1, false), &[N1, N2]);
    net.add_configured(config(2, true), &[R2, "10.5.0.9@tcp5"]);
    net.add_configured(config(3, false), &[FAR]);
    net.route(2, "tcp", "10.5.0.9@tcp5");
    let source = NidFilter::Nid(nid(N1));
    let rule = DropRule {
        filter: FaultFilter {
            source,
            destination: NidFilter::Nid(nid(R2)),
            ..FaultFilter::default()
        },
        pace: Pace::Rate(1),
        classes: vec![MessageStatus::LocalError],
        all: false,
    };
    net.core(0).add_drop_rule(rule).unwrap();
    seconds(&mut net, 1);
    net.route(0, "tcp5", R2);
    seconds(&mut net, 100);
    assert!(route_alive(&mut net, 0));
    assert_eq!(net.nodes[0].gateways, [], "nothing was ever said of it");
    let (_, stats) = net.core(0).drop_rules().next().unwrap();
    assert!(stats.struck > 0, "the rail did fail");
    net.nodes[1].alive = false;
    seconds(&mut net, 12);
    assert!(!route_alive(&mut net, 0));
}

#[test]
pub(super) fn t_r17_routes_are_listed_as_they_were_added_and_gone_when_deleted() {
    let mut bench = two_gateways();
    let routes: Vec<Route> = bench.core.routes().map(|view| view.route).collect();
    assert_eq!(routes.len(), 2);
    assert!(
        routes
            .iter()
            .all(|route| route.hops.is_none() && route.priority == 0)
    );
    assert!(
        bench
            .core
            .peers()
            .all(|peer| peer.gateway && !peer.multi_rail)
    );
    bench.core.remove_route(net_of("tcp5"), nid(R1)).unwrap();
    let left: Vec<_> = bench.core.routes().map(|view| view.route.gateway).collect();
    assert_eq!(left, [nid(R2)]);
}

#[test]
pub(super) fn t_r19_one_gateway_has_499_routes() {
    let mut bench = Bench::new(&[N1]);
    for number in 1..500 {
        bench.route(&format!("tcp{number}"), R1, None, 0);
    }
    assert_eq!(bench.core.routes().count(), 499);
}

fn refused(net: &str, gateway: &str, hops: Option<u8>) -> Errno {
    let mut bench = Bench::new(&[N1]);
    bench.route("tcp5", R1, None, 0);
    let route = Route {
        net: net_of(net),
        gateway: nid(gateway),
        hops,
        priority: 0,
    };
    bench.core.add_route(route, bench.now).unwrap_err().errno()
}

#[test]
pub(super) fn t_r21_a_gateway_on_a_net_that_is_not_ours_is_refused() {
    assert_eq!(refused("tcp5", "10.7.0.1@tcp7", None), Errno::EHOSTUNREACH);
}

#[test]
pub(super) fn t_r22_the_better_priority_is_used_while_it_lives() {
    let mut bench = Bench::new(&[N1]);
    bench.route("tcp5", R1, None, 1);
    bench.route("tcp5", R2, None, 0);
    assert_eq!(bench.hops(3, FAR), [R2; 3]);
    let routes = &mut bench.core.fabric_mut().routes;
    routes.gateway_mut(nid(R2)).unwrap().alive = false;
    assert_eq!(bench.hops(3, FAR), [R1; 3]);
}

#[test]
pub(super) fn t_r23_fewer_hops_are_better_and_none_count_as_one() {
    let mut bench = Bench::new(&[N1]);
    bench.route("tcp5", R1, Some(2), 0);
    bench.route("tcp5", R2, Some(1), 0);
    assert_eq!(bench.hops(3, FAR), [R2; 3]);
    bench.route("tcp5", "10.0.0.7@tcp", None, 0);
    let mut hops = bench.hops(4, FAR);
    hops.sort();
    hops.dedup();
    assert_eq!(hops, ["10.0.0.7@tcp", R2]);
}

#[test]
pub(super) fn t_r24_equal_routes_take_turns() {
    let hops = two_gateways().hops(4, FAR);
    assert_eq!(hops[..2], hops[2..]);
    assert_ne!(hops[0], hops[1]);
}

#[test]
pub(super) fn t_r25_of_equal_routes_the_healthier_gateway_is_used() {
    let mut bench = two_gateways();
    bench.set_health(R1, 900);
    assert_eq!(bench.hops(3, FAR), [R2; 3]);
    bench.set_health(R2, 800);
    assert_eq!(bench.hops(3, FAR), [R1; 3]);
}

// [DATA-5]
#[test]
pub(super) fn t_r26_a_reply_goes_back_over_the_router_its_request_came_by() {
    let mut net = Net::routed(RouterBuffers::default());
    seconds(&mut net, 1);
    // A second router would be next in turn.
    net.add_configured(
        CoreConfig {
            routing: true,
            ..net::config(9)
        },
        &["10.0.0.7@tcp", "10.1.0.7@tcp1"],
    );
    net.route(2, "tcp", "10.1.0.7@tcp1");
    seconds(&mut net, 1);
    net.attach(2, any_me(), open_md(8));
    net.keep_answers = true;
    for _ in 0..4 {
        net.get(0, 4, "10.1.0.2@tcp1");
    }
    net.run();
    for _ in 0..4 {
        net.answer(0, MessageStatus::Ok);
        net.answer(1, MessageStatus::Ok);
    }
    let replies: Vec<_> = net.nodes[2]
        .kept
        .iter()
        .map(|transmit| transmit.to.nid)
        .collect();
    assert_eq!(replies, [nid("10.1.0.9@tcp1"); 4]);
}

#[test]
pub(super) fn t_r27_what_comes_through_a_router_that_is_not_ours_is_dropped() {
    let mut net = Net::routed(RouterBuffers::default());
    seconds(&mut net, 1);
    let now = net.now;
    let globals = Globals {
        drop_asym_route: true,
        ..net::globals()
    };
    net.core(2).set_globals(globals, now);
    net.attach(2, any_me(), open_md(8));
    net.put(0, b"x", false, "10.1.0.2@tcp1");
    net.run();
    assert_eq!(net.kinds(2), [EventKind::Put]);
    net.core(2)
        .remove_route(net_of("tcp"), nid("10.1.0.9@tcp1"))
        .unwrap();
    net.put(0, b"x", false, "10.1.0.2@tcp1");
    net.run();
    assert_eq!(
        net.core(2).counters().dropped(DropReason::AsymmetricRoute),
        1
    );
}

#[test]
pub(super) fn t_r28_a_message_through_a_dead_gateway_revives_it_at_once() {
    let mut bench = two_gateways();
    for gateway in [R1, R2] {
        let routes = &mut bench.core.fabric_mut().routes;
        routes.gateway_mut(nid(gateway)).unwrap().alive = false;
    }
    assert_eq!(bench.refused(None, FAR), Errno::EHOSTUNREACH);
    bench.hear_from(FAR, R1, N1);
    assert_eq!(bench.hops(2, FAR), [R1; 2]);
}

#[test]
pub(super) fn t_r29_a_net_that_routes_lead_to_cannot_become_local() {
    let mut bench = two_gateways();
    let config = NiConfig {
        nid: nid("10.5.0.77@tcp5"),
        tunables: Tunables::default(),
    };
    let error = bench.core.add_ni(config, bench.now).unwrap_err();
    assert_eq!(error.errno(), Errno::EUSERS);
}

#[test]
pub(super) fn t_r30_routes_that_make_no_sense_are_refused() {
    for (net, gateway, hops, errno) in [
        ("tcp6", R1, Some(0), Errno::EINVAL),
        ("tcp", R1, None, Errno::EEXIST),
        ("tcp6", "10.6.0.1@tcp6", None, Errno::EINVAL),
        ("tcp5", R1, None, Errno::EEXIST),
        ("tcp6", "0@lo", None, Errno::EINVAL),
    ] {
        assert_eq!(refused(net, gateway, hops), errno, "{net} via {gateway}");
    }
}

#[test]
pub(super) fn t_r30_a_second_route_over_another_interface_of_the_same_gateway_is_refused() {
    let mut bench = Bench::new(&[N1]);
    bench.peer(&[R1, R2]);
    bench.route("tcp5", R1, None, 0);
    let route = Route {
        net: net_of("tcp5"),
        gateway: nid(R2),
        hops: None,
        priority: 0,
    };
    let error = bench.core.add_route(route, bench.now).unwrap_err();
    assert_eq!(error.errno(), Errno::EEXIST);
}

#[test]
pub(super) fn the_ping_of_a_gateway_is_sent_again_from_another_interface() {
    let interval = |globals: &mut Globals| {
        globals.alive_router_check_interval = Duration::from_secs(60);
    };
    let mut bench = Bench::new(&[N1, N2]).with(interval);
    let route = Route {
        net: net_of("tcp5"),
        gateway: nid(R1),
        hops: None,
        priority: 0,
    };
    bench.core.add_route(route, bench.now).unwrap();
    let bench::Step::Sent(first) = bench.step() else {
        panic!("no ping")
    };
    let second = bench.retried(&first, MessageStatus::LocalDropped);
    assert_ne!(second.ni, first.ni);
    assert_eq!(second.to.nid, nid(R1));
    assert!(bench.core.routes().all(|route| route.alive));
}

#[test]
pub(super) fn t_r28_the_interfaces_of_a_dead_gateway_are_down_and_those_towards_the_source_up_again()
 {
    let mut net = unrouted(true, false);
    net.route(0, "tcp1", "10.0.0.9@tcp");
    net.route(2, "tcp", "10.1.0.9@tcp1");
    let gateway = [nid("10.0.0.9@tcp"), nid("10.1.0.9@tcp1")];
    net.core(0).add_peer(gateway[0], &gateway, false).unwrap();
    seconds(&mut net, 20);
    let up = |net: &mut Net| {
        gateway.map(|nid| net.core(0).fabric().peers.by_nid(nid).unwrap().status_up)
    };
    assert_eq!(up(&mut net), [true, true]);
    net.nodes[1].alive = false;
    seconds(&mut net, 12);
    assert_eq!(up(&mut net), [false, false]);
    let now = net.now;
    net.core(0)
        .fabric_mut()
        .revive_gateway(gateway[0], net_of("tcp1"), now);
    assert_eq!(up(&mut net), [true, true]);
    assert!(route_alive(&mut net, 0));
}

#[test]
pub(super) fn a_route_over_a_known_gateway_is_probed_at_once() {
    let interval = |globals: &mut Globals| {
        globals.alive_router_check_interval = Duration::from_secs(60);
    };
    let mut bench = Bench::new(&[N1]).with(interval);
    bench.route("tcp5", R1, None, 0);
    let failed = MessageStatus::RemoteError;
    assert_eq!(bench.wait(0, failed).len(), 1);
    bench.route("tcp6", R1, None, 0);
    assert_eq!(bench.wait(0, failed).len(), 1);
}

/// Creates a client, two routers and a server; W is 10 seconds.
fn two_routers() -> Net {
    let globals = Globals {
        alive_router_check_interval: Duration::from_secs(5),
        router_ping_timeout: Duration::from_secs(5),
        ..net::globals()
    };
    let config = |cookie, routing| CoreConfig {
        routing,
        globals,
        ..net::config(cookie)
    };
    let mut net = Net::new();
    net.add_configured(config(1, false), &["10.0.0.1@tcp"]);
    net.add_configured(config(2, true), &["10.0.0.8@tcp", "10.1.0.8@tcp1"]);
    net.add_configured(config(3, true), &["10.0.0.9@tcp", "10.1.0.9@tcp1"]);
    net.add_configured(config(4, false), &["10.1.0.2@tcp1"]);
    for gateway in ["10.0.0.8@tcp", "10.0.0.9@tcp"] {
        net.route(0, "tcp1", gateway);
    }
    for gateway in ["10.1.0.8@tcp1", "10.1.0.9@tcp1"] {
        net.route(3, "tcp", gateway);
    }
    net.attach(3, any_me(), open_md(8));
    net
}

/// Sends messages with ACK, several per second, for this many seconds. Returns how many were acknowledged and sent.
fn load(net: &mut Net, seconds: u64) -> (usize, usize) {
    let (mut acks, mut sent) = (0, 0);
    for _ in 0..seconds * 4 {
        net.put(0, b"x", true, "10.1.0.2@tcp1");
        sent += 1;
        net.advance(Duration::from_millis(250));
        let kinds = net.kinds(0);
        acks += kinds.iter().filter(|kind| **kind == EventKind::Ack).count();
    }
    (acks, sent)
}

fn dropped(net: &mut Net) -> u64 {
    (0..4)
        .map(|node| net.core(node).counters().drop_count)
        .sum()
}

#[test]
pub(super) fn t_r15_routing_that_goes_off_and_on_under_load_drops_nothing() {
    let mut net = two_routers();
    seconds(&mut net, 12);
    let state = |net: &mut Net| net.core(1).routing();
    let now = net.now;
    net.core(1).stop_routing(now);
    assert_eq!(state(&mut net), RoutingState::Stopping);
    let (acks, sent) = load(&mut net, 40);
    assert_eq!(acks, sent);
    assert_eq!(state(&mut net), RoutingState::Off);
    let alive = |net: &mut Net| net.core(0).routes().filter(|route| route.alive).count();
    assert_eq!(alive(&mut net), 1);
    let carried = net.core(1).counters().route_count;
    let now = net.now;
    net.core(1).start_routing(now);
    assert_eq!(state(&mut net), RoutingState::Starting);
    let (acks, sent) = load(&mut net, 9);
    assert_eq!((acks, alive(&mut net)), (sent, 1));
    assert_eq!(state(&mut net), RoutingState::Starting);
    let (acks, sent) = load(&mut net, 31);
    assert_eq!((acks, alive(&mut net)), (sent, 2));
    assert_eq!(state(&mut net), RoutingState::On);
    assert!(
        net.core(1).counters().route_count > carried,
        "it is used again"
    );
    assert_eq!(dropped(&mut net), 0);
}

#[test]
fn a_router_that_stops_waits_for_its_buffers_but_not_for_ever() {
    let mut net = two_routers();
    seconds(&mut net, 12);
    net.keep_answers = true;
    for _ in 0..2 {
        net.put(0, b"x", false, "10.1.0.2@tcp1");
    }
    net.run();
    while net.answer(0, MessageStatus::Ok).is_some() {}
    let now = net.now;
    for router in [1, 2] {
        net.core(router).stop_routing(now);
    }
    seconds(&mut net, 15);
    // The second router completes the messages that it holds, the first router never does.
    while net.answer(2, MessageStatus::Ok).is_some() {}
    seconds(&mut net, 2);
    assert_eq!(net.core(1).routing(), RoutingState::Stopping);
    assert_eq!(net.core(2).routing(), RoutingState::Off);
    seconds(&mut net, 12);
    assert_eq!(net.core(1).routing(), RoutingState::Stopping);
    seconds(&mut net, 1);
    assert_eq!(net.core(1).routing(), RoutingState::Off);
}

#[test]
fn a_router_that_stops_may_start_again_and_the_other_way_round() {
    let mut bench = Bench::new(&[R1, "10.5.0.8@tcp5"]);
    let now = bench.now;
    bench.core.start_routing(now);
    bench.core.stop_routing(now);
    assert_eq!(bench.core.routing(), RoutingState::Stopping);
    bench.core.start_routing(now);
    assert_eq!(bench.core.routing(), RoutingState::Starting);
    bench.core.set_routing(false, now);
    assert_eq!(bench.core.routing(), RoutingState::Off);
    bench.wait(200, MessageStatus::Ok);
    assert_eq!(bench.core.routing(), RoutingState::Off, "no timer is left");
}

/// Two rails with a gateway each.
fn two_rails() -> Bench {
    let mut bench = Bench::new(&[N1, "10.1.0.1@tcp1"]);
    bench.route("tcp5", R1, None, 0);
    bench.route("tcp5", "10.1.0.9@tcp1", None, 1);
    bench
}

fn cut(bench: &mut Bench, text: &str) {
    let (ni, now) = (bench.ni(text).id, bench.now);
    bench.core.set_ni_fatal(ni, true, now);
}

#[test]
fn a_gateway_behind_a_link_that_is_down_carries_nothing_while_there_is_another() {
    let mut bench = two_rails();
    assert_eq!(bench.hops(2, FAR), [R1, R1]);
    cut(&mut bench, N1);
    assert_eq!(bench.hops(2, FAR), ["10.1.0.9@tcp1", "10.1.0.9@tcp1"]);
    let hints = SendHints {
        avoid: Some(nid("10.1.0.9@tcp1")),
        ..SendHints::default()
    };
    let Step::Sent(sent) = bench.start(None, FAR, hints) else {
        panic!("not sent")
    };
    let hop = bench.pair(&sent).1;
    assert_eq!(hop, "10.1.0.9@tcp1", "better an unwanted one than none");
    bench.answer(&sent, MessageStatus::Ok);
    cut(&mut bench, "10.1.0.1@tcp1");
    assert_eq!(bench.hops(2, FAR), [R1, R1], "all links are down");
}

#[test]
fn a_kernel_takes_a_gateway_whatever_is_known_of_its_own_links() {
    let mut bench = two_rails().with(LUSTRE);
    cut(&mut bench, N1);
    assert_eq!(bench.hops(2, FAR), [R1, R1]);
}
