//! Checks the tables of cases in `docs/selection-cases.md` and `docs/configuration-cases.md`. They are made from the
//! catalogues and from the names of the tests of all crates, and must be up to date. With `FINERAIL_REWRITE=1` the
//! test writes them.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use testkit::workspace::{Package, packages, root};

/// A catalogue, and the document that is made from it.
struct Catalogue {
    document: &'static str,
    head: &'static str,
    /// The crate that tests a case, unless another crate is named after the case's ID.
    home: &'static str,
    cases: &'static str,
}

const CATALOGUES: [Catalogue; 2] = [
    Catalogue {
        document: "docs/selection-cases.md",
        head: "# Cases of path selection, health and rules

Made from `crates/lnet/core/tests/catalogue.txt` and the names of the tests by
`FINERAIL_REWRITE=1 cargo test -p lnet-core --test cases`; do not edit.

IDs are those of the catalogue (T-S selection, T-H health, T-U rules, T-R routing) and of the design's
checklist (W work items, P patches). A test in both profiles runs once in each; `any` means that the
profile does not come into it. Every test that stands here passes, or the build fails.

",
        home: "lnet-core",
        cases: include_str!("catalogue.txt"),
    },
    Catalogue {
        document: "docs/configuration-cases.md",
        head: "# Cases of peers, configuration and conversion

Made from `crates/lnet/config/tests/catalogue.txt` and the names of the tests by
`FINERAIL_REWRITE=1 cargo test -p lnet-core --test cases`; do not edit.

IDs are those of the catalogue (T-P peers and identity, T-C configuration, T-L conversion) and of scripts and tools
for kernel nodes (T-L11 and further, T-K). Every test that stands here passes, or the build fails.

",
        home: "lnet-config",
        cases: include_str!("../../../lnet/config/tests/catalogue.txt"),
    },
];

/// The list of tests of this crate that run in both profiles.
const BOTH: &str = include_str!("../src/tests/catalogue/both.rs");

#[expect(
    clippy::disallowed_methods,
    reason = "a test that makes a file of the documentation"
)]
fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
}

/// Collects the names of all functions in the sources of a crate.
fn functions(directory: &Path, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            functions(&path, names)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let lines = text
                .lines()
                .map(|line| line.trim_start_matches("pub(super) "));
            let lines = lines.filter_map(|line| line.trim_start().strip_prefix("fn "));
            let declared = lines.filter_map(|rest| rest.split_once('('));
            names.extend(declared.map(|(name, _)| name.to_owned()));
        }
    }
    Ok(())
}

/// Returns the IDs that a test's name begins with: `t_u09_t_u10_x` has two, `w1_x` one.
fn ids(name: &str) -> Vec<String> {
    let mut words = name.split('_').peekable();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let number = |word: &&str| word.chars().any(|c| c.is_ascii_digit());
        match (word, words.peek().copied().filter(number)) {
            ("t", Some(case)) => {
                let (kind, number) = case.split_at(1);
                found.push(format!("T-{}{number}", kind.to_uppercase()));
                words.next();
            }
            _ if found.is_empty() && is_item(word) => return vec![word.to_uppercase()],
            _ => break,
        }
    }
    found
}

/// Returns whether a word is the ID of an item, such as `w1` or `p14`.
fn is_item(word: &str) -> bool {
    let number = word.strip_prefix(['w', 'p']);
    number.is_some_and(|number| number.parse::<u8>().is_ok())
}

fn profile(package: &str, name: &str) -> &'static str {
    let runs_in_both = BOTH.lines().any(|line| line.trim() == name);
    match (name.contains("_design_"), name.contains("_lustre_")) {
        _ if runs_in_both => "both",
        (true, true) => "both",
        (true, false) => "design",
        (false, true) => "lustre",
        (false, false) if package == "lnet-core" => "design",
        (false, false) => "any",
    }
}

/// Returns the tests by ID: profile, crate and name of each.
fn tests() -> io::Result<BTreeMap<String, Vec<[String; 3]>>> {
    let mut found: BTreeMap<String, Vec<[String; 3]>> = BTreeMap::new();
    for Package {
        name: package,
        directory,
    } in packages()
    {
        let path = root().join(directory);
        let mut names = Vec::new();
        for part in ["src", "tests"] {
            if path.join(part).is_dir() {
                functions(&path.join(part), &mut names)?;
            }
        }
        for name in names {
            for id in ids(&name) {
                let row = [
                    profile(&package, &name).into(),
                    package.clone(),
                    name.clone(),
                ];
                found.entry(id).or_default().push(row);
            }
        }
    }
    for rows in found.values_mut() {
        rows.sort_by(|a, b| a[1..].cmp(&b[1..]));
    }
    Ok(found)
}

fn entries(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap_or((line, "")))
}

/// Returns the table, and the IDs without a test at the place that the catalogue names.
fn table(catalogue: &Catalogue) -> io::Result<(String, Vec<String>)> {
    let tests = tests()?;
    let mut rows = String::from(catalogue.head);
    rows.push_str("| ID | Profile | Test |\n|---|---|---|\n");
    let (mut cases, mut missing) = (0, Vec::new());
    for (id, home) in entries(catalogue.cases) {
        let home = if home.is_empty() {
            catalogue.home
        } else {
            home
        };
        let of_id = tests.get(id).map_or(&[][..], Vec::as_slice);
        cases += 1;
        if !of_id.iter().any(|[_, package, _]| package == home) {
            missing.push(id.to_owned());
        }
        for (at, [profile, package, name]) in of_id.iter().enumerate() {
            let id = if at == 0 { id } else { "" };
            rows.push_str(&format!("| {id} | {profile} | {package}: `{name}` |\n"));
        }
    }
    rows.push_str(&format!("\n{cases} cases.\n"));
    Ok((rows, missing))
}

#[test]
fn the_tables_of_cases_are_up_to_date() {
    for catalogue in &CATALOGUES {
        let path = root().join(catalogue.document);
        let (made, _) = table(catalogue).unwrap();
        if std::env::var_os("FINERAIL_REWRITE").is_some() {
            write(&path, &made).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        let differing = kept
            .lines()
            .zip(made.lines())
            .find(|(kept, made)| kept != made);
        assert_eq!(differing, None, "FINERAIL_REWRITE=1 makes it anew");
        assert!(kept == made, "FINERAIL_REWRITE=1 makes it anew");
    }
}

#[test]
fn every_case_has_a_test_where_the_catalogue_says() {
    for catalogue in &CATALOGUES {
        let (_, missing) = table(catalogue).unwrap();
        assert_eq!(missing, [""; 0]);
    }
}

#[test]
fn ids_are_read_off_names() {
    assert_eq!(ids("t_u09_t_u10_x_t_u11"), ["T-U09", "T-U10"]);
    assert_eq!(ids("t_h03s_design_x"), ["T-H03s"]);
    assert_eq!(ids("p13_x"), ["P13"]);
    for other in ["two_by_one", "p_x", "t_x", "w1x"] {
        assert_eq!(ids(other), [""; 0], "{other}");
    }
}
