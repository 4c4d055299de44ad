//! Workspaces with planted violations, for the tests of the rules.

use std::collections::BTreeSet;

use crate::rule::Finding;
use crate::source::Source;
use crate::workspace::{Package, Workspace};

/// Makes a file of the package `planted`.
pub(crate) fn source(path: &str, text: &str) -> Source {
    Source::parse(path, "planted", text).unwrap()
}

/// Makes a workspace with one file.
pub(crate) fn file(package: &str, path: &str, text: &str) -> Workspace {
    let source = Source::parse(path, package, text).unwrap();
    Workspace {
        sources: vec![source],
        packages: Vec::new(),
        manifest: String::new(),
        clippy: String::new(),
    }
}

/// Makes a workspace with one library file, outside every special directory.
pub(crate) fn library(text: &str) -> Workspace {
    file("planted", "crates/planted/src/lib.rs", text)
}

/// Makes a package with these dependencies, which are also everything that is compiled into it.
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

/// Makes a workspace of packages without files.
pub(crate) fn packages(packages: Vec<Package>) -> Workspace {
    Workspace {
        sources: Vec::new(),
        packages,
        manifest: String::new(),
        clippy: String::new(),
    }
}

/// Returns the lines of the findings, each with its subject.
pub(crate) fn places(findings: &[Finding]) -> Vec<(usize, &str)> {
    findings
        .iter()
        .map(|finding| (finding.line, finding.subject.as_str()))
        .collect()
}
