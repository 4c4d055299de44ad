//! Where mutations are: the lists of the workspace's crates, and the files that they name.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::list::{Mutation, parse};

/// A crate's list.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// The crate's name, which is that of its directory.
    pub package: String,
    /// The crate's directory, from the root of the workspace.
    pub directory: PathBuf,
    /// Its mutations.
    pub mutations: Vec<Mutation>,
}

/// The root of the workspace that this program was built in.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The lists of all crates below `root/crates` that have one, by name.
///
/// # Errors
///
/// A list that cannot be read.
pub fn find(root: &Path) -> anyhow::Result<Vec<Catalogue>> {
    let crates = root.join("crates");
    let entries = fs::read_dir(&crates).with_context(|| crates.display().to_string())?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let list = path.join("mutations.txt");
        if list.is_file() {
            let text = fs::read_to_string(&list)?;
            let mutations = parse(&text).with_context(|| list.display().to_string())?;
            found.push(Catalogue {
                package: path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                directory: path.strip_prefix(root)?.to_owned(),
                mutations,
            });
        }
    }
    found.sort_by(|a, b| a.package.cmp(&b.package));
    Ok(found)
}

impl Mutation {
    /// The file's text with the mutation in it.
    ///
    /// # Errors
    ///
    /// What is to be replaced does not occur exactly once.
    pub fn apply(&self, text: &str) -> anyhow::Result<String> {
        // Whole lines: not the end of a longer one.
        let begins_a_line = |&(at, _): &(usize, &str)| at == 0 || text[..at].ends_with('\n');
        let mut places = text.match_indices(&self.from).filter(begins_a_line);
        match (places.next(), places.next()) {
            (Some((at, from)), None) => {
                let after = &text[at + from.len()..];
                Ok([&text[..at], &self.to, after].concat())
            }
            (None, _) => bail!("{}: its text is not in {}", self.name, self.file),
            (Some(_), Some(_)) => bail!("{}: its text is twice in {}", self.name, self.file),
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
