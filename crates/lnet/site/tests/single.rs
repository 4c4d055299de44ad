//! Tests each lint of one document: the lint fires in a minimal document, and does not fire in the corrected one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "common/fires.rs"]
mod fires;

use lnet_site::lint::Severity;

use fires::{findings, fires, fires_on, machine, nets};

/// A node with one NI on tcp.
const NODE: &str = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}]}]\n";

/// Returns `NODE` followed by more YAML.
fn node(more: &str) -> String {
    format!("{NODE}{more}\n")
}

#[test]
fn a_document_that_cannot_be_imported_is_found_with_its_place() {
    let found = fires(
        "import-refused",
        &node("route: [{net: tcp, gateway: 10.0.0.9@tcp}]"),
        &node("route: [{net: tcp1, gateway: 10.0.0.9@tcp}]"),
    );
    assert_eq!((found.line, found.column), (2, 15));
}

#[test]
fn a_document_that_contradicts_itself_is_a_finding_and_nothing_else_is_said_of_it() {
    let text = node("global: {retry_count: 3, health_sensitivity: 0}");
    let codes: Vec<_> = findings(&text, None).iter().map(|f| f.code).collect();
    assert_eq!(codes, ["import-refused"]);
}

#[test]
fn an_unknown_key_inside_an_entry_is_found() {
    let route = |key| {
        node(&format!(
            "route: [{{net: tcp1, gateway: 10.0.0.9@tcp, hop: 1, {key}: 1}}]"
        ))
    };
    let found = fires("unknown-key", &route("prio"), &route("priority"));
    assert_eq!((found.line, found.column), (2, 52));
}

#[test]
fn a_network_of_the_module_without_interface_is_found() {
    let found = fires(
        "first-interface",
        "# site\noptions lnet networks=tcp\n",
        "options lnet networks=tcp(eth0)\n",
    );
    assert_eq!((found.line, found.column), (2, 14));
}

const ETH0: &str = "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}}]}]\n";

#[test]
fn an_interface_that_the_machine_lacks_is_found() {
    let without = machine(&[("eno1", "10.0.0.1", true)]);
    let with = machine(&[("eth0", "10.0.0.1", true)]);
    fires_on(
        "interface-missing",
        (ETH0, Some(&without)),
        (ETH0, Some(&with)),
    );
}

#[test]
fn options_of_the_module_are_compared_with_the_interfaces() {
    let with = machine(&[("eth0", "10.0.0.1", true)]);
    fires_on(
        "interface-missing",
        ("options lnet networks=tcp(eth1)\n", Some(&with)),
        ("options lnet networks=tcp(eth0)\n", Some(&with)),
    );
}

#[test]
fn an_interface_without_carrier_or_address_is_found() {
    let up = machine(&[("eth0", "10.0.0.1", true)]);
    for wrong in [("eth0", "10.0.0.1", false), ("eth0", "", true)] {
        let wrong = machine(&[wrong]);
        fires_on("interface-down", (ETH0, Some(&wrong)), (ETH0, Some(&up)));
    }
}

/// Each case: the net, the NID if the document has one, the interface, and the code that is expected.
#[test]
fn only_interfaces_that_the_list_would_show_are_judged() {
    let machine = r#"[
        {"ifname":"eth0","flags":["UP","LOWER_UP"],"addr_info":[{"local":"2001:db8::1","prefixlen":64}]},
        {"ifname":"ib0","flags":["UP","LOWER_UP"],"addr_info":[]},
        {"ifname":"eth1","flags":["UP"],"addr_info":[{"local":"2001:db8:1::1","prefixlen":64}]}]"#;
    let cases: [(&str, &str, &str, &[&str]); 7] = [
        ("kfi", "", "cxi0", &[]),
        ("gni", "", "ipogif0", &[]),
        ("tcp", "", "eth9", &["interface-missing"]),
        ("o2ib", "", "ib0", &["interface-down"]),
        ("tcp", "nid: \"2001:db8::1@tcp\", ", "eth0", &[]),
        (
            "tcp",
            "nid: \"2001:db8:1::1@tcp\", ",
            "eth1",
            &["interface-down"],
        ),
        (
            "tcp",
            "nid: \"2001:db8::5@tcp\", ",
            "ib0",
            &["interface-down"],
        ),
    ];
    for (net, nid, interface, expected) in cases {
        let text = format!(
            "net: [{{net type: {net}, local NI(s): [{{{nid}interfaces: {{0: {interface}}}}}]}}]\n"
        );
        let found = findings(&text, Some(machine));
        let codes = found.iter().map(|finding| finding.code);
        let codes: Vec<&str> = codes
            .filter(|code| code.starts_with("interface-"))
            .collect();
        assert_eq!(codes, expected, "{net} {nid}{interface}: {found:#?}");
    }
}

