//! Tests each lint across the documents of several nodes: a site in which the lint fires, and the corrected site.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use lnet_site::lint::{Finding, Input, Report, lint};

/// A client on tcp, two routers, and a server on tcp1.
#[derive(Clone)]
struct Site {
    client: String,
    router: String,
    second: String,
    server: String,
}

impl Site {
    fn new() -> Self {
        let router = |last| {
            format!(
                "net: [{{net type: tcp, local NI(s): [{{nid: 10.0.0.{last}@tcp}}]}}, {{net type: tcp1, local NI(s): \
                 [{{nid: 10.1.0.{last}@tcp1}}]}}]\nrouting: {{enable: 1}}\n"
            )
        };
        Self {
            client: "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp}]}]\n\
                     route: [{net: tcp1, gateway: 10.0.0.8@tcp, hop: 1}]\n"
                .to_owned(),
            router: router(8),
            second: router(9),
            server: "net: [{net type: tcp1, local NI(s): [{nid: 10.1.0.7@tcp1}]}]\n\
                     route: [{net: tcp, gateway: 10.1.0.8@tcp1, hop: 1}]\n"
                .to_owned(),
        }
    }

    fn report(&self) -> Report {
        let input = |name, text| Input {
            name,
            text,
            interfaces: None,
            port: None,
        };
        let inputs = [
            input("client", &self.client),
            input("router", &self.router),
            input("second", &self.second),
            input("server", &self.server),
        ];
        lint(&inputs).unwrap()
    }
}

/// Checks that the lint fires once, in that file, in the changed site, and does not fire in the unchanged one.
#[track_caller]
fn fires(code: &str, file: &str, change: impl FnOnce(&mut Site)) -> Finding {
    let site = Site::new();
    let before = site.report().findings;
    assert!(
        before.iter().all(|finding| finding.code != code),
        "{before:#?}"
    );
    let mut changed = site;
    change(&mut changed);
    let found = changed.report().findings;
    let of_code: Vec<_> = found
        .iter()
        .filter(|finding| finding.code == code)
        .collect();
    let [one] = of_code.as_slice() else {
        panic!("{code} is not there once: {found:#?}")
    };
    assert_eq!(one.file, file);
    (*one).clone()
}

fn replace(text: &mut String, from: &str, to: &str) {
    assert!(text.contains(from), "{text}");
    *text = text.replace(from, to);
}

#[test]
fn a_site_that_is_right_has_no_findings() {
    assert_eq!(Site::new().report().findings, []);
}

#[test]
fn a_nid_of_two_nodes_is_found() {
    let found = fires("nid-claimed-twice", "second", |site| {
        replace(&mut site.second, "10.1.0.9", "10.1.0.8");
    });
    assert!(
        found.reason.contains("the one in router"),
        "{}",
        found.reason
    );
}

#[test]
fn a_gateway_that_nobody_is_is_found() {
    let found = fires("gateway-missing", "client", |site| {
        replace(&mut site.client, "10.0.0.8", "10.0.0.88");
    });
    assert_eq!((found.line, found.key.as_str()), (2, "route[0].gateway"));
}

#[test]
fn a_gateway_is_not_missed_where_its_nid_may_follow_from_an_interface() {
    let mut site = Site::new();
    replace(
        &mut site.router,
        "nid: 10.0.0.8@tcp",
        "interfaces: {0: eth0}",
    );
    let codes: Vec<_> = site.report().findings.iter().map(|f| f.code).collect();
    assert!(!codes.contains(&"gateway-missing"), "{codes:?}");
}

#[test]
fn a_gateway_that_does_not_forward_is_found() {
    fires("gateway-not-routing", "router", |site| {
        replace(&mut site.router, "enable: 1", "enable: 0");
    });
}

#[test]
fn a_gateway_without_the_remote_network_is_found() {
    fires("gateway-lacks-net", "router", |site| {
        replace(&mut site.router, "10.1.0.8@tcp1", "10.2.0.8@tcp2");
        replace(&mut site.router, "net type: tcp1", "net type: tcp2");
    });
}

