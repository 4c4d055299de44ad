//! The rules of the specifications `docs/protocol`, `docs/selection` and `docs/bmi`, who cites them, and a table of both
//! for each.
//!
//! ```text
//! docs/*/*.md ──────── "- **[HELLO-7]** …" ──▶ rules ─────┐
//! docs/*-cases.md ──── case ──▶ tests ───────▶ cases ─────┤
//! docs/bmi-requirements.md ── R ──▶ tests ───▶ cases ─────┤
//! crates/**/*.rs ───── "// [HELLO-7]" ───────▶ citations ─┼─▶ tables, problems
//! crates/dev/tidy/*-gaps.txt ────────────────────▶ gaps ──────┘
//! ```
//!
//! A citation is a rule's number in brackets in a comment, documentation included. In test code it names the test that
//! it stands in or directly above; in the table of `lnet-conform` it names the check of the next row. A rule of
//! `docs/selection` ends with its class and may name the cases that test it: `K; T-S05, T-S06`. Those of a rule of
//! `docs/bmi` are requirements: `D; R15, R29`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, iter};

use anyhow::Context as _;

use crate::source::Source;
use crate::workspace::Workspace;

/// A directory of rules.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Specification {
    /// Where the rules stand, relative to the root.
    pub directory: &'static str,
    /// The list of known gaps, in `crates/dev/tidy`.
    pub gaps: &'static str,
    /// The classes, one of which ends each rule; empty if rules have none.
    classes: &'static [&'static str],
    /// The first lines of the table.
    head: &'static str,
}

/// Every directory of rules. A rule's number is there once in all of them.
pub const SPECIFICATIONS: [Specification; 3] = [
    Specification {
        directory: "docs/protocol",
        gaps: "protocol-gaps.txt",
        classes: &[],
        head: "# Coverage

Made from the rules of this directory and the comments in the code by
`FINERAIL_REWRITE=1 cargo test -p tidy --test specifications`; do not edit.

A check is one of `finerail conform`, which asks a running node. A rule in *italics* is a known gap.
",
    },
    Specification {
        directory: "docs/selection",
        gaps: "selection-gaps.txt",
        classes: &["K", "O", "F"],
        head: "# Coverage

Made from the rules of this directory, the cases that they name, and the comments in the code by
`FINERAIL_REWRITE=1 cargo test -p tidy --test specifications`; do not edit.

A rule in *italics* is a known gap.
",
    },
    Specification {
        directory: "docs/bmi",
        gaps: "bmi-gaps.txt",
        classes: &["D", "O", "F"],
        head: "# Coverage

Made from the rules of this directory, the requirements that they name, and the comments in the code by
`FINERAIL_REWRITE=1 cargo test -p tidy --test specifications`; do not edit.

A rule in *italics* is a known gap.
",
    },
];
/// The generated table, in each directory of rules.
pub const TABLE: &str = "coverage.md";
/// The tables of cases with their tests, which tests of `lnet-core` and of `zoid` keep up to date.
const CASES: [&str; 3] = [
    "docs/selection-cases.md",
    "docs/configuration-cases.md",
    "docs/bmi-requirements.md",
];
/// The tables of checks that `finerail conform` runs.
const CHECKS: [&str; 2] = [
    "crates/lnet/conform/src/checks/mod.rs",
    "crates/lnet/conform/src/o2ib/checks.rs",
];
/// The file of rules that no kernel node has confirmed yet.
const UNCONFIRMED: &str = "o2ib.md";
/// Tests that every method of BMI runs; they are no test code, because other crates call them.
const SUITE: &str = "crates/bmi/bmi/src/conformance/";
/// Words that make a sentence a rule (RFC 2119).
const KEYWORDS: [&str; 3] = ["MUST", "SHOULD", "MAY"];
/// The fewest words that can be the reason of a gap.
const REASON_WORDS_MIN: usize = 4;

/// One rule of a specification.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SpecifiedRule {
    /// The specification that it belongs to.
    pub specification: &'static Specification,
    /// Its number, such as `HELLO-7`.
    pub id: String,
    /// The file that states it, without directory.
    pub file: String,
    /// Its sentence.
    pub text: String,
}

impl SpecifiedRule {
    fn place(&self) -> String {
        format!("{}/{}", self.specification.directory, self.file)
    }

