//! Finds the lists of the workspace's crates, and the files that they name.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::list::{Mutation, parse};

/// The list of a crate.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// Name of the crate.
    pub package: String,
    /// Directory of the crate, relative to the root of the workspace.
    pub directory: PathBuf,
    /// The mutations.
    pub mutations: Vec<Mutation>,
}

/// Returns the root of the workspace in which this program was built.
#[must_use]
pub fn workspace_root() -> PathBuf {
    testkit::workspace::root()
}

/// Returns the lists of all crates of the workspace at `root` that have one, ordered by name.
///
/// # Errors
///
/// A list cannot be read.
pub fn find(root: &Path) -> anyhow::Result<Vec<Catalogue>> {
    let mut found = Vec::new();
    for package in testkit::workspace::packages() {
        let list = root.join(&package.directory).join("mutations.txt");
        if list.is_file() {
            let text = fs::read_to_string(&list)?;
            let mutations = parse(&text).with_context(|| list.display().to_string())?;
            found.push(Catalogue {
                package: package.name,
                directory: package.directory,
                mutations,
            });
        }
    }
    Ok(found)
}

impl Mutation {
    /// Returns the text of the file with the mutation applied.
    ///
    /// # Errors
    ///
    /// The lines to replace do not occur exactly once.
    pub fn apply(&self, text: &str) -> anyhow::Result<String> {
        // Only whole lines match, not the end of a longer line.
        let begins_a_line = |&(at, _): &(usize, &str)| at == 0 || text[..at].ends_with('\n');
        let mut places = text.match_indices(&self.from).filter(begins_a_line);
        match (places.next(), places.next()) {
            (Some((at, from)), None) => {
                let after = &text[at + from.len()..];
                Ok([&text[..at], &self.to, after].concat())
            }
            (None, _) => bail!("{}: its lines are not in {}", self.name, self.file),
            (Some(_), Some(_)) => bail!("{}: its lines occur twice in {}", self.name, self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutation(from: &str) -> Mutation {
        Mutation {
            name: "m".into(),
            file: "f".into(),
            test: "t".into(),
            from: from.into(),
            to: "new\n".into(),
            line: 1,
        }
    }

    #[test]
    fn whole_lines_that_occur_once_are_replaced() {
        let text = "a\nb\n  b\nc\n";
        assert_eq!(mutation("b\n").apply(text).unwrap(), "a\nnew\n  b\nc\n");
        assert_eq!(mutation("a\nb\n").apply(text).unwrap(), "new\n  b\nc\n");
        assert!(mutation("d\n").apply(text).is_err());
        assert!(mutation("x\n").apply("x\nx\n").is_err());
    }
}
