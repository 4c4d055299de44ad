//! `finerail fgr place`: searches for the best places of the router modules.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use comfy_table::{CellAlignment, Table, presets};
use fgr::links::in_digits;
use fgr::place::{
    Effort, Figures, Placements, Problem, Progress, Site, State, place, proved_floor, read_sites,
    titan_sites,
};
use fgr::{Machine, read_map, read_node_table};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};

use super::input::{PolicyName, RuleArgs};
use crate::common::print_bytes;
use crate::machine::{MachineArgs, origin, read};
use crate::shard::{Shard, ShardArgs, ShardFile};

/// Arguments of `finerail fgr place`.
#[derive(clap::Args)]
#[command(after_help = "\
The search begins with the present placement of the modules. It keeps every placement that no other \
placement beats in all four figures: mean cost, balance, and the hottest link of writes and of reads. \
Ctrl-C ends the search and prints its results so far; with --state a later search continues from there. \
Equal seeds and numbers of candidates find equal placements, with any number of threads. Cable lengths \
are not considered.

Examples:
  finerail fgr place --machine titan.map --modules modules.csv
  finerail fgr place --machine titan.map --modules modules.csv --anywhere -o placements
  finerail fgr place --machine titan.map --modules modules.csv --seconds 30 --state found.json
  finerail fgr place --machine titan.map --modules modules.csv --anywhere --goal 22.332,1.080,126,160
  finerail fgr place --machine machine.yaml --sites blades.csv --candidates 2000
")]
pub(crate) struct PlaceArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// The policy with which placements are compared
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = PolicyName::Strict)]
    policy: PolicyName,
    #[command(flatten)]
    rules: RuleArgs,
    /// Blades that modules may stand on: CSV with the header blade,cabinet,kind,node,at and a line for
    /// each node; a node of the machine may be given by its name, and without a place [default: the
    /// service blades of the map]
    #[arg(long, value_name = "FILE", conflicts_with = "anywhere")]
    sites: Option<PathBuf>,
    /// On a map: also any compute blade; its nodes then compute at the module's old position
    #[arg(long)]
    anywhere: bool,
    /// The number of placements to try, rounded up to whole rounds
    #[arg(long, value_name = "N", default_value_t = 4_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    candidates: u64,
    /// End after this number of seconds instead
    #[arg(long, value_name = "SECONDS", conflicts_with = "candidates")]
    seconds: Option<u64>,
    /// Equal seeds find equal placements
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The goal in all four figures: all walks search for it, and then for better figures. Without it each walk
    /// searches for better figures with another emphasis. A search that continues from --state keeps its goal
    #[arg(long, value_name = "COST,BALANCE,WRITE,READ", value_parser = goal)]
    goal: Option<Figures>,
    /// Continue from this file, if it exists, and save the state of the search in it at the end
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    #[command(flatten)]
    share: ShardArgs,
    /// Print figures as CSV
    #[arg(long)]
    csv: bool,
    /// Write figures.csv and placements.csv (a line for each point and module) into this directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// The description of a search, which is the same for all its shares.
#[derive(Serialize, Deserialize)]
struct Asked {
    machine: String,
    policy: String,
    sites: usize,
    candidates: u64,
    seed: u64,
    goal: Option<Figures>,
}

/// The result of one share: figures in the order of the columns, and the blades of the modules.
#[derive(Serialize, Deserialize)]
struct Share {
    start: [f64; 4],
    points: Vec<([f64; 4], Vec<String>)>,
    tried: u64,
}

