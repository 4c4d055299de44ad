//! The figures of `docs/titan-placement.md`: the front of policies on Titan, from short paths to
//! many routers for jobs on neighbouring nodes, and equal loads under limits of the hottest link.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use fgr::evaluate::{Evaluation, Gateways, compact_jobs};
use fgr::{Machine, Metric, Options, PlanError, Policy, assign};

use common::titan_machine;

/// Returns efficiency, evaluation and number of tables of a policy, and prints its figures as `fgr
/// compare` does.
fn figures(machine: &Machine, policy: Policy) -> (f64, Evaluation, usize) {
    let plan = assign(machine, policy, &Options::default()).unwrap();
    let e = Evaluation::new(machine, &plan, Gateways::Primary);
    let job = compact_jobs(machine, &plan, 1_008, (machine.clients.len() - 1_008) / 97);
    let (primary, tables) = plan.distinct_tables();
    println!(
        "{} | {:.3} | {:.3} | {:.3} | {:.3} | {:.1} | {:.1} | {tables}, {primary} | {:.1}",
        policy.label(),
        job.mean,
        e.cost.mean,
        e.hops.mean,
        e.balance(),
        e.write.max,
        e.read.max,
        plan.config_bytes() as f64 / 1e6
    );
    (job.mean, e, tables)
}

#[test]
fn the_front_goes_from_short_paths_to_two_thirds_of_the_routers() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let all: Vec<_> = Policy::FRONT
        .into_iter()
        .map(|policy| figures(&machine, policy))
        .collect();
    let efficiency = |index: usize| format!("{:.3}", all[index].0);
    assert_eq!(efficiency(0), "0.224");
    assert_eq!(
        (efficiency(3), efficiency(6)),
        ("0.447".into(), "0.660".into())
    );
    // The nearest of the three along z, and modules in turn: few tables.
    let [.., near, turns] = &all[..] else {
        unreachable!("the front has more policies");
    };
    let line = |(job, e, tables): &(f64, Evaluation, usize)| {
        format!("{job:.3} {:.2} {tables}", e.cost.mean)
    };
    assert_eq!(line(near), "0.591 34.99 189");
    assert_eq!(line(turns), "0.658 38.97 24");
}

#[test]
fn equal_loads_with_cooler_reads_than_the_strict_rule_are_better_in_everything() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let (_, strict, _) = figures(&machine, Policy::STRICT);
    figures(&machine, Policy::Balanced { by: Metric::Cost });
    let (_, cool, _) = figures(
        &machine,
        Policy::Cool {
            write: 167,
            read: 159,
        },
    );
    assert!(cool.write.max <= 167.0 && cool.read.max <= 159.0);
    assert!(cool.cost.mean < strict.cost.mean && cool.hops.mean < strict.hops.mean);
    assert!(cool.balance() < 1.001);
}

#[test]
fn a_limit_on_each_side_of_a_router_is_better_than_the_strict_rule_in_everything() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let by = Metric::Cost;
    for (side, cost, read) in [(745, "21.415", "158.9"), (720, "21.536", "153.6")] {
        let (_, sided, _) = figures(&machine, Policy::Sided { by, side });
        let found = (
            format!("{:.3}", sided.cost.mean),
            format!("{:.1}", sided.read.max),
        );
        assert_eq!(found, (cost.to_owned(), read.to_owned()), "{side}");
        let strict = assign(&machine, Policy::STRICT, &Options::default()).unwrap();
        let strict = Evaluation::new(&machine, &strict, Gateways::Primary);
        assert!(sided.hops.mean < strict.hops.mean && sided.write.max < strict.write.max);
        assert!(sided.balance() < 1.001);
    }
    // The clients in the planes of the routers are too few to fill the rest.
    let rejection = assign(
        &machine,
        Policy::Sided { by, side: 300 },
        &Options::default(),
    );
    assert_eq!(rejection.err(), Some(PlanError::Side(300)));
}
