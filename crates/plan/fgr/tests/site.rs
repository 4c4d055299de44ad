//! The configurations of plans: their contents, that they can be read, and that the check proves or
//! refutes them.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "clippy knows only functions with #[test] as tests"
)]

mod common;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use fgr::check::{Direction, Failure, FailureKind, Finding, Loss, Report, When, check, rollout};
use fgr::config::{
    BackupPriority, ClassText, Form, ModprobeRefusal, NodeRole, Scheme, Server, Site, SiteError,
    Slots, Timing, nids, read_nodes, read_servers, read_timing, read_udsp,
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

fn nodes_csv(site: &Site) -> String {
    let mut text = String::new();
    site.write_nodes(&mut text).unwrap();
    text
}

/// Writes a site and reads it again.
fn reread(site: &Site) -> Site {
    let made = site.classes.iter().map(|class| site.class_files(class));
    let files: BTreeMap<String, String> = made.flat_map(|made| made.files).collect();
    let mut classes = BTreeMap::new();
    for class in &site.classes {
        let yaml = &files[&format!("classes/{}.yaml", class.name)];
        let udsp = files.get(&format!("classes/{}.udsp", class.name));
        let text = ClassText {
            config: lnet_config::parse(yaml).unwrap(),
            rules: udsp.map_or(Vec::new(), |text| read_udsp("rules", text).unwrap()),
        };
        classes.insert(class.name.clone(), text);
    }
    let lines = read_nodes("nodes.csv", nodes_csv(site).as_bytes()).unwrap();
    Site {
        timing: read_timing("module.conf", &site.module_options()).unwrap(),
        ..Site::from_lines(lines, &classes)
    }
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
        route("o2ib201", "3.244", 101, 1),
        route("o2ib201", "3.245", 101, 2),
        route("o2ib202", "4.0", 104, 0),
        route("o2ib202", "4.1", 104, 1),
        route("o2ib202", "4.2", 104, 2),
    ];
    let yaml = class.yaml();
    assert!(yaml.starts_with(
        "global:\n    discovery: 0\n    drop_asym_route: 1\n    transaction_timeout: 30\nnet:\n"
    ));
    assert!(
        yaml.ends_with(&format!("route:\n{}", expected.concat())),
        "{yaml}"
    );
    assert_eq!(
        class.modprobe(site.timing).unwrap(),
        "options lnet networks=\"tcp101(hsn0),tcp102(hsn0),tcp103(hsn0),tcp104(hsn0),tcp105(hsn0),tcp106(hsn0)\"\n\
         options lnet routes=\"o2ib201 1 10.1.3.243@tcp101; o2ib201 1 10.1.3.244@tcp101:1; \
         o2ib201 1 10.1.3.245@tcp101:2; o2ib202 1 10.1.4.0@tcp104; o2ib202 1 10.1.4.1@tcp104:1; \
         o2ib202 1 10.1.4.2@tcp104:2\"\n\
         options lnet lnet_peer_discovery_disabled=1 lnet_drop_asym_route=1 \
         alive_router_check_interval=20 router_ping_timeout=10 lnet_transaction_timeout=30\n"
    );
}

#[test]
fn a_router_is_on_the_slot_nets_that_it_backs_up_and_a_server_knows_every_slot() {
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
    for scheme in [scheme(), multi_rail()] {
        let site = site_of(&mini(), Policy::STRICT, &scheme);
        assert_eq!(reread(&site), site);
    }
}

#[test]
fn equal_backups_share_one_priority() {
    let equal = Scheme {
        backups: BackupPriority::Equal,
        ..scheme()
    };
    let site = site_of(&mini(), Policy::STRICT, &equal);
    let routes = &site.classes[0].config.routes;
    let priorities: Vec<u32> = routes.iter().map(|route| route.priority).collect();
    assert_eq!(priorities, [0, 1, 1, 0, 1, 1]);
}

