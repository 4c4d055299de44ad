//! `finerail-bench fgr`: measures plans beside a naive loop over every client, net and link, and beside the same
//! algorithm in C++, in the same run.

mod reference;
mod sites;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use comfy_table::{CellAlignment, Table, presets};
use fgr::evaluate::{Gateways, LinkLoads, Unit, single_failures};
use fgr::place::{Problem, Site, Trials};
use fgr::topology::{Dimension, Fabric, Grid, Tie, Vertex};
use fgr::{Machine, Metric, Options, Plan, Policy, Synthetic, assign, preset, synthetic};
use finerail::machine::MachineArgs;
use serde::Serialize;

use super::verdict;

/// The limit on the memory of the whole measurement.
const MEMORY_TARGET_MIB: f64 = 1024.0;

/// The target for plans with loads, as a multiple of the time of the same algorithm in C++.
const CPP_TARGET: f64 = 1.2;

/// The target for how many times faster than the naive loop a plan is.
const RATIO_TARGET: f64 = 10.0;

#[derive(clap::Args)]
#[command(after_help = "\
The naive loop applies the strict rule client by client and net by net, and follows every path link by link, with \
one thread. With a C++ compiler (c++), the same algorithms in plain C++ run beside Finerail's strict and balanced \
plans, all with one thread; the loads must be equal. Optima and moves use all threads; RAYON_NUM_THREADS=1 sets one \
thread. Of several rounds the fastest counts. Three sites of today run once, whatever the machine: a site of a \
million nodes, a chain of 5 routers with 20,000 nodes and every single failure, and all policies for a dragonfly \
like Frontier. The time of a plan is also given as a multiple of the machine's own limit, measured in the same run: one thread sums up the distance of every client to every module (or to every router, if \
all are in one module). The targets are for Titan on two present-day cores.

Examples
  finerail-bench fgr --machine titan.map --modules modules.csv
  finerail-bench fgr --machine synthetic:25x16x24:9x3x4 --short --json
