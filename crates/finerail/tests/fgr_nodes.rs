//! The configurations that the planner writes, loaded into real nodes on loopback addresses: messages use the
//! planned primary, and the planned backups when the primary stops. Routers as processes are killed, stopped and
//! restarted, and messages arrive in both directions, as `fgr check` predicts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fgr::config::{BackupPriority, Form, Scheme, Server, Site, Slots, Timing};
use fgr::{Machine, Options, Plan, Policy, assign, read_machine};
use lnet_config::Config;
use lnet_node::{Globals, Node, NodeOptions};
use lnet_types::{Net, Nid};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use common::process::Process;
use common::{eventually, finerail};

/// Client 1 is beside router 3. Router 4 is one hop further, and router 2 one more. The net behind the routers is a
/// socket net, because these nodes have no other LND.
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

/// Longer than an answer takes on this machine, and short enough for a retry.
const ANSWER: Duration = Duration::from_secs(2);

/// The nodes of the plan, by number.
struct Running {
    nodes: BTreeMap<u32, Node>,
}

/// Returns the machine and its plan.
fn planned() -> (Machine, Plan) {
    let machine = read_machine("machine.yaml", MACHINE).unwrap();
    let plan = assign(&machine, Policy::STRICT, &Options::default()).unwrap();
    (machine, plan)
}

fn site(machine: &Machine, plan: &Plan) -> Site {
    site_in(machine, plan, Form::SlotNets, BackupPriority::Ranked)
}

fn site_in(machine: &Machine, plan: &Plan, form: Form, backups: BackupPriority) -> Site {
    let loopback = Ipv4Addr::new(127, 0, 0, 0);
    let scheme = Scheme {
        client_net: Net::tcp(100),
        client_interface: "lo".to_owned(),
        server_interface: "lo".to_owned(),
        client_addresses: loopback,
        server_addresses: loopback,
        backups,
        form,
        slots: Slots::All,
        timing: Timing::PLANNED,
    };
    let servers = Server::synthetic([Net::tcp(201)], 1, Ipv4Addr::new(127, 0, 0, 4)).unwrap();
    Site::new(machine, plan, &scheme, &servers).unwrap()
}

/// Returns the documents of all nodes, as the planner writes them.
fn configs(site: &Site) -> Vec<Config> {
    let files = site.node_files();
    let read = files.map(|(path, text)| {
        let read = lnet_config::parse(&text);
        let mut config = read.unwrap_or_else(|e| panic!("{path}: {e}"));
        // The tests check their gateways more often than the plan says.
        config.globals.alive_router_check_interval = None;
        config.globals.router_ping_timeout = None;
        config
    });
    read.collect()
}

impl Running {
    /// Starts every node from its own file in the order of a roll-out: routers, server, client. Otherwise the client
    /// would find its gateways dead before they are started.
    fn start(site: &Site) -> Self {
        let mut configs = configs(site);
        // The client comes first; move it to the end.
        configs.rotate_left(1);
        let globals = Globals {
            alive_router_check_interval: Duration::from_secs(INTERVAL),
            ..Globals::default()
        };
        let running = Self::start_all(&configs, globals);
        assert_eq!(running.nodes.len(), 5);
        running
    }

