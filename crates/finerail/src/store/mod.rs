//! `finerail store`: the storage service and its client.

mod export;
mod get;
mod put;
mod serve;
mod show;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

use clap::Subcommand;
use lnet_types::Nid;

use crate::common::{ConfigArgs, StatsArgs, TransportArgs};
use crate::files::address::Address;
use crate::files::connections::{ConnectionArgs, SpreadArgs};

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
    /// Store files and directories
    Put(put::PutArgs),
    /// Fetch a file or a directory
    Get(get::GetArgs),
    /// List a directory
    Ls(show::LsArgs),
    /// Print the attributes of files and directories
    Stat(show::StatArgs),
    /// Remove files and empty directories
    Rm(show::RmArgs),
    /// Rename a file or directory; an existing file with the new name is replaced
    Mv(show::MvArgs),
}

/// Runs `finerail store`.
pub(crate) fn run(args: &StoreArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Serve(args) => serve::run(args),
        Command::Put(args) => put::run(args),
        Command::Get(args) => get::run(args),
        Command::Ls(args) => show::ls(args),
        Command::Stat(args) => show::stat(args),
        Command::Rm(args) => show::rm(args),
        Command::Mv(args) => show::mv(args),
    }
}

/// The storage service, and the node that reaches it.
#[derive(clap::Args, Clone)]
struct ClientArgs {
    /// The storage service
    #[arg(value_name = "SERVER")]
    server: Nid,
    /// Seconds after which a call without an answer fails
    #[arg(long, alias = "deadline", value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout: u32,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    stats: StatsArgs,
}

impl ClientArgs {
    /// Returns the address of a name at the server; `.` is the root.
    fn address(&self, name: &OsStr) -> anyhow::Result<Address> {
        let server = format!("lnet:{}:/", self.server);
        let text = [server.as_bytes(), name.as_bytes()].concat();
        Ok(Address::parse(&OsString::from_vec(text))?)
    }

    fn connection(&self) -> ConnectionArgs {
        ConnectionArgs {
            timeout: self.timeout,
            spread: SpreadArgs::default(),
            config: self.config.clone(),
            transport: self.transport.clone(),
            stats: self.stats.clone(),
            of_mount: false,
        }
    }
}

/// Returns the name of the root.
fn directory() -> &'static OsStr {
    OsStr::new(".")
}