")]
pub(super) struct FgrArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Number of rounds; sites of today run once [default: 5, with --short 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Measure smaller sites of today, and fewer rounds
    #[arg(long)]
    short: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One measured time.
#[derive(Serialize)]
struct Row {
    what: String,
    milliseconds: f64,
    /// The time as a multiple of the time for one sum of all distances, for plans.
    ratio_to_limit: Option<f64>,
    target_milliseconds: Option<f64>,
    /// The memory of the process until then, where it has a target.
    memory_mib: Option<f64>,
    memory_target_mib: Option<f64>,
    met: Option<bool>,
}

/// The machine's own limit for one fabric: one thread sums the distance of every client to every target once.
#[derive(Clone, Serialize)]
struct Limit {
    distances: usize,
    milliseconds: f64,
}

/// All results.
#[derive(Serialize)]
struct Report {
    machine: String,
    clients: usize,
    nets: usize,
    rows: Vec<Row>,
    limits: Vec<Limit>,
    naive_ratio: f64,
    naive_ratio_target: f64,
    /// The times of the strict rule and of the balanced optimum, with loads, as multiples of those of the same
    /// algorithms in C++; absent without a compiler.
    cpp_ratios: Option<[f64; 2]>,
    cpp_ratio_target: f64,
    memory_mib: Option<f64>,
    memory_target_mib: f64,
}

/// Measures, and returns the text to print.
pub(super) fn run(args: &FgrArgs) -> anyhow::Result<String> {
    let machine = args.machine.read()?;
    ensure!(
        matches!(machine.fabric, Fabric::Grid(..)),
        "the strict rule needs a torus or mesh; {} is none",
        machine.name
    );
    // First, because its memory is measured.
    let sites = sites::rows(&sites::Sizes::new(args.short))?;
    let rounds = args.rounds.unwrap_or(if args.short { 2 } else { 5 });
    let mut report = measure(&machine, rounds)?;
    report.rows.extend(sites);
    if args.json {
        return Ok(serde_json::to_string_pretty(&report)? + "\n");
    }
    Ok(report.text())
}

fn measure(machine: &Machine, rounds: u16) -> anyhow::Result<Report> {
    let strict = plan(machine, Policy::STRICT)?;
    let fast = best(rounds, || {
        Ok(loads(machine, &plan(machine, Policy::STRICT)?))
    })?;
    let naive_time = best(rounds, || Ok(naive(machine)))?;
    ensure!(
        naive(machine) == loads(machine, &strict).map(|l| units(machine, &l)),
        "the naive loop loads the links differently"
    );
    let failures = best(rounds, || {
        let plan = plan(machine, Policy::STRICT)?;
        let after = single_failures(machine, &plan, Unit::Module);
        Ok((loads(machine, &plan), after))
    })?;
    let limit = limit(machine, rounds)?;
    let mut rows = vec![
        limit.row("strict plan, write and read link loads", fast, Some(100.0)),
        limit.row("the same by the naive loop", naive_time, None),
        limit.row(
            "strict plan, loads, every single-module failure",
            failures,
            Some(1_000.0),
        ),
    ];
    let beside = beside(machine, rounds, &limit)?;
    let cpp = beside.as_ref().map(|beside| beside.1);
    rows.extend(beside.into_iter().flat_map(|beside| beside.0));
    rows.extend(searches(machine, rounds.min(3), &limit)?);
    let mut limits = vec![limit];
    of_fugaku(rounds, &mut rows, &mut limits)?;
    Ok(Report {
        machine: machine.name.clone(),
        clients: machine.clients.len(),
        nets: machine.nets.len(),
        rows,
        limits,
        naive_ratio: naive_time.as_secs_f64() / fast.as_secs_f64(),
        naive_ratio_target: RATIO_TARGET,
        cpp_ratios: cpp,
        cpp_ratio_target: CPP_TARGET,
        memory_mib: peak_memory_mib(),
        memory_target_mib: MEMORY_TARGET_MIB,
    })
}

/// Measures the strict rule and the balanced optimum beside the same algorithms in C++, all with one thread. Returns the
/// rows, and the times as multiples of those of C++; `None` without C++.
fn beside(
    machine: &Machine,
    rounds: u16,
    limit: &Limit,
) -> anyhow::Result<Option<([Row; 4], [f64; 2])>> {
    let strict = || Ok(loads(machine, &plan(machine, Policy::STRICT)?));
    let policy = Policy::Balanced { by: Metric::Cost };
    let balanced = || Ok(loads(machine, &primaries(machine, policy)?));
    let Some(cpp) = reference::times(machine, [&strict()?, &balanced()?], rounds)? else {
        return Ok(None);
    };
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let own = alone
        .install(|| Ok::<_, anyhow::Error>([best(rounds, strict)?, best(rounds, balanced)?]))?;
    let rows = [
        limit.row("strict plan and loads, one thread", own[0], None),
        limit.row("  the same algorithm in C++", cpp[0], None),
        limit.row("balanced optimum and loads, one thread", own[1], None),
        limit.row("  the same algorithm in C++", cpp[1], None),
    ];
    let ratio = |at: usize| own[at].as_secs_f64() / cpp[at].as_secs_f64();
    Ok(Some((rows, [ratio(0), ratio(1)])))
}

/// Measures the balanced optimum and trial moves.
fn searches(machine: &Machine, rounds: u16, limit: &Limit) -> anyhow::Result<[Row; 3]> {
    let policy = Policy::Balanced { by: Metric::Cost };
    let balanced = best(rounds, || Ok(loads(machine, &primaries(machine, policy)?)))?;
    let with_backups = best(rounds, || plan(machine, policy))?;
    let problem = Problem {
        sites: blades(machine),
        machine,
        policy: Policy::STRICT,
    };
    let search = Trials::new(&problem, 1)?;
    let trials = best(rounds, || Ok(search.span(TRIALS)?))?;
    Ok([
        limit.row("distances, balanced optimum, loads", balanced, Some(10.0)),
        limit.row("balanced optimum with two backups", with_backups, None),
        limit.row(
            "500,000 trial moves in a span of a search",
            trials,
            Some(300.0),
        ),
    ])
}

/// Measures machines of the size of Fugaku.
fn of_fugaku(rounds: u16, rows: &mut Vec<Row>, limits: &mut Vec<Limit>) -> anyhow::Result<()> {
    let by = Metric::Cost;
    let few = torus_of_fugaku()?;
    let strict = best(rounds, || Ok(loads(&few, &plan(&few, Policy::STRICT)?)))?;
    let balanced = best(rounds.min(3), || {
        Ok(loads(&few, &primaries(&few, Policy::Balanced { by })?))
    })?;
    let large = preset("fugaku").context("a preset of this program")??;
    let nearest = best(rounds, || {
        Ok(loads(&large, &plan(&large, Policy::Nearest { by })?))
    })?;
    let (of_few, of_large) = (limit(&few, rounds)?, limit(&large, rounds)?);
    rows.extend([
        of_few.row(
            "fugaku-like torus, 108 modules: strict, link loads",
            strict,
            Some(100.0),
        ),
        of_few.row(
            "fugaku-like torus, 108 modules: balanced optimum, loads",
            balanced,
            Some(100.0),
        ),
        of_large.row(
            "fugaku-like (828 routers): nearest, link loads",
            nearest,
            Some(500.0),
        ),
    ]);
    limits.extend([of_few, of_large]);
    Ok(())
}

impl Limit {
    fn row(&self, what: &str, time: Duration, target: Option<f64>) -> Row {
        let milliseconds = time.as_secs_f64() * 1e3;
        Row {
            what: what.to_owned(),
            milliseconds,
            ratio_to_limit: Some(milliseconds / self.milliseconds),
            target_milliseconds: target,
            memory_mib: None,
            memory_target_mib: None,
            met: target.map(|target| milliseconds <= target),
        }
    }
}

/// Measures the time for one sum of all distances.
fn limit(machine: &Machine, rounds: u16) -> anyhow::Result<Limit> {
    let targets = targets(machine);
    let time = best(rounds, || Ok(sum_distances(machine, &targets)))?;
    Ok(Limit {
        distances: machine.clients.len() * targets.len(),
        milliseconds: time.as_secs_f64() * 1e3,
    })
}

/// Returns the places of the modules, or of the routers if there is only one module.
fn targets(machine: &Machine) -> Vec<Vertex> {
    if machine.modules.len() > 1 {
        machine.modules.iter().map(|module| module.home).collect()
    } else {
        machine.routers.iter().map(|r| r.vertex).collect()
    }
}

/// Sums the hops of all clients to all targets. There is one table for each dimension, so each pair costs one
/// addition for each dimension.
fn sum_distances(machine: &Machine, targets: &[Vertex]) -> u64 {
    let Fabric::Grid(grid, _) = &machine.fabric else {
        return 0;
    };
    let dimensions = 0..grid.dimensions().len();
    let table = |d: usize| -> Vec<Vec<u16>> {
        let to = |p| {
            let hops = targets
                .iter()
                .map(|&t| grid.distance(d, p, grid.position(t, d)));
            hops.collect()
        };
        (0..grid.dimensions()[d].size).map(to).collect()
    };
    let tables: Vec<Vec<Vec<u16>>> = dimensions.clone().map(table).collect();
    let mut sums = vec![0_u16; targets.len()];
    let mut all = 0;
    for client in &machine.clients {
        sums.fill(0);
        for d in dimensions.clone() {
            let row = &tables[d][usize::from(grid.position(client.vertex, d))];
            for (sum, hops) in sums.iter_mut().zip(row) {
                *sum += hops;
            }
        }
        all += u64::from(black_box(&sums)[0]);
    }
    all
}

/// Returns the time of the fastest round, which shows what the machine can do without interference.
fn best<T>(rounds: u16, mut run: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        black_box(run()?);
        least = least.min(start.elapsed());
    }
    Ok(least)
}

