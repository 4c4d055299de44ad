//! Reads a session, and reduces its output to the parts that are compared.

use std::fs;

use crate::repeat::repeated;

/// A command and its output.
pub(crate) struct Exchange {
    pub(crate) file: &'static str,
    /// The node on which the command was executed.
    pub(crate) node: String,
    pub(crate) command: String,
    /// Both outputs as on a terminal, and the line with the exit code.
    pub(crate) printed: String,
    /// Whether programs between ours were left out, so that only documents are compared.
    pub(crate) in_part: bool,
    /// Whether a program at the end was left out, so that the exit code belongs to it.
    pub(crate) foreign_end: bool,
}

/// Limit of the characters that identify a command in the table.
const KEY_MAX: usize = 120;

impl Exchange {
    /// Returns the parts of an output of this command that are compared, including the exit code.
    pub(crate) fn compared(&self, printed: &str) -> String {
        let (text, code) = printed.rsplit_once("[rc=").unwrap_or((printed, ""));
        let text = if self.in_part {
            documents(text)
        } else {
            text.to_owned()
        };
        if self.foreign_end {
            return normal(&text);
        }
        normal(&format!("{text}[rc={code}"))
    }

    /// Returns the name of the exchange in the table of differences: its file and the begin of its command.
    pub(crate) fn key(&self) -> String {
        let file = self.file.trim_end_matches(".txt");
        let words: Vec<&str> = self.command.split_whitespace().collect();
        let command = words.join(" ");
        let cut = command.floor_char_boundary(KEY_MAX);
        let more = if cut < command.len() { " …" } else { "" };
        format!("{file}: {}{more}", command[..cut].trim_end())
    }
}

/// A command in a file, and all text below it.
pub(crate) struct Part {
    pub(crate) node: String,
    pub(crate) command: String,
    pub(crate) below: String,
}

/// Returns the parts of a file. If the file is absent, prints a message and returns `None`.
pub(crate) fn parts(file: &str) -> Option<Vec<Part>> {
    let path = testkit::shared_data(format!("lnetctl/{file}"))?;
    let text = fs::read_to_string(path).unwrap();
    let parts = format!("\n{text}");
    Some(parts.split("\n### ").skip(1).filter_map(part).collect())
}

fn part(text: &str) -> Option<Part> {
    let (node, rest) = text.split_once("# ")?;
    // A here-document is below its command.
    let head = match rest.find("<<E").and_then(|_| rest.find("\nE\n")) {
        Some(end) => end + "\nE\n".len(),
        None => 0,
    };
    let head = rest[head..].find('\n').map_or(rest.len(), |end| head + end);
    let (command, below) = rest.split_at(head);
    Some(Part {
        node: node.to_owned(),
        command: command.to_owned(),
        below: below.trim_start_matches('\n').to_owned(),
    })
}

impl Part {
    /// Returns the exchange that can be repeated in user space.
    pub(crate) fn exchange(&self, file: &'static str) -> Option<Exchange> {
        let end = self.below.find("[rc=")?;
        let line = self.below[end..].lines().next()?;
        // The test runs in a directory of its own, so its files must not be in /tmp.
        let command = repeated(&self.command.replace("/tmp/", ""))?;
        let printed = self.below[..end].replace("/tmp/", "");
        Some(Exchange {
            file,
            node: self.node.clone(),
            command: command.command,
            printed: format!("{printed}{line}\n"),
            in_part: command.in_part,
            foreign_end: command.foreign_end,
        })
    }
}

/// Returns the documents in an output, without the lines of other programs.
pub(crate) fn documents(printed: &str) -> String {
    let begins = |line: &str| {
        let key = line.strip_suffix(':');
        line == "---" || key.is_some_and(|key| key.chars().all(|c| c.is_ascii_lowercase()))
    };
    let mut inside = false;
    let lines = printed.lines().filter(|line| {
        inside = begins(line) || inside && (line.starts_with([' ', '-']) || *line == "...");
        // The outputs of the older tool are not documents.
        inside || line.starts_with("failed to ping ") || line.parse::<lnet_types::Nid>().is_ok()
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns an output for comparison: replaces counters, times and other values that depend on the moment by their
/// type.
pub(crate) fn normal(printed: &str) -> String {
    let lines = printed.lines().filter(|line| !is_noise(line));
    lines.map(|line| normal_line(line) + "\n").collect()
}

/// Returns whether a line is not compared. Other programs print how long a command took, and `net add` shows Linux
/// routes. The nodes here ping their gateways more often than usual, and show this setting. They also print
/// latencies, like releases after the recorded ones.
fn is_noise(line: &str) -> bool {
    let timed = ["real\t", "user\t", "sys\t"]
        .iter()
        .any(|word| line.starts_with(word));
    let is_unusual = line
        .trim_start()
        .starts_with("alive_router_check_interval: ");
    timed
        || is_unusual
        || is_latency(line)
        || line.trim().is_empty()
        || line.contains("proto kernel scope link")
}

fn is_latency(line: &str) -> bool {
    let key = line.trim_start();
    ["put_egress_", "get_rtt_", "put_ack_"]
        .iter()
        .any(|kind| key.starts_with(kind))
}

fn normal_line(line: &str) -> String {
    let Some((key, value)) = line.split_once(": ") else {
        return line.trim_end().to_owned();
    };
    if name_of(key) == "state" && ["up", "down"].contains(&value.trim()) {
        // The state depends on whether the gateway was pinged already.
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
