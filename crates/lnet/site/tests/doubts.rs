//! Tests that `reach` contradicts no finding of `check`: ports, NIDs with two owners, NIs on the wrong interface, and
//! interfaces that are down.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use lnet_site::{Reach, Selection, SiteFile, Verdict, check, reach};

fn file(path: &str, text: &str) -> SiteFile {
    let (path, text) = (path.to_owned(), text.to_owned());
    SiteFile { path, text }
}

fn node(name: &str, nid: &str, interface: &str) -> SiteFile {
    let ni = format!("nid: {nid}, interfaces: {{0: {interface}}}");
    let text = format!("net: [{{net type: tcp, local NI(s): [{{{ni}}}]}}]\n");
    file(&format!("{name}.yaml"), &text)
}

fn options(name: &str, port: Option<u16>) -> SiteFile {
    let port = port.map_or(String::new(), |port| format!(" accept_port={port}"));
    let text = format!("options lnet networks=tcp(eth0){port}\n");
    file(&format!("{name}.conf"), &text)
}

fn machine(name: &str, interfaces: &[(&str, &str)]) -> SiteFile {
    let each = interfaces.iter().map(|(name, address)| {
        format!(
            r#"{{"ifname":"{name}","flags":["UP","LOWER_UP"],"addr_info":[{{"local":"{address}","prefixlen":24}}]}}"#
        )
    });
    let text = format!("[{}]", each.collect::<Vec<_>>().join(","));
    file(&format!("{name}.json"), &text)
}

/// Returns what reaches what, and whether the check names this code.
fn asked(files: &[SiteFile], code: &str) -> (Reach, bool) {
    let site = lnet_site::read(files).unwrap();
    let all = Selection::default();
    let causes = check(&site).unwrap().causes;
    let is_named = causes.iter().any(|cause| cause.code == code);
    (reach(&site, &all, &all), is_named)
}

#[test]
fn nodes_with_different_ports_do_not_reach_each_other() {
    let files = |port| {
        [
            options("a", port),
            machine("a", &[("eth0", "10.0.0.1")]),
            options("b", None),
            machine("b", &[("eth0", "10.0.0.2")]),
        ]
    };
    let (reach, is_named) = asked(&files(Some(6988)), "port-differs");
    assert!(is_named && !reach.is_whole(), "{reach:?}");
    for one in &reach.directions {
        assert_eq!(one.verdict, Verdict::None, "{one:?}");
        assert_eq!(
            one.repair.as_deref(),
            Some("on a: options lnet accept_port=988")
        );
    }
    assert!(
        reach.to_text().contains("ports differ"),
        "{}",
        reach.to_text()
    );
    let (same, is_named) = asked(&files(Some(988)), "port-differs");
    assert!(!is_named && same.is_whole(), "{same:?}");
}

#[test]
fn a_gateway_with_another_port_forwards_nothing() {
    let route = "options lnet networks=tcp(eth0) routes=\"tcp1 1 10.0.0.9@tcp\"\n";
    let far = "options lnet networks=tcp1(eth0) routes=\"tcp 1 10.0.1.9@tcp1\"\n";
    let files = |port: &str| {
        let router =
            format!("options lnet networks=\"tcp(eth0),tcp1(eth1)\" forwarding=enabled {port}\n");
        [
            file("client.conf", route),
            machine("client", &[("eth0", "10.0.0.1")]),
            file("server.conf", far),
            machine("server", &[("eth0", "10.0.1.1")]),
            file("router.conf", &router),
            machine("router", &[("eth0", "10.0.0.9"), ("eth1", "10.0.1.9")]),
        ]
    };
    let (works, _) = asked(&files(""), "port-differs");
    assert!(works.is_whole(), "{}", works.to_text());
    let (lost, is_named) = asked(&files("accept_port=6988"), "port-differs");
    assert!(is_named && !lost.is_whole(), "{}", lost.to_text());
    assert!(
        lost.to_text().contains("ports differ"),
        "{}",
        lost.to_text()
    );
}

#[test]
fn a_finding_of_the_check_makes_the_answer_doubtful() {
    let right = [
        node("a", "10.0.0.1@tcp", "eth0"),
        machine("a", &[("eth0", "10.0.0.1"), ("docker0", "172.17.0.1")]),
        node("b", "10.0.0.2@tcp", "eth0"),
        machine("b", &[("eth0", "10.0.0.2")]),
    ];
    let (reach, _) = asked(&right, "");
    assert!(reach.is_whole(), "{}", reach.to_text());
    for (code, nid, interface) in [
        ("virtual-interface", "172.17.0.1@tcp", "docker0"),
        ("wrong-interface", "172.17.0.1@tcp", "docker0"),
        ("nid-claimed-twice", "10.0.0.2@tcp", "eth0"),
        ("nid-not-of-interface", "10.0.0.7@tcp", "eth0"),
        ("loopback-interface", "10.0.0.1@tcp", "lo"),
    ] {
        let mut files = right.to_vec();
        files[0] = node("a", nid, interface);
        let (reach, is_named) = asked(&files, code);
        let text = reach.to_text();
        assert!(is_named, "{code}");
        assert!(!reach.is_whole(), "{code}: {text}");
        let is_down = reach
            .directions
            .iter()
            .all(|one| one.verdict == Verdict::None);
        assert!(
            is_down || text.contains(&format!("[{code}]")),
            "{code}: {text}"
        );
    }
}

#[test]
fn an_interface_that_is_down_is_the_repair_and_not_a_gateway() {
    let down = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp, status: down, interfaces: {0: eth0}}]}]\n";
    let files = [file("a.yaml", down), node("b", "10.0.0.2@tcp", "eth0")];
    let (reach, _) = asked(&files, "ni-down");
    let text = reach.to_text();
    assert!(
        !reach.is_whole() && !text.contains("no gateway of the files"),
        "{text}"
    );
    for one in &reach.directions {
        let repair = one.repair.as_deref().unwrap();
        assert!(
            repair.starts_with("on a: bring the interface of 10.0.0.1@tcp up"),
            "{repair}"
        );
    }
}