fn plan(machine: &Machine, policy: Policy) -> anyhow::Result<Plan> {
    Ok(assign(machine, policy, &Options::default())?)
}

/// Returns a plan with primaries only.
fn primaries(machine: &Machine, policy: Policy) -> anyhow::Result<Plan> {
    let options = Options {
        backups: 0,
        ..Options::default()
    };
    Ok(assign(machine, policy, &options)?)
}

/// The number of trial moves in the measurement.
const TRIALS: u64 = 500_000;

/// Returns every blade with the shape of the first module, in the planes of the modules. The nodes of a blade
/// without a module compute.
fn blades(machine: &Machine) -> Vec<Site> {
    let (Fabric::Grid(grid, _), Some(first)) = (&machine.fabric, machine.modules.first()) else {
        return Vec::new();
    };
    let mut nodes: BTreeMap<Vertex, Vec<u32>> = BTreeMap::new();
    let routers = machine.routers.iter().map(|r| (r.vertex, r.id));
    for (vertex, id) in machine
        .clients
        .iter()
        .map(|c| (c.vertex, c.id))
        .chain(routers)
    {
        nodes.entry(vertex).or_default().push(id);
    }
    let shape = &machine.routers[usize::from(first.routers.start)..usize::from(first.routers.end)];
    let names: BTreeMap<Vertex, &str> = machine
        .modules
        .iter()
        .map(|m| (m.home, &*m.blade))
        .collect();
    let mut planes: Vec<u16> = machine
        .modules
        .iter()
        .map(|m| grid.position(m.home, 1))
        .collect();
    planes.sort_unstable();
    planes.dedup();
    let homes = (0..grid.vertices()).map(Vertex);
    let homes = homes.filter(|&home| planes.contains(&grid.position(home, 1)));
    let site = |home: Vertex| {
        let mut at = grid.coordinates(home);
        let base = at[1];
        let mut used: BTreeMap<Vertex, usize> = BTreeMap::new();
        let mut of = |router: &fgr::Router| {
            let offset = grid.offset(
                1,
                grid.position(first.home, 1),
                grid.position(router.vertex, 1),
            );
            let size = i32::from(grid.dimensions()[1].size);
            // The value is between 0 and a size, which fits 16 bits.
            at[1] = (i32::from(base) + offset).rem_euclid(size) as u16;
            let vertex = grid.vertex(&at)?;
            let taken = used.entry(vertex).or_default();
            *taken += 1;
            Some((*nodes.get(&vertex)?.get(*taken - 1)?, vertex))
        };
        let name = names
            .get(&home)
            .map_or_else(|| format!("b{}", home.0), |name| (*name).to_owned());
        Some(Site {
            cabinet: name.clone(),
            nodes: shape.iter().map(&mut of).collect::<Option<_>>()?,
            blade: name,
            computes: true,
        })
    };
    homes.filter_map(site).collect()
}

