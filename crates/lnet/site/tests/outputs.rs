//! Tests the report as text, JSON and SARIF, the page of all lints, and that no text makes the linter panic.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lnet_site::lint::{Input, LINTS, Report, lint, list, markdown};
use proptest::prelude::*;
use serde_json::Value;

const HEAD: &str = "\
# Lints

What `finerail lint` looks for. Made by `FINERAIL_REWRITE=1 cargo test -p lnet-site --test outputs` from the table
in `crates/lnet/site/src/lint/catalogue.rs`; do not edit.

Codes never change their meaning; those that `finerail explain` names, too, mean the same cause.

| Code | Severity | What it finds | What helps |
|---|---|---|---|
";

fn input<'a>(name: &'a str, text: &'a str) -> Input<'a> {
    Input {
        name,
        text,
        interfaces: None,
        port: None,
    }
}

/// Returns the report of a document with findings of every severity.
fn report() -> Report {
    let text = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}, {nid: 10.0.0.2@tcp}]}]\n\
                route: [{net: o2ib, gateway: 10.1.0.9@tcp1}]\n";
    lint(&[input("a node.yaml", text)]).unwrap()
}

#[test]
fn the_page_of_lints_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/lints.md");
    let made = HEAD.to_owned() + &markdown();
    if std::env::var_os("FINERAIL_REWRITE").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "FINERAIL_REWRITE=1 makes it anew");
}

