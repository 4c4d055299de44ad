//! Rules for every list that need no build.

use std::fs;
use std::io;
use std::path::Path;

use mutations::{find, workspace_root};

/// Returns the text of all sources below this directory.
fn sources(directory: &Path) -> io::Result<String> {
    let mut text = String::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            text.push_str(&sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(text)
}

#[test]
fn every_place_occurs_once_and_every_test_exists() {
    let root = workspace_root();
    let catalogues = find(&root).unwrap();
    assert!(!catalogues.is_empty());
    for catalogue in catalogues {
        let directory = root.join(&catalogue.directory);
        let sources = sources(&directory).unwrap();
        for mutation in &catalogue.mutations {
            let text = fs::read_to_string(directory.join(&mutation.file)).unwrap();
            mutation.apply(&text).unwrap();
            let known = sources.contains(&format!("fn {}(", mutation.test));
            assert!(known, "{}: no test {}", mutation.name, mutation.test);
        }
    }
}

/// The rows of the page's tables without the names of tests that exist in their last cell.
fn untested(page: &str, is_test: impl Fn(&str) -> bool) -> (usize, Vec<&str>) {
    let is_row = |line: &&str| {
        line.starts_with("| ") && !line.starts_with("| Topic ") && line.len() > "| Topic |".len()
    };
    let rows: Vec<&str> = page.lines().filter(is_row).collect();
    let untested = rows.iter().filter(|row| !is_proved(row, &is_test));
    (rows.len(), untested.copied().collect())
}

#[test]
fn every_habit_of_releases_names_tests_that_exist() {
    let root = workspace_root();
    let page = fs::read_to_string(root.join("docs/releases.md")).unwrap();
    let sources = sources(&root.join("crates")).unwrap();
    let is_test = |test: &str| sources.contains(&format!("fn {test}(")) && test.len() > 10;
    let (rows, untested) = untested(&page, is_test);
    assert!(rows >= 25, "{rows} rows");
    assert!(untested.is_empty(), "without a test: {untested:#?}");
}

#[test]
fn a_habit_without_a_test_is_noticed() {
    let untested = |row: &str| {
        let page = format!("| Topic | Test |\n|---|---|\n{row}\n");
        let (rows, untested) = untested(&page, |name| name == "proof");
        (rows, untested.len())
    };
    assert_eq!(untested("| Pings | sent | `proof` |"), (1, 0));
    assert_eq!(untested("| Pings | `sent` | `proof`, `hearsay` |"), (1, 1));
    assert_eq!(untested("| Pings | sent | |"), (1, 1));
}

/// What stands on the page of promises without the name of a test that exists. Beside rows of tables and code, there may be the
/// introduction, and lines that lead to code.
fn unproved(page: &str, is_test: impl Fn(&str) -> bool) -> Vec<String> {
    let (_, promises) = page.split_once("\n## ").unwrap_or_default();
    let mut unproved = Vec::new();
    // Every second part is code.
    let parts: Vec<&str> = promises.split("```").collect();
    for (number, text) in parts.iter().enumerate().step_by(2) {
        let leads_to_code = number + 1 < parts.len();
        let mut paragraphs = text.trim().split("\n\n").peekable();
        // The rest of the line of the first heading.
        if number == 0 {
            paragraphs.next();
        }
        while let Some(paragraph) = paragraphs.next() {
            let is_lead = leads_to_code && paragraphs.peek().is_none();
            if paragraph.starts_with("## ") || is_lead && !paragraph.starts_with('|') {
                continue;
            }
            let rows = paragraph.lines();
            let rows = rows.filter(|row| !["| Promise | Test |", "|---|---|"].contains(row));
            unproved.extend(
                rows.filter(|row| !is_proved(row, &is_test))
                    .map(str::to_owned),
            );
        }
    }
    unproved
}

/// Whether a row names tests behind its promise, and all of them exist.
fn is_proved(row: &str, is_test: impl Fn(&str) -> bool) -> bool {
    let cells = row.trim_end_matches([' ', '|']).rsplit_once(" | ");
    let Some((promise, tests)) = cells.filter(|_| row.starts_with("| ")) else {
        return false;
    };
    let mut tests = tests.split(", ");
    promise.len() > 2
        && tests.all(|test| {
            let name = test
                .strip_prefix('`')
                .and_then(|test| test.strip_suffix('`'));
            name.is_some_and(&is_test)
        })
}

#[test]
fn every_promise_about_files_names_a_test_that_exists() {
    let root = workspace_root();
    let page = fs::read_to_string(root.join("docs/files-semantics.md")).unwrap();
    let sources = sources(&root.join("crates")).unwrap();
    let unproved = unproved(&page, |test| {
        sources.contains(&format!("fn {test}(")) && test.len() > 10
    });
    assert!(unproved.is_empty(), "without a test: {unproved:#?}");
}

#[test]
fn every_promise_about_sockets_names_a_test_that_exists() {
    let root = workspace_root();
    let page = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let (_, sockets) = page.split_once("\n## Every socket\n").unwrap();
    let sources = sources(&root.join("crates")).unwrap();
    let is_test = |test: &str| sources.contains(&format!("fn {test}(")) && test.len() > 10;
    let rows = sockets.lines().filter(|line| line.starts_with("| "));
    let promises: Vec<&str> = rows.filter(|row| *row != "| Promise | Test |").collect();
    assert!(promises.len() > 30, "{promises:?}");
    let unproved = promises.iter().filter(|row| !is_proved(row, is_test));
    let unproved: Vec<_> = unproved.collect();
    assert!(unproved.is_empty(), "without a test: {unproved:#?}");
}

#[test]
fn a_promise_without_a_test_is_noticed() {
    let is_test = |name: &str| name == "proof";
    let noticed = |text: &str| unproved(&format!("Intro.\n\n## A\n\n{text}\n"), is_test).len();
    let table = |row: &str| noticed(&format!("| Promise | Test |\n|---|---|\n{row}"));
    assert_eq!(table("| It holds | `proof` |"), 0);
    assert_eq!(table("| It holds | `proof`, `hearsay` |"), 1);
    assert_eq!(table("| It holds | |"), 1);
    assert_eq!(table("| It holds | `proof` |\n\n## B\n\nIt holds."), 1);
    assert_eq!(noticed("It holds:\n\n```\ncode\n```"), 0);
    assert_eq!(
        noticed("It holds.\n\nAn example:\n\n```\ncode\n```\n\nIt holds."),
        2
    );
}

#[test]
fn the_core_has_at_least_25() {
    let catalogues = find(&workspace_root()).unwrap();
    let core = catalogues.iter().find(|list| list.package == "lnet-core");
    assert!(core.is_some_and(|list| list.mutations.len() >= 25));
}