#[test]
fn a_route_without_a_way_back_is_found_where_it_is_missing() {
    let found = fires("one-sided-route", "server", |site| {
        site.server = site.server.lines().next().unwrap().to_owned();
    });
    assert!(
        found.fix.contains("route to tcp by a gateway on tcp1"),
        "{}",
        found.fix
    );
}

#[test]
fn answers_by_another_gateway_are_found() {
    let found = fires("asymmetric-route", "client", |site| {
        replace(&mut site.server, "10.1.0.8@tcp1", "'10.1.0.[8-9]@tcp1'");
    });
    assert_eq!(found.severity.to_string(), "warning");
    assert!(found.reason.contains("in second"), "{}", found.reason);
}

#[test]
fn answers_by_another_gateway_are_an_error_where_they_are_dropped() {
    let found = fires("asymmetric-route", "client", |site| {
        replace(&mut site.server, "10.1.0.8@tcp1", "'10.1.0.[8-9]@tcp1'");
        site.client += "global: {drop_asym_route: 1}\n";
    });
    assert_eq!(found.severity.to_string(), "error");
}

#[test]
fn routers_that_send_each_other_what_neither_can_deliver_are_found() {
    let found = fires("router-loop", "router", |site| {
        site.router += "route: [{net: tcp9, gateway: 10.1.0.9@tcp1, hop: 2}]\n";
        site.second += "route: [{net: tcp9, gateway: 10.0.0.8@tcp, hop: 2}]\n";
    });
    assert_eq!(found.severity.to_string(), "error");
    let names = "router, second";
    assert!(found.reason.contains(names), "{}", found.reason);
}

#[test]
fn a_parameter_unlike_that_of_the_other_router_is_found() {
    let found = fires("parameters-differ", "second", |site| {
        site.second += "global: {retry_count: 3}\n";
    });
    assert_eq!((found.line, found.key.as_str()), (3, "global.retry_count"));
}

#[test]
fn a_default_that_is_written_out_is_no_difference() {
    let mut site = Site::new();
    site.second += "global: {retry_count: 2, transaction_timeout: 150}\n";
    assert_eq!(site.report().findings, []);
}

#[test]
fn a_node_that_contradicts_itself_is_compared_in_what_it_says() {
    let mut site = Site::new();
    site.router += "global: {retry_count: 3, health_sensitivity: 0}\n";
    let codes: Vec<_> = site.report().findings.iter().map(|f| f.code).collect();
    assert_eq!(codes, ["import-refused", "health-off", "parameters-differ"]);
}

/// Forwarded messages come from other nets than the router's own, and their first gateways differ between the two
/// directions.
#[test]
fn routers_behind_each_other_are_neither_one_sided_nor_asymmetric() {
    let node = |nids: &[&str], more: &str| {
        let nets = nids.iter().map(|nid| {
            let net = nid.split_once('@').unwrap().1;
            format!("{{net type: {net}, local NI(s): [{{nid: {nid}}}]}}")
        });
        let nets = nets.collect::<Vec<_>>().join(", ");
        format!("net: [{nets}]\n{more}")
    };
    let texts = [
        node(
            &["10.0.0.1@tcp"],
            "route: [{net: o2ib, gateway: 10.0.0.9@tcp, hop: 2}]\n",
        ),
        node(
            &["10.0.0.9@tcp", "10.1.0.9@tcp1"],
            "routing: {enable: 1}\nroute: [{net: o2ib, gateway: 10.1.0.8@tcp1, hop: 1}]\n",
        ),
        node(
            &["10.1.0.8@tcp1", "10.2.0.8@o2ib"],
            "routing: {enable: 1}\nroute: [{net: tcp, gateway: 10.1.0.9@tcp1, hop: 1}]\n",
        ),
        node(
            &["10.2.0.1@o2ib"],
            "route: [{net: tcp, gateway: 10.2.0.8@o2ib, hop: 2}]\n",
        ),
    ];
    let names = ["client", "near", "far", "server"];
    let inputs: Vec<Input<'_>> = names
        .into_iter()
        .zip(&texts)
        .map(|(name, text)| Input {
            name,
            text,
            interfaces: None,
            port: None,
        })
        .collect();
    assert_eq!(lint(&inputs).unwrap().findings, []);
}

