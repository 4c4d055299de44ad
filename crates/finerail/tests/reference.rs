//! Sessions of kernel nodes, command by command, on nodes configured alike.
//!
//! ```text
//!  ### vm1# lnetctl COMMAND         ─▶ the same words to our node vm1, in a network namespace with the
//!  what a kernel node printed          interfaces and addresses that the kernel node had
//!  [rc=N]                           ─▶ compared: keys in their order, indentation, quoting, exit code
//! ```
//!
//! Counters and times are compared by type only ([`normal`]). A command whose output differs must stand
//! in [`DIFFERENCES`], and one that stands there must differ; the lines in which they differ are kept in
//! `reference/differing.txt`. `FINERAIL_OVERWRITE=1` writes that file anew, and the table's section of
//! `docs/lnetctl-differences.md`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

#[path = "reference/differences.rs"]
mod differences;
#[path = "reference/session.rs"]
mod session;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;

use self::differences::{DIFFERENCES, Difference, section};
use self::session::{Exchange, Site, exchanges, normal};

/// The files of a session: later ones go on where the one before ended.
const SESSIONS: [&[&str]; 4] = [
    &["a-ping.txt"],
    &["b-discover.txt"],
    &["e-show-export.txt", "e-errors-help.txt"],
    &["f-udsp.txt"],
];

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference/differing.txt");
const DOCS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/lnetctl-differences.md"
);

/// What came of the sessions.
#[derive(Default)]
struct Findings {
    /// Exchanges that are the same.
    same: usize,
    /// The lines in which they differ, of those that stand in the table.
    differing: String,
    /// Commands of the table that were met and differ.
    met: BTreeSet<&'static str>,
    /// Those that differ and do not stand there.
    unexplained: String,
}

impl Findings {
    fn add(&mut self, exchange: &Exchange, printed: &str) {
        let expected = normal(&exchange.printed);
        let printed = normal(printed);
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

/// The row of an exchange, and its name there.
fn listed(key: &str) -> Option<(&'static Difference, &'static str)> {
    DIFFERENCES.iter().find_map(|row| {
        let command = row.commands.iter().find(|command| **command == key);
        command.map(|command| (row, *command))
    })
}

/// Lines of a kernel node's output that ours has not, and the other way round.
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

#[test]
fn sessions_of_kernel_nodes_print_the_same_here_but_for_the_differences_that_are_listed() {
    let Some(findings) = run() else { return };
    if let Some(path) = env::var_os("FINERAIL_UNEXPLAINED") {
        fs::write(path, &findings.unexplained).unwrap();
    }
    assert!(findings.unexplained.is_empty(), "{}", findings.unexplained);
    assert!(findings.same > 100, "only {} are the same", findings.same);
    let commands = DIFFERENCES.iter().flat_map(|row| row.commands);
    let stale: Vec<_> = commands
        .filter(|command| !findings.met.contains(*command))
        .collect();
    assert!(stale.is_empty(), "these do not differ any more: {stale:#?}");
    if env::var_os("FINERAIL_OVERWRITE").is_some() {
        fs::write(KEPT, &findings.differing).unwrap();
    }
    let kept = fs::read_to_string(KEPT).unwrap();
    for (line, (printed, kept)) in findings.differing.lines().zip(kept.lines()).enumerate() {
        assert_eq!(printed, kept, "line {} of {KEPT}", line + 1);
    }
    assert_eq!(findings.differing.lines().count(), kept.lines().count());
}

fn run() -> Option<Findings> {
    let mut findings = Findings::default();
    for files in SESSIONS {
        let site = Site::start()?;
        for file in files {
            for exchange in exchanges(file)? {
                let printed = site.run(&exchange);
                findings.add(&exchange, &printed);
            }
        }
    }
    Some(findings)
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
