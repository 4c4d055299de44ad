//! `finerail explain --node`: a running node makes the choices that were predicted for it.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::path::Path;

use lnet_core::PutRequest;
use lnet_dlc::Dlc;
use lnet_dlc::protocol::Request;
use lnet_node::{EventQueue, Md, Node, NodeOptions};
use lnet_noded::{ControlEndpoint, ControlOptions, ManagedNode};
use lnet_types::{Nid, ProcessId};
use serde_json::Value;

use common::process::run;
use common::{PATIENCE, finerail};

const HERE: [&str; 3] = ["127.0.0.1@tcp", "127.0.0.2@tcp", "127.0.0.3@tcp1"];
const THERE: [&str; 3] = ["127.0.0.4@tcp", "127.0.0.5@tcp", "127.0.0.6@tcp1"];

/// Number of messages that are predicted and then sent: enough for several rails to take many turns.
const SENDS: usize = 100;

/// The local NID and the destination NID of a message.
type Rail = (Nid, Nid);

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

fn node(nids: [&str; 3], peer: [&str; 3], port: u16) -> ManagedNode {
    let [a, b, c] = nids;
    let [d, e, f] = peer;
    let yaml = format!(
        "net:
- net type: tcp
  local NI(s): [{{nid: {a}}}, {{nid: {b}}}]
- net type: tcp1
  local NI(s): [{{nid: {c}}}]
peer:
- primary nid: {d}
  Multi-Rail: true
  peer ni: [{{nid: {d}}}, {{nid: {e}}}, {{nid: {f}}}]
udsp:
- idx: 0
  src: {a}
  dst: {e}
"
    );
    let options = NodeOptions {
        port,
        ..NodeOptions::default()
    };
    lnet_noded::start(&lnet_config::parse(&yaml).unwrap(), options).unwrap()
}

fn foretold(socket: &Path) -> Vec<Rail> {
    let socket = socket.to_str().unwrap();
    let words = ["explain", "--node", socket, "--to", THERE[0]];
    let ended = run(finerail(
        words.into_iter().chain(["--json", "--sends", "100"]),
    ));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    let explanation = &report["explanation"];
    assert_eq!(explanation["assumed"], Value::Array(Vec::new()));
    let picks = explanation["forecast"]["picks"].as_array().unwrap().iter();
    let end = |pick: &Value, end: &str| nid(pick["path"][end].as_str().unwrap());
    picks
        .map(|pick| (end(pick, "source"), end(pick, "destination")))
        .collect()
}

/// Sends a message, and finds out from the node's stamps which rail it used.
fn send(node: &Node, queue: &EventQueue, dlc: &mut Dlc) -> Rail {
    let md = Md::source(Vec::new()).threshold(1);
    let put = PutRequest {
        md: node.bind(queue, md).unwrap(),
        ack: false,
        source: None,
        target: ProcessId::lustre(nid(THERE[0])),
        portal: 9,
        match_bits: 0,
        offset: 0,
        hdr_data: 0,
    };
    node.put(put).unwrap();
    let event = queue.wait(Some(PATIENCE)).unwrap().event;
    event.status.unwrap();
    let text = dlc.request(&Request::SelectionState).unwrap();
    let (state, _) = lnet_core::state_json::from_json(&text).unwrap();
    let peer = &state.peers[0];
    let used = state.nis.iter().find(|ni| ni.sequence == state.sequence);
    let mut peer_nis = state
        .peer_nis
        .iter()
        .filter(|ni| peer.nids.contains(&ni.nid));
    let reached = peer_nis.find(|ni| ni.sequence == peer.sequence);
    (used.unwrap().nid, reached.unwrap().nid)
}

