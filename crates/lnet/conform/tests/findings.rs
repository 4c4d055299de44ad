//! The table of findings and its page in the documentation agree.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lnet_conform::FINDING_KINDS;

#[test]
fn the_page_of_the_doctor_lists_every_finding_as_the_code_has_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/doctor.md");
    let page = fs::read_to_string(path).unwrap();
    let listed: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let due: Vec<String> = FINDING_KINDS
        .iter()
        .map(|kind| {
            let helps = kind.helps;
            format!(
                "| `{}` | {} | {} | {helps} |",
                kind.name, kind.severity, kind.finds
            )
        })
        .collect();
    assert_eq!(listed, due);
}

#[test]
fn names_are_unique_and_of_lower_case() {
    let names: BTreeSet<&str> = FINDING_KINDS.iter().map(|kind| kind.name).collect();
    assert_eq!(names.len(), FINDING_KINDS.len());
    let is_name = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    assert!(names.iter().all(is_name));
}
