//! One job: its routers, its bandwidth, and faster alternatives.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use fgr::evaluate::{Evaluation, Gateways, job_efficiency};
use fgr::job::{Job, Limit};
use fgr::links::LinkNames;
use fgr::{Machine, Options, Plan, Policy, assign};

use common::{mini, titan_machine};

fn job<'a>(
    machine: &'a Machine,
    plan: &'a Plan,
    clients: &'a [usize],
    nets: &'a [usize],
) -> Job<'a> {
    Job {
        machine,
        plan,
        clients,
        nets,
        router_rate: None,
        client_rate: 1e9,
    }
}

#[test]
fn a_job_of_all_clients_has_the_figures_of_the_machine() {
    let machine = mini();
    let plan = assign(&machine, Policy::STRICT, &Options::default()).unwrap();
    let all: Vec<usize> = (0..192).collect();
    let mut found = job(&machine, &plan, &all, &[0, 1]);
    found.router_rate = Some(1e9);
    let report = found.report().unwrap();
    let figures = Evaluation::new(&machine, &plan, Gateways::Primary);
    assert_eq!(
        (report.write.limit, report.read.limit),
        (Limit::Link, Limit::Link)
    );
    assert!((report.write.rate - figures.write.ceiling).abs() < 1e-9);
    assert!((report.read.rate - figures.read.ceiling).abs() < 1e-9);
    assert_eq!(report.write.hottest[0].0, figures.write.hottest.unwrap());
    let clients: f64 = report.routers.iter().map(|used| used.clients).sum();
    assert!((clients - 384.0).abs() < 1e-9);
}

#[test]
fn a_job_behind_one_router_has_its_rate_and_gets_better_nodes() {
    let machine = mini();
    let plan = assign(&machine, Policy::STRICT, &Options::default()).unwrap();
    let report = job(&machine, &plan, &[0, 1, 2, 3], &[0]).report().unwrap();
    assert_eq!(report.routers.len(), 1);
    // Four clients use one of six routers.
    assert!((report.efficiency - 1.0 / 6.0).abs() < 1e-9);
    let better = report.better_nodes.unwrap();
    assert_eq!(better.instead.len(), 4);
    assert!(better.rate > report.write.rate);
    let again = job(&machine, &plan, &better.instead, &[0])
        .report()
        .unwrap();
    assert!((again.write.rate - better.rate).abs() < 1e-9);
}

#[test]
fn without_clients_or_nets_of_data_there_is_no_job() {
    let machine = mini();
    let plan = assign(&machine, Policy::STRICT, &Options::default()).unwrap();
    assert!(job(&machine, &plan, &[], &[0]).report().is_none());
    assert!(job(&machine, &plan, &[0], &[7]).report().is_none());
}

#[test]
fn a_compact_job_on_titan_gets_nets_or_nodes_that_double_its_rate() {
    let Some(machine) = titan_machine() else {
        return;
    };
    let plan = assign(&machine, Policy::STRICT, &Options::default()).unwrap();
    let clients: Vec<usize> = (0..1_008).collect();
    let nets: Vec<usize> = (0..36).collect();
    let report = job(&machine, &plan, &clients, &nets).report().unwrap();
    let efficiency = job_efficiency(&machine, &plan, &clients).worst;
    assert!((report.efficiency - efficiency).abs() < 1e-9);
    let better = report.better_nodes.unwrap();
    assert!(
        better.rate > 1.9 * report.write.rate,
        "{} and {}",
        better.rate,
        report.write.rate
    );
    let name = LinkNames::new(&machine).name(report.write.hottest[0].0);
    assert!(
        name.starts_with('c') && name.contains("+ → c") || name.contains("- → c"),
        "{name}"
    );
}
