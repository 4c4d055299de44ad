//! Tests messages between real nodes over real sockets: they arrive unchanged and without a copy.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::time::{Duration, Instant};

use lnet_node::{
    AcceptMode, Errno, EventKind, GetRequest, Globals, MatchEntry, Md, MdHandle, MdOptions, Node,
    NodeOptions, PutRequest, WaitError,
};
use lnet_types::ProcessId;

use common::{PATIENCE, expect, next, nid, route, start, start_caller, start_router, start_so};

const PORTAL: u32 = 40;
const BITS: u64 = 0x1234_5678_9ABC_DEF0;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 % 251) as u8).collect()
}

/// Puts `data` from one node to another and returns the bytes that arrived.
fn put_and_take(from: &Node, to: &Node, data: &[u8]) -> Vec<u8> {
    let arrivals = to.event_queue();
    let room = Md::sink(vec![0; data.len()])
        .options(MdOptions::OP_PUT)
        .threshold(1);
    to.attach(&arrivals, MatchEntry::exact(PORTAL, BITS), room)
        .unwrap();

    let departures = from.event_queue();
    let md = from
        .bind(&departures, Md::source(data.to_vec()).threshold(2))
        .unwrap();
    from.put(PutRequest {
        md,
        ack: true,
        source: None,
        target: ProcessId::lustre(to.primary_nid()),
        portal: PORTAL,
        match_bits: BITS,
        offset: 0,
        hdr_data: 77,
    })
    .unwrap();
    let arrived = expect(&arrivals, EventKind::Put);
    assert_eq!(arrived.event.hdr_data, 77);
    assert_eq!(arrived.event.mlength as usize, data.len());
    let acked = expect(&departures, EventKind::Ack);
    assert_eq!(acked.event.mlength as usize, data.len());
    arrived.memory.unwrap().into_vec()
}

/// Gets `data` from the node that offers it into the other node.
fn offer_and_get(server: &Node, client: &Node, data: &[u8]) -> Vec<u8> {
    let offered = server.event_queue();
    let md = Md::source(data.to_vec())
        .options(MdOptions::OP_GET)
        .threshold(1);
    server
        .attach(&offered, MatchEntry::exact(PORTAL, BITS), md)
        .unwrap();

    let fetched = client.event_queue();
    let md = client
        .bind(&fetched, Md::sink(vec![0; data.len()]).threshold(2))
        .unwrap();
    client
        .get(GetRequest {
            md,
            source: None,
            target: ProcessId::lustre(server.primary_nid()),
            portal: PORTAL,
            match_bits: BITS,
            offset: 0,
        })
        .unwrap();
    expect(&offered, EventKind::Get);
    loop {
        let event = next(&fetched);
        assert_eq!(event.event.status, Ok(()));
        if let Some(memory) = event.memory {
            return memory.into_vec();
        }
    }
}

const SIZES: [usize; 7] = [0, 1, 927, 928, 4096, 65_536, 1 << 20];

/// Moves data of every size from one node to the other with `carry`, and checks the bytes. The largest data follows
/// other large data and must not be copied.
fn every_size_arrives(from: &Node, to: &Node, carry: impl Fn(&Node, &Node, &[u8]) -> Vec<u8>) {
    let copied = || [from, to].map(|node| node.stats().socklnd.copied_payload_bytes);
    for length in SIZES {
        let before = copied();
        let data = pattern(length);
        assert_eq!(carry(from, to, &data), data, "{length} bytes");
        assert!(length < 1 << 20 || copied() == before, "copied");
    }
}

#[test]
fn a_put_lands_whole_and_is_acknowledged() {
    let port = testkit::port();
    let a = start(port, &["127.0.0.1@tcp"], &[]);
    let b = start(port, &["127.0.0.2@tcp"], &[]);
    every_size_arrives(&a, &b, put_and_take);
    assert_eq!(b.stats().drop_count, 0);
}

#[test]
fn a_get_fetches_what_is_offered() {
    let port = testkit::port();
    let a = start(port, &["127.0.0.1@tcp"], &[]);
    let b = start(port, &["127.0.0.2@tcp"], &[]);
    every_size_arrives(&a, &b, offer_and_get);
}

