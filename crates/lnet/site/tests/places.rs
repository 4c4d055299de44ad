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
fn options_that_a_module_does_not_take_are_found_at_their_place() {
    let right = "options lnet networks=tcp(eth0) accept_port=0x3dc\n";
    for (wrong, severity, column) in [
        (
            "options lnet networks=tcp(eth0) acept_port=988\n",
            Severity::Warning,
            33,
        ),
        (
            "options lnet networks=tcp(eth0) accept_port=70000\n",
            Severity::Error,
            33,
        ),
        (
            "options lnet networks=tcp(eth0) accept=secured\n",
            Severity::Error,
            33,
        ),
        (
            "options ksocklnd credits=abc\noptions lnet networks=tcp(eth0)\n",
            Severity::Error,
            18,
        ),
    ] {
        let found = fires("option-mistaken", wrong, right);
        assert_eq!(
            (found.severity, found.line, found.column),
            (severity, 1, column),
            "{wrong}"
        );
    }
}

#[test]
fn network_without_an_interface_shares_none() {
    let text = "options lnet networks=tcp0(eth0),o2ib\n";
    let found = findings(text, None);
    assert!(
        found.iter().all(|one| one.code != "interface-shared"),
        "{found:#?}"
    );
    let first = found
        .iter()
        .find(|one| one.code == "first-interface")
        .unwrap();
    assert!(first.fix.contains("o2ib(ib0)"), "{}", first.fix);
}

/// Lines of kernels' own logs, with what a finding says of each.
/// Errors that kernels log, each with parts of what the lint says of it.
const OF_KERNELS: [(&str, [&str; 2]); 12] = [
    (
        "LNetError: Refusing connection from 10.1.0.100 for 1.2.3.4@tcp: No matching NI",
        ["once, of 10.1.0.100: that node dialled", "peer show"],
    ),
    (
        "LNetError: 8374:0:(acceptor.c:425:lnet_acceptor()) Refusing connection from 10.1.0.100:42563: insecure port.",
        ["once, of 10.1.0.100: that node dialled", "accept=all"],
    ),
    (
        "LNetError: 1284:0:(lib-lnet.h:1328:lnet_set_route_aliveness()) route to tcp1 through 10.1.0.3@tcp has gone from up to down",
        ["of 10.1.0.3@tcp: the gateway", "lnetctl ping 10.1.0.3@tcp"],
    ),
    (
        "LNetError: 1283:0:(lib-move.c:3433:lnet_resend_pending_msgs_locked()) Error sending GET to 12345-10.2.0.2@tcp1: -113",
        ["of 10.2.0.2@tcp1", "-113 EHOSTUNREACH"],
    ),
    (
        "LNetError: 8368:0:(socklnd_cb.c:1793:ksocknal_recv_hello()) Error -11 reading HELLO from 10.1.0.100",
        ["once, of 10.1.0.100", "-11 EAGAIN"],
    ),
    (
        "LNetError: Connection to 10.1.0.100@tcp at host 10.1.0.100:988 was reset: is it running a compatible version of Lustre and is 10.1.0.100@tcp one of its NIDs?",
        ["of 10.1.0.100@tcp", "finerail doctor 10.1.0.100@tcp"],
    ),
    (
        "LNetError: 7:0:(o2iblnd_cb.c:3394:kiblnd_check_conns()) Timed out RDMA with 10.1.1.4@o2ib (62): c: 7, oc: 0, rc: 8",
        ["of 10.1.1.4@o2ib", "lnetctl ping 10.1.1.4@o2ib"],
    ),
    (
        "LNet: 1 peer NIs in recovery (showing 1): 10.1.0.1@tcp",
        [
            "of 10.1.0.1@tcp: an interface lost health",
            "--nid 10.1.0.1@tcp",
        ],
    ),
    (
        "LustreError: 1672:0:(udsp.c:747:lnet_udsp_apply_single_policy()) Bad UDSP policy",
        ["Bad UDSP policy", "before it"],
    ),
    (
        "LNetError: Refusing connection from 10.1.0.100 magic 12345678: unrecognised acceptor protocol",
        [
            "once, of 10.1.0.100: Refusing connection",
            "ping 10.1.0.100@tcp",
        ],
    ),
    (
        "LNetError: 9:0:(nobody.c:1:knows()) what 10.1.0.7@tcp did 5 times is new: rc = -71",
        ["of 10.1.0.7@tcp", "-71 EPROTO"],
    ),
    (
        "LustreError: 3953:0:(ldlm_lib.c:645:target_handle_connect()) denying connection for new client 4bda: 2 clients in recovery for 110s",
        ["once, of a node that the message does not name", "denying"],
    ),
];

#[test]
fn every_error_of_a_kernel_is_reported_with_its_node_and_number() {
    for (line, parts) in OF_KERNELS {
        let found = fires(
            "kernel-message",
            &format!("[1.5] {line}\n"),
            "[1.5] LNet: Accept secure, port 988\n",
        );
        let told = format!("{} | {}", found.reason, found.fix);
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    }
    let repeated = (0..300).map(|at| format!("LNetError: new trouble number {at}\n"));
    let found = fires(
        "kernel-message",
        &repeated.collect::<String>(),
        "LNetError: Skipped 3 previous similar messages\n",
    );
    assert!(found.reason.starts_with("300 times"), "{}", found.reason);
}

#[test]
fn errors_of_very_many_kinds_are_counted() {
    let kind = |at: usize| format!("LNetError: trouble {}\n", "x".repeat(at));
    let log: String = (0..150).map(kind).collect();
    let found = findings(&log, None);
    assert_eq!(found.len(), 101);
    let more = found
        .iter()
        .find(|one| one.reason == "50 more errors of other kinds");
    assert!(more.is_some(), "{found:#?}");
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
