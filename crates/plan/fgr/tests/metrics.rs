//! Figures of a placement and of the clients of each module: the printed figures of Titan, and
//! rules for every plan.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use fgr::evaluate::{Unit, compact_jobs, single_failures};
use fgr::metrics::{leaf_crossing, nearest_module, random_losses, regions, successors};
use fgr::{Machine, Metric, Options, Plan, Policy, assign};

use common::{mini, titan_machine};

fn strict(machine: &Machine) -> Plan {
    assign(machine, Policy::STRICT, &Options::default()).unwrap()
}

#[test]
fn the_nearest_module_of_titan_is_as_far_as_printed() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let nearest = nearest_module(&machine, Metric::Hops);
    assert_eq!(format!("{:.3}", nearest.distance.mean), "3.035");
    assert_eq!((nearest.distance.min, nearest.distance.max), (1.0, 6.0));
    assert!(nearest.bound.mean < nearest.distance.mean);
    assert!(nearest.bound.max < nearest.distance.max);
}

#[test]
fn regions_hold_every_module_once() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let regions = regions(&machine);
    assert_eq!(regions.len(), 12);
    assert_eq!(
        regions.iter().map(|region| region.modules).sum::<u32>(),
        108
    );
    assert_eq!(regions[0].name, "x 0-8, y 0-3");
}

#[test]
fn routers_on_their_servers_leaf_cross_nothing_and_flat_routing_35_of_36() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let crossing = leaf_crossing(&machine, &strict(&machine));
    assert_eq!(crossing.plan, 0.0);
    assert_eq!(format!("{:.3}", crossing.flat), "0.972");
}

#[test]
fn every_pair_of_a_dead_module_goes_to_a_living_one() {
    let machine = mini();
    let plan = strict(&machine);
    let found = successors(&machine, &plan);
    assert!(found.iter().all(|s| s.module.is_some_and(|m| m != s.dead)));
    let pairs: u64 = found.iter().map(|s| s.pairs).sum();
    assert_eq!(pairs, 2 * machine.clients.len() as u64);
}

#[test]
fn one_random_failure_is_no_worse_than_the_worst_single_one() {
    let machine = mini();
    let plan = strict(&machine);
    let worst = single_failures(&machine, &plan, Unit::Module)
        .iter()
        .map(|failure| failure.worst_load)
        .fold(0.0, f64::max);
    let losses = random_losses(&machine, &plan, Unit::Module, &[1], 50, 7);
    assert!(losses[0].worst_load_max <= worst);
    assert_eq!(losses[0].with_losses, 0);
}

#[test]
fn expected_dead_sub_groups_of_titan_are_as_printed() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let plan = strict(&machine);
    let expected = |unit, count| {
        let losses = random_losses(&machine, &plan, unit, &[count], 1, 1);
        format!("{:.1e}", losses[0].expected_dead)
    };
    assert_eq!(expected(Unit::Module, 3), "1.8e-4");
    assert_eq!(expected(Unit::Module, 10), "2.1e-2");
    assert_eq!(expected(Unit::Node, 20), "1.2e-2");
}

#[test]
fn a_job_under_flat_routing_finds_every_router() {
    let machine = mini();
    let flat = assign(&machine, Policy::Flat, &Options::default()).unwrap();
    let jobs = compact_jobs(&machine, &flat, 10, 7);
    assert_eq!((jobs.mean, jobs.worst, jobs.routers), (1.0, 1.0, 6.0));
}
