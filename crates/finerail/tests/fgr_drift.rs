//! Drift: `fgr diff` names each difference between a running node and the plan, and its commands remove them; `fgr
//! check` proves what lies in a folder.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;

use common::finerail;
use common::process::Process;

/// Clients c1, with four interfaces, and c2, and three routers of two nets. The addresses belong to this test alone.
const MACHINE: &str = "
machine: drift
fabric:
  kind: fat-tree
  levels:
    - {down: 8, up: 1, capacity: 12.5}
    - {down: 2, up: 4, capacity: 25}
clients:
  list:
    - id: 1
      name: c1
      at: [0]
      nics:
        - {interface: hsn0, address: 127.81.0.1}
        - {interface: hsn1, address: 127.81.1.1}
        - {interface: hsn2, address: 127.81.2.1}
        - {interface: hsn3, address: 127.81.3.1}
    - {id: 2, name: c2, at: [8]}
groups:
  - name: A
    nets: [tcp201, tcp202]
    sub-groups:
      - modules:
          - {blade: a0, at: [5], nodes: [{id: 101, nets: [tcp201, tcp202]}]}
          - {blade: a1, at: [6], nodes: [{id: 102, nets: [tcp201, tcp202]}]}
          - {blade: a2, at: [13], nodes: [{id: 103, nets: [tcp201, tcp202]}]}
";

struct Folder {
    directory: TempDir,
    /// The folder of `fgr config`.
    plan: PathBuf,
}

impl Folder {
    fn new(form: &str) -> Self {
        Self::with(form, MACHINE, &[])
    }

    /// Plans a machine with further arguments of `fgr config`.
    fn with(form: &str, machine: &str, more: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("machine.yaml"), machine).unwrap();
        fs::write(
            path("servers.csv"),
            "oss1,127.83.0.1@tcp201\noss2,127.83.0.2@tcp202\n",
        )
        .unwrap();
        let plan = path("plan");
        let made = finerail([
            "fgr",
            "config",
            "--client-net",
            "tcp100",
            "--form",
            form,
            "--per-node",
        ])
        .args([
            "--client-addresses",
            "127.81.0.0",
            "--router-addresses",
            "127.82.0.0",
        ])
        .args(more)
        .arg("--machine")
        .arg(path("machine.yaml"))
        .arg("--servers")
        .arg(path("servers.csv"))
        .arg("-o")
        .arg(&plan)
        .output()
        .unwrap();
        assert!(made.status.success(), "{made:?}");
        Self { directory, plan }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn node(&self, name: &str) -> String {
        fs::read_to_string(self.plan.join("nodes").join(name)).unwrap()
    }

    /// The class of a node.
    fn class_of(&self, name: &str) -> String {
        let table = fs::read_to_string(self.plan.join("nodes.csv")).unwrap();
        let line = table
            .lines()
            .find(|line| line.starts_with(&format!("{name},")))
            .unwrap();
        line.split(',').nth(2).unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn diff(&self, export: &Path) -> (i32, String) {
        let output = finerail(["fgr", "diff"])
            .arg(&self.plan)
            .arg(export)
            .output()
            .unwrap();
        ended(&output)
    }

    fn check(&self) -> (i32, String) {
        let output = finerail(["fgr", "check"]).arg(&self.plan).output().unwrap();
        ended(&output)
    }
}

fn ended(output: &Output) -> (i32, String) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), text + &errors)
}

#[test]
fn rules_that_name_another_router_or_none_differ_from_the_plan() {
    let folder = Folder::new("multi-rail");
    let planned = folder.node("c1.yaml");
    let whole = folder.write("c1.yaml", &planned);
    let (code, text) = folder.diff(&whole);
    assert_eq!(code, 0, "{text}");

    let (before, rules) = planned.split_once("udsp:").expect("rules");
    let used = rules.split("rte: ").nth(1).unwrap().lines().next().unwrap();
    let other = if used.contains(".101@") {
        used.replace(".101@", ".103@")
    } else {
        "127.82.0.101@tcp100".to_owned()
    };
    let moved = format!("{before}udsp:{}", rules.replacen(used, &other, 1));
    let (code, text) = folder.diff(&folder.write("moved.yaml", &moved));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("lnetctl udsp del --idx 0"), "{text}");
    assert!(text.contains("lnetctl udsp add --dst"), "{text}");

    let (code, text) = folder.diff(&folder.write("none.yaml", before));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("# no rule --dst"), "{text}");
}

