//! Tests the help texts of the benches.

use std::path::Path;

/// The directory with the expected `--help` of each bench.
const HELP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/help");

/// After an intended change run `TRYCMD=overwrite cargo test -p finerail-bench --test cli`, and check the
/// difference.
#[test]
fn help_texts_are_those_written_down() {
    let cases = trycmd::TestCases::new();
    cases.env("COLUMNS", "100");
    cases.case(format!("{HELP}/*.trycmd")).run();
}

#[test]
fn every_bench_has_its_help_written_down() {
    let front = Path::new(HELP).join("finerail-bench.trycmd");
    let front = std::fs::read_to_string(front).unwrap_or_default();
    let (_, commands) = front.split_once("Commands:\n").unwrap_or_default();
    let names = commands.lines().map_while(|line| line.strip_prefix("  "));
    let names: Vec<&str> = names.filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"lnet"), "{names:?}");
    for name in names
        .into_iter()
        .filter(|name| !["", "help"].contains(name))
    {
        let file = Path::new(HELP).join(format!("{name}.trycmd"));
        assert!(file.exists(), "{} is missing", file.display());
    }
}
