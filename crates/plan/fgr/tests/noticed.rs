//! How long failures go unnoticed by kernel nodes and by nodes of Finerail, what the first clients of a site wait for,
//! and whom routers ask so that clients need not wait.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only functions with #[test] as tests"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use fgr::check::{FailureKind, check};
use fgr::config::{BackupPriority, Form, NodeRole, Scheme, Server, Site, SiteNode, Slots, Timing};
use fgr::diff::differences;
use fgr::{Machine, Options, Policy, assign};
use lnet_types::{Net, Nid};

use common::mini;

fn scheme() -> Scheme {
    Scheme {
        client_net: Net::tcp(100),
        client_interface: "hsn0".to_owned(),
        server_interface: "ib0".to_owned(),
        client_addresses: Ipv4Addr::new(10, 1, 0, 0),
        server_addresses: Ipv4Addr::new(10, 2, 0, 0),
        backups: BackupPriority::Ranked,
        form: Form::SlotNets,
        slots: Slots::All,
        timing: Timing::PLANNED,
    }
}

fn multi_rail() -> Scheme {
    Scheme {
        form: Form::MultiRail,
        ..scheme()
    }
}

fn servers(machine: &Machine, each: u16) -> Vec<Server> {
    let nets = machine.nets.iter().map(|entry| entry.net);
    Server::synthetic(nets, each, Ipv4Addr::new(10, 3, 0, 0)).unwrap()
}

fn site_of(machine: &Machine, policy: Policy, scheme: &Scheme) -> Site {
    let plan = assign(machine, policy, &Options::default()).unwrap();
    Site::new(machine, &plan, scheme, &servers(machine, 2)).unwrap()
}

fn mini_site() -> Site {
    site_of(&mini(), Policy::STRICT, &scheme())
}

/// Measured on kernel nodes 2.16.1 and 2.17.0 with an interval of 10 s: a router that hung was left after 36 to 42 s
/// with a transaction timeout of 30 s, and not within 150 s with LNet's default; a router without power after 63.5 s.
/// Finerail's node with a ping timeout of 5 s left the router that hung after 7.6 s.
#[test]
fn kernel_nodes_wait_for_a_router_that_hangs_as_long_as_a_transaction() {
    let times = |timing: Timing| {
        let site = site_of(&mini(), Policy::STRICT, &Scheme { timing, ..scheme() });
        let report = check(&site);
        let mut routers = report.outages.into_iter();
        let router = routers.find(|o| o.failure.kind == FailureKind::Router);
        let time = router.unwrap().unnoticed.unwrap();
        (time.kernel_hung, time.kernel_silent, time.finerail)
    };
    let timing = |check_interval, ping_timeout, transaction_timeout| Timing {
        check_interval,
        ping_timeout,
        transaction_timeout,
    };
    assert_eq!(times(timing(10, 5, 30)), (Some(40), 40, 15));
    assert_eq!(times(timing(10, 5, 150)), (Some(160), 60, 15));
    assert_eq!(times(Timing::LNET), (Some(210), 110, 110));
}

#[test]
fn the_check_calculates_with_the_transaction_timeout_of_the_configurations() {
    let mut site = mini_site();
    assert_eq!(check(&site).timing.transaction_timeout, 30);
    site.timing = Timing::LNET;
    site.classes[0].config.globals.transaction_timeout = None;
    assert_eq!(check(&site).timing.transaction_timeout, 150);
    let yaml = mini_site().classes[0].yaml();
    assert!(yaml.contains("transaction_timeout: 30"), "{yaml}");
    let modprobe = mini_site().classes[0].modprobe(Timing::PLANNED).unwrap();
    let option = "lnet_transaction_timeout=30";
    assert!(modprobe.contains(option), "{modprobe}");
}

#[test]
fn a_node_with_another_transaction_timeout_differs_from_the_plan() {
    let planned = mini_site().classes[0].config.clone();
    let mut running = planned.clone();
    running.globals.transaction_timeout = None;
    let found = differences(&planned, &running);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].what, "transaction_timeout is 150, planned 30");
    assert_eq!(found[0].commands, ["lnetctl set transaction_timeout 30"]);
}