    fn start_all(configs: &[Config], globals: Globals) -> Self {
        let options = NodeOptions {
            port: testkit::port(),
            globals,
            ..NodeOptions::default()
        };
        let nodes = configs.iter().map(|config| {
            let node = lnet_noded::start(config, options.clone());
            let node = node.unwrap().into_node();
            (node.primary_nid().number() & 0xFF, node)
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// Waits until a router has forwarded one message in each direction.
    fn expect_both_ways(&self, router: u32) {
        eventually("a message each way", || {
            (self.forwarded(router) >= 2).then_some(())
        });
    }

    /// Returns the number of messages that a router has forwarded.
    fn forwarded(&self, router: u32) -> u64 {
        self.nodes[&router].stats().route_count
    }

    /// Lets the client ping the server until there is an answer.
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

/// Starts a site without its client, and returns whether every route of the server stays up much longer than a router
/// waits for a ping.
fn routes_stay_up(configs: &[Config]) -> bool {
    let (interval, timeout) = (Duration::from_secs(INTERVAL), Duration::from_secs(TIMEOUT));
    let globals = Globals {
        alive_router_check_interval: interval,
        router_ping_timeout: timeout,
        ..Globals::default()
    };
    let running = Running::start_all(configs, globals);
    let server = &running.nodes[&5];
    let are_up = || server.look(|engine| engine.core().routes().all(|route| route.alive));
    eventually("every route is up", || are_up().then_some(()));
    let begin = Instant::now();
    eventually("a route goes down, or none does", || {
        (!are_up() || begin.elapsed() > 3 * (interval + timeout)).then_some(())
    });
    are_up()
}

#[test]
fn before_the_first_client_comes_every_route_of_a_server_is_up() {
    let (machine, plan) = planned();
    let mut configs = configs(&site(&machine, &plan));
    configs.remove(0);
    assert!(routes_stay_up(&configs));
    for config in &mut configs {
        config.peers.clear();
    }
    assert!(!routes_stay_up(&configs), "the routers know nobody to ask");
}

/// A client and a server in this process, with routers as processes.
struct Fleet {
    directory: TempDir,
    port: u16,
    routers: BTreeMap<u32, Process>,
    client: Node,
    server: Node,
    /// The client's NID that the server knows.
    session: Nid,
}

/// The interval between pings of a gateway, and the timeout of such a ping, in seconds.
const INTERVAL: u64 = 1;
const TIMEOUT: u64 = 2;

impl Fleet {
    fn start(form: Form, backups: BackupPriority) -> Self {
        let (machine, plan) = planned();
        let site = site_in(&machine, &plan, form, backups);
        let report = fgr::check::check(&site);
        assert!(report.is_proved(), "{:?}", report.findings);
        let directory = TempDir::with_prefix("finerail-test-").unwrap();
        let port = testkit::port();
        let mut fleet = BTreeMap::new();
        let mut routers = BTreeMap::new();
        for node in &site.nodes {
            let config = site.node_config(node);
            let number = node.nids.first().unwrap().number() & 0xFF;
            if config.routing == Some(true) {
                let path = router_path(&directory, number);
                fs::write(&path, config.to_yaml()).unwrap();
                routers.insert(number, start_router(path, port));
            } else {
                fleet.insert(number, config);
            }
        }
        let options = NodeOptions {
            port,
            globals: Globals {
                alive_router_check_interval: Duration::from_secs(INTERVAL),
                router_ping_timeout: Duration::from_secs(TIMEOUT),
                ..Globals::default()
            },
            ..NodeOptions::default()
        };
        // Router 3 is the primary.
        let routes = &fleet[&1].routes;
        let primary = routes.iter().find(|route| route.priority == 0).unwrap();
        let session = Nid::from_number(primary.gateway.net(), 0x7F00_0001);
        assert_eq!(primary.gateway.number() & 0xFF, 3);
        let start = |number: u32| {
            let node = lnet_noded::start(&fleet[&number], options.clone());
            node.unwrap().into_node()
        };
        Self {
            directory,
            port,
            routers,
            client: start(1),
            server: start(5),
            session,
        }
    }

    /// Waits until messages arrive in both directions, and prints how long each direction took.
    fn both_ways(&self, what: &str) {
        let begin = Instant::now();
        let server = self.server.primary_nid();
        eventually("the server answers", || {
            self.client.ping(server, None, ANSWER).ok()
        });
        let requests = begin.elapsed();
        eventually("the client answers", || {
            self.server.ping(self.session, None, ANSWER).ok()
        });
        let started = begin.elapsed();
        println!(
            "{what}: requests after {requests:.1?}, what the server starts after {started:.1?}"
        );
    }

    fn restart(&mut self, router: u32) {
        let process = start_router(router_path(&self.directory, router), self.port);
        self.routers.insert(router, process);
    }

    fn kill(&mut self, router: u32) {
        self.routers.remove(&router).unwrap().kill();
    }

    /// Causes each kind of failure and recovery. The primary is known to be in use again if messages arrive after the
    /// backups are killed.
    fn suffer(mut self) {
        self.both_ways("in health");
        self.kill(3);
        self.both_ways("primary killed");
        self.restart(3);
        self.both_ways("primary restarted");
        self.kill(2);
        self.kill(4);
        self.both_ways("backups killed");
        self.restart(2);
        self.restart(4);
        self.both_ways("backups restarted");
        self.routers[&3].signal(Signal::SIGSTOP);
        self.both_ways("primary stopped");
        self.routers[&3].signal(Signal::SIGCONT);
        self.kill(2);
        self.kill(4);
        self.both_ways("primary goes on, backups killed");
    }
}

fn router_path(directory: &TempDir, router: u32) -> PathBuf {
    directory.path().join(format!("router{router}.yaml"))
}

fn start_router(config: PathBuf, port: u16) -> Process {
    let mut command = finerail(["node", "--no-control", "--router-check-interval", "1"]);
    command.args(["--port", &port.to_string()]);
    command.arg("--config").arg(config);
    let process = Process::start(command);
    process.wait_for_output("ready: ");
    process
}

#[test]
fn ranked_backups_carry_both_directions_when_routers_are_killed_stopped_and_restarted() {
    Fleet::start(Form::SlotNets, BackupPriority::Ranked).suffer();
}

#[test]
fn equal_backups_carry_both_directions_when_routers_are_killed_stopped_and_restarted() {
    Fleet::start(Form::SlotNets, BackupPriority::Equal).suffer();
}

#[test]
fn the_multi_rail_form_carries_both_directions_when_routers_are_killed_stopped_and_restarted() {
    Fleet::start(Form::MultiRail, BackupPriority::Ranked).suffer();
}