#[test]
fn a_router_forwards_in_both_directions() {
    let port = testkit::port();
    let router = start_router(port, &["127.0.0.2@tcp", "127.0.0.3@tcp1"]);
    let to_tcp1 = [route("tcp1", "127.0.0.2@tcp")];
    let client = start(port, &["127.0.0.1@tcp"], &to_tcp1);
    let to_tcp = [route("tcp", "127.0.0.3@tcp1")];
    let server = start(port, &["127.0.0.4@tcp1"], &to_tcp);
    for length in SIZES {
        let data = pattern(length);
        assert_eq!(
            put_and_take(&client, &server, &data),
            data,
            "{length} bytes there"
        );
        assert_eq!(
            put_and_take(&server, &client, &data),
            data,
            "{length} bytes back"
        );
        assert_eq!(
            offer_and_get(&server, &client, &data),
            data,
            "{length} bytes fetched"
        );
    }
    assert_eq!(router.stats().drop_count, 0);
    // A router counts a message after it has sent the message, so the client may already have it.
    testkit::eventually("the router has counted what it forwarded", || {
        router.stats().route_count >= 6 * SIZES.len() as u64
    });
    let reply = client.ping(nid("127.0.0.4@tcp1"), None, PATIENCE).unwrap();
    assert_eq!(reply.primary_nid, nid("127.0.0.4@tcp1"));
}

#[test]
fn a_node_reaches_itself_by_loopback_and_by_its_own_nid() {
    let port = testkit::port();
    let node = start(port, &["127.0.0.1@tcp"], &[]);
    let data = pattern(100_000);
    assert_eq!(put_and_take(&node, &node, &data), data);
    assert_eq!(offer_and_get(&node, &node, &data), data);
    let reply = node.ping(nid("0@lo"), None, PATIENCE).unwrap();
    assert_eq!(reply.primary_nid, nid("127.0.0.1@tcp"));
    assert_eq!(node.stats().socklnd.frames_out, 0, "nothing left the node");
}

#[test]
fn a_waiting_caller_drives_its_node() {
    let port = testkit::port();
    let server = start(port, &["127.0.0.1@tcp", "127.0.0.2@tcp1"], &[]);
    let caller = start_caller(port, &["127.0.0.3@tcp"]);
    let reply = caller.ping(nid("127.0.0.1@tcp"), None, PATIENCE).unwrap();
    let nids: Vec<String> = reply.nis.iter().map(|ni| ni.nid.to_string()).collect();
    assert_eq!(nids, ["127.0.0.1@tcp", "127.0.0.2@tcp1"]);
    drop(server);
}

#[test]
fn a_peer_that_is_not_there_fails_the_send() {
    let port = testkit::port();
    let node = start(port, &["127.0.0.1@tcp"], &[]);
    let queue = node.event_queue();
    let md = node
        .bind(&queue, Md::source(pattern(10)).threshold(1))
        .unwrap();
    node.put(PutRequest {
        md,
        ack: false,
        source: None,
        target: ProcessId::lustre(nid("127.0.0.9@tcp")),
        portal: PORTAL,
        match_bits: BITS,
        offset: 0,
        hdr_data: 0,
    })
    .unwrap();
    let event = next(&queue);
    assert_eq!(event.event.kind, EventKind::Send);
    assert_eq!(event.event.status, Err(Errno::EHOSTUNREACH));
    assert_eq!(
        event.memory.unwrap().as_slice(),
        pattern(10),
        "the memory is given back"
    );
}

#[test]
fn a_put_that_nobody_takes_times_out_and_gives_its_memory_back() {
    let port = testkit::port();
    let options = NodeOptions {
        port,
        globals: Globals {
            transaction_timeout: Duration::from_secs(1),
            retry_count: 0,
            ..Globals::default()
        },
        ..NodeOptions::default()
    };
    let a = start_so(&["127.0.0.1@tcp"], &[], options);
    let b = start(port, &["127.0.0.2@tcp"], &[]);
    let queue = a.event_queue();
    let md = a
        .bind(&queue, Md::source(pattern(10)).threshold(2))
        .unwrap();
    a.put(PutRequest {
        md,
        ack: true,
        source: None,
        target: ProcessId::lustre(b.primary_nid()),
        portal: PORTAL,
        match_bits: BITS,
        offset: 0,
        hdr_data: 0,
    })
    .unwrap();
    expect(&queue, EventKind::Send);
    let timeout = next(&queue);
    assert_eq!(timeout.event.kind, EventKind::Timeout);
    let last = next(&queue);
    assert!(last.event.unlinked);
    assert_eq!(last.memory.unwrap().as_slice(), pattern(10));
    assert_eq!(
        b.stats().drops.get("no_match"),
        Some(&1),
        "the drop is counted with its reason"
    );
}

