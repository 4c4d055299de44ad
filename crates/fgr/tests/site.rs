//! The configurations of plans: what they say, that they can be read, and that they are proved or refuted.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only functions with #[test] as tests"
)]

mod common;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use fgr::check::{Finding, check, rollout};
use fgr::config::{
    BackupPriority, ClassText, ModprobeRefusal, NodeRole, Preference, Scheme, Server, Site,
    SiteError, nids, read_nodes, read_servers, read_udsp,
};
use fgr::diff::differences;
use fgr::{Machine, Options, Policy, assign};
use lnet_types::{LndType, Net, Nid};
use proptest::prelude::*;

use common::{mini, titan_machine};

fn scheme() -> Scheme {
    Scheme {
        client_net: Net::tcp(100),
        client_interface: "hsn0".to_owned(),
        server_interface: "ib0".to_owned(),
        client_addresses: Ipv4Addr::new(10, 1, 0, 0),
        server_addresses: Ipv4Addr::new(10, 2, 0, 0),
        backups: BackupPriority::Equal,
        preference: Preference::Priority,
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

/// What is written of a site, read again.
fn reread(site: &Site) -> Site {
    let made = site.files();
    let files: BTreeMap<&str, &str> = made
        .files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let mut classes = BTreeMap::new();
    for class in &site.classes {
        let yaml = files[format!("classes/{}.yaml", class.name).as_str()];
        let udsp = files.get(format!("classes/{}.udsp", class.name).as_str());
        let text = ClassText {
            config: lnet_config::parse(yaml).unwrap(),
            rules: udsp.map_or(Vec::new(), |text| read_udsp("rules", text).unwrap()),
        };
        classes.insert(class.name.clone(), text);
    }
    let lines = read_nodes("nodes.csv", files["nodes.csv"]).unwrap();
    Site::from_lines(lines, &classes)
}

#[test]
fn the_small_client_is_configured_as_printed() {
    let site = mini_site();
    let class = site.class_of(&site.nodes[0]);
    let route = |net: &str, address: &str, slot: u16, priority: u32| {
        format!(
            "-     net: {net}\n      gateway: 10.1.{address}@tcp{slot}\n      hop: 1\n      priority: {priority}\n"
        )
    };
    // Client (0,0,0): sub-group 1 of A and 2 of B; nodes 1011.. and 1021.. of this test's machine.
    let expected = [
        route("o2ib201", "3.243", 101, 0),
        route("o2ib201", "3.244", 102, 1),
        route("o2ib201", "3.245", 103, 1),
        route("o2ib202", "4.0", 104, 0),
        route("o2ib202", "4.1", 105, 1),
        route("o2ib202", "4.2", 106, 1),
    ];
    let yaml = class.yaml();
    assert!(yaml.starts_with("global:\n    discovery: 0\n    drop_asym_route: 1\nnet:\n"));
    assert!(
        yaml.ends_with(&format!("route:\n{}", expected.concat())),
        "{yaml}"
    );
    assert_eq!(
        class.modprobe().unwrap(),
        "options lnet networks=\"tcp101(hsn0),tcp102(hsn0),tcp103(hsn0),tcp104(hsn0),tcp105(hsn0),tcp106(hsn0)\"\n\
         options lnet routes=\"o2ib201 1 10.1.3.243@tcp101; o2ib201 1 10.1.3.244@tcp102:1; \
         o2ib201 1 10.1.3.245@tcp103:1; o2ib202 1 10.1.4.0@tcp104; o2ib202 1 10.1.4.1@tcp105:1; \
         o2ib202 1 10.1.4.2@tcp106:1\"\n\
         options lnet lnet_peer_discovery_disabled=1 lnet_drop_asym_route=1\n"
    );
}

#[test]
fn a_router_is_on_its_own_net_and_its_siblings_and_a_server_knows_every_slot() {
    let site = mini_site();
    let first = |role| {
        site.classes
            .iter()
            .find(|class| class.role == role)
            .unwrap()
    };
    let router = first(NodeRole::Router);
    let nets: Vec<String> = router
        .config
        .nets
        .iter()
        .map(|net| net.net.to_string())
        .collect();
    assert_eq!(nets, ["tcp101", "tcp102", "tcp103", "o2ib201"]);
    assert_eq!(router.config.routing, Some(true));
    let server = first(NodeRole::Server);
    assert_eq!(server.config.routes.len(), 18);
    let own = server
        .config
        .routes
        .iter()
        .filter(|route| route.priority == 0);
    assert_eq!(own.count(), 6, "one primary for each slot");
}

#[test]
fn what_is_written_is_read_back_as_the_same_site() {
    let by_rule = Scheme {
        preference: Preference::Rule,
        ..scheme()
    };
    for scheme in [scheme(), by_rule] {
        let site = site_of(&mini(), Policy::STRICT, &scheme);
        assert_eq!(reread(&site), site);
    }
}

#[test]
fn ranked_backups_have_their_own_priorities() {
    let ranked = Scheme {
        backups: BackupPriority::Ranked,
        ..scheme()
    };
    let site = site_of(&mini(), Policy::STRICT, &ranked);
    let routes = &site.classes[0].config.routes;
    let priorities: Vec<u32> = routes.iter().map(|route| route.priority).collect();
    assert_eq!(priorities, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn titan_is_proved_and_its_long_parameters_are_refused() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let gni = Scheme {
        client_net: "gni100".parse().unwrap(),
        ..scheme()
    };
    let site = site_of(&machine, Policy::STRICT, &gni);
    let clients = site
        .classes
        .iter()
        .filter(|class| class.role == NodeRole::Client);
    assert_eq!(clients.clone().count(), 140);
    for class in clients {
        let refused = class.modprobe();
        let too_long = matches!(refused, Err(ModprobeRefusal::TooLong { parameter: "routes", length }) if length > 1024);
        assert!(too_long, "{refused:?}");
    }
    // The gateways of client 20: the printed primaries of its nets 201, 236 and 204.
    let node = site.nodes_by_nid()[&"20@gni101".parse().unwrap()];
    let routes = &site.class_of(node).config.routes;
    for gateway in ["17736@gni110", "16171@gni110", "1540@gni103"] {
        let route = routes
            .iter()
            .find(|route| route.gateway == gateway.parse().unwrap());
        assert_eq!(route.map(|route| route.priority), Some(0), "{gateway}");
    }
    let report = check(&site);
    assert_eq!(report.findings, []);
    assert_eq!(report.pairs, 18_688 * 72);
}

#[test]
fn every_policy_is_proved_and_rules_do_what_priorities_do() {
    let by_rule = Scheme {
        preference: Preference::Rule,
        ..scheme()
    };
    let by = fgr::Metric::Cost;
    for policy in [
        Policy::STRICT,
        Policy::Nearest { by },
        Policy::Balanced { by },
    ] {
        for scheme in [&scheme(), &by_rule] {
            let report = check(&site_of(&mini(), policy, scheme));
            assert_eq!(report.findings, [], "{}", policy.name());
        }
    }
    let flat = check(&site_of(&mini(), Policy::Flat, &scheme()));
    assert!(flat.is_proved());
    let is_shared = |finding: &Finding| matches!(finding, Finding::SharedPrimary { .. });
    assert!(!flat.findings.is_empty() && flat.findings.iter().all(is_shared));
}

#[test]
fn a_server_that_replies_by_another_router_is_found() {
    let mut site = mini_site();
    let server = site
        .classes
        .iter_mut()
        .find(|class| class.role == NodeRole::Server)
        .unwrap();
    server.config.routes[0].priority = 2;
    let report = check(&site);
    assert!(!report.is_proved());
    let is_it = |finding: &Finding| matches!(finding, Finding::Asymmetric { failed, .. } if failed.0.is_none());
    assert!(report.findings.iter().any(is_it), "{:?}", report.findings);
}

#[test]
fn an_asymmetry_after_a_failure_only_is_found() {
    let mut site = mini_site();
    let server = site
        .classes
        .iter_mut()
        .find(|class| class.role == NodeRole::Server)
        .unwrap();
    // Slot 2's own route goes; its siblings still answer, and by another router.
    server
        .config
        .routes
        .retain(|route| route.net != Net::tcp(102) || route.priority != 0);
    let client = site
        .classes
        .iter_mut()
        .find(|class| class.role == NodeRole::Client)
        .unwrap();
    let name = client.name.clone();
    let found = check(&site).findings;
    let is_it = |finding: &Finding| {
        matches!(finding, Finding::Asymmetric { client, failed, .. }
            if *client == name && failed.0.is_some())
    };
    assert!(found.iter().any(is_it), "{found:?}");
}

#[test]
fn missing_dead_and_unknown_gateways_are_found() {
    let whole = mini_site();
    let broken = |edit: fn(&mut Site)| {
        let mut site = whole.clone();
        edit(&mut site);
        check(&site).findings
    };
    let found = broken(|site| site.classes[0].config.routes.truncate(1));
    assert!(
        found.iter().any(|f| matches!(f, Finding::NoRoute { .. })),
        "{found:?}"
    );
    assert!(
        found.iter().any(|f| matches!(f, Finding::NoBackup { .. })),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .any(|f| matches!(f, Finding::Unreachable { .. })),
        "{found:?}"
    );
    let found = broken(|site| {
        let routers = site
            .classes
            .iter_mut()
            .filter(|class| class.role == NodeRole::Router);
        routers.for_each(|class| class.config.routing = Some(false));
    });
    assert!(
        found
            .iter()
            .any(|f| matches!(f, Finding::DeadGateway { .. })),
        "{found:?}"
    );
    let found = broken(|site| {
        let gateway = "10.9.9.9@tcp101".parse().unwrap();
        site.classes[0].config.routes[0].gateway = gateway;
    });
    assert!(
        found
            .iter()
            .any(|f| matches!(f, Finding::UnknownGateway { .. })),
        "{found:?}"
    );
    let found = broken(|site| {
        site.classes[0].config.nets.remove(0);
    });
    assert!(
        found
            .iter()
            .any(|f| matches!(f, Finding::FarGateway { .. })),
        "{found:?}"
    );
    let found = broken(|site| {
        site.classes[0].config.globals.discovery = None;
        site.classes[0].config.routes[0].hop = None;
    });
    assert!(
        found
            .iter()
            .any(|f| matches!(f, Finding::DiscoveryOn { .. })),
        "{found:?}"
    );
    assert!(
        found.iter().any(|f| matches!(f, Finding::HopUnset { .. })),
        "{found:?}"
    );
}

#[test]
fn a_new_policy_is_rolled_out_without_an_asymmetric_pair() {
    let old = mini_site();
    let by = fgr::Metric::Hops;
    let new = site_of(&mini(), Policy::Balanced { by }, &scheme());
    for old in [Site::default(), old] {
        let order = rollout(&old, &new);
        assert_eq!(order.open, []);
        assert_eq!(order.steps[0].role, NodeRole::Router);
    }
}

#[test]
fn two_routers_that_swap_their_slots_have_no_safe_order() {
    let swapped = |net: Net| match net {
        net if net == Net::tcp(101) => Net::tcp(102),
        net if net == Net::tcp(102) => Net::tcp(101),
        other => other,
    };
    let old = mini_site();
    let mut new = old.clone();
    for class in &mut new.classes {
        for route in &mut class.config.routes {
            route.net = swapped(route.net);
            let (net, address) = (route.gateway.net(), route.gateway.number());
            route.gateway = Nid::from_number(swapped(net), address);
        }
    }
    assert!(check(&old).is_proved() && check(&new).is_proved());
    assert!(!rollout(&old, &new).open.is_empty());
}

#[test]
fn nodes_by_their_own_exports_are_the_same_site() {
    let site = mini_site();
    let nodes = site
        .nodes
        .iter()
        .map(|node| (node.name.clone(), site.node_config(node)));
    let gathered = Site::from_nodes(nodes, |net| net.lnd == LndType::O2IB);
    assert_eq!(gathered.nodes.len(), site.nodes.len());
    let report = check(&gathered);
    assert_eq!(report.findings, []);
    assert_eq!(report.pairs, check(&site).pairs);
}

#[test]
fn a_node_as_planned_differs_in_nothing_and_every_change_has_its_command() {
    let site = mini_site();
    let node = &site.nodes[0];
    let planned = &site.class_of(node).config;
    let running = site.node_config(node);
    assert_eq!(nids(&running), node.nids);
    assert_eq!(differences(planned, &running), []);

    let mut other = running.clone();
    other.globals.discovery = None;
    other.nets.remove(5);
    other.routes[0].priority = 3;
    let gone = other.routes.remove(1);
    let mut extra = other.routes[0];
    extra.gateway = "10.1.3.250@tcp101".parse().unwrap();
    other.routes.push(extra);
    let commands: Vec<String> = differences(planned, &other)
        .into_iter()
        .flat_map(|difference| difference.commands)
        .collect();
    let add = format!(
        "lnetctl route add --net o2ib201 --gateway {} --hop 1 --priority 1",
        gone.gateway
    );
    assert_eq!(
        commands,
        [
            "lnetctl set discovery 0",
            "lnetctl net add --net tcp106 --if hsn0",
            &add,
            "lnetctl route del --net o2ib201 --gateway 10.1.3.243@tcp101",
            "lnetctl route add --net o2ib201 --gateway 10.1.3.243@tcp101 --hop 1 --priority 0",
            "lnetctl route del --net o2ib201 --gateway 10.1.3.250@tcp101",
        ]
    );
}

#[test]
fn nets_that_the_plan_does_not_know_are_left_alone() {
    let site = mini_site();
    let mut running = site.node_config(&site.nodes[0]);
    let mut net = running.nets[0].clone();
    net.net = Net::tcp(7);
    running.nets.push(net);
    let found = differences(&site.class_of(&site.nodes[0]).config, &running);
    assert_eq!(found.len(), 1);
    assert!(found[0].commands.is_empty(), "{found:?}");
}

#[test]
fn numbers_and_nets_that_do_not_fit_are_refused() {
    let machine = mini();
    let plan = assign(&machine, Policy::STRICT, &Options::default()).unwrap();
    let refused = |scheme: &Scheme, servers: &[Server]| {
        Site::new(&machine, &plan, scheme, servers).unwrap_err()
    };
    let two = servers(&machine, 2);
    let last = Ipv4Addr::BROADCAST;
    let no_address = Scheme {
        client_addresses: last,
        ..scheme()
    };
    assert!(matches!(
        refused(&no_address, &two),
        SiteError::NoAddress { .. }
    ));
    let no_number = Scheme {
        client_net: Net::tcp(65_533),
        ..scheme()
    };
    assert!(matches!(
        refused(&no_number, &two),
        SiteError::NoNetNumber { .. }
    ));
    let clash = Scheme {
        client_net: "o2ib200".parse().unwrap(),
        ..scheme()
    };
    assert!(matches!(refused(&clash, &two), SiteError::NetTwice(_)));
    assert!(matches!(
        refused(&scheme(), &two[..2]),
        SiteError::NoServer(_)
    ));
    let elsewhere = read_servers("servers", "mds,10.0.0.1@o2ib7\n").unwrap();
    assert!(matches!(
        refused(&scheme(), &elsewhere),
        SiteError::UnknownNet { .. }
    ));
}

#[test]
fn names_that_would_leave_their_file_or_column_are_refused() {
    let plan = |machine: &Machine| assign(machine, Policy::STRICT, &Options::default()).unwrap();
    let refused = |edit: fn(&mut Machine)| {
        let mut machine = mini();
        edit(&mut machine);
        let site = Site::new(&machine, &plan(&machine), &scheme(), &servers(&machine, 1));
        site.unwrap_err()
    };
    let found = refused(|machine| machine.clients[0].name = Some("../../etc/passwd".into()));
    assert!(matches!(found, SiteError::BadName { .. }), "{found}");
    let found = refused(|machine| machine.modules[0].blade = "a,b".to_owned());
    assert!(matches!(found, SiteError::BadName { .. }), "{found}");
    let found = refused(|machine| machine.clients[0].name = Some("nid00001".into()));
    assert!(matches!(found, SiteError::NameTwice(_)), "{found}");
    let machine = mini();
    let quoted = Scheme {
        client_interface: "hsn0\" x".to_owned(),
        ..scheme()
    };
    let site = Site::new(&machine, &plan(&machine), &quoted, &servers(&machine, 1));
    assert!(matches!(site, Err(SiteError::BadName { .. })));
}

#[test]
fn every_wrong_line_of_the_lists_is_found_in_one_pass() {
    let text = "node,role,class,blade,nids\na,client,c,,1@gni\na,boss,../c,,x\nb,client\n";
    let problems = read_nodes("nodes.csv", text).unwrap_err().0;
    let lines: Vec<u32> = problems.iter().map(|problem| problem.place.line).collect();
    assert_eq!(lines, [3, 3, 3, 3, 4]);
    let problems = read_servers("s", "# servers\noss 1,1@gni\n\noss1,*@tcp\na,b,c\n")
        .unwrap_err()
        .0;
    let lines: Vec<u32> = problems.iter().map(|problem| problem.place.line).collect();
    assert_eq!(lines, [2, 4, 5]);
    let problems = read_udsp("u", "lnetctl udsp add --dst tcp --rte\nrm -rf\n")
        .unwrap_err()
        .0;
    assert_eq!(problems.len(), 2);
}

proptest! {
    #[test]
    fn synthetic_machines_of_any_shape_are_proved(
        (x, z) in (3_u16..8, 2_u16..6), groups in 1_u16..4, modules in 2_u16..4, nets in 1_u16..5,
    ) {
        let dimension = |name: &str, size| topology::Dimension {
            name: name.to_owned(),
            size,
            wrap: true,
            cost: if name == "y" { 8 } else { 4 },
            capacity: vec![1.0],
        };
        let dimensions = vec![dimension("x", x), dimension("y", 8), dimension("z", z)];
        let grid = topology::Grid::new(dimensions).unwrap();
        let size = fgr::Synthetic { groups, modules, nets };
        let Ok(machine) = fgr::synthetic("any", grid, topology::Tie::Split, size) else {
            return Ok(());
        };
        let site = site_of(&machine, Policy::STRICT, &scheme());
        prop_assert_eq!(check(&site).findings, []);
        prop_assert_eq!(reread(&site), site);
    }
}
