//! The traffic of our own nodes, captured on loopback. tshark's LNet dissector and `finerail dump` must agree,
//! message by message: type, NIDs, match bits, portal, lengths and cookies.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;
#[path = "../../lnet/capture/tests/common/tshark.rs"]
#[allow(dead_code, reason = "shared with the crate that it stands in")]
mod comparison;

use std::fs;
use std::path::Path;

use lnet_node::{
    EventKind, EventQueue, GetRequest, MatchEntry, Md, MdOptions, Node, NodeOptions, PutRequest,
};
use lnet_types::ProcessId;

use common::capture::Capture;
use common::process::{Process, run};
use common::site::{CLIENT, ROUTER, STORAGE, Site};
use common::{PATIENCE, finerail, pattern};
use comparison::{compare, has_tshark};

const PORTAL: u32 = 40;
const BITS: u64 = 0x1234_5678_9ABC_DEF0;

/// Lengths around the header, around a page, and of the longest message.
const SIZES: [usize; 8] = [0, 1, 927, 928, 4095, 4096, 65_536, 1 << 20];

fn node(site: &Site, name: &str) -> Node {
    let text = fs::read_to_string(site.path(format!("{name}.yaml"))).unwrap();
    let options = NodeOptions {
        port: site.port,
        ..NodeOptions::default()
    };
    let config = lnet_config::parse(&text).unwrap();
    lnet_noded::start(&config, options).unwrap().into_node()
}

/// Waits for these events, each a success. The answer to a message may arrive before the event of its send.
fn expect(queue: &EventQueue, kinds: &[EventKind]) {
    let mut missing = kinds.to_vec();
    while !missing.is_empty() {
        let event = queue.wait(Some(PATIENCE)).expect("an event comes").event;
        assert_eq!(event.status, Ok(()), "{event:?}");
        missing.retain(|kind| *kind != event.kind);
    }
}

fn put(from: &Node, to: &Node, length: usize, ack: bool) {
    let arrivals = to.event_queue();
    let room = Md::sink(vec![0; length])
        .options(MdOptions::OP_PUT)
        .threshold(1);
    to.attach(&arrivals, MatchEntry::exact(PORTAL, BITS), room)
        .unwrap();
    let departures = from.event_queue();
    let source = Md::source(pattern(length)).threshold(if ack { 2 } else { 1 });
    let md = from.bind(&departures, source).unwrap();
    let put = PutRequest {
        md,
        ack,
        source: None,
        target: ProcessId::lustre(to.primary_nid()),
        portal: PORTAL,
        match_bits: BITS,
        offset: 0,
        hdr_data: 0xFEED,
    };
    from.put(put).unwrap();
    let departed = [EventKind::Send, EventKind::Ack];
    expect(&departures, &departed[..1 + usize::from(ack)]);
    expect(&arrivals, &[EventKind::Put]);
}

fn get(client: &Node, server: &Node, length: usize) {
    let offered = server.event_queue();
    let source = Md::source(pattern(length))
        .options(MdOptions::OP_GET)
        .threshold(1);
    server
        .attach(&offered, MatchEntry::exact(PORTAL, BITS), source)
        .unwrap();
    let fetched = client.event_queue();
    let md = client
        .bind(&fetched, Md::sink(vec![0; length]).threshold(2))
        .unwrap();
    let get = GetRequest {
        md,
        source: None,
        target: ProcessId::lustre(server.primary_nid()),
        portal: PORTAL,
        match_bits: BITS,
        offset: 0,
    };
    client.get(get).unwrap();
    expect(&fetched, &[EventKind::Reply]);
}

/// Runs traffic under a capture. Both readers must agree on it and see at least `messages` messages, and
/// `finerail dump --strict` must report no error.
fn both_say_the_same(messages: usize, traffic: impl FnOnce(&Site)) {
    if !has_tshark() {
        return;
    }
    let site = Site::new();
    site.write_routed_nodes();
    let file = site.path("traffic.pcapng");
    let Some(capture) = Capture::of_loopback(site.port, &file) else {
        return;
    };
    traffic(&site);
    let file = capture.finish();
    let compared = compare(&file, site.port).unwrap_or_else(|why| panic!("{why:?}"));
    assert!(compared >= messages, "only {compared} messages");
    println!("{compared} messages");
    is_decoded_whole(&file, site.port);
}

fn is_decoded_whole(file: &Path, port: u16) {
    let port = port.to_string();
    let file = file.to_str().unwrap();
    let dumped = run(finerail(["dump", "--strict", "--port", &port, file])).expect_code(0);
    assert_eq!(dumped.err, "");
}

#[test]
fn puts_gets_and_pings_between_neighbours() {
    // For each size a PUT alone, a PUT and its ACK, a GET and its REPLY. For the ping a GET and a REPLY.
    both_say_the_same(5 * SIZES.len() + 2, |site| {
        // Start the client's gateway first: the client pings it at once, and does not retry a rejected connection at
        // once.
        let [b, a] = ["router", "client"].map(|name| node(site, name));
        for length in SIZES {
            put(&a, &b, length, false);
            put(&b, &a, length, true);
            get(&a, &b, length);
        }
        b.ping(CLIENT.parse().unwrap(), None, PATIENCE).unwrap();
    });
}

#[test]
fn messages_that_a_router_forwards() {
    // Each message is seen twice: before and behind the router.
    both_say_the_same(2 * (5 * SIZES.len() + 2), |site| {
        let [_router, a, b] = ["router", "client", "storage"].map(|name| node(site, name));
        for length in SIZES {
            put(&a, &b, length, true);
            put(&b, &a, length, false);
            get(&b, &a, length);
        }
        a.ping(STORAGE.parse().unwrap(), None, PATIENCE).unwrap();
    });
}

#[test]
fn the_programs_themselves_ping_and_carry_a_file() {
    // Two pings, and a file of three pieces in both directions, all through the router.
    both_say_the_same(2 * (2 + 3 + 3), |site| {
        let kept = site.path("kept");
        fs::create_dir(&kept).unwrap();
        let sent = site.write("sent", pattern((2 << 20) + 12_345));
        let back = site.path("back");
        let router = site.start_node("router");
        let mut serve = site.command("storage", &["store", "serve", "--identity", "server"]);
        serve.arg(kept);
        let storage = Process::start(serve);
        storage.wait_for_output("ready: ");
        site.ping(ROUTER[0], &[]).expect_code(0);
        run(site.command("client", &["ping", STORAGE])).expect_code(0);
        let sent = sent.to_str().unwrap();
        let stored = format!("lnet:{STORAGE}:/file");
        run(site.command("client", &["files", "put", sent, &stored])).expect_code(0);
        let fetch = ["files", "get", &stored, back.to_str().unwrap()];
        run(site.command("client", &fetch)).expect_code(0);
        assert!(
            fs::read(sent).unwrap() == fs::read(&back).unwrap(),
            "the file differs"
        );
        storage.stop().expect_code(0);
        router.stop().expect_code(0);
    });
}
