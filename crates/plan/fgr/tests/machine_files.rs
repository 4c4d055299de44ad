//! The chapter on machine files: its examples can be planned and proved. Also routers with several
//! nets, joined sites, and imported machines.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::net::Ipv4Addr;

use fgr::check::check;
use fgr::config::{BackupPriority, Form, JoinError, Scheme, Server, Site, Slots, Timing};
use fgr::import::{Assumed, dragonfly, read_routers, slurm};
use fgr::{Machine, Metric, Options, Policy, assign, preset, read_machine, read_modules};

use common::mini;

const CHAPTER: &str = include_str!("../../../../docs/machine-files.md");

fn scheme() -> Scheme {
    Scheme {
        client_net: "tcp100".parse().unwrap(),
        client_interface: "hsn0".to_owned(),
        server_interface: "ib0".to_owned(),
        client_addresses: first(),
        server_addresses: Ipv4Addr::new(10, 2, 0, 0),
        backups: BackupPriority::Ranked,
        form: Form::SlotNets,
        slots: Slots::All,
        timing: Timing::PLANNED,
    }
}

fn planned(machine: &Machine, client_net: &str, first: Ipv4Addr) -> Site {
    let dead = machine.down.clone();
    let options = Options {
        dead,
        ..Options::default()
    };
    let plan = assign(machine, Policy::suited(machine), &options).unwrap();
    let nets = machine.nets.iter().map(|entry| entry.net);
    let servers = Server::synthetic(nets, 2, Ipv4Addr::new(10, 3, 0, 0)).unwrap();
    let scheme = Scheme {
        client_net: client_net.parse().unwrap(),
        client_addresses: first,
        server_addresses: Ipv4Addr::from_bits(first.to_bits() + (1 << 16)),
        ..scheme()
    };
    Site::new(machine, &plan, &scheme, &servers).unwrap()
}

fn first() -> Ipv4Addr {
    Ipv4Addr::new(10, 1, 0, 0)
}

#[test]
fn every_example_of_the_chapter_is_read_planned_and_proved() {
    let blocks = CHAPTER.split("```yaml\n").skip(1);
    let examples: Vec<&str> = blocks
        .map(|block| block.split("```").next().unwrap())
        .collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let machine = read_machine("example", example).unwrap();
        let report = check(&planned(&machine, "tcp100", first()));
        assert!(
            report.is_proved() && report.pairs > 0,
            "{}: {report:?}",
            machine.name
        );
    }
}

#[test]
fn a_router_of_several_nets_is_one_node_with_all_of_them() {
    let example = CHAPTER
        .split("```yaml\n")
        .nth(3)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let machine = read_machine("example", example).unwrap();
    assert_eq!((machine.routers.len(), machine.nets.len()), (8, 2));
    let site = planned(&machine, "tcp100", first());
    let routers: Vec<_> = site
        .nodes
        .iter()
        .filter(|node| node.blade.is_some())
        .collect();
    assert_eq!(routers.len(), 4);
    for router in routers {
        let nets = site
            .class_of(router)
            .config
            .nets
            .iter()
            .map(|net| net.net.to_string());
        let behind = nets.filter(|net| net.starts_with("o2ib"));
        assert_eq!(behind.collect::<Vec<_>>(), ["o2ib1", "o2ib2"]);
    }
    let wrong = example.replacen("nets: [o2ib1, o2ib2]}", "nets: [o2ib1, o2ib7]}", 1);
    let error = read_machine("m", &wrong).unwrap_err().to_string();
    assert!(
        error.contains("'o2ib7' is not a net of the group"),
        "{error}"
    );
    let twice = example.replacen("{id: 20, ", "{id: 20, nets: [o2ib1]}, {id: 20, ", 1);
    assert!(
        read_machine("m", &twice)
            .unwrap_err()
            .to_string()
            .contains("node 20 is already defined")
    );
}

/// A second cluster with the same places and other numbers.
fn other_cluster() -> Machine {
    let mut machine = mini();
    for client in &mut machine.clients {
        client.id += 5_000;
    }
    for router in &mut machine.routers {
        router.id += 5_000;
    }
    machine
}

#[test]
fn two_clusters_behind_the_same_servers_are_one_proved_site() {
    let one = planned(&mini(), "tcp100", first());
    let two = planned(&other_cluster(), "tcp200", first());
    let joined = Site::join(&[one.clone(), two.clone()]).unwrap();
    assert_eq!(joined.nodes.len(), one.nodes.len() + two.nodes.len() - 4);
    let report = check(&joined);
    assert!(report.is_proved(), "{report:?}");
    assert_eq!(report.pairs, 2 * check(&one).pairs);
}

