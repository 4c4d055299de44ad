//! The printed figures of Titan: policies, jobs, failures, lower limits.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use fgr::evaluate::{
    Evaluation, Gateways, LinkLoads, Traffic, Unit, bounds, compact_jobs, expected_unreachable,
    scattered_jobs, single_failures,
};
use fgr::topology::{Fabric, Vertex};
use fgr::{Machine, Metric, Options, Plan, Policy, assign};

use common::titan_machine;

fn plan(machine: &Machine, policy: Policy) -> Plan {
    assign(machine, policy, &Options::default()).unwrap()
}

/// Formats a line of the table: mean hops by dimension, mean hops (max), mean cost (max), balance,
/// hottest link for writes and reads, ceilings. The printed table rounds some figures twice:
/// 8.16945 becomes 8.170 via 8.1695, and likewise 1.01945, 13.23949 and 4149.47. This function
/// rounds each figure once.
fn line(machine: &Machine, policy: Policy, gateways: Gateways<'_>) -> String {
    let e = Evaluation::new(machine, &plan(machine, policy), gateways);
    let [x, y, z] = e.hops_by_dimension[..] else {
        unreachable!()
    };
    format!(
        "{x:.3}/{y:.3}/{z:.3} {:.3} ({}) {:.3} ({}) {:.3} {:.1}/{:.1} {:.0}/{:.0}",
        e.hops.mean,
        e.hops.max,
        e.cost.mean,
        e.cost.max,
        e.balance(),
        e.write.max,
        e.read.max,
        e.write.ceiling,
        e.read.ceiling,
    )
}

#[test]
fn the_table_of_policies_is_reproduced_to_the_printed_digits() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let primary = |policy| line(&machine, policy, Gateways::Primary);
    assert_eq!(
        primary(Policy::STRICT),
        "2.083/1.000/6.000 9.083 (18) 22.333 (44) 1.084 173.0/162.1 3889/4149"
    );
    assert_eq!(
        primary(Policy::Flat),
        "6.241/4.000/6.000 16.241 (32) 62.962 (124) 1.000 159.5/159.9 4219/4209"
    );
    assert_eq!(
        primary(Policy::Nearest { by: Metric::Cost }),
        "1.974/1.019/5.176 8.169 (17) 21.228 (40) 1.103 176.9/182.2 3804/3693"
    );
    assert_eq!(
        primary(Policy::Nearest { by: Metric::Hops }),
        "2.392/2.096/2.116 6.604 (12) 28.451 (72) 1.149 181.3/190.7 3710/3528"
    );
}

#[test]
fn the_algorithm_as_printed_and_the_backups_cost_what_is_printed() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let wrapped = Policy::Printed { wrap: true };
    assert_eq!(
        line(&machine, wrapped, Gateways::Primary),
        "6.239/1.000/6.000 13.239 (26) 38.959 (76) 3.005 478.7/481.3 1405/1398"
    );
    assert_eq!(
        line(&machine, Policy::STRICT, Gateways::Backup(1)),
        "6.275/1.000/6.000 13.275 (23) 39.101 (64) 1.205 191.6/201.4 3512/3341"
    );
}

#[test]
fn distances_of_strict_are_spread_as_printed() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let e = Evaluation::new(&machine, &plan(&machine, Policy::STRICT), Gateways::Primary);
    let client = e.client_cost;
    assert_eq!((client.min, client.max), (692.0, 928.0));
    assert_eq!(
        format!("{:.2} {:.2}", client.mean, client.deviation),
        "803.99 42.44"
    );
    assert_eq!((e.cost.min, e.cost.max), (1.0, 44.0));
    assert_eq!(format!("{:.2}", e.cost.deviation), "8.32");
    // The printed values are per module Gemini, which serves two nets.
    let printed = [
        0, 2154, 7234, 13646, 20032, 24952, 27546, 28366, 28452, 28114, 28130, 28092, 27114, 25256,
        20982, 14532, 8126, 3080, 576,
    ];
    let histogram: Vec<u32> = e
        .hops_histogram
        .iter()
        .map(|pairs| (pairs / 2.0) as u32)
        .collect();
    assert_eq!(histogram, printed);
}