#[test]
fn an_address_in_the_place_of_an_interface_is_no_question_of_the_boot_order() {
    let machine = machine(&[("eno1", "10.0.0.1", true)]);
    for (named, told) in [("10.0.0.1", "eno1"), ("10.0.0.9", "no interface has it")] {
        let text =
            format!("net: [{{net type: tcp, local NI(s): [{{interfaces: {{0: {named}}}}}]}}]\n");
        let found = fires_on(
            "interface-missing",
            (&text, Some(&machine)),
            (ETH0, Some(&fires::machine(&[("eth0", "10.0.0.1", true)]))),
        );
        assert!(found.fix.contains(told), "{}", found.fix);
        assert!(!found.fix.contains("wait"), "{}", found.fix);
    }
}

fn on_alias(status: &str, alias: &str) -> String {
    format!(
        "net:\n- net type: tcp\n  local NI(s):\n  - nid: 10.0.0.1@tcp\n    status: {status}\n    interfaces: {{0: eth0}}\n\
         - net type: tcp1\n  local NI(s):\n  - nid: 10.1.0.1@tcp1\n    status: up\n    interfaces: {{0: \"{alias}\"}}\n"
    )
}

#[test]
fn an_ni_that_outlives_its_device_is_found() {
    let found = fires(
        "shared-device-down",
        &on_alias("down", "eth0:1"),
        &on_alias("down", "eth1"),
    );
    assert_eq!(found.line, 9);
}

#[test]
fn rails_over_one_device_are_found() {
    fires(
        "interface-shared",
        &on_alias("up", "eth0:1"),
        &on_alias("up", "eth1"),
    );
}

#[test]
fn nis_of_one_subnet_are_found_and_told_as_a_note_where_the_prefix_is_a_guess() {
    let wrong = nets(&["10.0.0.1@tcp", "10.0.0.2@tcp"]);
    let right = nets(&["10.0.0.1@tcp", "10.0.1.2@tcp"]);
    assert_eq!(
        fires("one-subnet", &wrong, &right).severity.to_string(),
        "note"
    );
    let same = machine(&[("eth0", "10.0.0.1", true), ("eth1", "10.0.0.2", true)]);
    let found = fires_on("one-subnet", (&wrong, Some(&same)), (&right, Some(&same)));
    assert_eq!(found.severity.to_string(), "warning");
}

#[test]
fn a_pattern_that_matches_another_interface_is_found() {
    let rules = |pattern| {
        format!(
            "ip2nets: [{{net-spec: o2ib, interfaces: {{0: ib0}}, ip-range: {{0: {pattern}}}}}]\n"
        )
    };
    let machine = machine(&[("eth0", "192.168.1.5", true), ("ib0", "10.8.0.5", true)]);
    let found = fires_on(
        "ip2nets-host-match",
        (&rules("192.168.1.*"), Some(&machine)),
        (&rules("10.8.0.*"), Some(&machine)),
    );
    assert!(
        found.reason.contains("here that is eth0"),
        "{}",
        found.reason
    );
}

#[test]
fn different_mtus_on_one_network_are_found() {
    let two = "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0, 1: eth1}}]}]\n";
    let same = machine(&[("eth0", "10.0.0.1", true), ("eth1", "10.0.1.1", true)]);
    let jumbo = same.replacen("1500", "9000", 1);
    let found = fires_on("mtu-differs", (two, Some(&jumbo)), (two, Some(&same)));
    assert!(found.reason.contains("1500"), "{}", found.reason);
}

