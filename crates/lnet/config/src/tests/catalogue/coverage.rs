//! Every ID of `tests/catalogue.txt` is a test of this crate, or of the crate named after it.

const CATALOGUE: &str = include_str!("../../../tests/catalogue.txt");
const SOURCES: [&str; 3] = [
    include_str!("config.rs"),
    include_str!("converter.rs"),
    include_str!("peers.rs"),
];

fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap_or((line, "")))
}

/// `T-C03` is tested by functions whose names begin with `t_c03_`.
fn is_tested(id: &str) -> bool {
    let prefix = format!("fn {}_", id.to_lowercase().replace('-', "_"));
    SOURCES.iter().any(|source| source.contains(&prefix))
}

/// The IDs that are not tested.
fn forgotten(catalogue: &str) -> Vec<&str> {
    lines(catalogue)
        .filter(|(_, elsewhere)| elsewhere.is_empty())
        .map(|(id, _)| id)
        .filter(|id| !is_tested(id))
        .collect()
}

#[test]
fn every_case_is_a_test() {
    assert_eq!(forgotten(CATALOGUE), [""; 0]);
}

#[test]
fn a_case_without_a_test_is_found() {
    assert_eq!(forgotten("T-C01\nT-C999"), ["T-C999"]);
}
