//! Stacks over RDMA: the core and the real o2ib LND on a virtual fabric, with routers to tcp networks, under faults.

#![expect(
    clippy::panic,
    reason = "clippy knows only functions with #[test] as tests"
)]

use lnet_sim::stacks::{Defect, Options, World, draw_over_rdma};
use lnet_sim::{Failure, Invariant};

/// Worlds of an ordinary run, and with `FINERAIL_LONG=1`.
const SEEDS: u64 = 300;
const SEEDS_LONG: u64 = 20_000;

/// The most runs that the reduction of a failing plan takes.
const RUNS_MAX: u32 = 300;

fn seeds() -> u64 {
    match std::env::var_os("FINERAIL_LONG") {
        Some(_) => SEEDS_LONG,
        None => SEEDS,
    }
}

#[test]
fn no_seed_breaks_an_invariant() {
    for seed in 1..=seeds() {
        if let Some(failure) = Failure::of(&draw_over_rdma(seed), Options::default(), RUNS_MAX) {
            panic!("seed {seed}: {failure}");
        }
    }
}

#[test]
fn the_worlds_move_payload_and_resend() {
    let (mut delivered, mut resent, mut failed) = (0, 0, 0);
    for seed in 1..=50 {
        let summary = World::run(draw_over_rdma(seed), Options::default()).summary;
        delivered += summary.delivered_bytes;
        resent += summary.resent;
        failed += summary.failed;
    }
    println!("{delivered} bytes delivered, {resent} messages resent, {failed} operations failed");
    assert!(delivered > 1 << 20 && resent > 0 && failed > 0);
}

/// Returns the first failure that a planted defect causes.
fn found(defect: Defect) -> Failure {
    let options = Options {
        defect: Some(defect),
        ..Options::default()
    };
    for seed in 1..=SEEDS {
        if let Some(failure) = Failure::of(&draw_over_rdma(seed), options, RUNS_MAX) {
            println!("{defect:?}: seed {seed}: {}", failure.violation);
            return failure;
        }
    }
    panic!("{defect:?} was not noticed in {SEEDS} seeds");
}

#[test]
fn a_credit_that_is_given_back_twice_is_found() {
    let failure = found(Defect::CreditTwice);
    let fits = [Invariant::Device, Invariant::Leftover, Invariant::Success];
    assert!(fits.contains(&failure.violation.invariant), "{failure}");
}

// [IB-31]
#[test]
fn a_transfer_that_is_reported_before_the_device_has_stopped_is_found() {
    let failure = found(Defect::EarlyReport);
    assert_eq!(failure.violation.invariant, Invariant::Device, "{failure}");
}

#[test]
fn a_key_of_another_transfer_is_found() {
    let failure = found(Defect::FirstKey);
    assert_eq!(failure.violation.invariant, Invariant::Device, "{failure}");
}

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    let options = Options {
        trace: true,
        ..Options::default()
    };
    let run = |seed| World::run(draw_over_rdma(seed), options).trace;
    for seed in 1..=20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
