//! The doctor's findings: the table and its page agree.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lnet_conform::AILMENTS;

#[test]
fn the_page_of_the_doctor_lists_every_finding_as_the_code_has_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    let page = fs::read_to_string(path).unwrap();
    let listed: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let due: Vec<String> = AILMENTS
        .iter()
        .map(|it| {
            let helps = it.helps;
            format!(
                "| `{}` | {} | {} | {helps} |",
                it.name, it.severity, it.finds
            )
        })
        .collect();
    assert_eq!(listed, due);
}

#[test]
fn names_are_unique_and_of_lower_case() {
    let names: BTreeSet<&str> = AILMENTS.iter().map(|it| it.name).collect();
    assert_eq!(names.len(), AILMENTS.len());
    let is_name = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    assert!(names.iter().all(is_name));
}
