//! `finerail files`: commands on files that an address names.

pub(crate) mod address;
pub(crate) mod change;
mod check;
pub(crate) mod connections;
pub(crate) mod copy;
pub(crate) mod show;
mod waiting;

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use files::tools::Failure;

use crate::common::{NEGATIVE, Negative, complaint};

/// Arguments of `finerail files`.
#[derive(clap::Args)]
#[command(after_help = "\
An ADDRESS names the place of files:
  dir:PATH                         a path of this machine
  lnet:NID[,NID…][:/PATH]          below what the gateways at these NIDs export
  zoid:[INSTANCE][:/PATH]          below what the forwarder of this I/O node exports
  bmi:tcp://HOST:PORT[:/PATH]      below what a forwarder exports over plain BMI
A slash at the end marks a directory. `lnet:` needs the configuration of this machine's node (--config).
")]
pub(crate) struct FilesArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Copy files and directories to an address
    Put(copy::PutArgs),
    /// Copy files and directories from an address
    Get(copy::GetArgs),
    /// List directories
    Ls(show::LsArgs),
    /// Print the attributes of files and directories
    Stat(show::StatArgs),
    /// Write files to standard output
    Cat(show::CatArgs),
    /// Remove files and directories
    Rm(change::RmArgs),
    /// Rename a file or directory; an existing file with the new name is replaced
    Mv(change::MvArgs),
    /// Make directories
    Mkdir(change::MkdirArgs),
    /// Give a file another name, or make a symbolic link
    Ln(change::LnArgs),
    /// Sum up the contents of directories
    Du(show::DuArgs),
    /// Compare two trees, or a tree with a list of digests
    Check(check::CheckArgs),
}

/// Runs `finerail files`.
pub(crate) fn run(args: &FilesArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Put(args) => copy::put(args),
        Command::Get(args) => copy::get(args),
        Command::Ls(args) => show::ls(args),
        Command::Stat(args) => show::stat(args),
        Command::Cat(args) => show::cat(args),
        Command::Rm(args) => change::rm(args),
        Command::Mv(args) => change::mv(args),
        Command::Mkdir(args) => change::mkdir(args),
        Command::Ln(args) => change::ln(args),
        Command::Du(args) => show::du(args),
        Command::Check(args) => check::run(args),
    }
}

/// Collects whether anything failed, for the exit code.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) is_not_so: bool,
}

impl Outcome {
    /// Reports a failure with one object, so that the command can continue with the others. Returns an error if
    /// the server cannot be reached, because no other object can be processed then.
    pub(crate) fn note(&mut self, failure: &Failure) -> anyhow::Result<()> {
        if failure.is_fatal() {
            return Err(not_so(failure));
        }
        complaint(&failure.to_string());
        self.is_not_so = true;
        Ok(())
    }

    pub(crate) fn code(&self) -> ExitCode {
        match self.is_not_so {
            true => ExitCode::from(NEGATIVE),
            false => ExitCode::SUCCESS,
        }
    }
}

/// Converts a failure at a server, which is not a mistake of the user: the exit code becomes 1.
pub(crate) fn not_so(failure: &Failure) -> anyhow::Error {
    Negative(advice(failure)).into()
}

/// Formats a failure, with a hint what to check if the server cannot be reached.
pub(crate) fn advice(failure: &Failure) -> String {
    let hint = match failure.is_fatal() {
        true => "; is the gateway or forwarder running there, and does 'finerail ping' reach it?",
        false => "",
    };
    format!("{failure}{hint}")
}

pub(crate) fn print(text: impl fmt::Display) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{text}").context("cannot write to standard output")
}
