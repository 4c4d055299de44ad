//! Nodes in separate network namespaces: real addresses, port 988, and the default `accept`, which accepts
//! privileged source ports only.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use common::capture::Capture;
use common::netns::{End, Lab};
use common::process::{Process, run};
use common::{finerail, pattern};

/// Client, router and storage node, and the directory with their configurations.
struct Site {
    lab: Lab,
    directory: TempDir,
}

const CLIENT: &str = "\
net:
    - net type: tcp
      local NI(s):
        - interfaces:
              0: eth0
route:
    - net: tcp1
      gateway: 10.1.0.254@tcp
";
const ROUTER: &str = "\
net:
    - net type: tcp
      local NI(s):
        - interfaces:
              0: eth0
    - net type: tcp1
      local NI(s):
        - interfaces:
              0: eth1
routing:
    enable: 1
";
const STORAGE: &str = "\
net:
    - net type: tcp1
      local NI(s):
        - interfaces:
              0: eth0
route:
    - net: tcp
      gateway: 10.2.0.254@tcp1
";

impl Site {
    fn build() -> Option<Self> {
        let lab = Lab::build(&["client", "router", "storage"])?;
        let end = |room, interface, address| End {
            room,
            interface,
            address,
        };
        lab.connect([
            &end("client", "eth0", "10.1.0.1/24"),
            &end("router", "eth0", "10.1.0.254/24"),
        ]);
        lab.connect([
            &end("router", "eth1", "10.2.0.254/24"),
            &end("storage", "eth0", "10.2.0.9/24"),
        ]);
        let directory = TempDir::with_prefix("finerail-test-").unwrap();
        let site = Self { lab, directory };
        for (name, text) in [("client", CLIENT), ("router", ROUTER), ("storage", STORAGE)] {
            fs::write(site.path(&format!("{name}.yaml")), text).unwrap();
        }
        fs::create_dir(site.path("kept")).unwrap();
        Some(site)
    }

    fn path(&self, name: &str) -> String {
        self.directory
            .path()
            .join(name)
            .to_str()
            .unwrap()
            .to_owned()
    }

    fn config(&self, node: &str) -> [String; 2] {
        ["--config".to_owned(), self.path(&format!("{node}.yaml"))]
    }

    /// Returns the words of a command and the client's configuration.
    fn as_client(&self, words: &[&str]) -> Vec<String> {
        let words = words.iter().map(|&word| word.to_owned());
        words.chain(self.config("client")).collect()
    }

    fn start_router(&self) -> Process {
        let [option, file] = self.config("router");
        let router = self.lab.start("router", &["node", &option, &file]);
        router.wait_for_output("ready: 10.1.0.254@tcp, 10.2.0.254@tcp1 on port 988");
        router
    }
}

#[test]
fn files_cross_a_router_between_machines_on_port_988() {
    let Some(site) = Site::build() else { return };
    let router = site.start_router();
    let [option, file] = site.config("storage");
    let kept = site.path("kept");
    let storage = site.lab.start(
        "storage",
        &[
            "store",
            "serve",
            "--identity",
            "server",
            &option,
            &file,
            &kept,
        ],
    );
    let ping = site
        .lab
        .run("client", &site.as_client(&["ping", "10.2.0.9@tcp1"]));
    assert!(
        ping.expect_code(0)
            .out
            .contains("primary nid: 10.2.0.9@tcp1")
    );

    let data = pattern(5 << 20);
    fs::write(site.path("sent"), &data).unwrap();
    let (sent, back) = (site.path("sent"), site.path("back"));
    let stored = "lnet:10.2.0.9@tcp1:/data";
    let put = ["files", "put", &sent, stored];
    site.lab.run("client", &site.as_client(&put)).expect_code(0);
    let fetch = ["files", "get", stored, &back];
    site.lab
        .run("client", &site.as_client(&fetch))
        .expect_code(0);
    assert!(
        fs::read(Path::new(&kept).join("data")).unwrap() == data,
        "what is kept differs"
    );
    assert!(fs::read(back).unwrap() == data, "what came back differs");
    storage.stop().expect_code(0);
    let said = router.stop().expect_code(0).err;
    // The storage node asks each client who it is. A command that ends before it is asked is not reached,
    // which the router logs. It has nothing else to log.
    let left = |line: &str| line.contains("peer interface 10.1.0.1@tcp has ");
    assert!(said.lines().all(left), "{said}");
}

#[test]
fn a_node_with_the_default_accept_mode_refuses_unprivileged_source_ports() {
    let Some(site) = Site::build() else { return };
    let _router = site.start_router();
    let refused = site.lab.run("client", &["ping", "10.1.0.254@tcp"]);
    refused.expect_code(1).expect_error("--privileged");
    let answered = site
        .lab
        .run("client", &["ping", "--privileged", "10.1.0.254@tcp"]);
    let out = answered.expect_code(0).out;
    assert!(out.contains("nid: 10.2.0.254@tcp1"), "{out}");
}