#[test]
fn the_next_hundred_messages_of_a_running_node_take_the_rails_that_were_foretold() {
    let port = testkit::port();
    let (managed, theirs) = (node(HERE, THERE, port), node(THERE, HERE, port));
    let ours = managed.node();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let options = ControlOptions { path, group: None };
    let control = ControlEndpoint::open(&managed, &options).unwrap();
    let mut dlc = Dlc::connect(control.path()).unwrap();
    let queue = ours.event_queue();
    // Create stamps that a fresh node does not have: one rail is used more than the others, and all
    // rails have answers.
    for (from, to) in [(0, 0), (2, 2), (1, 0), (0, 1), (0, 0)] {
        ours.ping(nid(THERE[to]), Some(nid(HERE[from])), PATIENCE)
            .unwrap();
    }
    for _ in 0..7 {
        send(ours, &queue, &mut dlc);
    }
    let foretold = foretold(control.path());
    let taken: Vec<Rail> = (0..SENDS).map(|_| send(ours, &queue, &mut dlc)).collect();
    assert_eq!(taken, foretold);
    let rails: std::collections::BTreeSet<Rail> = taken.into_iter().collect();
    assert!(rails.len() > 2, "several rails: {rails:?}");
    drop(control);
    drop(theirs);
}

#[test]
fn a_peer_is_multi_rail_since_it_said_so_and_single_rail_for_a_reason() {
    let port = testkit::port();
    let start = |yaml: &str| {
        let options = NodeOptions {
            port,
            ..NodeOptions::default()
        };
        lnet_noded::start(&lnet_config::parse(yaml).unwrap(), options).unwrap()
    };
    let two = |a: &str, b: &str| {
        format!("net:\n- net type: tcp\n  local NI(s): [{{nid: {a}}}, {{nid: {b}}}]\n")
    };
    let managed = start(&two(HERE[0], HERE[1]));
    let _there = start(&two(THERE[0], THERE[1]));
    let single = "127.0.0.7@tcp";
    let off = format!("net:\n- net type: tcp\n  local NI(s): [{{nid: {single}}}]\n");
    let _off = start(&(off + "global: {discovery: 0}\n"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let options = ControlOptions { path, group: None };
    let control = ControlEndpoint::open(&managed, &options).unwrap();
    let socket = control.path().to_str().unwrap();
    let why = |to: &str| {
        let ended = run(finerail([
            "explain", "--node", socket, "--to", to, "--json",
        ]));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
        let report: Value = serde_json::from_str(&ended.out).unwrap();
        let kind = &report["explanation"]["classification"]["kind"];
        kind.as_str().unwrap().to_owned()
    };
    assert!(
        why(THERE[0])
            .ends_with("it was never discovered; the first message to it waits for its discovery")
    );
    managed.node().discover(nid(THERE[1]), PATIENCE).unwrap();
    let told = why(THERE[1]);
    assert!(
        told.contains("Multi-Rail: 127.0.0.5@tcp belongs to peer 127.0.0.4@tcp; it "),
        "{told}"
    );
    assert!(told.ends_with(" s ago with 2 interfaces"), "{told}");
    managed.node().discover(nid(single), PATIENCE).unwrap();
    let told = why(single);
    assert!(
        told.ends_with("s ago that it is not (features 0x6)"),
        "{told}"
    );
    let configured = managed.node().with_engine(|engine, _| {
        let nids = [nid("127.0.0.9@tcp")];
        engine.core_mut().add_peer(nid(single), &nids, true)
    });
    configured.unwrap();
    let told = why(single);
    let of = "Multi-Rail: 127.0.0.7@tcp belongs to peer 127.0.0.7@tcp; an administrator has configured it so; it ";
    assert!(told.contains(of), "{told}");
    assert!(told.ends_with(" (features 0x6)"), "{told}");
    let nobody = "127.0.0.8@tcp";
    let failed = managed.node().discover(nid(nobody), PATIENCE);
    assert!(failed.is_err());
    let told = why(nobody);
    assert!(told.contains("its last discovery failed: "), "{told}");
}

#[test]
fn something_else_than_a_node_at_the_socket_is_bad_input() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nobody.sock");
    let words = [
        "explain",
        "--node",
        path.to_str().unwrap(),
        "--to",
        THERE[0],
    ];
    let ended = run(finerail(words));
    assert_eq!(ended.status.code(), Some(2));
    assert!(
        ended.err.contains("no node is controlled at"),
        "{}",
        ended.err
    );
}
