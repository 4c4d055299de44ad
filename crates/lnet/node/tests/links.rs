//! Tests that the state of links in the operating system reaches the interfaces of a running node.
//!
//! Each test runs in its own network namespace, and is skipped with a message if it cannot create a namespace.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use lnet_node::{EventQueue, Node, NodeOptions};
use nix::sched::{CloneFlags, unshare};

use common::{PATIENCE, start_so};

/// The NIDs on the two rails.
const NIDS: [&str; 2] = ["10.77.0.1@tcp", "10.77.1.1@tcp1"];

#[test]
fn w4_an_interface_is_down_while_its_link_is_and_comes_back_with_it() {
    in_a_network(|| {
        let node = node();
        let queue = node.event_queue();
        until(&queue, "both rails have their carrier", || {
            up(&node) == [true, true]
        });

        ip("link set other0 down");
        until(&queue, "the first rail is down", || {
            up(&node) == [false, true]
        });

        ip("link set other0 up");
        until(&queue, "the first rail is up again", || {
            up(&node) == [true, true]
        });
    });
}

#[test]
fn w4_a_link_that_is_down_when_the_node_starts_is_known() {
    in_a_network(|| {
        ip("link set other1 down");
        let node = node();
        until(&node.event_queue(), "the second rail is down", || {
            !up(&node)[1]
        });
    });
}

#[test]
fn w4_an_interface_that_disappears_is_down() {
    in_a_network(|| {
        let node = node();
        let queue = node.event_queue();
        until(&queue, "the second rail is up", || up(&node)[1]);
        ip("link delete rail1");
        until(&queue, "the second rail is down", || !up(&node)[1]);
    });
}

/// As in the kernel's socklnd, a removed address is a fatal error until the address is back.
#[test]
fn an_interface_is_down_while_its_address_is_gone() {
    in_a_network(|| {
        let node = node();
        let queue = node.event_queue();
        until(&queue, "both rails have their carrier", || {
            up(&node) == [true, true]
        });
        ip("address del 10.77.0.1/24 dev rail0");
        until(&queue, "the first rail is down", || {
            up(&node) == [false, true]
        });
        ip("address add 10.77.0.1/24 dev rail0");
        until(&queue, "the first rail is up again", || {
            up(&node) == [true, true]
        });
    });
}

fn node() -> Node {
    start_so(&NIDS, &[], NodeOptions::default())
}

/// Returns whether each interface except loopback is up.
fn up(node: &Node) -> Vec<bool> {
    let nis = node.stats().nis;
    let of_rails = nis.iter().filter(|ni| !ni.nid.ends_with("@lo"));
    of_rails.map(|ni| ni.up).collect()
}

/// Waits until `is_so`. No event ever comes from the queue: the wait lets the node make progress.
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

/// A namespace belongs to one thread and to the threads that it starts: the test's own thread keeps its network.
fn in_a_network(act: fn()) {
    std::thread::spawn(move || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("skipped: no network namespace: {error}");
            return;
        }
        for rail in ["0", "1"] {
            ip(&format!(
                "link add rail{rail} type veth peer name other{rail}"
            ));
            ip(&format!("address add 10.77.{rail}.1/24 dev rail{rail}"));
            ip(&format!("link set rail{rail} up"));
            ip(&format!("link set other{rail} up"));
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
