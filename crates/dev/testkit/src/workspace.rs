//! The workspace to which a test belongs: its root and the folders of its packages, wherever they stand below `crates`.

use std::fs;
use std::path::{Path, PathBuf};

/// A package below `crates`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    /// The name of the package.
    pub name: String,
    /// The folder of its `Cargo.toml`, relative to the root of the workspace.
    pub directory: PathBuf,
}

/// Returns the folder of the workspace's `Cargo.lock`.
///
/// # Panics
///
/// If no folder above this crate has one.
#[must_use]
#[expect(clippy::expect_used, reason = "a test that cannot be set up fails")]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here
        .ancestors()
        .find(|directory| directory.join("Cargo.lock").is_file());
    root.expect("this crate is in a workspace").to_owned()
}

/// Returns every package below `crates`, sorted by name.
///
/// # Panics
///
/// If a folder or a manifest cannot be read.
#[must_use]
pub fn packages() -> Vec<Package> {
    let root = root();
    let mut found = Vec::new();
    collect(&root, &root.join("crates"), &mut found);
    found.sort();
    found
}

/// Returns the folder, relative to the root of the workspace, of the package called `name`.
///
/// # Panics
///
/// If the workspace has no such package.
#[must_use]
#[expect(clippy::expect_used, reason = "a test that cannot be set up fails")]
pub fn directory_of(name: &str) -> PathBuf {
    let found = packages().into_iter().find(|package| package.name == name);
    found
        .expect("the workspace has a package of this name")
        .directory
}

/// Looks for packages in `directory` and, where it is none, below it.
#[expect(clippy::expect_used, reason = "a test that cannot be set up fails")]
fn collect(root: &Path, directory: &Path, found: &mut Vec<Package>) {
    if let Ok(manifest) = fs::read_to_string(directory.join("Cargo.toml")) {
        let name = manifest.lines().find_map(|line| {
            let value = line.strip_prefix("name = \"")?;
            value.strip_suffix('"')
        });
        let directory = directory.strip_prefix(root).expect("below the root");
        found.push(Package {
            name: name.expect("a manifest names its package").to_owned(),
            directory: directory.to_owned(),
        });
        return;
    }
    for entry in fs::read_dir(directory).expect("a folder of the workspace") {
        let path = entry.expect("an entry of the workspace").path();
        if path.is_dir() {
            collect(root, &path, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_crate_is_among_the_packages_of_its_workspace() {
        let directory = root().join(directory_of("testkit"));
        assert_eq!(directory, Path::new(env!("CARGO_MANIFEST_DIR")));
    }
}
