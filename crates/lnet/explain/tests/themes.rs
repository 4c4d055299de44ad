//! Problems that users report: one example of each theme, and the finding that names
//! its cause.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::fs;
use std::path::Path;

use lnet_config::machine::Machine;
use lnet_explain::{
    Change, Code, Explanation, Node, Question, Settings, Source, Target, explain, import, what_if,
};

fn node(theme: &str) -> Node {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/themes")
        .join(theme);
    let text = fs::read_to_string(directory.join("node.yaml")).unwrap();
    let machine = fs::read_to_string(directory.join("interfaces.json")).ok();
    let settings = Settings {
        machine: machine.map(|text| Machine::parse(&text).unwrap()),
        ..Settings::default()
    };
    let source = Source {
        name: theme,
        text: &text,
    };
    let imported = import(&[source], &settings).unwrap();
    assert_eq!(imported.warnings, [""; 0]);
    imported.node
}

fn ask(to: &str) -> Question {
    Question {
        to: to.parse().unwrap(),
        from: None,
        size: 0,
        sends: 10,
    }
}

fn explained(theme: &str, to: &str) -> Explanation {
    explain(&node(theme), &ask(to)).unwrap()
}

/// Returns the text of the finding with this code.
fn named(one: &Explanation, code: Code) -> &str {
    let found = one.findings.iter().find(|finding| finding.code == code);
    let Some(found) = found else {
        panic!("{code} is not among {:#?}", one.findings)
    };
    &found.text
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "'{part}' is missing in: {text}");
    }
}

#[test]
fn a_local_rail_whose_remote_end_is_dead_is_named() {
    let one = explained("dead-remote-rail", "10.0.1.7@tcp");
    let parts = [
        "10.0.1.1@tcp (eth0)",
        "by round robin",
        "10.0.1.7@tcp has health 0",
    ];
    says(named(&one, Code::RailMismatch), &parts);
}

#[test]
fn a_rail_without_a_dead_end_is_not_blamed() {
    let node = node("dead-remote-rail");
    let healed = [Change::Restore(Target::parse("10.0.1.7@tcp"))];
    let difference = what_if(&node, &ask("10.0.1.7@tcp"), &healed).unwrap();
    assert!(
        difference
            .solved
            .iter()
            .any(|finding| finding.code == Code::RailMismatch)
    );
    assert!(difference.new.is_empty());
}

#[test]
fn a_primary_nid_on_a_net_that_is_not_there_is_named_with_the_wait() {
    let one = explained("primary-nid-on-another-net", "10.9.0.5@tcp9");
    says(
        named(&one, Code::NetNotReached),
        &["no local net is tcp9", "49 s a try"],
    );
    assert!(one.answer.path.is_none());
}

#[test]
fn an_alias_that_outlives_its_link_is_named() {
    let one = explained("alias-of-a-dead-link", "10.0.0.7@tcp");
    let parts = [
        "10.1.0.1@tcp1 (eth0:1)",
        "shares device eth0",
        "10.0.0.1@tcp",
    ];
    says(named(&one, Code::SharedDeviceDown), &parts);
}

#[test]
fn the_test_that_keeps_a_revived_router_out_is_named_with_its_next_ping() {
    let one = explained("revived-router", "10.1.0.7@tcp1");
    says(named(&one, Code::RouteDown), &["test 1", "within 60 s"]);
}

#[test]
fn a_gateway_is_looked_at_as_a_peer_whose_health_takes_no_route_down() {
    let one = explained("gateway-as-a-peer", "10.1.0.7@tcp1");
    let parts = [
        "10.0.0.8@tcp has health 700",
        "but its route is up",
        "10.0.0.9@tcp",
    ];
    says(named(&one, Code::GatewayHealth), &parts);
    let path = one.answer.path.unwrap();
    assert_eq!(path.gateway.as_deref(), Some("10.0.0.8@tcp"));
}

