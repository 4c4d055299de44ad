//! `finerail store put`: `finerail files put` to one gateway.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use super::{ClientArgs, directory};
use crate::files::address::Address;
use crate::files::copy::{CopyArgs, CopyJob, ShapeArgs, run as copy};

/// Arguments of `finerail store put`.
#[derive(clap::Args)]
#[command(after_help = "\
A single PATH is stored under its own name. With several, the last PATH is the name in the store: the name
of the file or directory itself, or, if it ends with a slash or there is more than one source, the name of the
directory that receives them. Directories are stored with everything below them. A file of the same name is
replaced. The command does the same as finerail files put -r to lnet:SERVER:/NAME.

Examples
  finerail store put 10.2.0.9@tcp1 results.h5
  finerail store put 10.2.0.9@tcp1 ~/pictures holiday
  finerail store put --config client.yaml --port 9988 127.0.0.5@tcp a.txt b.txt notes/
")]
pub(super) struct PutArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Files and directories, and the target
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    shape: ShapeArgs,
}

pub(super) fn run(args: &PutArgs) -> anyhow::Result<ExitCode> {
    let (target, sources) = match &args.paths[..] {
        [sources @ .., target] if !sources.is_empty() => (target.as_os_str(), sources),
        sources => (directory(), sources),
    };
    let job = CopyJob {
        sources: sources.iter().cloned().map(Address::Local).collect(),
        target: args.client.address(&OsString::from(target))?,
        is_place: false,
        verb: "stored",
    };
    copy(
        &job,
        &CopyArgs::from(args.shape.clone()),
        &args.client.connection(),
    )
}
