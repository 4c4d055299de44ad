//! What the program finds out about its own machine, between namespaces: filters and address translation on the path,
//! the document of the own node, the configuration that reaches a node, interfaces that come late.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;

use tempfile::TempDir;

use common::eventually;
use common::netns::{End, Lab};
use common::process::{Ended, Process};

/// A node behind an IP router, and the directory with the files.
struct Path {
    lab: Lab,
    directory: TempDir,
    node: Process,
}

const NODE: &str = "10.12.0.2@tcp";

fn end<'a>(room: &'a str, interface: &'a str, address: &'a str) -> End<'a> {
    End {
        room,
        interface,
        address,
    }
}

fn one_ni(interface: &str) -> String {
    format!("net:\n- net type: tcp\n  local NI(s):\n  - interfaces:\n      0: {interface}\n")
}

impl Path {
    fn build() -> Option<Self> {
        let lab = Lab::build(&["client", "hop", "server"])?;
        lab.connect([
            &end("client", "eth0", "10.11.0.2/24"),
            &end("hop", "left", "10.11.0.1/24"),
        ]);
        lab.connect([
            &end("server", "eth0", "10.12.0.2/24"),
            &end("hop", "right", "10.12.0.1/24"),
        ]);
        lab.ip("client", &["route", "add", "default", "via", "10.11.0.1"]);
        lab.ip("server", &["route", "add", "default", "via", "10.12.0.1"]);
        lab.script("hop", "echo 1 >/proc/sys/net/ipv4/ip_forward");
        let directory = TempDir::with_prefix("finerail-test-").unwrap();
        let file = directory.path().join("server.yaml");
        fs::write(&file, one_ni("eth0")).unwrap();
        let node = lab.start(
            "server",
            &["node", "--no-control", "--config", file.to_str().unwrap()],
        );
        Some(Self {
            lab,
            directory,
            node,
        })
    }

    fn write(&self, name: &str, text: &str) -> String {
        let file = self.directory.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    }

    fn doctor(&self, more: &[&str]) -> Ended {
        let words = ["doctor", "--privileged", "--timeout", "20"];
        self.lab.run("client", &[&words[..], more].concat())
    }

    fn names(&self, code: &str, more: &[&str]) -> String {
        let text = self.doctor(more).expect_code(1).out;
        assert!(text.contains(&format!(" {code}: ")), "no {code} in {text}");
        text
    }
}

#[test]
fn a_filter_that_rejects_and_address_translation_are_told_from_a_closed_port() {
    if !testkit::require("nft") {
        return;
    }
    let Some(path) = Path::build() else { return };
    path.doctor(&[NODE]).expect_code(0);
    path.lab.script(
        "server",
        "nft add table inet f; nft add chain inet f in '{ type filter hook input priority 0; }'",
    );
    for (rule, told) in [
        ("reject", "ICMP \"port unreachable\" from 10.12.0.2"),
        (
            "reject with icmpx type admin-prohibited",
            "ICMP \"administratively prohibited\" from 10.12.0.2",
        ),
    ] {
        path.lab.script(
            "server",
            &format!("nft add rule inet f in tcp dport 988 {rule}"),
        );
        let text = path.names("firewall-rejects", &[NODE]);
        assert!(text.contains(told), "{text}");
        assert!(!text.contains("no process listens"), "{text}");
        path.lab.script("server", "nft flush chain inet f in");
    }
    let closed = path.names("port-refused", &["--port", "989", NODE]);
    assert!(closed.contains(" other-port: "), "{closed}");
    path.lab.script(
        "hop",
        "nft add table ip n; nft add chain ip n post '{ type nat hook postrouting priority 100; }'
         nft add rule ip n post oifname right ip protocol tcp masquerade to :20000-30000",
    );
    let text = path.names("privileged-refused", &[NODE]);
    assert!(text.contains("NAT"), "{text}");
    assert!(!text.contains("retry with --privileged"), "{text}");
    path.node.stop().expect_code(0);
}

