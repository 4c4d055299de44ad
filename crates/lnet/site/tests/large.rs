//! Checks a site of 20,000 nodes in 40 classes: the check finds 40 planted errors of 20 kinds, and finds nothing
//! without them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::{BTreeMap, BTreeSet};

use lnet_site::lint::Severity;
use lnet_site::{Check, Site, SiteFile, check};

/// The number of clients in one class, in an ordinary run and with `FINERAIL_LONG=1`. There are 18 classes of
/// clients, 18 of their routers, and four of servers.
const CLIENTS: [usize; 2] = [50, 1000];
const CLASSES: usize = 18;
/// The number of routers between the net of each class of clients and the servers' net.
const ROUTERS: usize = 2;
const SERVERS: [usize; 4] = [1000, 700, 200, 64];

/// The nodes by name, each with its document and the output of `ip -j addr`.
type Nodes = BTreeMap<String, (String, String)>;

fn clients() -> usize {
    let is_long = std::env::var_os("FINERAIL_LONG").is_some_and(|value| value == "1");
    CLIENTS[usize::from(is_long)]
}

fn client_net(class: usize) -> String {
    format!("tcp{}", class + 1)
}

fn addresses(links: &[(&str, &str)]) -> String {
    let links: Vec<String> = links
        .iter()
        .map(|(name, address)| {
            format!(
                r#"{{"ifname":"{name}","mtu":9000,"flags":["UP","LOWER_UP"],"addr_info":[{{"local":"{address}","prefixlen":16}}]}}"#
            )
        })
        .collect();
    format!("[{}]", links.join(","))
}

fn net(net: &str, nid: &str, interface: &str) -> String {
    format!(
        "- net type: {net}\n  local NI(s):\n  - nid: {nid}@{net}\n    status: up\n    interfaces:\n      0: {interface}\n    \
         tunables:\n      peer_timeout: 180\n      peer_credits: 8\n      credits: 256\n"
    )
}

const GLOBAL: &str =
    "global:\n  retry_count: 2\n  transaction_timeout: 150\n  health_sensitivity: 100\n";

fn whole() -> Nodes {
    let mut nodes = Nodes::new();
    for class in 0..CLASSES {
        let (tcp, number) = (client_net(class), class + 10);
        for client in 0..clients() {
            let ip = format!("10.{number}.{}.{}", client / 200, client % 200 + 10);
            let mut text = format!("net:\n{}route:\n", net(&tcp, &ip, "hsn0"));
            for router in 1..=ROUTERS {
                text +=
                    &format!("- net: o2ib\n  gateway: 10.{number}.255.{router}@{tcp}\n  hop: 1\n");
            }
            nodes.insert(
                format!("c{class:02}n{client:04}"),
                (text + GLOBAL, addresses(&[("hsn0", &ip)])),
            );
        }
        for router in 1..=ROUTERS {
            let (near, far) = (
                format!("10.{number}.255.{router}"),
                format!("10.200.{class}.{router}"),
            );
            let text = format!(
                "net:\n{}{}routing:\n  enable: 1\n{GLOBAL}udsp:\n- idx: 0\n  src: o2ib\n  action:\n    priority: 1\n",
                net(&tcp, &near, "hsn0"),
                net("o2ib", &far, "ib0")
            );
            let links = addresses(&[("hsn0", &near), ("ib0", &far)]);
            nodes.insert(format!("r{class:02}x{router}"), (text, links));
        }
    }
    for (kind, &count) in SERVERS.iter().enumerate() {
        for server in 0..count {
            let ip = format!("10.{}.{}.{}", 201 + kind, server / 200, server % 200 + 10);
            let mut text = format!("net:\n{}route:\n", net("o2ib", &ip, &format!("ib{kind}")));
            for class in 0..CLASSES {
                for router in 1..=ROUTERS {
                    let tcp = client_net(class);
                    text += &format!(
                        "- net: {tcp}\n  gateway: 10.200.{class}.{router}@o2ib\n  hop: 1\n"
                    );
                }
            }
            let links = addresses(&[(&format!("ib{kind}"), &ip)]);
            nodes.insert(format!("s{kind}n{server:04}"), (text + GLOBAL, links));
        }
    }
    nodes
}

fn site(nodes: &Nodes) -> Site {
    let mut files = Vec::new();
    for (name, (text, addresses)) in nodes {
        let file = |end: &str, text: &str| SiteFile {
            path: format!("{name}.{end}"),
            text: text.to_owned(),
        };
        files.extend([file("yaml", text), file("json", addresses)]);
    }
    lnet_site::read(&files).unwrap()
}

