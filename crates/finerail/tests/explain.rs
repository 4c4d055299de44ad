//! `finerail explain`: its expected pages, and its messages about bad input.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Returns the path of one example of a theme of user reports.
fn theme(name: &str) -> String {
    let themes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lnet/explain/tests/themes");
    themes.join(name).join("node.yaml").display().to_string()
}

fn explain(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_finerail"));
    command.arg("explain").args(arguments).output().unwrap()
}

/// After an intended change: `TRYCMD=overwrite cargo test -p finerail --test explain`, and check the difference.
#[test]
fn pages_are_those_written_down() {
    let cases = trycmd::TestCases::new();
    cases.case("tests/explain/*.trycmd").run();
}

#[test]
fn no_line_of_a_page_is_longer_than_a_terminal() {
    let config = theme("gateway-as-a-peer");
    let page = explain(&["--config", &config, "--to", "10.1.0.7@tcp1", "-vv"]).stdout;
    let page = String::from_utf8(page).unwrap();
    let longest = page.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(100), "{longest:?}");
    assert!(!page.contains('\x1b'), "colours without a terminal");
}

#[test]
fn json_holds_what_the_page_tells() {
    let config = theme("dead-remote-rail");
    let ended = explain(&[
        "--config",
        &config,
        "--to",
        "10.0.1.7@tcp",
        "--json",
        "--fail",
        "eth0",
    ]);
    assert_eq!(ended.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let explanation = &report["explanation"];
    assert_eq!(explanation["answer"]["path"]["source"], "10.0.1.1@tcp");
    assert_eq!(explanation["findings"][0]["code"], "rail-mismatch");
    assert_eq!(explanation["classification"]["case"], "B1C");
    let after = &report["difference"]["after"]["answer"]["path"];
    assert_eq!(after["interface"], "eth1");
}

#[test]
fn nothing_is_assumed_of_a_state_that_a_node_sent() {
    let text = fs::read_to_string(theme("dead-remote-rail")).unwrap();
    let source = lnet_explain::Source {
        name: "node",
        text: &text,
    };
    let node = lnet_explain::import(&[source], &lnet_explain::Settings::default())
        .unwrap()
        .node;
    let sent = lnet_core::state_json::to_json(node.state, node.now).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("state.json");
    fs::write(&file, sent).unwrap();
    let ended = explain(&[
        "--state",
        file.to_str().unwrap(),
        "--to",
        "10.0.1.7@tcp",
        "-vv",
    ]);
    let page = String::from_utf8(ended.stdout).unwrap();
    assert!(page.starts_with("10.0.1.1@tcp → 10.0.2.7@tcp\n"), "{page}");
    assert!(!page.contains("Assumed"), "{page}");
}

#[test]
fn bad_input_ends_with_2_and_says_where() {
    let config = theme("dead-remote-rail");
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (empty, junk) = (file("empty", b""), file("junk", b"\xff\x00\xfe"));
    let to = "--to 1.2.3.4@tcp";
    let known = format!("--config {config} {to}");
    let cases = [
        (format!("--config {empty} {to}"), "no local NI"),
        (format!("--config {junk} {to}"), "cannot read"),
        (format!("--config /dev/zero {to}"), "no text: byte 1 is 0"),
        (
            format!("--state {config} {to}"),
            "not the state of a node: expected",
        ),
        (format!("{known} --sends 0"), "--sends"),
        (
            format!("{known} --add-route tcp9=1.1.1.1@tcp8"),
            "1.1.1.1@tcp8",
        ),
        (
            format!("--config /missing.yaml {to}"),
            "cannot read /missing.yaml",
        ),
        (format!("--config Cargo.toml {to}"), "Cargo.toml:2:1"),
        (format!("--config {config} --to 1.2.3.4"), "--to"),
        (format!("{known} --fail eth9"), "no interface eth9"),
        (format!("{known} --del-rule 3"), "no rule 3"),
        (
            format!("{known} --set mtu=9"),
            "is not health_sensitivity=N",
        ),
        (format!("{known} --interfaces Cargo.toml"), "ip -j addr"),
    ];
    for (arguments, expected) in cases {
        let words: Vec<&str> = arguments.split(' ').collect();
        let ended = explain(&words);
        let complaint = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.contains(expected), "{arguments:?}: {complaint}");
    }
}