#[test]
fn a_high_water_mark_that_the_lnd_replaces_is_found() {
    let net = |net: &str, mark: u32| {
        format!(
            "net:\n- net type: {net}\n  local NI(s):\n  - nid: 10.0.0.1@{net}\n    tunables: {{peer_credits: 32}}\n    lnd \
             tunables: {{peercredits_hiw: {mark}}}\n"
        )
    };
    let found = fires("watermark-replaced", &net("o2ib", 64), &net("o2ib", 31));
    assert!(found.reason.contains("takes 31"), "{}", found.reason);
    assert_eq!(found.line, 6);
    let found = fires("watermark-replaced", &net("o2ib", 15), &net("o2ib", 16));
    assert!(found.reason.contains("takes 16"), "{}", found.reason);
}

#[test]
fn a_limit_that_cannot_hold_what_is_registered_is_found() {
    let text = |net: &str| {
        format!("net:\n- net type: {net}\n  local NI(s):\n  - interfaces: {{0: eth0}}\n")
    };
    let over_rdma = text("o2ib");
    let interfaces = machine(&[("eth0", "10.0.0.1", true)]);
    let limited = format!("{interfaces}\n[Service]\nLimitMEMLOCK=8M\n");
    let process = format!(
        "{interfaces}\nLimit  Soft Limit  Hard Limit  Units\nMax open files  1024  1024  files\n\
         Max locked memory  8388608  8388608  bytes\n"
    );
    let enough = limited.replace("8M", "9M");
    let code = "memlock";
    for limit in [&limited, &process] {
        let found = fires_on(code, (&over_rdma, Some(limit)), (&over_rdma, Some(&enough)));
        assert_eq!(
            found.reason,
            "the o2ib nets use up to 9 MiB of memory with 1 peer (message buffers 112 KiB, payload under way 8 MiB), and \
             RLIMIT_MEMLOCK is 8 MiB: transfers fail when it is used up"
        );
    }
    fires_on(
        code,
        (&over_rdma, Some(&limited)),
        (&over_rdma, Some(&interfaces)),
    );
    fires_on(
        code,
        (&over_rdma, Some(&limited)),
        (&text("tcp"), Some(&limited)),
    );
    let options = "options lnet ip2nets=\"o2ib(eth0) 10.0.0.*\"\n";
    fires_on(code, (options, Some(&limited)), (options, Some(&enough)));
}

#[test]
fn a_cpt_set_without_the_devices_cpt_is_found() {
    let ni = |cpts| {
        format!(
            "net: [{{net type: tcp, local NI(s): [{{nid: 10.0.0.1@tcp, dev cpt: 1, CPT: \"{cpts}\"}}]}}]\n"
        )
    };
    fires("cpt-excludes-device", &ni("[0]"), &ni("[0,1]"));
}

#[test]
fn different_tunables_in_one_network_are_found() {
    let nis = |credits| {
        format!(
            "net:\n- net type: tcp\n  local NI(s):\n  - {{nid: 10.0.0.1@tcp, tunables: {{credits: 256}}}}\n  - {{nid: \
             10.0.1.1@tcp, tunables: {{credits: {credits}}}}}\n"
        )
    };
    assert_eq!(fires("mixed-tunables", &nis("128"), &nis("256")).line, 5);
}

#[test]
fn networks_of_two_kinds_without_rank_are_found() {
    let both = nets(&["10.0.0.1@tcp", "10.8.0.1@o2ib"]);
    let ranked = format!("{both}udsp: [{{idx: 0, src: o2ib, action: {{priority: 1}}}}]\n");
    fires("mixed-fabrics", &both, &ranked);
    let router = format!("{both}routing: {{enable: 1}}\n");
    fires("mixed-fabrics", &both, &router);
}

#[test]
fn routes_without_hops_are_one_finding() {
    let found = fires(
        "hop-undefined",
        &node("route: [{net: tcp1, gateway: '10.0.0.[8-9]@tcp'}]"),
        &node("route: [{net: tcp1, gateway: '10.0.0.[8-9]@tcp', hop: 1}]"),
    );
    assert!(found.reason.contains("and 1 more"), "{}", found.reason);
}

