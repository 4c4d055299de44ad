//! Reads the files and packages of the workspace.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::Context as _;
use serde_json::Value;

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
    /// All packages that are compiled into it on this platform, directly or indirectly.
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
            closure: closure(&metadata, &package["id"])?,
        });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn cargo_metadata(root: &Path) -> anyhow::Result<Value> {
    // Cargo sets this variable for programs that it runs; otherwise the cargo on the path is used.
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["metadata", "--format-version", "1", "--filter-platform"])
        .arg("x86_64-unknown-linux-gnu")
        .output()
        .context("cannot run cargo metadata")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "cargo metadata failed: {said}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn direct_dependencies(package: &Value) -> anyhow::Result<BTreeSet<String>> {
    let all = package["dependencies"]
        .as_array()
        .context("no dependencies")?;
    let kept = all.iter().filter(|dependency| dependency["kind"] != "dev");
    kept.map(|dependency| Ok(text(&dependency["name"])?.to_owned()))
        .collect()
}

/// Follows the resolved edges of normal dependencies. Build scripts and tests of other packages are
/// not compiled into the package.
fn closure(metadata: &Value, id: &Value) -> anyhow::Result<BTreeSet<String>> {
    let nodes = metadata["resolve"]["nodes"]
        .as_array()
        .context("no resolve graph")?;
    let mut seen = BTreeSet::new();
    let mut open = vec![text(id)?];
    while let Some(id) = open.pop() {
        let node = nodes
            .iter()
            .find(|node| node["id"] == id)
            .context("no such node")?;
        let edges = node["deps"].as_array().context("no edges")?;
        for edge in edges.iter().filter(|edge| is_normal(edge)) {
            let to = text(&edge["pkg"])?;
            if seen.insert(to) {
                open.push(to);
            }
        }
    }
    let all = metadata["packages"].as_array().context("no packages")?;
    let inside = all
        .iter()
        .filter(|package| package["id"].as_str().is_some_and(|id| seen.contains(id)));
    inside
        .map(|package| Ok(text(&package["name"])?.to_owned()))
        .collect()
}

fn is_normal(edge: &Value) -> bool {
    let kinds = edge["dep_kinds"].as_array();
    kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
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
    fn a_dependency_of_a_dependency_is_in_the_closure_and_a_build_dependency_is_not() {
        let metadata = serde_json::json!({
            "packages": [
                { "id": "1", "name": "a" }, { "id": "2", "name": "b" },
                { "id": "3", "name": "far" }, { "id": "4", "name": "only-builds" },
            ],
            "resolve": { "nodes": [
                { "id": "1", "deps": [{ "pkg": "2", "dep_kinds": [{ "kind": null }] }] },
                { "id": "2", "deps": [
                    { "pkg": "3", "dep_kinds": [{ "kind": null }] },
                    { "pkg": "4", "dep_kinds": [{ "kind": "build" }] },
                ] },
                { "id": "3", "deps": [] }, { "id": "4", "deps": [] },
            ] },
        });
        let found = closure(&metadata, &metadata["packages"][0]["id"]).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["b", "far"]);
    }
}
