//! Tests the lints of interfaces under NIs, of routes of the module, of counters and of a kernel's log, as `single` does.

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

#[test]
fn an_ni_on_the_loopback_interface_is_found() {
    let on = |name| format!("options lnet networks=tcp({name})\n");
    fires("loopback-interface", &on("lo"), &on("eth0"));
    let all = findings(&nets(&["127.0.0.1@tcp"]), None);
    assert!(
        all.iter()
            .all(|finding| finding.code != "loopback-interface")
    );
}

#[test]
fn an_ni_on_a_bridge_of_containers_is_found() {
    let on =
        |name| format!("net: [{{net type: tcp, local NI(s): [{{interfaces: {{0: {name}}}}}]}}]\n");
    for name in ["docker0", "virbr0", "cni0", "br-0123456789ab"] {
        fires("virtual-interface", &on(name), &on("br-storage01"));
    }
}

#[test]
fn a_nid_that_its_interface_does_not_have_is_found() {
    let text =
        "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp, interfaces: {0: eth0}}]}]\n";
    let has = |eth0| machine(&[("eth0", eth0, true), ("eth1", "10.0.0.1", true)]);
    let found = fires_on(
        "nid-not-of-interface",
        (text, Some(&has("10.0.5.1"))),
        (text, Some(&has("10.0.0.1"))),
    );
    assert!(
        found.reason.contains("10.0.0.1 is the address of eth1"),
        "{}",
        found.reason
    );
}

#[test]
fn an_ni_whose_gateway_is_in_the_subnet_of_another_interface_is_found() {
    let text = |name| {
        format!(
            "net: [{{net type: tcp, local NI(s): [{{interfaces: {{0: {name}}}}}]}}]\n\
             route: [{{net: o2ib, gateway: 10.0.5.9@tcp, hop: 1}}]\n"
        )
    };
    let machine = machine(&[("eth0", "10.0.0.1", true), ("eth1", "10.0.5.1", true)]);
    let found = fires_on(
        "wrong-interface",
        (&text("eth0"), Some(&machine)),
        (&text("eth1"), Some(&machine)),
    );
    assert_eq!(found.fix, "put the NI of tcp on eth1");
}

#[test]
fn credits_for_all_peers_below_those_of_one_are_found() {
    let credits = |credits: u32| {
        let tunables = format!("tunables: {{peer_credits: 128, credits: {credits}}}");
        format!("net: [{{net type: tcp, local NI(s): [{{nid: 10.0.0.1@tcp, {tunables}}}]}}]\n")
    };
    fires("credits-too-few", &credits(64), &credits(128));
}

#[test]
fn a_route_that_the_module_passes_over_is_found() {
    let route = |route: &str| format!("options lnet networks=tcp(eth0) routes=\"{route}\"\n");
    let right = route("o2ib 1 10.0.0.9@tcp");
    for wrong in [
        "o2ib 1 10.0.0.9@tcp5",
        "tcp 1 10.0.0.9@tcp",
        "o2ib 1 10.0.0.[8-9]@tcp; o2ib 1 10.0.0.9@tcp",
    ] {
        fires("route-passed-over", &route(wrong), &right);
    }
}

#[test]
fn a_route_that_stops_the_module_is_an_error() {
    let route = |route: &str| format!("options lnet networks=tcp(eth0) routes=\"{route}\"\n");
    let right = route("o2ib 1 10.0.0.9@tcp");
    let found = fires("route-passed-over", &route("tcp5 1 10.0.0.9@tcp5"), &right);
    assert_eq!(found.severity, Severity::Error);
    assert!(found.reason.contains("does not start"), "{}", found.reason);
    let passed = fires("route-passed-over", &route("o2ib 1 10.0.0.9@tcp5"), &right);
    assert_eq!(passed.severity, Severity::Warning);
    assert!(
        passed.reason.contains("import of it as YAML stops"),
        "{}",
        passed.reason
    );
}

