//! `finerail fgr` on the command line: its output, its files and its exit codes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use common::finerail;
use common::process::{Ended, run};

/// A torus of 192 clients, with two groups of two sub-groups of three modules.
const SMALL: [&str; 2] = ["--machine", "synthetic:6x8x4:2x3x1"];

fn fgr(words: &[&str]) -> Ended {
    run(finerail([&["fgr"], words].concat()))
}

fn small(command: &str, words: &[&str]) -> Ended {
    fgr(&[&[command], &SMALL[..], words].concat())
}

/// Writes the configuration of the small machine, and returns its directory.
fn configure(directory: &Path, words: &[&str]) -> PathBuf {
    let out = directory.join("conf");
    let net = ["--client-net", "tcp100", "-o", out.to_str().unwrap()];
    small("config", &[&net[..], words].concat()).expect_code(0);
    out
}

/// Returns the path of a file of Titan's data. If it is absent, prints a message and returns
/// `None`, or fails in CI.
fn titan_file(name: &str) -> Option<String> {
    let path = testkit::shared_data(format!("titan/{name}"))?;
    Some(path.to_str().unwrap().to_owned())
}

#[test]
fn a_plan_as_csv_is_the_header_and_a_line_for_each_client_and_net() {
    let ended = small("plan", &["--format", "csv"]).expect_code(0);
    let lines: Vec<&str> = ended.out.split_terminator('\n').collect();
    assert_eq!(
        lines[0],
        "client_nid,net,primary_nid,backup1_nid,backup2_nid"
    );
    assert_eq!(lines.len(), 1 + 192 * 2);
    assert_eq!(lines[1], "0,o2ib201,193,194,192");
    assert!(lines[384].starts_with("191,o2ib202,"));
    assert!(ended.out.ends_with('\n') && !ended.out.contains('\r'));
    assert!(ended.err.contains("synthetic"), "{}", ended.err);
}

#[test]
fn titan_is_planned_as_the_published_sample_says() {
    let (Some(map), Some(modules)) = (titan_file("titan.map"), titan_file("modules.csv")) else {
        return;
    };
    let machine = ["--machine", &map, "--modules", &modules];
    let plan = [
        &["plan", "--policy", "strict", "--format", "csv"],
        &machine[..],
    ]
    .concat();
    let ended = fgr(&plan).expect_code(0);
    assert_eq!(ended.err, "");
    assert_eq!(ended.out.lines().count(), 1 + 18_688 * 36);
    assert!(ended.out.contains("\n20,o2ib201,17736,5464,11576\n"));
    assert!(ended.out.contains("\n20,o2ib236,16171,"));

    let assign = ["assign", "--client", "0,0,10", "--group", "A", "--json"];
    let ended = fgr(&[&assign[..], &machine].concat()).expect_code(0);
    let answer: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(
        (&answer["sub_group"], &answer["offset"]),
        (&4.into(), &2.into())
    );
    let near: Vec<u64> = answer["routers"].as_array().unwrap()[..3]
        .iter()
        .map(|router| router["near_hops"].as_u64().unwrap())
        .collect();
    assert_eq!(near, [2, 7, 10]);
}

#[test]
fn a_client_is_found_by_place_and_number_and_is_the_same() {
    let by = |client| {
        small("assign", &["--client", client, "--group", "G1"])
            .expect_code(0)
            .out
    };
    let place = by("0,0,1");
    assert_eq!(place, by("1"));
    assert_eq!(place, by("1@tcp101"));
    assert!(
        place.contains("primary") && place.contains("backup 2"),
        "{place}"
    );
    small("assign", &["--client", "nobody", "--group", "G1"])
        .expect_code(2)
        .expect_error("no client of");
    small("assign", &["--client", "1", "--group", "Z"])
        .expect_code(2)
        .expect_error("the groups are G1, G2");
}

#[test]
fn policies_are_compared_beside_their_bounds() {
    let ended = small("compare", &["--policies", "strict,flat"]).expect_code(0);
    for text in [
        "strict",
        "flat",
        "limits that no plan can beat:",
        "any placement",
        "exact optimum",
        "loose",
    ] {
        assert!(ended.out.contains(text), "no {text} in {}", ended.out);
    }
    assert!(!ended.out.contains("nearest  "));
}

