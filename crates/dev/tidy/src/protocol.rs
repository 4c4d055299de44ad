//! The rules of `docs/protocol`, who cites them, and the table of both.
//!
//! ```text
//! docs/protocol/*.md ── "- **[HELLO-7]** …" ──▶ rules ─────┐
//! crates/**/*.rs ────── "// [HELLO-7]" ───────▶ citations ─┼─▶ table, problems
//! crates/dev/tidy/protocol-gaps.txt ──────────────▶ gaps ──────┘
//! ```
//!
//! A citation is a rule's number in brackets in a comment, documentation included. In test code it names the test that
//! it stands in or directly above; in the table of `lnet-conform` it names the check of the next row.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, iter};

use anyhow::Context as _;

use crate::source::Source;
use crate::workspace::Workspace;

/// Where the rules stand, relative to the root.
pub const DIRECTORY: &str = "docs/protocol";
/// The generated table, in [`DIRECTORY`].
pub const TABLE: &str = "coverage.md";
/// The table of checks that `finerail conform` runs.
const CHECKS: &str = "crates/lnet/conform/src/checks/mod.rs";
/// Words that make a sentence a rule (RFC 2119).
const KEYWORDS: [&str; 3] = ["MUST", "SHOULD", "MAY"];
/// The fewest words that can be the reason of a gap.
const REASON_WORDS_MIN: usize = 4;
const HEAD: &str = "# Coverage

Made from the rules of this directory and the comments in the code by
`FINERAIL_REWRITE=1 cargo test -p tidy --test protocol`; do not edit.

A check is one of `finerail conform`, which asks a running node. A rule in *italics* is a known gap.
";

/// One rule of the specification.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProtocolRule {
    /// Its number, such as `HELLO-7`.
    pub id: String,
    /// The file that states it, without directory.
    pub file: String,
    /// Its sentence.
    pub text: String,
}

/// What a citation says of its rule.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Evidence {
    /// This file follows the rule.
    Code,
    /// This test holds it.
    Test,
    /// This check of `finerail conform` asks a node for it.
    Check,
}

/// One mention of a rule in a comment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Citation {
    /// The number of the rule.
    pub id: String,
    /// What it says.
    pub evidence: Evidence,
    /// The file or the name of the test or check.
    pub place: String,
    /// `path:line`, for messages.
    pub at: String,
}

/// A rule that is known to lack code or tests, with the reason.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Gap {
    /// The number of the rule.
    pub id: String,
    /// The line in the list of gaps, counted from 1.
    pub line: usize,
}

/// The specification, its citations and the known gaps.
#[derive(Debug, Default)]
pub struct Protocol {
    rules: Vec<ProtocolRule>,
    citations: Vec<Citation>,
    gaps: Vec<Gap>,
}

impl Protocol {
    /// Reads the rules below `root`, the citations of the workspace, and the list of gaps.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or a line of the list names no rule or has no reason.
    pub fn load(root: &Path, workspace: &Workspace, gaps: &str) -> anyhow::Result<Self> {
        let mut protocol = Self {
            gaps: parse_gaps(gaps)?,
            ..Self::default()
        };
        let directory = root.join(DIRECTORY);
        let entries = fs::read_dir(&directory).with_context(|| DIRECTORY.to_owned())?;
        let mut files = entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<anyhow::Result<Vec<_>>>()?;
        files.sort();
        for file in files
            .iter()
            .filter(|file| file.ends_with(".md") && *file != TABLE)
        {
            let text = fs::read_to_string(directory.join(file)).with_context(|| file.clone())?;
            protocol.rules.extend(rules(file, &text));
        }
        let of_crates =
            |source: &&Source| source.path.starts_with("crates/") && source.package != "tidy";
        for source in workspace.sources.iter().filter(of_crates) {
            protocol.citations.extend(citations(source));
        }
        Ok(protocol)
    }