#[test]
fn the_right_host_with_the_wrong_network_is_said_to_have_no_such_nid() {
    let Some(site) = Site::build() else { return };
    let _router = site.start_router();
    let wrong = ["ping", "--privileged", "10.1.0.254@tcp7"];
    let refused = site.lab.run("client", &wrong).expect_code(1);
    let advises = refused.err.contains("--privileged");
    assert!(!advises, "it was privileged: {}", refused.err);
    refused.expect_error("it has no interface with this NID");
    let unprivileged = site.lab.run("client", &["ping", "10.1.0.254@tcp7"]);
    unprivileged
        .expect_code(1)
        .expect_error("have no interface with this NID");
}

#[test]
fn a_host_without_a_way_to_the_target_says_so() {
    let Some(site) = Site::build() else { return };
    let lost = site
        .lab
        .run("client", &["ping", "--privileged", "10.2.0.9@tcp1"]);
    lost.expect_code(2)
        .expect_error("this machine has no route to 10.2.0.9");
    // No machine has this address: the interface is known, but there is no neighbour.
    let nobody = ["ping", "--privileged", "--timeout", "2", "10.1.0.77@tcp"];
    site.lab
        .run("client", &nobody)
        .expect_code(1)
        .expect_error("10.1.0.77@tcp");
}

#[test]
fn an_interface_that_is_missing_is_named_with_those_that_are_there() {
    let Some(site) = Site::build() else { return };
    let [option, file] = site.config("router");
    // The client has no eth1.
    let ended = site.lab.run("client", &["node", &option, &file]);
    ended
        .expect_code(2)
        .expect_error("no interface 'eth1' with an IP address (there are: eth0, lo)");
}

#[test]
fn nodes_with_ipv6_addresses_meet_by_hello_version_4_and_large_headers() {
    let Some(lab) = Lab::build(&["a", "b"]) else {
        return;
    };
    let end = |room, address| End {
        room,
        interface: "eth0",
        address,
    };
    lab.connect([&end("a", "fd00:1::1/64"), &end("b", "fd00:1::2/64")]);
    let directory = TempDir::with_prefix("finerail-test-").unwrap();
    let config = directory.path().join("node.yaml");
    fs::write(
        &config,
        "net:\n- net type: tcp\n  local NI(s):\n  - interfaces:\n      0: eth0\n",
    )
    .unwrap();
    let config = config.to_str().unwrap();
    let node = lab.start("b", &["node", "--config", config]);
    node.wait_for_output("ready: fd00:1::2@tcp on port 988");

    let checked = ["conform", "--privileged", "--intrusive", "fd00:1::2@tcp"];
    let checked = lab.run("a", &checked).expect_code(0);
    // The checks that do not apply are about forms that a large NID does not fit.
    assert!(
        checked.out.contains(" 0 failed, 7 not applicable\n"),
        "{checked:#?}"
    );

    let inside = ["ip", "netns", "exec", &lab.namespace("a")];
    let capture = Capture::start(&inside, "eth0", 988, &directory.path().join("six.pcapng"));
    let ping = lab
        .run("a", &["ping", "--privileged", "fd00:1::2@tcp"])
        .expect_code(0);
    assert!(ping.out.contains("primary nid: fd00:1::2@tcp"), "{ping:#?}");
    // The other mode of ping: as a node of its own, which opens all its connections itself.
    lab.run("a", &["ping", "--config", config, "fd00:1::2@tcp"])
        .expect_code(0);
    let Some(capture) = capture else { return };
    let dump = |file: &Path| {
        run(finerail([
            "dump".as_ref(),
            "--strict".as_ref(),
            "-v".as_ref(),
            file.as_os_str(),
        ]))
    };
    let is_whole = |file: &Path| dump(file).out.matches("REPLY").count() >= 2;
    let file = capture.finish_when("both answers are in the capture", is_whole);
    let dumped = dump(&file).expect_code(0).out;
    for hello in [
        "fd00:1::1@tcp -> fd00:1::2@tcp   HELLO    v4 CONTROL",
        "fd00:1::2@tcp -> fd00:1::1@tcp   HELLO    v4 CONTROL",
    ] {
        assert!(dumped.contains(hello), "no '{hello}' in {dumped}");
    }
    // 24 bytes of the frame header and 96 of the LNet header: the ping info of the reply begins behind both.
    let info = dumped
        .lines()
        .find(|line| line.ends_with("magic            ping"))
        .unwrap();
    assert_eq!(info.split_whitespace().next(), Some("120"), "{dumped}");
}

/// Starts a node in a room with two interfaces.
fn two_rails(config: &str) -> Option<(Lab, TempDir, Process)> {
    let lab = Lab::build(&["host", "switch"])?;
    let end = |room, interface, address| End {
        room,
        interface,
        address,
    };
    for (name, own, other) in [
        ("eth0", "10.1.0.1/24", "10.1.0.2/24"),
        ("eth1", "10.1.0.3/24", "10.1.0.4/24"),
    ] {
        lab.connect([&end("host", name, own), &end("switch", name, other)]);
    }
    let directory = TempDir::with_prefix("finerail-test-").unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("node.yaml"), config).unwrap();
    let (config, control) = (path("node.yaml"), path("control.sock"));
    let node = lab.start(
        "host",
        &["node", "--config", &config, "--control", &control],
    );
    Some((lab, directory, node))
}