#[test]
fn a_gateway_on_no_local_network_is_found_at_its_own_entry() {
    let routes = |gateway| {
        node(&format!(
            "route:\n- {{net: tcp1, gateway: '10.0.0.[7-9]@tcp', hop: 1}}\n- {{net: tcp2, gateway: {gateway}, hop: 1}}"
        ))
    };
    let found = fires(
        "gateway-not-local",
        &routes("10.8.0.9@o2ib"),
        &routes("10.0.0.9@tcp"),
    );
    assert_eq!((found.line, found.key.as_str()), (4, "route[1].gateway"));
}

#[test]
fn nothing_follows_from_networks_that_a_document_does_not_name() {
    let part = "route: [{net: tcp1, gateway: 10.8.0.9@o2ib, hop: 1}]\n\
                udsp: [{idx: 0, src: kfi, priority: 1}]\npeer: [{primary nid: 10.9.0.1@tcp9}]\n";
    assert_eq!(findings(part, None), []);
}

#[test]
fn a_route_that_was_down_is_found() {
    let route = |state| {
        node(&format!(
            "route: [{{net: tcp1, gateway: 10.0.0.9@tcp, hop: 1, state: {state}}}]"
        ))
    };
    fires("route-down", &route("down"), &route("up"));
}

#[test]
fn a_gateway_that_is_not_well_is_found() {
    let text = |health| {
        node(&format!(
            "route: [{{net: tcp1, gateway: 10.0.0.9@tcp, hop: 1, state: up}}]\npeer: [{{primary nid: 10.0.0.9@tcp, peer \
             ni: [{{nid: 10.0.0.9@tcp, health stats: {{health value: {health}}}}}]}}]"
        ))
    };
    fires("gateway-health", &text(700), &text(1000));
}

#[test]
fn routes_without_discovery_are_found() {
    let text = |discovery| {
        node(&format!(
            "route: [{{net: tcp1, gateway: 10.0.0.9@tcp, hop: 1}}]\nglobal: {{discovery: {discovery}}}"
        ))
    };
    let found = fires("discovery-off", &text(0), &text(1));
    assert_eq!((found.line, found.column), (3, 10));
}

fn peer(primary: &str, other: &str) -> String {
    node(&format!(
        "peer: [{{primary nid: {primary}, Multi-Rail: true, peer ni: [{{nid: {primary}}}, {{nid: {other}}}]}}]"
    ))
}

#[test]
fn a_peer_that_no_network_reaches_is_found() {
    let wrong = peer("10.9.0.5@tcp9", "10.9.1.5@tcp9");
    let routed = format!("{wrong}route: [{{net: tcp9, gateway: 10.0.0.9@tcp, hop: 1}}]\n");
    fires("net-not-reached", &wrong, &routed);
}

#[test]
fn a_primary_nid_that_no_network_reaches_is_found() {
    let wrong = peer("10.9.0.5@tcp9", "10.0.0.5@tcp");
    fires(
        "primary-not-reached",
        &wrong,
        &peer("10.0.0.5@tcp", "10.9.0.5@tcp9"),
    );
}

#[test]
fn a_primary_nid_behind_a_route_beside_one_on_a_local_network_is_found() {
    let route = "route: [{net: tcp9, gateway: 10.0.0.9@tcp, hop: 1}]\n";
    let [far, near] = ["10.9.0.5@tcp9", "10.0.0.5@tcp"];
    let found = fires(
        "primary-not-local",
        &(peer(far, near) + route),
        &(peer(near, far) + route),
    );
    assert_eq!(found.fix, "make a NID on tcp the primary one");
}

#[test]
fn nids_of_a_peer_on_networks_that_nobody_shares_are_found() {
    let wrong = peer("10.0.0.5@tcp", "10.8.0.5@o2ib");
    fires(
        "peer-nets-missing",
        &wrong,
        &peer("10.0.0.5@tcp", "10.0.1.5@tcp"),
    );
}

