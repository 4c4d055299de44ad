//! Breaks the code of the workspace's crates at listed places, and expects that tests notice.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Parser;
use mutations::{Bench, Catalogue, Fate, Mutation, find, workspace_root};

/// Applies the mutations of the crates' mutations.txt one by one in a copy of the workspace, and
/// runs the test that must fail. Exits with 1 if a test did not fail.
#[derive(Debug, Parser)]
struct Arguments {
    /// Run only the mutation with this name
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Directory for builds, kept between runs
    #[arg(
        long,
        value_name = "DIR",
        env = "CARGO_TARGET_DIR",
        default_value = "target"
    )]
    target: PathBuf,
    /// Crates to test; by default all that have a list
    #[arg(value_name = "CRATE")]
    crates: Vec<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let root = workspace_root();
    let target = root.join(&arguments.target).join("mutations");
    let catalogues = chosen(find(&root)?, &arguments.crates)?;
    let bench = Bench::new(&root, &target)?;
    let (mut caught, mut survivors) = (0, Vec::new());
    for catalogue in &catalogues {
        let wanted = |mutation: &&Mutation| match &arguments.only {
            Some(name) => mutation.name == *name,
            None => true,
        };
        let mutations: Vec<&Mutation> = catalogue.mutations.iter().filter(wanted).collect();
        if mutations.is_empty() {
            continue;
        }
        bench.check(catalogue, &mutations)?;
        for mutation in mutations {
            let fate = bench.test_mutation(catalogue, mutation)?;
            println!(
                "{:<12} {:<44} {}",
                catalogue.package,
                mutation.name,
                shown(&fate)
            );
            if fate.is_caught() {
                caught += 1;
            } else {
                survivors.push(mutation.name.as_str());
            }
        }
    }
    if caught + survivors.len() == 0 {
        bail!("no mutation has this name");
    }
    println!(
        "\n{caught} caught, {} not: {}",
        survivors.len(),
        survivors.join(" ")
    );
    Ok(ExitCode::from(u8::from(!survivors.is_empty())))
}

/// Returns the lists of the given crates.
fn chosen(all: Vec<Catalogue>, names: &[String]) -> anyhow::Result<Vec<Catalogue>> {
    let has = |name: &str| all.iter().any(|catalogue| catalogue.package == name);
    if let Some(unknown) = names.iter().find(|name| !has(name)) {
        bail!("{unknown} has no mutations.txt");
    }
    let wanted = |catalogue: &Catalogue| names.is_empty() || names.contains(&catalogue.package);
    Ok(all.into_iter().filter(wanted).collect())
}

fn shown(fate: &Fate) -> String {
    match fate {
        Fate::Caught(tests) => {
            let first = tests
                .first()
                .map_or("", |path| path.rsplit("::").next().unwrap_or(path));
            format!("caught by {first}")
        }
        Fate::Hung => "caught: the test did not end".to_owned(),
        Fate::Survived => "SURVIVED".to_owned(),
        Fate::DidNotCompile(error) => format!("DID NOT COMPILE: {error}"),
    }
}
