//! `finerail site reach`: reports which nodes reach which.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use lnet_site::{Selection, Site, reach};

use super::files::{printable, read_known};
use crate::common::{BAD_INPUT, NEGATIVE, print_bytes};

/// Arguments of `finerail site reach`.
#[derive(clap::Args)]
#[command(after_help = "\
The code that sends messages selects each path, in the state in which nodes are after they have pinged \
their gateways. The command follows the path from node to node, in both directions. Senders and \
receivers are classes: nodes that differ only in their NIDs. Findings of `finerail site check` about the ends or \
the gateways make an answer doubtful.

Examples:
  finerail site reach site/
  finerail site reach site/ client0001 'oss[1-4]'
  finerail site reach --html site/ > reach.html

Exit code: 0 messages arrive between all classes that a network or router connects, and with FROM and \
TO between all of these, 1 some do not arrive, or it is in doubt, 2 wrong usage or files that cannot be read.
")]
pub(crate) struct ReachArgs {
    /// The directory of the site's files
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The senders: a host list, NIDs or nets, separated by commas [default: all]
    #[arg(value_name = "FROM")]
    from: Option<String>,
    /// The receivers, in the same form; the reverse path is checked too [default: all]
    #[arg(value_name = "TO")]
    to: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// Print one self-contained HTML page with a picture
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
        ExitCode::from(NEGATIVE)
    })
}

/// Returns the selected nodes. Each name must match a node, NID or net of the site.
pub(super) fn selection(text: Option<&str>, site: &Site) -> anyhow::Result<Selection> {
    let Some(text) = text else {
        return Ok(Selection::default());
    };
    // Mostly an unset variable of a script. Nothing would fail, and the answer would look like good news.
    if text.split(',').all(|name| name.trim().is_empty()) {
        bail!("'{text}' names no node, NID or net");
    }
    let selection = Selection::parse(text).with_context(|| text.to_owned())?;
    match &selection.unknown(site)[..] {
        [] => Ok(selection),
        [name, ..] => bail!("'{name}' is not a node, NID or net of the site"),
    }
}
