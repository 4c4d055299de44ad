//! Measures how long plans take. For comparison, a naive loop over every client, net and link runs
//! in the same rounds.
//!
//! Titan's data is found as in the tests. Without the data only the synthetic machine is planned.

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark of inputs that are known to be right"
)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use fgr::evaluate::{Gateways, LinkLoads, Unit, single_failures};
use fgr::place::{Problem, Trials};
use fgr::topology::Fabric;
use fgr::{Machine, Metric, Options, Plan, Policy, assign, read_machine};

/// Rounds of each measurement. The fastest round counts: it shows what an undisturbed machine does.
const ROUNDS: usize = 5;

fn best<T>(mut run: impl FnMut() -> T) -> Duration {
    let time = |_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed()
    };
    (0..ROUNDS).map(time).min().unwrap_or_default()
}

fn plan(machine: &Machine, policy: Policy) -> Plan {
    assign(machine, policy, &Options::default()).unwrap()
}

fn loads(machine: &Machine, plan: &Plan) -> [LinkLoads; 2] {
    LinkLoads::both(machine, plan, Gateways::Primary)
}

/// Returns a plan with primaries only.
fn primaries(machine: &Machine, policy: Policy) -> Plan {
    let options = Options {
        backups: 0,
        ..Options::default()
    };
    assign(machine, policy, &options).unwrap()
}

/// Applies the strict rule client by client and net by net, and walks each path link by link.
fn naive(machine: &Machine) -> (Vec<f64>, Vec<f64>) {
    let Fabric::Grid(grid, tie) = &machine.fabric else {
        return (Vec::new(), Vec::new());
    };
    let slots = grid.link_slots() as usize;
    let (mut write, mut read) = (vec![0.0; slots], vec![0.0; slots]);
    for client in &machine.clients {
        for (net, entry) in (0..).zip(&machine.nets) {
            let group = usize::from(entry.group);
            let window = machine.window(group, client.vertex).unwrap();
            let mut modules: Vec<u16> = machine.groups[group].sub_groups[window.sub_group]
                .clone()
                .collect();
            modules.sort_by_key(|&module| machine.near_hops(client.vertex, module));
            let routers = machine.routers_of(modules[0]);
            let router = routers.iter().find(|router| router.net == net).unwrap();
            let (here, there) = (client.vertex, router.vertex);
            grid.walk(here, there, *tie, &mut |link, share| {
                write[link.0 as usize] += share
            });
            grid.walk(there, here, *tie, &mut |link, share| {
                read[link.0 as usize] += share
            });
        }
    }
    (write, read)
}

/// A machine of Fugaku's size with one router at every 192nd node, all on one net.
fn fugaku_like() -> Machine {
    const SIZES: [u32; 6] = [24, 23, 24, 2, 3, 2];
    let mut file = "machine: fugaku-like\nfabric:\n  kind: torus\n  dimensions:\n".to_owned();
    for size in SIZES {
        writeln!(
            file,
            "    - {{name: d, size: {size}, cost: 1, capacity: [6.8]}}"
        )
        .unwrap();
    }
    file.push_str("clients: {per-vertex: 1}\ngroups:\n  - name: A\n    nets: [tcp1]\n    sub-groups:\n      - modules:\n");
    for router in 0..828 {
        let mut vertex = 192 * router;
        let mut at = SIZES;
        for (position, size) in at.iter_mut().zip(SIZES).rev() {
            *position = vertex % size;
            vertex /= size;
        }
        let id = 1_000_000 + router;
        writeln!(
            file,
            "          - {{blade: b{router}, at: {at:?}, nodes: [{id}]}}"
        )
        .unwrap();
    }
    read_machine("fugaku-like", &file).unwrap()
}

fn titan(machine: &Machine) {
    let strict = best(|| plan(machine, Policy::STRICT));
    let table = plan(machine, Policy::STRICT);
    let both = best(|| loads(machine, &plan(machine, Policy::STRICT)));
    let naive = best(|| naive(machine));
    println!("strict plan                        {strict:>10.1?}");
    println!("strict plan, write and read loads  {both:>10.1?}");
    let ratio = naive.as_secs_f64() / both.as_secs_f64();
    println!("the same, naive                    {naive:>10.1?}  {ratio:.1} x");
    let failures = best(|| single_failures(machine, &table, Unit::Module));
    println!("108 single-module failures         {failures:>10.1?}");
    let by = Metric::Cost;
    let alone = best(|| primaries(machine, Policy::Balanced { by }));
    let table = primaries(machine, Policy::Balanced { by });
    let load = best(|| loads(machine, &table));
    println!("balanced, primaries alone          {alone:>10.1?}");
    println!("its write and read loads           {load:>10.1?}");
    for policy in [
        Policy::Nearest { by: Metric::Cost },
        Policy::Balanced { by: Metric::Cost },
        Policy::SPREAD,
    ] {
        let time = best(|| plan(machine, policy));
        println!("{:<34} {time:>10.1?}", policy.name());
    }
}

/// Measures trial moves of modules. Every blade in the planes of the modules is a site.
fn trials(machine: &Machine) {
    let problem = Problem {
        sites: common::blades(machine),
        machine,
        policy: Policy::STRICT,
    };
    let search = Trials::new(&problem, 1).unwrap();
    let mut figures = None;
    let time = best(|| figures = search.span(500_000).ok());
    println!("500,000 trial moves                {time:>10.1?}  {figures:?}");
}

fn main() {
    if let Some(machine) = common::titan_machine() {
        titan(&machine);
        trials(&machine);
    }
    let machine = fugaku_like();
    let policy = Policy::Nearest { by: Metric::Cost };
    let time = best(|| loads(&machine, &plan(&machine, policy)));
    println!("158,976 nodes, nearest and loads   {time:>10.1?}");
}
