//! `finerail store ls`, `stat`, `rm` and `mv`: the commands of `finerail files` for one gateway.

use std::ffi::OsString;
use std::process::ExitCode;

use files::RenameMode;

use super::ClientArgs;
use crate::files::address::Address;
use crate::files::change::{Depth, remove, rename};
use crate::files::show::{Shown, list, stat_all};

/// Arguments of `finerail store ls`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples
  finerail store ls 10.2.0.9@tcp1
  finerail store ls -l --config client.yaml --port 9988 127.0.0.5@tcp holiday
")]
pub(super) struct LsArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The directory; . is the root
    #[arg(value_name = "NAME", default_value = ".")]
    name: OsString,
    /// Print permissions, size and time of each entry
    #[arg(short)]
    long: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Arguments of `finerail store stat`.
#[derive(clap::Args)]
#[command(after_help = "\
Example
  finerail store stat 10.2.0.9@tcp1 results.h5
")]
pub(super) struct StatArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Files and directories
    #[arg(required = true, value_name = "NAME")]
    names: Vec<OsString>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Arguments of `finerail store rm`.
#[derive(clap::Args)]
#[command(after_help = "\
Example
  finerail store rm 10.2.0.9@tcp1 results.h5
")]
pub(super) struct RmArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Files and empty directories
    #[arg(required = true, value_name = "NAME")]
    names: Vec<OsString>,
}

/// Arguments of `finerail store mv`.
#[derive(clap::Args)]
#[command(after_help = "\
Example
  finerail store mv 10.2.0.9@tcp1 results.h5 archive/2025.h5
")]
pub(super) struct MvArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The old name
    #[arg(value_name = "FROM")]
    from: OsString,
    /// The new name
    #[arg(value_name = "TO")]
    to: OsString,
    /// Make missing parent directories
    #[arg(long, short)]
    parents: bool,
}

pub(super) fn ls(args: &LsArgs) -> anyhow::Result<ExitCode> {
    let shown = Shown {
        long: args.long,
        all: false,
        json: args.json,
    };
    let address = args.client.address(&args.name)?;
    list(&[address], shown, &args.client.connection())
}

pub(super) fn stat(args: &StatArgs) -> anyhow::Result<ExitCode> {
    let addresses = addresses(&args.client, &args.names)?;
    stat_all(&addresses, args.json, &args.client.connection())
}

pub(super) fn rm(args: &RmArgs) -> anyhow::Result<ExitCode> {
    let addresses = addresses(&args.client, &args.names)?;
    remove(&addresses, Depth::Empty, false, &args.client.connection())
}

pub(super) fn mv(args: &MvArgs) -> anyhow::Result<ExitCode> {
    let (from, to) = (
        args.client.address(&args.from)?,
        args.client.address(&args.to)?,
    );
    rename(
        &from,
        &to,
        RenameMode::Replace,
        args.parents,
        &args.client.connection(),
    )
}

fn addresses(client: &ClientArgs, names: &[OsString]) -> anyhow::Result<Vec<Address>> {
    names.iter().map(|name| client.address(name)).collect()
}
