//! `finerail-bench select`: measures the choice of a path beside a loop over all pairs of interfaces, in the same
//! run.
//!
//! ```text
//!  round:  select, loop, select, loop …   one after the other for every shape; the fastest round counts
//! ```
//!
//! The loop has every pair of a local interface and a peer interface in one array, each with the key that selection
//! compares, and searches for the smallest key. This is the work of a program that chooses among pairs and has
//! nothing else to look up.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use lnet_core::{Core, CoreConfig, Entropy, Globals, NiConfig, RouterBuffers, SendQuery, Tunables};
use lnet_policy::{Priority, Rule, RuleList};
use lnet_types::{Net, Nid, Time};
use serde::Serialize;

/// The number of criteria that compare a net (6), a local interface (8) and a peer interface (6).
const KEY: usize = 20;

/// The interfaces on each side, the nets, the rules, and the target in nanoseconds.
const SHAPES: [(u32, u16, u32, f64); 4] = [
    (8, 2, 64, 150.0),
    (4, 1, 0, 70.0),
    (4, 1, 64, 70.0),
    (4, 1, 1000, 70.0),
];

/// The numbers of rules and of peers to which the rules are applied, and the target for the time.
const APPLIED_RULES: u32 = 1000;
const APPLIED_PEERS: u32 = 25_000;
const RAILS: u32 = 4;
const APPLY_TARGET_MS: f64 = 1000.0;

#[derive(clap::Args)]
#[command(after_help = "\
The loop searches for the minimum in one array of all pairs of interfaces with their keys. Loop and
selection are measured in turns, and the fastest round counts. The targets are for a present-day core.

Examples
  finerail-bench select
  finerail-bench select --short --json
