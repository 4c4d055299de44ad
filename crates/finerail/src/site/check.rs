//! `finerail site check`: reports what is wrong in a site.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use lnet_site::{Check, check};

use super::files::{printable, read_site};
use crate::common::{BAD_INPUT, NEGATIVE, print_bytes};

/// Arguments of `finerail site check`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  finerail site check site/
  finerail site check --sarif site/ > site.sarif
  finerail site check --html site/ > site.html

Exit code: 0 no errors, 1 errors were found, 2 wrong usage or files that cannot be read; the findings of \
the other files are printed nevertheless.
")]
pub(crate) struct CheckArgs {
    /// The directory of the site's files
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Print JSON, with every finding
    #[arg(long, conflicts_with_all = ["sarif", "html"])]
    json: bool,
    /// Print SARIF 2.1.0
    #[arg(long, conflicts_with = "html")]
    sarif: bool,
    /// Print one self-contained HTML page
    #[arg(long)]
    html: bool,
}

/// Runs `finerail site check`.
pub(super) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let read = read_site(&args.directory)?;
    let check = check(&read.site)?;
    print_bytes(args.printed(&check)?.as_bytes(), &mut io::stdout())?;
    let mut findings = check.report.findings.iter();
    Ok(
        if read.is_partial || findings.any(|one| one.code == "unreadable") {
            ExitCode::from(BAD_INPUT)
        } else if check.report.errors > 0 {
            ExitCode::from(NEGATIVE)
        } else {
            ExitCode::SUCCESS
        },
    )
}

impl CheckArgs {
    fn printed(&self, check: &Check) -> anyhow::Result<String> {
        Ok(if self.json {
            serde_json::to_string_pretty(check)? + "\n"
        } else if self.sarif {
            serde_json::to_string_pretty(&check.report.sarif())? + "\n"
        } else if self.html {
            check.to_html()
        } else {
            printable(&check.to_text())
        })
    }
}