#[test]
fn codes_are_unique_and_listed_in_one_line_each() {
    let codes: BTreeSet<&str> = LINTS.iter().map(|lint| lint.code).collect();
    assert_eq!(codes.len(), LINTS.len());
    let is_code = |code: &&str| {
        code.bytes()
            .all(|b| b.is_ascii_lowercase() || b"-2".contains(&b))
    };
    assert!(codes.iter().all(is_code));
    assert_eq!(list().lines().count(), LINTS.len());
    let list = list();
    let long = list.lines().filter(|line| line.chars().count() > 100);
    assert_eq!(long.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn text_names_place_severity_and_code_and_fits_a_terminal() {
    let text = report().to_text();
    let first = text.lines().find(|line| line.contains("gateway-not-local"));
    let expected = "a node.yaml:2:21: error[gateway-not-local] route[0].gateway";
    assert_eq!(first, Some(expected));
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert_eq!(
        text.lines().last(),
        Some("1 error, 1 warning, 1 note in 1 file")
    );
}

#[test]
fn json_has_all_of_a_finding() {
    let report = serde_json::to_value(report()).unwrap();
    assert_eq!(report["errors"], 1);
    let finding = &report["findings"][0];
    for key in [
        "code", "severity", "file", "line", "column", "key", "reason", "fix",
    ] {
        assert!(!finding[key].is_null(), "{key} is missing in {finding}");
    }
}

/// Checks what SARIF 2.1.0 requires of a log, and what readers of logs rely on.
#[track_caller]
fn is_sarif(log: &Value) {
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().contains("sarif-2.1.0"));
    let run = &log["runs"][0];
    let driver = &run["tool"]["driver"];
    assert!(driver["name"].is_string());
    assert_eq!(run["columnKind"], "unicodeCodePoints");
    let rules = driver["rules"].as_array().unwrap();
    for rule in rules {
        assert!(rule["id"].is_string() && rule["shortDescription"]["text"].is_string());
        assert!(
            rule["help"]["text"].is_string() && rule["defaultConfiguration"]["level"].is_string()
        );
    }
    for result in run["results"].as_array().unwrap() {
        assert!(result["message"]["text"].is_string());
        assert!(["note", "warning", "error"].contains(&result["level"].as_str().unwrap()));
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(uri.is_ascii() && !uri.contains(' '), "{uri}");
        assert!(place["region"]["startLine"].as_u64() >= Some(1));
        assert!(place["region"]["startColumn"].as_u64() >= Some(1));
    }
}

#[test]
fn sarif_has_what_the_standard_requires() {
    let log = serde_json::to_value(report().sarif()).unwrap();
    is_sarif(&log);
    assert_eq!(log["runs"][0]["results"].as_array().unwrap().len(), 3);
}

#[test]
fn sarif_without_findings_has_an_empty_list_of_results() {
    let report = lint(&[input("empty.yaml", "")]).unwrap();
    let log = serde_json::to_value(report.sarif()).unwrap();
    is_sarif(&log);
    assert_eq!(log["runs"][0]["results"], Value::Array(Vec::new()));
}

/// A broken file does not hide the findings of the other files.
#[test]
fn a_text_that_is_no_document_is_found_with_its_place_beside_the_findings_of_others() {
    let good = "global: {recovery_limit: 5}\n";
    let report = lint(&[
        input("bad.yaml", "net: [\n  {x: 1]\n"),
        input("good.yaml", good),
    ]);
    let report = report.unwrap();
    let found: Vec<_> = report.findings.iter().map(|f| (f.code, f.line)).collect();
    assert_eq!(found, [("unreadable", 2), ("recovery-limit-short", 1)]);
}

#[test]
fn what_is_refused_is_shown_with_a_mark_that_fits_a_terminal() {
    let long = "global: { discovery: 1, retry_count: many}\n";
    let wide = format!(
        "route: [{}{{net: tcp1, gateway: x}}]\n",
        "{net: tcp1, gateway: 1@tcp2, hop: 1}, ".repeat(9)
    );
    let report = lint(&[input("node.yaml", long), input("wide.yaml", &wide)]).unwrap();
    let text = report.to_text();
    let mut lines = text.lines();
    lines.next();
    assert_eq!(
        lines.next(),
        Some("    | global: { discovery: 1, retry_count: many}")
    );
    assert_eq!(
        lines.next(),
        Some("    |                                      ^^^^")
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    let marked: Vec<&str> = text.lines().filter(|line| line.ends_with('^')).collect();
    assert!(marked.len() >= 2, "{text}");
    let log = serde_json::to_value(report.sarif()).unwrap();
    let region = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"];
    assert_eq!(region["snippet"]["text"], long.trim_end());
}

#[test]
fn interfaces_that_are_none_are_refused() {
    let input = Input {
        interfaces: Some("[{]"),
        ..input("node.yaml", "")
    };
    let error = lint(&[input]).unwrap_err();
    assert_eq!(error.to_string(), "the interfaces of node.yaml");
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(why, "not the output of `ip -j addr`");
}

/// Generates texts from random pieces of documents.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(
            "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}, {interfaces: {0: eth0}}]}]\n"
        ),
        Just(
            "route: [{net: tcp1, gateway: '10.0.0.[1-9]@tcp'}, {net: o2ib, gateway: 1@gni, hop: 3}]\n"
        ),
        Just("route: []\n"),
        Just("peer: [{primary nid: 10.0.0.9@tcp, peer ni: [{nid: 10.2.0.9@tcp2}]}]\n"),
        Just(
            "udsp: [{src: tcp, dst: tcp}, {rte: 10.0.0.9@tcp}, {idx: 7, dst: '*.*.*.*@o2ib*', priority: 0}]\n"
        ),
        Just("global: {retry_count: 2147483647, transaction_timeout: 1}\n"),
        Just("global: {retry_count: 4, transaction_timeout: 5, recovery_limit: 3}\n"),
        Just("ip2nets: [{net-spec: tcp, ip-range: {0: '*.*.*.*'}}]\n"),
        Just("routing: {enable: 1}\n"),
        Just("options lnet networks=tcp\n"),
        Just("\u{1b}[2J: \u{fc}\n"),
        Just("net"),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_finding_of_any_texts_has_a_place_and_a_known_code(a in text(), b in text()) {
        let machine = r#"[{"ifname":"eth0","flags":["UP"],"addr_info":[{"local":"10.0.0.1"}]}]"#;
        let with = Input { interfaces: Some(machine), ..input("b", &b) };
        if let Ok(report) = lint(&[input("a", &a), with]) {
            for finding in &report.findings {
                prop_assert!(LINTS.iter().any(|lint| lint.code == finding.code));
                let text = if finding.file == "a" { &a } else { &b };
                prop_assert!((1..=text.lines().count().max(1) + 1).contains(&finding.line));
                prop_assert!(!finding.reason.is_empty() && !finding.fix.is_empty());
            }
            is_sarif(&serde_json::to_value(report.sarif()).unwrap());
        }
    }
}
