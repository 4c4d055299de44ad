//! `finerail fgr place` and `report` on the command line: their output, their files and their exit
//! codes.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};

const MACHINE: &str = "synthetic:6x8x4:2x2x1";

fn finerail(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_finerail"));
    command
        .current_dir(directory)
        .args(arguments)
        .output()
        .unwrap()
}

/// Returns every place of the machine as a blade of one node.
fn blades() -> String {
    let mut text = "blade,cabinet,kind,node,at\n".to_owned();
    for number in 0..6 * 8 * 4 {
        let (x, y, z) = (number / 32, number / 4 % 8, number % 4);
        let id = 10_000 + number;
        writeln!(text, "{x}-{y}-{z},{x}-{y},service,{id},{x} {y} {z}").unwrap();
    }
    text
}

#[test]
fn place_prints_points_beside_the_start_and_the_bounds_and_repeats_itself() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("blades.csv"), blades()).unwrap();
    let run = || {
        let arguments = [
            "fgr",
            "place",
            "--machine",
            MACHINE,
            "--sites",
            "blades.csv",
        ];
        let effort = ["--candidates", "60", "-o", "found"];
        finerail(directory.path(), &[&arguments[..], &effort[..]].concat())
    };
    let (first, second) = (run(), run());
    let text = String::from_utf8(first.stdout).unwrap();
    assert!(
        first.status.success(),
        "{}",
        String::from_utf8_lossy(&first.stderr)
    );
    for sign in [
        "as it stands",
        "point 1",
        "placements tried, seed 1",
        "no proof that this is the least",
    ] {
        assert!(text.contains(sign), "{sign} in\n{text}");
    }
    assert_eq!(text.as_bytes(), second.stdout);
    let placements = std::fs::read_to_string(directory.path().join("found/placements.csv"));
    assert!(
        placements
            .unwrap()
            .starts_with("point,group,subgroup,index,blade,cabinet,nodes\n1,")
    );
}

#[test]
fn place_says_every_line_of_a_bad_list_of_blades() {
    let directory = tempfile::tempdir().unwrap();
    let bad = "blade,cabinet,kind,node,at\na,b,router,1,0 0 0\na,b,service,x,9 9 9\n";
    std::fs::write(directory.path().join("blades.csv"), bad).unwrap();
    let arguments = [
        "fgr",
        "place",
        "--machine",
        MACHINE,
        "--sites",
        "blades.csv",
    ];
    let output = finerail(directory.path(), &arguments);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("blades.csv:2") && said.contains("blades.csv:3"),
        "{said}"
    );
}

#[test]
fn report_writes_one_page_and_its_parts() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [
        "fgr",
        "report",
        "--machine",
        MACHINE,
        "-o",
        "r.html",
        "--parts",
        "parts",
    ];
    let output = finerail(directory.path(), &arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let page = std::fs::read_to_string(directory.path().join("r.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"));
    assert!(page.contains("synthetic: made up by rule"));
    for part in ["routers.svg", "hops.svg", "policies.csv", "failures.csv"] {
        assert!(directory.path().join("parts").join(part).exists(), "{part}");
    }
}