#[test]
fn a_rail_whose_end_is_dead_is_found() {
    let text = |health| {
        let nis = nets(&["10.0.1.1@tcp", "10.0.2.1@tcp"]);
        format!(
            "{nis}peer: [{{primary nid: 10.0.1.7@tcp, peer ni: [{{nid: 10.0.1.7@tcp, health stats: {{health value: \
             {health}}}}}, {{nid: 10.0.2.7@tcp, health stats: {{health value: 1000}}}}]}}]\n"
        )
    };
    let found = fires("rail-mismatch", &text(0), &text(1000));
    assert!(
        found.reason.contains("10.0.1.1@tcp stays in use"),
        "{}",
        found.reason
    );
}

#[test]
fn an_interface_without_health_is_found_here_and_at_a_peer() {
    let here = |health| {
        format!(
            "net: [{{net type: tcp, local NI(s): [{{nid: 10.0.0.1@tcp, health stats: {{health value: {health}}}}}]}}]\n"
        )
    };
    let found = fires("health-zero", &here(0), &here(1));
    assert!(
        found.reason.starts_with("local NI 10.0.0.1@tcp"),
        "{}",
        found.reason
    );
    let there = |health| {
        node(&format!(
            "peer: [{{primary nid: 10.0.0.2@tcp, Multi-Rail: True, peer ni: [{{nid: 10.0.0.2@tcp, health stats: \
             {{health value: {health}}}}}]}}]"
        ))
    };
    let found = fires("health-zero", &there(0), &there(1000));
    assert!(
        found.reason.starts_with("peer NI 10.0.0.2@tcp"),
        "{}",
        found.reason
    );
}

#[test]
fn counted_failures_are_found() {
    let text = |timeouts| {
        format!(
            "net: [{{net type: tcp, local NI(s): [{{nid: 10.0.0.1@tcp, health stats: {{health value: 800, timeouts: \
             {timeouts}}}}}]}}]\n"
        )
    };
    let found = fires("failures-counted", &text(17), &text(0));
    assert!(
        found.reason.contains("timeouts 17; its health is 800"),
        "{}",
        found.reason
    );
}

fn rule(rule: &str) -> String {
    node(&format!("udsp: [{{idx: 0, {rule}}}]"))
}

#[test]
fn rules_that_can_do_nothing_are_found() {
    let right = rule("src: 10.0.0.1@tcp, dst: 10.0.0.7@tcp");
    fires("rule-dead", &rule("src: tcp, dst: 10.0.0.7@tcp"), &right);
    fires("rule-dead", &rule("rte: 10.0.0.7@tcp"), &right);
    fires("rule-dead", &rule("dst: tcp, rte: tcp"), &right);
}

#[test]
fn rules_about_what_is_not_there_are_found() {
    let code = "rule-without-effect";
    fires(
        code,
        &rule("src: o2ib, priority: 1"),
        &rule("src: tcp, priority: 1"),
    );
    fires(
        code,
        &rule("dst: 10.8.0.7@o2ib, priority: 1"),
        &rule("dst: 10.0.0.7@tcp, priority: 1"),
    );
    fires(
        code,
        &rule("src: 10.0.0.9@tcp, priority: 1"),
        &rule("src: '10.0.0.[1-9]@tcp', priority: 1"),
    );
    let routed = |rte| {
        let rule = rule(&format!("dst: tcp1, rte: {rte}"));
        format!("{rule}route: [{{net: tcp1, gateway: 10.0.0.9@tcp, hop: 1}}]\n")
    };
    fires(code, &routed("10.0.0.8@tcp"), &routed("10.0.0.9@tcp"));
}

#[test]
fn a_rule_that_another_hides_is_found() {
    let rules = |second| {
        node(&format!(
            "udsp: [{{idx: 0, src: 'tcp*', priority: 1}}, {{idx: 1, src: {second}, priority: 2}}]"
        ))
    };
    let found = fires("rule-without-effect", &rules("tcp"), &rules("10.0.0.1@tcp"));
    assert!(found.reason.contains("set by rule 0"), "{}", found.reason);
}

