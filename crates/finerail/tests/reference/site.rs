//! Nodes in network namespaces, configured like those of a session.
//!
//! ```text
//!  Fabric::Cables     vm1 ══ eth0, eth1 ══ vm2             as a, b, c, e and f have it
//!  Fabric::Switched   vm1 ── eth0, eth1 ── switch ── vm2   a link goes down at one node only
//!  Fabric::Router     vm1 ── eth0 ── vm3 ── eth1 ── vm2    d and k-router-down
//!  Fabric::Host       vm1 ── eth0 ── host                  h: the host has no node of ours
//! ```

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::common::eventually;
use crate::common::netns::{End, Lab};
use crate::common::process::Process;
use crate::session::Exchange;

/// A configuration with any net, because a node does not start without one.
const ANYTHING: &str = "net:\n- net type: tcp99\n  local NI(s):\n  - nid: 127.0.0.1@tcp99\n";

/// The end of a command that changes routes.
const ROUTES: &str = "; lnetctl route show -v 4";

/// How the nodes are connected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fabric {
    Cables,
    Switched,
    Router,
    Host,
}

/// Nodes with cables between them. None is configured.
pub(crate) struct Site {
    nodes: Vec<Process>,
    pub(crate) lab: Lab,
    directory: TempDir,
}

impl Site {
    /// Starts the nodes. If network namespaces are not possible, prints a message and returns `None`.
    pub(crate) fn start(fabric: Fabric) -> Option<Self> {
        let lab = fabric.build()?;
        let directory = TempDir::with_prefix("finerail-test-").unwrap();
        let programs = directory.path().join("programs");
        fs::create_dir(&programs).unwrap();
        for name in ["lnetctl", "lctl"] {
            symlink(env!("CARGO_BIN_EXE_finerail"), programs.join(name)).unwrap();
        }
        let mut site = Self {
            nodes: Vec::new(),
            lab,
            directory,
        };
        for name in fabric.nodes() {
            let node = site.start_node(name);
            site.nodes.push(node);
        }
        Some(site)
    }

    /// Starts a node without nets.
    pub(crate) fn start_node(&self, name: &str) -> Process {
        let config = self.directory.path().join("anything.yaml");
        fs::write(&config, ANYTHING).unwrap();
        let control = format!("--control={}", self.socket(name).display());
        let config = format!("--config={}", config.display());
        // Kernel nodes have an interval of a minute, which would only take longer.
        let often = "--router-check-interval=1";
        let node = self.lab.start(name, &["node", &config, &control, often]);
        self.done(name, "lnetctl lnet unconfigure");
        node
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.sock"))
    }

    /// Executes the command as its administrator did. Returns both outputs, and the line with the exit code.
    pub(crate) fn run(&self, exchange: &Exchange) -> String {
        let command = exchange.command.as_str();
        if command.starts_with("lnetctl lnet configure; ") {
            // In the session, the machine had just been booted.
            self.shell(&exchange.node, "lnetctl lnet unconfigure");
        }
        if let Some(words) = prepared(exchange) {
            self.done(&exchange.node, words);
        }
        let printed = match command.split_once(ROUTES) {
            Some((change, _)) if exchange.file.starts_with(['d', 'k']) => {
                let changed = self.shell(&exchange.node, change);
                let changed = changed.strip_suffix("[rc=0]\n").unwrap_or(&changed);
                changed.to_owned() + &self.routes(&exchange.node)
            }
            _ => self.shell(&exchange.node, command),
        };
        for words in made_up(exchange) {
            self.done(&exchange.node, words);
        }
        printed
    }

    /// Returns the output for routes after the gateways have answered. The session waited for a second instead.
    fn routes(&self, node: &str) -> String {
        eventually("the gateway has answered", || {
            let printed = self.shell(node, ROUTES.trim_start_matches("; "));
            printed.contains("single-hop").then_some(printed)
        })
    }

    /// Executes a command, which must succeed.
    pub(crate) fn done(&self, node: &str, words: &str) {
        let printed = self.shell(node, words);
        assert!(printed.ends_with("[rc=0]\n"), "{node}# {words}\n{printed}");
    }

    /// Returns both outputs of a shell command on a node, and a line with its exit code.
    pub(crate) fn shell(&self, node: &str, words: &str) -> String {
        let mut path = self.directory.path().join("programs").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.lab.namespace(node)]);
        command.args(["sh", "-c", &format!("exec 2>&1; {words}")]);
        command.env("PATH", path);
        command.env("FINERAIL_CONTROL", self.socket(node));
        command.current_dir(self.directory.path());
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        format!("{text}[rc={}]\n", output.status.code().unwrap_or(-1))
    }
}

