//! Breaks the code of the workspace's crates on purpose, and expects that their tests notice.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Parser;
use mutations::{Bench, Catalogue, Fate, Mutation, find, workspace_root};

/// Breaks the code in a copy of the workspace, one place at a time, as the crates' mutations.txt say,
/// and runs the test that must notice. Ends with 1 when one was not noticed.
#[derive(Debug, Parser)]
struct Arguments {
    /// Only the mutation of this name
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Where builds go, kept from run to run
    #[arg(
        long,
        value_name = "DIR",
        env = "CARGO_TARGET_DIR",
        default_value = "target"
    )]
    target: PathBuf,
    /// Crates; all that have a list if none is given
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
            let fate = bench.judge(catalogue, mutation)?;
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

/// The lists of the crates that were asked for.
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