#[test]
fn two_rails_of_one_cluster_are_nodes_with_the_nets_of_both() {
    let one = planned(&mini(), "tcp100", first());
    let two = planned(&mini(), "tcp200", Ipv4Addr::new(10, 7, 0, 0));
    // Rails have routers of their own.
    let mut two = two;
    for node in two.nodes.iter_mut().filter(|node| node.blade.is_some()) {
        node.name = format!("rail2-{}", node.name);
    }
    let joined = Site::join(&[one.clone(), two]).unwrap();
    let client = |site: &Site| site.nodes[0].clone();
    assert_eq!(client(&joined).nids.len(), 2 * client(&one).nids.len());
    let nets = &joined.class_of(&client(&joined)).config.nets;
    assert_eq!(nets.len(), client(&joined).nids.len());
}

#[test]
fn sites_that_contradict_each_other_are_not_joined() {
    let one = planned(&mini(), "tcp100", first());
    let same_nets = planned(&other_cluster(), "tcp100", first());
    let error = Site::join(&[one.clone(), same_nets]).unwrap_err();
    assert!(matches!(error, JoinError::ClientNet(_)), "{error}");
    // Other clients at the addresses of the first site, so that the routers of both have the same
    // addresses.
    let mut renamed = planned(&mini(), "tcp200", first());
    for node in &mut renamed.nodes {
        node.name = format!("x{}", node.name);
    }
    let error = Site::join(&[one, renamed]).unwrap_err();
    assert!(matches!(error, JoinError::NidTwice { .. }), "{error}");
}

#[test]
fn an_imported_machine_with_routers_is_read_and_planned() {
    let assumed = Assumed {
        capacity: 25.0,
        links_per_pair: 2,
    };
    let topology = "SwitchName=s0 Nodes=n[0-3],r0\nSwitchName=s1 Nodes=n[4-7],r1\nSwitchName=top Switches=s[0-1]\n";
    let routers = "group,subgroup,blade,node,net\nA,1,b0,r0,o2ib1\nA,1,b0,r0,o2ib2\nA,1,b1,r1,o2ib1\nA,1,b1,r1,o2ib2\n";
    let lines = read_routers("routers.csv", routers).unwrap();
    let file = slurm("topology.conf", topology, assumed)
        .unwrap()
        .machine_file("c", &lines)
        .unwrap();
    let machine = read_machine("machine.yaml", &file).unwrap();
    assert_eq!((machine.clients.len(), machine.routers.len()), (8, 4));
    let by = Metric::Cost;
    assign(&machine, Policy::Balanced { by }, &Options::default()).unwrap();
    let list = "node,group,switch\nn0,g0,a\nn1,g0,b\nr0,g1,a\nr1,g1,b\n";
    let shape = dragonfly("list.csv", list, assumed).unwrap();
    let machine = read_machine("m", &shape.machine_file("d", &lines).unwrap()).unwrap();
    assert_eq!((machine.clients.len(), machine.nets.len()), (2, 2));
    let unknown = read_routers("routers.csv", &routers.replace("r1", "r9")).unwrap();
    let error = shape.machine_file("d", &unknown).unwrap_err().to_string();
    assert!(
        error.contains("routers.csv:4: node: 'r9' is not a node of the topology"),
        "{error}"
    );
}

#[test]
fn a_module_table_may_have_a_byte_order_mark_quotes_and_carriage_returns() {
    let table = "group,subgroup,index,slot,blade,x,y0,z,nid_n0,nid_n1,nid_n2,nid_n3,net_n0,net_n2,net_n1,net_n3
A,1,1,1,c7-2c2s0,4,2,0,16798,16799,16836,16837,o2ib201,o2ib210,o2ib219,o2ib228
";
    let grid = fgr::topology::titan::grid().unwrap();
    let read = |text: &str| read_modules("modules.csv", text, &grid, fgr::Role::Data);
    let blades = |text: &str| -> Vec<String> {
        read(text).map_or_else(
            |e| vec![e.to_string()],
            |modules| modules.into_iter().map(|m| m.blade).collect(),
        )
    };
    let plain = blades(table);
    let dressed = format!(
        "\u{feff}{}",
        table
            .replace("A,1,1", "\"A\", 1,\"1\"")
            .replace('\n', "\r\n")
    );
    assert_eq!(blades(&dressed), plain);
}

#[test]
fn the_policy_follows_the_fabric_and_its_size() {
    let by = Metric::Cost;
    let windowed = mini();
    assert_eq!(Policy::suited(&windowed), Policy::STRICT);
    let mut whole = windowed;
    for group in &mut whole.groups {
        let last = group.modules().end;
        group.sub_groups.truncate(1);
        group.sub_groups[0].end = last;
    }
    assert_eq!(Policy::suited(&whole), Policy::Balanced { by });
    let of = |name| Policy::suited(&preset(name).unwrap().unwrap());
    assert_eq!(of("frontier"), Policy::Balanced { by });
    assert_eq!(of("fugaku"), Policy::Nearest { by });
}
