//! `finerail site`: its expected pages, its exit codes, and its output for machines.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn site(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_finerail"));
    command.arg("site").args(arguments).output().unwrap()
}

/// After an intended change: `TRYCMD=overwrite cargo test -p finerail --test site`, and check the difference.
#[test]
fn pages_are_those_written_down() {
    let cases = trycmd::TestCases::new();
    cases.case("tests/site/*.trycmd").run();
}

#[test]
fn a_check_ends_with_0_without_errors_with_1_for_errors_and_with_2_for_what_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().to_str().unwrap();
    let node = directory.path().join("node1.yaml");
    assert_eq!(site(&["check", at]).status.code(), Some(2));
    fs::write(
        &node,
        "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}]}]\n",
    )
    .unwrap();
    assert_eq!(site(&["check", at]).status.code(), Some(0));
    fs::write(&node, "global: {retry_count: 5, health_sensitivity: 0}\n").unwrap();
    assert_eq!(site(&["check", at]).status.code(), Some(1));
    fs::write(&node, "global: [").unwrap();
    assert_eq!(site(&["check", at]).status.code(), Some(2));
}

#[test]
fn machines_read_json_and_sarif_with_the_files_that_people_have() {
    let json = site(&["check", "--json", "tests/site/dir"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["nodes"], 133);
    let first = &json["causes"][0];
    assert_eq!(
        (&first["code"], &first["names"]),
        (&"gateway-not-routing".into(), &"rtr2".into())
    );
    assert_eq!(first["first"]["file"], "rtr2.yaml");
    let sarif = site(&["check", "--sarif", "tests/site/dir"]);
    let sarif: Value = serde_json::from_slice(&sarif.stdout).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    assert_eq!(
        results.len(),
        json["report"]["findings"].as_array().unwrap().len()
    );
    let page = site(&["check", "--html", "tests/site/dir"]);
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.contains("gateway-not-routing"),
        "{page}"
    );
    assert!(!page.contains("http"), "a page needs nothing else");
}

#[test]
fn a_repaired_site_is_whole_and_the_page_has_a_picture() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["client[001-128].yaml", "oss1.yaml", "rtr2.yaml"] {
        fs::copy(
            format!("tests/site/dir/{name}"),
            directory.path().join(name),
        )
        .unwrap();
    }
    let router = directory.path().join("rtr2.yaml");
    let text = fs::read_to_string(&router).unwrap() + "routing: {enable: 1}\n";
    let at = directory.path().to_str().unwrap();
    let broken = site(&["reach", "--json", at]);
    assert_eq!(broken.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&broken.stdout).unwrap();
    let repair = json["directions"][1]["repair"].as_str().unwrap();
    assert_eq!(repair, "on rtr2: lnetctl set routing 1");
    fs::write(&router, text).unwrap();
    let whole = site(&["reach", "--html", at]);
    assert_eq!(whole.status.code(), Some(0));
    let page = String::from_utf8(whole.stdout).unwrap();
    assert!(page.contains("<svg") && !page.contains("href"), "{page}");
}

#[test]
fn a_difference_ends_with_1_and_names_the_paths() {
    let directory = tempfile::tempdir().unwrap();
    for entry in [
        "client[001-128].yaml",
        "login1.yaml",
        "oss1.yaml",
        "oss2.yaml",
        "rtr2.yaml",
    ] {
        fs::copy(
            format!("tests/site/dir/{entry}"),
            directory.path().join(entry),
        )
        .unwrap();
    }
    let at = directory.path().to_str().unwrap();
    let ended = site(&["diff", "tests/site/dir", at, "--json"]);
    assert_eq!(ended.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let changes = json["changes"].as_array().unwrap();
    // From clients and the login node to the servers, and back.
    assert_eq!(changes.len(), 4, "{json:#}");
    assert_eq!(changes[0]["before"], "by rtr1 (1 way)");
    assert_eq!(changes[0]["after"], "nothing arrives");
    assert_eq!(site(&["diff", at, "nonexistent"]).status.code(), Some(2));
}

/// A site of so many nodes on one net.
fn nodes(directory: &Path, names: &[&str]) {
    for (name, last) in names.iter().zip(1..) {
        let nis = format!("[{{nid: 10.0.0.{last}@tcp}}]");
        let text = format!("net: [{{net type: tcp, local NI(s): {nis}}}]\n");
        fs::write(directory.join(format!("{name}.yaml")), text).unwrap();
    }
}

#[test]
fn an_unreadable_node_is_named_once_and_not_called_removed() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    nodes(old.path(), &["n1", "n2", "n3", "n4"]);
    nodes(new.path(), &["n1", "n2", "n3", "n4"]);
    fs::write(new.path().join("n2.yaml"), b"net: \xff\xfe").unwrap();
    fs::write(new.path().join("n3.yaml"), "global: [").unwrap();
    fs::remove_file(new.path().join("n4.yaml")).unwrap();
    let (before, after) = (old.path().to_str().unwrap(), new.path().to_str().unwrap());
    for (sites, other) in [([before, after], "removed"), ([after, before], "added")] {
        let ended = site(&["diff", sites[0], sites[1]]);
        let (out, err) = (text(&ended.stdout), text(&ended.stderr));
        assert_eq!(ended.status.code(), Some(2), "{out}{err}");
        assert!(out.contains(&format!("{other}: n4\n")), "{out}");
        assert!(
            out.contains("unreadable, and not compared: n[2-3]\n"),
            "{out}"
        );
        assert_eq!(err.matches("n2.yaml").count(), 1, "{err}");
        assert_eq!(err.matches("n3").count(), 1, "{err}");
    }
    let apply = site(&["what-if", after, "--apply", before]);
    let err = text(&apply.stderr);
    assert_eq!(err.matches("n2.yaml").count(), 1, "{err}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
