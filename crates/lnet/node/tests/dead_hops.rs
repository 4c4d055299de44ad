//! Tests, over real sockets, routers and next hops that cannot be dialled: which messages wait for them, and for how
//! long.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use lnet_node::{
    EventKind, EventQueue, MatchEntry, Md, MdOptions, Node, NodeOptions, PutRequest, Route,
};
use lnet_types::ProcessId;
use nix::sched::{CloneFlags, unshare};

use common::{PATIENCE, expect, nid, route, start, start_router};

const PORTAL: u32 = 40;
const BITS: u64 = 7;

/// Sends a few bytes and does not wait for the result.
fn send(from: &Node, queue: &EventQueue, target: &str, ack: bool) {
    let md = Md::source(vec![1; 8]).threshold(if ack { 2 } else { 1 });
    let md = from.bind(queue, md).unwrap();
    from.put(PutRequest {
        md,
        ack,
        source: None,
        target: ProcessId::lustre(nid(target)),
        portal: PORTAL,
        match_bits: BITS,
        offset: 0,
        hdr_data: 0,
    })
    .unwrap();
}

/// Returns a route by a gateway that is on the remote net itself.
fn single_hop(net: &str, gateway: &str) -> Route {
    Route {
        hops: Some(1),
        ..route(net, gateway)
    }
}

/// Accepts puts without limit.
fn serve(node: &Node) -> EventQueue {
    let queue = node.event_queue();
    let room = Md::sink(vec![0; 8]).options(MdOptions::OP_PUT | MdOptions::TRUNCATE);
    node.attach(&queue, MatchEntry::exact(PORTAL, BITS), room)
        .unwrap();
    queue
}

fn until(queue: &EventQueue, what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(
            begin.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        let _none = queue.wait(Some(Duration::from_millis(10)));
    }
}

fn dropped(node: &Node, reason: &str) -> u64 {
    node.stats().drops.get(reason).copied().unwrap_or(0)
}

/// A router tries once a next hop that does not accept connections. After that it drops messages for this hop at
/// once, until it hears from the hop; then it forwards again.
#[test]
fn a_router_drops_what_is_for_a_next_hop_that_refused_it_until_it_is_heard_of() {
    let port = testkit::port();
    let router = start_router(port, &["127.0.0.1@tcp", "127.0.0.2@tcp1"]);
    let there = [single_hop("tcp1", "127.0.0.1@tcp")];
    let client = start(port, &["127.0.0.3@tcp"], &there);
    let queue = client.event_queue();
    send(&client, &queue, "127.0.0.4@tcp1", false);
    until(&queue, "the router has tried", || {
        router.stats().socklnd.dial_failures.contains_key("refused")
    });
    for wanted in 1..=20 {
        send(&client, &queue, "127.0.0.4@tcp1", false);
        until(&queue, "it is dropped", || {
            dropped(&router, "next_hop_down") >= wanted
        });
    }
    let back = [single_hop("tcp", "127.0.0.2@tcp1")];
    let server = start(port, &["127.0.0.4@tcp1"], &back);
    let _arrivals = serve(&server);
    // The server pings its gateway, so the router hears from it.
    until(&queue, "the router hears of the server", || {
        server.stats().socklnd.connections_open > 0 && server.stats().recv_count > 0
    });
    let answers = client.event_queue();
    send(&client, &answers, "127.0.0.4@tcp1", true);
    expect(&answers, EventKind::Ack);
}

/// One of two gateways cannot be reached: no message is lost or delayed, and few messages try that gateway.
fn avoids_the_dead_one(port: u16, [client, dead, router, far, server]: [&str; 5]) {
    let _router = start_router(port, &[router, far]);
    let server_node = start(port, &[server], &[single_hop("tcp", far)]);
    let _arrivals = serve(&server_node);
    let both = [dead, router].map(|gateway| single_hop("tcp1", gateway));
    let client = start(port, &[client], &both);
    let answers = client.event_queue();
    for _ in 0..50 {
        send(&client, &answers, server, true);
        expect(&answers, EventKind::Ack);
    }
    let stats = client.stats();
    let failed: u64 = stats.socklnd.dial_failures.values().sum();
    assert!(failed >= 1, "the dead one was tried");
    assert!(
        stats.resend_count <= 5,
        "{} messages tried the dead one",
        stats.resend_count
    );
}

#[test]
fn a_gateway_that_refuses_is_left_for_the_other_one() {
    let nids = [
        "127.0.0.3@tcp",
        "127.0.0.9@tcp",
        "127.0.0.1@tcp",
        "127.0.0.2@tcp1",
        "127.0.0.4@tcp1",
    ];
    avoids_the_dead_one(testkit::port(), nids);
}

/// Runs in its own network namespace, in which one of the gateways is unreachable.
#[test]
fn a_gateway_that_is_unreachable_is_left_for_the_other_one() {
    in_a_network(|| {
        ip("route add unreachable 10.77.0.9/32");
        let nids = [
            "10.77.0.3@tcp",
            "10.77.0.9@tcp",
            "10.77.0.1@tcp",
            "10.77.0.2@tcp1",
            "10.77.0.4@tcp1",
        ];
        avoids_the_dead_one(NodeOptions::default().port, nids);
    });
}

/// A namespace belongs to one thread and to the threads that it starts.
fn in_a_network(act: fn()) {
    std::thread::spawn(move || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("skipped: no network namespace: {error}");
            return;
        }
        ip("link set lo up");
        for last in 1..=4 {
            ip(&format!("address add 10.77.0.{last}/32 dev lo"));
        }
        act();
    })
    .join()
    .unwrap();
}

fn ip(arguments: &str) {
    let ran = Command::new("ip").args(arguments.split(' ')).output();
    let ran = ran.unwrap_or_else(|error| panic!("ip {arguments}: {error}"));
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "ip {arguments}: {said}");
}
