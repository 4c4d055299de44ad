//! The configurations that the planner writes, loaded into real nodes on loopback addresses: messages take the
//! planned primary, and the planned backups when it stops.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use fgr::config::{BackupPriority, Preference, Scheme, Server, Site};
use fgr::{Machine, Options, Plan, Policy, assign, read_machine};
use lnet_node::{Node, NodeOptions};
use lnet_types::Net;

use common::eventually;

/// Client 1 beside router 3; router 4 is a hop further, router 2 another. The net behind them is a socket net,
/// because these nodes speak no other.
const MACHINE: &str = "
machine: three routers
fabric:
  kind: torus
  dimensions:
    - {name: x, size: 6, cost: 4, capacity: [1.0]}
    - {name: y, size: 2, cost: 8, capacity: [1.0]}
clients:
  list:
    - {id: 1, name: client, at: [2, 0]}
groups:
  - name: A
    nets: [tcp201]
    sub-groups:
      - modules:
          - {blade: far, at: [0, 0], nodes: [2]}
          - {blade: here, at: [2, 0], nodes: [3]}
          - {blade: next, at: [3, 0], nodes: [4]}
";

/// Longer than an answer on this machine takes, shorter than anybody waits.
const ANSWER: Duration = Duration::from_secs(2);

/// The nodes of the plan, by number.
struct Running {
    nodes: BTreeMap<u32, Node>,
}

/// What is planned.
fn planned() -> (Machine, Plan) {
    let machine = read_machine("machine.yaml", MACHINE).unwrap();
    let plan = assign(&machine, Policy::STRICT, &Options::default()).unwrap();
    (machine, plan)
}

fn site(machine: &Machine, plan: &Plan) -> Site {
    let loopback = Ipv4Addr::new(127, 0, 0, 0);
    let scheme = Scheme {
        client_net: Net::tcp(100),
        client_interface: "lo".to_owned(),
        server_interface: "lo".to_owned(),
        client_addresses: loopback,
        server_addresses: loopback,
        backups: BackupPriority::Ranked,
        preference: Preference::Priority,
    };
    let servers = Server::synthetic([Net::tcp(201)], 1, Ipv4Addr::new(127, 0, 0, 4)).unwrap();
    Site::new(machine, plan, &scheme, &servers).unwrap()
}

impl Running {
    /// Starts every node from the text of its own file: routers, server, client, as a roll-out does, so that no
    /// gateway is found dead before it is there.
    fn start(site: &Site) -> Self {
        let options = NodeOptions {
            port: testkit::port(),
            router_check_interval: Some(Duration::from_secs(1)),
            ..NodeOptions::default()
        };
        let mut nodes = BTreeMap::new();
        let mut files: Vec<(String, String)> = site.node_files().collect();
        // Clients come first.
        files.rotate_left(1);
        for (path, text) in files {
            let config = lnet_config::parse(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
            let node = Node::start(&config, options.clone()).unwrap();
            nodes.insert(node.primary_nid().number() & 0xFF, node);
        }
        assert_eq!(nodes.len(), 5);
        Self { nodes }
    }

    /// Waits until a router has forwarded a message each way.
    fn expect_both_ways(&self, router: u32) {
        eventually("a message each way", || {
            (self.forwarded(router) >= 2).then_some(())
        });
    }

    /// Messages that a router has forwarded.
    fn forwarded(&self, router: u32) -> u64 {
        self.nodes[&router].stats().route_count
    }

    /// The client asks the server, until there is an answer.
    fn ask(&self) {
        let server = self.nodes[&5].primary_nid();
        eventually("the server answers", || {
            self.nodes[&1].ping(server, None, ANSWER).ok()
        });
    }

    fn stop(&mut self, router: u32) {
        let node = self.nodes.remove(&router).unwrap();
        node.shutdown(Duration::ZERO);
    }
}

#[test]
fn messages_take_the_planned_primary_and_after_its_end_the_planned_backups() {
    let (machine, plan) = planned();
    let order: Vec<u32> = plan
        .routers(plan.row_of(0), 0)
        .iter()
        .map(|&router| machine.routers[usize::from(router)].id)
        .collect();
    assert_eq!(order, [3, 4, 2], "nearest first");
    let mut running = Running::start(&site(&machine, &plan));
    running.ask();
    running.expect_both_ways(3);
    assert_eq!([running.forwarded(4), running.forwarded(2)], [0, 0]);

    running.stop(3);
    running.ask();
    running.expect_both_ways(4);
    assert_eq!(running.forwarded(2), 0, "the second backup is not needed");

    running.stop(4);
    running.ask();
    running.expect_both_ways(2);
}