#[test]
fn an_ni_whose_gateways_are_all_in_another_subnet_is_found() {
    let text = |gateway| {
        format!(
            "net: [{{net type: tcp, local NI(s): [{{interfaces: {{0: eth0}}}}]}}]\n\
             route: [{{net: o2ib, gateway: {gateway}@tcp, hop: 1}}]\n"
        )
    };
    let machine = machine(&[("eth0", "10.0.1.75", true)]);
    let found = fires_on(
        "outside-subnet",
        (&text("10.0.0.9"), Some(&machine)),
        (&text("10.0.1.9"), Some(&machine)),
    );
    assert_eq!(found.severity, Severity::Note);
    let host = machine.replace("\"prefixlen\":24", "\"prefixlen\":32");
    assert!(
        findings(&text("10.0.0.9"), Some(&host))
            .iter()
            .all(|one| one.code != "outside-subnet")
    );
}

#[test]
fn messages_that_failed_are_found_by_class() {
    let counts = |count: u32| format!("statistics:\n    remote_timeout_count: {count}\n");
    let found = fires("messages-failed", &counts(7871), &counts(0));
    assert_eq!((found.severity, found.line), (Severity::Warning, 1));
    let few = fires("messages-failed", &counts(3), &counts(0));
    assert_eq!(few.severity, Severity::Note);
}

#[test]
fn messages_of_kernels_are_found_by_kind_and_node() {
    let log =
        |line: &str| format!("[1.5] LNet: Added LNI 10.0.0.1@tcp [8/256/0/180]\n{line}\n{line}\n");
    let line = "[2.5] LNetError: 7:0:(o2iblnd_cb.c:3174:check()) Timed out tx for 10.0.0.2@o2ib: 40 seconds";
    let found = fires("kernel-message", &log(line), &log(""));
    assert_eq!(found.line, 2);
    assert!(
        found.reason.contains("2 times, of 10.0.0.2@o2ib"),
        "{}",
        found.reason
    );
    assert_eq!(found.fix, "lnetctl ping 10.0.0.2@o2ib");
}

#[test]
fn two_interfaces_of_a_cloud_are_not_told_to_take_nets_of_their_own() {
    let text = "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0, 1: eth1}}]}]\n";
    let of = |prefix| {
        let one = machine(&[("eth0", "10.0.0.5", true), ("eth1", "10.1.0.5", true)]);
        one.replace("\"prefixlen\":24", &format!("\"prefixlen\":{prefix}"))
    };
    let found = fires_on(
        "host-prefixes",
        (text, Some(&of(32))),
        (text, Some(&of(24))),
    );
    assert!(found.fix.contains("route by source"), "{}", found.fix);
    let all = findings(text, Some(&of(32)));
    let wrong = all.iter().find(|one| one.fix.contains("net number"));
    assert!(wrong.is_none(), "{wrong:?}");
}

#[test]
fn an_interface_without_an_rdma_device_is_found_if_the_devices_are_known() {
    let text = |net: &str, name: &str| {
        format!("net: [{{net type: {net}, local NI(s): [{{interfaces: {{0: {name}}}}}]}}]\n")
    };
    let addresses = machine(&[("eth0", "10.0.0.1", true), ("eth1", "10.0.1.1", true)]);
    let known = format!(r#"{addresses}[{{"ifname":"rxe0","port":1,"netdev":"eth1"}}]"#);
    let (wrong, right) = (text("o2ib", "eth0"), text("o2ib", "eth1"));
    let code = "rdma-device-missing";
    let found = fires_on(code, (&wrong, Some(&known)), (&right, Some(&known)));
    assert_eq!(
        found.reason,
        "eth0 has no RDMA device; interfaces with one: eth1"
    );
    fires_on(code, (&wrong, Some(&known)), (&wrong, Some(&addresses)));
    let over_tcp = text("tcp", "eth0");
    fires_on(code, (&wrong, Some(&known)), (&over_tcp, Some(&known)));
}
