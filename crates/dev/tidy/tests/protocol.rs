//! The specification of the wire protocol, the code and the tests belong together.
//!
//! `FINERAIL_REWRITE=1 cargo test -p tidy --test protocol` writes the table anew.

use std::{env, fs};

use testkit::workspace::root;
use tidy::{Protocol, Workspace, protocol};

const GAPS: &str = include_str!("../protocol-gaps.txt");

/// One test, because it reads every file of the workspace.
#[test]
fn every_rule_has_code_and_a_test_every_citation_a_rule_and_the_table_is_up_to_date()
-> anyhow::Result<()> {
    let protocol = Protocol::load(&root(), &Workspace::load()?, GAPS)?;
    let found = protocol.problems();
    assert!(
        found.is_empty(),
        "{} problems:\n{}",
        found.len(),
        found.join("\n")
    );
    let path = root().join(protocol::DIRECTORY).join(protocol::TABLE);
    let table = protocol.table();
    if env::var_os("FINERAIL_REWRITE").is_some() {
        fs::write(&path, &table)?;
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == table,
        "{} is out of date: FINERAIL_REWRITE=1 cargo test -p tidy --test protocol",
        path.display()
    );
    Ok(())
}
