//! `finerail fgr assign`: shows the routers of one client.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use comfy_table::{Table, presets};
use fgr::topology::{Fabric, Vertex};
use fgr::{Machine, Plan};
use serde::Serialize;

use super::input::PlanningArgs;
use crate::common::print_bytes;

/// Arguments of `finerail fgr assign`.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  finerail fgr assign --machine synthetic:6x8x4:2x3x1 --client 0,1,2 --group G1
  finerail fgr assign --machine titan.map --modules modules.csv --client c0-0c1s5n0 --group A
")]
pub(crate) struct AssignArgs {
    #[command(flatten)]
    planning: PlanningArgs,
    /// The client: its position (0,0,10), name (c0-0c1s5n0), number (20) or NID (20@gni101)
    #[arg(long, value_name = "CLIENT")]
    client: String,
    /// The group of router modules
    #[arg(long, value_name = "GROUP")]
    group: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result for one client.
#[derive(Serialize)]
struct Answer {
    client: u32,
    name: Option<String>,
    place: String,
    group: String,
    /// The number of the sub-group whose window holds the client, from 1.
    sub_group: Option<usize>,
    /// The distance in planes from the sub-group's modules to the client.
    offset: Option<i32>,
    inside: Option<bool>,
    routers: Vec<Choice>,
}

/// One router of a client.
#[derive(Serialize)]
struct Choice {
    net: String,
    /// The rank of the router: `primary`, `backup 1`, …
    choice: String,
    node: u32,
    /// The name of the node, if the machine names routers.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    blade: String,
    sub_group: u16,
    index: u16,
    place: String,
    /// Hops along the dimension that decides which module is nearest.
    near_hops: Option<u16>,
    hops: u32,
    cost: u32,
}

/// Runs `finerail fgr assign`.
pub(crate) fn run(args: &AssignArgs) -> anyhow::Result<ExitCode> {
    let (machine, plan) = args.planning.plan()?;
    let client = find_client(&machine, &args.client)?;
    let answer = answer(&machine, &plan, client, &args.group)?;
    let text = if args.json {
        serde_json::to_string_pretty(&answer)? + "\n"
    } else {
        table(&answer)?
    };
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the index of the client that is given by its place, name, number or NID.
fn find_client(machine: &Machine, text: &str) -> anyhow::Result<usize> {
    let mut clients = machine.clients.iter();
    let found = if text.contains(',') {
        let vertex = vertex(machine, text)
            .ok_or_else(|| anyhow!("{text} is not a position of {}", machine.name))?;
        clients.position(|client| client.vertex == vertex)
    } else if text.starts_with(|first: char| first.is_ascii_digit()) {
        let number = text.split_once('@').map_or(text, |(number, _)| number);
        let id: u32 = number
            .parse()
            .map_err(|_| anyhow!("'{text}' is not a position, name, number or NID"))?;
        clients.position(|client| client.id == id)
    } else {
        clients.position(|client| client.name.as_deref() == Some(text))
    };
    found.ok_or_else(|| anyhow!("no client of {} is {text}", machine.name))
}

fn vertex(machine: &Machine, text: &str) -> Option<Vertex> {
    let at: Vec<u16> = text
        .split(',')
        .map(|word| word.trim().parse().ok())
        .collect::<Option<_>>()?;
    match (&machine.fabric, &at[..]) {
        (Fabric::Grid(grid, _), at) => grid.vertex(at),
        (Fabric::Dragonfly(dragonfly, _), &[group, switch]) => dragonfly.switch(group, switch),
        _ => None,
    }
}

fn answer(machine: &Machine, plan: &Plan, client: usize, group: &str) -> anyhow::Result<Answer> {
    let Some(index) = machine.groups.iter().position(|known| known.name == group) else {
        let known: Vec<&str> = machine.groups.iter().map(|g| g.name.as_str()).collect();
        bail!(
            "there is no group {group}; the groups are {}",
            known.join(", ")
        );
    };
    let row = plan.row_of(client);
    let client = &machine.clients[client];
    let window = machine.window(index, client.vertex);
    let mut routers = Vec::new();
    for &net in &machine.groups[index].nets {
        let chosen = plan.routers(row, usize::from(net));
        for (number, &router) in chosen.iter().enumerate() {
            let name = machine.nets[usize::from(net)].net.to_string();
            routers.push(choice(machine, client.vertex, (name, number), router));
        }
    }
    Ok(Answer {
        client: client.id,
        name: client.name.as_deref().map(str::to_owned),
        place: place(machine, client.vertex),
        group: group.to_owned(),
        sub_group: window.map(|window| window.sub_group + 1),
        offset: window.map(|window| window.offset),
        inside: window.map(|window| window.inside),
        routers,
    })
}

fn choice(machine: &Machine, from: Vertex, (net, number): (String, usize), router: u16) -> Choice {
    let router = &machine.routers[usize::from(router)];
    let module = &machine.modules[usize::from(router.module)];
    Choice {
        net,
        choice: match number {
            0 => "primary".to_owned(),
            backup => format!("backup {backup}"),
        },
        node: router.id,
        name: machine
            .details
            .names
            .get(&router.id)
            .map(ToString::to_string),
        blade: module.blade.clone(),
        sub_group: module.sub_group + 1,
        index: module.index + 1,
        place: place(machine, router.vertex),
        near_hops: machine.near_hops(from, router.module),
        hops: machine.fabric.hops(from, router.vertex),
        cost: machine.fabric.cost(from, router.vertex),
    }
}

/// Formats a vertex: `(0,0,10)` on a grid, the number of the vertex elsewhere.
fn place(machine: &Machine, vertex: Vertex) -> String {
    match &machine.fabric {
        Fabric::Grid(grid, _) => {
            let at = grid.coordinates(vertex);
            let at: Vec<String> = at.iter().map(u16::to_string).collect();
            format!("({})", at.join(","))
        }
        _ => format!("vertex {}", vertex.0),
    }
}

fn table(answer: &Answer) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let name = answer.name.as_deref().unwrap_or("client");
    let (id, place, group) = (answer.client, &answer.place, &answer.group);
    writeln!(text, "{name} {id} at {place}, group {group}")?;
    if let (Some(sub_group), Some(offset)) = (answer.sub_group, answer.offset) {
        let inside = match answer.inside {
            Some(true) => "in the window of",
            _ => "in no window; nearest is",
        };
        writeln!(
            text,
            "{inside} sub-group {sub_group}, {offset:+} from its modules"
        )?;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "net", "choice", "node", "blade", "module", "place", "near", "hops", "cost",
    ]);
    for router in &answer.routers {
        table.add_row([
            router.net.clone(),
            router.choice.clone(),
            router
                .name
                .clone()
                .unwrap_or_else(|| router.node.to_string()),
            router.blade.clone(),
            format!("{}.{}", router.sub_group, router.index),
            router.place.clone(),
            router
                .near_hops
                .map_or("-".to_owned(), |hops| hops.to_string()),
            router.hops.to_string(),
            router.cost.to_string(),
        ]);
    }
    writeln!(text, "{}", table.trim_fmt())?;
    Ok(text)
}
