//! `finerail fgr plan`: the routers of every client, as a table, CSV or YAML.

use std::fs::File;
use std::io::{self, BufWriter, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum;
use comfy_table::{Table, presets};
use fgr::evaluate::{Evaluation, Gateways};
use fgr::links::in_digits;
use fgr::rates::router_rates;
use fgr::{CSV_HEADER, Machine, Plan, write_csv, write_yaml};

use super::input::PlanningArgs;
use super::output;
use crate::machine::origin;

/// Arguments of `finerail fgr plan`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  finerail fgr plan --machine titan.map --modules modules.csv --policy strict --format csv
  finerail fgr plan --machine synthetic:6x8x4:2x3x1 -o plan

Exit code: 0 there is a plan, even with warnings; 2 wrong inputs.
")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    planning: PlanningArgs,
    /// The output
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
    /// Write plan.csv, plan.yaml and summary.txt into this directory instead of printing
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// The plan's figures
    Table,
    /// A line for each client and net: client_nid,net,primary_nid,backup1_nid,backup2_nid
    Csv,
    /// The distinct route tables and the clients of each
    Yaml,
}

/// Runs `finerail fgr plan`.
pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let (machine, plan) = args.planning.plan()?;
    match &args.output {
        Some(directory) => write_all(directory, &machine, &plan)?,
        None => output::stream(BufWriter::new(io::stdout().lock()), |out| {
            write(&machine, &plan, args.format, out)
        })?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The files of `--output`.
const FILES: [&str; 3] = ["plan.csv", "plan.yaml", "summary.txt"];

/// Returns whether a file is there and begins as a plan of this command does.
fn is_plan(path: &Path) -> anyhow::Result<bool> {
    if !path.exists() {
        return Ok(false);
    }
    let mut begin = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.take(CSV_HEADER.len() as u64).read_to_end(&mut begin)?;
    Ok(begin == CSV_HEADER.as_bytes())
}

fn write_all(directory: &Path, machine: &Machine, plan: &Plan) -> anyhow::Result<()> {
    let is_earlier = is_plan(&directory.join("plan.csv"))?;
    let is_own = |path: &str| is_earlier && FILES.contains(&path);
    output::prepare(directory, &[], is_own)?;
    let files = [
        ("plan.csv", Format::Csv),
        ("plan.yaml", Format::Yaml),
        ("summary.txt", Format::Table),
    ];
    for (name, format) in files {
        output::write_file(&directory.join(name), |out| {
            write(machine, plan, format, out)
        })?;
    }
    Ok(())
}

fn write(
    machine: &Machine,
    plan: &Plan,
    format: Format,
    mut out: &mut dyn std::fmt::Write,
) -> std::fmt::Result {
    match format {
        Format::Csv => write_csv(machine, plan, &mut out),
        Format::Yaml => write_yaml(machine, plan, &mut out),
        Format::Table => summary(machine, plan, out),
    }
}

/// Writes the figures of the plan together with its warnings, so that the warnings stay with the plan.
fn summary(machine: &Machine, plan: &Plan, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
    let figures = Evaluation::new(machine, plan, Gateways::Primary);
    let (primaries, whole) = plan.distinct_tables();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let rows = [
        ("machine", format!("{} ({})", machine.name, origin(machine))),
        ("policy", plan.policy.name().to_owned()),
        ("clients", machine.clients.len().to_string()),
        ("nets", machine.nets.len().to_string()),
        (
            "routers",
            format!(
                "{} on {} modules",
                machine.router_nodes(),
                machine.modules.len()
            ),
        ),
        (
            "route tables",
            format!("{whole}, {primaries} by their primaries alone"),
        ),
        (
            "hops",
            format!("mean {:.3}, max {}", figures.hops.mean, figures.hops.max),
        ),
        (
            "cost",
            format!("mean {:.3}, max {}", figures.cost.mean, figures.cost.max),
        ),
        ("balance", format!("{:.3}", figures.balance())),
        (
            "hottest link",
            format!(
                "write {}, read {}",
                in_digits(figures.write.max),
                in_digits(figures.read.max)
            ),
        ),
        (
            "failed routers",
            machine.count_nodes(plan.dead.iter().copied()).to_string(),
        ),
        ("pairs without router", figures.unserved.to_string()),
    ];
    for (name, value) in rows {
        table.add_row([name.to_owned(), value]);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    let doubts = machine.warnings.iter().map(ToString::to_string);
    let slow = router_rates(machine, plan).into_iter();
    let doubts = doubts.chain(plan.warnings.iter().map(ToString::to_string));
    for doubt in doubts.chain(slow.map(|found| found.to_string())) {
        writeln!(out, "warning: {doubt}")?;
    }
    Ok(())
}