fn ctl(lab: &Lab, directory: &TempDir, words: &[&str]) -> String {
    let control = directory.path().join("control.sock");
    let called = ["ctl", "--node", control.to_str().unwrap()];
    lab.run("host", &[&called, words].concat())
        .expect_code(0)
        .out
}

#[test]
fn networks_are_added_by_address_from_the_command_line() {
    let by_address = "ip2nets:\n- net-spec: tcp\n  ip-range: {0: '10.1.0.*'}\n";
    let Some((lab, directory, _node)) = two_rails(by_address) else {
        return;
    };
    let rules = "tcp7 10.1.0.*; tcp8 10.9.*.*";
    let add = ["net", "add", "--ip2net", rules, "--peer-credits", "5"];
    ctl(&lab, &directory, &add);
    let shown = ctl(&lab, &directory, &["net", "show", "--net", "tcp7", "-v"]);
    assert_eq!(shown.matches("peer_credits: 5").count(), 2, "{shown}");
    assert!(!ctl(&lab, &directory, &["net", "show"]).contains("tcp8"));
}

#[test]
fn sighup_with_networks_by_address_changes_what_differs_and_nothing_else() {
    let by_address = |parameter: &str| {
        format!("ip2nets:\n- net-spec: tcp\n  ip-range: {{0: '10.1.0.*'}}\n{parameter}")
    };
    let Some((lab, directory, node)) = two_rails(&by_address("")) else {
        return;
    };
    let show = || ctl(&lab, &directory, &["net", "show", "-v", "2"]);
    let before = show();
    assert!(
        before.contains("10.1.0.1@tcp") && before.contains("10.1.0.3@tcp"),
        "{before}"
    );
    ctl(&lab, &directory, &["ping", "0@lo"]);
    ctl(
        &lab,
        &directory,
        &["net", "set", "--all", "--health", "700"],
    );
    let before = show();

    let reread = |config: &str, parameter: &str| {
        fs::write(directory.path().join("node.yaml"), config).unwrap();
        node.signal(nix::sys::signal::Signal::SIGHUP);
        common::eventually("the file is read again", || {
            let shown = ctl(&lab, &directory, &["global", "show"]);
            shown.contains(parameter).then_some(())
        });
    };
    reread(&by_address("global: {numa_range: 7}\n"), "numa_range: 7");
    let health = |text: &str| text.matches("health value: 700").count();
    assert_eq!(
        health(&show()),
        health(&before),
        "interfaces were set up anew"
    );
    assert_eq!(show().matches("nid: 10.1.0.").count(), 2);

    // An entry that names the interfaces one by one means the same interfaces.
    let named = "net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: eth0, 1: eth1}\n";
    reread(
        &format!("{named}global: {{numa_range: 8}}\n"),
        "numa_range: 8",
    );
    assert_eq!(
        health(&show()),
        health(&before),
        "interfaces were set up anew"
    );

    let fewer = by_address("global: {numa_range: 9}\n").replace("10.1.0.*", "10.1.0.[2-9]");
    reread(&fewer, "numa_range: 9");
    assert!(!show().contains("10.1.0.1@tcp"), "{}", show());
    node.stop().expect_code(0);
}

#[test]
fn setup_mrrouting_prints_what_linux_needs_and_does_nothing() {
    let config = "net:\n- net type: tcp\n  local NI(s):\n  - interfaces: {0: eth0, 1: eth1}\n";
    let Some((lab, directory, node)) = two_rails(config) else {
        return;
    };
    let advice = ctl(&lab, &directory, &["setup-mrrouting"]);
    for expected in [
        "# eth1: 10.1.0.3/24\n",
        "ip route replace 10.1.0.0/24 dev eth0 src 10.1.0.1 table 101\n",
        "ip rule add from 10.1.0.3 lookup 102\n",
        "net.ipv4.conf.eth0.arp_ignore=1\n",
    ] {
        assert!(advice.contains(expected), "no '{expected}' in {advice}");
    }
    let inside = ["ip", "netns", "exec", &lab.namespace("host")];
    let rules = std::process::Command::new(inside[0])
        .args(&inside[1..])
        .args(["ip", "rule", "list"])
        .output()
        .unwrap();
    let rules = String::from_utf8(rules.stdout).unwrap();
    assert!(!rules.contains("lookup 101"), "{rules}");
    // After an administrator runs the advice, its rules are in effect.
    let ran = std::process::Command::new(inside[0])
        .args(&inside[1..])
        .args(["sh", "-e", "-c", &advice])
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let again = ctl(&lab, &directory, &["setup-mrrouting"]);
    assert_eq!(again.matches("# already so: ").count(), 7, "{again}");
    let file = ctl(&lab, &directory, &["setup-sysctl"]);
    assert!(
        file.contains("net.ipv4.conf.eth1.arp_announce = 2\n"),
        "{file}"
    );
    node.stop().expect_code(0);
}
