//! The specifications, the code and the tests belong together.
//!
//! `FINERAIL_REWRITE=1 cargo test -p tidy --test specifications` writes the tables anew.

use std::{env, fs};

use testkit::workspace::root;
use tidy::{SPECIFICATIONS, Specifications, Workspace, specifications};

/// One test, because it reads every file of the workspace.
#[test]
fn every_rule_has_code_and_a_test_every_citation_a_rule_and_the_tables_are_up_to_date()
-> anyhow::Result<()> {
    let all = Specifications::load(&root(), &Workspace::load()?)?;
    let found = all.problems();
    assert!(
        found.is_empty(),
        "{} problems:\n{}",
        found.len(),
        found.join("\n")
    );
    for specification in &SPECIFICATIONS {
        let path = root()
            .join(specification.directory)
            .join(specifications::TABLE);
        let table = all.table(specification);
        if env::var_os("FINERAIL_REWRITE").is_some() {
            fs::write(&path, &table)?;
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == table,
            "{} is out of date: FINERAIL_REWRITE=1 cargo test -p tidy --test specifications",
            path.display()
        );
    }
    Ok(())
}
