//! `finerail lint`: its expected pages, its exit codes, and its output for machines.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

fn lint(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_finerail"));
    command.arg("lint").args(arguments).output().unwrap()
}

/// After an intended change: `TRYCMD=overwrite cargo test -p finerail --test lint`, and check the difference.
#[test]
fn pages_are_those_written_down() {
    let cases = trycmd::TestCases::new();
    cases.case("tests/lint/*.trycmd").run();
}

#[test]
fn errors_end_with_1_and_warnings_with_0() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node.yaml");
    let file = path.to_str().unwrap();
    fs::write(&path, "global: {recovery_limit: 5}\n").unwrap();
    assert_eq!(lint(&[file]).status.code(), Some(0));
    fs::write(&path, "global: {retry_count: 5, health_sensitivity: 0}\n").unwrap();
    assert_eq!(lint(&[file]).status.code(), Some(1));
    fs::write(&path, "global: [").unwrap();
    assert_eq!(lint(&[file]).status.code(), Some(2));
}

#[test]
fn a_file_that_cannot_be_read_hides_nothing_of_the_others() {
    let ended = lint(&[
        "nonexistent.yaml",
        "tests/lint/client.yaml",
        "tests/lint/router.yaml",
    ]);
    assert_eq!(ended.status.code(), Some(2));
    let [out, err] = [ended.stdout, ended.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(
        err.contains("cannot read nonexistent.yaml: No such file"),
        "{err}"
    );
    assert!(out.contains("error[gateway-not-routing]"), "{out}");
    let interfaces = "nonexistent.yaml=nonexistent.json";
    let ended = lint(&[
        "nonexistent.yaml",
        "tests/lint/client.yaml",
        "--interfaces",
        interfaces,
    ]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(!ended.stdout.is_empty());
    let ended = lint(&["nonexistent.yaml"]);
    assert_eq!((ended.status.code(), ended.stdout.len()), (Some(2), 0));
}

#[test]
fn the_examples_of_the_readme_have_no_findings() {
    let readme = fs::read_to_string("../../README.md").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for block in readme.split("\ncat > ").skip(1) {
        let (name, rest) = block.split_once(" <<END\n").unwrap();
        let path = directory.path().join(name);
        fs::write(&path, rest.split_once("\nEND").unwrap().0).unwrap();
        files.push(path);
    }
    assert_eq!(files.len(), 3, "client, router and storage");
    let files: Vec<&str> = files.iter().map(|path| path.to_str().unwrap()).collect();
    let text = String::from_utf8(lint(&files).stdout).unwrap();
    assert!(text.starts_with("0 errors, 0 warnings, 0 notes"), "{text}");
}

#[test]
fn json_and_sarif_name_the_same_findings() {
    let site = ["client", "router", "server"].map(|name| format!("tests/lint/{name}.yaml"));
    let output = |form| {
        let ended = lint(&[&site[0], &site[1], &site[2], form]);
        assert_eq!(ended.status.code(), Some(1));
        serde_json::from_slice::<Value>(&ended.stdout).unwrap()
    };
    let (json, sarif) = (output("--json"), output("--sarif"));
    let codes = |list: &Value, key: &str| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|one| one[key].as_str().unwrap().to_owned())
            .collect()
    };
    let found = codes(&json["findings"], "code");
    assert_eq!(found, ["gateway-not-routing", "one-sided-route"]);
    assert_eq!(codes(&sarif["runs"][0]["results"], "ruleId"), found);
    assert_eq!(sarif["version"], "2.1.0");
}

#[test]
fn interfaces_belong_to_the_configuration_that_is_named() {
    let themes = "../lnet/explain/tests/themes";
    let node = format!("{themes}/boot-race/node.yaml");
    let of_node = format!("{node}={themes}/boot-race/interfaces.json");
    let ended = lint(&["tests/lint/client.yaml", &node, "--interfaces", &of_node]);
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(
        text.contains("boot-race/node.yaml:8:13: error[interface-missing]"),
        "{text}"
    );
}

/// The files that our planner writes for every node of a machine have no findings.
#[test]
fn a_planned_site_has_no_findings() {
    let directory = tempfile::tempdir().unwrap();
    let site = directory.path().join("site");
    let mut plan = Command::new(env!("CARGO_BIN_EXE_finerail"));
    plan.args(["fgr", "config", "--machine", "synthetic:6x8x4:2x3x1"]);
    plan.args([
        "--client-net",
        "tcp100",
        "--client-interface",
        "hsn0",
        "--servers-per-net",
        "2",
    ]);
    plan.args(["--per-node", "-o"]).arg(&site);
    assert!(plan.output().unwrap().status.success());
    let files = fs::read_dir(site.join("nodes")).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    let files: Vec<&str> = files.iter().map(|path| path.to_str().unwrap()).collect();
    assert!(files.len() > 200);
    let ended = lint(&files);
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(text.starts_with("0 errors, 0 warnings, 0 notes"), "{text}");
}

fn reading(timeouts: u64, dropped_by_peer: u64) -> String {
    format!(
        "statistics:\n    send_count: {}\n    remote_timeout_count: {timeouts}\npeer:\n- primary nid: 10.0.0.9@tcp\n  \
         Multi-Rail: True\n  peer ni:\n  - nid: 10.0.0.9@tcp\n    health stats:\n        health value: 900\n        \
         dropped: {dropped_by_peer}\n",
        1000 + timeouts
    )
}

#[test]
fn two_readings_say_what_fails_now_and_one_says_that_it_has_totals() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let text = |words: &[&str]| String::from_utf8(lint(words).stdout).unwrap();
    let (before, after) = (file("1", &reading(7000, 3)), file("2", &reading(7040, 5)));
    let once = text(&[&after]);
    assert!(once.contains("totals since this node started"), "{once}");
    let twice = text(&[&after, "--since", &before]);
    assert!(twice.contains("warning[failures-rise]"), "{twice}");
    assert!(twice.contains("40 remote timeouts"), "{twice}");
    assert!(
        twice.contains("peer NI 10.0.0.9@tcp counted since"),
        "{twice}"
    );
    assert!(!twice.contains("7040"), "{twice}");
    let quiet = text(&[&before, "--since", &before]);
    assert!(quiet.contains("note[failures-rise]"), "{quiet}");
    // The outputs of two commands, one after the other.
    let stats = |count: u64| reading(count, 0).split("peer:").next().unwrap().to_owned();
    let both = text(&[&file("both", &(stats(7000) + &stats(7011)))]);
    assert!(both.contains("11 remote timeouts"), "{both}");
    assert_eq!(
        lint(&[&before, &after, "--since", &before]).status.code(),
        Some(2)
    );
}
