//! `finerail fgr who-serves` and `finerail fgr serves`: the routers of clients, and the clients of routers, by name.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

use anyhow::{Context, bail};
use comfy_table::{Table, presets};
use fgr::serves::{clients_by_area, parts, serves, who_serves};
use fgr::{Machine, clients, failed};
use serde::Serialize;

use super::input::{PlanningArgs, list_or_file};
use super::output::counted;
use crate::common::print_bytes;

/// Arguments of `finerail fgr who-serves`.
#[derive(clap::Args)]
#[command(after_help = "\
Areas are cabinets where the names of clients tell them (c12-3, x1000), groups of a dragonfly (group12), \
leaves of a fat tree (leaf3), and planes of the first dimension of a torus (x4).

Examples:
  finerail fgr who-serves --machine preset:frontier group0
  finerail fgr who-serves --machine titan.map --modules modules.csv c0-0,c12-3c1s4n2
")]
pub(crate) struct WhoServesArgs {
    #[command(flatten)]
    planning: PlanningArgs,
    /// Areas, clients or host lists of clients: cabinets, groups, leaves, names, numbers, NIDs; or @FILE with such
    /// a list
    #[arg(value_name = "CABINET|NODE|GROUP")]
    of: String,
    /// Also list the backups
    #[arg(long)]
    ranks: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `finerail fgr serves`.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  finerail fgr serves --machine synthetic:6x8x4:2x3x1 192
  finerail fgr serves --machine titan.map --modules modules.csv c3-1c1s4
")]
pub(crate) struct ServesArgs {
    #[command(flatten)]
    planning: PlanningArgs,
    /// Routers: numbers, names, blades, cabinets, nets; or @FILE with such a list
    #[arg(value_name = "ROUTER")]
    of: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A router and its clients.
#[derive(Serialize)]
struct Line {
    net: String,
    /// The rank of the router: `primary`, `backup 1`, …
    choice: String,
    node: u32,
    /// The name of the router; the number if it has no name.
    name: String,
    blade: String,
    clients: usize,
    /// The clients, if a router was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<String>,
    /// The clients in few words.
    #[serde(skip)]
    shown: Option<String>,
}

impl Line {
    fn new(machine: &Machine, router: u16, rank: usize, clients: usize) -> Self {
        let router = &machine.routers[usize::from(router)];
        Self {
            net: machine.nets[usize::from(router.net)].net.to_string(),
            choice: match rank {
                0 => "primary".to_owned(),
                backup => format!("backup {backup}"),
            },
            node: router.id,
            name: machine.router_name(router.id),
            blade: machine.modules[usize::from(router.module)].blade.clone(),
            clients,
            names: None,
            shown: None,
        }
    }
}

/// Runs `finerail fgr who-serves`.
pub(crate) fn run_who_serves(args: &WhoServesArgs) -> anyhow::Result<ExitCode> {
    let list = list_or_file(&args.of)?;
    let (machine, plan) = args.planning.plan()?;
    let chosen = clients_called(&machine, &list)?;
    let servings = who_serves(&machine, &plan, &chosen).into_iter();
    let servings = servings.filter(|serving| args.ranks || serving.rank == 0);
    let lines = servings.map(|one| Line::new(&machine, one.router, one.rank, one.clients));
    print(lines.collect(), args.json, &counted(chosen.len(), "client"))
}

/// Returns the clients in a list of areas, clients and host lists, by index in ascending order.
pub(super) fn clients_called(machine: &Machine, list: &str) -> anyhow::Result<Vec<usize>> {
    let parts = parts(machine);
    let mut chosen = BTreeSet::new();
    for name in fgr::hosts(list)? {
        match parts.get(&name) {
            Some(its) => chosen.extend(its.iter().copied()),
            None => {
                let found = clients(machine, &name);
                let first = parts.keys().next().map_or("", String::as_str);
                let what = || format!("neither an area such as {first} nor a client");
                chosen.extend(found.with_context(what)?);
            }
        }
    }
    if chosen.is_empty() {
        bail!("'{list}' names no client");
    }
    Ok(chosen.into_iter().collect())
}

/// Runs `finerail fgr serves`.
pub(crate) fn run_serves(args: &ServesArgs) -> anyhow::Result<ExitCode> {
    let list = list_or_file(&args.of)?;
    let (machine, plan) = args.planning.plan()?;
    let areas = clients_by_area(&machine);
    let is_area = areas.iter().any(|(area, _)| *area == list);
    let routers = match failed(&machine, &list) {
        Err(error) if !is_area => return Err(error.into()),
        found => found.unwrap_or_default().routers,
    };
    if routers.is_empty() {
        bail!("'{list}' names no router; 'finerail fgr who-serves' shows the routers of clients");
    }
    let mut lines = Vec::new();
    for &router in &routers {
        for (rank, its) in serves(&machine, &plan, router).into_iter().enumerate() {
            if !its.is_empty() {
                let mut line = Line::new(&machine, router, rank, its.len());
                let names = names(&machine, &its);
                line.shown = Some(match names.len() {
                    ..=NAMES => names.clone(),
                    _ => in_areas(&areas, &its),
                });
                line.names = Some(names);
                lines.push(line);
            }
        }
    }
    print(lines, args.json, &counted(routers.len(), "router"))
}

/// Most letters of names in a table. Longer lists are shown by areas.
const NAMES: usize = 80;

/// Names the areas of clients, which are given by index in ascending order: those whose clients are all among these,
/// and the others.
fn in_areas(areas: &[(String, Vec<usize>)], clients: &[usize]) -> String {
    let (mut whole, mut part) = (Vec::new(), Vec::new());
    for (area, its) in areas {
        let among = its.iter().filter(|one| clients.binary_search(one).is_ok());
        match among.count() {
            0 => {}
            all if all == its.len() => whole.push(area.as_str()),
            _ => part.push(area.as_str()),
        }
    }
    let (whole, part) = (lnet_site::fold(whole), lnet_site::fold(part));
    match (whole.as_str(), part.as_str()) {
        (whole, "") => whole.to_owned(),
        ("", part) => format!("part of {part}"),
        (whole, part) => format!("{whole}; part of {part}"),
    }
}

/// Formats clients, which are given by index, as a host list of their names, or as ranges of their numbers.
pub(super) fn names(machine: &Machine, clients: &[usize]) -> String {
    let named = clients
        .iter()
        .map(|&client| machine.clients[client].name.as_deref());
    if let Some(named) = named.collect::<Option<Vec<&str>>>() {
        return lnet_site::fold(named);
    }
    let runs = clients.chunk_by(|a, b| a + 1 == *b);
    let id = |client: &usize| machine.clients[*client].id;
    let runs = runs.map(|run| match run {
        [one] => id(one).to_string(),
        [first, .., last] => format!("{}-{}", id(first), id(last)),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(",")
}

fn print(lines: Vec<Line>, json: bool, of: &str) -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    if json {
        text = serde_json::to_string_pretty(&lines)? + "\n";
    } else {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let has_names = lines.iter().any(|line| line.names.is_some());
        let mut header = vec!["net", "choice", "node", "blade", "clients"];
        header.extend(has_names.then_some("clients, or their areas; all names: --json"));
        table.set_header(header);
        for line in lines {
            let mut row = vec![
                line.net,
                line.choice,
                line.name,
                line.blade,
                line.clients.to_string(),
            ];
            row.extend(line.shown);
            table.add_row(row);
        }
        writeln!(text, "{of}\n{}", table.trim_fmt())?;
    }
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}
