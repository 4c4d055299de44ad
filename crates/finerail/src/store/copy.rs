//! What storing and fetching have in common: progress, interruption, the summary at the end.

use std::fmt;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use lnet_store::Store;
use lnet_store::transfer::{Failed, Progress};
use serde::Serialize;

use super::{advice, print};
use crate::common::{NOT_SO, complaint};
use crate::service::raise_on_signals;

/// How much there is to do.
#[derive(Clone, Copy)]
pub(super) struct Amount {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// What was done; with `--json` printed as it is.
#[derive(Serialize)]
pub(super) struct Summary {
    files: u64,
    bytes: u64,
    seconds: f64,
    /// Requests sent again because nothing was heard.
    retries: u64,
    /// Files begun again because the service restarted or the file was replaced.
    begun_again: u64,
    interrupted: bool,
    failed: Vec<FailedFile>,
}

#[derive(Serialize)]
pub(super) struct FailedFile {
    pub(super) name: String,
    pub(super) error: String,
}

/// How often progress is shown and interruption looked for.
const LOOK: Duration = Duration::from_millis(100);
/// Shorter transfers show no bar.
const BAR_AFTER: Duration = Duration::from_secs(2);

/// Runs a transfer, with a bar on a terminal. SIGINT and SIGTERM let the calls under way end and leave
/// no half file; a second signal ends the process at once.
pub(super) fn run(
    store: &Store,
    amount: Amount,
    name_of: impl Fn(usize) -> String,
    transfer: impl FnOnce(&Progress) -> Vec<Failed> + Send,
) -> anyhow::Result<Summary> {
    let interrupted = raise_on_signals().context("cannot take signals")?;
    let progress = Progress::default();
    let begun = Instant::now();
    let retries = store.rpc().counters().retries;
    let failed = thread::scope(|scope| {
        let (ended, watch) = mpsc::channel::<()>();
        let (shown, flag) = (&progress, &interrupted);
        scope.spawn(move || watch_progress(&watch, shown, amount, flag));
        let failed = transfer(&progress);
        drop(ended);
        failed
    });
    let failed = failed.into_iter().map(|failed| FailedFile {
        name: name_of(failed.item),
        error: advice(&failed.error),
    });
    Ok(Summary {
        files: progress.files(),
        bytes: progress.bytes(),
        seconds: begun.elapsed().as_secs_f64(),
        retries: store.rpc().counters().retries - retries,
        begun_again: progress.begun_again(),
        interrupted: progress.is_cancelled(),
        failed: failed.collect(),
    })
}

fn watch_progress(
    ended: &mpsc::Receiver<()>,
    progress: &Progress,
    amount: Amount,
    interrupted: &AtomicBool,
) {
    let begun = Instant::now();
    let mut bar: Option<ProgressBar> = None;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK) {
        if interrupted.load(Ordering::Relaxed) {
            progress.cancel();
        }
        if begun.elapsed() > BAR_AFTER && io::stderr().is_terminal() {
            let bar = bar.get_or_insert_with(|| new_bar(amount.bytes));
            bar.set_position(progress.bytes());
            bar.set_message(format!("{}/{} files", progress.files(), amount.files));
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn new_bar(bytes: u64) -> ProgressBar {
    let template = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    let bar = ProgressBar::new(bytes);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

impl Summary {
    /// Adds files that never began.
    pub(super) fn add_failed(&mut self, failed: Vec<FailedFile>) {
        self.failed.extend(failed);
    }

    /// Prints the summary and what failed; the exit code that fits.
    pub(super) fn print(&self, verb: &str, json: bool) -> anyhow::Result<ExitCode> {
        for failed in &self.failed {
            complaint(&failed.error);
        }
        if json {
            print(serde_json::to_string_pretty(self)?)?;
        } else {
            print(format_args!("{verb} {self}"))?;
        }
        let is_whole = self.failed.is_empty() && !self.interrupted;
        Ok(if is_whole {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(NOT_SO)
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = if self.seconds > 0.0 {
            self.bytes as f64 / self.seconds
        } else {
            0.0
        };
        let files = if self.files == 1 { "file" } else { "files" };
        write!(
            f,
            "{} {files}, {} in {:.2} s",
            self.files,
            HumanBytes(self.bytes),
            self.seconds
        )?;
        write!(f, " ({}/s)", HumanBytes(rate as u64))?;
        if self.retries > 0 {
            write!(f, ", {} requests repeated", self.retries)?;
        }
        if self.begun_again > 0 {
            write!(f, ", {} files begun again", self.begun_again)?;
        }
        if !self.failed.is_empty() {
            write!(f, ", {} failed", self.failed.len())?;
        }
        if self.interrupted {
            write!(f, ", interrupted")?;
        }
        Ok(())
    }
}
