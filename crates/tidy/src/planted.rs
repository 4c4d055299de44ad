//! Planted violations: what the tests of the rules hand to them instead of the work tree.

use std::collections::BTreeSet;

use crate::rule::Finding;
use crate::source::Source;
use crate::workspace::{Package, Workspace};

/// A file of the package `planted`.
pub(crate) fn source(path: &str, text: &str) -> Source {
    Source::parse(path, "planted", text).unwrap()
}

/// A workspace of one file.
pub(crate) fn file(package: &str, path: &str, text: &str) -> Workspace {
    let source = Source::parse(path, package, text).unwrap();
    Workspace {
        sources: vec![source],
        packages: Vec::new(),
        manifest: String::new(),
        clippy: String::new(),
    }
}

/// A workspace of one library file, outside every special directory.
pub(crate) fn library(text: &str) -> Workspace {
    file("planted", "crates/planted/src/lib.rs", text)
}

/// A package with these dependencies, which are also all that is compiled into it.
pub(crate) fn package(name: &str, dependencies: &[&str]) -> Package {
    let dependencies: BTreeSet<String> = dependencies.iter().map(|&name| name.to_owned()).collect();
    Package {
        name: name.to_owned(),
        path: format!("crates/{name}/Cargo.toml"),
        manifest: String::new(),
        clippy: String::new(),
        closure: dependencies.clone(),
        dependencies,
    }
}

/// A workspace of packages without files.
pub(crate) fn packages(packages: Vec<Package>) -> Workspace {
    Workspace {
        sources: Vec::new(),
        packages,
        manifest: String::new(),
        clippy: String::new(),
    }
}

/// The lines of the findings with what each is about.
pub(crate) fn places(findings: &[Finding]) -> Vec<(usize, &str)> {
    findings
        .iter()
        .map(|finding| (finding.line, finding.subject.as_str()))
        .collect()
}