    /// Returns the class and the cases at the end of the rule; `None` if it has no class.
    fn class_and_cases(&self) -> Option<(&str, Vec<&str>)> {
        let (rest, cases) = match self.text.rsplit_once("; ") {
            Some((rest, cases)) if cases.split(", ").all(is_case) => {
                (rest, cases.split(", ").collect())
            }
            _ => (self.text.as_str(), Vec::new()),
        };
        let class = rest.rsplit(' ').next()?;
        let classes = self.specification.classes;
        classes.contains(&class).then_some((class, cases))
    }

    fn cases(&self) -> Vec<&str> {
        self.class_and_cases()
            .map(|(_, cases)| cases)
            .unwrap_or_default()
    }
}

/// Matches the ID of a case, such as `T-S05`, `T-H03s`, `W2`, `P13`, and of a requirement, such as `R7`.
fn is_case(text: &str) -> bool {
    let number = match text.strip_prefix("T-") {
        Some(rest) => rest.strip_prefix(|c: char| c.is_ascii_uppercase()),
        None => text.strip_prefix(['W', 'P', 'R']),
    };
    number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
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
    /// The list that it stands in.
    pub list: &'static str,
    /// The number of the rule.
    pub id: String,
    /// The line in the list of gaps, counted from 1.
    pub line: usize,
}

/// The rules, their citations and cases, and the known gaps.
#[derive(Debug, Default)]
pub struct Specifications {
    rules: Vec<SpecifiedRule>,
    citations: Vec<Citation>,
    /// The tests of each case.
    cases: BTreeMap<String, Vec<String>>,
    gaps: Vec<Gap>,
}

impl Specifications {
    /// Reads the rules, the cases and the lists of gaps below `root`, and the citations of the workspace.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or a line of a list of gaps has no reason.
    pub fn load(root: &Path, workspace: &Workspace) -> anyhow::Result<Self> {
        let read =
            |path: &str| fs::read_to_string(root.join(path)).with_context(|| path.to_owned());
        let mut all = Self::default();
        for specification in &SPECIFICATIONS {
            let Specification {
                directory, gaps, ..
            } = specification;
            for file in files(&root.join(directory)).with_context(|| *directory)? {
                let text = read(&format!("{directory}/{file}"))?;
                all.rules.extend(rules(specification, &file, &text));
            }
            let list = read(&format!("crates/dev/tidy/{gaps}"))?;
            all.gaps.extend(parse_gaps(gaps, &list)?);
        }
        for table in CASES {
            all.cases.extend(cases(&read(table)?));
        }
        let of_crates =
            |source: &&Source| source.path.starts_with("crates/") && source.package != "tidy";
        for source in workspace.sources.iter().filter(of_crates) {
            all.citations.extend(citations(source));
        }
        all.cite_cases();
        Ok(all)
    }

    /// Adds the tests of the cases that a rule names to the citations of the rule.
    fn cite_cases(&mut self) {
        for rule in &self.rules {
            let tests = rule
                .cases()
                .into_iter()
                .filter_map(|case| self.cases.get(case));
            self.citations.extend(tests.flatten().map(|test| Citation {
                id: rule.id.clone(),
                evidence: Evidence::Test,
                place: test.clone(),
                at: rule.place(),
            }));
        }
    }

