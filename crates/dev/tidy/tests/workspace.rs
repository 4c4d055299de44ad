//! Every rule of `tidy`, on the work tree. One test, because it reads every file of the workspace.

use tidy::{Exceptions, Rule, Workspace};

const EXCEPTIONS: &str = include_str!("../exceptions.txt");

#[test]
fn the_workspace_keeps_every_rule_and_needs_every_exception() {
    let exceptions = Exceptions::parse(EXCEPTIONS).unwrap();
    let workspace = Workspace::load().unwrap();
    let found: Vec<_> = Rule::ALL
        .into_iter()
        .flat_map(|rule| rule.check(&workspace))
        .collect();
    let unneeded = exceptions.unneeded(&found).into_iter().map(|exception| {
        format!(
            "crates/dev/tidy/exceptions.txt:{}: not needed",
            exception.line
        )
    });
    let mut wrong: Vec<String> = unneeded.collect();
    let places = exceptions.uncovered(found);
    wrong.extend(places.iter().map(ToString::to_string));
    assert!(
        wrong.is_empty(),
        "{} places:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
