//! What `finerail fgr` refuses, each time in words: plans of other sites, names and rates that no configuration can
//! hold, files of others, a roll-out with losses.

#![allow(
    clippy::unwrap_used,
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

fn write(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Configures a small torus, and returns the directory.
fn configure(directory: &Path, name: &str, words: &[&str]) -> String {
    let out = directory.join(name).to_str().unwrap().to_owned();
    let machine = ["--machine", "synthetic:6x8x4:2x3x1", "-o", &out];
    fgr(&[&["config"], &machine[..], words].concat()).expect_code(0);
    out
}

#[test]
fn a_plan_of_another_site_is_refused_and_one_of_the_same_site_is_compared() {
    let directory = TempDir::new().unwrap();
    let tcp = ["--client-net", "tcp100", "--per-node"];
    let plan = configure(directory.path(), "plan", &tcp);
    // Its nodes have the same names, and other NIDs.
    let moved = [
        &tcp[..],
        &["--client-addresses", "10.101.0.0"],
        &["--router-addresses", "10.102.0.0"],
        &["--server-addresses", "10.103.0.0"],
    ];
    let other = configure(directory.path(), "other", &moved.concat());
    let around = configure(
        directory.path(),
        "around",
        &[&tcp[..], &["--failed", "193"]].concat(),
    );
    let told = "other is not a plan of the site of ";
    for words in [
        ["check", &plan, "--from", &other],
        ["diff", &plan, &other, ""],
    ] {
        let words = words.into_iter().filter(|word| !word.is_empty());
        let ended = fgr(&words.collect::<Vec<_>>()).expect_code(2);
        assert!(
            ended.out.is_empty() && ended.err.contains(told),
            "{ended:?}"
        );
    }
    let export = Path::new(&other).join("nodes/nid00000.yaml");
    let words = [
        "check",
        "--server-nets",
        "o2ib[201-202]",
        "--planned",
        &plan,
    ];
    let ended = fgr(&[&words[..], &[export.to_str().unwrap()]].concat()).expect_code(2);
    let told = "plan is not a plan of this site: no node of it has a NID of these nodes";
    assert!(ended.err.contains(told), "{ended:?}");
    fgr(&["check", &around, "--from", &plan]).expect_code(0);
    fgr(&["diff", &plan, &around]).expect_code(1);
}

/// Names of nodes that a configuration, a file name or a table cannot hold.
const NAMES: [&str; 9] = [
    "../../up",
    "a/b",
    ".hidden",
    "-x",
    "two words",
    "a:b",
    "null",
    "17",
    "n123456789012345678901234567890123456789012345678901234567890123456789",
];

/// Checks that a command names a line of a file whose name of a node is none.
fn refuse(words: &[&str], file: &str, line: u32, name: &str) {
    let ended = fgr(words).expect_code(2);
    let shown: String = name.chars().take(60).collect();
    let is_told = ended.err.contains(&format!("{file}:{line}: "))
        && ended.err.contains(&format!("'{shown}' is not a name"));
    assert!(ended.out.is_empty() && is_told, "{name}: {}", ended.err);
}

/// A host of a fabric is left out with the reason, and the others are imported.
fn left_out(words: &[&str]) {
    let ended = fgr(words);
    let reason = "no configuration can carry the host name in the description";
    assert!(ended.err.contains(reason), "{ended:?}");
}

#[test]
fn a_name_that_no_configuration_can_hold_is_refused_with_its_line_where_it_is_read() {
    let directory = TempDir::new().unwrap();
    let at = directory.path();
    for name in NAMES {
        let machine = write(at, "machine.yaml", &machine("c0", name));
        refuse(&["plan", "--machine", &machine], "machine.yaml", 14, name);
        let client = write(at, "client.yaml", &self::machine(name, "r1"));
        refuse(&["plan", "--machine", &client], "client.yaml", 7, name);
        let servers = write(
            at,
            "servers.csv",
            &format!("oss0,10.0.0.1@o2ib1\n{name},10.0.0.2@o2ib1\n"),
        );
        let out = at.join("never").to_str().unwrap().to_owned();
        let good = write(at, "good.yaml", &self::machine("c0", "r1"));
        let config = [
            "config",
            "--machine",
            &good,
            "--client-net",
            "tcp1",
            "-o",
            &out,
        ];
        refuse(
            &[&config[..], &["--servers", &servers]].concat(),
            "servers.csv",
            2,
            name,
        );
        let list = write(
            at,
            "list.csv",
            &format!("node,group,switch\nn1,g0,s0\n\"{name}\",g0,s1\n"),
        );
        refuse(&["import", "dragonfly", &list], "list.csv", 3, name);
        if !name.contains(' ') {
            let tree = write(
                at,
                "topology.conf",
                &format!("SwitchName=s1 Nodes=n1,{name}\n"),
            );
            refuse(&["import", "slurm", &tree], "topology.conf", 1, name);
            let fabric = format!(
                "Switch 2 \"S-1\" # \"leaf\"\n[1] \"H-1\"[1](9) # \"{name} mlx5_0\" lid 4 4xEDR\n\
                 Ca 1 \"H-1\" # \"{name} mlx5_0\"\n[1](9) \"S-1\"[1] # lid 4 lmc 0 \"leaf\" lid 1 4xEDR\n"
            );
            let fabric = write(at, "fabric.txt", &fabric);
            left_out(&["import", "ibnetdiscover", &fabric]);
            let rails = [
                "rails",
                &fabric,
                "--servers",
                "oss1",
                "-o",
                &out,
                "--per-node",
            ];
            left_out(&rails);
        }
        let chain = format!(
            "site: x\ngroups:\n- nodes: {name:?}\n  role: client\n  on: [{{net: tcp1, first: 10.0.0.1, interface: e0, \
             rate: 1}}]\n"
        );
        let chain = write(at, "chain.yaml", &chain);
        refuse(&["chain", &chain], "chain.yaml", 3, name);
        assert!(!Path::new(&out).exists());
    }
}

/// A machine with a client of this name in line 7, and a router whose module begins in line 14.
fn machine(client: &str, router: &str) -> String {
    format!(
        "machine: small
fabric:
  kind: fat-tree
  levels: [{{down: 4, up: 1, capacity: 12.5}}]
clients:
  list:
    - {{id: 1, name: {client:?}, at: [0]}}
groups:
  - name: A
    nets: [o2ib1]
    sub-groups:
      - modules:
          # A router without a backup.
          - blade: b1
            at: [1]
            nodes: [{{id: 2, name: {router:?}}}]
"
    )
}

/// Two routers of one net, with these rates towards clients and servers, and four clients beside them.
fn gateways(rates: [&str; 2], source: &str) -> String {
    let mut text = format!(
        "machine: gateways
fabric:
  kind: fat-tree
  levels: [{{down: 8, up: 1, capacity: 25}}]
rates:
  links: 'published: data sheet'
{source}
clients:
  list:
"
    );
    for client in 1..=4 {
        text += &format!("    - {{id: {client}, at: [{client}]}}\n");
    }
    text += "groups:\n  - name: A\n    nets: [o2ib1]\n    sub-groups:\n      - modules:\n";
    for (number, rate) in (5..).zip(rates) {
        text += &format!(
            "          - blade: b{number}
            at: [{number}]
            nodes: [{{id: {number}, name: gw{number}, nics: [{{{rate}}}, {{net: o2ib1, rate: 50}}]}}]
"
        );
    }
    text
}

#[test]
fn rates_out_of_bounds_are_refused_with_their_line() {
    let directory = TempDir::new().unwrap();
    for (rate, is_good) in [
        ("0.001", true),
        ("1000000", true),
        ("0.0009", false),
        ("1000001", false),
        ("-1", false),
        ("nan", false),
    ] {
        let text = gateways([&format!("rate: {rate}"), "rate: 25"], "");
        let machine = write(directory.path(), "machine.yaml", &text);
        let ended = fgr(&["plan", "--machine", &machine]);
        match is_good {
            true => ended.expect_code(0),
            false => ended
                .expect_code(2)
                .expect_error("GB/s from 0.001 to 1,000,000"),
        };
        let job = ["job", "--machine", "synthetic:6x8x4:2x3x1", "--nodes", "0"];
        let option = format!("--router-rate={rate}");
        let ended = fgr(&[&job[..], &[&option]].concat());
        ended.expect_code(if is_good { 0 } else { 2 });
        let list = write(
            directory.path(),
            "list.csv",
            "node,group,switch\nn1,g0,s0\nn2,g0,s1\n",
        );
        let capacity = format!("--capacity={rate}");
        let ended = fgr(&["import", "dragonfly", &list, &capacity]);
        ended.expect_code(if is_good { 0 } else { 2 });
    }
}

#[test]
fn a_report_names_the_sources_of_rates_and_routers_that_get_more_than_they_forward() {
    let directory = TempDir::new().unwrap();
    let at = directory.path();
    let page = at.join("report.html").to_str().unwrap().to_owned();
    let parts = at.join("parts").to_str().unwrap().to_owned();
    let report = |machine: &str| {
        let words = [
            "report",
            "--machine",
            machine,
            "-o",
            &page,
            "--parts",
            &parts,
        ];
        let ended = fgr(&words).expect_code(0);
        (fs::read_to_string(&page).unwrap(), ended.err)
    };
    let slow = gateways(["rate: 5", "rate: 45"], "  nics: 'measured: lst'");
    let (text, told) = report(&write(at, "slow.yaml", &slow));
    for source in ["published: data sheet", "measured: lst"] {
        assert!(text.contains(source), "{source}");
    }
    let found = "router-rate: gw5 forwards 5.0 GB/s to o2ib1 by its slower side, and the plan gives it 25.0 GB/s";
    assert!(text.contains(found) && told.contains(found), "{told}");
    let rates = fs::read_to_string(at.join("parts/rates.csv")).unwrap();
    assert!(
        rates.contains("\nlinks,25,published,data sheet\n"),
        "{rates}"
    );
    let routers = fs::read_to_string(at.join("parts/routers.csv")).unwrap();
    assert!(routers.contains(",gw5,5\n"), "{routers}");

    let even = gateways(["rate: 45", "rate: 45"], "");
    let (text, told) = report(&write(at, "even.yaml", &even));
    assert!(
        !text.contains("router-rate") && !told.contains("router-rate"),
        "{told}"
    );
    assert!(text.contains("assumed: the description names no source"));

    let unknown = gateways(["interface: hsn0", "rate: 45"], "");
    let (text, told) = report(&write(at, "unknown.yaml", &unknown));
    assert!(!told.contains("router-rate"), "{told}");
    let said = "The rate of 1 of 2 routers is not known; a router without a rate limits nothing.";
    assert!(text.contains(said));
}

#[test]
fn parts_of_a_report_replace_those_of_an_earlier_one_and_nothing_else() {
    let directory = TempDir::new().unwrap();
    let at = directory.path();
    let page = at.join("report.html").to_str().unwrap().to_owned();
    let parts = at.to_str().unwrap().to_owned();
    let report = |machine: &str| {
        let words = [
            "report",
            "--machine",
            machine,
            "-o",
            &page,
            "--parts",
            &parts,
        ];
        fgr(&words)
    };
    // The table of routers that the site wrote has the name of a part.
    fs::write(at.join("routers.csv"), "mine").unwrap();
    let small = "synthetic:6x8x4:2x3x1";
    let refused = report(small).expect_code(2);
    assert!(
        refused
            .err
            .contains("routers.csv is not of an earlier report"),
        "{refused:?}"
    );
    assert_eq!(fs::read_to_string(at.join("routers.csv")).unwrap(), "mine");
    assert!(!at.join("hops.csv").exists() && !Path::new(&page).exists());
    fs::rename(at.join("routers.csv"), at.join("own.csv")).unwrap();
    report(small).expect_code(0);
    assert!(at.join("primaries-G2.svg").exists());
    report("synthetic:6x8x4:1x3x1").expect_code(0);
    assert!(!at.join("primaries-G2.svg").exists() && at.join("routers.csv").exists());
    assert_eq!(fs::read_to_string(at.join("own.csv")).unwrap(), "mine");
}

#[test]
fn a_configuration_replaces_only_the_files_of_its_own_nodes() {
    let directory = TempDir::new().unwrap();
    let words = ["--client-net", "tcp100", "--per-node"];
    let conf = configure(directory.path(), "conf", &words);
    for file in ["nodes/mine.yaml", "classes/mine.yaml"] {
        let mine = Path::new(&conf).join(file);
        fs::write(&mine, "mine").unwrap();
        let again = ["config", "--machine", "synthetic:6x8x4:2x3x1", "-o", &conf];
        let ended = fgr(&[&again[..], &words].concat()).expect_code(2);
        assert!(
            ended
                .err
                .contains("mine.yaml is not a file of this command"),
            "{ended:?}"
        );
        assert!(mine.exists() && Path::new(&conf).join("nodes.csv").exists());
        fs::remove_file(mine).unwrap();
    }
    configure(directory.path(), "conf", &words);
}

#[test]
fn files_of_others_with_the_names_of_ours_stay() {
    let directory = TempDir::new().unwrap();
    let at = directory.path().to_str().unwrap();
    let machine = ["--machine", "synthetic:6x8x4:2x3x1", "-o", at];
    for (command, file) in [("config", "inventory.yaml"), ("plan", "summary.txt")] {
        let mine = directory.path().join(file);
        fs::write(&mine, "mine").unwrap();
        let mut words = [&[command][..], &machine].concat();
        if command == "config" {
            words.extend(["--client-net", "tcp100"]);
        }
        let ended = fgr(&words).expect_code(2);
        let refused = format!("{file} is not a file of this command");
        assert!(ended.err.contains(&refused), "{ended:?}");
        assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
        fs::remove_file(mine).unwrap();
    }
}

#[test]
fn a_configuration_without_its_last_files_can_be_written_again() {
    let directory = TempDir::new().unwrap();
    let words = ["--client-net", "tcp100"];
    let conf = configure(directory.path(), "conf", &words);
    // What is written last is not there yet.
    fs::remove_file(Path::new(&conf).join("inventory.yaml")).unwrap();
    fs::remove_file(Path::new(&conf).join("module.conf")).unwrap();
    configure(directory.path(), "conf", &words);
    assert!(Path::new(&conf).join("inventory.yaml").exists());
}

#[test]
fn equal_plans_are_said_to_be_equal() {
    let directory = TempDir::new().unwrap();
    let plan = configure(directory.path(), "plan", &["--client-net", "tcp100"]);
    let ended = fgr(&["diff", &plan, &plan]).expect_code(0);
    assert_eq!(ended.out, "# no difference: 220 nodes\n");
}
