//! Typical problems of administrators as example sites: the first three lines of `site check` must name each
//! problem. The problems of a single node are the themes of `lnet-explain`, in a folder as a site has it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::path::{Path, PathBuf};

use lnet_site::check;

use common::files_of;

fn names_first(directory: &Path, below: &str, code: &str) -> Result<(), String> {
    let files = files_of(directory, below);
    let text = check(&lnet_site::read(&files).unwrap()).unwrap().to_text();
    let found = text.lines().take(3).any(|line| line.contains(code));
    found.then_some(()).ok_or_else(|| format!("{code}: {text}"))
}

#[test]
fn each_trouble_is_named_in_the_first_three_lines() {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let sites = [
        ("routers-one-sided", "one-sided-route"),
        ("asymmetric-and-dropped", "asymmetric-route"),
        ("credits-exhausted", "credits-exhausted"),
        ("policy-without-effect", "rule-without-effect"),
        ("subnets-mixed", "subnets-apart"),
        ("health-at-zero", "health-zero"),
        ("primary-on-another-net", "primary-not-reached"),
        // Taken from published reports: see REPORTS.md beside the sites.
        ("worker-after-reboot", "subnets-apart"),
        ("old-servers-new-clients", "parameters-differ"),
        ("interfaces-of-another-machine", "interface-missing"),
    ];
    let themes = [
        // LU-12289, LU-16854, LU-13780; LU-14668 is "primary-on-another-net".
        ("dead-remote-rail", "rail-mismatch"),
        ("alias-of-a-dead-link", "shared-device-down"),
        ("revived-router", "route-down"),
        ("timeouts-misaligned", "timeouts-misaligned"),
        ("ethernet-beside-the-fabric", "mixed-fabrics"),
        ("boot-race", "interface-missing"),
        ("rails-in-one-subnet", "one-subnet"),
        ("ip2nets-matches-the-host", "ip2nets-host-match"),
        ("wrong-interface", "interface-down"),
    ];
    let sites =
        sites.map(|(name, code)| names_first(&here.join("tests/troubles").join(name), "", code));
    let folder = here.join("../../lnet/explain/tests/themes");
    let themes = themes.map(|(name, code)| names_first(&folder.join(name), "node1/", code));
    let missed: Vec<String> = sites
        .into_iter()
        .chain(themes)
        .filter_map(Result::err)
        .collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
