//! Tests a driver that polls for work before it sleeps.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::time::Duration;

use lnet_node::{EventKind, MatchEntry, Md, MdOptions, Node, NodeOptions, Progress, PutRequest};
use lnet_types::ProcessId;

use common::{expect, start_so};

const PORTAL: u32 = 40;
const BITS: u64 = 7;

fn node(port: u16, nid: &str, progress: Progress) -> Node {
    let options = NodeOptions {
        port,
        progress,
        // Far longer than the test runs: the driver never sleeps.
        spin: Duration::from_secs(3600),
        ..NodeOptions::default()
    };
    start_so(&[nid], &[], options)
}

/// Sends PUTs with ACK, one after the other.
fn exchange(from: &Node, to: &Node) {
    let arrivals = to.event_queue();
    let room = Md::sink(vec![0; 64]).options(MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE);
    to.attach(&arrivals, MatchEntry::exact(PORTAL, BITS), room)
        .unwrap();
    let events = from.event_queue();
    let md = from.bind(&events, Md::source(vec![1; 64])).unwrap();
    for _ in 0..20 {
        from.put(PutRequest {
            md,
            ack: true,
            source: None,
            target: ProcessId::lustre(to.primary_nid()),
            portal: PORTAL,
            match_bits: BITS,
            offset: 0,
            hdr_data: 0,
        })
        .unwrap();
        expect(&events, EventKind::Ack);
    }
}

/// Returns the CPU time of this process's drivers, in nanoseconds.
fn driver_time() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let time = |task: fs::DirEntry| -> Option<u64> {
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        let times = fs::read_to_string(task.path().join("schedstat")).ok()?;
        (name.trim() == "lnet").then(|| times.split(' ').next()?.parse().ok())?
    };
    tasks.filter_map(|task| time(task.ok()?)).sum()
}

#[test]
fn a_driver_that_spins_hears_the_network_other_threads_and_the_end() {
    let port = testkit::port();
    let near = node(port, "127.0.0.2@tcp", Progress::Thread);
    let far = node(port, "127.0.0.3@tcp", Progress::Thread);
    exchange(&near, &far);
    // A driver that sleeps takes some 20 µs of CPU time per second.
    let before = driver_time();
    testkit::eventually("the drivers look although nothing happens", || {
        driver_time() > before + 20_000_000
    });
    assert!(near.shutdown(Duration::from_secs(30)).clean);
    assert!(far.shutdown(Duration::from_secs(30)).clean);
}

#[test]
fn a_caller_that_spins_drives_its_node() {
    let port = testkit::port();
    let near = node(port, "127.0.0.2@tcp", Progress::Caller);
    let far = node(port, "127.0.0.3@tcp", Progress::Thread);
    exchange(&near, &far);
    assert!(near.shutdown(Duration::from_secs(30)).clean);
}
