//! `finerail fgr`: fine-grained routing, planned, proved and configured.

mod config;
mod input;
mod plan;

use std::process::ExitCode;

use clap::Subcommand;

/// Arguments of `finerail fgr`.
#[derive(clap::Args)]
pub(crate) struct FgrArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Choose a primary router and backups for every client and every net
    Plan(plan::PlanArgs),
    /// Write the LNet configuration of every client, router and server
    Config(config::ConfigArgs),
}

/// Runs `finerail fgr`.
pub(crate) fn run(args: &FgrArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Plan(args) => plan::run(args),
        Command::Config(args) => config::run(args),
    }
}