/// Returns a torus with as many nodes as Fugaku. Its units of twelve nodes lie along the last dimension, and it has
/// 108 modules.
fn torus_of_fugaku() -> anyhow::Result<Machine> {
    let dimension = |name: &str, size, cost| Dimension {
        name: name.to_owned(),
        size,
        wrap: true,
        cost,
        capacity: vec![6.8],
    };
    let sizes = [("x", 24, 2), ("y", 24, 3), ("z", 23 * 12, 1)];
    let grid = Grid::new(sizes.map(|(n, s, c)| dimension(n, s, c)).to_vec())?;
    let size = Synthetic {
        groups: 9,
        modules: 2,
        nets: 1,
    };
    Ok(synthetic("fugaku-like", grid, Tie::Split, size)?)
}

/// Returns the loads of writes, and of reads.
fn loads(machine: &Machine, plan: &Plan) -> [LinkLoads; 2] {
    LinkLoads::both(machine, plan, Gateways::Primary)
}

fn units(machine: &Machine, loads: &LinkLoads) -> Vec<f64> {
    let slots = (0..machine.fabric.link_slots()).map(fgr::topology::Link);
    slots.map(|link| loads.load(link)).collect()
}

/// Applies the strict rule client by client and net by net, and walks each path link by link.
fn naive(machine: &Machine) -> [Vec<f64>; 2] {
    let slots = machine.fabric.link_slots() as usize;
    let (mut write, mut read) = (vec![0.0; slots], vec![0.0; slots]);
    let nets: Vec<usize> = machine.data_nets().collect();
    for client in &machine.clients {
        for &net in &nets {
            let Some(there) = primary(machine, client.vertex, net) else {
                continue;
            };
            let here = client.vertex;
            let walk = |from, to, loads: &mut Vec<f64>| {
                machine.fabric.walk(from, to, &mut |link, share| {
                    loads[link.0 as usize] += share;
                });
            };
            walk(here, there, &mut write);
            walk(there, here, &mut read);
        }
    }
    [write, read]
}

