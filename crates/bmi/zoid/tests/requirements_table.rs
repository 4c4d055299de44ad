//! Checks the table of requirements in `docs/bmi-requirements.md`, which is generated from the list beside
//! this file and the names of the tests of all BMI crates. `FINERAIL_REWRITE=1` writes it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use testkit::workspace::{directory_of, root};

const HEAD: &str = "# Requirements of BMI with the zoid method

Made from `crates/bmi/zoid/tests/requirements.txt` and the names of the tests by
`FINERAIL_REWRITE=1 cargo test -p zoid --test requirements_table`; do not edit.

R numbers count what the design's README requires, and a few decisions of ours; the rules of
[docs/bmi](bmi/README.md) name them. *Design* is the lines of that README; D stands for a decision. *Parties* says how the client,
the daemon and the server of a test run: as *processes* of their own, as *threads* of the test with the
real daemon, as the *daemon* alone with raw clients and servers, or as a *unit* without any of them.

";

/// The crates whose tests count.
const CRATES: [&str; 7] = [
    "bmi-ffi",
    "finerail",
    "finerail-bench",
    "finerail-bmi",
    "zoid",
    "zoid-proto",
    "zoidd",
];

/// Requirements whose test must have three processes.
const OF_PROCESSES: [u8; 20] = [
    7, 10, 14, 15, 24, 25, 26, 27, 28, 29, 30, 46, 47, 48, 49, 50, 57, 60, 61, 64,
];

const LIST: &str = include_str!("requirements.txt");
const TRACEABILITY: &str = include_str!("traceability.txt");
const BAD_INPUT: &str = include_str!("bad-input.txt");
const BEHAVIOURS: &str = include_str!("behaviours.txt");

const TRACEABILITY_HEAD: &str = "
## From the design's lines to the requirements

Made from `crates/bmi/zoid/tests/traceability.txt`. The tests of a requirement are in the table above.

| Design | Requirements | Tests |
|---|---|---|
";

const BAD_INPUT_HEAD: &str = "
## Bad input and faults

Made from `crates/bmi/zoid/tests/bad-input.txt`.

| What | Tests |
|---|---|
";

const BEHAVIOURS_HEAD: &str = "
## Behaviours and further tests

Made from `crates/bmi/zoid/tests/behaviours.txt`.
Those of the crate `bmi` are its conformance suite, which `crates/bmi/zoid/tests/system/conformance.rs` and
`crates/bmi/bmi/tests/tcp_conformance.rs` run over each method and carrier.

| What | Tests |
|---|---|
";

/// A test, its file, and how its parties run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Test {
    parties: &'static str,
    file: String,
    name: String,
}

/// Collects the functions of all sources below `directory`, each with its path from the workspace's root, and
/// C programs.
fn functions(directory: &Path, found: &mut Vec<(String, String)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            functions(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "c") {
            let file = path.strip_prefix(root()).unwrap_or(&path);
            let name = path.file_name().unwrap_or_default();
            let (file, name) = (file.to_string_lossy(), name.to_string_lossy());
            found.push((file.into_owned(), name.into_owned()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let file = path.strip_prefix(root()).unwrap_or(&path);
            let file = file.to_string_lossy().into_owned();
            let lines = text.lines().map(str::trim);
            let rests = lines.filter_map(|line| {
                let line = line.strip_prefix("pub ").unwrap_or(line);
                line.strip_prefix("fn ")
            });
            let names = rests.filter_map(|rest| rest.split_once('('));
            found.extend(names.map(|(name, _)| (file.clone(), name.to_owned())));
        }
    }
    Ok(())
}

/// Returns the requirements that a test's name begins with: `r05_r24_x` has two, `r02_to_r05_x` four.
fn numbers(name: &str) -> Vec<u8> {
    let mut found: Vec<u8> = Vec::new();
    let mut range = false;
    for word in name.split('_') {
        let digits = word.strip_prefix('r').filter(|digits| digits.len() == 2);
        match digits.and_then(|digits| digits.parse().ok()) {
            Some(number) if range => found.extend(found.last().map_or(0, |last| last + 1)..=number),
            Some(number) => found.push(number),
            None if word == "to" && !found.is_empty() => range = true,
            None => break,
        }
    }
    found
}

fn parties(file: &str) -> &'static str {
    match file {
        _ if file.contains("/zoid/tests/processes/") => "processes",
        _ if file.contains("/zoid/tests/system/") => "threads",
        _ if file.contains("/zoidd/tests/") => "daemon",
        _ => "unit",
    }
}

/// Returns every function and C program with its file.
fn all_functions() -> Vec<(String, String)> {
    let mut names = Vec::new();
    for package in CRATES {
        for part in ["src", "tests", "examples"] {
            let directory = root().join(directory_of(package)).join(part);
            if directory.is_dir() {
                functions(&directory, &mut names).unwrap();
            }
        }
    }
    names
}

/// Returns the tests by requirement.
fn tests() -> BTreeMap<u8, Vec<Test>> {
    let mut found: BTreeMap<u8, Vec<Test>> = BTreeMap::new();
    for (file, name) in all_functions() {
        for number in numbers(&name) {
            let (parties, file, name) = (parties(&file), file.clone(), name.clone());
            let test = Test {
                parties,
                file,
                name,
            };
            found.entry(number).or_default().push(test);
        }
    }
    found.values_mut().for_each(|tests| tests.sort());
    found
}

/// Returns number, lines of the design, and title of each requirement.
fn requirements() -> Vec<(u8, &'static str, &'static str)> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut fields = line.splitn(3, '|').map(str::trim);
        let number = fields.next()?.parse().ok()?;
        Some((number, fields.next()?, fields.next()?))
    };
    lines.map(|line| row(line).unwrap()).collect()
}

