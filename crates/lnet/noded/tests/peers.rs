//! Measures the cost of 100,000 peers. This file has only one test, because the test measures its own process.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::fs;

use lnet_config::PeerConfig;
use lnet_node::NodeOptions;
use lnet_types::{Net, Nid};

const PEERS: u32 = 100_000;
const LIMIT_KIB: u64 = 200 << 10;

/// Returns the resident memory of this process in KiB.
fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap().trim_end_matches("kB").trim().parse().unwrap()
}

/// The configuration of a node with two nets and rules of every kind that concerns peers.
const CONFIG: &str = "net:
- net type: tcp
  local NI(s):
  - nid: 127.0.0.1@tcp
- net type: tcp1
  local NI(s):
  - nid: 127.0.0.2@tcp1
udsp:
- idx: 0
  dst: 10.[0-127].*.*@tcp
  action:
    priority: 3
- idx: 1
  src: 127.0.0.1@tcp
  dst: 10.*.*.*@tcp
- idx: 2
  dst: tcp1
  action:
    priority: 1
";

#[test]
fn a_node_with_100_000_peers_takes_less_than_200_mib() {
    let before = resident_kib();
    let mut config = lnet_config::parse(CONFIG).unwrap();
    config.peers = (0..PEERS)
        .map(|number| {
            let nid = Nid::from_number(Net::tcp(0), 0x0A00_0000 | number);
            PeerConfig {
                nids: vec![nid],
                multi_rail: true,
            }
        })
        .collect();
    let options = NodeOptions {
        port: testkit::port(),
        ..NodeOptions::default()
    };
    let node = lnet_noded::start(&config, options).unwrap().into_node();
    drop(config);
    let after = resident_kib();
    println!("resident: {before} KiB before, {after} KiB after {PEERS} peers");
    assert_eq!(node.nids().len(), 2, "it runs");
    assert!(after > before + 20_000, "{PEERS} peers are there");
    assert!(after < LIMIT_KIB, "{after} KiB");
}
