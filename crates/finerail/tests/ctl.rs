//! The commands of `lnetctl` on a running node: the output and the exit code of each.
//!
//! `ctl/transcript.txt` has the commands with both outputs and exit codes, in the layout of a terminal session.
//! `FINERAIL_OVERWRITE=1` writes the file anew.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod common;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::process::Process;
use common::site::Site;

const CONFIG: &str = "\
net:
- net type: tcp
  local NI(s):
  - nid: 127.0.0.1@tcp
";

const TRANSCRIPT: &str = "tests/ctl/transcript.txt";

#[test]
fn the_transcript_of_a_session_is_what_is_printed() {
    let (site, node) = node();
    let expected = fs::read_to_string(TRANSCRIPT).unwrap();
    let commands = expected
        .lines()
        .filter_map(|line| line.strip_prefix("### lnetctl"));
    let mut printed = String::new();
    for command in commands {
        printed += &session(&site, command);
    }
    node.stop();
    if env::var_os("FINERAIL_OVERWRITE").is_some() {
        fs::write(TRANSCRIPT, &printed).unwrap();
        return;
    }
    for (line, (printed, expected)) in printed.lines().zip(expected.lines()).enumerate() {
        assert_eq!(printed, expected, "line {} of {TRANSCRIPT}", line + 1);
    }
    assert_eq!(printed.lines().count(), expected.lines().count());
}

/// A command reports at once that no node listens, after a node was killed or if none was ever started.
#[test]
fn without_a_node_a_command_says_where_it_looked() {
    let (site, node) = node();
    node.stop();
    let said = session(&site, " net show");
    assert!(said.contains("no node is controlled at"), "{said}");
    assert!(said.ends_with("[rc=1]\n"), "{said}");
}

/// An exported configuration can be imported, from a file and from standard input.
#[test]
fn an_export_is_imported_again_by_another_node() {
    let (site, node) = node();
    session(
        &site,
        " peer add --prim_nid 127.0.0.5@tcp --nid 127.0.0.6@tcp",
    );
    session(&site, " udsp add --src tcp --priority 0");
    session(&site, " export --backup out.yaml");
    let before = session(&site, " export --backup");
    session(&site, " peer del --prim_nid 127.0.0.5@tcp");
    session(&site, " udsp del --all");
    let text = fs::read_to_string(site.path("out.yaml")).unwrap();
    let rest: String = section(&text, "peer") + &section(&text, "udsp");
    fs::write(site.path("rest.yaml"), rest).unwrap();
    assert!(session(&site, " import rest.yaml").ends_with("[rc=0]\n"));
    assert_eq!(session(&site, " export --backup"), before);
    node.stop();
}

fn node() -> (Site, Process) {
    let site = Site::new();
    site.write("node.yaml", CONFIG);
    let control = format!("--control={}", socket(&site).display());
    let command = site.command("node", &["node", &control]);
    let node = Process::start(command);
    node.wait_for_output("ready");
    (site, node)
}

fn socket(site: &Site) -> PathBuf {
    site.path("control.sock")
}

/// Returns one command with its output as a terminal shows them. Does not interpret quotes.
fn session(site: &Site, command: &str) -> String {
    let program = site.path("lnetctl");
    if !program.exists() {
        std::os::unix::fs::symlink(binary(), &program).unwrap();
    }
    let mut run = Command::new(&program);
    run.args(command.split_whitespace());
    run.env("FINERAIL_CONTROL", socket(site))
        .current_dir(site.path(""));
    let output = run
        .output()
        .unwrap_or_else(|error| panic!("{command}: {error}"));
    let code = output.status.code().unwrap_or(-1);
    let (out, err) = (output.stdout, output.stderr);
    let text = [out, err]
        .map(|bytes| String::from_utf8(bytes).unwrap())
        .concat();
    let text: String = text.lines().map(|line| timeless(line) + "\n").collect();
    format!("### lnetctl{command}\n{text}[rc={code}]\n")
}

/// Replaces latencies, which differ from run to run.
fn timeless(line: &str) -> String {
    let kinds = ["put_egress_", "get_rtt_", "put_ack_"];
    match line.split_once(": ") {
        Some((key, _)) if kinds.iter().any(|kind| key.trim_start().starts_with(kind)) => {
            format!("{key}: N")
        }
        _ => line.to_owned(),
    }
}

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_finerail"))
}

/// Returns a top-level section of a document.
fn section(text: &str, key: &str) -> String {
    let head = format!("{key}:");
    let from = text.lines().skip_while(|line| **line != head);
    let mut inside = from
        .clone()
        .skip(1)
        .take_while(|line| line.starts_with(['-', ' ']));
    let body: Vec<&str> = inside.by_ref().collect();
    format!("{head}\n{}\n", body.join("\n"))
}

/// Returns a reading of the node's counters and interfaces, in the format of a file.
fn reading(site: &Site) -> String {
    let printed = [" stats show", " net show -v 1"].map(|command| session(site, command));
    let printed = printed.concat();
    let lines = printed.lines();
    let lines = lines.filter(|line| !line.starts_with("###") && !line.starts_with("[rc="));
    // The session replaces latencies by N, but a reading needs numbers.
    let lines = lines.map(|line| line.replace(": N", ": 0"));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn what_was_counted_since_a_reading_is_shown() {
    let (site, node) = node();
    session(&site, " ping 127.0.0.1@tcp");
    let before = reading(&site);
    assert!(before.contains("get_rtt_avg_nsec"), "{before}");
    site.write("before.yaml", &before);
    let nothing = session(&site, " stats show --since before.yaml");
    assert!(nothing.contains("    send_count: 0\n"), "{nothing}");
    assert!(!nothing.contains("local NI(s)"), "{nothing}");
    session(&site, " ping 127.0.0.1@tcp");
    let since = session(&site, " stats show --since before.yaml");
    assert!(since.contains("    send_count: 2\n"), "{since}");
    assert!(since.contains("local NI(s)"), "{since}");
    session(&site, " stats reset");
    let zeroed = session(&site, " stats show --since before.yaml");
    assert!(zeroed.contains("a count is lower than before"), "{zeroed}");
    let end = before.find("send_length").unwrap();
    site.write("cut.yaml", before.get(..end).unwrap());
    let cut = session(&site, " stats show --since cut.yaml");
    assert!(
        cut.contains("cut.yaml lacks ") && cut.contains(" counters of the node, "),
        "{cut}"
    );
    site.write("cut-within.yaml", before.get(..end + 4).unwrap());
    let cut = session(&site, " stats show --since cut-within.yaml");
    assert!(cut.contains(" --> cut-within.yaml:"), "{cut}");
    for wrong in ["0", "missing.yaml", "node.yaml"] {
        let refused = session(&site, &format!(" stats show --since {wrong}"));
        assert!(!refused.ends_with("[rc=0]\n"), "{refused}");
    }
    node.stop();
}
