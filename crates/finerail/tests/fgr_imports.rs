//! `finerail fgr import` and `finerail fgr rails` on files of sites, on the command line.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use common::finerail;
use common::process::{Ended, run};

fn fgr(words: &[&str]) -> Ended {
    run(finerail([&["fgr"], words].concat()))
}

/// Returns the path of a file of the trials. If the file is absent, prints a message and returns
/// `None`, or fails in CI.
fn trial(name: &str) -> Option<String> {
    let path = testkit::shared_data(format!("trials/fgr/{name}"))?;
    Some(path.to_str().unwrap().to_owned())
}

fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_rail_of_an_ai_fabric_is_imported_by_name_and_what_is_skipped_is_told() {
    let Some(file) = trial("rails.txt") else {
        return;
    };
    let hosts = [15, 16, 14, 15];
    for (rail, count) in (1..).zip(hosts) {
        let rail = format!("{rail}");
        let ended = fgr(&["import", "ibnetdiscover", &file, "--rail", &rail]).expect_code(0);
        let clients: Vec<&str> = ended
            .out
            .lines()
            .filter(|line| line.contains("name: \"gpu"))
            .collect();
        let absent = 16 - count;
        assert_eq!(clients.len(), count, "rail {rail}: {}", ended.out);
        assert!(
            !ended.out.contains("name: \"Mellanox\"") && !ended.out.contains("name: \"MT4129\"")
        );
        for told in [
            "skipped: 8 adapters, because they are aggregation nodes of switches: H-0000ee0000000000 on leaf-01-01",
            "skipped: 4 adapters, because a default description names no host: ",
            "warning: degraded: 4 links of hosts are not 4xNDR as most are: gpu002 mlx5_0 (4xDDR)",
            "warning: uneven rails: rail 1 has",
        ] {
            assert!(ended.err.contains(told), "{told} in {}", ended.err);
        }
        if absent > 0 {
            let told =
                format!("skipped: {absent} hosts, because they have no adapter on rail {rail}");
            assert!(ended.err.contains(&told), "{told} in {}", ended.err);
        }
    }
    let ended = fgr(&["import", "ibnetdiscover", &file, "--rail", "5"]).expect_code(2);
    assert!(ended.err.contains("there is no rail 5"), "{}", ended.err);
}

#[test]
fn the_ports_of_one_adapter_are_rails() {
    let Some(file) = trial("dual.txt") else {
        return;
    };
    for rail in ["1", "2"] {
        let ended = fgr(&["import", "ibnetdiscover", &file, "--rail", rail]).expect_code(0);
        assert!(
            ended.out.contains("\"node1\"") && ended.out.contains("\"node2\""),
            "{}",
            ended.out
        );
        assert!(
            ended.out.contains(&format!("HCA-1/{rail}")),
            "{}",
            ended.out
        );
    }
}

#[test]
fn a_slurm_tree_with_two_spines_has_two_parents_a_leaf_and_is_planned() {
    let Some(file) = trial("slurm-tree-two-spines.conf") else {
        return;
    };
    let directory = TempDir::new().unwrap();
    let routers = "group,subgroup,blade,node,net\nA,1,b0,kn0007,o2ib1\nA,1,b1,kn0031,o2ib1\n";
    let routers = write(directory.path(), "routers.csv", routers);
    let ended = fgr(&["import", "slurm", &file, "--routers", &routers]).expect_code(0);
    assert!(
        ended.out.contains("{down: 8, up: 1,") && ended.out.contains("{down: 4, up: 2,"),
        "{}",
        ended.out
    );
    let machine = write(directory.path(), "machine.yaml", &ended.out);
    let ended = fgr(&["plan", "--machine", &machine, "--format", "csv"]).expect_code(0);
    assert_eq!(ended.out.lines().count(), 1 + 30);
    let client = [
        "assign",
        "--machine",
        &machine,
        "--client",
        "kn0000",
        "--group",
        "A",
    ];
    let ended = fgr(&client).expect_code(0);
    assert!(ended.out.contains("kn0007"), "{}", ended.out);
}

