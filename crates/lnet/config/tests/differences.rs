//! `docs/lnetctl-differences.md` has the table of deliberate differences, made from
//! [`lnet_config::DIFFERENCES`].

use std::fs;
use std::path::Path;

use lnet_config::DIFFERENCES;

const HEAD: &str = "\
# Where documents differ from those of kernel nodes

Made from `DIFFERENCES` of `lnet-config` by `FINERAIL_REWRITE=1 cargo test -p lnet-config --test
differences`; do not edit.

Everything else that `lnetctl` of 2.16.1 prints is printed with the same bytes, and what it imports is
imported: tests compare every output of kernel nodes that there is.

| Name | Where | Kernel nodes | Finerail | Why |
|---|---|---|---|---|
";

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    // Brackets and stars must not become links and emphasis.
    let escaped = ['|', '[', ']', '*', '<'].iter();
    escaped.fold(text.to_owned(), |text, character| {
        text.replace(*character, &format!("\\{character}"))
    })
}

fn table() -> String {
    let rows = DIFFERENCES.iter().map(|difference| {
        let cells = [
            difference.code,
            difference.subject,
            difference.kernel,
            difference.finerail,
            difference.reason,
        ];
        format!("| {} |\n", cells.map(cell).join(" | "))
    });
    HEAD.to_owned() + &rows.collect::<String>()
}

#[test]
fn the_table_of_differences_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/lnetctl-differences.md");
    let kept = fs::read_to_string(&path).unwrap_or_default();
    // Another test writes the section of the commands, because it needs a node.
    let at = kept.find(COMMANDS).unwrap_or(kept.len());
    let (kept, commands) = kept.split_at(at);
    let made = table() + "\n";
    if std::env::var_os("FINERAIL_REWRITE").is_some() {
        fs::write(&path, format!("{made}{commands}")).unwrap();
        return;
    }
    assert!(kept == made, "FINERAIL_REWRITE=1 makes it anew");
}

/// The heading of the section of the commands.
const COMMANDS: &str = "## Where commands differ";
