//! Troubles of administrators' public reports, as they were written down before the lints were run on them: each is
//! named by its lint. `reports/SOURCES.md` says where each comes from.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::path::{Path, PathBuf};

use lnet_site::SiteFile;
use lnet_site::lint::{Finding, Input, lint};

use common::files_of;

/// The folder of a trouble, and the lint that names it.
const REPORTS: [(&str, &str); 43] = [
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
    ("r29", "kernel-message"),
    ("r30", "kernel-message"),
    ("r31", "kernel-message"),
    ("r32", "kernel-message"),
    ("r33", "kernel-message"),
    ("r34", "kernel-message"),
    ("r35", "kernel-message"),
    ("r36", "kernel-message"),
    ("r37", "kernel-message"),
    ("r38", "kernel-message"),
    ("r39", "kernel-message"),
    ("r40", "kernel-message"),
    ("r41", "kernel-message"),
    ("r42", "kernel-message"),
    ("r43", "kernel-message"),
];

/// Parts of what the lint says of a report: the node or machine, the error with its name, and the next command.
const SAID: [(&str, &[&str]); 15] = [
    (
        "r29",
        &[
            "'cannot del network', 2 times, on this machine",
            "-2 ENOENT",
            "lnetctl net show",
        ],
    ),
    (
        "r30",
        &[
            "'nothing provides kernel', 2 times",
            "another kernel",
            "uname -r",
        ],
    ),
    (
        "r31",
        &["'Error: Package', once", "another kernel", "uname -r"],
    ),
    (
        "r32",
        &[
            "'Consult /var/lib/dkms/lustre', once",
            "not built for this kernel",
            "make.log",
        ],
    ),
    (
        "r33",
        &["OpenIB gen2 headers', once", "drivers' development package"],
    ),
    ("r34", &["needs a program", "dnf install patch"]),
    (
        "r35",
        &[
            "'needs unknown symbol', once, on this machine",
            "modinfo -F depends",
        ],
    ),
    (
        "r36",
        &[
            "'Unable to locate package', once",
            "apt-cache search lustre-client-modules",
        ],
    ),
    (
        "r37",
        &[
            "'Unknown symbol', 2 times, on c1",
            "another release",
            "-22 EINVAL",
        ],
    ),
    (
        "r38",
        &[
            "once, of fs-0123456789abcdef0.fsx.example.com@tcp",
            "-2 ENOENT",
            "lctl get_param mgs.MGS.filesystems",
        ],
    ),
    (
        "r39",
        &[
            "once, of fs-0123456789abcdef0.fsx.example.com@tcp: nothing answers",
            "-110 ETIMEDOUT",
            "lnetctl ping fs-0123456789abcdef0.fsx.example.com@tcp",
        ],
    ),
    (
        "r40",
        &[
            "the MGS did not give the configuration",
            "-5 EIO",
            "lnetctl ping 172.31.84.12@tcp",
        ],
    ),
    (
        "r41",
        &[
            "'failed: No such file or directory', once, on this machine",
            "mount the MGT first",
        ],
    ),
    ("r42", &["'nothing provides kernel', 2 times", "uname -r"]),
    ("r43", &["finds no headers of ZFS", "dkms status zfs"]),
];

/// Returns the findings of a folder: each document with the list of interfaces of the same name.
fn found(files: &[SiteFile]) -> Vec<Finding> {
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
    lint(&inputs).unwrap().findings
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports")
}

#[test]
fn each_message_is_told_with_its_node_error_and_next_command() {
    for (name, parts) in SAID {
        let found = found(&files_of(&folder().join(name), ""));
        let told: Vec<String> = found
            .iter()
            .map(|one| format!("{} | {}", one.reason, one.fix))
            .collect();
        let told = told.join("\n");
        for part in parts {
            assert!(told.contains(part), "{name}: {part}:\n{told}");
        }
    }
}

#[test]
fn each_reported_trouble_is_named() {
    let mut missed = Vec::new();
    for (name, code) in REPORTS {
        let found = found(&files_of(&folder().join(name), ""));
        let found: Vec<&str> = found.iter().map(|finding| finding.code).collect();
        if !found.contains(&code) {
            missed.push(format!("{name}: {code} is not among {found:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// `convert` says the same of modules.
#[test]
fn of_two_rules_of_a_network_the_module_is_not_said_to_ignore_one() {
    let files = files_of(&folder().join("r20"), "");
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