#[test]
fn a_ping_that_may_outlast_the_interval_is_rejected() {
    let machine = mini();
    let plan = assign(&machine, Policy::STRICT, &Options::default()).unwrap();
    for (check_interval, ping_timeout) in [(10, 11), (10, 0), (0, 0)] {
        let timing = Timing {
            check_interval,
            ping_timeout,
            ..Timing::PLANNED
        };
        let scheme = Scheme { timing, ..scheme() };
        let rejection = Site::new(&machine, &plan, &scheme, &servers(&machine, 1));
        assert_eq!(rejection.unwrap_err(), SiteError::Timing(timing));
    }
    let text = "options lnet alive_router_check_interval=x\n";
    assert!(read_timing("module.conf", text).is_err());
    assert_eq!(read_timing("module.conf", "").unwrap(), Timing::LNET);
}

#[test]
fn titan_is_proved_and_its_long_parameters_are_rejected() {
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
        let rejection = class.modprobe(site.timing);
        let too_long = matches!(rejection, Err(ModprobeRefusal::TooLong { parameter: "routes", length }) if length > 1024);
        assert!(too_long, "{rejection:?}");
    }
    // The gateways of client 20: the printed primaries of its nets 201, 236 and 204.
    let nid: Nid = "20@gni101".parse().unwrap();
    let node = site.nodes_by_nid([nid])[&nid];
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
fn every_policy_is_proved_in_both_forms() {
    let by = fgr::Metric::Cost;
    for policy in [
        Policy::STRICT,
        Policy::Nearest { by },
        Policy::Balanced { by },
    ] {
        for scheme in [&scheme(), &multi_rail()] {
            let report = check(&site_of(&mini(), policy, scheme));
            assert_eq!(report.findings, [], "{}", policy.name());
        }
    }
    for scheme in [&scheme(), &multi_rail()] {
        let flat = check(&site_of(&mini(), Policy::Flat, scheme));
        assert!(flat.is_proved(), "{:?}", flat.findings);
        let is_shared = |finding: &Finding| matches!(finding, Finding::SharedPrimary { .. });
        assert!(!flat.findings.is_empty() && flat.findings.iter().all(is_shared));
    }
}

fn servers_of(site: &mut Site) -> impl Iterator<Item = &mut fgr::config::Class> {
    let classes = site.classes.iter_mut();
    classes.filter(|class| class.role == NodeRole::Server)
}

#[test]
fn a_server_that_sends_by_another_router_is_found() {
    let mut site = mini_site();
    servers_of(&mut site).next().unwrap().config.routes[0].priority = 3;
    let report = check(&site);
    assert!(!report.is_proved());
    let is_it = |finding: &Finding| matches!(finding, Finding::Asymmetric { .. });
    assert!(report.findings.iter().any(is_it), "{:?}", report.findings);
}

/// Changes each backup to its NID on its own slot's net, an older form of configurations:
/// 10.1.3.243 has slot 1, …
fn old_form(site: &mut Site) {
    let slot_of = |gateway: Nid| match gateway.ip().unwrap().to_string().as_str() {
        "10.1.3.243" | "10.1.3.253" => 1,
        "10.1.3.244" | "10.1.3.254" => 2,
        "10.1.3.245" | "10.1.3.255" => 3,
        "10.1.3.246" | "10.1.4.0" => 4,
        "10.1.3.247" | "10.1.4.1" => 5,
        "10.1.3.248" | "10.1.4.2" => 6,
        other => panic!("no router has {other}"),
    };
    let classes = site.classes.iter_mut();
    for class in classes.filter(|class| class.role == NodeRole::Client) {
        for route in &mut class.config.routes {
            let net = Net::tcp(100 + slot_of(route.gateway));
            route.gateway = Nid::from_number(net, route.gateway.number());
        }
    }
}

#[test]
fn backups_on_their_own_slot_nets_are_rejected_with_three_reasons() {
    let mut site = mini_site();
    old_form(&mut site);
    let report = check(&site);
    assert!(!report.is_proved());
    let mut reasons = [0; 3];
    for finding in &report.findings {
        match finding {
            Finding::QuietRoute { class, .. } => {
                assert!(class.starts_with("server"), "{finding}");
                reasons[0] += 1;
            }
            Finding::Lost {
                direction: Direction::Requests,
                when,
                loss,
                ..
            } => {
                assert!(matches!(when, When::After(_)), "{finding}");
                assert!(matches!(loss, Loss::SourceKept { .. }), "{finding}");
                reasons[1] += 1;
            }
            Finding::Lost { .. } => reasons[2] += 1,
            other => panic!("{other}"),
        }
    }
    assert!(reasons.iter().all(|&count| count > 0), "{reasons:?}");
    // Two of the three routes to each slot, for the nets of two servers with six slots each.
    assert_eq!(reasons[0], 24);
}

