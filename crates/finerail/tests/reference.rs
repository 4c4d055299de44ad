//! Sessions of kernel nodes, repeated command by command on nodes with the same configuration.
//!
//! ```text
//!  ### vm1# lnetctl COMMAND         ─▶ the same words to our node vm1, in a network namespace with the
//!  what a kernel node printed          interfaces and addresses that the kernel node had
//!  [rc=N]                           ─▶ compared: keys in their order, indentation, quoting, exit code
//! ```
//!
//! Counters and times are compared by type only ([`normal`]). A command whose output differs must be listed
//! in [`DIFFERENCES`], and a listed command must differ. The differing lines are in `reference/differing`.
//! `FINERAIL_OVERWRITE=1` writes these files anew, and the table's section of `docs/lnetctl-differences.md`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

#[path = "reference/differences.rs"]
mod differences;
#[path = "reference/events.rs"]
mod events;
#[path = "reference/misbehaving.rs"]
mod misbehaving;
#[path = "reference/repeat.rs"]
mod repeat;
#[path = "reference/session.rs"]
mod session;
#[path = "reference/site.rs"]
mod site;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use self::differences::{DIFFERENCES, Difference, section};
use self::session::{Exchange, Part, normal, parts};
use self::site::{Fabric, Site};

const DOCS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/lnetctl-differences.md"
);

#[test]
fn a_session_of_pings_prints_the_same_here() {
    compare(&["a-ping.txt"], Fabric::Cables, 5);
}

#[test]
fn a_session_of_discovery_prints_the_same_here() {
    compare(&["b-discover.txt"], Fabric::Cables, 5);
}

#[test]
fn a_session_around_lst_prints_the_same_here() {
    compare(&["c-lst.txt"], Fabric::Cables, 1);
}

#[test]
fn a_session_of_nodes_behind_a_router_prints_the_same_here() {
    compare(&["d-routed.txt"], Fabric::Router, 5);
}

/// The second file continues where the first ended.
#[test]
fn a_session_of_every_show_and_of_errors_prints_the_same_here() {
    let files = ["e-show-export.txt", "e-errors-help.txt"];
    compare(&files, Fabric::Cables, 60);
}

#[test]
fn a_session_of_selection_policies_prints_the_same_here() {
    compare(&["f-udsp.txt"], Fabric::Cables, 30);
}

#[test]
fn a_session_with_a_link_that_goes_and_comes_prints_the_same_here() {
    compare_with(
        "g1-health.txt",
        Fabric::Switched,
        2,
        events::link_goes_and_comes,
    );
}

#[test]
fn a_session_with_a_router_that_goes_and_comes_prints_the_same_here() {
    compare_with(
        "k-router-down.txt",
        Fabric::Router,
        5,
        events::router_goes_and_comes,
    );
}

/// The results of the sessions.
#[derive(Default)]
struct Findings {
    /// Number of exchanges without a difference.
    same: usize,
    /// The differing lines of exchanges in the table.
    differing: String,
    /// Commands of the table that were executed and differ.
    met: BTreeSet<&'static str>,
    /// Exchanges that differ and are not in the table.
    unexplained: String,
}

impl Findings {
    fn add(&mut self, exchange: &Exchange, printed: &str) {
        let expected = exchange.compared(&exchange.printed);
        let printed = exchange.compared(printed);
        if expected == printed {
            self.same += 1;
            return;
        }
        let key = exchange.key();
        let head = format!("### {} {}\n", exchange.node, key);
        let Some((row, listed)) = listed(&key) else {
            self.unexplained += &format!("{head}kernel:\n{expected}here:\n{printed}\n");
            return;
        };
        self.met.insert(listed);
        if !row.text_only {
            self.differing += &format!("{head}{}\n", changes(&expected, &printed));
        } else if exit_code(&expected) != exit_code(&printed) {
            self.unexplained += &format!("{head}{expected}ends here with\n{printed}\n");
        }
    }
}

/// Returns the row of an exchange in the table, and its name there.
fn listed(key: &str) -> Option<(&'static Difference, &'static str)> {
    DIFFERENCES.iter().find_map(|row| {
        let command = row.commands.iter().find(|command| **command == key);
        command.map(|command| (row, *command))
    })
}

