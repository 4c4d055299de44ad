//! `finerail demo`: runs the whole path of files on this machine, while parts of it fail.
//!
//! ```text
//!  compute process ─▶ daemon, forwarder ─▶ router of rail 1 ─▶ storage gateways oss1, oss2
//!   no network         I/O node ion1    └▶ router of rail 2 ┘   one directory
//! ```
//!
//! Every part is a process of its own, and the files are carried by commands that any user can type. `plan.rs`
//! makes the configurations, `world.rs` the hosts and cables, `cast.rs` the processes, `compute.rs` the work,
//! and `faults.rs` the faults. `watch.rs` samples the nodes; `outcome.rs` and `page.rs` present the results.

mod cast;
mod compute;
mod data;
mod faults;
mod limit;
mod outcome;
mod page;
mod plan;
mod run;
mod watch;
mod world;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use self::compute::Manifest;
use self::data::Step;
use self::faults::Faults;
use self::world::World;
use crate::common::Negative;
use crate::service::raise_on_signals;

/// Arguments of `finerail demo`.
#[derive(clap::Args)]
#[command(after_help = "\
The demo needs no preparation and no root. If the system permits user and network namespaces and has 'ip' of \
iproute2, each node is a host with its own cables; otherwise all nodes are processes on loopback addresses.

Examples
  finerail demo                                a minute, with one fault of each kind
  finerail demo --quick --report demo.html     20 seconds, and a page with the results
  finerail demo --faults storm --seed 7        random faults, one after the other
  finerail demo --keep --directory /tmp/demo   keep all processes running, to inspect them
")]
pub(crate) struct DemoArgs {
    /// End within 20 seconds instead of a minute
    #[arg(long)]
    quick: bool,
    /// The faults during the work
    #[arg(long, value_enum, default_value_t = Faults::Standard)]
    faults: Faults,
    /// The seed of --faults storm
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the report into this file as HTML, and its figures into a JSON file next to it
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Keep all processes running until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Work in this directory and keep its files [default: a temporary directory, removed at the end]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Verify the files of an earlier demo in this directory, and exit
    #[arg(long, value_name = "DIR", conflicts_with_all = ["quick", "faults", "seed", "report", "keep", "directory"])]
    verify: Option<PathBuf>,
}

pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    if let Some(directory) = &args.verify {
        return verify_again(directory);
    }
    // This call comes first, because it needs a process with one thread.
    let world = World::enter();
    let interrupted = raise_on_signals().context("cannot register signal handlers")?;
    let temporary = tempfile::Builder::new().prefix("finerail-demo-").tempdir();
    let temporary = temporary.context("cannot make a temporary directory")?;
    let directory = args.directory.as_deref().unwrap_or(temporary.path());
    make_empty(directory)?;
    let directory = directory
        .canonicalize()
        .context("cannot find the directory")?;
    let outcome = run::run(args, &directory, world, &interrupted);
    // An interruption comes before any other error, because it can be the cause of that error. Returning lets
    // the temporary directory and the processes end in order.
    if interrupted.load(Ordering::Relaxed) && !args.keep {
        return Err(Negative("interrupted".to_owned()).into());
    }
    let outcome = outcome.map_err(|error| Negative(format!("{error:#}")))?;
    match outcome.verified.differences.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Negative("the stored files differ from the written files".to_owned()).into()),
    }
}

/// Compares the storage of an earlier demo with its manifest.
fn verify_again(directory: &Path) -> anyhow::Result<ExitCode> {
    let interrupted = raise_on_signals().context("cannot register signal handlers")?;
    let manifest = Manifest::read(directory)?;
    let storage = directory.join("storage");
    let checked = with_bar("verify", &interrupted, |step| {
        manifest.verify(&storage, step)
    });
    let (differences, bytes) = checked?;
    if differences.is_empty() {
        print(&format!(
            "Every byte is right: {} files, {} MB.\n",
            manifest.files.len(),
            bytes / 1_000_000
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    Err(Negative(format!(
        "the stored files differ from the written files:\n  {}",
        differences.join("\n  ")
    ))
    .into())
}

/// Makes the directory, which must be empty: otherwise files of an earlier run would be taken for files of this
/// run.
fn make_empty(directory: &Path) -> anyhow::Result<()> {
    let shown = directory.display();
    fs::create_dir_all(directory).with_context(|| format!("cannot make {shown}"))?;
    // Its parts write in the directory while they run, so no other user may put links there.
    sys::own_directory(directory, 0o002).with_context(|| format!("cannot use {shown}"))?;
    let mut entries = fs::read_dir(directory).with_context(|| format!("cannot list {shown}"))?;
    ensure!(
        entries.next().is_none(),
        "{shown} is not empty: remove the files of an earlier demo, or choose another directory"
    );
    Ok(())
}

/// Runs a step with a progress bar, which appears only on a terminal.
fn with_bar<R>(
    name: &'static str,
    interrupted: &AtomicBool,
    run: impl FnOnce(&Step<'_>) -> anyhow::Result<R>,
) -> anyhow::Result<R> {
    let bar = if io::stderr().is_terminal() {
        ProgressBar::new_spinner()
    } else {
        ProgressBar::hidden()
    };
    let style = ProgressStyle::with_template("{msg:10} {bytes:>10} {bytes_per_sec:>12}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_message(name);
    let step = Step { bar, interrupted };
    let result = run(&step);
    step.bar.finish_and_clear();
    result
}

fn print(text: &str) -> anyhow::Result<()> {
    io::stdout()
        .write_all(text.as_bytes())
        .context("cannot write to standard output")
}