#[test]
fn the_front_has_the_figures_of_each_policy_for_programs() {
    let ended = small("compare", &["--front", "--json"]).expect_code(0);
    let found: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    let rows = found["policies"].as_array().unwrap();
    let labels: Vec<&str> = rows
        .iter()
        .map(|row| row["policy"].as_str().unwrap())
        .collect();
    assert_eq!(labels[0], "strict");
    assert!(labels.contains(&"slices --cap 50 --run 4"), "{labels:?}");
    assert!(
        labels
            .iter()
            .any(|label| label.starts_with("balanced --side ")),
        "{labels:?}"
    );
    for row in rows {
        for figure in ["cost", "write", "read", "job", "tables", "config_bytes"] {
            assert!(row[figure].as_f64().unwrap() > 0.0, "{figure} in {row}");
        }
    }
}

#[test]
fn a_parameter_of_another_policy_is_refused() {
    let cases = [
        ("strict", &["--side", "745"][..], "balanced"),
        ("balanced", &["--tie", "z"], "strict"),
        ("strict", &["--by", "hops"], "nearest or balanced"),
        ("cool", &["--block", "126"], "spread"),
        ("slices", &["--efficiency", "50"], "spread"),
        ("spread", &["--cut", "near"], "slices"),
        ("nearest", &["--cap", "50"], "slices"),
        ("flat", &["--run", "2"], "slices"),
        ("printed", &["--limit", "0"], "cool"),
        ("strict", &["--limit-read", "9"], "cool"),
        ("slices", &["--cut", "near", "--run", "2"], "--cut cost"),
    ];
    for (policy, parameter, has) in cases {
        let option = parameter[parameter.len() - 2];
        let words = [&["--policy", policy], parameter].concat();
        small("plan", &words)
            .expect_code(2)
            .expect_error(option)
            .expect_error(has)
            .expect_error(policy);
    }
    // The policy that suits this machine is strict.
    small("report", &["--side", "9", "-o", "none.html"])
        .expect_code(2)
        .expect_error("strict");
    small("place", &["--cap", "50"]).expect_code(2);
    small("compare", &["--policies", "strict,slices", "--side", "9"])
        .expect_code(2)
        .expect_error("strict and slices");
    small("compare", &["--front", "--by", "hops"]).expect_code(2);
    small(
        "compare",
        &["--policies", "strict,balanced", "--side", "90"],
    )
    .expect_code(0);
}

#[test]
fn all_files_are_complained_about_in_one_pass() {
    let directory = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let map = write(
        "map",
        "20 c0-0c1s5n0 compute 0 0 11\n21 c0-0c1s5n1 boss 0 0 10\n",
    );
    let modules = write("modules", "group\n");
    fgr(&["plan", "--machine", &map, "--modules", &modules])
        .expect_code(2)
        .expect_error("map:1: ")
        .expect_error("map:2: ")
        .expect_error("modules:1: ");
    fgr(&["plan", "--machine", &map])
        .expect_code(2)
        .expect_error("--modules");
    small("plan", &["--policy", "spread", "--block", "0"])
        .expect_code(2)
        .expect_error("block");
    fgr(&["plan", "--machine", "synthetic:0x1:2"])
        .expect_code(2)
        .expect_error("synthetic:XxYxZ");
}

#[test]
fn what_config_writes_is_proved_and_a_changed_file_is_not() {
    let directory = TempDir::new().unwrap();
    let conf = configure(directory.path(), &[]);
    let conf_text = conf.to_str().unwrap();
    let proved = fgr(&["check", conf_text]).expect_code(0);
    assert!(proved.out.starts_with("proved: "), "{}", proved.out);
    assert!(
        proved
            .out
            .contains("1. 12 routers\n  2. 16 servers\n  3. 192 clients")
    );

    let server = conf.join("classes/server-001.yaml");
    let text = fs::read_to_string(&server).unwrap();
    fs::write(&server, text.replacen("priority: 0", "priority: 5", 1)).unwrap();
    let refuted = fgr(&["check", conf_text]).expect_code(1);
    assert!(refuted.out.contains("error: client-"), "{}", refuted.out);
    assert!(refuted.out.contains("not proved"), "{}", refuted.out);
}

