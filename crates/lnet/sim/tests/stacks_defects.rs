//! Tests that the checkers can fail: each injected defect is found within a limited number of seeds, and its
//! reduced schedule is small. Without a defect the same seeds pass.

#![expect(
    clippy::panic,
    reason = "clippy knows only functions with #[test] as tests"
)]

use lnet_sim::stacks::{Defect, Options, World, draw};
use lnet_sim::{Failure, Invariant};

/// The limit on the seeds. It is far higher than any defect needs.
const SEEDS_MAX: u64 = 1000;
const RUNS_MAX: u32 = 300;

fn found(defect: Defect) -> Failure {
    let options = Options {
        defect: Some(defect),
        ..Options::default()
    };
    for seed in 1..=SEEDS_MAX {
        if let Some(failure) = Failure::of(&draw(seed), options, RUNS_MAX) {
            println!(
                "{defect:?}: seed {seed}: {}; {} of {} parts",
                failure.violation, failure.parts, failure.parts_before
            );
            return failure;
        }
    }
    panic!("{defect:?} was not noticed in {SEEDS_MAX} seeds");
}

#[test]
fn a_node_whose_turns_have_no_end_is_found() {
    let failure = found(Defect::UnboundTurns);
    assert_eq!(failure.violation.invariant, Invariant::Turn);
    assert!(failure.parts <= 3, "{failure}");
}

#[test]
fn a_node_that_believes_anybody_is_found() {
    let failure = found(Defect::BelieveAnybody);
    assert_eq!(failure.violation.invariant, Invariant::Responder);
    assert!(failure.parts <= 3, "{failure}");
}

#[test]
fn a_node_that_loses_wake_ups_is_found() {
    let failure = found(Defect::LoseWakeups);
    assert!(
        [Invariant::Deadline, Invariant::Credits, Invariant::Success]
            .contains(&failure.violation.invariant),
        "{failure}"
    );
}

#[test]
fn a_node_that_drops_a_send_event_is_found() {
    let failure = found(Defect::DropSendEvent);
    assert!(
        [Invariant::OneSend, Invariant::Deadline].contains(&failure.violation.invariant),
        "{failure}"
    );
    assert!(failure.parts <= 4, "{failure}");
}

#[test]
fn a_byte_that_changes_is_found() {
    let failure = found(Defect::SpoilPayload);
    assert_eq!(failure.violation.invariant, Invariant::Payload);
    assert_eq!(failure.parts, 1, "{failure}");
}

#[test]
fn without_a_defect_the_same_seeds_pass() {
    for seed in 1..=40 {
        let outcome = World::run(draw(seed), Options::default());
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    let options = Options {
        trace: true,
        ..Options::default()
    };
    for seed in [3, 14, 15] {
        let (first, second) = (
            World::run(draw(seed), options),
            World::run(draw(seed), options),
        );
        assert_eq!(first.trace, second.trace);
        assert_eq!(first.summary, second.summary);
        assert!(first.trace.is_some_and(|trace| trace.len() > 200));
    }
}