#[test]
fn interfaces_give_the_nids_that_a_document_does_not_name() {
    let mut site = Site::new();
    replace(
        &mut site.router,
        "nid: 10.0.0.8@tcp",
        "interfaces: {0: eth0}",
    );
    let machine = r#"[{"ifname":"eth0","mtu":9000,"flags":["UP","LOWER_UP"],
        "addr_info":[{"local":"10.0.0.1","prefixlen":24}]}]"#;
    let input = |name, text, interfaces| Input {
        name,
        text,
        interfaces,
        port: None,
    };
    let inputs = [
        input("client", &site.client, None),
        input("router", &site.router, Some(machine)),
    ];
    let report = lint(&inputs).unwrap();
    let codes: Vec<_> = report
        .findings
        .iter()
        .map(|f| (f.code, f.file.as_str()))
        .collect();
    assert!(
        codes.contains(&("nid-claimed-twice", "router")),
        "{codes:?}"
    );
}

#[test]
fn settings_of_the_lnd_that_differ_among_nodes_of_one_role_are_found() {
    let node = |last, tunables: &str| {
        format!(
            "net: [{{net type: o2ib, local NI(s): [{{nid: 10.0.0.{last}@o2ib, lnd tunables: {{{tunables}}}}}]}}]\n"
        )
    };
    let usual = "map_on_demand: 0, concurrent_sends: 16, timeout: 49";
    for (key, other) in [
        (
            "concurrent_sends",
            "map_on_demand: 0, concurrent_sends: 8, timeout: 49",
        ),
        (
            "timeout",
            "map_on_demand: 0, concurrent_sends: 16, timeout: 16",
        ),
    ] {
        let texts = [node(1, usual), node(2, other), node(3, usual)];
        let names = ["first", "second", "third"];
        let inputs = names.iter().zip(&texts);
        let inputs = inputs.map(|(name, text)| Input {
            name,
            text,
            interfaces: None,
            port: None,
        });
        let inputs: Vec<_> = inputs.collect();
        let found = lint(&inputs).unwrap().findings;
        let [one] = found.as_slice() else {
            panic!("{key}: {found:#?}")
        };
        assert_eq!(
            (one.code, one.file.as_str()),
            ("parameters-differ", "second")
        );
        assert!(one.reason.starts_with(key), "{one:?}");
    }
}

/// If a document stands for many nodes, the usual value is that of most nodes, not that of most documents.
#[test]
fn a_document_counts_as_many_nodes_as_it_stands_for() {
    let node = |last: u8, more: &str| {
        format!("net: [{{net type: tcp, local NI(s): [{{nid: 10.0.0.{last}@tcp}}]}}]\n{more}")
    };
    let texts = [node(1, "global: {retry_count: 5}\n"), node(2, "")];
    let inputs = [("one", &texts[0]), ("many", &texts[1])].map(|(name, text)| Input {
        name,
        text,
        interfaces: None,
        port: None,
    });
    let blamed = |count: fn(usize) -> usize| {
        let found = lnet_site::lint::lint_classes(&inputs, count)
            .unwrap()
            .findings;
        let mut differing = found
            .into_iter()
            .filter(|one| one.code == "parameters-differ");
        differing.next().unwrap()
    };
    assert_eq!(blamed(|_| 1).file, "many");
    let finding = blamed(|at| if at == 1 { 9408 } else { 1 });
    assert_eq!(finding.file, "one");
    assert!(
        finding.reason.contains("2 on 9408 of the 9409 nodes"),
        "{}",
        finding.reason
    );
}

/// No node can use a route whose gateway is on no local net, so no other node lacks a route back.
#[test]
fn a_gateway_that_is_not_local_is_one_finding_and_not_one_of_every_server() {
    let mut site = Site::new();
    site.client = site.client.replace("10.0.0.8@tcp", "10.0.0.8@o2ib9");
    let codes: Vec<&str> = site.report().findings.iter().map(|one| one.code).collect();
    assert!(codes.contains(&"gateway-not-local"), "{codes:?}");
    assert!(!codes.contains(&"one-sided-route"), "{codes:?}");
}