/// A running node whose configuration differs from the plan.
struct Drifted {
    folder: Folder,
    socket: PathBuf,
    _node: Process,
}

impl Drifted {
    /// Starts a client that differs in parameters, routes and rules.
    fn start(form: &str) -> Self {
        let folder = Folder::new(form);
        let planned = folder.node("c1.yaml");
        let mut drifted = planned
            .replace("transaction_timeout: 30", "transaction_timeout: 44")
            .replace("drop_asym_route: 1", "drop_asym_route: 0")
            .replace("priority: 1", "priority: 7");
        drifted = match form {
            "multi-rail" => drifted
                .replace("discovery: 1", "discovery: 0")
                .replace("rte: 127.81.0.101@", "rte: 127.81.0.102@"),
            _ => drifted.replace("discovery: 0", "discovery: 1"),
        };
        assert_ne!(drifted, planned);
        Self::run(folder, &drifted)
    }

    /// Starts a node with this configuration.
    fn run(folder: Folder, drifted: &str) -> Self {
        let drifted = folder.write("drifted.yaml", drifted);
        let socket = folder.path("node.sock");
        let mut command = finerail(["node", "--port", &testkit::port().to_string(), "--config"]);
        command.arg(drifted).arg("--control").arg(&socket);
        let node = Process::start(command);
        node.wait_for_output("ready: ");
        Self {
            folder,
            socket,
            _node: node,
        }
    }

    fn ctl(&self, words: &[&str]) -> String {
        let mut command = finerail(["ctl", "--node"]);
        let output = command.arg(&self.socket).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The node is changed into the plan; returns what differed before.
    fn is_changed_into_the_plan(&self) -> String {
        let (code, before) = self.live(&[]);
        assert_eq!(code, 1, "{before}");
        let (code, text) = self.live(&["--apply"]);
        assert_eq!(code, 0, "{before}{text}");
        let (code, text) = self.live(&[]);
        assert!(code == 0 && text.contains("as planned"), "{text}");
        before
    }

    fn live(&self, more: &[&str]) -> (i32, String) {
        let mut command = finerail(["fgr", "diff"]);
        command
            .arg(&self.folder.plan)
            .arg("--live")
            .arg(&self.socket);
        ended(&command.args(more).output().unwrap())
    }
}

/// Applies the commands to a drifted node.
fn commands_leave_no_difference(form: &str) {
    let drifted = Drifted::start(form);
    let export = |name: &str| drifted.folder.write(name, &drifted.ctl(&["export"]));
    let (code, text) = drifted.folder.diff(&export("before.yaml"));
    assert_eq!(code, 1, "{text}");
    for command in text
        .lines()
        .filter_map(|line| line.strip_prefix("lnetctl "))
    {
        drifted.ctl(&command.split_whitespace().collect::<Vec<_>>());
    }
    let (code, text) = drifted.folder.diff(&export("after.yaml"));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("as planned"), "{text}");
}

#[test]
fn a_running_node_is_changed_into_the_plan_and_then_left_alone() {
    for form in ["slot-nets", "multi-rail"] {
        let drifted = Drifted::start(form);
        let (code, text) = drifted.live(&[]);
        assert_eq!(code, 1, "{text}");
        let (code, text) = drifted.live(&["--apply"]);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("1 client is as planned"), "{text}");
        let others = "note: 6 of the 7 nodes of the plan were not given: they are not looked at, and count as planned: c2,nid[00101-00103],oss[1-2]";
        assert!(text.contains(others), "{text}");
        assert!(text.contains(" commands\n"), "{text}");
        // The same command again finds nothing to do.
        let (code, text) = drifted.live(&["--apply"]);
        assert!(code == 0 && !text.contains(" commands\n"), "{text}");
        assert_eq!(drifted.live(&[]).0, 0);
    }
}

