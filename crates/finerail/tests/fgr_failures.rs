//! `finerail fgr` on machines with failures, for one job, and the places of its output.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use common::finerail;
use common::process::{Ended, run};

const SMALL: [&str; 2] = ["--machine", "synthetic:6x8x4:2x3x1"];

fn fgr(command: &str, words: &[&str]) -> Ended {
    run(finerail([&["fgr", command], &SMALL[..], words].concat()))
}

fn configure(out: &Path, words: &[&str]) -> Ended {
    let net = ["--client-net", "tcp100", "-o", out.to_str().unwrap()];
    fgr("config", &[&net[..], words].concat())
}

#[test]
fn a_plan_around_failures_names_none_of_them() {
    let ended = fgr("plan", &["--format", "csv", "--failed", "193-194"]).expect_code(0);
    assert!(!ended.out.contains(",193,") && !ended.out.contains(",194,"));
    assert!(
        ended.err.contains("planned around 2 of 12 routers"),
        "{}",
        ended.err
    );
    let directory = TempDir::new().unwrap();
    let list = directory.path().join("down");
    fs::write(&list, "# since Monday\n193\n194 # hangs\n").unwrap();
    let file = format!("@{}", list.display());
    let by_file = fgr("plan", &["--format", "csv", "--failed", &file]).expect_code(0);
    assert_eq!(by_file.out, ended.out);
    fgr("plan", &["--failed", "r999"])
        .expect_code(2)
        .expect_error("'r999' is not a node");
}

#[test]
fn the_configuration_around_a_failure_is_proved_and_differs_where_it_must() {
    let directory = TempDir::new().unwrap();
    let (whole, today) = (
        directory.path().join("whole"),
        directory.path().join("today"),
    );
    configure(&whole, &[]).expect_code(0);
    configure(&today, &["--failed", "193"]).expect_code(0);
    let (whole, today) = (whole.to_str().unwrap(), today.to_str().unwrap());
    let nodes = fs::read_to_string(Path::new(today).join("nodes.csv")).unwrap();
    assert!(!nodes.contains("nid00193"), "{nodes}");
    run(finerail(["fgr", "check", today])).expect_code(0);
    let ended = run(finerail(["fgr", "diff", whole, today])).expect_code(1);
    assert!(ended.out.contains("nid00193: missing"), "{}", ended.out);
    assert!(ended.out.contains("lnetctl route del"), "{}", ended.out);
    run(finerail(["fgr", "diff", whole, whole])).expect_code(0);
}

#[test]
fn a_directory_is_emptied_of_an_older_plan_and_of_nothing_else() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("conf");
    configure(&out, &["--per-node"]).expect_code(0);
    assert!(out.join("nodes/nid00193.yaml").exists());
    configure(&out, &[]).expect_code(0);
    assert!(!out.join("nodes/nid00193.yaml").exists());
    fs::write(out.join("classes/mine.txt"), "").unwrap();
    configure(&out, &[])
        .expect_code(2)
        .expect_error("mine.txt is not a file of this command");
    assert!(out.join("nodes.csv").exists());
    let plan = ["-o", out.to_str().unwrap()];
    fgr("plan", &plan)
        .expect_code(2)
        .expect_error("name an empty directory");
}

#[test]
fn the_policy_follows_the_fabric_unless_one_is_named() {
    let ended = fgr("plan", &[]).expect_code(0);
    assert!(ended.out.contains("strict"), "{}", ended.out);
    let chapter = include_str!("../../../docs/machine-files.md");
    let directory = TempDir::new().unwrap();
    // The second example is a dragonfly, the third one a fat tree.
    for (number, fabric) in [(2, "dragonfly"), (3, "fat-tree")] {
        let example = chapter.split("```yaml\n").nth(number).unwrap();
        let example = example.split("```").next().unwrap();
        assert!(example.contains(&format!("kind: {fabric}")));
        let file = directory.path().join(fabric);
        fs::write(&file, example).unwrap();
        let plan = ["fgr", "plan", "--machine", file.to_str().unwrap()];
        let ended = run(finerail(plan)).expect_code(0);
        assert!(ended.out.contains("balanced"), "{fabric}: {}", ended.out);
    }
}