#[test]
fn more_nets_than_lnet_takes_are_refused_before_a_plan_is_made_and_used_slots_are_proved() {
    let machine = "synthetic:17x4x16:1x210x1";
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("conf");
    let out = out.to_str().unwrap();
    // An exact optimum for this plan would take long.
    let config = |words: &[&str]| {
        let common = ["config", "--machine", machine, "--client-net", "tcp100"];
        fgr(&[&common[..], &["-o", out], words].concat())
    };
    config(&["--policy", "balanced"])
        .expect_code(2)
        .expect_error("210 nets")
        .expect_error("--slots used");
    assert!(!Path::new(out).exists(), "nothing is written");
    config(&["--policy", "nearest", "--slots", "used"]).expect_code(0);
    let proved = fgr(&["check", out]).expect_code(0);
    assert!(proved.out.starts_with("proved: "), "{}", proved.out);
    let nodes = fs::read_to_string(Path::new(out).join("nodes.csv")).unwrap();
    assert!(nodes.lines().count() < 1 + 1_088 + 210 + 8, "{nodes}");
}

#[test]
fn the_multi_rail_form_has_rules_and_is_proved() {
    let directory = TempDir::new().unwrap();
    let conf = configure(directory.path(), &["--form", "multi-rail"]);
    let rules = fs::read_to_string(conf.join("classes/client-001.udsp")).unwrap();
    assert!(
        rules.starts_with("lnetctl udsp add --dst *.*.*.*@o2ib201 --rte "),
        "{rules}"
    );
    assert!(
        !conf.join("classes/client-001.conf").exists(),
        "rules are no module parameters"
    );
    let proved = fgr(&["check", conf.to_str().unwrap()]).expect_code(0);
    assert!(!proved.out.contains("warning"), "{}", proved.out);
}

#[test]
fn the_time_without_service_follows_from_the_written_intervals() {
    let directory = TempDir::new().unwrap();
    let quick = ["--check-interval", "6", "--ping-timeout", "4"];
    let conf = configure(directory.path(), &quick);
    let options = conf.join("module.conf");
    assert_eq!(
        fs::read_to_string(&options).unwrap(),
        "options lnet alive_router_check_interval=6 router_ping_timeout=4 lnet_transaction_timeout=30\n"
    );
    let check = || fgr(&["check", conf.to_str().unwrap()]).expect_code(0).out;
    let text = check();
    assert!(
        text.contains(" requests, 384 pairs, 6 s; silently: kernel nodes 36 s, Finerail 10 s"),
        "{text}"
    );
    fs::remove_file(options).unwrap();
    let text = check();
    assert!(
        text.contains(" 60 s; silently: kernel nodes 90 s, Finerail 110 s"),
        "{text}"
    );
    small("config", &["-o", "unused", "--ping-timeout", "21"])
        .expect_code(2)
        .expect_error("a ping within 21 s");
}

#[test]
fn exports_are_checked_against_the_plan_and_told_what_to_run() {
    let directory = TempDir::new().unwrap();
    let conf = configure(directory.path(), &["--per-node"]);
    let plan = conf.to_str().unwrap();
    let copies = directory.path().join("exports");
    fs::create_dir(&copies).unwrap();
    let copied = fs::read_dir(conf.join("nodes")).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let copy = copies.join(entry.file_name());
        fs::copy(entry.path(), &copy).unwrap();
        copy.to_str().unwrap().to_owned()
    });
    let mut exports: Vec<String> = copied.collect();
    exports.sort();
    let check = |exports: &[String]| {
        let exports: Vec<&str> = exports.iter().map(String::as_str).collect();
        let words = ["check", "--server-nets", "o2ib[201-202]", "--planned", plan];
        fgr(&[&words[..], &exports].concat())
    };
    check(&exports).expect_code(0);
    fgr(&["diff", plan, &exports[0]]).expect_code(0);

    let text = fs::read_to_string(&exports[0]).unwrap();
    fs::write(&exports[0], text.replacen("priority: 1", "priority: 4", 1)).unwrap();
    let found = check(&exports).expect_code(1);
    assert!(
        found.out.contains("error: nid00000: o2ib201 by "),
        "{}",
        found.out
    );
    let commands = fgr(&["diff", plan, &exports[0]]).expect_code(1).out;
    assert!(
        commands.contains("\nlnetctl route add --net o2ib201 "),
        "{commands}"
    );

    let class = conf.join("classes/client-001.yaml");
    fgr(&["diff", plan, class.to_str().unwrap()])
        .expect_code(2)
        .expect_error("NIDs");
    fgr(&["check", &exports[0]])
        .expect_code(2)
        .expect_error("--server-nets");
    fgr(&["check", "--server-nets", "o2ib", class.to_str().unwrap()])
        .expect_code(2)
        .expect_error("no NIDs");
    fgr(&["check", directory.path().to_str().unwrap()])
        .expect_code(2)
        .expect_error("nodes.csv");
}