#[test]
fn servers_without_sibling_routes_are_rejected_in_both_directions() {
    let mut site = mini_site();
    for server in servers_of(&mut site) {
        server.config.routes.retain(|route| route.priority == 0);
    }
    let report = check(&site);
    assert!(!report.is_proved());
    let lost = |wanted: Direction| {
        let mut found = report.findings.iter();
        found.any(|finding| match finding {
            Finding::Lost {
                direction,
                loss,
                when: When::After(Failure { kind, .. }),
                ..
            } => {
                let why = match direction {
                    Direction::Requests => {
                        matches!(loss, Loss::Dropped { by, .. } if by.starts_with("server"))
                    }
                    Direction::ServerStarted => *loss == Loss::NoRoute,
                };
                *direction == wanted && why && *kind == FailureKind::Router
            }
            _ => false,
        })
    };
    assert!(
        Direction::ALL.into_iter().all(lost),
        "{:?}",
        report.findings
    );
}

#[test]
fn rules_that_send_a_client_by_another_router_are_found() {
    let mut site = site_of(&mini(), Policy::STRICT, &multi_rail());
    let server = servers_of(&mut site).next().unwrap();
    assert!(server.rules.len() > 2, "{:?}", server.rules);
    server.rules.rotate_left(1);
    assert!(
        check(&site).is_proved(),
        "rules of different clients have no order"
    );
    servers_of(&mut site).next().unwrap().rules.pop();
    let found = check(&site).findings;
    let is_it = |finding: &Finding| matches!(finding, Finding::Asymmetric { .. });
    assert!(found.iter().any(is_it), "{found:?}");
}

/// Returns the times until the worst failure of a kind is noticed: known, silent for kernel nodes, silent for nodes of
/// Finerail.
fn noticed(report: &Report, kind: FailureKind, direction: Direction) -> Option<[u32; 3]> {
    let mut outages = report.outages.iter();
    let outage = outages.find(|o| (o.failure.kind, o.direction) == (kind, direction));
    let outage = outage.unwrap();
    assert!(outage.pairs > 0);
    let times = outage.unnoticed;
    times.map(|time| [time.shown, time.kernel(), time.finerail])
}

