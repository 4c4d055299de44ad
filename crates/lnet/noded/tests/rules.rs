//! Tests rules that change while several threads send: each message follows the rules before or after the change, and
//! only the rules after it once the change is made.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use lnet_node::{
    EventKind, EventQueue, MatchEntry, Md, MdOptions, Node, NodeEvent, NodeOptions, PutRequest,
};
use lnet_noded::ManagedNode;
use lnet_policy::{Priority, Rule, RuleList};
use lnet_types::{Nid, ProcessId};

use common::{PATIENCE, nid};

const PORTAL: u32 = 40;
const SENDERS: u64 = 3;
const GENERATIONS: u64 = 100;

/// The only path that each list of rules allows: the local NID and the peer's NID.
const PATHS: [[&str; 2]; 2] = [
    ["127.0.0.1@tcp", "127.0.0.3@tcp"],
    ["127.0.0.2@tcp", "127.0.0.4@tcp"],
];

fn rules(generation: u64) -> RuleList {
    let [local, remote] = PATHS[generation as usize % 2];
    let mut rules = RuleList::new();
    let local = Rule::local(local.parse().unwrap(), Priority::BEST).unwrap();
    let remote = Rule::remote(remote.parse().unwrap(), Priority::BEST).unwrap();
    rules.add(local, None).unwrap();
    rules.add(remote, None).unwrap();
    rules
}

/// The number of changes of the rules that have begun and that are done, and the number of messages sent.
#[derive(Default)]
struct Changes {
    begun: AtomicU64,
    done: AtomicU64,
    sent: AtomicU64,
    over: AtomicBool,
}

/// The range of changes that may apply to a message: the number done before it was sent, and the number begun when it
/// had been sent.
type Window = (u64, u64);

/// Returns the next event; panics if none comes in time.
fn next(queue: &EventQueue) -> NodeEvent {
    queue.wait(Some(PATIENCE)).unwrap()
}

fn send(node: &Node, changes: &Changes, sender: u64) -> BTreeMap<u64, Window> {
    let departures = node.event_queue();
    let mut windows = BTreeMap::new();
    for number in 0.. {
        if changes.over.load(Ordering::SeqCst) {
            break;
        }
        let md = Md::source(Vec::new()).threshold(1);
        let md = node.bind(&departures, md).unwrap();
        let id = number * SENDERS + sender;
        let put = PutRequest {
            md,
            ack: false,
            source: None,
            target: ProcessId::lustre(nid("127.0.0.3@tcp")),
            portal: PORTAL,
            match_bits: 0,
            offset: 0,
            hdr_data: id,
        };
        let done = changes.done.load(Ordering::SeqCst);
        node.put(put).unwrap();
        let begun = changes.begun.load(Ordering::SeqCst);
        windows.insert(id, (done, begun));
        changes.sent.fetch_add(1, Ordering::SeqCst);
        let sent = next(&departures).event;
        assert_eq!((sent.kind, sent.status), (EventKind::Send, Ok(())));
    }
    windows
}

fn change_rules(node: &ManagedNode, changes: &Changes) {
    for generation in 1..=GENERATIONS {
        let list = rules(generation);
        changes.begun.store(generation, Ordering::SeqCst);
        node.set_rules(list);
        changes.done.store(generation, Ordering::SeqCst);
        // So many messages that at least one was begun and sent entirely under these rules.
        let enough = changes.sent.load(Ordering::SeqCst) + 2 * SENDERS;
        let begun = Instant::now();
        while changes.sent.load(Ordering::SeqCst) < enough && begun.elapsed() < PATIENCE {
            thread::yield_now();
        }
    }
    changes.over.store(true, Ordering::SeqCst);
}

/// Returns whether the path is allowed by a list that was in force within the window.
fn is_legal(path: [Nid; 2], (done, begun): Window) -> bool {
    let taken = PATHS.iter().position(|pair| pair.map(nid) == path);
    taken.is_some_and(|taken| (done..=begun).any(|generation| generation % 2 == taken as u64))
}

fn start(port: u16, nids: [&str; 2], rest: &str) -> ManagedNode {
    let [first, second] = nids;
    let net =
        format!("net:\n- net type: tcp\n  local NI(s):\n  - nid: {first}\n  - nid: {second}\n");
    let config = lnet_config::parse(&(net + rest)).unwrap();
    let options = NodeOptions {
        port,
        ..NodeOptions::default()
    };
    lnet_noded::start(&config, options).unwrap()
}

/// Starts a node, and another node that the first one knows as a Multi-Rail peer.
fn two_nodes() -> (ManagedNode, Node) {
    let port = testkit::port();
    // Discovery is off, because a message that waits for a discovery chooses its path after it was sent.
    let peer = "global: {discovery: 0}\npeer:\n- primary nid: 127.0.0.3@tcp\n  Multi-Rail: true\n  peer ni:\n  - nid: 127.0.0.3@tcp\n  - nid: 127.0.0.4@tcp\n";
    let node = start(port, ["127.0.0.1@tcp", "127.0.0.2@tcp"], peer);
    let other = start(port, ["127.0.0.3@tcp", "127.0.0.4@tcp"], "");
    (node, other.into_node())
}

#[test]
fn concurrent_senders_see_the_rules_before_or_after_a_change() {
    let (node, other) = two_nodes();
    let arrivals = other.event_queue();
    let room = Md::sink(Vec::new()).options(MdOptions::OP_PUT | MdOptions::TRUNCATE);
    other
        .attach(&arrivals, MatchEntry::exact(PORTAL, 0), room)
        .unwrap();
    node.set_rules(rules(0));
    let changes = Changes::default();
    let windows: BTreeMap<u64, Window> = thread::scope(|scope| {
        let (node, changes) = (&node, &changes);
        scope.spawn(move || change_rules(node, changes));
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| scope.spawn(move || send(node.node(), changes, sender)))
            .collect();
        let windows = senders.into_iter().map(|sender| sender.join().unwrap());
        windows.flatten().collect()
    });
    let mut taken = [0; 2];
    for _ in 0..windows.len() {
        let event = next(&arrivals).event;
        let path = [event.sender, event.target.nid];
        let window = windows[&event.hdr_data];
        assert!(is_legal(path, window), "{path:?} within {window:?}");
        taken[usize::from(path != PATHS[0].map(nid))] += 1;
    }
    for parity in 0..2 {
        let within = |(done, begun): &Window| done == begun && done % 2 == parity;
        assert!(windows.values().any(within), "{taken:?}");
    }
}

#[test]
fn a_path_outside_its_window_is_noticed() {
    let [first, second] = PATHS.map(|pair| pair.map(nid));
    assert!(is_legal(first, (0, 0)) && is_legal(second, (0, 1)));
    assert!(!is_legal(second, (0, 0)), "not changed yet");
    assert!(!is_legal(first, (1, 1)), "changed already");
    assert!(!is_legal([first[0], second[1]], (0, 9)), "half changed");
}

#[test]
fn rules_of_a_node_are_added_listed_and_deleted() {
    let (node, _other) = two_nodes();
    let rule = |text: &str| Rule::local(text.parse().unwrap(), Priority::BEST).unwrap();
    node.add_rule(rule("127.0.0.1@tcp"), None).unwrap();
    node.add_rule(rule("127.0.0.2@tcp"), Some(0)).unwrap();
    assert!(node.add_rule(rule("127.0.0.2@tcp"), None).is_err());
    assert_eq!(node.delete_rule(0).unwrap(), rule("127.0.0.2@tcp"));
    assert_eq!(node.rules().rules(), [rule("127.0.0.1@tcp")]);
    assert!(node.delete_rule(1).is_err());
}
