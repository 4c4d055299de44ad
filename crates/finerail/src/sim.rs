//! `finerail sim`: runs a fabric with faults, and reports what happened.

mod subject;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use lnet_sim::cores::{BUILTIN, Scenario};
use lnet_sim::{Failure, Summary};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::subject::{STACKS, Subject};
use crate::common::{NEGATIVE, print_bytes, read_limited};
use crate::service::raise_on_signals;
use crate::shard::{Shard, ShardArgs, ShardFile};

/// The limit of a scenario file. A scenario has a page or two.
const SCENARIO_BYTES_MAX: u64 = 1 << 20;

/// Run LNet nodes on a virtual fabric with faults, and check that nothing is lost, duplicated or leaked
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  finerail sim --list
  finerail sim failing-rail
  finerail sim flapping-router --seed 7 --trace run.txt
  finerail sim all-faults --for 60s --jobs 2
  finerail sim real-stack --runs 1000 --jobs 2
  finerail sim real-stack-rdma --runs 1000 --jobs 2
  finerail sim mine.yaml --runs 100 --json")]
pub(crate) struct SimArgs {
    /// A built-in scenario (see --list), or a YAML file
    #[arg(required_unless_present = "list")]
    scenario: Option<String>,
    /// The first seed; equal seeds give identical runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run this many seeds, counted up from the first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Run seeds, counted up from the first, for this time, such as 60s, 5m or 2h, or until an interruption
    #[arg(long = "for", value_name = "TIME", value_parser = span, conflicts_with = "runs")]
    span: Option<Duration>,
    /// Run this many seeds at the same time
    #[arg(long, value_name = "N", default_value = "1")]
    jobs: NonZeroUsize,
    /// Write the events of the first seed's run into this file, one a line
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    share: ShardArgs,
    /// Print the built-in scenarios, or the one that is named
    #[arg(long)]
    list: bool,
}

/// Parses a time: `90`, `90s`, `5m`, `2h`. A number alone means seconds.
fn span(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        _ => (text, 1),
    };
    let number: Option<u64> = number.parse().ok();
    let seconds = number.and_then(|number| number.checked_mul(unit));
    let seconds = seconds.filter(|seconds| (1..=1_000_000_000).contains(seconds));
    let seconds = seconds.ok_or_else(|| "write a time such as 60s, 5m or 2h".to_owned())?;
    Ok(Duration::from_secs(seconds))
}

/// Runs a scenario for each seed, or lists the scenarios.
///
/// # Errors
///
/// The scenario cannot be read, or the trace cannot be written.
pub(crate) fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    if args.list {
        return list(args.scenario.as_deref());
    }
    let subject = read(args.scenario.as_deref().unwrap_or_default())?;
    if let Some(shard) = args.share.shard {
        return share(args, &subject, shard);
    }
    if let Some(path) = &args.trace {
        write_trace(&subject, args.seed, path)?;
    }
    let mut sweep = Sweep::new(args, args.seeds());
    if args.span.is_some() || args.runs > 1 {
        sweep.interrupted = raise_on_signals().context("cannot register signal handlers")?;
    }
    sweep.run(&subject, args.jobs);
    let summary = sweep.summary();
    let failure = sweep.failed().and_then(|seed| subject.failure(seed));
    let text = if args.json {
        as_json(subject.name(), args.seed, &summary, failure.as_ref())
    } else {
        let (name, what) = (subject.name(), subject.summary());
        let failure = failure.as_ref().map(ToString::to_string);
        as_text((name, what), args.seed, &summary, failure.as_deref())
    };
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(match failure {
        Some(_) => ExitCode::from(NEGATIVE),
        None => ExitCode::SUCCESS,
    })
}

/// The result of one share.
#[derive(Serialize, Deserialize)]
struct Share {
    summary: Summary,
    /// The lowest seed that failed, and its smallest failing schedule.
    failed: Option<(u64, String)>,
}

/// The description of a sweep, which is the same for all its shares.
#[derive(Serialize, Deserialize)]
struct Asked {
    scenario: String,
    what: String,
    seed: u64,
    runs: u64,
}

