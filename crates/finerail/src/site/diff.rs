//! `finerail site diff`: compares the behaviour of two sites.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use lnet_site::{difference_text, differences};

use super::files::{printable, read_known};
use super::what_if::{ended, extent};
use crate::common::print_bytes;

/// Arguments of `finerail site diff`.
#[derive(clap::Args)]
#[command(after_help = "\
Nodes are identified by their names. They are compared by the nodes that they reach, the paths that \
they take, and the number of alternative paths.

Example:
  finerail site diff site-before/ site-after/

Exit code: 0 both behave the same, 1 they differ, 2 wrong usage or files that cannot be read.
")]
pub(crate) struct DiffArgs {
    /// The directory of the files before the change
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The directory of the files after the change
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Print every direction; without this option at most a screen of 24 lines
    #[arg(long, short)]
    verbose: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
}

/// Runs `finerail site diff`.
pub(super) fn run(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let (old, new) = (read_known(&args.old)?, read_known(&args.new)?);
    let difference = differences(&old.site, &new.site);
    let text = match args.json {
        true => serde_json::to_string_pretty(&difference)? + "\n",
        false => printable(&difference_text(&difference, extent(args.verbose))),
    };
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(ended(
        old.is_partial || new.is_partial,
        !difference.is_empty(),
    ))
}