    /// The text of the table.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = HEAD.to_owned();
        let mut file = "";
        for rule in &self.rules {
            if rule.file != file {
                file = &rule.file;
                let title = file.trim_end_matches(".md");
                let head = "| Rule | Code | Tests | Checks |\n|---|---|---|---|";
                let _ = writeln!(text, "\n## [{title}]({file})\n\n{head}");
            }
            let id = &rule.id;
            let name = if self.gaps.iter().any(|gap| gap.id == *id) {
                format!("*{id}*")
            } else {
                id.clone()
            };
            let cells = [Evidence::Code, Evidence::Test, Evidence::Check]
                .map(|evidence| self.places(id, evidence).join(", "));
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        }
        text
    }

    fn places(&self, id: &str, evidence: Evidence) -> Vec<String> {
        let fitting = self
            .citations
            .iter()
            .filter(|citation| citation.id == id && citation.evidence == evidence);
        let places: BTreeSet<&str> = fitting.map(|citation| citation.place.as_str()).collect();
        places
            .into_iter()
            .map(|place| format!("`{place}`"))
            .collect()
    }

    /// Everything that is wrong with the rules, the citations and the gaps, a line each.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut known: BTreeMap<&str, &ProtocolRule> = BTreeMap::new();
        for rule in &self.rules {
            let ProtocolRule { id, file, text } = rule;
            if known.insert(id, rule).is_some() {
                found.push(format!("{DIRECTORY}/{file}: [{id}] is there twice"));
            }
            if !text.split_whitespace().any(|word| KEYWORDS.contains(&word)) {
                found.push(format!(
                    "{DIRECTORY}/{file}: [{id}] has no MUST, SHOULD or MAY"
                ));
            }
        }
        for Citation { id, at, .. } in &self.citations {
            if !known.contains_key(id.as_str()) {
                found.push(format!("{at}: [{id}] is no rule of {DIRECTORY}"));
            }
        }
        for rule in &self.rules {
            found.extend(self.gap_problem(rule));
        }
        for Gap { id, line } in self
            .gaps
            .iter()
            .filter(|gap| !known.contains_key(gap.id.as_str()))
        {
            found.push(format!("protocol-gaps.txt:{line}: [{id}] is no rule"));
        }
        found
    }

    fn gap_problem(&self, rule: &ProtocolRule) -> Option<String> {
        let ProtocolRule { id, file, .. } = rule;
        let cited = |evidence: Evidence| {
            let mut all = self.citations.iter();
            all.any(|citation| citation.id == *id && citation.evidence == evidence)
        };
        let lacks = match (
            cited(Evidence::Code),
            cited(Evidence::Test) || cited(Evidence::Check),
        ) {
            (true, true) => None,
            (true, false) => Some("test"),
            (false, true) => Some("code"),
            (false, false) => Some("code and test"),
        };
        let gap = self.gaps.iter().find(|gap| gap.id == *id);
        match (lacks, gap) {
            (Some(lacks), None) => Some(format!("{DIRECTORY}/{file}: [{id}] lacks {lacks}")),
            (None, Some(gap)) => Some(format!(
                "protocol-gaps.txt:{}: [{id}] is no gap any more",
                gap.line
            )),
            _ => None,
        }
    }
}

/// A rule is a list item that begins with its number in bold brackets, and ends at an empty line or the next item.
fn rules(file: &str, text: &str) -> Vec<ProtocolRule> {
    let mut found: Vec<ProtocolRule> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        if let Some((id, text)) = line
            .strip_prefix("- **[")
            .and_then(|rest| rest.split_once("]** "))
        {
            found.push(ProtocolRule {
                id: id.to_owned(),
                file: file.to_owned(),
                text: text.to_owned(),
            });
            open = true;
        } else if open && line.starts_with("  ") {
            if let Some(rule) = found.last_mut() {
                rule.text.push(' ');
                rule.text.push_str(line.trim());
            }
        } else {
            open = false;
        }
    }
    found
}

