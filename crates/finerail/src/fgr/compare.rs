//! `finerail fgr compare`: what each policy costs on a machine, beside what no policy can beat.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use anyhow::bail;
use comfy_table::{CellAlignment, Table, presets};
use fgr::evaluate::{Evaluation, Gateways, bounds, compact_jobs};
use fgr::{Machine, Metric, Options, PlanError, Policy, assign};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use super::input::{FailureArgs, MachineArgs, PolicyName, RuleArgs, origin};
use crate::common::print_bytes;
use crate::shard::{ShardArgs, ShardFile};

/// Arguments of `finerail fgr compare`.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  finerail fgr compare --machine synthetic:6x8x4:2x3x1
")]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Only these policies; all by default
    #[arg(long, value_enum, value_name = "POLICY", value_delimiter = ',')]
    policies: Vec<PolicyName>,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    failures: FailureArgs,
    #[command(flatten)]
    share: ShardArgs,
}

const ALL: [PolicyName; 8] = [
    PolicyName::Strict,
    PolicyName::Slices,
    PolicyName::Cool,
    PolicyName::Nearest,
    PolicyName::Balanced,
    PolicyName::Spread,
    PolicyName::Printed,
    PolicyName::Flat,
];

/// Clients of the jobs whose efficiency is shown: neighbours by number.
const JOB: usize = 1_008;
/// Such jobs that are looked at, at equal distances.
const JOB_STARTS: usize = 97;

/// Runs `finerail fgr compare`.
pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let machine = args.machine.read()?;
    let names = if args.policies.is_empty() {
        &ALL[..]
    } else {
        &args.policies
    };
    let options = args.rules.options(args.failures.dead(&machine)?);
    let policies: Vec<Policy> = names.iter().map(|&name| args.rules.policy(name)).collect();
    let asked = Asked {
        title: format!("{} ({})", machine.name, origin(&machine)),
        job: JOB.min(machine.clients.len()),
        policies: format!("{policies:?} {options:?}"),
    };
    let shard = args.share.shard;
    let takes = |item| shard.is_none_or(|shard| shard.takes(item));
    let bar = progress(policies.len() as u64 + 1);
    let mut found = Share::default();
    for (number, &policy) in policies
        .iter()
        .enumerate()
        .filter(|(number, _)| takes(*number))
    {
        bar.set_message(policy.name());
        let row = row(&machine, policy, &options).map_err(|why| why.to_string());
        found.rows.insert(number, row.map(Vec::from));
        bar.inc(1);
    }
    if takes(policies.len()) {
        bar.set_message("bounds");
        found.bounds = bound_lines(&machine)?;
    }
    bar.finish_and_clear();
    if let Some(shard) = shard {
        let (asked, found) = (serde_json::to_value(asked)?, serde_json::to_value(found)?);
        shard.print("fgr compare", asked, found)?;
    } else {
        print_bytes(in_words(&asked, found)?.as_bytes(), &mut io::stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What all shares of a comparison have in common.
#[derive(Serialize, Deserialize)]
struct Asked {
    title: String,
    /// Clients of the jobs.
    job: usize,
    policies: String,
}

/// Policies by number, each with its row or why it has none; and the bounds, of one share.
#[derive(Default, Serialize, Deserialize)]
struct Share {
    rows: BTreeMap<usize, Result<Vec<String>, String>>,
    bounds: String,
}

/// The comparison of all shares.
///
/// # Errors
///
/// Results that are none of this command.
pub(super) fn merged(file: &ShardFile) -> anyhow::Result<(String, bool)> {
    let asked: Asked = serde_json::from_value(file.asked.clone())?;
    let mut all = Share::default();
    for result in file.results.values() {
        let mut share: Share = serde_json::from_value(result.clone())?;
        all.rows.append(&mut share.rows);
        all.bounds += &share.bounds;
    }
    Ok((in_words(&asked, all)?, true))
}

fn in_words(asked: &Asked, found: Share) -> anyhow::Result<String> {
    let mut table = header(asked.job);
    let mut refused = Vec::new();
    for row in found.rows.into_values() {
        match row {
            Ok(row) => {
                table.add_row(row);
            }
            Err(why) => refused.push(why),
        }
    }
    if table.is_empty() {
        bail!("{}", refused.join("; "));
    }
    let mut text = format!("{}\n{}\n{}", asked.title, table.trim_fmt(), found.bounds);
    for why in refused {
        writeln!(text, "left out: {why}")?;
    }
    Ok(text)
}

fn progress(length: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}

fn header(job: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "policy".to_owned(),
        "hops".to_owned(),
        "max".to_owned(),
        "cost".to_owned(),
        "max".to_owned(),
        "balance".to_owned(),
        "write".to_owned(),
        "read".to_owned(),
        "GB/s write".to_owned(),
        "GB/s read".to_owned(),
        format!("job of {job}"),
        "tables".to_owned(),
        "MB".to_owned(),
    ]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(machine: &Machine, policy: Policy, options: &Options) -> Result<[String; 13], PlanError> {
    let plan = assign(machine, policy, options)?;
    let figures = Evaluation::new(machine, &plan, Gateways::Primary);
    let apart = machine.clients.len().saturating_sub(JOB) / JOB_STARTS;
    let job = compact_jobs(machine, &plan, JOB, apart);
    Ok([
        policy.name().to_owned(),
        format!("{:.3}", figures.hops.mean),
        format!("{}", figures.hops.max),
        format!("{:.3}", figures.cost.mean),
        format!("{}", figures.cost.max),
        format!("{:.3}", figures.balance()),
        format!("{:.1}", figures.write.max),
        format!("{:.1}", figures.read.max),
        format!("{:.0}", figures.write.ceiling),
        format!("{:.0}", figures.read.ceiling),
        format!("{:.3}", job.mean),
        plan.distinct_tables().1.to_string(),
        format!("{:.1}", plan.config_bytes() as f64 / 1e6),
    ])
}

/// What no plan of this placement, or of any, can beat.
fn bound_lines(machine: &Machine) -> Result<String, std::fmt::Error> {
    let mut text = String::from("bounds:\n");
    for (what, by) in [("hops", Metric::Hops), ("cost", Metric::Cost)] {
        let servers = machine.nets.iter().map(|net| net.routers.len()).max();
        let servers = u32::try_from(servers.unwrap_or(1)).unwrap_or(u32::MAX);
        let places: Vec<_> = machine
            .routers
            .first()
            .map(|r| r.vertex)
            .into_iter()
            .collect();
        let ball = bounds::ball(&machine.fabric, by, &places, servers);
        let (mean, max) = (ball.mean, ball.max);
        writeln!(text, "  {what}, any placement: mean {mean:.3}, max {max}")?;
        if let Some(mean) = bounds::by_module(machine, by, true) {
            writeln!(
                text,
                "  {what}, this placement, balanced by module: mean {mean:.3}"
            )?;
        }
        let near = bounds::covering(machine, by);
        let (mean, max) = (near.mean, near.max);
        writeln!(
            text,
            "  {what} to the nearest module of any group: mean {mean:.3}, max {max}"
        )?;
    }
    let hottest = bounds::cuts(machine).into_iter().map(|cut| cut.any);
    if let Some(cut) = hottest.max_by(f64::total_cmp) {
        writeln!(text, "  hottest link, this placement, balanced: {cut:.1}")?;
    }
    Ok(text)
}
