//! Troubles of administrators' public reports, as they were written down before the lints were run on them: each is
//! named by its lint. `reports/SOURCES.md` says where each comes from.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::path::Path;

use lnet_site::SiteFile;
use lnet_site::lint::{Input, lint};

use common::files_of;

/// The folder of a trouble, and the lint that names it.
const REPORTS: [(&str, &str); 28] = [
    ("r01", "interface-missing"),
    ("r02", "kernel-message"),
    ("r03", "kernel-message"),
    ("r04", "kernel-message"),
    ("r05", "kernel-message"),
    ("r06", "kernel-message"),
    ("r07", "interface-down"),
    ("r08", "wrong-interface"),
    ("r09", "kernel-message"),
    ("r10", "kernel-message"),
    ("r11", "host-prefixes"),
    ("r12", "virtual-interface"),
    ("r13", "interface-down"),
    ("r14", "one-subnet"),
    ("r15", "kernel-message"),
    ("r16", "kernel-message"),
    ("r17", "kernel-message"),
    ("r18", "interface-missing"),
    ("r19", "first-interface"),
    ("r20", "ip2nets-passed-over"),
    ("r21", "mtu-differs"),
    ("r22", "one-subnet"),
    ("r23", "timeouts-misaligned"),
    ("r24", "gateway-not-routing"),
    ("r25", "map-on-demand-differs"),
    ("r26", "mixed-fabrics"),
    ("r27", "asymmetric-route"),
    ("r28", "kernel-message"),
];

/// Returns the codes of a folder: each document with the list of interfaces of the same name.
fn codes(files: &[SiteFile]) -> Vec<&'static str> {
    let is_list = |file: &&SiteFile| file.path.ends_with(".json");
    let inputs = files.iter().filter(|file| !is_list(file)).map(|file| {
        let name = file.path.rsplit_once('.').unwrap().0;
        let mut lists = files.iter().filter(is_list);
        let list = lists.find(|list| list.path.rsplit_once('.').unwrap().0 == name);
        Input {
            name: &file.path,
            text: &file.text,
            interfaces: list.map(|list| list.text.as_str()),
            port: None,
        }
    });
    let inputs: Vec<Input<'_>> = inputs.collect();
    let found = lint(&inputs).unwrap().findings;
    found.iter().map(|finding| finding.code).collect()
}

#[test]
fn each_reported_trouble_is_named() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports");
    let mut missed = Vec::new();
    for (name, code) in REPORTS {
        let found = codes(&files_of(&folder.join(name), ""));
        if !found.contains(&code) {
            missed.push(format!("{name}: {code} is not among {found:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// `convert` says the same of modules.
#[test]
fn of_two_rules_of_a_network_the_module_is_not_said_to_ignore_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports/r20");
    let files = files_of(&folder, "");
    let text = |end: &str| {
        let file = files.iter().find(|file| file.path.ends_with(end));
        file.unwrap().text.as_str()
    };
    let input = Input {
        name: "node.conf",
        text: text(".conf"),
        interfaces: Some(text(".json")),
        port: None,
    };
    let found = lint(&[input]).unwrap().findings;
    let passed_over = found.iter().find(|one| one.code == "ip2nets-passed-over");
    let reason = &passed_over.unwrap().reason;
    assert!(
        reason.contains("the module takes the interfaces of both"),
        "{reason}"
    );
}
