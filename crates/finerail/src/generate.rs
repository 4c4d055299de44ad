//! `finerail completions` and `finerail man`: generated from the same definitions as the help texts.

mod complete;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Command, CommandFactory, ValueEnum};

use self::complete::Shell;
use crate::Cli;
use crate::ctl::Tool;

/// Arguments of `finerail completions`.
#[derive(clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
    /// The name of the program to complete: it can be called by each of these names
    #[arg(value_enum, default_value_t = Name::Finerail)]
    name: Name,
}

/// The names by which the program can be called.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// All commands
    Finerail,
    /// The command ctl
    Lnetctl,
    /// The commands of lctl that concern LNet
    Lctl,
}

/// Arguments of `finerail man`.
#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// The directory of the pages, one page a command; made if missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let (mut command, name) = named(args.name);
    command.build();
    let script = complete::script(args.shell, &command, name);
    crate::common::print_bytes(script.as_bytes(), &mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the command definition and the name of the program that is called by `name`.
fn named(name: Name) -> (Command, &'static str) {
    let tool = match name {
        Name::Finerail => return (Cli::command(), "finerail"),
        Name::Lnetctl => Tool::Lnetctl,
        Name::Lctl => Tool::Lctl,
    };
    (tool.command(), tool.name())
}

pub(crate) fn man_pages(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let directory = &args.directory;
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .with_context(|| format!("cannot write man pages to {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