#[test]
fn timeouts_that_do_not_fit_are_shown_as_a_sum() {
    let one = explained("timeouts-misaligned", "10.0.0.7@tcp");
    let parts = ["3 s × 6 tries = 18 s", "transaction_timeout 20 s"];
    says(named(&one, Code::TimeoutsMisaligned), &parts);
    let of_lnd = one
        .findings
        .iter()
        .rfind(|f| f.code == Code::TimeoutsMisaligned);
    says(&of_lnd.unwrap().text, &["50 s × 6 tries = 300 s"]);
}

#[test]
fn ethernet_that_carries_what_the_fabric_should_is_named() {
    let one = explained("ethernet-beside-the-fabric", "10.8.0.7@o2ib");
    let parts = [
        "advertises 10.0.0.1@tcp (eth0), 10.8.0.1@o2ib (rdma0)",
        "also tcp",
    ];
    says(named(&one, Code::MixedFabrics), &parts);
}

#[test]
fn a_rule_for_the_fabric_settles_it() {
    let node = node("ethernet-beside-the-fabric");
    let rule = Change::add_rule("--src o2ib --priority 0", lnet_policy::Profile::Design).unwrap();
    let difference = what_if(&node, &ask("10.8.0.7@o2ib"), &[rule]).unwrap();
    assert!(
        difference
            .solved
            .iter()
            .any(|finding| finding.code == Code::MixedFabrics)
    );
    assert_eq!(difference.after.forecast.shares.len(), 1);
}

#[test]
fn an_interface_that_is_not_there_yet_is_named() {
    let one = explained("boot-race", "10.0.0.7@tcp");
    says(
        named(&one, Code::InterfaceMissing),
        &["names ib0", "lo, eth0", "stops there"],
    );
}

#[test]
fn an_interface_without_carrier_is_named() {
    let one = explained("wrong-interface", "10.0.0.7@tcp");
    says(named(&one, Code::InterfaceDown), &["eth1", "no carrier"]);
}

#[test]
fn rails_in_one_subnet_are_named() {
    let one = explained("rails-in-one-subnet", "10.0.0.7@tcp");
    says(
        named(&one, Code::OneSubnet),
        &["10.0.0.1@tcp (eth0), 10.0.0.2@tcp (eth1)", "rp_filter"],
    );
}

#[test]
fn a_pattern_that_matched_another_interface_of_the_host_is_named() {
    let one = explained("ip2nets-matches-the-host", "10.8.0.7@o2ib");
    let parts = ["192.168.1.*", "here that is eth0", "configures ib0"];
    says(named(&one, Code::Ip2netsHostMatch), &parts);
    assert_eq!(one.answer.path.unwrap().source, "10.8.0.5@o2ib");
}

#[test]
fn nets_that_only_the_peer_has_are_listed() {
    let one = explained("more-nets-at-the-peer", "10.0.0.7@tcp");
    says(named(&one, Code::PeerNetsMissing), &["tcp1, o2ib"]);
}

#[test]
fn counters_of_all_interfaces_are_one_report() {
    let one = explained("counters-by-hand", "10.0.0.7@tcp");
    let counted = one
        .findings
        .iter()
        .filter(|f| f.code == Code::FailuresCounted);
    let texts: Vec<&str> = counted.map(|finding| finding.text.as_str()).collect();
    says(
        texts[0],
        &[
            "local NI 10.0.0.1@tcp (eth0)",
            "dropped 2, timeouts 17",
            "health is 800",
        ],
    );
    says(
        texts[1],
        &["peer NI 10.0.0.7@tcp", "network timeout 6", "health is 400"],
    );
    let causes: Vec<_> = one
        .health
        .iter()
        .filter_map(|report| report.cause.as_deref())
        .collect();
    assert_eq!(
        causes,
        ["mostly timeouts, 17 times", "only network timeout, 6 times"]
    );
}
