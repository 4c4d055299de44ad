//! The strict rule and the balanced optimum with the loads of links in plain C++, compiled and run beside Finerail's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use fgr::evaluate::LinkLoads;
use fgr::topology::{Fabric, Grid, Link, Vertex};
use fgr::{Machine, Role};

const SOURCE: &str = include_str!("plan.cpp");

/// Runs the C++ for some rounds. Returns the fastest round of the strict rule and of the balanced optimum; `None`
/// without a compiler, or if the machine does not suit the C++: it wants few routers of a net.
///
/// # Errors
///
/// The program does not compile, or its loads differ from these.
pub(super) fn times(
    machine: &Machine,
    expected: [&[LinkLoads; 2]; 2],
    rounds: u16,
) -> anyhow::Result<Option<[Duration; 2]>> {
    let Fabric::Grid(grid, _) = &machine.fabric else {
        return Ok(None);
    };
    if machine.nets.iter().any(|net| net.routers.len() > SINKS_MAX) {
        return Ok(None);
    }
    let directory = tempfile::tempdir()?;
    let (source, program) = (
        directory.path().join("plan.cpp"),
        directory.path().join("plan"),
    );
    std::fs::write(&source, SOURCE)?;
    let made = Command::new("c++")
        .args(["-O3", "-o"])
        .arg(&program)
        .arg(&source)
        .status();
    let Ok(made) = made else {
        return Ok(None);
    };
    ensure!(made.success(), "the C++ does not compile");
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("a pipe that was asked for")?;
    input.write_all(described(machine, grid, rounds)?.as_bytes())?;
    drop(input);
    let output = String::from_utf8(child.wait_with_output()?.stdout)?;
    let mut numbers = output.split_whitespace().map(str::parse::<u64>);
    let mut next = || Ok::<u64, anyhow::Error>(numbers.next().context("the C++ ended early")??);
    let mut times = [Duration::ZERO; 2];
    for (time, loads) in times.iter_mut().zip(expected) {
        *time = Duration::from_nanos(next()?);
        for loads in loads {
            ensure!(
                next()? == checksum(machine, loads),
                "the C++ loads the links differently"
            );
        }
    }
    Ok(Some(times))
}

/// Most routers of a net of which the C++ examines all sets.
const SINKS_MAX: usize = 12;

/// Sums up the halves of a unit on each link, times the link's number and one.
fn checksum(machine: &Machine, loads: &LinkLoads) -> u64 {
    let links = (0..machine.fabric.link_slots()).map(Link);
    let halves = links.map(|link| (loads.load(link) * 2.0) as u64 * (u64::from(link.0) + 1));
    halves.fold(0_u64, u64::wrapping_add) % 1_000_000_007
}

/// The machine in numbers, as the program reads them.
fn described(machine: &Machine, grid: &Grid, rounds: u16) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let dimensions = grid.dimensions();
    writeln!(text, "{}", dimensions.len())?;
    for dimension in dimensions {
        writeln!(
            text,
            "{} {} {}",
            dimension.size,
            u8::from(dimension.wrap),
            dimension.cost
        )?;
    }
    // The rule's dimensions: the dearest has windows, the next one decides which module is nearest.
    let cost = |d: &usize| dimensions[*d].cost;
    let window = (0..dimensions.len()).max_by_key(cost).unwrap_or(0);
    let others = (0..dimensions.len()).filter(|&d| d != window).rev();
    writeln!(text, "{window} {}", others.max_by_key(cost).unwrap_or(0))?;
    let mut clients = vec![0_u32; grid.vertices() as usize];
    for client in &machine.clients {
        clients[client.vertex.0 as usize] += 1;
    }
    let sites = || {
        clients
            .iter()
            .enumerate()
            .filter(|(_, clients)| **clients > 0)
    };
    writeln!(text, "{}", sites().count())?;
    for (vertex, clients) in sites() {
        writeln!(text, "{vertex} {clients}")?;
    }
    writeln!(text, "{}\n{}", machine.nets.len(), machine.groups.len())?;
    for group in 0..machine.groups.len() {
        describe_group(machine, (grid, window), group, &mut text)?;
    }
    let mut nets: Vec<usize> = machine.data_nets().collect();
    nets.sort_by_key(|&net| {
        let first = machine.nets[net].routers.first();
        let place = first.map(|&router| machine.routers[usize::from(router)].vertex);
        (machine.nets[net].group, place)
    });
    writeln!(text, "{}", nets.len())?;
    for net in nets {
        writeln!(text, "{net}")?;
    }
    let sites: BTreeMap<usize, usize> = sites().map(|(vertex, _)| vertex).zip(0..).collect();
    writeln!(text, "{}", machine.clients.len())?;
    for client in &machine.clients {
        writeln!(text, "{}", sites[&(client.vertex.0 as usize)])?;
    }
    describe_shares(machine, &mut text)?;
    writeln!(text, "{rounds}")?;
    Ok(text)
}

/// Describes the nets whose routers stand at the same places, group by group.
fn describe_shares(machine: &Machine, text: &mut String) -> std::fmt::Result {
    let mut shares: BTreeMap<(u16, Vec<Vertex>), Vec<usize>> = BTreeMap::new();
    for net in machine.data_nets() {
        let entry = &machine.nets[net];
        let places = entry.routers.iter();
        let places = places.map(|&router| machine.routers[usize::from(router)].vertex);
        shares
            .entry((entry.group, places.collect()))
            .or_default()
            .push(net);
    }
    let mut shares: Vec<_> = shares
        .into_iter()
        .map(|(key, nets)| (key.0, nets, key.1))
        .collect();
    shares.sort();
    writeln!(text, "{}", shares.len())?;
    for (group, nets, places) in shares {
        writeln!(text, "{group} {}", places.len())?;
        for place in places {
            writeln!(text, "{}", place.0)?;
        }
        writeln!(text, "{}", nets.len())?;
        for net in nets {
            writeln!(text, "{net}")?;
            for router in &machine.nets[net].routers {
                writeln!(text, "{router}")?;
            }
        }
    }
    Ok(())
}

fn describe_group(
    machine: &Machine,
    (grid, window): (&Grid, usize),
    number: usize,
    text: &mut String,
) -> std::fmt::Result {
    let group = &machine.groups[number];
    writeln!(
        text,
        "{} {}",
        u8::from(group.role == Role::Metadata),
        group.nets.len()
    )?;
    for net in &group.nets {
        writeln!(text, "{net}")?;
    }
    for plane in 0..u32::from(grid.dimensions()[window].size) {
        let found = machine.window(number, Vertex(plane * grid.stride(window)));
        writeln!(text, "{}", found.map_or(0, |window| window.sub_group))?;
    }
    writeln!(text, "{}", group.sub_groups.len())?;
    for modules in &group.sub_groups {
        writeln!(text, "{}", modules.len())?;
        for module in modules.clone() {
            let (home, routers) = (
                machine.modules[usize::from(module)].home,
                machine.routers_of(module),
            );
            writeln!(text, "{} {}", home.0, routers.len())?;
            for router in routers {
                writeln!(text, "{} {}", router.vertex.0, router.net)?;
            }
        }
    }
    Ok(())
}
