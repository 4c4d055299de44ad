//! Tests a router with several I/O threads between clients that all send at the same time.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::thread;
use std::time::Duration;

use lnet_node::{EventKind, MatchEntry, Md, MdOptions, Node, NodeOptions, PutRequest};
use lnet_types::ProcessId;

use common::{expect, next, route, start, start_so};

const PORTAL: u32 = 40;
const CLIENTS: u64 = 4;
const MESSAGES: u64 = 8;
const LENGTH: usize = 1 << 20;

/// Returns the content of one message of a client; no two contents are equal.
fn content(client: u64, message: u64) -> Vec<u8> {
    let seed = (client * MESSAGES + message) as usize;
    (0..LENGTH)
        .map(|index| ((index + seed * 7) * 31 % 251) as u8)
        .collect()
}

fn bits(client: u64, message: u64) -> u64 {
    client << 32 | message
}

fn send_all(node: &Node, target: ProcessId, client: u64) {
    let events = node.event_queue();
    for message in 0..MESSAGES {
        let md = Md::source(content(client, message)).threshold(2);
        let md = node.bind(&events, md).unwrap();
        node.put(PutRequest {
            md,
            ack: true,
            source: None,
            target,
            portal: PORTAL,
            match_bits: bits(client, message),
            offset: 0,
            hdr_data: 0,
        })
        .unwrap();
    }
    for _ in 0..MESSAGES {
        expect(&events, EventKind::Ack);
    }
}

/// Returns the CPU time of each I/O thread of this process that the system lists, in nanoseconds.
fn io_thread_times() -> Vec<u64> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| {
            let path = task.ok()?.path();
            let name = fs::read_to_string(path.join("comm")).ok()?;
            let times = fs::read_to_string(path.join("schedstat")).ok()?;
            (name.trim() == "lnet-io").then(|| times.split(' ').next()?.parse().ok())?
        })
        .collect()
}

#[test]
fn several_io_threads_move_what_several_clients_send_and_every_byte_is_right() {
    let port = testkit::port();
    let options = NodeOptions {
        port,
        io_threads: 3,
        routing: true,
        ..NodeOptions::default()
    };
    let nids = ["127.0.0.2@tcp", "127.0.0.3@tcp1"];
    let router = start_so(&nids, &[], options);
    let to_tcp = [route("tcp", "127.0.0.3@tcp1")];
    let server = start(port, &["127.0.0.4@tcp1"], &to_tcp);
    let arrivals = server.event_queue();
    for client in 0..CLIENTS {
        for message in 0..MESSAGES {
            let room = Md::sink(vec![0; LENGTH])
                .options(MdOptions::OP_PUT)
                .threshold(1);
            let entry = MatchEntry::exact(PORTAL, bits(client, message));
            server.attach(&arrivals, entry, room).unwrap();
        }
    }
    let target = ProcessId::lustre(server.primary_nid());
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let nid = format!("127.0.0.{}@tcp", 10 + client);
            scope.spawn(move || {
                let to_tcp1 = [route("tcp1", "127.0.0.2@tcp")];
                let node = start(port, &[&nid], &to_tcp1);
                send_all(&node, target, client);
            });
        }
    });
    for _ in 0..CLIENTS * MESSAGES {
        let arrived = next(&arrivals);
        assert_eq!(arrived.event.status, Ok(()));
        let (client, message) = (
            arrived.event.match_bits >> 32,
            arrived.event.match_bits & 0xFFFF_FFFF,
        );
        let memory = arrived.memory.unwrap().into_vec();
        assert!(memory == content(client, message), "{client} {message}");
    }
    let times = io_thread_times();
    assert_eq!(times.len(), 2, "the driver has another name");
    assert!(times.iter().sum::<u64>() > 0, "they rested all the time");
    // The ACKs are forwarded too. The last ACK may arrive before the router has counted it.
    testkit::eventually("the router has counted every message", || {
        router.stats().route_count == 2 * CLIENTS * MESSAGES
    });
    assert_eq!(router.stats().drop_count, 0);
    let stats = router.stats().socklnd;
    assert!(stats.piped_payload_bytes > 0, "{stats:?}");
    assert!(router.shutdown(Duration::from_secs(30)).clean);
    // The system still lists a thread for a moment after it was joined.
    testkit::eventually("the I/O threads are gone", || io_thread_times().is_empty());
}