#[test]
fn the_first_client_of_a_net_waits_unless_another_node_pings_the_routers_there() {
    for scheme in [scheme(), multi_rail()] {
        let site = site_of(&mini(), Policy::STRICT, &scheme);
        let nets: BTreeSet<Net> = site
            .classes
            .iter()
            .filter(|class| class.role == NodeRole::Client)
            .flat_map(|class| class.config.routes.iter().map(|route| route.gateway.net()))
            .collect();
        let report = check(&site);
        assert_eq!(report.waits_at_start, nets, "{:?}", scheme.form);
        let routers = site
            .nodes
            .iter()
            .filter(|node| site.class_of(node).role == NodeRole::Router);
        let nids: Vec<Net> = routers
            .flat_map(|node| node.nids.iter().map(|nid| nid.net()))
            .collect();
        let is_alone = |net: &&Net| nids.iter().filter(|known| known == net).count() == 1;
        let alone: BTreeSet<Net> = nets.iter().filter(is_alone).copied().collect();
        assert_eq!(report.waits_alone, alone, "{:?}", scheme.form);
    }
    let mut site = mini_site();
    let mut monitor = site.classes[0].clone();
    monitor.role = NodeRole::Router;
    let clients = site
        .classes
        .iter()
        .filter(|class| class.role == NodeRole::Client);
    monitor.config.routes = clients
        .flat_map(|class| class.config.routes.clone())
        .collect();
    let mut node = site
        .nodes
        .iter()
        .find(|node| node.class == 0)
        .unwrap()
        .clone();
    node.class = site.classes.len();
    site.classes.push(monitor);
    site.nodes.push(node);
    assert_eq!(check(&site).waits_at_start, BTreeSet::new());
}

#[test]
fn a_router_has_up_to_four_others_of_each_net_as_peers_and_nobody_else_has_any() {
    let site = mini_site();
    let routers: Vec<_> = site
        .nodes
        .iter()
        .filter(|node| is_router(&site, node))
        .collect();
    let files: BTreeMap<String, String> = site.node_files().collect();
    for node in &site.nodes {
        let config = site.node_config(node);
        let file = lnet_config::parse(&files[&format!("nodes/{}.yaml", node.name)]).unwrap();
        assert_eq!(file.peers, config.peers, "{}", node.name);
        if !is_router(&site, node) {
            assert_eq!(config.peers, []);
            continue;
        }
        for net in node.nids.iter().map(|nid| nid.net()) {
            let is_on = |nid: Nid| nid.net() == net;
            let on_net = routers.iter().filter(|other| other.nids.iter().any(is_on));
            let others = on_net.count() - 1;
            let peers = config.peers.iter();
            let known = peers.filter(|peer| peer.nids.iter().any(|&nid| is_on(nid)));
            assert!(known.count() >= others.min(4), "{} on {net}", node.name);
        }
        let own: Vec<Nid> = node.nids.iter().collect();
        assert!(config.peers.iter().all(|peer| !own.contains(&peer.nids[0])));
    }
}

fn is_router(site: &Site, node: &SiteNode) -> bool {
    site.class_of(node).role == NodeRole::Router
}

/// A site without an order among its routers: every node has both with the same priority.
#[test]
fn a_flat_site_with_two_routers_is_no_error() {
    let nodes = [
        ("client", "tcp", "10.0.0.1", "", "o2ib"),
        ("server", "o2ib", "10.1.0.1", "", "tcp"),
        ("r1", "tcp", "10.0.0.11", "10.1.0.11", ""),
        ("r2", "tcp", "10.0.0.12", "10.1.0.12", ""),
    ];
    let site = |routers: &[&str]| {
        let document = |(name, net, near, far, remote): (&str, &str, &str, &str, &str)| {
            let mut text =
                format!("net:\n- net type: {net}\n  local NI(s):\n  - nid: {near}@{net}\n");
            if !far.is_empty() {
                text += &format!(
                    "- net type: o2ib\n  local NI(s):\n  - nid: {far}@o2ib\nrouting: {{enable: 1}}\n"
                );
            }
            let side = if net == "tcp" { 0 } else { 1 };
            if !remote.is_empty() {
                text += "route:\n";
            }
            for router in routers.iter().filter(|_| !remote.is_empty()) {
                text += &format!(
                    "- {{net: {remote}, gateway: 10.{side}.0.{router}@{net}, hop: 1, priority: 0}}\n"
                );
            }
            (name.to_owned(), lnet_config::parse(&text).unwrap())
        };
        let present = nodes.into_iter().filter(|node| {
            let number = node.0.strip_prefix('r').map(|number| format!("1{number}"));
            number.is_none_or(|number| routers.contains(&number.as_str()))
        });
        Site::from_nodes(present.map(document), |net| net.to_string() == "o2ib")
    };
    let report = check(&site(&["11", "12"]));
    assert!(
        report.is_proved() && report.pairs == 1,
        "{:?}",
        report.findings
    );
    // With one router its failure is one.
    assert!(!check(&site(&["11"])).is_proved());
}
