//! `finerail site targets`: reports which targets of a file system are out of reach of which class of clients.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use lnet_site::targets;

use super::files::{printable, read_known};
use crate::common::{BAD_INPUT, NEGATIVE, print_bytes, read_targets};

/// Arguments of `finerail site targets`.
#[derive(clap::Args)]
#[command(after_help = "\
FILE is what `finerail doctor mount --save FILE` writes: the targets of a file system with the NIDs of all their \
nodes. The code that sends messages selects each path, from each class of nodes that are neither gateways nor servers \
of the file system. Findings of `finerail site check` about the ends or the gateways make an answer doubtful.

Examples:
  finerail doctor mount --save fs1.json 10.1.0.2@tcp:/fs1
  finerail site targets fs1.json site/

Exit code: 0 every class reaches every target on each of its nodes, 1 some do not, or it is in doubt, 2 wrong usage or \
files that cannot be read.
")]
pub(crate) struct TargetsArgs {
    /// The saved targets
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The directory of the site's files
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `finerail site targets`.
pub(super) fn run(args: &TargetsArgs) -> anyhow::Result<ExitCode> {
    let saved = read_targets(&args.file)?;
    let read = read_known(&args.directory)?;
    let answer = targets(&read.site, &saved);
    let page = match args.json {
        true => serde_json::to_string_pretty(&answer)? + "\n",
        false => printable(&answer.to_text()),
    };
    print_bytes(page.as_bytes(), &mut io::stdout())?;
    Ok(if read.is_partial {
        ExitCode::from(BAD_INPUT)
    } else if answer.is_whole() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NEGATIVE)
    })
}