")]
pub(super) struct SelectArgs {
    /// Measure for one second instead of several
    #[arg(long)]
    short: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The results for one shape.
#[derive(Serialize)]
struct Row {
    what: String,
    nanoseconds: f64,
    loop_nanoseconds: f64,
    ratio: f64,
    target_nanoseconds: f64,
    met: bool,
}

/// All results.
#[derive(Serialize)]
struct Report {
    rows: Vec<Row>,
    rules: u32,
    peer_interfaces: u32,
    apply_milliseconds: f64,
    apply_target_milliseconds: f64,
}

/// Measures, and returns the text to print.
pub(super) fn run(args: &SelectArgs) -> anyhow::Result<String> {
    // There are many short rounds, so that some of them run without interference.
    let (rounds, count) = if args.short {
        (20, 5_000)
    } else {
        (500, 20_000)
    };
    let shapes = SHAPES.into_iter();
    let rows = shapes.map(|(interfaces, nets, rules, target)| {
        let core = core(interfaces, nets, rules)?;
        let pairs = interfaces * interfaces;
        let (select, pairs) = in_turns(&core, pairs as usize, rounds, count)?;
        let nets = if nets == 1 {
            "1 net".to_owned()
        } else {
            format!("{nets} nets")
        };
        Ok(Row {
            what: format!("{interfaces} × {interfaces} on {nets}, {rules} rules"),
            nanoseconds: select,
            loop_nanoseconds: pairs,
            ratio: select / pairs,
            target_nanoseconds: target,
            met: select <= target,
        })
    });
    let report = Report {
        rows: rows.collect::<anyhow::Result<_>>()?,
        rules: APPLIED_RULES,
        peer_interfaces: APPLIED_PEERS * RAILS,
        apply_milliseconds: apply(if args.short { 2 } else { 10 })?,
        apply_target_milliseconds: APPLY_TARGET_MS,
    };
    if args.json {
        return Ok(serde_json::to_string_pretty(&report)? + "\n");
    }
    Ok(report.text())
}

fn local(number: u32, nets: u16) -> Nid {
    Nid::from_number(Net::tcp(number as u16 % nets), 0x0A00_0000 | number)
}

fn remote(number: u32, nets: u16) -> Nid {
    Nid::from_number(Net::tcp(number as u16 % nets), 0x0A00_0100 | number)
}

/// Returns a node with a Multi-Rail peer, and with rules for the peer's interfaces.
fn core(interfaces: u32, nets: u16, rules: u32) -> anyhow::Result<Core> {
    let config = CoreConfig {
        entropy: Entropy::from_seed(1),
        seed: 1,
        globals: Globals::default(),
        buffers: RouterBuffers::default(),
        routing: false,
        pid: 12345,
    };
    let now = Time::ZERO;
    let mut core = Core::new(config, now);
    let tunables = Tunables::default();
    for number in 1..=interfaces {
        let nid = local(number, nets);
        core.add_ni(NiConfig { nid, tunables }, now)?;
    }
    let nids: Vec<Nid> = (1..=interfaces)
        .map(|number| remote(number, nets))
        .collect();
    core.add_peer(remote(1, nets), &nids, true)?;
    let mut list = RuleList::new();
    for number in 0..rules {
        let (nth, nid) = (number / 8, number % 8);
        let text = format!("10.0.[1-{}].{}@tcp*", 1 + nth, 1 + nid);
        list.add(Rule::remote(text.parse()?, priority(nth)?)?, None)?;
    }
    core.set_rules(list);
    Ok(core)
}

fn priority(value: u32) -> anyhow::Result<Priority> {
    Priority::new(value).context("a priority below 2^32 - 1")
}

/// Returns the times of the fastest selection and of the fastest loop over the pairs, in nanoseconds.
fn in_turns(core: &Core, pairs: usize, rounds: u32, count: u32) -> anyhow::Result<(f64, f64)> {
    let nid = core.peers().next().context("the peer was added")?.primary;
    let query = SendQuery::to(nid);
    core.choose(&query)?;
    let keys: Vec<[u64; KEY]> = (0..pairs as u64)
        .map(|pair| key(pair, pairs as u64))
        .collect();
    let (mut select, mut least) = (Duration::MAX, Duration::MAX);
    for _ in 0..rounds {
        select = select.min(timed(count, || core.choose(black_box(&query)).is_ok()));
        least = least.min(timed(count, || best_of(black_box(&keys))));
    }
    let each = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(count);
    Ok((each(select), each(least)))
}

/// Returns a key. All keys are equal except for the last criterion, like those of interfaces in full health.
fn key(pair: u64, pairs: u64) -> [u64; KEY] {
    let mut key = [1; KEY];
    key[KEY - 1] = pair * 7919 % pairs;
    key
}

fn best_of(keys: &[[u64; KEY]]) -> Option<usize> {
    let best = keys.iter().enumerate().min_by(|a, b| a.1.cmp(b.1));
    best.map(|(at, _)| at)
}

fn timed<T>(count: u32, mut run: impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    for _ in 0..count {
        black_box(run());
    }
    start.elapsed()
}

/// Returns the time that a change of the rules takes, in milliseconds.
fn apply(rounds: u32) -> anyhow::Result<f64> {
    let mut core = core(8, 1, 0)?;
    for peer in 0..APPLIED_PEERS {
        let nid = |rail| Nid::from_number(Net::tcp(0), 0x0B00_0000 | (peer * RAILS + rail));
        let nids: Vec<Nid> = (0..RAILS).map(nid).collect();
        core.add_peer(nid(0), &nids, true)?;
    }
    let mut rules = RuleList::new();
    for number in 0..=APPLIED_RULES {
        let text = format!("11.{}.[{}-255].*@tcp", number % 4, number / 4);
        rules.add(Rule::remote(text.parse()?, priority(number)?)?, None)?;
    }
    let mut least = Duration::MAX;
    for _ in 0..rounds {
        core.set_rules(rules.clone());
        let start = Instant::now();
        core.delete_rule(0)?;
        least = least.min(start.elapsed());
    }
    Ok(least.as_secs_f64() * 1e3)
}

impl Report {
    fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["one selection", "ns", "loop", "ratio", "target", ""]);
        for row in &self.rows {
            table.add_row([
                row.what.clone(),
                format!("{:.0}", row.nanoseconds),
                format!("{:.0}", row.loop_nanoseconds),
                format!("{:.1}", row.ratio),
                format!("≤ {:.0} ns", row.target_nanoseconds),
                super::verdict(row.met).to_owned(),
            ]);
        }
        for column in 1..4 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = format!("{}\n\n", table.trim_fmt());
        let (time, target) = (self.apply_milliseconds, self.apply_target_milliseconds);
        // Writing to a string cannot fail.
        let _infallible = writeln!(
            text,
            "{} rules applied to {} peer interfaces: {time:.0} ms, target < {target:.0} ms, {}",
            self.rules,
            self.peer_interfaces,
            super::verdict(time < target)
        );
        text
    }
}