/// Searches with the seed of this share, and with the share's part of the candidates.
fn share(args: &PlaceArgs, problem: &Problem<'_>, shard: Shard) -> anyhow::Result<ExitCode> {
    if args.csv || args.output.is_some() || args.state.is_some() || args.seconds.is_some() {
        bail!(
            "--shard goes with --seed and --candidates only: it prints JSON for 'finerail merge'"
        );
    }
    let part = shard.of(0..args.candidates);
    let effort = Effort {
        candidates: part.end - part.start,
        seed: args.seed.wrapping_add(shard.index().into()),
        goal: args.goal,
    };
    let found = search(args, effort, problem)?;
    if found.interrupted {
        bail!("interrupted: the share is not complete");
    }
    let points = found.points.iter().map(|point| {
        let blades = point
            .sites
            .iter()
            .map(|&site| problem.sites[site as usize].blade.clone());
        (point.figures.values(), blades.collect())
    });
    let result = Share {
        start: found.start.values(),
        points: points.collect(),
        tried: found.tried,
    };
    let asked = Asked {
        machine: problem.machine.name.clone(),
        policy: format!("{:?}", problem.policy),
        sites: problem.sites.len(),
        candidates: args.candidates,
        seed: args.seed,
        goal: args.goal,
    };
    shard.print(
        "fgr place",
        serde_json::to_value(asked)?,
        serde_json::to_value(result)?,
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the points of all shares that no other point beats, as CSV with the blades of the modules. The
/// second value is always `true`: a search has no negative result.
///
/// # Errors
///
/// The shares hold results of another command.
pub(super) fn merged(file: &ShardFile) -> anyhow::Result<(String, bool)> {
    let mut points: Vec<(Figures, Vec<String>)> = Vec::new();
    let mut text = String::from("point,cost,balance,write,read,blades\n");
    let mut start = None;
    for result in file.results.values() {
        let share: Share = serde_json::from_value(result.clone())?;
        start = start.or(Some(share.start));
        for (values, blades) in share.points {
            let figures = figures_of(values);
            if !points.iter().any(|(known, _)| known.covers(&figures)) {
                points.retain(|(known, _)| !figures.covers(known));
                points.push((figures, blades));
            }
        }
    }
    if let Some(start) = start {
        writeln!(text, "{},", cells("start", &figures_of(start)).join(","))?;
    }
    points.sort_by(|(a, _), (b, _)| a.cost.total_cmp(&b.cost));
    for (number, (figures, blades)) in (1..).zip(&points) {
        let figures = cells(&format!("{number}"), figures).join(",");
        writeln!(text, "{figures},{}", blades.join(" "))?;
    }
    Ok((text, true))
}

/// Parses four positive numbers that are separated by commas.
fn goal(text: &str) -> Result<Figures, String> {
    let values: Option<Vec<f64>> = text.split(',').map(|word| word.parse().ok()).collect();
    let values = values.filter(|values| values.iter().all(|v| v.is_finite() && *v > 0.0));
    let values = values.and_then(|values| values.try_into().ok());
    let wrong = || "write four positive numbers, such as 22.332,1.080,126,160".to_owned();
    values.map(figures_of).ok_or_else(wrong)
}

fn figures_of([cost, balance, write, read]: [f64; 4]) -> Figures {
    Figures {
        cost,
        balance,
        write,
        read,
    }
}

/// Runs `finerail fgr place`.
pub(crate) fn run(args: &PlaceArgs) -> anyhow::Result<ExitCode> {
    let machine = args.machine.read()?;
    let policy = args.rules.policy(args.policy)?;
    let problem = Problem {
        sites: sites(args, &machine)?,
        machine: &machine,
        policy,
    };
    if let Some(shard) = args.share.shard {
        return share(args, &problem, shard);
    }
    let effort = Effort {
        candidates: args.seconds.map_or(args.candidates, |_| u64::MAX),
        seed: args.seed,
        goal: args.goal,
    };
    let found = search(args, effort, &problem)?;
    let text = if args.csv {
        figures_csv(&found)?
    } else {
        table(&problem, &found)?
    };
    if let Some(directory) = &args.output {
        write_all(directory, &problem, &found)?;
    }
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

fn sites(args: &PlaceArgs, machine: &Machine) -> anyhow::Result<Vec<Site>> {
    if let Some(path) = &args.sites {
        let name = path.display().to_string();
        return Ok(read_sites(&name, &read(path)?, machine)?);
    }
    let file = &args.machine.machine;
    let text = match read(Path::new(file)) {
        Ok(text) if !text.trim_start().starts_with(|c: char| c.is_alphabetic()) => text,
        _ => bail!("{file} does not name the blades: name them with --sites"),
    };
    let nodes = read_map(file, &text).or_else(|_| read_node_table(file, &text))?;
    let blades: Vec<&str> = machine.modules.iter().map(|m| m.blade.as_str()).collect();
    let grid = fgr::topology::titan::grid()?;
    Ok(titan_sites(&nodes, &grid, args.anywhere, &blades))
}

fn search(args: &PlaceArgs, effort: Effort, problem: &Problem<'_>) -> anyhow::Result<Placements> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let signal = signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted.clone());
    let signal = signal.context("cannot listen to Ctrl-C")?;
    let bar = progress_bar(args)?;
    let resume = read_state(args)?;
    let end = args
        .seconds
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let found = place(problem, effort, resume, &mut |progress: Progress| {
        bar.set_position(progress.tried);
        let [cost, balance, write, read] = progress.best;
        bar.set_message(format!(
            "cost {cost:.4} balance {balance:.4} write {} read {}",
            in_digits(write),
            in_digits(read)
        ));
        let is_over = end.is_some_and(|end| Instant::now() >= end);
        match is_over || interrupted.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    bar.finish_and_clear();
    signal_hook::low_level::unregister(signal);
    let found = found?;
    if let Some(path) = &args.state {
        let text = serde_json::to_string(&found.state)?;
        sys::write_file(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(found)
}

fn progress_bar(args: &PlaceArgs) -> anyhow::Result<ProgressBar> {
    let (bar, style) = match args.seconds {
        Some(_) => (
            ProgressBar::no_length(),
            "{spinner} {pos} tried, {elapsed}  {msg}",
        ),
        None => (
            ProgressBar::new(args.candidates),
            "{bar:30} {pos}/{len} {eta} left  {msg}",
        ),
    };
    if !io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    Ok(bar.with_style(ProgressStyle::with_template(style)?))
}

fn read_state(args: &PlaceArgs) -> anyhow::Result<Option<State>> {
    let Some(path) = args.state.as_deref().filter(|path| path.exists()) else {
        return Ok(None);
    };
    let state = serde_json::from_str(&read(path)?);
    let state =
        state.with_context(|| format!("{} is not the state of a search", path.display()))?;
    Ok(Some(state))
}

const COLUMNS: [&str; 4] = ["cost", "balance", "write", "read"];

fn cells(name: &str, figures: &Figures) -> [String; 5] {
    let Figures {
        cost,
        balance,
        write,
        read,
    } = figures;
    [
        name.to_owned(),
        format!("{cost:.4}"),
        format!("{balance:.4}"),
        in_digits(*write),
        in_digits(*read),
    ]
}

fn table(problem: &Problem<'_>, found: &Placements) -> anyhow::Result<String> {
    let machine = problem.machine;
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["placement"].into_iter().chain(COLUMNS));
    table.add_row(cells("as it stands", &found.start));
    for (number, point) in (1..).zip(&found.points) {
        table.add_row(cells(&format!("point {number}"), &point.figures));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!(
        "{} ({}), policy {}, {} blades for {} modules\n{}{}\n\n",
        machine.name,
        origin(machine),
        problem.policy.name(),
        problem.sites.len(),
        machine.modules.len(),
        effort(found),
        if found.interrupted {
            "; ended early: the best placements so far"
        } else {
            ""
        },
    );
    writeln!(text, "{}\n", table.trim_fmt())?;
    for line in verdicts(found, proved_floor(problem).as_ref()) {
        writeln!(text, "{line}")?;
    }
    text.push_str(
        "write and read: units per GB/s on the hottest link; one unit a client and net\n",
    );
    Ok(text)
}

fn effort(found: &Placements) -> String {
    format!(
        "{} placements tried, seed {}",
        found.state.tried, found.state.seed
    )
}

/// Returns a line for each figure of the start, which says what beats the figure, or after how much effort
/// nothing beats it, and whether this is proved. The last line counts the placements that beat the start in
/// every figure.
fn verdicts(found: &Placements, floor: Option<&Figures>) -> Vec<String> {
    let start = cells("", &found.start);
    let floor = floor.map(|floor| cells("", floor));
    let lines = COLUMNS.iter().enumerate().map(|(figure, name)| {
        let best = found.points.iter().min_by(|a, b| {
            let value = |p: &fgr::place::Point| p.figures.values()[figure];
            value(a).total_cmp(&value(b))
        });
        let best = best.map_or_else(|| start.clone(), |point| cells("", &point.figures));
        let (was, is) = (&start[figure + 1], &best[figure + 1]);
        let least = floor.as_ref().map(|floor| &floor[figure + 1]);
        let proof = match least {
            Some(least) if least == is => {
                "; proved to be the minimum by trying every distribution of the blades".to_owned()
            }
            Some(least) => format!("; proved: not below {least}"),
            None => "; no proof that this is the least".to_owned(),
        };
        if was == is {
            format!("{name} {was} is not beaten by {}{proof}", effort(found))
        } else {
            format!("{name} {was} falls to {is}{proof}")
        }
    });
    let start = found.start.values();
    let all = found.points.iter().filter(|point| {
        let values = point.figures.values();
        values
            .iter()
            .zip(&start)
            .all(|(value, start)| value < start)
    });
    let count = all.count();
    lines
        .chain([format!(
            "placements that are better in all four figures: {count}"
        )])
        .collect()
}

fn figures_csv(found: &Placements) -> Result<String, std::fmt::Error> {
    let mut text = String::from("point,cost,balance,write,read\n");
    writeln!(text, "{}", cells("start", &found.start).join(","))?;
    for (number, point) in (1..).zip(&found.points) {
        writeln!(
            text,
            "{}",
            cells(&format!("{number}"), &point.figures).join(",")
        )?;
    }
    Ok(text)
}

fn placements_csv(problem: &Problem<'_>, found: &Placements) -> Result<String, std::fmt::Error> {
    let machine = problem.machine;
    let clients = machine.clients.iter();
    let named = clients.filter_map(|client| Some((client.id, client.name.as_deref()?)));
    let clients: BTreeMap<u32, &str> = named.collect();
    let name = |id: u32| match clients.get(&id) {
        Some(name) => (*name).to_owned(),
        None => machine.router_name(id),
    };
    let mut text = String::from("point,group,subgroup,index,blade,cabinet,nodes\n");
    for (number, point) in (1..).zip(&found.points) {
        for (module, &site) in machine.modules.iter().zip(&point.sites) {
            let group = &machine.groups[usize::from(module.group)].name;
            let site = &problem.sites[site as usize];
            let names = site.nodes.iter().map(|node| name(node.0));
            let nodes: Vec<String> = names.take(module.routers.len()).collect();
            let (sub_group, index) = (module.sub_group + 1, module.index + 1);
            let Site { blade, cabinet, .. } = site;
            let nodes = nodes.join(" ");
            writeln!(
                text,
                "{number},{group},{sub_group},{index},{blade},{cabinet},{nodes}"
            )?;
        }
    }
    Ok(text)
}

fn write_all(directory: &Path, problem: &Problem<'_>, found: &Placements) -> anyhow::Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let files = [
        ("figures.csv", figures_csv(found)?),
        ("placements.csv", placements_csv(problem, found)?),
    ];
    for (name, text) in files {
        let path = directory.join(name);
        sys::write_file(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
