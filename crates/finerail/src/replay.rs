//! `finerail replay`: feeds the recorded inputs of a node to the same core, and compares the decisions.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use files_lnet::Printable;
use lnet_core::record_file::{
    Ended, Log, Replay, Step, answer_text, input_name, input_text, output_text,
};
use lnet_explain::{Decision, Node, decision};
use lnet_types::Time;
use serde::Serialize;

use crate::common::{self, NEGATIVE, Negative};
use crate::explain;

/// Arguments of `finerail replay`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  finerail node --config node.yaml --record node.rec     the node writes the record
  finerail replay node.rec                               check that every decision is the same
  finerail replay node.rec --list                        print the events, one a line
  finerail replay node.rec --explain 1234                explain how each path in event 1234 was selected
  finerail replay node.rec --until 1234 --state then.json
  finerail explain --state then.json --to 10.0.0.2@tcp   explain other paths of the node at that time

A record contains secrets (handles) of the node: with them, anyone can forge responses to that node while it runs.

Exit code: 0 every decision is the same, 1 a decision differs or the event does not exist, 2 wrong usage or a damaged \
record.
")]
pub(crate) struct ReplayArgs {
    /// The record
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print each event, with the decisions of the core
    #[arg(long, conflicts_with = "explain")]
    list: bool,
    /// Stop after this event
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    until: Option<u64>,
    /// Stop at this event, and explain each selection of a path in it
    #[arg(long, value_name = "N", conflicts_with = "until", value_parser = clap::value_parser!(u64).range(1..))]
    explain: Option<u64>,
    /// Write the state of the node at the end into this file, for finerail explain --state
    #[arg(long, value_name = "FILE", requires = "until")]
    state: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// An event as JSON.
#[derive(Serialize)]
struct Event<'a> {
    event: u64,
    /// The time of the event on the node's clock, in seconds.
    time: f64,
    input: String,
    text: String,
    answer: Option<String>,
    outputs: Vec<String>,
    /// Whether the core made the recorded decision. `None`: the record ends before the decision.
    agrees: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    selections: Option<&'a [Decision]>,
}

/// The result of a replay.
#[derive(Debug, Serialize)]
struct Summary {
    file: PathBuf,
    recorded_by: String,
    replayed_by: String,
    events: u64,
    /// The time from the beginning of the record to the last event, in seconds.
    seconds: f64,
    #[serde(skip)]
    begun: Time,
    #[serde(skip)]
    latest: Time,
    inputs: BTreeMap<String, u64>,
    /// The first event at which the core made another decision than the recorded one.
    differs_at: Option<u64>,
    /// The number of the last event, if the record ends before the node's decision about it.
    undecided: Option<u64>,
    /// Why the record ends; `None` if the replay stopped before the end.
    end: Option<String>,
}

/// Runs `finerail replay`.
pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let mut replay = open(&args.file)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut summary = Summary::of(&args.file, &replay);
    let mut reached = false;
    while let Some(step) = next(&mut replay, args, &summary, &mut out)? {
        summary.count(&step);
        reached = args.explain.or(args.until) == Some(step.number);
        if reached || summary.differs_at.is_some() {
            break;
        }
    }
    summary.end = replay.log().ended().map(Ended::to_string);
    if let (Some(path), true) = (&args.state, reached) {
        write_state(path, &replay, summary.latest)?;
    }
    if args.explain.is_none() || summary.differs_at.is_some() || !reached {
        summary.print(args.json, &mut out)?;
    }
    out.flush()?;
    let missed = args.explain.or(args.until).filter(|_| !reached);
    if let Some(number) = missed.filter(|_| summary.differs_at.is_none()) {
        anyhow::bail!(Negative(format!(
            "there is no event {number}: the record has {}",
            summary.events
        )));
    }
    Ok(match summary.differs_at {
        Some(_) => ExitCode::from(NEGATIVE),
        None => ExitCode::SUCCESS,
    })
}

type Replayed = Replay<BufReader<File>>;

fn open(path: &Path) -> anyhow::Result<Replayed> {
    let name = || path.display().to_string();
    let file = common::open(path).with_context(|| format!("cannot read {}", name()))?;
    let log = Log::open(BufReader::new(file)).with_context(name)?;
    Ok(Replay::new(log))
}

