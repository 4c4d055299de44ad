//! Problems that users report. If the configuration alone shows the problem of an
//! example of `lnet-explain`, the lint with the same code finds it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fs;
use std::path::Path;

use lnet_site::lint::{Input, LINTS, lint};

fn codes(theme: &str) -> Vec<&'static str> {
    let themes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lnet/explain/tests/themes");
    let directory = themes.join(theme);
    let text = fs::read_to_string(directory.join("node.yaml")).unwrap();
    let interfaces = fs::read_to_string(directory.join("interfaces.json")).ok();
    let input = Input {
        name: theme,
        text: &text,
        interfaces: interfaces.as_deref(),
        port: None,
    };
    let report = lint(&[input]).unwrap();
    report.findings.iter().map(|finding| finding.code).collect()
}

#[track_caller]
fn shows(theme: &str, code: &str) {
    let found = codes(theme);
    assert!(
        found.contains(&code),
        "{theme}: {code} is not among {found:?}"
    );
}

#[test]
fn a_local_rail_whose_remote_end_is_dead() {
    shows("dead-remote-rail", "rail-mismatch");
}

#[test]
fn an_alias_that_outlives_its_link() {
    shows("alias-of-a-dead-link", "shared-device-down");
}

#[test]
fn a_revived_router() {
    shows("revived-router", "route-down");
}

#[test]
fn a_gateway_that_is_not_well() {
    shows("gateway-as-a-peer", "gateway-health");
}

#[test]
fn timeouts_that_do_not_fit() {
    shows("timeouts-misaligned", "timeouts-misaligned");
}

#[test]
fn ethernet_beside_the_fabric() {
    shows("ethernet-beside-the-fabric", "mixed-fabrics");
}

#[test]
fn an_interface_that_is_not_there_yet() {
    shows("boot-race", "interface-missing");
}

#[test]
fn an_interface_without_carrier() {
    shows("wrong-interface", "interface-down");
}

#[test]
fn rails_in_one_subnet() {
    shows("rails-in-one-subnet", "one-subnet");
}

#[test]
fn a_pattern_that_matches_the_host() {
    shows("ip2nets-matches-the-host", "ip2nets-host-match");
}

#[test]
fn nets_that_only_the_peer_has() {
    shows("more-nets-at-the-peer", "peer-nets-missing");
}

#[test]
fn counters_of_all_interfaces() {
    shows("counters-by-hand", "failures-counted");
}

/// In this example the destination's NID is in the question and not in the document. With a peer in the document
/// the lint finds it.
#[test]
fn a_primary_nid_on_another_net() {
    assert_eq!(codes("primary-nid-on-another-net"), [""; 0]);
    let text = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}]}]\npeer: [{primary nid: 10.9.0.5@tcp9}]\n";
    let input = Input {
        name: "node",
        text,
        interfaces: None,
        port: None,
    };
    assert_eq!(lint(&[input]).unwrap().findings[0].code, "net-not-reached");
}

/// A code that both crates have means the same cause. Codes whose cause no configuration shows are absent here.
#[test]
fn codes_of_explain_keep_their_names() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lnet/explain/src/finding.rs");
    let source = fs::read_to_string(source).unwrap();
    let shared = LINTS
        .iter()
        .filter(|lint| source.contains(&format!("\"{}\"", lint.code)));
    assert_eq!(shared.count(), 25);
}