/// The planted errors: the code of the expected finding, the part of the text or of the addresses that is replaced,
/// and its replacement.
const PLANTED: [(&str, &str, &str); 20] = [
    ("route-down", "  hop: 1\n", "  hop: 1\n  state: down\n"),
    (
        "unknown-key",
        "retry_count: 2",
        "retry_count: 2\n  retry_cuont: 2",
    ),
    ("interface-missing", "0: hsn0", "0: hsn7"),
    ("interface-down", "\"LOWER_UP\"", "\"NO-CARRIER\""),
    ("mtu-differs", "9000", "1500"),
    ("ni-down", "status: up", "status: down"),
    ("hop-undefined", "  hop: 1\n", ""),
    ("gateway-not-local", "255.1@tcp", "255.1@o2ib9"),
    ("gateway-missing", ".255.1@", ".255.77@"),
    (
        "health-off",
        "health_sensitivity: 100",
        "health_sensitivity: 0",
    ),
    (
        "sensitivity-drains",
        "health_sensitivity: 100",
        "health_sensitivity: 1000",
    ),
    (
        "timeouts-misaligned",
        "transaction_timeout: 150",
        "transaction_timeout: 2",
    ),
    (
        "recovery-limit-short",
        "global:\n",
        "global:\n  recovery_limit: 5\n",
    ),
    ("parameters-differ", "peer_credits: 8", "peer_credits: 32"),
    (
        "primary-not-reached",
        "global:\n",
        "peer:\n- primary nid: 10.99.0.1@o2ib7\n  peer ni:\n  - nid: 10.99.0.1@o2ib7\n  - nid: 10.201.0.10@o2ib\nglobal:\n",
    ),
    ("discovery-off", "global:\n", "global:\n  discovery: 0\n"),
    (
        "net-not-reached",
        "global:\n",
        "peer:\n- primary nid: 10.99.0.1@o2ib7\n  peer ni:\n  - nid: 10.99.0.1@o2ib7\nglobal:\n",
    ),
    (
        "rule-without-effect",
        "global:\n",
        "udsp:\n- idx: 0\n  src: tcp99\n  action:\n    priority: 0\nglobal:\n",
    ),
    ("first-of-two", "", ""),
    ("gateway-not-routing", "enable: 1", "enable: 0"),
];

fn codes(check: &Check, name: &str) -> BTreeSet<&'static str> {
    let findings = check.report.findings.iter();
    let own = findings.filter(|one| one.file.split('.').next() == Some(name));
    own.map(|one| one.code).collect()
}

#[test]
fn planted_errors_are_found_and_a_whole_site_has_none() {
    let mut nodes = whole();
    assert_eq!(
        nodes.len(),
        CLASSES * (clients() + ROUTERS) + SERVERS.iter().sum::<usize>()
    );
    let clean = site(&nodes);
    assert_eq!(clean.classes.len(), 40);
    let checked = check(&clean).unwrap();
    assert!(checked.causes.is_empty(), "{}", checked.to_text());

    let mut planted = Vec::new();
    for (number, (code, what, instead)) in PLANTED.iter().enumerate() {
        for turn in 0..2 {
            let class = (number * 7 + turn * 11) % CLASSES;
            let name = match *code {
                "gateway-not-routing" => format!("r{class:02}x2"),
                _ => format!("c{class:02}n{:04}", 2 * number + turn),
            };
            if *code == "first-of-two" {
                // Adds a second node with the NID of another node.
                let (text, links) = nodes[&format!("c{class:02}n0045")].clone();
                let late = format!("c{class:02}n{:04}", clients() - 1);
                nodes.insert(late.clone(), (text, links));
                planted.push((late, "nid-claimed-twice"));
                continue;
            }
            let (text, links) = nodes.get_mut(&name).unwrap();
            assert!(text.contains(what) || links.contains(what), "{code}");
            *text = text.replacen(what, instead, 1);
            *links = links.replacen(what, instead, 1);
            planted.push((name, *code));
        }
    }
    let checked = check(&site(&nodes)).unwrap();
    let missed: Vec<_> = planted
        .iter()
        .filter(|(name, code)| !codes(&checked, name).contains(code))
        .map(|(name, code)| (name, code, codes(&checked, name)))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
    let names: BTreeSet<&str> = planted.iter().map(|(name, _)| name.as_str()).collect();
    let findings = checked.report.findings.iter();
    let elsewhere: Vec<_> = findings
        .filter(|one| !names.contains(one.file.split('.').next().unwrap()))
        .filter(|one| one.severity > Severity::Note)
        .take(9)
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:#?}");
}
