//! Rules for every list that need no build.

use std::fs;
use std::io;
use std::path::Path;

use mutations::{find, workspace_root};

/// Returns the text of all sources below this directory.
fn sources(directory: &Path) -> io::Result<String> {
    let mut text = String::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            text.push_str(&sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(text)
}

#[test]
fn every_place_occurs_once_and_every_test_exists() {
    let root = workspace_root();
    let catalogues = find(&root).unwrap();
    assert!(!catalogues.is_empty());
    for catalogue in catalogues {
        let directory = root.join(&catalogue.directory);
        let sources = sources(&directory).unwrap();
        for mutation in &catalogue.mutations {
            let text = fs::read_to_string(directory.join(&mutation.file)).unwrap();
            mutation.apply(&text).unwrap();
            let known = sources.contains(&format!("fn {}(", mutation.test));
            assert!(known, "{}: no test {}", mutation.name, mutation.test);
        }
    }
}

/// In the table of releases, names in backquotes that are longer than any option are names of
/// tests.
#[test]
fn every_test_that_the_table_of_releases_names_exists() {
    let root = workspace_root();
    let table = fs::read_to_string(root.join("docs/releases.md")).unwrap();
    let sources = sources(&root.join("crates")).unwrap();
    let named =
        |word: &&str| word.len() > 20 && !word.contains(|letter: char| " .-(".contains(letter));
    let tests: Vec<&str> = table.split('`').skip(1).step_by(2).filter(named).collect();
    assert!(tests.len() >= 20, "{tests:?}");
    for test in tests {
        assert!(sources.contains(&format!("fn {test}(")), "no test {test}");
    }
}

#[test]
fn the_core_has_at_least_25() {
    let catalogues = find(&workspace_root()).unwrap();
    let core = catalogues.iter().find(|list| list.package == "lnet-core");
    assert!(core.is_some_and(|list| list.mutations.len() >= 25));
}
