//! `finerail fgr compare`: what each policy costs on a machine, beside limits that no policy can beat.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use comfy_table::{CellAlignment, Table, presets};
use fgr::evaluate::{Evaluation, Gateways, bounds, compact_jobs};
use fgr::links::in_digits;
use fgr::{Machine, Metric, Options, PlanError, Policy, assign};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use super::input::{FailureArgs, PolicyName, RuleArgs};
use crate::common::print_bytes;
use crate::machine::{MachineArgs, origin};
use crate::shard::{ShardArgs, ShardFile};

/// Arguments of `finerail fgr compare`.
#[derive(clap::Args)]
#[command(after_help = "\
The front consists of policies with parameters, from those with short paths to those that give jobs of \
neighbours many routers: 'strict', and 'slices' with several caps and cuts; on a torus or mesh also \
'balanced' with a limit on each side of a router, which lowers the load of reads.

Examples:
  finerail fgr compare --machine synthetic:6x8x4:2x3x1
  finerail fgr compare --machine titan.map --modules modules.csv --front --json
")]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Compare only these policies [default: all that suit the machine's fabric]
    #[arg(long, value_enum, value_name = "POLICY", value_delimiter = ',')]
    policies: Vec<PolicyName>,
    /// Compare the front of policies instead, each with its own parameters
    #[arg(long, conflicts_with_all = [
        "policies", "tie", "by", "side", "block", "efficiency", "cut", "cap", "run", "limit", "limit_read"
    ])]
    front: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "shard")]
    json: bool,
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

/// Clients of a job whose efficiency is shown. The clients have consecutive numbers.
const JOB: usize = 1_008;
/// Such jobs that are evaluated; their first clients are at equal distances.
const JOB_STARTS: usize = 97;

/// Runs `finerail fgr compare`.
pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let machine = args.machine.read()?;
    let suits = |name: &PolicyName| {
        let policy = args.rules.with_parameters(*name);
        policy.suits(&machine.fabric)
    };
    let names: Vec<PolicyName> = match args.policies.is_empty() {
        true => ALL.into_iter().filter(suits).collect(),
        false => args.policies.clone(),
    };
    let options = args.rules.options(args.failures.dead(&machine)?);
    let policies: Vec<Policy> = if args.front {
        Policy::front(&machine)
    } else {
        args.rules.policies(&names)?
    };
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
        let row = Row::new(&machine, policy, &options).map_err(|why| why.to_string());
        found.rows.insert(number, row);
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
    } else if args.json {
        let text = serde_json::to_string_pretty(&in_json(&asked, found)?)? + "\n";
        print_bytes(text.as_bytes(), &mut io::stdout())?;
    } else {
        print_bytes(in_words(&asked, found)?.as_bytes(), &mut io::stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The description of a comparison, which is the same for all its shares.
#[derive(Serialize, Deserialize)]
struct Asked {
    title: String,
    /// Clients of a job.
    job: usize,
    policies: String,
}

/// The result of one share. `rows` has, for each policy by number, its row or the reason why it has none;
/// `bounds` is the text of the limits.
#[derive(Default, Serialize, Deserialize)]
struct Share {
    rows: BTreeMap<usize, Result<Row, String>>,
    bounds: String,
}

/// Returns the comparison of all shares. The second value is always `true`: a comparison has no negative result.
///
/// # Errors
///
/// The shares hold results of another command.
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
                table.add_row(row.cells());
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
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
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

/// The figures of a policy.
#[derive(Serialize, Deserialize)]
struct Row {
    /// The policy's name, with its parameters as on the command line.
    policy: String,
    hops: f64,
    hops_max: f64,
    cost: f64,
    cost_max: f64,
    balance: f64,
    /// The load of the hottest link when clients write, in units per GB/s.
    write: f64,
    read: f64,
    /// The rate of all clients together when the hottest link is full, in GB/s.
    write_ceiling: f64,
    read_ceiling: f64,
    /// The share of the routers' bandwidth that a job of neighbours can use.
    job: f64,
    /// The number of different route tables, and of tables that differ in a primary.
    tables: usize,
    primary_tables: usize,
    /// The approximate size of the clients' configurations, one for each table.
    config_bytes: u64,
}

impl Row {
    fn new(machine: &Machine, policy: Policy, options: &Options) -> Result<Self, PlanError> {
        let plan = assign(machine, policy, options)?;
        let figures = Evaluation::new(machine, &plan, Gateways::Primary);
        let apart = machine.clients.len().saturating_sub(JOB) / JOB_STARTS;
        let (primary_tables, tables) = plan.distinct_tables();
        Ok(Self {
            policy: policy.label(),
            hops: figures.hops.mean,
            hops_max: figures.hops.max,
            cost: figures.cost.mean,
            cost_max: figures.cost.max,
            balance: figures.balance(),
            write: figures.write.max,
            read: figures.read.max,
            write_ceiling: figures.write.ceiling,
            read_ceiling: figures.read.ceiling,
            job: compact_jobs(machine, &plan, JOB, apart).mean,
            tables,
            primary_tables,
            config_bytes: plan.config_bytes(),
        })
    }

    fn cells(&self) -> [String; 13] {
        [
            self.policy.clone(),
            format!("{:.3}", self.hops),
            format!("{}", self.hops_max),
            format!("{:.3}", self.cost),
            format!("{}", self.cost_max),
            format!("{:.3}", self.balance),
            in_digits(self.write),
            in_digits(self.read),
            format!("{:.0}", self.write_ceiling),
            format!("{:.0}", self.read_ceiling),
            format!("{:.3}", self.job),
            self.tables.to_string(),
            format!("{:.1}", self.config_bytes as f64 / 1e6),
        ]
    }
}

/// The comparison as JSON.
#[derive(Serialize)]
struct Comparison<'a> {
    machine: &'a str,
    /// Clients of a job.
    job: usize,
    policies: Vec<Row>,
    /// For each policy without a row, the reason.
    left_out: Vec<String>,
}

fn in_json(asked: &Asked, found: Share) -> anyhow::Result<Comparison<'_>> {
    let (mut policies, mut left_out) = (Vec::new(), Vec::new());
    for row in found.rows.into_values() {
        match row {
            Ok(row) => policies.push(row),
            Err(why) => left_out.push(why),
        }
    }
    if policies.is_empty() {
        bail!("{}", left_out.join("; "));
    }
    Ok(Comparison {
        machine: &asked.title,
        job: asked.job,
        policies,
        left_out,
    })
}

/// Writes the limits that no plan of this placement, or of any placement, can beat.
fn bound_lines(machine: &Machine) -> Result<String, std::fmt::Error> {
    let mut text = String::from("limits that no plan can beat:\n");
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
        writeln!(
            text,
            "  {what}, any placement: mean {mean:.3}, max {max}, proved by the nearest places of a router"
        )?;
        if let Some(mean) = bounds::by_module(machine, by, true) {
            writeln!(
                text,
                "  {what}, this placement, balanced by module: mean {mean:.3}, an exact optimum"
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
        writeln!(
            text,
            "  hottest link, this placement, balanced: above {cut:.1}, loose: by the links into a router"
        )?;
    }
    Ok(text)
}