#[test]
fn a_pair_rule_whose_source_is_not_drawn_to_is_found() {
    let text = |rules: &str| {
        let nis = nets(&["10.0.0.1@tcp", "10.0.1.1@tcp"]);
        format!("{nis}udsp: [{{idx: 0, src: 10.0.0.1@tcp, dst: 10.0.0.7@tcp}}{rules}]\n")
    };
    let right = text(", {idx: 1, src: 10.0.0.1@tcp, priority: 1}");
    let code = "pair-does-not-attract";
    assert_eq!(fires(code, &text(""), &right).severity.to_string(), "note");
    let never = text(", {idx: 1, src: 10.0.1.1@tcp, priority: 1}");
    assert_eq!(fires(code, &never, &right).severity.to_string(), "warning");
    // A peer that is not Multi-Rail is sent to from the source that a rule prefers.
    let single =
        "peer: [{primary nid: 10.0.0.7@tcp, Multi-Rail: false, peer ni: [{nid: 10.0.0.7@tcp}]}]\n";
    fires(code, &text(""), &(text("") + single));
}

#[test]
fn sides_that_rank_networks_in_opposite_order_are_found() {
    let text = |first, second| {
        let nis = nets(&["10.0.0.1@tcp", "10.8.0.1@o2ib"]);
        format!(
            "{nis}udsp: [{{idx: 0, src: tcp, priority: 1}}, {{idx: 1, src: o2ib, priority: 2}}, {{idx: 2, dst: tcp, \
             priority: {first}}}, {{idx: 3, dst: o2ib, priority: {second}}}]\n"
        )
    };
    fires("priorities-conflict", &text(2, 1), &text(1, 2));
}

#[test]
fn rules_that_kernels_do_not_import_are_found_with_the_defect() {
    let right = rule("src: tcp, priority: 1");
    let told = |wrong: &str, defect| {
        let found = fires("rule-import", wrong, &right);
        assert!(found.reason.contains(defect), "{}", found.reason);
    };
    told(&rule("src: tcp, priority: 0"), "Q-21");
    told(&node("udsp: [{src: tcp, priority: 1}]"), "Q-22");
    told(&rule("src: 10.0.0.1@tcp, dst: tcp"), "Q-23");
    let leak = "udsp: [{idx: 0, src: tcp, priority: 1}, {idx: 1, src: 10.0.0.1@tcp, dst: tcp}]";
    told(&node(leak), "Q-24");
}

fn globals(globals: &str) -> String {
    node(&format!("global: {{{globals}}}"))
}

#[test]
fn health_that_is_off_where_there_is_a_choice_is_found() {
    let off = "global: {health_sensitivity: 0, retry_count: 0}\n";
    let two = nets(&["10.0.0.1@tcp", "10.0.1.1@tcp"]);
    fires("health-off", &format!("{two}{off}"), &node(off));
}

#[test]
fn a_sensitivity_of_all_health_is_found() {
    fires(
        "sensitivity-drains",
        &globals("health_sensitivity: 1000"),
        &globals("health_sensitivity: 100"),
    );
}

#[test]
fn tries_that_are_too_short_are_found() {
    let found = fires(
        "timeouts-misaligned",
        &globals("transaction_timeout: 20, retry_count: 5"),
        &globals("transaction_timeout: 31, retry_count: 5"),
    );
    assert!(
        found.reason.contains("3 s × 6 tries = 18 s"),
        "{}",
        found.reason
    );
}

#[test]
fn an_lnd_timeout_that_leaves_no_time_for_the_last_try_is_found() {
    let ni = |timeout| {
        format!(
            "net: [{{net type: tcp, local NI(s): [{{nid: 10.0.0.1@tcp, lnd tunables: {{timeout: {timeout}}}}}]}}]\n"
        )
    };
    fires("timeouts-misaligned", &ni(51), &ni(49));
    // Release 2.17.0 shows 50 s if nobody set another value.
    fires("timeouts-misaligned", &ni(51), &ni(50));
    let shorter = |timeout| ni(timeout) + "global: {transaction_timeout: 120}\n";
    fires("timeouts-misaligned", &shorter(50), &shorter(39));
}

