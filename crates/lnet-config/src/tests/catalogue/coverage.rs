//! No case is forgotten: every ID of `tests/catalogue.txt` is a test here, or a test of the crate named
//! behind it, or listed with its reason in `tests/catalogue_waiting.txt`.

use std::collections::BTreeSet;

const CATALOGUE: &str = include_str!("../../../tests/catalogue.txt");
const WAITING: &str = include_str!("../../../tests/catalogue_waiting.txt");
const SOURCES: [&str; 3] = [
    include_str!("config.rs"),
    include_str!("converter.rs"),
    include_str!("peers.rs"),
];

/// It grows no more.
const WAITING_MAX: usize = 5;

fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap_or((line, "")))
}

/// `T-C03` is tested by functions whose names begin with `t_c03_`.
fn is_tested(id: &str) -> bool {
    let prefix = format!("fn {}_", id.to_lowercase().replace('-', "_"));
    SOURCES.iter().any(|source| source.contains(&prefix))
}

/// The IDs that are neither tested nor listed.
fn forgotten<'a>(catalogue: &'a str, waiting: &str) -> Vec<&'a str> {
    let waiting: BTreeSet<&str> = lines(waiting).map(|(id, _)| id).collect();
    lines(catalogue)
        .filter(|(_, elsewhere)| elsewhere.is_empty())
        .map(|(id, _)| id)
        .filter(|id| !waiting.contains(id) && !is_tested(id))
        .collect()
}

#[test]
fn every_case_is_a_test_or_listed_as_waiting() {
    assert_eq!(forgotten(CATALOGUE, WAITING), [""; 0]);
}

#[test]
fn a_case_that_is_neither_is_found() {
    assert_eq!(forgotten("T-C01\nT-C999", ""), ["T-C999"]);
    assert_eq!(forgotten("T-C999", "T-C999 why"), [""; 0]);
}

#[test]
fn every_waiting_case_exists_has_a_reason_and_is_not_tested() {
    let known: BTreeSet<&str> = lines(CATALOGUE).map(|(id, _)| id).collect();
    for (id, reason) in lines(WAITING) {
        assert!(known.contains(id), "{id} is not in the catalogue");
        assert!(!reason.is_empty(), "{id} waits for nothing");
        assert!(!is_tested(id), "{id} is tested and need not wait");
    }
    assert!(lines(WAITING).count() <= WAITING_MAX);
}