#[test]
fn nodes_of_two_releases_differ_in_no_parameter() {
    let with_timeout = |text: &str, nid: &str, timeout: u32| {
        let tunables = format!("{nid}, lnd tunables: {{timeout: {timeout}}}}}");
        text.replacen(&format!("{nid}}}"), &tunables, 1)
    };
    // 49 s is the share of an attempt, which 2.16.1 shows; 50 s is what 2.17.0 shows.
    let mut site = Site::new();
    site.router = with_timeout(&site.router, "10.0.0.8@tcp", 49);
    site.second = with_timeout(&site.second, "10.0.0.9@tcp", 50);
    assert!(site.second.contains("timeout: 50"), "{}", site.second);
    let found = site.report().findings;
    assert!(
        found.iter().all(|one| one.code != "parameters-differ"),
        "{found:#?}"
    );
    site.second = site.second.replace("timeout: 50", "timeout: 30");
    let found = site.report().findings;
    assert!(
        found.iter().any(|one| one.code == "parameters-differ"),
        "{found:#?}"
    );
}

#[test]
fn a_net_that_no_other_node_has_is_found() {
    let found = fires("net-alone", "server", |site| {
        site.server = "net: [{net type: tcp5, local NI(s): [{nid: 10.1.0.7@tcp5}]}]\n".to_owned();
    });
    assert!(found.reason.contains("tcp5"), "{}", found.reason);
}

#[test]
fn a_route_to_a_net_that_no_node_has_is_found_at_the_route() {
    let found = fires("route-net-missing", "client", |site| {
        site.client += "- {net: o2ib7, gateway: 10.0.0.8@tcp, hop: 1}\n";
        replace(
            &mut site.client,
            "route: [{net: tcp1, gateway: 10.0.0.8@tcp, hop: 1}]\n",
            "route:\n- {net: tcp1, gateway: 10.0.0.8@tcp, hop: 1}\n",
        );
    });
    assert_eq!(found.line, 4);
}

#[test]
fn a_peer_that_no_node_is_is_found() {
    let found = fires("peer-missing", "client", |site| {
        site.client += "peer: [{primary nid: 10.1.0.77@tcp1, peer ni: [{nid: 10.1.0.77@tcp1}]}]\n";
    });
    assert!(found.reason.contains("10.1.0.77@tcp1"), "{}", found.reason);
    // The nodes of a net that has more unknown peers than nodes were not all given.
    let mut site = Site::new();
    let peers = (50..60).map(|n| format!("- primary nid: 10.1.0.{n}@tcp1\n"));
    site.client += &format!("peer:\n{}", peers.collect::<String>());
    let findings = site.report().findings;
    assert!(
        findings
            .iter()
            .all(|finding| finding.code != "peer-missing")
    );
}

/// Returns the findings with a code in documents called `a`, `b`, and so on.
fn of_code(code: &str, documents: &[(String, Option<String>)]) -> Vec<Finding> {
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let inputs = documents
        .iter()
        .zip(NAMES)
        .map(|((text, interfaces), name)| Input {
            name,
            text,
            interfaces: interfaces.as_deref(),
            port: None,
        });
    let inputs: Vec<Input<'_>> = inputs.collect();
    let findings = lint(&inputs).unwrap().findings.into_iter();
    findings.filter(|finding| finding.code == code).collect()
}

#[test]
fn ports_that_differ_are_found() {
    let options = |more: &str| (format!("options lnet networks=tcp(eth0){more}\n"), None);
    let found = of_code("port-differs", &[options(" accept_port=6988"), options("")]);
    assert_eq!((found.len(), found[0].file.as_str()), (1, "a"));
    assert!(of_code("port-differs", &[options(" accept_port=988"), options("")]).is_empty());
    // Since 2.17, bulk connections may have a port of their own.
    let bulk = options(" accept_port_bulk=6988");
    let found = of_code("port-differs", &[bulk, options("")]);
    assert_eq!((found.len(), found[0].file.as_str()), (1, "a"));
    assert!(found[0].reason.starts_with("accept_port_bulk is 6988 here"));
}