#[test]
fn the_time_until_a_failure_is_noticed_follows_from_the_timeouts() {
    use Direction::{Requests, ServerStarted};
    use FailureKind::{ClientSide, Leaf, Module, Router, ServerSide};
    let report = check(&mini_site());
    let expected = [
        (Router, Requests, Some([20, 50, 30])),
        (Router, ServerStarted, Some([20, 50, 30])),
        (Module, Requests, Some([20, 50, 30])),
        (ClientSide, Requests, Some([20, 50, 30])),
        (ClientSide, ServerStarted, Some([20, 50, 50])),
        (ServerSide, Requests, Some([20, 50, 50])),
        (ServerSide, ServerStarted, Some([20, 50, 30])),
        (Leaf, Requests, None),
    ];
    for (kind, direction, times) in expected {
        let found = noticed(&report, kind, direction);
        assert_eq!(found, times, "{kind:?} {direction:?}");
    }
    let lasting = |kind| {
        let of_kind = report.outages.iter().filter(|o| o.failure.kind == kind);
        of_kind.map(|outage| outage.lasting).sum::<u64>()
    };
    assert_eq!(lasting(FailureKind::Router), 0);
    assert!(lasting(FailureKind::Leaf) > 0);
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
        found.iter().any(|f| matches!(f, Finding::Lost { .. })),
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
fn rails_with_discovery_on_are_proved_and_slots_with_discovery_on_are_not() {
    let rail = |number: u16, form| {
        let scheme = Scheme {
            client_net: Net::tcp(number * 1000),
            client_interface: format!("hsn{number}"),
            client_addresses: Ipv4Addr::new(10, 100 + number as u8, 0, 0),
            server_addresses: Ipv4Addr::new(10, 200 + number as u8, 0, 0),
            form,
            ..scheme()
        };
        let mut site = site_of(&mini(), Policy::STRICT, &scheme);
        // Only clients and servers are on both rails.
        for node in &mut site.nodes {
            if site.classes[node.class].role == NodeRole::Router {
                node.name = format!("{}-{number}", node.name);
            }
        }
        site
    };
    let joined = |form| Site::join(&[rail(1, form), rail(2, form)]).unwrap();
    let report = check(&joined(Form::MultiRail));
    assert!(report.is_proved(), "{:?}", report.findings);
    let mut slots = joined(Form::SlotNets);
    for class in &mut slots.classes {
        class.config.globals.discovery = Some(true);
    }
    let findings = check(&slots).findings;
    assert!(
        findings
            .iter()
            .any(|f| matches!(f, Finding::DiscoveryOn { .. }))
    );
}

#[test]
fn a_new_policy_is_rolled_out_without_a_loss() {
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
fn two_sub_groups_that_swap_their_slots_have_no_safe_order() {
    let swapped = |net: Net| match net.number {
        slot @ 101..=103 => Net::tcp(slot + 3),
        slot @ 104..=106 => Net::tcp(slot - 3),
        _ => net,
    };
    let old = mini_site();
    let mut new = old.clone();
    for class in &mut new.classes {
        for route in &mut class.config.routes {
            route.net = swapped(route.net);
            let (net, address) = (route.gateway.net(), route.gateway.number());
            route.gateway = Nid::from_number(swapped(net), address);
        }
        for net in &mut class.config.nets {
            net.net = swapped(net.net);
        }
    }
    for node in &mut new.nodes {
        let moved = |nid: Nid| Nid::from_number(swapped(nid.net()), nid.number());
        node.nids = node.nids.iter().map(moved).collect();
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
    let planned = &site.plan_of(node, false);
    let running = site.node_config(node);
    assert!(node.nids.iter().eq(nids(&running)));
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
            "lnetctl net add --nid 10.1.0.0@tcp106",
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
    let found = differences(&site.plan_of(&site.nodes[0], false), &running);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].commands.is_empty() && found[0].is_left_alone,
        "{found:?}"
    );
}

#[test]
fn numbers_and_nets_that_do_not_fit_are_rejected() {
    let machine = mini();
    let plan = assign(&machine, Policy::STRICT, &Options::default()).unwrap();
    let rejection = |scheme: &Scheme, servers: &[Server]| {
        Site::new(&machine, &plan, scheme, servers).unwrap_err()
    };
    let two = servers(&machine, 2);
    let last = Ipv4Addr::BROADCAST;
    let no_address = Scheme {
        client_addresses: last,
        ..scheme()
    };
    assert!(matches!(
        rejection(&no_address, &two),
        SiteError::NoAddress { .. }
    ));
    let no_number = Scheme {
        client_net: Net::tcp(65_533),
        ..scheme()
    };
    assert!(matches!(
        rejection(&no_number, &two),
        SiteError::NoNetNumber { .. }
    ));
    let clash = Scheme {
        client_net: "o2ib200".parse().unwrap(),
        ..scheme()
    };
    assert!(matches!(rejection(&clash, &two), SiteError::NetTwice(_)));
    assert!(matches!(
        rejection(&scheme(), &two[..2]),
        SiteError::NoServer(_)
    ));
    let elsewhere = read_servers("servers", "mds,10.0.0.1@o2ib7\n").unwrap();
    assert!(matches!(
        rejection(&scheme(), &elsewhere),
        SiteError::UnknownNet { .. }
    ));
}

#[test]
fn names_that_would_leave_their_file_or_column_are_rejected() {
    let plan = |machine: &Machine| assign(machine, Policy::STRICT, &Options::default()).unwrap();
    let rejection = |edit: fn(&mut Machine)| {
        let mut machine = mini();
        edit(&mut machine);
        let site = Site::new(&machine, &plan(&machine), &scheme(), &servers(&machine, 1));
        site.unwrap_err()
    };
    let found = rejection(|machine| machine.clients[0].name = Some("../../etc/passwd".into()));
    assert!(matches!(found, SiteError::BadName { .. }), "{found}");
    let found = rejection(|machine| machine.modules[0].blade = "a,b".to_owned());
    assert!(matches!(found, SiteError::BadName { .. }), "{found}");
    let found = rejection(|machine| machine.clients[0].name = Some("nid00001".into()));
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
    let problems = read_nodes("nodes.csv", text.as_bytes()).unwrap_err().0;
    let lines: Vec<u32> = problems.iter().map(|problem| problem.place.line).collect();
    assert_eq!(lines, [3, 3, 3, 4]);
    let twice =
        "node,role,class,blade,nids\nn[1-2],client,c,,[1-2]@gni\n\"n2\",client,c,,3@gni\r\n";
    let problems = read_nodes("nodes.csv", twice.as_bytes()).unwrap_err().0;
    assert!(
        problems[0]
            .to_string()
            .contains(":3: node: 'n2' is not new: it is at line 2")
    );
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

#[test]
fn nodes_that_follow_each_other_share_a_line() {
    let text = nodes_csv(&mini_site());
    let lines: Vec<&str> = text.lines().collect();
    // Clients at one (x, y) have the same table for every z.
    assert_eq!(
        lines[1],
        "nid[00000-00003],client,client-001,,10.1.0.[0-3]@tcp[101-106]"
    );
    assert!(lines.len() < 1 + 192 / 4 + 12 + 2 + 1, "{text}");
    let mut inventory = String::new();
    mini_site().write_inventory(&mut inventory).unwrap();
    assert!(
        inventory.contains("            nid[00000:00003]:\n"),
        "{inventory}"
    );
}

/// A torus with one net that has more routers than LNet accepts interfaces.
fn many_slots() -> Machine {
    let dimension = |name: &str, size| fgr::topology::Dimension {
        name: name.to_owned(),
        size,
        wrap: true,
        cost: 1,
        capacity: vec![1.0],
    };
    let dimensions = vec![dimension("x", 17), dimension("y", 4), dimension("z", 16)];
    let grid = fgr::topology::Grid::new(dimensions).unwrap();
    let size = fgr::Synthetic {
        groups: 1,
        modules: 210,
        nets: 1,
    };
    fgr::synthetic("many", grid, fgr::topology::Tie::Split, size).unwrap()
}

#[test]
fn more_slot_nets_than_lnet_takes_are_rejected_before_planning_and_two_ways_out_work() {
    let machine = many_slots();
    let rejection = scheme().check(&machine).unwrap_err();
    let text = rejection.to_string();
    for part in ["210 nets", "199", "--slots used", "--form multi-rail"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let by = fgr::Metric::Cost;
    let used = Scheme {
        slots: Slots::Used,
        ..scheme()
    };
    for scheme in [used, multi_rail()] {
        scheme.check(&machine).unwrap();
        let site = site_of(&machine, Policy::Nearest { by }, &scheme);
        let nets = site.classes.iter().map(|class| class.config.nets.len());
        assert!(nets.max() < Some(40), "few nets each");
        assert_eq!(reread(&site), site);
        if scheme.form == Form::SlotNets {
            assert_eq!(check(&site).findings, []);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn synthetic_machines_of_any_shape_are_proved(
        (x, z) in (3_u16..8, 2_u16..6), groups in 1_u16..4, modules in 2_u16..4, nets in 1_u16..5,
    ) {
        let dimension = |name: &str, size| fgr::topology::Dimension {
            name: name.to_owned(),
            size,
            wrap: true,
            cost: if name == "y" { 8 } else { 4 },
            capacity: vec![1.0],
        };
        let dimensions = vec![dimension("x", x), dimension("y", 8), dimension("z", z)];
        let grid = fgr::topology::Grid::new(dimensions).unwrap();
        let size = fgr::Synthetic { groups, modules, nets };
        let Ok(machine) = fgr::synthetic("any", grid, fgr::topology::Tie::Split, size) else {
            return Ok(());
        };
        let site = site_of(&machine, Policy::STRICT, &scheme());
        prop_assert_eq!(check(&site).findings, []);
        prop_assert_eq!(reread(&site), site);
    }
}
