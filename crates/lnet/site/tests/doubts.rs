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
    ] {
        let mut files = right.to_vec();
        files[0] = node("a", nid, interface);
        let (reach, is_named) = asked(&files, code);
        let text = reach.to_text();
        assert!(is_named, "{code}");
        assert!(!reach.is_whole(), "{code}: {text}");
        for one in &reach.directions {
            let mut doubts = one.doubts.iter();
            assert!(doubts.any(|doubt| doubt.code == code), "{code}: {one:?}");
        }
        assert!(text.contains(&format!("[{code}]")), "{code}: {text}");
    }
}

#[test]
fn nothing_arrives_on_the_loopback_interface() {
    let files = [
        node("a", "10.0.0.1@tcp", "lo"),
        machine("a", &[("eth0", "10.0.0.1")]),
        node("b", "10.0.0.2@tcp", "eth0"),
        machine("b", &[("eth0", "10.0.0.2")]),
    ];
    let (reach, is_named) = asked(&files, "loopback-interface");
    assert!(is_named && !reach.is_whole(), "{}", reach.to_text());
    for one in &reach.directions {
        assert_eq!(one.verdict, Verdict::None, "{one:?}");
    }
}

/// The lint is at the second node that has the NID, and the first one is in doubt, too.
#[test]
fn each_owner_of_a_nid_is_in_doubt() {
    let ni = |name: &str, nid: &str, retries: u32| {
        let net = node(name, nid, "eth0").text;
        file(
            &format!("{name}.yaml"),
            &format!("{net}global: {{retry_count: {retries}}}\n"),
        )
    };
    let files = [
        ni("b1", "10.0.0.2@tcp", 1),
        ni("b2", "10.0.0.2@tcp", 2),
        ni("c", "10.0.0.1@tcp", 3),
    ];
    let site = lnet_site::read(&files).unwrap();
    for owner in ["b1", "b2"] {
        let [from, to] = ["c", owner].map(|name| Selection::parse(name).unwrap());
        let reach = reach(&site, &from, &to);
        assert!(!reach.is_whole(), "{owner}: {}", reach.to_text());
        assert_eq!(reach.directions.len(), 2, "{reach:?}");
        for one in &reach.directions {
            let mut doubts = one.doubts.iter();
            let is_doubted = doubts.any(|doubt| doubt.code == "nid-claimed-twice");
            assert!(is_doubted, "{owner}: {one:?}");
        }
    }
}

/// As in a folder of outputs and in every report of a machine.
#[test]
fn options_beside_a_document_name_the_port() {
    let files = |port: &str| {
        let options = format!("options\tlnet networks=tcp(eth0) {port}\n");
        [
            file("a/net.yaml", &node("a", "10.0.0.1@tcp", "eth0").text),
            file("a/lnet.conf", &options),
            file("b/net.yaml", &node("b", "10.0.0.2@tcp", "eth0").text),
            file("b/lnet.conf", "options lnet networks=tcp(eth0)\n"),
        ]
    };
    let (lost, is_named) = asked(&files("accept_port=6988"), "port-differs");
    assert!(is_named && !lost.is_whole(), "{}", lost.to_text());
    let (same, is_named) = asked(&files("accept_port=988"), "port-differs");
    assert!(!is_named && same.is_whole(), "{}", same.to_text());
}

/// What stands before the first blank counts, and not the kind of the blank.
#[test]
fn options_with_a_tab_are_a_node() {
    let site = lnet_site::read(&[file("a.conf", "options\tlnet networks=tcp(eth0)\n")]).unwrap();
    assert_eq!(site.nodes(), 1);
    let others = "options lnetx networks=tcp(eth0)\n";
    assert!(lnet_site::read(&[file("a.conf", others)]).is_err());
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