/// Returns the place of a client's primary for a net.
fn primary(
    machine: &Machine,
    from: fgr::topology::Vertex,
    net: usize,
) -> Option<fgr::topology::Vertex> {
    let group = usize::from(machine.nets[net].group);
    let window = machine.window(group, from)?;
    let modules = machine.groups[group].sub_groups[window.sub_group].clone();
    let module = modules.min_by_key(|&module| machine.near_hops(from, module))?;
    let mut routers = machine.routers_of(module).iter();
    let router = routers.find(|router| usize::from(router.net) == net)?;
    Some(router.vertex)
}

/// Returns the largest memory of this process so far; `None` if the system does not report it.
fn peak_memory_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}

impl Report {
    fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["what", "ms", "× limit", "target", ""]);
        for row in &self.rows {
            let mut target = row.target_milliseconds.map(|t| format!("≤ {t:.0} ms"));
            let mut what = row.what.clone();
            if let (Some(memory), Some(most)) = (row.memory_mib, row.memory_target_mib) {
                what += &format!(", {memory:.0} MiB");
                target = Some(format!("≤ {most:.0} MiB"));
            }
            table.add_row([
                what,
                format!("{:.1}", row.milliseconds),
                row.ratio_to_limit
                    .map(|ratio| format!("{ratio:.1}"))
                    .unwrap_or_default(),
                target.unwrap_or_default(),
                row.met.map(verdict).unwrap_or_default().to_owned(),
            ]);
        }
        for index in [1, 2] {
            if let Some(column) = table.column_mut(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let (ratio, wanted) = (self.naive_ratio, self.naive_ratio_target);
        let mut text = format!(
            "{}: {} clients × {} nets, fastest of all rounds\n\n{}\n\n\
             {ratio:.1} × faster than the naive loop, target ≥ {wanted}, {}\n",
            self.machine,
            self.clients,
            self.nets,
            table.trim_fmt(),
            verdict(ratio >= wanted)
        );
        let policies = ["strict", "balanced"].into_iter();
        for (policy, ratio) in policies.zip(self.cpp_ratios.into_iter().flatten()) {
            let (wanted, met) = (
                self.cpp_ratio_target,
                verdict(ratio <= self.cpp_ratio_target),
            );
            // Writing to a string cannot fail.
            let _infallible = writeln!(
                text,
                "{policy}: {ratio:.2} × the time of the same algorithm in C++ with one thread, target ≤ {wanted}, {met}"
            );
        }
        for limit in &self.limits {
            let (distances, time) = (limit.distances as f64 / 1e6, limit.milliseconds);
            // Writing to a string cannot fail.
            let _infallible = writeln!(
                text,
                "limit: {distances:.1} million distances summed up once by one thread, {time:.2} ms"
            );
        }
        if let Some(memory) = self.memory_mib {
            let (target, met) = (
                self.memory_target_mib,
                verdict(memory < self.memory_target_mib),
            );
            // Writing to a string cannot fail.
            let _infallible = writeln!(
                text,
                "{memory:.0} MiB of memory at most, target < {target}, {met}"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_torus_has_as_many_nodes_as_fugaku_and_108_modules() {
        let machine = torus_of_fugaku().unwrap();
        assert_eq!(machine.clients.len(), 158_976);
        assert_eq!(machine.modules.len(), 108);
    }
}
