//! `finerail fgr report`: the figures and pictures of a plan as one HTML file, and each part as a file of its
//! own.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use fgr::report::{Study, html, parts};

use super::input::{PlanningArgs, spinner};
use super::output::write_parts;

/// Arguments of `finerail fgr report`.
#[derive(clap::Args)]
#[command(after_help = "\
The file is self-contained, without scripts and network access. The text below every picture has its figures.

Examples:
  finerail fgr report --machine titan.map --modules modules.csv -o titan.html
  finerail fgr report --machine machine.yaml --policy balanced -o report.html --parts parts
")]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    planning: PlanningArgs,
    /// The HTML file to write
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Write every picture as SVG and every table as CSV into this directory. Files of others in it stay, and those of an
    /// earlier report are replaced
    #[arg(long, value_name = "DIR")]
    parts: Option<PathBuf>,
    /// The command that the report names as its origin [default: this command]
    #[arg(long, value_name = "TEXT")]
    made_by: Option<String>,
}

/// Runs `finerail fgr report`.
pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let (machine, plan) = args.planning.plan()?;
    let options = args.planning.rules.options(plan.dead.clone());
    let bar = spinner("planning by every policy");
    let study = Study::new(&machine, plan, &options);
    bar.finish_and_clear();
    let command = args.made_by.clone().unwrap_or_else(this_command);
    if let Some(directory) = &args.parts {
        write_parts(directory, &parts(&machine, &study))?;
    }
    write(&args.output, &html(&machine, &study, &command))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the command line as it was typed, without the directory of the program.
pub(super) fn this_command() -> String {
    let arguments = std::env::args_os().skip(1);
    let words = arguments.map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = std::iter::once("finerail".to_owned())
        .chain(words)
        .collect();
    words.join(" ")
}

/// Writes a file.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    sys::write_file(path, text).with_context(|| format!("cannot write {}", path.display()))
}