#[test]
fn the_document_of_the_own_node_is_examined_with_the_node() {
    let Some(path) = Path::build() else { return };
    let right = path.write("right.yaml", &one_ni("eth0"));
    path.doctor(&["--config", &right, NODE]).expect_code(0);
    // Another accept_port: the node is found on the port of all others.
    let port = path.write(
        "port.conf",
        "options lnet networks=tcp(eth0) accept_port=6988\n",
    );
    let text = path.names("other-port", &["--config", &port, NODE]);
    assert!(
        text.contains("answers on port 988, and not on 6988"),
        "{text}"
    );
    let beyond = path.write(
        "beyond.conf",
        "options lnet networks=tcp(eth0) accept_port=70000\n",
    );
    path.names("option-mistaken", &["--config", &beyond, NODE]);
    let lo = path.write("lo.conf", "options lnet networks=tcp(lo)\n");
    path.names("loopback-interface", &["--config", &lo, NODE]);
    let other = path.write("other.conf", "options lnet networks=tcp1(eth0)\n");
    path.names("own-net-missing", &["--config", &other, NODE]);
    // A second interface in a subnet of its own: the system reaches the node over the first one.
    path.lab.script("client", "ip link add eth1 type veth peer name end1; ip addr add 10.19.0.2/24 dev eth1; ip link set eth1 up; ip link set end1 up");
    let wrong = path.write("wrong.yaml", &one_ni("eth1"));
    let text = path.names("own-source-differs", &["--config", &wrong, NODE]);
    assert!(text.contains("from 10.11.0.2 (eth0)"), "{text}");
    path.node.stop().expect_code(0);
}

#[test]
fn the_configuration_for_a_node_reaches_it() {
    let Some(path) = Path::build() else { return };
    let made = path
        .lab
        .run("client", &["convert", "--for", NODE])
        .expect_code(0);
    assert_eq!(made.err, "");
    let file = path.write("made.yaml", &made.out);
    assert!(made.out.contains("eth0"), "{}", made.out);
    path.lab
        .run("client", &["ping", "--privileged", "--config", &file, NODE])
        .expect_code(0);
    path.lab
        .run("client", &["convert", "--for", "10.11.0.2@tcp"])
        .expect_code(1)
        .expect_error("is an address of this machine");
    path.lab
        .run("client", &["convert", "--for", "5@gni"])
        .expect_code(2)
        .expect_error("only NIDs of tcp and o2ib");
    path.lab
        .run("client", &["convert", "--for", "localhost@o2ib"])
        .expect_code(1)
        .expect_error("127.0.0.1");
    path.node.stop().expect_code(0);
}

#[test]
fn the_configuration_for_an_ipv6_nid_names_the_address_since_a_name_stands_for_an_ipv4_one() {
    let Some(lab) = Lab::build(&["client", "server"]) else {
        return;
    };
    lab.connect([
        &end("client", "eth0", "10.1.0.1/24"),
        &end("server", "eth0", "10.1.0.2/24"),
    ]);
    lab.script("client", "ip addr add fd00:7::1/64 dev eth0 nodad");
    lab.script("server", "ip addr add fd00:7::2/64 dev eth0 nodad");
    let directory = TempDir::with_prefix("finerail-test-").unwrap();
    let [client, server] = ["client.yaml", "server.yaml"].map(|name| directory.path().join(name));
    let target = "fd00:7::2@tcp";
    let document = format!("net:\n- net type: tcp\n  local NI(s):\n  - nid: {target}\n");
    fs::write(&server, document).unwrap();
    let words = ["node", "--no-control", "--config", server.to_str().unwrap()];
    let node = Process::start(lab.finerail("server", &words));
    node.wait_for_output("ready: fd00:7::2@tcp");
    let made = lab
        .run("client", &["convert", "--for", target])
        .expect_code(0)
        .expect_error("lnetctl lnet configure --large");
    assert!(made.out.contains("nid: fd00:7::1@tcp"), "{}", made.out);
    fs::write(&client, made.out).unwrap();
    let client = client.to_str().unwrap();
    lab.run(
        "client",
        &["ping", "--privileged", "--config", client, target],
    )
    .expect_code(0);
    node.stop().expect_code(0);
}

/// Returns the interface by which a room sends to an address from an address.
fn sends_by(lab: &Lab, room: &str, [to, from]: [&str; 2]) -> String {
    let namespace = lab.namespace(room);
    let mut command = std::process::Command::new("ip");
    command.args(["-n", &namespace, "route", "get", to, "from", from]);
    let told = common::process::run(command).out;
    let mut words = told.split_whitespace();
    words.find(|word| *word == "dev");
    words.next().unwrap_or_default().to_owned()
}

/// Runs the commands that `convert --to routes` prints.
fn apply_routes(lab: &Lab, target: &str) {
    let routes = lab.run("client", &["convert", "--for", target, "--to", "routes"]);
    lab.script("client", &routes.expect_code(0).out);
}

