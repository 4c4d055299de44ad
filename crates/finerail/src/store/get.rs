//! `finerail store get`: `finerail files get` from one gateway.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;

use super::ClientArgs;
use crate::files::address::Address;
use crate::files::copy::{CopyArgs, CopyJob, ShapeArgs, run as copy};

/// Arguments of `finerail store get`.
#[derive(clap::Args)]
#[command(after_help = "\
A directory is fetched with everything below it. LOCAL is then the directory that receives it; it is made if
it does not exist (its parent only with -p). A local file appears whole or not at all, and replaces a file of the
same name. The command does almost the same as finerail files get -r lnet:SERVER:/NAME.

Examples
  finerail store get 10.2.0.9@tcp1 results.h5
  finerail store get 10.2.0.9@tcp1 holiday ~/pictures
  finerail store get --config client.yaml --port 9988 127.0.0.5@tcp . everything
")]
pub(super) struct GetArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The file or directory to fetch; '.' is everything
    #[arg(value_name = "NAME")]
    name: OsString,
    /// The local target [default: the same name in the current directory]
    #[arg(value_name = "LOCAL")]
    local: Option<PathBuf>,
    #[command(flatten)]
    shape: ShapeArgs,
}

pub(super) fn run(args: &GetArgs) -> anyhow::Result<ExitCode> {
    let source = args.client.address(&args.name)?;
    let local = match (&args.local, source.own_name()) {
        (Some(local), _) => local.clone(),
        (None, Some(name)) => name,
        (None, None) => bail!("the whole store needs a target directory: name it as LOCAL"),
    };
    let job = CopyJob {
        sources: vec![source],
        target: Address::Local(local),
        is_place: true,
        verb: "fetched",
    };
    copy(
        &job,
        &CopyArgs::from(args.shape.clone()),
        &args.client.connection(),
    )
}