    /// The text of the table of one specification.
    #[must_use]
    pub fn table(&self, of: &Specification) -> String {
        let mut text = of.head.to_owned();
        let mut file = "";
        for rule in self.rules.iter().filter(|rule| rule.specification == of) {
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
        if text.contains(&format!("]({UNCONFIRMED})")) {
            text.push_str(&self.unconfirmed());
        }
        text
    }

    /// Says of the rules that no kernel node has confirmed how one could: by the checks, or by nothing but a capture.
    fn unconfirmed(&self) -> String {
        let rules = self.rules.iter().filter(|rule| rule.file == UNCONFIRMED);
        let (asked, seen): (Vec<_>, Vec<_>) =
            rules.partition(|rule| !self.places(&rule.id, Evidence::Check).is_empty());
        let listed = |rules: Vec<&SpecifiedRule>| {
            let ids: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
            ids.join(", ")
        };
        format!(
            "\n## Not confirmed by a kernel node\n\nNo kernel node over RDMA was at hand: only Finerail's own two ends have \
             confirmed the rules of [o2ib]({UNCONFIRMED}), all of them.\n\n- The checks of `finerail conform` can ask a kernel \
             node for: {}.\n- A capture of a kernel node's traffic, which `finerail dump --strict` judges, or a fault at its \
             machine must show: {}.\n",
            listed(asked),
            listed(seen)
        )
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
        let mut known: BTreeSet<&str> = BTreeSet::new();
        for rule in &self.rules {
            if !known.insert(&rule.id) {
                found.push(format!("{}: [{}] is there twice", rule.place(), rule.id));
            }
            found.extend(self.text_problems(rule));
        }
        for Citation { id, at, .. } in &self.citations {
            if !known.contains(id.as_str()) {
                found.push(format!("{at}: [{id}] is no rule"));
            }
        }
        for rule in &self.rules {
            found.extend(self.gap_problem(rule));
        }
        let mut gaps = self.gaps.iter();
        let unknown = gaps.by_ref().filter(|gap| !known.contains(gap.id.as_str()));
        found.extend(
            unknown.map(|Gap { list, id, line }| format!("{list}:{line}: [{id}] is no rule")),
        );
        found
    }

    /// What is wrong with the sentence of a rule.
    fn text_problems(&self, rule: &SpecifiedRule) -> Vec<String> {
        let (place, id) = (rule.place(), &rule.id);
        let mut found = Vec::new();
        if !rule
            .text
            .split_whitespace()
            .any(|word| KEYWORDS.contains(&word))
        {
            found.push(format!("{place}: [{id}] has no MUST, SHOULD or MAY"));
        }
        if !rule.specification.classes.is_empty() && rule.class_and_cases().is_none() {
            found.push(format!("{place}: [{id}] has no class"));
        }
        let unknown = |case: &&str| !self.cases.contains_key(*case);
        for case in rule.cases().into_iter().filter(unknown) {
            found.push(format!("{place}: [{id}] names {case}, which no test has"));
        }
        found
    }

    fn gap_problem(&self, rule: &SpecifiedRule) -> Option<String> {
        let id = &rule.id;
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
            (Some(lacks), None) => Some(format!("{}: [{id}] lacks {lacks}", rule.place())),
            (None, Some(gap)) => Some(format!(
                "{}:{}: [{id}] is no gap any more",
                gap.list, gap.line
            )),
            _ => None,
        }
    }
}

/// Returns the names of the files with rules in a directory, in order.
fn files(directory: &Path) -> anyhow::Result<Vec<String>> {
    let names =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<anyhow::Result<Vec<_>>>()?;
    names.retain(|name| name.ends_with(".md") && name != TABLE);
    names.sort();
    Ok(names)
}

/// Reads a table of cases, `| T-S01 | both | lnet-core: `t_s01_x` |`, or of requirements,
/// `| R7 | lines | what | parties | [`r07_x`](../crates/bmi/zoid/…) |`. A row without ID has another test of the case
/// above.
fn cases(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut last = "";
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (id, test) = match cells.as_slice() {
            [_, id, _, test, _] => (id, Some(test.replace('`', ""))),
            [_, id, _, _, _, test, _] => (id, linked_test(test)),
            _ => continue,
        };
        last = if id.is_empty() { last } else { id };
        if let Some(test) = test.filter(|_| is_case(last)) {
            found.entry(last.to_owned()).or_default().push(test);
        }
    }
    found
}

/// Returns the package and the name of a test that is a link to its file below `crates/bmi`.
fn linked_test(link: &str) -> Option<String> {
    let (name, path) = link.strip_prefix("[`")?.split_once("`](")?;
    let package = path.split('/').skip_while(|part| *part != "bmi").nth(1)?;
    Some(format!("{package}: {name}"))
}