fn citations(source: &Source) -> Vec<Citation> {
    let mut found = Vec::new();
    for (index, line) in source.lines.iter().enumerate() {
        let Some(comment) = line.trim().strip_prefix("//") else {
            continue;
        };
        for id in numbers(comment) {
            let (evidence, place) = place(source, index);
            found.push(Citation {
                id,
                evidence,
                place,
                at: format!("{}:{}", source.path, index + 1),
            });
        }
    }
    found
}

/// The numbers of rules in a comment: capital letters, a hyphen and digits in brackets.
fn numbers(comment: &str) -> Vec<String> {
    let inside = comment
        .split('[')
        .skip(1)
        .filter_map(|rest| rest.split_once(']'));
    let is_number = |text: &&str| {
        text.split_once('-').is_some_and(|(name, digits)| {
            let capitals = name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_uppercase());
            capitals && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    inside
        .map(|(text, _)| text)
        .filter(is_number)
        .map(str::to_owned)
        .collect()
}

fn place(source: &Source, index: usize) -> (Evidence, String) {
    let file = source.path.trim_start_matches("crates/");
    if source.path == CHECKS {
        let row = source.lines[index..]
            .iter()
            .find(|line| !line.trim().starts_with("//"));
        let name = row.and_then(|line| line.split('"').nth(1));
        return (Evidence::Check, name.unwrap_or(file).to_owned());
    }
    if !source.in_test(index + 1) {
        return (Evidence::Code, file.to_owned());
    }
    let name = test_below(source, index).or_else(|| test_around(source, index));
    let package = &source.package;
    let place = name.map_or_else(|| file.to_owned(), |name| format!("{package}: {name}"));
    (Evidence::Test, place)
}

/// The function that follows the comment, with nothing but comments and attributes between.
fn test_below(source: &Source, index: usize) -> Option<String> {
    let below = source.lines[index..].iter().map(|line| line.trim());
    let mut below = below.skip_while(|line| line.starts_with("//") || line.starts_with("#["));
    below.next().and_then(function)
}

/// The function that begins above.
fn test_around(source: &Source, index: usize) -> Option<String> {
    let mut above = source.lines[..index].iter().rev().map(|line| line.trim());
    above.find_map(function)
}

fn function(line: &str) -> Option<String> {
    let mut words = line.split([' ', '(', '<']).filter(|word| !word.is_empty());
    let before: Vec<&str> = words.by_ref().take_while(|word| *word != "fn").collect();
    let qualifiers = ["pub", "crate)", "super)", "async", "const"];
    let plain = before.iter().all(|word| qualifiers.contains(word));
    if plain {
        words.next().map(str::to_owned)
    } else {
        None
    }
}

/// Reads the list of gaps: a number and the reason in each line; empty lines and lines with `#` are comments.
fn parse_gaps(text: &str) -> anyhow::Result<Vec<Gap>> {
    let lines = iter::zip(1.., text.lines().map(str::trim));
    let kept = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let parsed = kept.map(|(line, text)| {
        let mut words = text.split_whitespace();
        let id = words.next().unwrap_or_default().to_owned();
        anyhow::ensure!(
            words.count() >= REASON_WORDS_MIN,
            "protocol-gaps.txt:{line}: no reason"
        );
        Ok(Gap { id, line })
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::source;

    const RULES: &str =
        "Text.\n\n- **[REQ-1]** A node MUST a.\n- **[REQ-2]** A node MAY\n  b.\n\nMore.\n";
    const CODE: &str = "// [REQ-1]\nfn a() {}\n";
    const TEST: &str = "/// Holds a rule: [REQ-1].\n#[test]\nfn a_is_done() {}\n";

    fn protocol(files: &[(&str, &str)], gaps: &str) -> Protocol {
        let sources = files.iter().map(|(path, text)| source(path, text));
        Protocol {
            rules: rules("a.md", RULES),
            citations: sources.flat_map(|source| citations(&source)).collect(),
            gaps: parse_gaps(gaps).unwrap(),
        }
    }

    const GAP: &str = "REQ-2 nobody has written this yet\n";
    const BOTH: [(&str, &str); 2] = [("crates/a/src/b.rs", CODE), ("crates/a/tests/c.rs", TEST)];

    #[test]
    fn a_rule_is_an_item_with_a_number_and_goes_on_in_indented_lines() {
        let found = rules("a.md", RULES);
        let texts: Vec<_> = found.iter().map(|rule| rule.text.as_str()).collect();
        assert_eq!(texts, ["A node MUST a.", "A node MAY b."]);
    }

    #[test]
    fn a_rule_with_code_and_test_and_a_known_gap_are_no_problem() {
        assert_eq!(protocol(&BOTH, GAP).problems(), Vec::<String>::new());
    }

    #[test]
    fn a_rule_that_lacks_code_or_test_is_a_problem() {
        let found = protocol(&BOTH[..1], "").problems();
        assert_eq!(
            found,
            [
                "docs/protocol/a.md: [REQ-1] lacks test",
                "docs/protocol/a.md: [REQ-2] lacks code and test"
            ]
        );
    }

    #[test]
    fn a_gap_that_is_closed_or_names_no_rule_is_a_problem() {
        let list =
            format!("{GAP}REQ-1 nobody has written this yet\nREQ-9 nobody has written this yet\n");
        let found = protocol(&BOTH, &list).problems();
        assert_eq!(
            found,
            [
                "protocol-gaps.txt:2: [REQ-1] is no gap any more",
                "protocol-gaps.txt:3: [REQ-9] is no rule"
            ]
        );
        assert!(parse_gaps("REQ-1 no reason\n").is_err());
    }

    #[test]
    fn a_citation_of_no_rule_is_a_problem_and_other_brackets_are_not() {
        let text = "// [REQ-3]\nfn a() {} // see [A-1], [REQ-x] and [`Vec`]\n";
        let found = protocol(&[("crates/a/src/b.rs", text)], "").problems();
        assert_eq!(
            found[0],
            "crates/a/src/b.rs:1: [REQ-3] is no rule of docs/protocol"
        );
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_number_that_is_used_twice_and_a_sentence_without_keyword_are_problems() {
        let mut protocol = protocol(&BOTH, GAP);
        protocol
            .rules
            .extend(rules("b.md", "- **[REQ-2]** A node does b.\n"));
        assert_eq!(
            protocol.problems(),
            [
                "docs/protocol/b.md: [REQ-2] is there twice",
                "docs/protocol/b.md: [REQ-2] has no MUST, SHOULD or MAY"
            ]
        );
    }

    #[test]
    fn a_citation_names_the_test_below_it_or_around_it() {
        let text = "fn first() {\n    // [REQ-1]\n    b();\n}\n// [REQ-2]\n#[test]\npub(crate) fn second() {}\n";
        let source = source("crates/a/tests/c.rs", text);
        let places: Vec<_> = citations(&source)
            .into_iter()
            .map(|found| found.place)
            .collect();
        assert_eq!(places, ["planted: first", "planted: second"]);
    }

    #[test]
    fn a_citation_in_the_table_of_checks_names_the_check() {
        let source = source(
            CHECKS,
            "fn f() {\n    // [REQ-1] [REQ-2]\n    safe(\"name\", \"2.3\");\n}\n",
        );
        let found = citations(&source);
        assert!(
            found
                .iter()
                .all(|found| found.evidence == Evidence::Check && found.place == "name")
        );
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn the_table_has_a_row_for_each_rule_and_marks_gaps() {
        let table = protocol(&BOTH, GAP).table();
        assert!(
            table.contains("| REQ-1 | `a/src/b.rs` | `planted: a_is_done` |  |"),
            "{table}"
        );
        assert!(table.contains("| *REQ-2* |  |  |  |"), "{table}");
    }
}