#[test]
fn a_recovery_that_ends_before_the_router_check_is_found() {
    for right in [0, 60] {
        let right = globals(&format!("recovery_limit: {right}"));
        fires(
            "recovery-limit-short",
            &globals("recovery_limit: 59"),
            &right,
        );
    }
}

#[test]
fn a_parameter_outside_its_section_is_found_there() {
    let found = fires(
        "sensitivity-drains",
        "health_sensitivity: 1000\n",
        "health_sensitivity: 1\n",
    );
    assert_eq!((found.line, found.key.as_str()), (1, "health_sensitivity"));
}

#[test]
fn a_clean_document_has_no_findings() {
    let text =
        node("route: [{net: tcp1, gateway: 10.0.0.9@tcp, hop: 1}]\nglobal: {retry_count: 2}");
    assert_eq!(findings(&text, None), []);
}

#[test]
fn a_second_rule_of_a_network_that_loses_its_rail_is_found() {
    let both = machine(&[("eth0", "10.0.0.1", true), ("eth1", "10.0.1.1", true)]);
    let two = "ip2nets: [{net-spec: tcp, interfaces: {0: eth0}, ip-range: {0: 10.0.0.*}}, \
               {net-spec: tcp, interfaces: {0: eth1}, ip-range: {0: 10.0.1.*}}]\n";
    let one =
        "ip2nets: [{net-spec: tcp, interfaces: {0: eth0, 1: eth1}, ip-range: {0: 10.0.0.*}}]\n";
    let found = fires_on(
        "ip2nets-passed-over",
        (two, Some(&both)),
        (one, Some(&both)),
    );
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.reason.contains("tcp(eth1) is ignored"), "{found:?}");
    let found = fires("ip2nets-passed-over", two, one);
    assert_eq!(found.severity, Severity::Note);
    let alone = machine(&[("eth0", "10.0.0.1", true)]);
    let left = findings(two, Some(&alone));
    assert!(
        left.iter().all(|one| one.code != "ip2nets-passed-over"),
        "{left:?}"
    );
}

/// Returns a node as `net show -v 2` prints it: one NI that is up, and a second one with the given fields.
fn shown(second: &str) -> String {
    format!(
        "net:\n- net type: tcp\n  local NI(s):\n  - nid: 10.0.0.1@tcp\n    status: up\n    interfaces: {{0: eth0}}\n  \
         - nid: 10.0.0.2@tcp\n    interfaces: {{0: eth1}}\n    {second}\n"
    )
}

#[test]
fn an_ni_with_the_status_down_is_found() {
    let found = fires("ni-down", &shown("status: down"), &shown("status: up"));
    assert!(
        found
            .reason
            .contains("10.0.0.2@tcp (eth1) has the status down"),
        "{found:?}"
    );
}

#[test]
fn an_ni_with_a_fatal_error_is_found() {
    let health = |fatal| format!("health stats: {{fatal_error: {fatal}, health value: 1000}}");
    let found = fires("ni-down", &shown(&health(1)), &shown(&health(0)));
    assert!(found.reason.contains("has a fatal error"), "{found:?}");
}

fn with_credits(available: i64, queued: u64, least: i64) -> String {
    node(&format!(
        "peer: [{{primary nid: 10.0.0.7@tcp, Multi-Rail: true, peer ni: [{{nid: 10.0.0.7@tcp, max_ni_tx_credits: 8, \
         available_tx_credits: {available}, min_tx_credits: {least}, tx_q_num_of_buf: {queued}, \
         available_rtr_credits: 8, min_rtr_credits: 8, refcount: 1}}]}}]"
    ))
}

#[test]
fn messages_that_wait_for_credits_are_found_with_the_least() {
    let found = fires(
        "credits-exhausted",
        &with_credits(-310, 1_269_760, -512),
        &with_credits(8, 0, 3),
    );
    assert_eq!(found.severity, Severity::Warning);
    for part in [
        "310 messages with 1269760 bytes",
        "-310 of 8",
        "least was -512",
    ] {
        assert!(found.reason.contains(part), "{found:?}");
    }
    let once = fires(
        "credits-exhausted",
        &with_credits(8, 0, -512),
        &with_credits(8, 0, -8),
    );
    assert_eq!(once.severity, Severity::Note);
}