#[test]
fn routes_by_source_bring_each_interface_of_one_subnet_into_use() {
    let Some(lab) = Lab::build(&["client", "switch"]) else {
        return;
    };
    lab.script(
        "switch",
        "ip link add lan0 type bridge; ip link set lan0 up; ip addr add 10.1.0.9/24 dev lan0",
    );
    for (number, port) in [(0, "p0"), (1, "p1")] {
        let (name, address) = (format!("eth{number}"), format!("10.1.0.{}/24", number + 1));
        lab.plug(&end("client", &name, &address), ["switch", "lan0", port]);
    }
    let made = lab
        .run("client", &["convert", "--for", "10.1.0.9@tcp"])
        .expect_code(0);
    assert!(
        made.out.contains("eth0") && made.out.contains("eth1"),
        "{}",
        made.out
    );
    made.expect_error("--to routes");
    let second = ["10.1.0.9", "10.1.0.2"];
    assert_eq!(sends_by(&lab, "client", second), "eth0");
    apply_routes(&lab, "10.1.0.9@tcp");
    assert_eq!(sends_by(&lab, "client", second), "eth1");
    assert_eq!(sends_by(&lab, "client", ["10.1.0.9", "10.1.0.1"]), "eth0");
}

#[test]
fn routes_by_source_bring_addresses_without_subnets_into_use() {
    let Some(lab) = Lab::build(&["client", "cloud"]) else {
        return;
    };
    lab.connect([
        &end("client", "eth0", "10.0.0.5/32"),
        &end("cloud", "c0", "10.0.0.1/32"),
    ]);
    lab.connect([
        &end("client", "eth1", "10.1.0.5/32"),
        &end("cloud", "c1", "10.1.0.1/32"),
    ]);
    // As the agent of a cloud sets it up: the first interface has the default route.
    lab.script(
        "client",
        "ip route add 10.0.0.1 dev eth0; ip route add default via 10.0.0.1
         ip route add 10.1.0.1 dev eth1; ip route add 10.1.0.0/20 via 10.1.0.1 dev eth1",
    );
    let from_second = ["10.9.0.9", "10.1.0.5"];
    assert_eq!(sends_by(&lab, "client", from_second), "eth0");
    apply_routes(&lab, "10.9.0.9@tcp");
    assert_eq!(sends_by(&lab, "client", from_second), "eth1");
    assert_eq!(sends_by(&lab, "client", ["10.9.0.9", "10.0.0.5"]), "eth0");
}

#[test]
fn a_node_waits_for_its_interfaces_and_says_for_which() {
    let Some(lab) = Lab::build(&["host", "other"]) else {
        return;
    };
    let directory = TempDir::with_prefix("finerail-test-").unwrap();
    let file = directory.path().join("node.yaml");
    fs::write(&file, one_ni("eth0")).unwrap();
    let words = [
        "node",
        "--no-control",
        "--wait",
        "10m",
        "--config",
        file.to_str().unwrap(),
    ];
    let node = Process::start(lab.finerail("host", &words));
    eventually("the node says for what it waits", || {
        let said = node.errors();
        said.contains("waiting for eth0 (there is none)")
            .then_some(())
    });
    lab.connect([
        &end("host", "eth0", "10.1.0.1/24"),
        &end("other", "eth0", "10.1.0.2/24"),
    ]);
    node.wait_for_output("ready: 10.1.0.1@tcp on port 988");
    node.stop().expect_code(0);
    // A signal ends the wait.
    fs::write(&file, one_ni("eth7")).unwrap();
    let node = Process::start(lab.finerail("host", &words));
    eventually("the node waits", || {
        node.errors().contains("eth7").then_some(())
    });
    node.stop().expect_code(0);
}

#[test]
fn a_node_with_rules_by_address_waits_for_an_address_that_one_covers() {
    let Some(lab) = Lab::build(&["host", "other"]) else {
        return;
    };
    lab.connect([
        &end("host", "eth9", "10.9.0.1/24"),
        &end("other", "eth9", "10.9.0.2/24"),
    ]);
    let directory = TempDir::with_prefix("finerail-test-").unwrap();
    let file = directory.path().join("node.yaml");
    let rules = "ip2nets:\n- net-spec: tcp1\n  ip-range:\n    0: 10.8.0.*\n- net-spec: tcp\n  interfaces:\n    0: eth1\n  \
                 ip-range:\n    0: 10.1.0.*\n";
    fs::write(&file, rules).unwrap();
    let config = file.to_str().unwrap();
    let words = ["node", "--no-control", "--wait", "10m", "--config", config];
    let node = Process::start(lab.finerail("host", &words));
    let says = |what: &str| {
        eventually("the node says for what it waits", || {
            node.errors().contains(what).then_some(())
        });
    };
    says("waiting for an address that a rule of ip2nets covers");
    // A rule may name another interface than the one whose address it covers.
    lab.connect([
        &end("host", "eth0", "10.1.0.1/24"),
        &end("other", "eth0", "10.1.0.2/24"),
    ]);
    says("waiting for eth1 (there is none)");
    lab.connect([
        &end("host", "eth1", "10.2.0.1/24"),
        &end("other", "eth1", "10.2.0.2/24"),
    ]);
    node.wait_for_output("ready: 10.2.0.1@tcp on port 988");
    node.stop().expect_code(0);
}