#[test]
fn link_loads_are_as_printed() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let of = |policy| Evaluation::new(&machine, &plan(&machine, policy), Gateways::Primary);
    let (strict, flat) = (of(Policy::STRICT), of(Policy::Flat));
    let mean = |e: &Evaluation| -> Vec<f64> {
        e.write
            .by_dimension
            .iter()
            .map(|d| d.mean.round())
            .collect()
    };
    assert_eq!(mean(&strict), [73.0, 35.0, 210.0]);
    assert_eq!(mean(&flat), [219.0, 140.0, 210.0]);
    let y = |e: &Evaluation| {
        format!(
            "{:.1} {:.1}",
            e.write.by_dimension[1].max, e.read.by_dimension[1].max
        )
    };
    assert_eq!(y(&strict), "30.7 41.0");
    assert_eq!(y(&flat), "66.8 54.6");
    let work = strict
        .write
        .by_dimension
        .iter()
        .map(|d| format!("{:.1}", d.work / 1e3));
    assert_eq!(work.collect::<Vec<_>>(), ["149.5", "107.7", "289.3"]);
}

#[test]
fn ring_differences_give_the_loads_that_walking_gives() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let plan = plan(&machine, Policy::STRICT);
    for traffic in [Traffic::Write, Traffic::Read] {
        let fast = LinkLoads::new(&machine, &plan, Gateways::Primary, traffic);
        assert!(fast == LinkLoads::by_walking(&machine, &plan, Gateways::Primary, traffic));
    }
}

#[test]
fn compact_jobs_reach_the_printed_share() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let plan = plan(&machine, Policy::STRICT);
    let clients = machine.clients.len();
    let printed = [
        (128, "1.7 0.086 0.083"),
        (512, "3.4 0.184 0.124"),
        (1_008, "4.4 0.224 0.219"),
        (2_016, "5.0 0.273 0.223"),
        (4_096, "6.4 0.304 0.302"),
        (8_192, "9.1 0.432 0.404"),
        (18_688, "12.0 0.923 0.923"),
    ];
    for (size, expected) in printed {
        // The starts are not printed. Starts at every 97th part of the possible range give every
        // digit.
        let jobs = compact_jobs(&machine, &plan, size, (clients - size) / 97);
        let found = format!("{:.1} {:.3} {:.3}", jobs.routers, jobs.mean, jobs.worst);
        assert_eq!(found, expected, "{size}");
    }
}

#[test]
fn scattered_jobs_reach_the_printed_share_within_a_hundredth() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let plan = plan(&machine, Policy::STRICT);
    let printed = [
        (128, 0.588),
        (512, 0.742),
        (1_008, 0.785),
        (2_016, 0.827),
        (4_096, 0.852),
        (8_192, 0.882),
        (18_688, 0.923),
    ];
    for (size, expected) in printed {
        let jobs = scattered_jobs(&machine, &plan, size, 100, 2);
        assert!(
            (jobs.mean - expected).abs() <= 0.01,
            "{size}: {}",
            jobs.mean
        );
    }
}

#[test]
fn spread_more_than_doubles_what_a_compact_job_reaches_at_a_stated_cost() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let plan = plan(&machine, Policy::SPREAD);
    let jobs = compact_jobs(&machine, &plan, 1_008, (machine.clients.len() - 1_008) / 97);
    assert!(jobs.mean > 2.0 * 0.224, "{jobs:?}");
    assert_eq!(
        line(&machine, Policy::SPREAD, Gateways::Primary),
        "4.720/1.814/2.214 8.748 (23) 35.609 (68) 1.040 164.7/175.6 4085/3832"
    );
}

