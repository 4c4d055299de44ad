//! `finerail site what-if`: reports which pairs of nodes a failure or a change affects.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use lnet_site::{
    Extent, Impact, Site, SiteDifference, difference_text, differences, each_rail, each_router,
    impacts_text, overlay, what_if,
};

use super::files::{printable, read_again, read_files, read_known, tell_unread};
use super::reach::selection;
use crate::common::{BAD_INPUT, NEGATIVE, print_bytes};

/// Arguments of `finerail site what-if`.
#[derive(clap::Args)]
#[command(after_help = "\
Both directions of each pair are checked: messages that servers start (lock callbacks) count like requests.

Examples:
  finerail site what-if site/ --down rtr1
  finerail site what-if site/ --down o2ib3,10.0.0.7@tcp
  finerail site what-if site/ --each-router
  finerail site what-if site/ --apply new/rtr1.yaml

Exit code: 0 nothing is lost, 1 some pairs lose messages, 2 wrong usage or files that cannot be read.
")]
pub(crate) struct WhatIfArgs {
    /// The directory of the site's files
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Let these fail together: a host list, NIDs or nets, separated by commas
    #[arg(long, value_name = "NID|NET|NODE", required_unless_present_any = ["each_router", "each_rail", "apply"])]
    down: Option<String>,
    /// Let every gateway fail, one at a time
    #[arg(long, conflicts_with_all = ["down", "each_rail", "apply"])]
    each_router: bool,
    /// Let every interface of a gateway fail, and every interface of a node that has several, one at a time
    #[arg(long, conflicts_with_all = ["down", "apply"])]
    each_rail: bool,
    /// Replace the documents of the nodes with the same names: a file or a directory
    #[arg(long, value_name = "FILE|DIR", conflicts_with = "down")]
    apply: Option<PathBuf>,
    /// Print every direction; without this option at most a screen of 24 lines
    #[arg(long, short)]
    verbose: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
}

/// Runs `finerail site what-if`.
pub(super) fn run(args: &WhatIfArgs) -> anyhow::Result<ExitCode> {
    let read = read_known(&args.directory)?;
    if let Some(path) = &args.apply {
        let (before, new) = (read_again(&args.directory)?, read_files(path)?);
        if new.gathered.nodes.is_empty() {
            bail!("{}: no document of a node", path.display());
        }
        let after = Site::new(overlay(before, new.gathered))?;
        // The unreadable nodes of the directory have already been reported.
        let is_unread = after.unread() != read.site.unread() && tell_unread(&after, path);
        let is_partial = read.is_partial || new.is_partial || is_unread;
        let difference = differences(&read.site, &after);
        return changed(&difference, args, is_partial);
    }
    let impacts = match &args.down {
        Some(down) => {
            let failed = selection(Some(down), &read.site)?.nids(&read.site);
            vec![what_if(&read.site, &failed, down)]
        }
        None if args.each_router => each_router(&read.site),
        None => each_rail(&read.site),
    };
    let text = match args.json {
        true => serde_json::to_string_pretty(&impacts)? + "\n",
        false => printable(&impacts_text(&impacts, extent(args.verbose))),
    };
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(ended(read.is_partial, impacts.iter().any(Impact::loses)))
}

fn changed(
    difference: &SiteDifference,
    args: &WhatIfArgs,
    is_partial: bool,
) -> anyhow::Result<ExitCode> {
    let text = match args.json {
        true => serde_json::to_string_pretty(difference)? + "\n",
        false => printable(&difference_text(difference, extent(args.verbose))),
    };
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(ended(is_partial, difference.loses()))
}

/// Returns how much a command prints.
pub(super) fn extent(verbose: bool) -> Extent {
    if verbose { Extent::All } else { Extent::Screen }
}

/// Returns the exit code of the command.
pub(super) fn ended(is_partial: bool, is_not_so: bool) -> ExitCode {
    if is_partial {
        ExitCode::from(BAD_INPUT)
    } else if is_not_so {
        ExitCode::from(NEGATIVE)
    } else {
        ExitCode::SUCCESS
    }
}
