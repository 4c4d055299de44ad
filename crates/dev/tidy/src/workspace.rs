//! Reads the files and packages of the workspace.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::Context as _;
use serde_json::Value;

use crate::layering;
use crate::purity::is_pure;
use crate::source::Source;

/// Directories without sources of the workspace: build products, and files of the fuzzer.
const SKIPPED: [&str; 3] = ["target", "corpus", "artifacts"];

/// Everything that the rules examine.
pub struct Workspace {
    /// Every Rust file, sorted by path.
    pub sources: Vec<Source>,
    /// Every member of the workspace, sorted by name.
    pub packages: Vec<Package>,
    /// The text of the root's `Cargo.toml`.
    pub manifest: String,
    /// The text of the root's `clippy.toml`.
    pub clippy: String,
}

/// One member of the workspace.
pub struct Package {
    /// Name of the package.
    pub name: String,
    /// Path of its `Cargo.toml`, relative to the root.
    pub path: String,
    /// The text of its `Cargo.toml`.
    pub manifest: String,
    /// Text of its own `clippy.toml`, which replaces the root's; empty if it has none.
    pub clippy: String,
    /// The packages on which its library or its build script depends directly.
    pub dependencies: BTreeSet<String>,
    /// All packages that are compiled into it on this platform, directly or indirectly; empty if no rule is about
    /// them.
    pub closure: BTreeSet<String>,
}

impl Workspace {
    /// Reads the workspace to which this crate belongs.
    ///
    /// # Errors
    ///
    /// A file cannot be read or is not Rust, or `cargo metadata` fails.
    pub fn load() -> anyhow::Result<Self> {
        let root = &testkit::workspace::root();
        let packages = packages(root)?;
        let mut files = Vec::new();
        rust_files(root, &mut files)?;
        let sources = files.iter().map(|file| read_source(root, &packages, file));
        let mut sources: Vec<Source> = sources.collect::<anyhow::Result<_>>()?;
        mark_test_files(&mut sources);
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self {
            sources,
            packages,
            manifest: fs::read_to_string(root.join("Cargo.toml"))?,
            clippy: fs::read_to_string(root.join("clippy.toml"))?,
        })
    }
}

/// Marks test files: files that their parent declares under `#[cfg(test)]`, and everything below
/// them.
pub(crate) fn mark_test_files(sources: &mut [Source]) {
    let modules: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in sources {
        let of = |module: &String| {
            let rest = source.path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        source.is_test |= modules.iter().any(of);
    }
}

fn rust_files(directory: &Path, into: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let hidden = name.starts_with('.');
        if entry.file_type()?.is_dir() {
            if !hidden && !SKIPPED.contains(&&*name) {
                rust_files(&entry.path(), into)?;
            }
        } else if name.ends_with(".rs") {
            into.push(entry.path());
        }
    }
    Ok(())
}

fn read_source(root: &Path, packages: &[Package], file: &Path) -> anyhow::Result<Source> {
    let path = relative(root, file)?;
    let text = fs::read_to_string(file).with_context(|| path.clone())?;
    let holds = |package: &&Package| {
        let directory = package.path.trim_end_matches("Cargo.toml");
        path.starts_with(directory)
    };
    let package = packages.iter().find(holds);
    let name = package.map_or("", |package| package.name.as_str());
    Source::parse(&path, name, &text)
}

fn relative(root: &Path, file: &Path) -> anyhow::Result<String> {
    let inside = file.strip_prefix(root)?;
    Ok(inside
        .to_str()
        .context("a file name is not UTF-8")?
        .to_owned())
}

fn packages(root: &Path) -> anyhow::Result<Vec<Package>> {
    let metadata = cargo_metadata(root)?;
    let all = metadata["packages"].as_array().context("no packages")?;
    let members = metadata["workspace_members"]
        .as_array()
        .context("no members")?;
    let mut found = Vec::new();
    for package in all
        .iter()
        .filter(|package| members.contains(&package["id"]))
    {
        let file = PathBuf::from(text(&package["manifest_path"])?);
        found.push(Package {
            name: text(&package["name"])?.to_owned(),
            path: relative(root, &file)?,
            manifest: fs::read_to_string(&file)?,
            clippy: fs::read_to_string(file.with_file_name("clippy.toml")).unwrap_or_default(),
            dependencies: direct_dependencies(package)?,
            closure: closure_of(root, text(&package["name"])?)?,
        });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn cargo_metadata(root: &Path) -> anyhow::Result<Value> {
    let output = cargo(root, &["metadata", "--format-version", "1", "--no-deps"])?;
    Ok(serde_json::from_slice(&output)?)
}

/// Returns what cargo prints.
fn cargo(root: &Path, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    // Cargo sets this variable for programs that it runs; otherwise the cargo on the path is used.
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(arguments)
        .output()
        .context("cannot run cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "cargo {arguments:?}: {said}");
    Ok(output.stdout)
}

fn direct_dependencies(package: &Value) -> anyhow::Result<BTreeSet<String>> {
    let all = package["dependencies"]
        .as_array()
        .context("no dependencies")?;
    let kept = all.iter().filter(|dependency| dependency["kind"] != "dev");
    kept.map(|dependency| Ok(text(&dependency["name"])?.to_owned()))
        .collect()
}

/// Returns the closure of a package about which there is a rule.
fn closure_of(root: &Path, name: &str) -> anyhow::Result<BTreeSet<String>> {
    if is_pure(name) || layering::leaves_out(name) {
        closure(root, name)
    } else {
        Ok(BTreeSet::new())
    }
}

/// Returns the packages that are compiled into a package with all its features, and with no feature that only others
/// of the workspace want.
fn closure(root: &Path, name: &str) -> anyhow::Result<BTreeSet<String>> {
    let arguments = ["tree", "--all-features", "--edges", "normal"];
    let form = ["--prefix", "none", "--format", "{p}", "--package", name];
    let output = cargo(root, &[&arguments[..], &form[..]].concat())?;
    let tree = String::from_utf8(output)?;
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    Ok(names
        .filter(|&one| one != name)
        .map(str::to_owned)
        .collect())
}

fn text(value: &Value) -> anyhow::Result<&str> {
    value
        .as_str()
        .with_context(|| format!("not a string: {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::source;

    #[test]
    fn a_file_declared_for_tests_is_a_test_file_with_all_below_it() {
        let mut sources = [
            source("crates/a/src/nid.rs", "#[cfg(test)]\nmod tests;\n"),
            source("crates/a/src/nid/tests.rs", "mod deep;"),
            source("crates/a/src/nid/tests/deep.rs", ""),
            source("crates/a/src/nid/testsuite.rs", ""),
        ];
        mark_test_files(&mut sources);
        assert_eq!(
            sources.map(|source| source.is_test),
            [false, true, true, false]
        );
    }

    #[test]
    fn what_a_dependency_needs_is_in_the_closure_and_what_only_others_ask_of_it_is_not() {
        let found = closure(&testkit::workspace::root(), "lnet-node").unwrap();
        assert!(found.contains("lnet-core") && found.contains("rustc-hash"));
        // A feature of lnet-core that lnet-noded asks for.
        assert!(!found.contains("blake3"));
    }
}
