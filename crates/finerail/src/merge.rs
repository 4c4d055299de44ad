//! `finerail merge`: joins the shares of a sweep.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::common::{NEGATIVE, print_bytes, read_limited};
use crate::shard::ShardFile;
use crate::{fgr, sim};

/// The limit of bytes of a file.
const MAX_BYTES: u64 = 256 << 20;

/// The limit of missing shares whose numbers are printed.
const SHOWN: usize = 50;

/// Arguments of `finerail merge`.
#[derive(clap::Args)]
#[command(after_help = "\
Files may be joined in any order and in several steps. If every share is there, the result of the sweep is \
printed as the command itself prints it.

Exit code: 0 every share is there, 1 shares are missing (their numbers are printed) or the sweep found a \
failure, 2 the files do not belong together.

Examples:
  finerail sim all-faults --runs 100000 --shard 0/4 > 0.json      # and 1/4, 2/4, 3/4 elsewhere
  finerail merge *.json
  finerail merge 0.json 1.json -o half.json; finerail merge half.json 2.json 3.json
")]
pub(crate) struct MergeArgs {
    /// Outputs of commands with --shard, or files of 'finerail merge -o'
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the joined shares into this file, even if shares are missing
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs `finerail merge`.
///
/// # Errors
///
/// A file cannot be read, or the files do not belong together.
pub(crate) fn run(args: &MergeArgs) -> anyhow::Result<ExitCode> {
    let mut joined: Option<ShardFile> = None;
    for path in &args.files {
        let name = path.display().to_string();
        let text = read_limited(path, MAX_BYTES);
        let text = text.with_context(|| format!("cannot read {name}"))?;
        if text.len() as u64 > MAX_BYTES {
            bail!("{name}: more than {MAX_BYTES} bytes, the limit of a file");
        }
        let file = ShardFile::parse(&name, &text)?;
        match &mut joined {
            Some(joined) => joined.join(&name, file)?,
            None => joined = Some(file),
        }
    }
    let Some(joined) = joined else {
        bail!("no file");
    };
    if let Some(path) = &args.output {
        sys::write_file(path, joined.text()?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let missing = joined.missing();
    if !missing.is_empty() {
        let shown: Vec<String> = missing.iter().take(SHOWN).map(u32::to_string).collect();
        let more = if missing.len() > SHOWN { ", …" } else { "" };
        writeln!(io::stderr(), "missing shares: {}{more}", shown.join(","))?;
        return Ok(ExitCode::from(NEGATIVE));
    }
    let (text, holds) = match joined.command.as_str() {
        "sim" => sim::merged(&joined)?,
        "fgr compare" => fgr::compared(&joined)?,
        "fgr place" => fgr::placed(&joined)?,
        other => bail!("the command '{other}' has no shares"),
    };
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NEGATIVE)
    })
}
