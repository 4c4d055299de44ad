//! `finerail demo`: the whole path with real processes while some of them fail, and the report of a run.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use testkit::QueueTurn;

use common::process::{Ended, Process};
use common::{can_run, finerail, finerail_by};

/// How long a demo may take: a limit that only a hang reaches.
const LIMIT: Duration = Duration::from_secs(300);

fn demo(words: &[&str]) -> Ended {
    let mut command = finerail(["demo"]);
    command.args(words);
    Process::start(command).wait_within(LIMIT)
}

/// A quick run that is complete: its directory, the page, the figures and the output.
struct Finished {
    directory: TempDir,
    page: String,
    figures: Value,
    said: String,
}

impl Finished {
    fn run(faults: &str) -> Self {
        let _turn = QueueTurn::take();
        let directory = TempDir::with_prefix("finerail-test-").unwrap();
        let report = directory.path().join("report.html");
        let work = directory.path().join("demo");
        let words = [
            "--quick",
            "--faults",
            faults,
            "--report",
            report.to_str().unwrap(),
            "--directory",
            work.to_str().unwrap(),
        ];
        let ended = demo(&words);
        assert!(ended.status.success(), "{}\n{}", ended.out, ended.err);
        let figures = fs::read(report.with_extension("json")).unwrap();
        Self {
            page: fs::read_to_string(&report).unwrap(),
            figures: serde_json::from_slice(&figures).unwrap(),
            said: ended.out,
            directory,
        }
    }

    fn work(&self) -> PathBuf {
        self.directory.path().join("demo")
    }
}

/// Returns a file below `root`, the first by name.
fn some_file(root: &Path) -> PathBuf {
    let mut entries: Vec<PathBuf> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    let file = entries.iter().find(|path| path.is_file());
    file.cloned().unwrap_or_else(|| some_file(&entries[0]))
}

#[test]
fn every_fault_strikes_every_byte_is_right_and_a_changed_byte_is_found() {
    let finished = Finished::run("standard");
    let faults = finished.figures["faults"].as_array().unwrap();
    let kinds: Vec<&str> = faults
        .iter()
        .map(|fault| fault["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "rail-cut",
            "router-killed",
            "router-hung",
            "gateway-killed",
            "daemon-restarted",
            "policy-changed"
        ]
    );
    assert!(
        finished.said.contains("Every byte is right"),
        "{}",
        finished.said
    );
    assert!(finished.figures["verified"]["bytes"].as_u64().unwrap() > 32 << 20);
    report_is_right(&finished);

    let work = finished.work();
    let words = ["--verify", work.to_str().unwrap()];
    assert!(demo(&words).status.success());
    let victim = some_file(&work.join("storage"));
    let mut bytes = fs::read(&victim).unwrap();
    bytes[0] ^= 1;
    fs::write(&victim, bytes).unwrap();
    let ended = demo(&words);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.out);
    assert!(ended.err.contains("came back different"), "{}", ended.err);
}

/// Checks that each figure of the page is in the JSON, and that a browser reports no error.
fn report_is_right(finished: &Finished) {
    let figures = &finished.figures;
    #[expect(
        clippy::cast_precision_loss,
        reason = "the page shows seconds with one digit"
    )]
    let seconds = |value: &Value| format!("{:.1}", value.as_u64().unwrap() as f64 / 1000.0);
    for fault in figures["faults"].as_array().unwrap() {
        let cells = [
            fault["target"].as_str().unwrap().to_owned(),
            seconds(&fault["at_ms"]),
            seconds(&fault["until_ms"]),
            seconds(&fault["pause_ms"]),
        ];
        for cell in cells {
            assert!(finished.page.contains(&format!(">{cell}<")), "{cell}");
        }
    }
    let commands = figures["commands"].as_u64().unwrap();
    assert!(
        finished
            .page
            .contains(&format!("{commands} commands carried"))
    );
    for sign in ["<script", "http://", "https://", "src=", "@import", "url("] {
        assert!(!finished.page.contains(sign), "{sign}");
    }
    let pictures = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("demo");
    testkit::browser::expect_right(&pictures, "demo", &finished.page);
}

#[test]
fn without_namespaces_the_demo_runs_on_loopback_addresses_and_says_so() {
    // The command runs as root of a user namespace that may not create network namespaces.
    let deny = "echo 0 > /proc/sys/user/max_net_namespaces; exec \"$0\" \"$@\"";
    let without = ["unshare", "--user", "--map-root-user", "sh", "-c", deny];
    if !can_run(without[0], &[&without[1..5], &["true"]].concat()) {
        return testkit::absent("user namespaces are not permitted here anyway");
    }
    let _turn = QueueTurn::take();
    let directory = TempDir::with_prefix("finerail-test-").unwrap();
    let report = directory.path().join("report.html");
    let words = ["demo", "--quick", "--report", report.to_str().unwrap()];
    let ended = Process::start(finerail_by(&without, words)).wait_within(LIMIT);
    let ended = ended.expect_code(0);
    assert!(ended.out.contains("Every byte is right"), "{}", ended.out);
    let figures = fs::read(report.with_extension("json")).unwrap();
    let figures: Value = serde_json::from_slice(&figures).unwrap();
    let world = figures["world"].as_str().unwrap();
    assert!(world.contains("loopback addresses"), "{world}");
    assert!(fs::read_to_string(&report).unwrap().contains("loopback"));
    assert_eq!(figures["faults"].as_array().unwrap().len(), 6);
}

#[test]
fn a_directory_that_is_not_empty_is_left_alone() {
    let directory = TempDir::with_prefix("finerail-test-").unwrap();
    fs::write(directory.path().join("mine"), "").unwrap();
    let ended = demo(&["--quick", "--directory", directory.path().to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.err.contains("is not empty"), "{}", ended.err);
}