#[test]
fn the_commands_leave_no_difference_on_a_running_node_with_slot_nets() {
    commands_leave_no_difference("slot-nets");
}

#[test]
fn the_commands_leave_no_difference_on_a_running_node_with_rules() {
    commands_leave_no_difference("multi-rail");
}

/// Returns a document without the interfaces on these addresses.
fn without_interfaces(document: &str, addresses: &[&str]) -> String {
    let is_gone = |line: &&str| {
        addresses
            .iter()
            .any(|address| line.contains(&format!(" nid: {address}@")))
    };
    let lines = document.lines().filter(|line| !is_gone(line));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn interfaces_that_are_missing_or_not_planned_differ() {
    for form in ["slot-nets", "multi-rail"] {
        let folder = Folder::new(form);
        let planned = folder.node("c1.yaml");
        let kept = without_interfaces(&planned, &["127.81.1.1", "127.81.2.1", "127.81.3.1"]);
        let kept = kept.replacen(" nid: 127.81.0.1@tcp10", " nid: 127.81.9.1@tcp10", 1);
        let first = kept.split(" nid: 127.81.9.1@").nth(1).unwrap();
        let net = first.lines().next().unwrap().to_owned();
        let drifted = Drifted::run(folder, &kept);
        let before = match form {
            // In this form the client has other interfaces by which it is found.
            "slot-nets" => drifted.is_changed_into_the_plan(),
            _ => {
                let (code, text) = drifted.live(&[]);
                assert!(
                    code == 2 && text.contains("no node with one of its NIDs"),
                    "{text}"
                );
                drifted.ctl(&["net", "add", "--nid", &format!("127.81.0.1@{net}")]);
                drifted.is_changed_into_the_plan()
            }
        };
        for number in 1..4 {
            let add = format!("lnetctl net add --nid 127.81.{number}.1@{net}\n");
            assert!(before.contains(&add), "no {add} in {before}");
        }
        let del = format!("lnetctl net del --nid 127.81.9.1@{net}\n");
        assert!(before.contains(&del), "{before}");
    }
}

#[test]
fn tunables_of_the_plan_that_a_node_lacks_differ() {
    for form in ["slot-nets", "multi-rail"] {
        let tunables = [
            "--client-tunables",
            "peer_credits=32,conns_per_peer=2,timeout=7",
        ];
        let folder = Folder::with(form, MACHINE, &tunables);
        let untuned = Folder::new(form).node("c1.yaml");
        assert_ne!(untuned, folder.node("c1.yaml"));
        let before = Drifted::run(folder, &untuned).is_changed_into_the_plan();
        for part in [
            "peer_credits 8, planned 32; conns_per_peer 1, planned 2; only a new interface takes this",
            " --peer-credits 32 --conns-per-peer 2\n",
            " --lnd-timeout 7\n",
        ] {
            assert!(before.contains(part), "no {part} in {before}");
        }
        let tunables = ["--client-tunables", "conns_per_peer=2"];
        let folder = Folder::with(form, MACHINE, &tunables);
        let before = Drifted::run(folder, &untuned).is_changed_into_the_plan();
        assert!(!before.contains("net del"), "{before}");
        assert!(before.contains("lnetctl net set --nid "), "{before}");
    }
}

#[test]
fn a_router_without_its_siblings_differs() {
    for form in ["slot-nets", "multi-rail"] {
        let folder = Folder::new(form);
        let planned = folder.node("nid00101.yaml");
        let (before, rest) = planned.split_once("\npeer:\n").expect("siblings");
        let (peers, after) = rest.split_once("\nrouting:").expect("a router");
        let drifted = Drifted::run(folder, &format!("{before}\nrouting:{after}"));
        let found = drifted.is_changed_into_the_plan();
        assert!(found.contains("# no peer 127.81.0.102@tcp10"), "{found}");
        assert_eq!(
            found.contains(" --non_mr\n"),
            form == "slot-nets",
            "{found}"
        );

        // A NID of one sibling is given to the other.
        let ours = "-     nid: 127.82.0.102@tcp201\n";
        let theirs = "-     nid: 127.82.0.103@tcp201\n";
        assert!(peers.contains(ours) && peers.contains(theirs), "{peers}");
        let moved = peers.replacen(&format!("      {ours}"), "", 1);
        let moved = moved.replacen(theirs, &format!("{theirs}      {ours}"), 1);
        let document = format!("{before}\npeer:\n{moved}\nrouting:{after}");
        let found = Drifted::run(Folder::new(form), &document).is_changed_into_the_plan();
        assert!(found.contains(" lacks 127.82.0.102@tcp201\n"), "{found}");
        assert!(
            found.contains("lnetctl peer del --prim_nid 127.81.0.103@tcp10"),
            "{found}"
        );
    }
}

/// The control socket tells the NIDs of interfaces with names, too.
#[test]
fn a_node_with_named_interfaces_is_found() {
    let machine = MACHINE.replace(
        "interface: hsn0, address: 127.81.0.1",
        "interface: lo, address: 127.0.0.1",
    );
    let folder = Folder::with(
        "multi-rail",
        &machine,
        &["--client-tunables", "peer_credits=32"],
    );
    let named = Folder::with("multi-rail", &machine, &[])
        .node("c1.yaml")
        .replace("nid: 127.0.0.1@tcp100", "interfaces: {0: lo}");
    let drifted = Drifted::run(folder, &named);
    let (code, text) = drifted.live(&[]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("127.0.0.1@tcp100: peer_credits 8, planned 32"),
        "{text}"
    );
}

/// The commands for the time while a router is down, and those for the time after it, change running nodes.
#[test]
fn commands_for_a_failure_leave_no_difference_on_a_running_node_with_rules() {
    for form in ["multi-rail", "slot-nets"] {
        let folder = Folder::new(form);
        let whole = folder.node("c1.yaml");
        let primary = whole.split("gateway: 127.81.0.").nth(1).unwrap();
        let primary = primary.split('@').next().unwrap().to_owned();
        let today = Folder::with(form, MACHINE, &["--failed", &primary]);
        assert_ne!(today.node("c1.yaml"), whole);
        let mut command = finerail(["fgr", "diff"]);
        let output = command.arg(&today.plan).arg(&folder.plan).output().unwrap();
        let (code, text) = ended(&output);
        assert_eq!(code, 1, "{text}");
        let class = today.class_of("c1");
        let of_class = text
            .split("# ")
            .skip_while(|part| !part.contains(&format!("({class},")));
        let commands: Vec<String> = of_class
            .take_while(|part| part.contains(&class) || !part.contains(" node"))
            .flat_map(str::lines)
            .filter_map(|line| Some(line.strip_prefix("lnetctl ")?.to_owned()))
            .collect();
        assert!(!commands.is_empty(), "no command for {class} in {text}");
        let drifted = Drifted::run(today, &whole);
        for command in commands {
            drifted.ctl(&command.split_whitespace().collect::<Vec<_>>());
        }
        let (code, text) = drifted.live(&[]);
        assert_eq!(code, 0, "{form}: {text}");
    }
}

#[test]
fn what_lies_in_the_folder_is_what_is_proved() {
    let folder = Folder::new("slot-nets");
    let (code, text) = folder.check();
    assert_eq!(code, 0, "{text}");

    let file = folder.plan.join("nodes/oss1.yaml");
    let planned = fs::read_to_string(&file).unwrap();
    let (before, _) = planned.split_once("\nroute:").unwrap();
    fs::write(&file, format!("{before}\n")).unwrap();
    let (code, text) = folder.check();
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("error: nodes: oss1: its document differs from server-001"),
        "{text}"
    );
    assert!(
        text.contains("oss1 on tcp201: requests are lost: no usable route"),
        "{text}"
    );
    // Other commands do not choose between the parts.
    let (code, text) = folder.diff(&file);
    assert_eq!(code, 2, "{text}");

    fs::write(
        &file,
        planned.replace(
            "alive_router_check_interval: 20",
            "alive_router_check_interval: 60",
        ),
    )
    .unwrap();
    let (code, text) = folder.check();
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("alive_router_check_interval is 60, planned 20"),
        "{text}"
    );

    fs::remove_file(&file).unwrap();
    let (code, text) = folder.check();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("oss1: no document"), "{text}");
}
