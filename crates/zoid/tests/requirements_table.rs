//! The table of requirements in `docs/bmi-requirements.md`: made from the list beside this file and
//! the names of the tests of all crates of BMI. It must be what it would be if it were made now;
//! with `FINERAIL_REWRITE=1` it is made.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

const HEAD: &str = "# Requirements of BMI with the zoid method

Made from `crates/zoid/tests/requirements.txt` and the names of the tests by
`FINERAIL_REWRITE=1 cargo test -p zoid --test requirements_table`; do not edit.

R numbers are those of the method's description. *Design* is the lines of the design's README that a
requirement comes from; D stands for a decision of the description alone. *Parties* says how the client,
the daemon and the server of a test run: as *processes* of their own, as *threads* of the test with the
real daemon, as the *daemon* alone with raw clients and servers, or as a *unit* without any of them.

";

/// The crates whose tests count.
const CRATES: [&str; 6] = ["bmi", "bmi-ffi", "zbmi", "zoid", "zoid-proto", "zoidd"];

/// Requirements that are about processes, whose test has three of them.
const OF_PROCESSES: [u8; 20] = [
    7, 10, 14, 15, 24, 25, 26, 27, 28, 29, 30, 46, 47, 48, 49, 50, 57, 60, 61, 64,
];

const LIST: &str = include_str!("requirements.txt");

/// A test, where it is, and how its parties run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Test {
    parties: &'static str,
    file: String,
    name: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The functions of all sources below `directory`, each with its file from the workspace's root.
fn functions(directory: &Path, found: &mut Vec<(String, String)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            functions(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let file = path.strip_prefix(root()).unwrap_or(&path);
            let file = file.to_string_lossy().into_owned();
            let lines = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("fn "));
            let names = lines.filter_map(|rest| rest.split_once('('));
            found.extend(names.map(|(name, _)| (file.clone(), name.to_owned())));
        }
    }
    Ok(())
}

/// The requirements that a test's name begins with: `r05_r24_x` has two, `r02_to_r05_x` four.
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
        _ if file.starts_with("crates/zoid/tests/processes/") => "processes",
        _ if file.starts_with("crates/zoid/tests/system/") => "threads",
        _ if file.starts_with("crates/zoidd/tests/") => "daemon",
        _ => "unit",
    }
}

/// By requirement.
fn tests() -> BTreeMap<u8, Vec<Test>> {
    let mut names = Vec::new();
    for package in CRATES {
        for part in ["src", "tests"] {
            let directory = root().join("crates").join(package).join(part);
            if directory.is_dir() {
                functions(&directory, &mut names).unwrap();
            }
        }
    }
    let mut found: BTreeMap<u8, Vec<Test>> = BTreeMap::new();
    for (file, name) in names {
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

/// Number, lines of the design, title.
fn requirements() -> Vec<(u8, &'static str, &'static str)> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut fields = line.splitn(3, '|').map(str::trim);
        let number = fields.next()?.parse().ok()?;
        Some((number, fields.next()?, fields.next()?))
    };
    lines.map(|line| row(line).unwrap()).collect()
}

fn table() -> String {
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

#[test]
fn numbers_are_read_off_names() {
    assert_eq!(numbers("r05_r24_a_message_r1"), [5, 24]);
    assert_eq!(numbers("r02_to_r05_the_defaults"), [2, 3, 4, 5]);
    for other in ["r5_x", "round_x", "x_r05", "to_r05"] {
        assert_eq!(numbers(other), [0; 0], "{other}");
    }
}