/// Replays the next event, and prints the wanted parts of it.
fn next(
    replay: &mut Replayed,
    args: &ReplayArgs,
    summary: &Summary,
    out: &mut impl Write,
) -> anyhow::Result<Option<Step>> {
    let explained = args.explain == Some(summary.events + 1);
    // The state of the node before this event, which gives things their names.
    let node = explained.then(|| Node::exact(replay.core().selection_state(), summary.latest));
    let step = replay.step(explained);
    let Some(step) = step.with_context(|| args.file.display().to_string())? else {
        return Ok(None);
    };
    match node {
        Some(node) => {
            let selections = step.selections.iter();
            let decisions: Vec<_> = selections.map(|one| decision(&node, one)).collect();
            print_event(&step, Some(&decisions), args.json, out)?;
        }
        None if args.list => print_event(&step, None, args.json, out)?,
        None => {}
    }
    Ok(Some(step))
}

fn print_event(
    step: &Step,
    decisions: Option<&[Decision]>,
    json: bool,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let outputs: Vec<String> = step.outputs.iter().map(output_text).collect();
    if json {
        let event = Event {
            event: step.number,
            time: seconds(step.at),
            input: input_name(&step.input),
            text: input_text(&step.input),
            answer: answer_text(&step.answer),
            outputs,
            agrees: step.agrees,
            selections: decisions,
        };
        serde_json::to_writer(&mut *out, &event)?;
        writeln!(out)?;
        return Ok(());
    }
    writeln!(
        out,
        "{:>8} {} {}",
        step.number,
        step.at,
        input_text(&step.input)
    )?;
    for told in answer_text(&step.answer).iter().chain(&outputs) {
        writeln!(out, "{:>9}→ {told}", "")?;
    }
    match step.agrees {
        Some(true) => {}
        Some(false) => writeln!(out, "{:>9}! the node made another decision", "")?,
        None => writeln!(out, "{:>9}! the record ends before the node's decision", "")?,
    }
    match decisions {
        None => {}
        Some([]) => writeln!(out, "\nNo path was selected in this event.")?,
        Some(decisions) => write!(out, "{}", explain::decisions_text(decisions))?,
    }
    Ok(())
}

fn write_state(path: &Path, replay: &Replayed, now: Time) -> anyhow::Result<()> {
    let text = Node::exact(replay.core().selection_state(), now).to_json()?;
    sys::write_file(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn seconds(time: Time) -> f64 {
    time.as_nanos() as f64 / 1e9
}

impl Summary {
    fn of(file: &Path, replay: &Replayed) -> Self {
        Self {
            file: file.to_owned(),
            recorded_by: replay.log().begin().software.clone(),
            replayed_by: software(),
            events: 0,
            seconds: 0.0,
            begun: replay.log().begin().at,
            latest: replay.log().begin().at,
            inputs: BTreeMap::new(),
            differs_at: None,
            undecided: None,
            end: None,
        }
    }

    fn count(&mut self, step: &Step) {
        self.events = step.number;
        self.latest = self.latest.max(step.at);
        self.seconds = (self.latest - self.begun).as_secs_f64();
        *self.inputs.entry(input_name(&step.input)).or_default() += 1;
        match step.agrees {
            Some(true) => {}
            Some(false) => self.differs_at = Some(step.number),
            None => self.undecided = Some(step.number),
        }
    }

    fn print(&self, json: bool, out: &mut impl Write) -> anyhow::Result<()> {
        if json {
            serde_json::to_writer(&mut *out, self)?;
            writeln!(out)?;
            return Ok(());
        }
        let Self {
            events, seconds, ..
        } = self;
        writeln!(
            out,
            "{}: {events} events in {seconds:.3} s, recorded by {}",
            self.file.display(),
            Printable::text(&self.recorded_by)
        )?;
        let mut inputs: Vec<_> = self.inputs.iter().collect();
        inputs.sort_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
        for (name, count) in inputs {
            writeln!(out, "  {count:>10} {name}")?;
        }
        if let Some(end) = &self.end {
            writeln!(out, "The record ends: {end}", end = Printable::text(end))?;
        }
        self.print_result(out)
    }

    fn print_result(&self, out: &mut impl Write) -> anyhow::Result<()> {
        if let Some(number) = self.undecided {
            writeln!(
                out,
                "The record ends before the node's decision about event {number}: the node may have crashed at it."
            )?;
        }
        let Some(number) = self.differs_at else {
            writeln!(out, "Every decision is the same.")?;
            return Ok(());
        };
        let why = match self.recorded_by == self.replayed_by {
            true => {
                "The code has other rules, the record was changed on purpose, or this is a bug."
            }
            false => "The two are not the same software, and may have other rules.",
        };
        writeln!(out, "Event {number}: the node decided otherwise. {why}")?;
        writeln!(
            out,
            "See: finerail replay {} --explain {number}",
            self.file.display()
        )?;
        Ok(())
    }
}

/// Returns the name of the software that writes a record.
pub(crate) fn software() -> String {
    concat!("finerail ", env!("CARGO_PKG_VERSION")).to_owned()
}
