//! `finerail completions` and `finerail man`: made from the same definitions as the help texts.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::Cli;

/// Arguments of `finerail completions`.
#[derive(clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Arguments of `finerail man`.
#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// Where to put the pages, one a command; made if missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "finerail", &mut script);
    crate::common::print_bytes(&script, &mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man_pages(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let directory = &args.directory;
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .with_context(|| format!("cannot write man pages to {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
