//! The commands in the documentation, run as a reader would run them: every page of `docs`, and README.md.
//!
//! | On the page | Here |
//! |---|---|
//! | a block ```` ```LANGUAGE,file=NAME ```` | is written to the file NAME |
//! | a block ```` ```console ```` | its lines `$ COMMAND` run; the lines below each are the expected output |
//! | a line `? N` in it | the command above ends with N, not with 0 |
//! | a block ```` ```sh ```` | its commands run and end with 0 |
//! | a command that ends with `&` | runs until the page ends; the next command waits for its first output |
//! | `<!-- setup: COMMAND -->` | runs, and no reader sees the command |
//! | `<!-- not run: REASON -->` | the next block does not run |
//!
//! In an expected output, `[..]` stands for some characters and a line `...` for some lines. Each page runs in a directory and
//! a network namespace of its own, so that pages cannot disturb each other.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

#[path = "book/generated.rs"]
mod generated;
#[path = "book/page.rs"]
mod page;
#[path = "book/run.rs"]
mod run;

use std::fs;
use std::path::{Path, PathBuf};

use self::page::steps;
use self::run::differences;

/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns the pages of a directory of `docs`, without those of its directories.
fn pages(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(ROOT).join("docs").join(directory)).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    assert!(!pages.is_empty(), "{directory} has no pages");
    pages
}

/// Runs the commands of pages and fails with all that differs.
fn run_pages(pages: &[PathBuf]) {
    let found: Vec<_> = pages
        .iter()
        .map(|page| (page, fs::read_to_string(page).unwrap()))
        .filter_map(|(page, text)| {
            let found = differences(
                &steps(&text).unwrap_or_else(|error| panic!("{}: {error}", page.display())),
            )?;
            (!found.is_empty()).then(|| format!("{}:\n{found}", page.display()))
        })
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_commands_of_the_tutorial_print_what_stands_there() {
    run_pages(&pages("book/tutorial"));
}

#[test]
fn the_commands_of_the_how_to_pages_print_what_stands_there() {
    run_pages(&pages("book/howto"));
}

#[test]
fn the_commands_of_the_explanations_print_what_stands_there() {
    run_pages(&pages("book/explanation"));
}

#[test]
fn the_commands_of_the_reference_print_what_stands_there() {
    run_pages(&[pages("book/reference"), pages(""), pages("protocol")].concat());
}

#[test]
fn the_commands_of_the_readme_run() {
    if !Path::new("/dev/fuse").exists() {
        testkit::absent("there is no /dev/fuse");
        return;
    }
    run_pages(&[Path::new(ROOT).join("README.md")]);
}

/// After a change that is meant: `FINERAIL_OVERWRITE=1 cargo nextest run --workspace -E 'binary(book)'`.
#[test]
fn the_page_of_commands_has_the_help_text_of_each() {
    generated::compare("commands.md", &generated::commands());
}

/// `FINERAIL_OVERWRITE=1` writes this page anew, too.
#[test]
fn the_page_of_metrics_has_every_metric_that_the_services_serve() {
    if let Some(made) = generated::metrics() {
        generated::compare("metrics.md", &made);
    }
}

#[test]
fn the_page_of_variables_names_those_that_the_programs_read() {
    let page =
        fs::read_to_string(Path::new(ROOT).join("docs/book/reference/environment.md")).unwrap();
    let read = generated::variables();
    let missing: Vec<_> = read
        .iter()
        .filter(|name| !page.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let named = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    let stale: Vec<_> = named
        .filter(|name| !read.contains(*name) && !OF_OTHERS.contains(name))
        .collect();
    assert!(stale.is_empty(), "no program reads {stale:?}");
}

/// Variables that libraries read for the programs.
const OF_OTHERS: [&str; 2] = ["NOTIFY_SOCKET", "RUST_BACKTRACE"];

/// A page for the tests of this checker.
fn found(text: &str) -> Option<String> {
    differences(&steps(text).unwrap())
}

#[test]
fn a_page_that_shows_another_output_is_found() {
    let Some(differing) = found("```console\n$ echo one\ntwo\n```\n") else {
        return;
    };
    assert!(differing.contains("echo one"), "{differing}");
    let same = found("```console\n$ echo one; echo two; echo three\no[..]\n...\nthree\n```\n");
    assert_eq!(same.unwrap(), "");
}

#[test]
fn a_page_whose_command_fails_is_found() {
    let Some(differing) = found("```sh\nfalse\n```\n") else {
        return;
    };
    assert!(differing.contains("ends with 1"), "{differing}");
    let expected = found("```console\n$ (exit 3)\n? 3\n```\n");
    assert_eq!(expected.unwrap(), "");
}

#[test]
fn a_page_whose_service_does_not_start_is_found() {
    let Some(differing) =
        found("```console\n$ finerail node --config absent.yaml &\nready: [..]\n```\n")
    else {
        return;
    };
    assert!(differing.contains("absent.yaml"), "{differing}");
}

#[test]
fn a_block_that_is_not_run_needs_a_reason() {
    assert_eq!(
        steps("<!-- not run: needs a kernel -->\n```sh\nfalse\n```\n")
            .unwrap()
            .len(),
        0
    );
    assert!(steps("<!-- not run: -->\n```sh\nfalse\n```\n").is_err());
    assert!(steps("<!-- not run: for nothing -->\ntext\n").is_err());
}
