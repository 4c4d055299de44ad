//! `finerail site reach`: who reaches whom.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use lnet_site::{Selection, Site, reach};

use super::files::{printable, read_known};
use crate::common::{BAD_INPUT, NOT_SO, print_bytes};

/// Arguments of `finerail site reach`.
#[derive(clap::Args)]
#[command(after_help = "\
Each path is chosen by the code that sends messages, in the state that nodes come to when they have
asked their gateways, and followed from node to node, there and back. Ends are classes: nodes that
differ in nothing but their NIDs.

Examples:
  finerail site reach site/
  finerail site reach site/ client0001 'oss[1-4]'
  finerail site reach --html site/ > reach.html

Exit code: 0 all messages arrive wherever something joins two classes, 1 some do not, 2 wrong usage
or files that cannot be read.
")]
pub(crate) struct ReachArgs {
    /// The directory of the site's files
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Who sends: a host list, NIDs or nets, separated by commas [default: all]
    #[arg(value_name = "FROM")]
    from: Option<String>,
    /// To whom, likewise; the way back is looked at, too [default: all]
    #[arg(value_name = "TO")]
    to: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// Print a page of HTML with a picture, which needs no other file
    #[arg(long)]
    html: bool,
}

/// Runs `finerail site reach`.
pub(super) fn run(args: &ReachArgs) -> anyhow::Result<ExitCode> {
    let read = read_known(&args.directory)?;
    let from = selection(args.from.as_deref(), &read.site)?;
    let to = selection(args.to.as_deref(), &read.site)?;
    let reach = reach(&read.site, &from, &to);
    let page = if args.json {
        serde_json::to_string_pretty(&reach)? + "\n"
    } else if args.html {
        reach.to_html()
    } else {
        printable(&reach.to_text())
    };
    print_bytes(page.as_bytes(), &mut io::stdout())?;
    Ok(if read.is_partial {
        ExitCode::from(BAD_INPUT)
    } else if reach.is_whole() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_SO)
    })
}

/// The nodes that are meant; each name must mean something.
pub(super) fn selection(text: Option<&str>, site: &Site) -> anyhow::Result<Selection> {
    let Some(text) = text else {
        return Ok(Selection::default());
    };
    // A variable of a script that is not set, most often: nothing would fail, and that would look like good news.
    if text.split(',').all(|name| name.trim().is_empty()) {
        bail!("'{text}' names no node, NID or net");
    }
    let selection = Selection::parse(text).with_context(|| text.to_owned())?;
    match &selection.unknown(site)[..] {
        [] => Ok(selection),
        [name, ..] => bail!("'{name}' is no node, NID or net of the site"),
    }
}