/// Returns the rows of a list with two columns.
fn rows(list: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(" | ").unwrap())
}

/// Returns the requirements of one line of [`TRACEABILITY`].
fn of_lines(requirements: &str) -> Vec<u8> {
    let numbers = requirements
        .split(", ")
        .map(|number| number.strip_prefix('R'));
    numbers
        .map(|number| number.unwrap().parse().unwrap())
        .collect()
}

/// Formats a list whose second column names tests as a table.
fn table_of_names(head: &str, list: &'static str) -> String {
    let functions: BTreeMap<String, String> = all_functions()
        .into_iter()
        .map(|(file, name)| (name, file))
        .collect();
    let link = |name: &str| {
        let file = functions.get(name);
        let file = file.unwrap_or_else(|| panic!("there is no test called {name}"));
        format!("[`{name}`](../{file})")
    };
    let row = |(what, names): (&str, &str)| {
        let links: Vec<String> = names.split(", ").map(link).collect();
        format!("| {what} | {} |\n", links.join("<br>"))
    };
    head.to_owned() + &rows(list).map(row).collect::<String>()
}

fn traceability() -> String {
    let tests = tests();
    let row = |(lines, requirements): (&str, &str)| {
        let of_each = of_lines(requirements).into_iter().map(|number| {
            let found = tests.get(&number).into_iter().flatten();
            let links = found.map(|test| format!("[`{}`](../{})", test.name, test.file));
            links.collect::<Vec<String>>().join("<br>")
        });
        let links: Vec<String> = of_each.collect();
        format!("| {lines} | {requirements} | {} |\n", links.join("<br>"))
    };
    TRACEABILITY_HEAD.to_owned() + &rows(TRACEABILITY).map(row).collect::<String>()
}

fn table() -> String {
    table_of_requirements()
        + &traceability()
        + &table_of_names(BAD_INPUT_HEAD, BAD_INPUT)
        + &table_of_names(BEHAVIOURS_HEAD, BEHAVIOURS)
}

fn table_of_requirements() -> String {
    let tests = tests();
    let mut text = String::from(HEAD);
    text.push_str("| R | Design | Requirement | Parties | Test |\n|---|---|---|---|---|\n");
    for (number, design, title) in requirements() {
        let mut begin = format!("| R{number} | {design} | {title}");
        for test in tests.get(&number).into_iter().flatten() {
            let Test {
                parties,
                file,
                name,
            } = test;
            text.push_str(&format!("{begin} | {parties} | [`{name}`](../{file}) |\n"));
            begin = String::from("| | |");
        }
    }
    text
}

#[test]
fn the_table_of_requirements_is_up_to_date() {
    let path = root().join("docs/bmi-requirements.md");
    let made = table();
    if std::env::var_os("FINERAIL_REWRITE").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == made, "FINERAIL_REWRITE=1 makes it anew");
}

#[test]
fn every_requirement_has_a_test_with_its_number() {
    let listed: Vec<u8> = requirements().iter().map(|(number, ..)| *number).collect();
    assert_eq!(listed, (1..=70).collect::<Vec<u8>>());
    let tests = tests();
    let missing = listed
        .into_iter()
        .filter(|number| !tests.contains_key(number));
    assert_eq!(missing.collect::<Vec<u8>>(), []);
}

#[test]
fn what_is_about_processes_is_tested_with_processes() {
    let tests = tests();
    let has = |number: &u8| {
        let of_number = tests.get(number).into_iter().flatten();
        of_number.clone().any(|test| test.parties == "processes")
    };
    let missing = OF_PROCESSES.into_iter().filter(|number| !has(number));
    assert_eq!(missing.collect::<Vec<u8>>(), []);
}

/// Parses the numbers of `32-34, 36`.
fn lines(ranges: &str) -> Vec<u16> {
    let each = ranges.split(", ").flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<u16>().unwrap();
        number(first)..=number(last)
    });
    each.collect()
}

#[test]
fn every_line_of_the_design_leads_to_its_requirements_and_back() {
    let requirements: BTreeMap<u8, &str> = requirements()
        .into_iter()
        .map(|(number, design, _)| (number, design))
        .collect();
    let mut from_design: BTreeMap<u8, Vec<u16>> = BTreeMap::new();
    for (ranges, numbers) in rows(TRACEABILITY) {
        let numbers = of_lines(numbers);
        let of_number = |number| lines(requirements[number]);
        let designs: Vec<u16> = numbers.iter().flat_map(of_number).collect();
        let missing = lines(ranges)
            .into_iter()
            .find(|line| !designs.contains(line));
        assert_eq!(missing, None, "{ranges} of {numbers:?}");
        for number in numbers {
            from_design.entry(number).or_default().extend(lines(ranges));
        }
    }
    for (number, design) in requirements
        .into_iter()
        .filter(|(_, design)| *design != "D")
    {
        // R45 is the client's part of the lines of R13.
        let traced = from_design.get(if number == 45 { &13 } else { &number });
        let traced = traced.unwrap_or_else(|| panic!("no line leads to R{number}"));
        let missing = lines(design)
            .into_iter()
            .find(|line| !traced.contains(line));
        assert_eq!(missing, None, "R{number}");
    }
}

#[test]
fn numbers_are_read_off_names() {
    assert_eq!(numbers("r05_r24_a_message_r1"), [5, 24]);
    assert_eq!(numbers("r02_to_r05_the_defaults"), [2, 3, 4, 5]);
    for other in ["r5_x", "round_x", "x_r05", "to_r05"] {
        assert_eq!(numbers(other), [0; 0], "{other}");
    }
}
