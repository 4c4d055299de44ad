//! Reading a session, and having it again.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::common::eventually;
use crate::common::netns::{End, Lab};
use crate::common::process::Process;

/// A command and what it printed.
pub(crate) struct Exchange {
    pub(crate) file: &'static str,
    /// The node on which it was given.
    pub(crate) node: String,
    pub(crate) command: String,
    /// Both outputs as a terminal shows them, and the line with the exit code.
    pub(crate) printed: String,
}

impl Exchange {
    /// The name of the exchange in the table of differences: its file and the command.
    pub(crate) fn key(&self) -> String {
        let file = self.file.trim_end_matches(".txt");
        format!("{file}: {}", self.command)
    }
}

/// The exchanges of a file that can be had again in user space; `None`, with a message, where the file is
/// not at hand.
pub(crate) fn exchanges(file: &'static str) -> Option<Vec<Exchange>> {
    let data = std::env::var_os("FINERAIL_SHARED_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let Ok(text) = fs::read_to_string(data.join("lnetctl").join(file)) else {
        eprintln!("skipped: no sessions of kernel nodes in {}", data.display());
        return None;
    };
    let parts = text.split("\n### ").skip(1);
    Some(parts.filter_map(|part| exchange(file, part)).collect())
}

fn exchange(file: &'static str, part: &str) -> Option<Exchange> {
    let (head, rest) = part.split_once('\n')?;
    let (node, command) = head.split_once("# ")?;
    let end = rest.find("[rc=")?;
    let line = rest[end..].lines().next()?;
    let command = repeatable(command)?;
    Some(Exchange {
        file,
        node: node.to_owned(),
        command,
        printed: format!("{}{line}\n", &rest[..end]),
    })
}

/// The command as it can be given here, if all its programs are ours or only filter text.
fn repeatable(command: &str) -> Option<String> {
    if command.contains(['$', '(', '<', '>', '`', '&']) {
        return None;
    }
    let mut words = command.split_whitespace().peekable();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word {
            // How long it took is not compared, and no command may take for ever here.
            "time" => {}
            "timeout" => drop(words.next()),
            _ => kept.push(word),
        }
    }
    let command = kept.join(" ");
    // A pipeline's filters are not ours, and their patterns have bars.
    if command.contains('|') {
        return None;
    }
    let mut programs = command.split(';').map(str::trim);
    programs.all(is_ours).then(|| command.clone())
}

fn is_ours(program: &str) -> bool {
    let mut words = program.split_whitespace();
    match (words.next(), words.next()) {
        (Some("lnetctl" | "true"), _) => true,
        (Some("lctl"), Some(word)) => ["list_nids", "which_nid", "ping"].contains(&word),
        _ => false,
    }
}

/// What is compared of an output: counters, times and what else depends on the moment is reduced to its
/// type.
pub(crate) fn normal(printed: &str) -> String {
    let lines = printed.lines().filter(|line| !is_noise(line));
    lines.map(|line| normal_line(line) + "\n").collect()
}

/// Lines of other programs: how long a command took, and the Linux routes that `net add` shows.
fn is_noise(line: &str) -> bool {
    let timed = ["real\t", "user\t", "sys\t"]
        .iter()
        .any(|word| line.starts_with(word));
    timed || line.trim().is_empty() || line.contains("proto kernel scope link")
}

fn normal_line(line: &str) -> String {
    let Some((key, value)) = line.split_once(": ") else {
        return line.trim_end().to_owned();
    };
    if name_of(key) == "state" && ["up", "down"].contains(&value.trim()) {
        // Whether a gateway has been looked for yet.
        return format!("{key}: UP OR DOWN");
    }
    let is_number = value.trim().parse::<i64>().is_ok();
    if is_number && MOMENTARY.contains(&name_of(key)) {
        return format!("{key}: N");
    }
    line.trim_end().to_owned()
}

fn name_of(key: &str) -> &str {
    key.trim_start_matches([' ', '-'])
}

