//! Tests that the checkers can fail: each injected defect is found within a limited number of seeds, and its
//! reduced schedule is small.

#![expect(
    clippy::panic,
    reason = "clippy knows only functions with #[test] as tests"
)]

use std::rc::Rc;

use lnet_sim::cores::{Defect, Limits, Options, Plan, Sim, draw};
use lnet_sim::{Invariant, Shrunk, shrink};

/// The limit on the seeds. It is far higher than any defect needs.
const SEEDS_MAX: u64 = 2000;
const RUNS_MAX: u32 = 3000;

fn parts(plan: &Plan) -> usize {
    plan.faults.len() + plan.operations.len()
}

/// Returns the first seed that shows the defect, its plan, and the reduced plan.
fn found(defect: Defect) -> (u64, Rc<Plan>, Shrunk<Rc<Plan>>) {
    let options = Options {
        defect: Some(defect),
        ..Options::default()
    };
    for seed in 1..=SEEDS_MAX {
        let plan = Rc::new(draw(&Limits::default(), seed));
        if let Some(shrunk) = shrink(&plan, options, RUNS_MAX) {
            return (seed, plan, shrunk);
        }
    }
    panic!("{defect:?} was not noticed in {SEEDS_MAX} seeds");
}

#[test]
fn a_core_that_forgets_used_paths_is_found_and_told_in_a_few_lines() {
    let (seed, plan, shrunk) = found(Defect::ForgetUsedPaths);
    println!(
        "seed {seed}: {}; {} of {}",
        shrunk.violation,
        parts(&shrunk.plan),
        parts(&plan)
    );
    assert_eq!(shrunk.violation.invariant, Invariant::FreshPath);
    assert!(parts(&shrunk.plan) < parts(&plan) / 4);
}

#[test]
fn a_core_that_gives_recoveries_up_is_found_and_told_in_a_few_lines() {
    let (seed, plan, shrunk) = found(Defect::ForgetRecoveries);
    println!(
        "seed {seed}: {}; {} of {}",
        shrunk.violation,
        parts(&shrunk.plan),
        parts(&plan)
    );
    assert_eq!(shrunk.violation.invariant, Invariant::Health);
    assert!(parts(&shrunk.plan) < parts(&plan) / 4);
}

#[test]
fn a_node_that_drops_a_send_event_is_found_and_told_in_a_few_lines() {
    let (seed, plan, shrunk) = found(Defect::DropSendEvent);
    println!(
        "seed {seed}: {}; {} of {}",
        shrunk.violation,
        parts(&shrunk.plan),
        parts(&plan)
    );
    assert!([Invariant::OneSend, Invariant::Leftover].contains(&shrunk.violation.invariant));
    assert!(parts(&shrunk.plan) <= 4);
}

#[test]
fn a_core_that_reads_its_rules_in_another_order_is_found() {
    let (seed, plan, shrunk) = found(Defect::ReverseRules);
    println!(
        "seed {seed}: {}; {} of {}",
        shrunk.violation,
        parts(&shrunk.plan),
        parts(&plan)
    );
    assert_eq!(shrunk.violation.invariant, Invariant::BestPath);
    assert!(parts(&shrunk.plan) <= 4);
}

/// Seeds with which a checker was wrong earlier: it did not know that a node stops using a gateway through which no
/// responses arrive; it took the path of a message that had waited for the credit of an interface that went down for a
/// first choice; and it always examined nodes while a check of a gateway was in flight.
const FALSE_ALARMS: [u64; 3] = [102, 164, 27_640];

/// Seeds that once found a defect: a node whose only interface had failed no longer knew which gateways were silent.
const MENDED: [u64; 1] = [5035];

#[test]
fn without_a_defect_the_same_seeds_pass() {
    for seed in (1..=30).chain(FALSE_ALARMS).chain(MENDED) {
        let plan = Rc::new(draw(&Limits::default(), seed));
        assert_eq!(
            Sim::run(plan, Options::default()).violation,
            None,
            "seed {seed}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    let run = |seed| {
        let plan = Rc::new(draw(&Limits::default(), seed));
        let options = Options {
            trace: true,
            ..Options::default()
        };
        Sim::run(plan, options)
    };
    for seed in [3, 14] {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first.trace, second.trace);
        assert_eq!(first.summary, second.summary);
        assert!(first.trace.is_some_and(|trace| trace.len() > 1000));
    }
    assert_ne!(run(3).trace, run(4).trace);
}
