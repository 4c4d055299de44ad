//! `finerail store`: the storage service.

mod export;
mod serve;

use std::process::ExitCode;

use clap::Subcommand;

/// Arguments of `finerail store`.
#[derive(clap::Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a directory to clients over LNet
    Serve(serve::ServeArgs),
}

/// Runs `finerail store`.
pub(crate) fn run(args: &StoreArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Serve(args) => serve::run(args),
    }
}