#[test]
fn a_job_is_told_its_routers_and_what_is_faster_also_by_a_saved_plan() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("plan");
    fgr("plan", &["-o", out.to_str().unwrap()]).expect_code(0);
    let plan = out.join("plan.yaml");
    let servers = directory.path().join("osts.csv");
    fs::write(
        &servers,
        "OST0000,10.3.0.1@o2ib201\nOST0001,10.3.0.2@o2ib202\n",
    )
    .unwrap();
    let words = [
        "--nodes",
        "nid[00000-00003]",
        "--targets",
        "OST0000",
        "--servers",
        servers.to_str().unwrap(),
        "--json",
    ];
    let made = fgr("job", &words).expect_code(0).out;
    let saved = ["--plan", plan.to_str().unwrap()];
    let saved = fgr("job", &[&words[..], &saved].concat())
        .expect_code(0)
        .out;
    assert_eq!(made, saved);
    let answer: serde_json::Value = serde_json::from_str(&saved).unwrap();
    assert_eq!(
        (&answer["clients"], &answer["nets"][0]),
        (&4.into(), &"o2ib201".into())
    );
    assert_eq!(answer["write"]["limit"], "router");
    assert!(answer["better_nodes"]["write_gb_s"].as_f64() > answer["write"]["gb_s"].as_f64());
    // Options for making a plan do not apply to an existing plan.
    for words in [
        ["--policy", "nearest"],
        ["--failed", "nid00001"],
        ["--backups", "1"],
        ["--side", "9"],
    ] {
        fgr(
            "job",
            &[
                &["--nodes", "0", "--plan", plan.to_str().unwrap()][..],
                &words,
            ]
            .concat(),
        )
        .expect_code(2)
        .expect_error("cannot be used with");
    }
    let words = ["--nodes", "0-9", "--targets", "o2ib[201-202]"];
    let text = fgr("job", &words).expect_code(0).out;
    assert!(
        text.contains("10 clients, 2 nets") && text.contains("better nodes"),
        "{text}"
    );
    fgr("job", &["--nodes", "x"])
        .expect_code(2)
        .expect_error("'x' is not a node");
    fgr("job", &["--nodes", "1", "--targets", "OST9"])
        .expect_code(2)
        .expect_error("'OST9' is neither a net");
}

/// A router of two nets, and one of each.
const OF_TWO_NETS: &str = "
machine: two nets
fabric:
  kind: fat-tree
  levels:
    - {down: 12, up: 1, capacity: 12.5}
    - {down: 2, up: 4, capacity: 25}
clients:
  list:
    - {id: 0, name: n0, at: [0]}
    - {id: 1, name: n1, at: [12]}
groups:
  - name: G1
    nets: [o2ib1, o2ib2]
    sub-groups:
      - modules:
          - {blade: r1, at: [6], nodes: [{id: 20, nets: [o2ib1, o2ib2]}]}
          - {blade: r2, at: [18], nodes: [{id: 21, nets: [o2ib1]}, {id: 22, nets: [o2ib2]}]}
";

#[test]
fn a_failed_router_of_two_nets_is_one_router() {
    let directory = TempDir::new().unwrap();
    let machine = directory.path().join("two.yaml");
    fs::write(&machine, OF_TWO_NETS).unwrap();
    let words = [
        "fgr",
        "plan",
        "--machine",
        machine.to_str().unwrap(),
        "--failed",
        "20",
    ];
    let ended = run(finerail(words)).expect_code(0);
    assert!(
        ended.err.contains("planned around 1 of 3 routers"),
        "{}",
        ended.err
    );
    let row = ended
        .out
        .lines()
        .find(|line| line.contains("failed routers"));
    assert!(row.unwrap().trim_end().ends_with(" 1"), "{}", ended.out);
}

#[test]
fn a_site_in_which_nodes_share_a_nid_is_not_proved() {
    let directory = TempDir::new().unwrap();
    let conf = directory.path().join("conf");
    configure(&conf, &["--per-node"]).expect_code(0);
    let nodes = conf.join("nodes");
    let files = || {
        let entries = fs::read_dir(&nodes).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let yaml = paths.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
        let mut files: Vec<String> = yaml.map(|path| path.to_str().unwrap().to_owned()).collect();
        files.sort();
        files
    };
    let nets = ["fgr", "check", "--server-nets", "o2ib[201-202]"].map(str::to_owned);
    let first = files().remove(0);
    let twin = nodes.join("zz-twin.yaml");
    fs::copy(&first, &twin).unwrap();
    let ended = run(finerail(nets.into_iter().chain(files()))).expect_code(1);
    let name = Path::new(&first).file_stem().unwrap().to_str().unwrap();
    let told = format!("error: {name} and zz-twin have the same NID, ");
    assert!(ended.out.contains(&told), "{}", ended.out);
    assert!(!ended.out.contains("\nproved"), "{}", ended.out);
}