impl Fabric {
    fn nodes(self) -> &'static [&'static str] {
        match self {
            Self::Cables | Self::Switched => &["vm1", "vm2"],
            Self::Router => &["vm1", "vm2", "vm3"],
            Self::Host => &["vm1"],
        }
    }

    fn build(self) -> Option<Lab> {
        let rooms = match self {
            Self::Cables => &["vm1", "vm2"][..],
            Self::Switched => &["vm1", "vm2", "switch"],
            Self::Router => &["vm1", "vm2", "vm3"],
            Self::Host => &["vm1", "host"],
        };
        let lab = Lab::build(rooms)?;
        match self {
            Self::Cables => {
                connect(
                    &lab,
                    "eth0",
                    [("vm1", "10.1.0.1/24"), ("vm2", "10.1.0.2/24")],
                );
                connect(
                    &lab,
                    "eth1",
                    [("vm1", "10.2.0.1/24"), ("vm2", "10.2.0.2/24")],
                );
            }
            Self::Router => {
                connect(
                    &lab,
                    "eth0",
                    [("vm1", "10.1.0.1/24"), ("vm3", "10.1.0.3/24")],
                );
                connect(
                    &lab,
                    "eth1",
                    [("vm2", "10.2.0.2/24"), ("vm3", "10.2.0.3/24")],
                );
            }
            Self::Host => {
                connect(
                    &lab,
                    "eth0",
                    [("vm1", "10.1.0.1/24"), ("host", "10.1.0.100/24")],
                );
            }
            Self::Switched => switched(&lab),
        }
        Some(lab)
    }
}

/// Connects two rooms with a cable whose ends have the same name.
fn connect(lab: &Lab, interface: &str, ends: [(&str, &str); 2]) {
    let [near, far] = ends.map(|(room, address)| End {
        room,
        interface,
        address,
    });
    lab.connect([&near, &far]);
    for (room, _) in ends {
        wait_for_cable(lab, room, interface);
    }
}

fn wait_for_cable(lab: &Lab, room: &str, interface: &str) {
    eventually("the cable is in", || {
        let mut command = Command::new("ip");
        command.args(["-n", &lab.namespace(room), "link", "show", interface]);
        let shown = command.output().unwrap().stdout;
        let is_up = String::from_utf8(shown).unwrap().contains("state UP");
        is_up.then_some(())
    });
}

/// Builds two switches, with a port for each node.
fn switched(lab: &Lab) {
    for net in ["1", "2"] {
        let interface = if net == "1" { "eth0" } else { "eth1" };
        let bridge = format!("switch{net}");
        lab.ip("switch", &["link", "add", &bridge, "type", "bridge"]);
        lab.ip("switch", &["link", "set", &bridge, "up"]);
        for node in ["1", "2"] {
            let port = format!("port{net}{node}");
            let room = format!("vm{node}");
            let near = End {
                room: &room,
                interface,
                address: &format!("10.{net}.0.{node}/24"),
            };
            // A port of a switch needs no address, but a cable of the lab needs two.
            let far = End {
                room: "switch",
                interface: &port,
                address: &format!("192.0.2.{net}{node}/32"),
            };
            lab.connect([&near, &far]);
            lab.ip("switch", &["link", "set", &port, "master", &bridge]);
            wait_for_cable(lab, &room, interface);
        }
    }
}

/// Commands that replace traffic of the kernel's test tool, by file, node and begin of the command.
const TRAFFIC: [(&str, &str, &str, &str); 2] = [
    (
        "c-lst.txt",
        "vm1",
        "lnetctl stats show",
        "lnetctl discover 10.1.0.2@tcp",
    ),
    (
        "d-routed.txt",
        "vm2",
        "lnetctl peer show",
        "lnetctl discover 10.1.0.1@tcp",
    ),
];

/// Returns the command to execute before a command, because a kernel node had done the same before.
fn prepared(exchange: &Exchange) -> Option<&'static str> {
    let known = TRAFFIC.iter().find(|(file, node, part, _)| {
        *file == exchange.file && *node == exchange.node && exchange.command.starts_with(part)
    });
    known.map(|(_, _, _, words)| *words)
}

/// Returns the commands to execute after a command, because a kernel node had the same effect.
fn made_up(exchange: &Exchange) -> &'static [&'static str] {
    let command = exchange.command.as_str();
    if command == "lnetctl udsp del --idx -1" {
        // A defect of the kernel node deleted everything.
        return &["lnetctl udsp del --all"];
    }
    &[]
}