#[test]
fn a_prefix_that_differs_is_found() {
    let node = |last: u8, prefix: u8| {
        let text = "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}}]}]\n".to_owned();
        let address = format!("{{\"local\":\"10.1.{last}.1\",\"prefixlen\":{prefix}}}");
        let flags = "\"UP\",\"LOWER_UP\"";
        (
            text,
            Some(format!(
                "[{{\"ifname\":\"eth0\",\"flags\":[{flags}],\"addr_info\":[{address}]}}]"
            )),
        )
    };
    let found = of_code("prefix-differs", &[node(1, 16), node(2, 16), node(3, 24)]);
    assert_eq!((found.len(), found[0].file.as_str()), (1, "c"));
    assert!(of_code("prefix-differs", &[node(1, 16), node(2, 16), node(3, 16)]).is_empty());
}

#[test]
fn routes_that_differ_from_nearly_all_are_found() {
    let node = |last: u8, gateways: &[u8], hop: u8| {
        let routes = gateways
            .iter()
            .map(|gateway| format!("- {{net: o2ib, gateway: 10.0.0.{gateway}@tcp, hop: {hop}}}\n"));
        let net = format!("net: [{{net type: tcp, local NI(s): [{{nid: 10.0.0.{last}@tcp}}]}}]\n");
        (format!("{net}route:\n{}", routes.collect::<String>()), None)
    };
    let mut nodes: Vec<_> = (1..=5).map(|last| node(last, &[101, 102], 1)).collect();
    assert!(of_code("routes-differ", &nodes).is_empty());
    nodes.push(node(6, &[101], 1));
    let found = of_code("routes-differ", &nodes);
    assert_eq!((found.len(), found[0].file.as_str()), (1, "f"));
    assert!(
        found[0].reason.contains("10.0.0.102@tcp is missing"),
        "{}",
        found[0].reason
    );
    nodes[5] = node(6, &[101, 102], 2);
    assert_eq!(of_code("routes-differ", &nodes).len(), 2);
    // With fine-grained routing nodes have different gateways on purpose.
    let nodes: Vec<_> = (1..=6).map(|last| node(last, &[100 + last], 1)).collect();
    assert!(of_code("routes-differ", &nodes).is_empty());
}

#[test]
fn queues_and_fragments_that_differ_on_one_o2ib_network_are_found_once() {
    for (section, key, code, value, usual) in [
        ("tunables", "peer_credits", "queue-depth-differs", 32, 8),
        (
            "lnd tunables",
            "map_on_demand",
            "map-on-demand-differs",
            32,
            256,
        ),
    ] {
        differs_on_one_o2ib_network(section, key, code, (value, usual));
    }
}

fn differs_on_one_o2ib_network(section: &str, key: &str, code: &str, (value, usual): (u32, u32)) {
    let node = |nid: &str, value: u32, more: &str| {
        format!(
            "net:\n- net type: o2ib\n  local NI(s):\n  - {{nid: {nid}@o2ib, {section}: {{{key}: {value}}}}}\n{more}"
        )
    };
    // A router is of another kind than its clients, so that `parameters-differ` does not compare them.
    let tcp = "- net type: tcp\n  local NI(s):\n  - {nid: 10.1.0.9@tcp}\nrouting: {enable: 1}\n";
    let of_site = |value| {
        let texts = [
            node("10.0.0.1", usual, ""),
            node("10.0.0.2", usual, ""),
            node("10.0.0.9", value, tcp),
        ];
        let inputs = texts.iter().zip(["one", "two", "router"]);
        let inputs: Vec<Input<'_>> = inputs
            .map(|(text, name)| Input {
                name,
                text,
                interfaces: None,
                port: None,
            })
            .collect();
        lint(&inputs).unwrap().findings
    };
    let found = of_site(value);
    let found: Vec<&Finding> = found.iter().filter(|one| one.code == code).collect();
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].file, "router");
    assert!(
        found[0].reason.contains(&format!("{key} {value}")),
        "{}",
        found[0].reason
    );
    let right = of_site(usual);
    assert!(right.iter().all(|one| one.code != code), "{right:#?}");
}