#[test]
fn balanced_reaches_the_bound_of_the_transport_problem() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let of = |by| {
        Evaluation::new(
            &machine,
            &plan(&machine, Policy::Balanced { by }),
            Gateways::Primary,
        )
    };
    let cost = of(Metric::Cost).cost.mean;
    let hops = of(Metric::Hops).hops.mean;
    assert_eq!(format!("{cost:.3} {hops:.3}"), "21.280 6.618");
    // The printed bound chooses whole modules. Choosing net by net gains a little more.
    let bound = |by, balanced| format!("{:.3}", bounds::by_module(&machine, by, balanced).unwrap());
    assert_eq!(bound(Metric::Cost, true), "21.741");
    assert_eq!(bound(Metric::Hops, true), "6.658");
    assert_eq!(bound(Metric::Cost, false), "21.691");
    assert_eq!(bound(Metric::Hops, false), "6.647");
}

#[test]
fn one_dead_module_loads_the_worst_sibling_with_1_57_times_the_mean() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let failures = single_failures(&machine, &plan(&machine, Policy::STRICT), Unit::Module);
    assert_eq!(failures.len(), 108);
    assert!(failures.iter().all(|failure| failure.unreachable == 0));
    let worst = failures
        .iter()
        .map(|failure| failure.worst_load)
        .fold(0.0, f64::max);
    assert_eq!(format!("{worst:.2}"), "1.57");
}

#[test]
fn a_failure_by_differences_is_the_evaluation_without_the_dead() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let plan = plan(&machine, Policy::STRICT);
    for failure in single_failures(&machine, &plan, Unit::Module)
        .iter()
        .step_by(50)
    {
        let dead = failure.dead.iter().copied().collect();
        let whole = Evaluation::new(&machine, &plan, Gateways::Without(&dead));
        assert_eq!(failure.write_max, Some(whole.write.max));
        assert_eq!(failure.read_max, Some(whole.read.max));
        assert_eq!(failure.unreachable, whole.unserved);
    }
}

#[test]
fn expected_losses_of_random_failures_are_as_printed() {
    let nodes =
        [3, 5, 10, 20, 43].map(|dead| format!("{:.1e}", expected_unreachable(432, 3, 144, dead)));
    assert_eq!(nodes, ["1.1e-5", "1.1e-4", "1.3e-3", "1.2e-2", "1.3e-1"]);
    let modules = [3, 5, 10].map(|dead| format!("{:.1e}", expected_unreachable(108, 3, 36, dead)));
    assert_eq!(modules, ["1.8e-4", "1.8e-3", "2.1e-2"]);
}

#[test]
fn bounds_are_as_printed() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let Fabric::Grid(grid, _) = &machine.fabric else {
        unreachable!()
    };
    let module = [[0, 0, 0], [0, 1, 0]].map(|at| grid.vertex(&at).unwrap());
    let ball = |by, places: &[Vertex]| bounds::ball(&machine.fabric, by, places, 12);
    let one = |by| ball(by, &module[..1]);
    assert_eq!((one(Metric::Hops).mean, one(Metric::Hops).max), (6.24, 8.0));
    assert_eq!(
        (one(Metric::Cost).mean, one(Metric::Cost).max),
        (20.305, 29.0)
    );
    assert_eq!(ball(Metric::Hops, &module).mean, 6.31);
    assert_eq!(ball(Metric::Cost, &module).mean, 20.995);
    let covering = bounds::covering(&machine, Metric::Hops);
    assert_eq!(
        (format!("{:.3}", covering.mean), covering.max),
        ("3.035".to_owned(), 6.0)
    );
}

#[test]
fn cuts_at_the_routers_are_as_printed() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let cuts = bounds::cuts(&machine);
    let mut figures: Vec<String> = cuts
        .iter()
        .map(|cut| format!("{:.1} {:.1} {:.1}", cut.units, cut.any, cut.blind))
        .collect();
    figures.sort();
    // 27 modules with two Geminis each are at the end of a cage.
    assert_eq!(
        figures.iter().filter(|f| *f == "3114.7 54.5 159.2").count(),
        54
    );
    assert_eq!(
        figures.iter().filter(|f| *f == "3114.7 49.6 99.5").count(),
        162
    );
}
