//! The output of `finerail fgr`: the same bytes for the same input, reports that load nothing, and rejected outputs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use common::finerail;
use common::process::{Ended, run};

/// A torus of 192 clients, with two groups of two sub-groups of three modules.
const SMALL: [&str; 2] = ["--machine", "synthetic:6x8x4:2x3x1"];

/// Runs a command with the given number of threads.
fn small(threads: &str, words: &[&str]) -> Ended {
    let (command, words) = words.split_first().unwrap();
    let mut program = finerail([&["fgr", command], &SMALL[..], words].concat());
    program.env("RAYON_NUM_THREADS", threads);
    run(program).expect_code(0)
}

/// Returns every file below a directory.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in directory.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

#[test]
fn equal_input_gives_equal_bytes_on_any_number_of_threads() {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (conf, plan, parts, page) = (
        path("conf"),
        path("plan"),
        path("parts"),
        path("report.html"),
    );
    let job = ["job", "--nodes", "0-9", "--json"];
    let compare = [
        "compare",
        "--policies",
        "strict,slices,cool,balanced",
        "--json",
    ];
    let commands: [&[&str]; 6] = [
        &["config", "--client-net", "tcp100", "-o", &conf],
        &[
            "config",
            "--client-net",
            "tcp100",
            "--form",
            "multi-rail",
            "--policy",
            "balanced",
            "-o",
            &conf,
        ],
        &["plan", "-o", &plan],
        &["report", "--parts", &parts, "-o", &page],
        &job,
        &compare,
    ];
    for words in commands {
        let made = ["1", "4", "4"].map(|threads| {
            let out = small(threads, words).out;
            (out, files(directory.path()))
        });
        let [first, others @ ..] = &made;
        assert!(!first.1.is_empty());
        assert!(others.iter().all(|other| other == first), "{words:?}");
    }
}

#[test]
fn a_report_is_one_file_that_loads_nothing() {
    let directory = TempDir::new().unwrap();
    let page = directory.path().join("report.html");
    small("4", &["report", "-o", page.to_str().unwrap()]);
    assert_eq!(files(directory.path()).len(), 1);
    let text = fs::read_to_string(&page).unwrap();
    for sign in [
        "http:", "https:", "<script", "<link", "<img", "src=", "url(", "@import",
    ] {
        assert!(!text.contains(sign), "{sign}");
    }
    // Every link must lead to a part of the page.
    let links: Vec<&str> = text.split("href=\"").skip(1).collect();
    assert!(links.len() > 10);
    for link in links {
        let target = link.split('"').next().unwrap();
        let id = target
            .strip_prefix('#')
            .unwrap_or_else(|| panic!("{target}"));
        assert!(text.contains(&format!("id=\"{id}\"")), "{target}");
    }
}

#[test]
fn the_front_is_a_table_for_people_from_strict_to_turns() {
    let out = small("4", &["compare", "--front"]).out;
    let rows: Vec<&str> = out.lines().skip(1).map(str::trim).collect();
    assert!(
        rows[0].starts_with("policy ") && rows[0].contains("tables"),
        "{out}"
    );
    let first = rows.iter().position(|row| row.starts_with("strict "));
    let last = rows
        .iter()
        .position(|row| row.starts_with("slices --cut turns "));
    assert!(first < last && last.is_some(), "{out}");
    let mixed = [&["fgr", "compare"], &SMALL[..], &["--front", "--side", "9"]].concat();
    run(finerail(mixed)).expect_code(2).expect_error("--side");
}

#[test]
fn more_selection_rules_than_a_node_keeps_are_refused_with_what_would_work() {
    const CLIENTS: u32 = 5 * 1024 + 1;
    let directory = TempDir::new().unwrap();
    // Each client is in a different block of 256 addresses, so every server needs one rule for each client.
    let mut text = "machine: wide
fabric:
  kind: fat-tree
  levels:
    - {down: 128, up: 1, capacity: 1.0}
    - {down: 64, up: 1, capacity: 1.0}
groups:
  - name: A
    nets: [o2ib1]
    sub-groups:
      - modules:
          - {blade: a, at: [0], nodes: [1]}
          - {blade: b, at: [8000], nodes: [2]}
clients:
  list:
"
    .to_owned();
    for client in 0..CLIENTS {
        writeln!(text, "    - {{id: {}, at: [{client}]}}", 256 * client + 3).unwrap();
    }
    let file = directory.path().join("wide.yaml");
    fs::write(&file, text).unwrap();
    let out = directory.path().join("conf");
    let words = |form| {
        let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
        let words = ["fgr", "config", "--machine", file, "--client-net", "tcp100"];
        [&words[..], &["--form", form, "-o", out]].concat()
    };
    run(finerail(words("multi-rail")))
        .expect_code(2)
        .expect_error("5121 selection rules, and a node keeps 5120");
    assert!(!out.exists());
    run(finerail(words("slot-nets"))).expect_code(0);
}

#[test]
fn many_clients_of_a_router_are_shown_by_their_areas_and_all_names_are_in_the_json() {
    let fgr = |words: &[&str]| run(finerail([&["fgr"], words].concat()));
    let large = ["--machine", "synthetic:25x16x24:9x3x4"];
    let ask = |words: &[&str]| fgr(&[&["serves"], &large[..], words].concat());
    let router = fgr(&[&["who-serves"], &large[..], &["x0", "--json"]].concat()).expect_code(0);
    let router: serde_json::Value = serde_json::from_str(&router.out).unwrap();
    let router = router[0]["node"].to_string();
    let text = ask(&[&router]).expect_code(0).out;
    assert!(text.starts_with("1 router\n"), "{text}");
    let longest = text.lines().map(str::len).max().unwrap();
    assert!(longest < 200, "{longest}: {text}");
    assert!(text.contains("part of x"), "{text}");
    let found = ask(&[&router, "--json"]).expect_code(0).out;
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let of = |line: &serde_json::Value| line["names"].as_str().unwrap().len();
    assert!(
        found.as_array().unwrap().iter().any(|line| of(line) > 80),
        "{found}"
    );
    // Clients and areas are not routers, and the error says what shows their routers.
    for wrong in ["x0", "0"] {
        let ended = ask(&[wrong]).expect_code(2);
        assert!(ended.err.contains("fgr who-serves"), "{}", ended.err);
    }
}
