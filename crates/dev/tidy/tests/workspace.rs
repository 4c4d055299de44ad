//! One test for each rule of `tidy`, on the work tree.

use tidy::{Exceptions, Rule, Workspace};

const EXCEPTIONS: &str = include_str!("../exceptions.txt");

fn check(rule: Rule) -> anyhow::Result<()> {
    let exceptions = Exceptions::parse(EXCEPTIONS)?;
    let found = exceptions.uncovered(rule.check(&Workspace::load()?));
    let places: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(
        found.is_empty(),
        "{} places:\n{}",
        found.len(),
        places.join("\n")
    );
    Ok(())
}

#[test]
fn no_function_is_longer_than_100_lines() -> anyhow::Result<()> {
    check(Rule::FunctionLength)
}

#[test]
fn nine_functions_in_ten_have_at_most_30_lines() -> anyhow::Result<()> {
    check(Rule::FunctionShare)
}

#[test]
fn no_file_is_longer_than_800_lines() -> anyhow::Result<()> {
    check(Rule::FileLength)
}

#[test]
fn every_public_item_is_documented() -> anyhow::Result<()> {
    check(Rule::PublicDocs)
}

#[test]
fn every_file_says_what_it_is() -> anyhow::Result<()> {
    check(Rule::ModuleDoc)
}

#[test]
fn code_that_can_panic_states_why_it_does_not() -> anyhow::Result<()> {
    check(Rule::Panics)
}

#[test]
fn unsafe_code_is_in_the_crates_of_system_calls_with_safety_comments() -> anyhow::Result<()> {
    check(Rule::Unsafe)
}

#[test]
fn no_test_sleeps() -> anyhow::Result<()> {
    check(Rule::Sleep)
}

#[test]
fn nothing_is_unfinished_and_no_test_is_ignored() -> anyhow::Result<()> {
    check(Rule::Unfinished)
}

#[test]
fn imports_are_in_three_blocks() -> anyhow::Result<()> {
    check(Rule::Imports)
}

#[test]
fn no_function_is_named_get() -> anyhow::Result<()> {
    check(Rule::Getter)
}

#[test]
fn names_use_the_words_of_the_glossary() -> anyhow::Result<()> {
    check(Rule::Words)
}

#[test]
fn pure_crates_hold_no_clock_thread_socket_or_unsafe() -> anyhow::Result<()> {
    check(Rule::Purity)
}

#[test]
fn dependencies_point_downwards() -> anyhow::Result<()> {
    check(Rule::Layering)
}

#[test]
fn every_crate_has_the_workspaces_lints() -> anyhow::Result<()> {
    check(Rule::Lints)
}

#[test]
fn every_exception_is_needed() {
    let exceptions = Exceptions::parse(EXCEPTIONS).unwrap();
    let workspace = Workspace::load().unwrap();
    let found: Vec<_> = Rule::ALL
        .into_iter()
        .flat_map(|rule| rule.check(&workspace))
        .collect();
    for exception in exceptions.unneeded(&found) {
        eprintln!(
            "crates/dev/tidy/exceptions.txt:{}: not needed",
            exception.line
        );
    }
    assert!(exceptions.unneeded(&found).is_empty());
}