/// Returns the lines that only the kernel node's output has, and those that only ours has.
fn changes(expected: &str, printed: &str) -> String {
    let missing = |from: &str, other: &str, sign: &str| -> String {
        let lines = from
            .lines()
            .filter(|line| !other.lines().any(|other| other == *line));
        lines.map(|line| format!("{sign}{line}\n")).collect()
    };
    missing(expected, printed, "-") + &missing(printed, expected, "+")
}

fn exit_code(printed: &str) -> Option<&str> {
    printed.lines().next_back()
}

/// Executes the commands of a session on our nodes, and compares the outputs. Each file continues where the previous
/// one ended. At least `same` commands must print the same.
fn compare(files: &[&'static str], fabric: Fabric, same: usize) {
    let mut findings = Findings::default();
    let Some(site) = Site::start(fabric) else {
        return;
    };
    for file in files {
        let Some(parts) = parts(file) else {
            return;
        };
        for exchange in parts.iter().filter_map(|part| part.exchange(file)) {
            let printed = site.run(&exchange);
            findings.add(&exchange, &printed);
        }
    }
    findings.check(files, same);
}

/// Does the same as [`compare`], except for the parts that change with time: `in_time` handles these and returns
/// true.
fn compare_with(
    file: &'static str,
    fabric: Fabric,
    same: usize,
    in_time: impl Fn(&Site, &Part) -> bool,
) {
    let mut findings = Findings::default();
    let (Some(site), Some(parts)) = (Site::start(fabric), parts(file)) else {
        return;
    };
    for part in parts {
        if !in_time(&site, &part)
            && let Some(exchange) = part.exchange(file)
        {
            findings.add(&exchange, &site.run(&exchange));
        }
    }
    findings.check(&[file], same);
}

/// Returns the file with the differing lines of a session.
fn kept(file: &str) -> PathBuf {
    let name = format!("tests/reference/differing/{file}");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

impl Findings {
    fn check(&self, files: &[&str], same: usize) {
        assert!(self.unexplained.is_empty(), "{}", self.unexplained);
        assert!(self.same >= same, "only {} are the same", self.same);
        let ours = |command: &str| {
            let file = command.split_once(": ").map_or("", |(file, _)| file);
            files.iter().any(|own| own.trim_end_matches(".txt") == file)
        };
        let commands = DIFFERENCES.iter().flat_map(|row| row.commands);
        let stale: Vec<_> = commands
            .filter(|command| ours(command) && !self.met.contains(*command))
            .collect();
        assert!(stale.is_empty(), "these do not differ any more: {stale:#?}");
        let path = kept(files[0]);
        if env::var_os("FINERAIL_OVERWRITE").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &self.differing).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        for (line, (printed, kept)) in self.differing.lines().zip(kept.lines()).enumerate() {
            assert_eq!(printed, kept, "line {} of {}", line + 1, path.display());
        }
        assert_eq!(self.differing.lines().count(), kept.lines().count());
    }
}

#[test]
fn the_section_of_the_docs_is_that_of_the_table() {
    let docs = fs::read_to_string(DOCS).unwrap();
    let head = section().lines().next().unwrap().to_owned();
    let before = docs
        .split_once(&head)
        .map_or(docs.as_str(), |(before, _)| before);
    let made = before.to_owned() + &section();
    if env::var_os("FINERAIL_OVERWRITE").is_some() {
        fs::write(Path::new(DOCS), &made).unwrap();
        return;
    }
    assert!(docs == made, "FINERAIL_OVERWRITE=1 makes it anew");
}

#[test]
fn a_key_in_another_place_an_indentation_and_an_exit_code_are_differences() {
    let same = |left: &str, right: &str| normal(left) == normal(right);
    assert!(same(
        "      send_count: 3\n[rc=0]\n",
        "      send_count: 77\n[rc=0]\n"
    ));
    assert!(!same(
        "      send_count: 3\n[rc=0]\n",
        "      send_count: NA\n[rc=0]\n"
    ));
    assert!(!same("      send_count: 3\n", "     send_count: 3\n"));
    assert!(!same("a: 1\nb: 1\n", "b: 1\na: 1\n"));
    assert!(!same("CPT: \"[0]\"\n", "CPT: [0]\n"));
    assert!(!same("[rc=0]\n", "[rc=234]\n"));
}