/// Two clients and two gateways of a dragonfly with four interfaces towards each other; one gateway
/// has two behind it.
fn site_files(directory: &Path) -> [String; 4] {
    let list = "node,switch\nx1000c0s0b0n0,x1000c0r3\nx1000c0s0b0n1,x1000c0r7\ngw01,x1000c0r3\ngw02,x1001c0r3\n";
    let routers = "group,subgroup,blade,node,net\nA,1,rack1,gw01,o2ib1\nA,1,rack2,gw02,o2ib1\n";
    let mut nics = "node,net,interface,address,rate\n".to_owned();
    for (n, node) in (1..).zip(["x1000c0s0b0n0", "x1000c0s0b0n1", "gw01", "gw02"]) {
        for nic in 0..4 {
            nics += &format!("{node},,hsn{nic},10.1.{nic}.{n},25\n");
        }
    }
    nics += "gw01,o2ib1,ib0,10.2.0.1,50\ngw01,o2ib1,ib1,10.2.0.2,50\ngw02,o2ib1,ib0,10.2.0.3,50\n";
    [
        write(directory, "nodes.csv", list),
        write(directory, "routers.csv", routers),
        write(directory, "nics.csv", &nics),
        write(directory, "servers.csv", "oss1,10.3.0.1@o2ib1\n"),
    ]
}

#[test]
fn names_and_addresses_of_a_site_are_in_its_configurations() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let [list, routers, nics, servers] = site_files(directory.path());
    let import = [
        "import",
        "dragonfly",
        &list,
        "--routers",
        &routers,
        "--nics",
        &nics,
    ];
    let machine = write(
        directory.path(),
        "machine.yaml",
        &fgr(&import).expect_code(0).out,
    );
    for form in ["slot-nets", "multi-rail"] {
        let conf = path(form);
        let config = [
            "config",
            "--machine",
            &machine,
            "--client-net",
            "tcp100",
            "--form",
            form,
        ];
        let words = [
            &config[..],
            &["--servers", &servers, "--per-node", "-o", &conf],
        ]
        .concat();
        fgr(&words).expect_code(0);
        let nodes = fs::read_dir(path(&format!("{form}/nodes"))).unwrap();
        let names = nodes.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let names: Vec<String> = names.collect();
        assert!(names.contains(&"gw01.yaml".to_owned()), "{names:?}");
        assert!(
            names.iter().all(|name| !name.starts_with("nid")),
            "{names:?}"
        );
        let client = fs::read_to_string(path(&format!("{form}/nodes/x1000c0s0b0n0.yaml"))).unwrap();
        for nic in 0..4 {
            assert!(
                client.contains(&format!("nid: 10.1.{nic}.1@tcp")),
                "{client}"
            );
        }
        fgr(&["check", &conf]).expect_code(0);
    }
}

#[test]
fn an_interface_of_a_node_that_is_not_there_is_rejected_with_its_line() {
    let directory = TempDir::new().unwrap();
    let [list, ..] = site_files(directory.path());
    let wrong = "node,net,interface,address,rate\nnobody,,hsn0,10.0.0.1,25\n";
    let wrong = write(directory.path(), "wrong.csv", wrong);
    let ended = fgr(&["import", "dragonfly", &list, "--nics", &wrong]).expect_code(2);
    let told = "wrong.csv:2: node: 'nobody' is not a node of the topology";
    assert!(ended.err.contains(told), "{}", ended.err);
}