/// Runs the seeds of a share and prints their result.
fn share(args: &SimArgs, subject: &Subject, shard: Shard) -> anyhow::Result<ExitCode> {
    if args.span.is_some() || args.trace.is_some() || args.json {
        bail!("--shard goes with --seed, --runs and --jobs only");
    }
    let mut sweep = Sweep::new(args, shard.of(args.seeds()));
    sweep.run(subject, args.jobs);
    let failed = sweep.failed().and_then(|seed| {
        let failure = subject.failure(seed)?;
        Some((seed, failure.to_string()))
    });
    let asked = Asked {
        scenario: subject.name().to_owned(),
        what: subject.summary().to_owned(),
        seed: args.seed,
        runs: args.runs,
    };
    let found = Share {
        summary: sweep.summary(),
        failed,
    };
    shard.print(
        "sim",
        serde_json::to_value(asked)?,
        serde_json::to_value(found)?,
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the result of all shares, as one run would print it, and whether every invariant held.
///
/// # Errors
///
/// The shares hold results of another command.
pub(crate) fn merged(file: &ShardFile) -> anyhow::Result<(String, bool)> {
    let asked: Asked = serde_json::from_value(file.asked.clone())?;
    let mut summary = Summary::default();
    let mut failed: Option<(u64, String)> = None;
    for result in file.results.values() {
        let share: Share = serde_json::from_value(result.clone())?;
        summary.add(&share.summary);
        failed = failed.into_iter().chain(share.failed).min();
    }
    if summary.runs > 1 {
        summary.rails.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let failure = failed.as_ref().map(|(_, text)| text.as_str());
    let text = as_text(
        (&asked.scenario, &asked.what),
        asked.seed,
        &summary,
        failure,
    );
    Ok((text, failed.is_none()))
}

impl SimArgs {
    /// Returns the seeds to run. The range has no end if `--for` limits the run.
    fn seeds(&self) -> Range<u64> {
        match self.span {
            Some(_) => self.seed..u64::MAX,
            None => self.seed..self.seed.saturating_add(self.runs),
        }
    }
}

fn list(name: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    for builtin in BUILTIN
        .iter()
        .filter(|builtin| name.is_none_or(|name| name == builtin.name))
    {
        if name.is_some() {
            text += builtin.text;
        } else if let Some(scenario) = Scenario::builtin(builtin.name) {
            text += &format!("{:<20} {}\n", scenario.name, scenario.summary);
        }
    }
    for stacks in STACKS
        .into_iter()
        .filter(|stacks| name.is_none_or(|name| name == stacks.name))
    {
        text += &format!(
            "{:<20} {}\n",
            stacks.name,
            Subject::Stacks(stacks).summary()
        );
    }
    if text.is_empty() {
        bail!("{}", unknown(name.unwrap_or_default()));
    }
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

fn unknown(name: &str) -> String {
    let names = BUILTIN.iter().map(|builtin| builtin.name);
    let names: Vec<&str> = names.chain(STACKS.map(|stacks| stacks.name)).collect();
    format!(
        "no scenario '{name}'; the built-in scenarios are: {}",
        names.join(", ")
    )
}

fn read(name: &str) -> anyhow::Result<Subject> {
    if let Some(stacks) = STACKS.into_iter().find(|stacks| stacks.name == name) {
        return Ok(Subject::Stacks(stacks));
    }
    if let Some(scenario) = Scenario::builtin(name) {
        return Ok(Subject::Fabric(Box::new(scenario)));
    }
    let is_file = name.contains(['.', '/']);
    if !is_file && !fs::exists(name).unwrap_or(false) {
        bail!("{}", unknown(name));
    }
    let text = read_limited(Path::new(name), SCENARIO_BYTES_MAX);
    let text = text.with_context(|| format!("cannot read {name}"))?;
    if text.len() as u64 > SCENARIO_BYTES_MAX {
        bail!("{name}: more than {SCENARIO_BYTES_MAX} bytes, the limit of a scenario");
    }
    let scenario = Scenario::parse(&text).map_err(|error| {
        let (line, column) = (error.line, error.column);
        let help = if error.help.is_empty() {
            String::new()
        } else {
            format!("; {}", error.help)
        };
        anyhow!("{name}:{line}:{column}: {}{help}", error.what)
    })?;
    Ok(Subject::Fabric(Box::new(scenario)))
}

fn write_trace(subject: &Subject, seed: u64, path: &Path) -> anyhow::Result<()> {
    let trace = subject.run(seed, true).trace.unwrap_or_default();
    let mut file =
        sys::create_file(path).with_context(|| format!("cannot write {}", path.display()))?;
    file.write_all(trace.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Consecutive seeds that several threads run.
struct Sweep {
    first: u64,
    /// The end of the seeds, exclusive.
    end: u64,
    deadline: Option<Instant>,
    /// Set by a signal. Runs in progress complete, and no other run begins.
    interrupted: Arc<AtomicBool>,
    next: AtomicU64,
    done: Mutex<Done>,
    bar: ProgressBar,
}

#[derive(Default)]
struct Done {
    summary: Summary,
    /// The lowest seed that failed.
    failed: Option<u64>,
}

impl Sweep {
    fn new(args: &SimArgs, seeds: Range<u64>) -> Self {
        Self {
            first: seeds.start,
            end: seeds.end,
            deadline: args.span.map(|span| Instant::now() + span),
            interrupted: Arc::default(),
            next: AtomicU64::new(seeds.start),
            done: Mutex::new(Done::default()),
            bar: progress(args, seeds.end - seeds.start),
        }
    }

    fn run(&mut self, subject: &Subject, jobs: NonZeroUsize) {
        let shared = &*self;
        std::thread::scope(|scope| {
            for _ in 1..jobs.get() {
                scope.spawn(|| shared.work(subject));
            }
            shared.work(subject);
        });
        self.bar.finish_and_clear();
    }

    fn work(&self, subject: &Subject) {
        while let Some(seed) = self.take() {
            let outcome = subject.run(seed, false);
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            done.summary.add(&outcome.summary);
            if outcome.violation.is_some() {
                done.failed = Some(done.failed.map_or(seed, |before| before.min(seed)));
            }
            drop(done);
            self.bar.inc(1);
        }
    }

    /// Takes the next seed; `None` after the deadline, an interruption or a failure. The first seed is run in
    /// any case.
    fn take(&self) -> Option<u64> {
        let late = self
            .deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
            || self.interrupted.load(Ordering::Relaxed);
        if late && self.next.load(Ordering::Relaxed) != self.first {
            return None;
        }
        let failed = self
            .done
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .failed;
        if failed.is_some() {
            return None;
        }
        let seed = self.next.fetch_add(1, Ordering::Relaxed);
        (seed < self.end).then_some(seed)
    }

    /// Returns the summary. It does not depend on the order in which the threads took the seeds.
    fn summary(&self) -> Summary {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let mut summary = done.summary.clone();
        if summary.runs > 1 {
            summary.rails.sort_by(|a, b| a.name.cmp(&b.name));
        }
        summary
    }

    fn failed(&self) -> Option<u64> {
        self.done
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .failed
    }
}

fn progress(args: &SimArgs, runs: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match args.span {
        Some(_) => (
            ProgressBar::no_length(),
            "{spinner} {elapsed} {pos} seeds, {per_sec}",
        ),
        None => (
            ProgressBar::new(runs),
            "{bar:30} {pos}/{len} seeds, {eta} left",
        ),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn as_json(name: &str, seed: u64, summary: &Summary, failure: Option<&Failure>) -> String {
    let value = json!({
        "scenario": name,
        "first_seed": seed,
        "summary": summary,
        "failure": failure,
    });
    format!("{value:#}\n")
}

fn as_text(
    (name, what): (&str, &str),
    seed: u64,
    summary: &Summary,
    failure: Option<&str>,
) -> String {
    let last = seed.saturating_add(summary.runs.saturating_sub(1));
    let seeds = if summary.runs == 1 {
        format!("seed {seed}")
    } else {
        format!("seeds {seed} to {last}")
    };
    let figures = figures(summary);
    let rails = rails(summary);
    let mut text = format!(
        "{name}: {what}\n{seeds}\n\n{}\n\n{}\n",
        figures.trim_fmt(),
        rails.trim_fmt()
    );
    text += "\n";
    text += &match failure {
        Some(failure) => failure.to_owned(),
        None => "every invariant held\n".to_owned(),
    };
    text
}

fn figures(summary: &Summary) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let seconds = |nanoseconds: u64| format!("{:.3} s", nanoseconds as f64 / 1e9);
    for (name, value) in [
        ("runs", HumanCount(summary.runs).to_string()),
        ("virtual time", seconds(summary.virtual_ns)),
        ("operations", HumanCount(summary.operations).to_string()),
        ("failed operations", HumanCount(summary.failed).to_string()),
        ("messages", HumanCount(summary.messages).to_string()),
        ("delivered", HumanCount(summary.delivered).to_string()),
        ("resent", HumanCount(summary.resent).to_string()),
        ("lost on the wire", HumanCount(summary.lost).to_string()),
        ("dropped by nodes", HumanCount(summary.dropped).to_string()),
        ("worst recovery", seconds(summary.worst_recovery_ns)),
    ] {
        table.add_row([name.to_owned(), value]);
    }
    right(&mut table, 1);
    table
}

fn rails(summary: &Summary) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["rail", "messages", "bytes", "share"]);
    let all: u64 = summary.rails.iter().map(|rail| rail.bytes).sum();
    for rail in &summary.rails {
        let share = 100.0 * rail.bytes as f64 / all.max(1) as f64;
        table.add_row([
            rail.name.clone(),
            HumanCount(rail.messages).to_string(),
            HumanBytes(rail.bytes).to_string(),
            format!("{share:.1} %"),
        ]);
    }
    (1..4).for_each(|column| right(&mut table, column));
    table
}

fn right(table: &mut Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units() {
        let seconds = |text| span(text).map(|span| span.as_secs());
        assert_eq!(seconds("60s"), Ok(60));
        assert_eq!(seconds("90"), Ok(90));
        assert_eq!(seconds("5m"), Ok(300));
        assert_eq!(seconds("2h"), Ok(7200));
        for wrong in ["", "s", "0s", "-1s", "1d", "é", "99999999999999999999h"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