#[test]
fn rails_of_one_net_in_several_subnets_are_found() {
    let one = nets(&["10.0.0.1@tcp", "10.0.1.1@tcp"]);
    let two = nets(&["10.0.0.1@tcp", "10.0.1.1@tcp1"]);
    assert_eq!(fires("subnets-apart", &one, &two).severity, Severity::Note);
    let known = machine(&[("eth0", "10.0.0.1", true), ("eth1", "10.0.1.1", true)]);
    let found = fires_on("subnets-apart", (&one, Some(&known)), (&two, Some(&known)));
    assert_eq!(found.severity, Severity::Warning);
}

/// Returns two rails in two subnets. The peer NI in the first subnet has health 0.
fn rails(health_of_first: u16) -> String {
    format!(
        "net: [{{net type: tcp, local NI(s): [{{nid: 10.0.1.1@tcp, health stats: {{health value: {health_of_first}}}}}, \
         {{nid: 10.0.2.1@tcp, health stats: {{health value: 1000}}}}]}}]\n\
         peer: [{{primary nid: 10.0.1.7@tcp, Multi-Rail: true, peer ni: [{{nid: 10.0.1.7@tcp, health stats: \
         {{health value: 0}}}}, {{nid: 10.0.2.7@tcp, health stats: {{health value: 1000}}}}]}}]\n"
    )
}

#[test]
fn a_rail_that_is_itself_not_well_does_not_stay_in_use() {
    fires("rail-mismatch", &rails(1000), &rails(0));
}

fn gateways(first: u32, second: Option<u32>) -> String {
    let route = |gateway: &str, priority| {
        format!("{{net: o2ib, gateway: {gateway}, hop: 1, priority: {priority}, state: up}}")
    };
    let second = second.map(|priority| route("10.0.0.9@tcp", priority));
    let routes: Vec<String> = [route("10.0.0.8@tcp", first)]
        .into_iter()
        .chain(second)
        .collect();
    node(&format!(
        "route: [{}]\npeer: [{{primary nid: 10.0.0.8@tcp, Multi-Rail: true, peer ni: [{{nid: 10.0.0.8@tcp, health \
         stats: {{health value: 0}}}}]}}]",
        routes.join(", ")
    ))
}

/// A priority keeps traffic on a failing gateway, so that its failure stops all traffic.
#[test]
fn nobody_is_advised_to_rank_gateways_by_priority() {
    let fix = |text: &str| {
        let found = findings(text, None);
        let found = found.into_iter().find(|one| one.code == "gateway-health");
        found.unwrap().fix
    };
    assert!(fix(&gateways(0, Some(1))).contains("the same priority and hops"));
    assert!(fix(&gateways(0, None)).contains("add a second one"));
    assert!(fix(&gateways(0, Some(0))).contains("automatically"));
}

fn with_rule(peer: &str, discovery: u8) -> String {
    node(&format!(
        "peer: [{peer}]\nglobal: {{discovery: {discovery}}}\nudsp: [{{idx: 0, dst: 10.0.0.7@tcp, action: {{priority: 1}}}}]"
    ))
}

#[test]
fn a_rule_for_peers_that_are_not_multi_rail_says_so() {
    let single = "{primary nid: 10.0.0.7@tcp, Multi-Rail: false}";
    let multi = "{primary nid: 10.0.0.7@tcp, Multi-Rail: true, peer ni: [{nid: 10.0.0.7@tcp}, {nid: 10.0.0.8@tcp}]}";
    let right = with_rule(multi, 1);
    let found = fires("rule-without-effect", &with_rule(single, 1), &right);
    assert!(
        found
            .reason
            .contains("10.0.0.7@tcp, which is not Multi-Rail"),
        "{found:?}"
    );
    let found = fires("rule-without-effect", &with_rule(single, 0), &right);
    assert!(found.reason.contains("discovery is off"), "{found:?}");
}