#[test]
fn shutdown_ends_the_queues_and_refuses_new_calls() {
    let port = testkit::port();
    let a = start(port, &["127.0.0.1@tcp"], &[]);
    let queue = a.event_queue();
    assert!(a.shutdown(Duration::from_secs(5)).clean);
    assert_eq!(queue.wait(Some(PATIENCE)).unwrap_err(), WaitError::Closed);
    assert!(a.bind(&queue, Md::sink(vec![0; 1])).is_err());
    assert_eq!(a.event_queue().wait(None).unwrap_err(), WaitError::Closed);
    // The port is free again after the shutdown.
    drop(start(port, &["127.0.0.1@tcp"], &[]));
}

#[test]
fn of_two_waiting_callers_each_is_served_and_times_out_by_itself() {
    let port = testkit::port();
    let server = start(port, &["127.0.0.1@tcp"], &[]);
    let caller = start_caller(port, &["127.0.0.3@tcp"]);
    std::thread::scope(|scope| {
        let forever = caller.event_queue();
        let waiter = scope.spawn(move || forever.wait(None).unwrap_err());
        let begun = Instant::now();
        let short = caller.event_queue();
        let waited = short.wait(Some(Duration::from_millis(20)));
        assert_eq!(waited.unwrap_err(), WaitError::TimedOut);
        for _ in 0..20 {
            caller.ping(server.primary_nid(), None, PATIENCE).unwrap();
        }
        assert!(caller.shutdown(PATIENCE).clean);
        assert!(begun.elapsed() < PATIENCE);
        assert_eq!(waiter.join().unwrap(), WaitError::Closed);
    });
}

#[test]
fn a_caller_that_only_looks_drives_its_node_too() {
    let port = testkit::port();
    let server = start(port, &["127.0.0.1@tcp"], &[]);
    let caller = start_caller(port, &["127.0.0.3@tcp"]);
    let queue = caller.event_queue();
    let md = Md::source(pattern(10)).threshold(1);
    let md = caller.bind(&queue, md).unwrap();
    let target = ProcessId::lustre(server.primary_nid());
    caller.put(put_to(md, target)).unwrap();
    let pace = server.event_queue();
    // If a wait of zero length did not drive the node, the first turn would come only after 64 waits.
    let mut looks = 0;
    while queue.wait(Some(Duration::ZERO)).is_err() {
        looks += 1;
        assert!(looks < 60, "looking does not drive");
        assert!(pace.wait(Some(Duration::from_millis(2))).is_err());
    }
}

#[test]
fn a_shutdown_that_may_take_for_ever_ends_when_nothing_is_under_way() {
    let node = start(testkit::port(), &["127.0.0.1@tcp"], &[]);
    assert!(node.shutdown(Duration::MAX).clean);
}

#[test]
fn a_tool_that_goes_does_not_make_its_node_count_as_down() {
    let port = testkit::port();
    let routed = [route("tcp1", "127.0.0.2@tcp")];
    let router = start_router(port, &["127.0.0.2@tcp", "127.0.0.3@tcp1"]);
    let client = start(port, &["127.0.0.1@tcp"], &routed);
    let server = start(port, &["127.0.0.4@tcp1"], &[]);
    let options = NodeOptions {
        port,
        accept: Some(AcceptMode::None),
        one_shot: true,
        ..NodeOptions::default()
    };
    let tool = start_so(&["127.0.0.4@tcp1"], &[], options);
    tool.ping(nid("127.0.0.3@tcp1"), None, PATIENCE).unwrap();
    let closed = |router: &Node| router.stats().socklnd.closed.values().sum::<u64>();
    assert_eq!(closed(&router), 0);
    drop(tool);
    let begun = Instant::now();
    while closed(&router) == 0 {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::yield_now();
    }

    let queue = client.event_queue();
    let md = Md::source(pattern(10)).threshold(1);
    let md = client.bind(&queue, md).unwrap();
    let target = ProcessId::lustre(server.primary_nid());
    client.put(put_to(md, target)).unwrap();
    expect(&queue, EventKind::Send);
    let begun = Instant::now();
    while server.stats().drop_count == 0 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", router.stats().drops);
        std::thread::yield_now();
    }
    assert_eq!(router.stats().drop_count, 0);
}

/// Returns a PUT without ACK that matches no entry of the target.
fn put_to(md: MdHandle, target: ProcessId) -> PutRequest {
    PutRequest {
        md,
        ack: false,
        source: None,
        target,
        portal: PORTAL,
        match_bits: BITS,
        offset: 0,
        hdr_data: 0,
    }
}