/// Keys whose number depends on the moment.
const MOMENTARY: [&str; 47] = [
    "send_count",
    "recv_count",
    "drop_count",
    "put",
    "get",
    "reply",
    "ack",
    "hello",
    "interrupts",
    "dropped",
    "aborted",
    "no route",
    "timeouts",
    "error",
    "network timeout",
    "ping_count",
    "next_ping",
    "available_tx_credits",
    "min_tx_credits",
    "tx_q_num_of_buf",
    "available_rtr_credits",
    "min_rtr_credits",
    "refcount",
    "peer state",
    "msgs_alloc",
    "msgs_max",
    "rst_alloc",
    "errors",
    "resend_count",
    "response_timeout_count",
    "local_interrupt_count",
    "local_dropped_count",
    "local_aborted_count",
    "local_no_route_count",
    "local_timeout_count",
    "local_error_count",
    "remote_dropped_count",
    "remote_error_count",
    "remote_timeout_count",
    "network_timeout_count",
    "route_count",
    "send_length",
    "recv_length",
    "route_length",
    "drop_length",
    "max_ni_tx_credits",
    "health value",
];

/// What discovery makes of a peer on a kernel node, and is configured here.
const DISCOVERED: &str = "lnetctl peer del --prim_nid 10.1.0.2@tcp; \
    lnetctl peer add --prim_nid 10.1.0.2@tcp --nid 10.2.0.2@tcp1";

/// A node does not start without a network.
const ANYTHING: &str = "net:\n- net type: tcp99\n  local NI(s):\n  - nid: 127.0.0.1@tcp99\n";

/// Two nodes with two cables between them, neither configured.
pub(crate) struct Site {
    nodes: Vec<Process>,
    lab: Lab,
    directory: TempDir,
}

fn is_up(lab: &Lab, room: &str, interface: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(["-n", &lab.namespace(room), "link", "show", interface]);
    let shown = command.output().unwrap().stdout;
    String::from_utf8(shown).unwrap().contains("state UP")
}

impl Site {
    /// `None`, with a message, where there can be no network namespaces.
    pub(crate) fn start() -> Option<Self> {
        let lab = Lab::build(&["vm1", "vm2"])?;
        for number in ["1", "2"] {
            let interface = format!("eth{}", if number == "1" { 0 } else { 1 });
            let near = format!("10.{number}.0.1/24");
            let far = format!("10.{number}.0.2/24");
            let end = |room, address| End {
                room,
                interface: &interface,
                address,
            };
            lab.connect([&end("vm1", near.as_str()), &end("vm2", far.as_str())]);
        }
        let directory = TempDir::with_prefix("finerail-test-").unwrap();
        let programs = directory.path().join("programs");
        fs::create_dir(&programs).unwrap();
        for name in ["lnetctl", "lctl"] {
            symlink(env!("CARGO_BIN_EXE_finerail"), programs.join(name)).unwrap();
        }
        let config = directory.path().join("empty.yaml");
        fs::write(&config, ANYTHING).unwrap();
        for (room, interface) in [
            ("vm1", "eth0"),
            ("vm1", "eth1"),
            ("vm2", "eth0"),
            ("vm2", "eth1"),
        ] {
            eventually("the cable is in", || {
                is_up(&lab, room, interface).then_some(())
            });
        }
        let mut site = Self {
            nodes: Vec::new(),
            lab,
            directory,
        };
        for name in ["vm1", "vm2"] {
            let node = site.start_node(name, &config);
            site.nodes.push(node);
            let emptied = site.shell(name, "lnetctl lnet unconfigure");
            assert_eq!(emptied, "[rc=0]\n");
        }
        Some(site)
    }

    fn start_node(&self, name: &str, config: &Path) -> Process {
        let control = format!("--control={}", self.socket(name).display());
        let config = format!("--config={}", config.display());
        self.lab.start(name, &["node", &config, &control])
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.sock"))
    }

    /// Gives the command as its administrator would: both outputs, and the line with the exit code.
    pub(crate) fn run(&self, exchange: &Exchange) -> String {
        let command = exchange.command.as_str();
        if command.starts_with("lnetctl lnet configure; ") {
            // The machine had been started anew.
            self.shell(&exchange.node, "lnetctl lnet unconfigure");
        }
        let printed = self.shell(&exchange.node, command);
        if command == "lnetctl udsp del --idx -1" {
            // By mistake a kernel node has deleted everything.
            self.shell(&exchange.node, "lnetctl udsp del --all");
        }
        let discovered = command.contains("lnetctl discover 10.1.0.2@tcp");
        if discovered && exchange.printed.contains("10.2.0.2@tcp1") {
            self.shell(&exchange.node, DISCOVERED);
        }
        printed
    }

    fn shell(&self, node: &str, words: &str) -> String {
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
