//! Checks that every ID of `tests/catalogue.txt` has a test here, or a test in the crate named after the ID.

const CATALOGUE: &str = include_str!("../../../tests/catalogue.txt");
const BOTH: &str = include_str!("both.rs");
const SOURCES: [&str; 8] = [
    include_str!("checklist.rs"),
    include_str!("../discovery.rs"),
    include_str!("health.rs"),
    include_str!("policy.rs"),
    include_str!("recovery.rs"),
    include_str!("resend.rs"),
    include_str!("routing.rs"),
    include_str!("selection.rs"),
];

fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap_or((line, "")))
}

/// Returns the prefix of the functions that test an ID: `T-H03s` is tested by functions whose names begin with
/// `t_h03s_`.
fn prefix(id: &str) -> String {
    format!("fn {}_", id.to_lowercase().replace('-', "_"))
}

/// Returns the IDs that are not tested.
fn forgotten<'a>(catalogue: &'a str, sources: &[&str]) -> Vec<&'a str> {
    lines(catalogue)
        .filter(|(_, elsewhere)| elsewhere.is_empty())
        .map(|(id, _)| id)
        .filter(|id| !sources.iter().any(|source| source.contains(&prefix(id))))
        .collect()
}

#[test]
fn every_case_is_a_test() {
    assert_eq!(forgotten(CATALOGUE, &SOURCES), [""; 0]);
}

/// Returns the cases of a source that name no profile and are not in the list of cases that run in both.
fn in_one_profile<'a>(source: &'a str, both: &str) -> Vec<&'a str> {
    let mut lines = source.lines();
    let mut found = Vec::new();
    while lines.any(|line| line == "#[test]") {
        let name = lines.next().and_then(|line| line.split_once("fn "));
        let name = name.and_then(|(_, rest)| rest.split_once('(')).unwrap().0;
        let named = name.contains("_design_") || name.contains("_lustre_");
        if name.starts_with("t_") && !named && !both.lines().any(|line| line.trim() == name) {
            found.push(name);
        }
    }
    found
}

#[test]
fn every_case_names_its_profile_or_runs_in_both() {
    for source in SOURCES.iter().skip(2) {
        assert_eq!(in_one_profile(source, BOTH), [""; 0]);
    }
    let source = "#[test]\nfn t_s01_x() {\n}\n#[test]\nfn t_s02_lustre_x() {\n}";
    assert_eq!(in_one_profile(source, ""), ["t_s01_x"]);
    assert_eq!(in_one_profile(source, "  t_s01_x"), [""; 0]);
}

#[test]
fn a_case_without_a_test_is_found() {
    assert_eq!(forgotten("T-S01\nT-S999", &SOURCES), ["T-S999"]);
}