/// A rule is a list item that begins with its number in bold brackets, and ends at an empty line or the next item.
fn rules(specification: &'static Specification, file: &str, text: &str) -> Vec<SpecifiedRule> {
    let mut found: Vec<SpecifiedRule> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        if let Some((id, text)) = line
            .strip_prefix("- **[")
            .and_then(|rest| rest.split_once("]** "))
        {
            found.push(SpecifiedRule {
                specification,
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
        for id in numbers(comment).into_iter().chain(section(comment)) {
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

/// A section that a comment cites: of a text that nobody has, unless it is an RFC's.
fn section(comment: &str) -> Option<String> {
    let mut words = comment
        .split([' ', '('])
        .skip_while(|word| !word.starts_with("section"));
    let number = words
        .nth(1)
        .filter(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    number.filter(|_| !comment.contains("RFC")).map(|number| {
        format!(
            "section {}",
            number.trim_end_matches(|last: char| !last.is_ascii_digit())
        )
    })
}

fn place(source: &Source, index: usize) -> (Evidence, String) {
    let file = source.path.trim_start_matches("crates/");
    if CHECKS.contains(&source.path.as_str()) {
        let row = source.lines[index..]
            .iter()
            .find(|line| !line.trim().starts_with("//"));
        let name = row.and_then(|line| line.split('"').nth(1));
        return (Evidence::Check, name.unwrap_or(file).to_owned());
    }
    if !source.in_test(index + 1) && !source.path.starts_with(SUITE) {
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
fn parse_gaps(list: &'static str, text: &str) -> anyhow::Result<Vec<Gap>> {
    let lines = iter::zip(1.., text.lines().map(str::trim));
    let kept = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let parsed = kept.map(|(line, text)| {
        let mut words = text.split_whitespace();
        let id = words.next().unwrap_or_default().to_owned();
        anyhow::ensure!(
            words.count() >= REASON_WORDS_MIN,
            "{list}:{line}: no reason"
        );
        Ok(Gap { list, id, line })
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

    const PROTOCOL: &Specification = &SPECIFICATIONS[0];
    const SELECTION: &Specification = &SPECIFICATIONS[1];
    const BMI: &Specification = &SPECIFICATIONS[2];

    fn protocol(files: &[(&str, &str)], gaps: &str) -> Specifications {
        let sources = files.iter().map(|(path, text)| source(path, text));
        Specifications {
            rules: rules(PROTOCOL, "a.md", RULES),
            citations: sources.flat_map(|source| citations(&source)).collect(),
            cases: BTreeMap::new(),
            gaps: parse_gaps(PROTOCOL.gaps, gaps).unwrap(),
        }
    }

    /// The rules of a file of `docs/selection`, with code and without gaps.
    fn selection(text: &str, table: &str) -> Specifications {
        let mut all = Specifications {
            rules: rules(SELECTION, "a.md", text),
            citations: citations(&source("crates/a/src/b.rs", "// [PATH-1]\nfn a() {}\n")),
            cases: cases(table),
            gaps: Vec::new(),
        };
        all.cite_cases();
        all
    }

    const GAP: &str = "REQ-2 nobody has written this yet\n";
    const BOTH: [(&str, &str); 2] = [("crates/a/src/b.rs", CODE), ("crates/a/tests/c.rs", TEST)];

    #[test]
    fn a_rule_is_an_item_with_a_number_and_goes_on_in_indented_lines() {
        let found = rules(PROTOCOL, "a.md", RULES);
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
        assert!(parse_gaps(PROTOCOL.gaps, "REQ-1 no reason\n").is_err());
    }

    #[test]
    fn a_citation_of_no_rule_is_a_problem_and_other_brackets_are_not() {
        let text = "// [REQ-3]\nfn a() {} // see [A-1], [REQ-x] and [`Vec`]\n";
        let found = protocol(&[("crates/a/src/b.rs", text)], "").problems();
        assert_eq!(found[0], "crates/a/src/b.rs:1: [REQ-3] is no rule");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_citation_of_a_section_is_a_problem_unless_it_is_of_an_rfc() {
        let text = "// As in section 3.4).\n/// (RFC 1122, section 3.2), a section of 3 lines.\nfn a() {}\n";
        let found = protocol(&[("crates/a/src/b.rs", text)], "").problems();
        assert_eq!(found[0], "crates/a/src/b.rs:1: [section 3.4] is no rule");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_number_that_is_used_twice_and_a_sentence_without_keyword_are_problems() {
        let mut protocol = protocol(&BOTH, GAP);
        protocol
            .rules
            .extend(rules(PROTOCOL, "b.md", "- **[REQ-2]** A node does b.\n"));
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
            CHECKS[0],
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
        let table = protocol(&BOTH, GAP).table(PROTOCOL);
        assert!(
            table.contains("| REQ-1 | `a/src/b.rs` | `planted: a_is_done` |  |"),
            "{table}"
        );
        assert!(table.contains("| *REQ-2* |  |  |  |"), "{table}");
    }

    #[test]
    fn rules_that_no_kernel_node_has_confirmed_are_listed_by_how_one_could() {
        let check = source(
            CHECKS[1],
            "fn f() {\n    // [REQ-2]\n    safe(\"name\", \"x\");\n}\n",
        );
        let all = Specifications {
            rules: rules(PROTOCOL, UNCONFIRMED, RULES),
            citations: citations(&check),
            cases: BTreeMap::new(),
            gaps: Vec::new(),
        };
        let table = all.table(PROTOCOL);
        assert!(table.contains("| REQ-2 |  |  | `name` |"), "{table}");
        assert!(
            table.contains("can ask a kernel node for: REQ-2.\n"),
            "{table}"
        );
        assert!(table.contains("must show: REQ-1.\n"), "{table}");
        assert!(!protocol(&BOTH, GAP).table(PROTOCOL).contains("kernel node"));
    }

    const TABLE_OF_CASES: &str = "| ID | Profile | Test |\n|---|---|---|\n\
        | T-S01 | both | lnet-core: `t_s01_a` |\n|  | any | lnet-policy: `t_s01_b` |\n\
        | T-H03s | design | lnet-core: `t_h03s_c` |\n| P1 | design | lnet-core: `p1_d` |\n";

    #[test]
    fn the_cases_that_a_rule_names_are_its_tests() {
        let all = selection(
            "- **[PATH-1]** A node MUST a; b. K; T-S01,\n  T-H03s, P1\n",
            TABLE_OF_CASES,
        );
        assert_eq!(all.problems(), Vec::<String>::new());
        let table = all.table(SELECTION);
        let row = "| PATH-1 | `a/src/b.rs` | `lnet-core: p1_d`, `lnet-core: t_h03s_c`, \
                   `lnet-core: t_s01_a`, `lnet-policy: t_s01_b` |  |";
        assert!(table.contains(row), "{table}");
        assert!(!all.table(PROTOCOL).contains("PATH-1"));
    }

    #[test]
    fn a_case_that_no_test_has_and_a_rule_without_class_are_problems() {
        let of = |text: &str| selection(text, TABLE_OF_CASES).problems();
        assert_eq!(
            of("- **[PATH-1]** A node MUST a. O; T-S09, P1\n"),
            ["docs/selection/a.md: [PATH-1] names T-S09, which no test has"]
        );
        assert_eq!(
            of("- **[PATH-1]** A node MUST a.\n"),
            [
                "docs/selection/a.md: [PATH-1] has no class",
                "docs/selection/a.md: [PATH-1] lacks test"
            ]
        );
    }

    #[test]
    fn the_tests_of_a_requirement_that_a_rule_names_are_its_tests() {
        let table = "| R | Design | Requirement | Parties | Test |\n|---|---|---|---|---|\n\
            | R7 | 1-2 | a | unit | [`r07_a`](../crates/bmi/zoidd/src/b.rs) |\n\
            | | | | threads | [`r07_b`](../crates/bmi/zoid/tests/c.rs) |\n\
            \n| 1-2 | R7 | [`r07_a`](../crates/bmi/zoidd/src/b.rs) |\n";
        let found = cases(table);
        assert_eq!(found.len(), 1);
        assert_eq!(found["R7"], ["zoidd: r07_a", "zoid: r07_b"]);
        let rule = &rules(BMI, "a.md", "- **[ZOID-1]** A client MUST a. D; R7\n")[0];
        assert_eq!(rule.class_and_cases(), Some(("D", vec!["R7"])));
    }

    #[test]
    fn a_citation_in_the_suite_of_the_methods_names_a_test() {
        let path = format!("{SUITE}messages.rs");
        let text = "/// Text.\n// [BMI-1]\npub fn early(bed: &impl Bed) {}\n";
        let found = citations(&source(&path, text));
        assert_eq!(found[0].evidence, Evidence::Test);
        assert_eq!(found[0].place, "planted: early");
    }
}
