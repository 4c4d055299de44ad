//! Runs each built-in scenario at a fixed seed. If a snapshot changes, selection, health or the simulator itself
//! behaves differently.

#![expect(
    clippy::unwrap_used,
    reason = "clippy knows only functions with #[test] as tests"
)]

use std::rc::Rc;

use lnet_sim::cores::{BUILTIN, Options, Scenario, Sim};
use lnet_sim::{Rail, Summary};

const SEED: u64 = 1;

fn run(name: &str) -> Summary {
    let plan = Scenario::builtin(name).unwrap().plan(SEED);
    let outcome = Sim::run(Rc::new(plan), Options::default());
    assert_eq!(outcome.violation, None, "{name}");
    outcome.summary
}

fn share(summary: &Summary, rail: &str) -> f64 {
    let of = |wanted: &dyn Fn(&&Rail) -> bool| -> u64 {
        summary
            .rails
            .iter()
            .filter(wanted)
            .map(|rail| rail.bytes)
            .sum()
    };
    of(&|known| known.name == rail) as f64 / of(&|_| true) as f64
}

#[test]
fn every_scenario_ends_as_it_did() {
    for builtin in BUILTIN {
        insta::assert_debug_snapshot!(builtin.name, run(builtin.name));
    }
}

#[test]
fn without_a_rule_half_of_a_dragonflys_traffic_takes_the_longer_way_and_with_it_none() {
    let (without, with) = (run("dragonfly"), run("dragonfly-optimised"));
    let other = share(&without, "other");
    assert!((0.49..0.51).contains(&other), "{other}");
    assert!(share(&with, "other") < 1e-6);
}

#[test]
fn rules_keep_traffic_off_the_routers() {
    assert!(share(&run("opa-mlx"), "router") < 0.001);
}

#[test]
fn a_failing_rail_costs_resends_and_heals() {
    let summary = run("failing-rail");
    assert!(summary.resent > 0);
    assert!(summary.failed < summary.operations / 20);
    assert!(share(&summary, "second") < share(&summary, "first"));
}

#[test]
fn a_flapping_router_does_not_stop_the_traffic() {
    let summary = run("flapping-router");
    assert!(summary.failed < summary.operations / 5);
}