/// Checks the report of the rails.
fn check_page(page: &Path, form: &str) {
    let page = fs::read_to_string(page).unwrap();
    assert_eq!(page.contains("lnetctl udsp add"), form == "pairs", "{page}");
    for text in [
        "<!DOCTYPE html>",
        "leaf-02-03",
        "Proved: clients",
        "published: the data rate",
        "<svg class=",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
}

#[test]
fn rails_are_explained_proved_and_written() {
    let Some(file) = trial("rails.txt") else {
        return;
    };
    let directory = TempDir::new().unwrap();
    let conf = directory.path().join("conf").to_str().unwrap().to_owned();
    for form in ["nets", "pairs"] {
        let words = [
            "rails",
            &file,
            "--servers",
            "gpu[008,015]",
            "--form",
            form,
            "--numa",
            "0,0,1,1",
        ];
        let page = directory.path().join("rails.html");
        let written = [
            "-o",
            &conf,
            "--per-node",
            "--report",
            page.to_str().unwrap(),
        ];
        let ended = fgr(&[&words[..], &written].concat()).expect_code(0);
        check_page(&page, form);
        assert!(
            ended
                .out
                .contains("proved: clients and servers meet, no rail is idle"),
            "{}",
            ended.out
        );
        assert!(ended.out.contains("leaf-02-03"), "{}", ended.out);
        let node = fs::read_to_string(format!("{conf}/nodes/gpu004.yaml")).unwrap();
        assert!(node.contains("CPT: \"[1]\""), "{node}");
        // The other view on the same files: every node reaches every other one directly.
        let nodes = format!("{conf}/nodes");
        let ended = run(finerail(["site", "check", &nodes])).expect_code(0);
        assert!(
            ended.out.contains("16 nodes") && ended.out.contains(" 0 errors"),
            "{}",
            ended.out
        );
        let ended = run(finerail(["site", "reach", &nodes])).expect_code(0);
        assert!(
            ended.out.contains("works gpu") && !ended.out.contains("fails"),
            "{}",
            ended.out
        );
    }
    // This server has no adapter on rail 3, on which the clients' adapters are then idle.
    let json = fgr(&["rails", &file, "--servers", "gpu008", "--json"]).expect_code(1);
    let answer: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(answer["rails"].as_array().unwrap().len(), 4);
    assert_eq!(answer["leaves"].as_array().unwrap().len(), 8);
    assert!(
        answer["findings"][0]
            .as_str()
            .unwrap()
            .starts_with("rail 3 of client-001 is idle")
    );
    fgr(&["rails", &file, "--servers", "oss1"])
        .expect_code(2)
        .expect_error("server 'oss1' is not a host of the listing");
}

#[test]
fn modules_of_an_imported_machine_are_placed_by_the_names_of_nodes() {
    let directory = TempDir::new().unwrap();
    let (mut list, mut sites) = (
        "node,group,switch\n".to_owned(),
        "blade,cabinet,kind,node,at\n".to_owned(),
    );
    for node in 0..16 {
        let (group, switch) = (node / 8, node / 2 % 4);
        list += &format!("gpu{node:03},g{group},s{switch}\n");
        // Two nodes stay clients in any case.
        if node % 8 > 0 {
            sites += &format!("b{node},c{group},service,gpu{node:03},\n");
        }
    }
    let list = write(directory.path(), "nodes.csv", &list);
    let sites = write(directory.path(), "sites.csv", &sites);
    let routers = "group,subgroup,blade,node,net\nA,1,b1,gpu001,o2ib1\nA,1,b2,gpu002,o2ib1\n";
    let routers = write(directory.path(), "routers.csv", routers);
    let ended = fgr(&["import", "dragonfly", &list, "--routers", &routers]).expect_code(0);
    let machine = write(directory.path(), "machine.yaml", &ended.out);
    let found = directory.path().join("found");
    let place = [
        "place",
        "--machine",
        &machine,
        "--sites",
        &sites,
        "--policy",
        "balanced",
        "--candidates",
        "200",
        "-o",
        found.to_str().unwrap(),
    ];
    let ended = fgr(&place).expect_code(0);
    assert!(ended.out.contains("as it stands"), "{}", ended.out);
    let placements = fs::read_to_string(found.join("placements.csv")).unwrap();
    let nodes = placements
        .lines()
        .skip(1)
        .filter_map(|line| line.rsplit(',').next());
    assert!(
        nodes.clone().count() > 0 && nodes.clone().all(|node| node.starts_with("gpu")),
        "{placements}"
    );

    let unknown = write(
        directory.path(),
        "unknown.csv",
        "blade,cabinet,kind,node,at\nb1,c0,service,gpu99,\n",
    );
    let ended = fgr(&[
        "place",
        "--machine",
        &machine,
        "--sites",
        &unknown,
        "--policy",
        "balanced",
    ])
    .expect_code(2);
    assert!(
        ended.err.contains("unknown.csv:2: ") && ended.err.contains("gpu99"),
        "{}",
        ended.err
    );
}

#[test]
fn a_dragonfly_whose_nodes_have_four_ports_is_imported_and_planned_with_cooler_links() {
    let directory = TempDir::new().unwrap();
    let hottest = |ports: usize| {
        let mut list = "node,group,switch\n".to_owned();
        for node in 0..32 {
            for port in 0..ports {
                list += &format!("n{node},g{},s{}\n", node / 16, (node + port) % 8);
            }
        }
        let list = write(directory.path(), "nodes.csv", &list);
        let routers = "group,subgroup,blade,node,net\nA,1,b0,n0,o2ib1\nA,1,b1,n17,o2ib1\n";
        let routers = write(directory.path(), "routers.csv", routers);
        let ended = fgr(&["import", "dragonfly", &list, "--routers", &routers]).expect_code(0);
        let machine = write(directory.path(), "machine.yaml", &ended.out);
        let ended = fgr(&["plan", "--machine", &machine, "--policy", "balanced"]).expect_code(0);
        let line = ended
            .out
            .lines()
            .find(|line| line.contains("hottest link"))
            .unwrap();
        let load = line
            .split("write ")
            .nth(1)
            .unwrap()
            .split(',')
            .next()
            .unwrap();
        load.parse::<f64>().unwrap()
    };
    let (one, four) = (hottest(1), hottest(4));
    assert!(four < one, "{four} with four ports, {one} with one");
}

#[test]
fn hostile_files_are_rejected_with_a_line_and_in_bounded_time() {
    let directory = TempDir::new().unwrap();
    let binary: Vec<u8> = (0..4_096_u32).map(|n| (n * 7 % 256) as u8).collect();
    let binary_file = directory.path().join("binary");
    fs::write(&binary_file, binary).unwrap();
    let cyclic = "SwitchName=a Switches=b\nSwitchName=b Switches=c\nSwitchName=c Switches=a\n";
    let cyclic = write(directory.path(), "cyclic.conf", cyclic);
    let truncated = "Switch 36 \"S-1\" # \"leaf\" lid 1\n[1] \"H-1\"[1](1) # \"n1 HCA-1\" lid 2 4xHDR\n[2] \"H-2";
    let truncated = write(directory.path(), "truncated.txt", truncated);
    let many = format!(
        "SwitchName=a Nodes=n[{}]\n",
        vec!["0-2000000"; 50].join(",")
    );
    let many = write(directory.path(), "many.conf", &many);
    for kind in ["slurm", "ibnetdiscover", "dragonfly", "xtprocadmin"] {
        for file in [binary_file.to_str().unwrap(), &cyclic, &truncated, &many] {
            let ended = fgr(&["import", kind, file]);
            assert!(
                ended.status.code() == Some(2) && !ended.err.contains("panicked"),
                "{kind} {file}: {}",
                ended.err
            );
        }
    }
    let ended = fgr(&["import", "slurm", &cyclic]);
    assert!(ended.err.contains("cyclic.conf:1: "), "{}", ended.err);
    let ended = fgr(&["import", "ibnetdiscover", &truncated]);
    assert!(
        ended.err.contains("truncated.txt:3: line: "),
        "{}",
        ended.err
    );
}

#[test]
fn an_endless_source_that_is_no_text_is_refused_soon() {
    for source in ["/dev/urandom", "/dev/zero"] {
        let ended = fgr(&["import", "slurm", source]).expect_code(2);
        let expected = format!("cannot read {source}");
        assert!(ended.err.contains(&expected), "{}", ended.err);
    }
}

#[test]
fn an_error_of_a_tunable_names_the_option_and_the_key() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("configs");
    for (option, given, wanted) in [
        (
            "--client-tunables",
            "conns_per_peer=1000",
            "tunables of gni101: invalid value '1000' for key 'conns_per_peer'",
        ),
        (
            "--server-tunables",
            "credits=8,credits=9",
            "'credits' is given twice; remove one of them",
        ),
    ] {
        let machine = "synthetic:6x8x4:2x3x1";
        let out = out.to_str().unwrap();
        let ended = fgr(&["config", "--machine", machine, option, given, "-o", out]).expect_code(2);
        let said = ended
            .err
            .lines()
            .find(|line| line.starts_with("finerail: "))
            .unwrap();
        assert!(
            said.starts_with(&format!("finerail: {option}: ")) && said.contains(wanted),
            "{said}"
        );
        assert!(!said.contains("line "), "{said}");
    }
}
