//! Stacks over RDMA: the core and the real o2ib LND on a virtual fabric, with routers to tcp networks, under faults.

#![expect(
    clippy::panic,
    reason = "clippy knows only functions with #[test] as tests"
)]

use lnet_sim::Failure;
use lnet_sim::stacks::{Options, World, draw_over_rdma};

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
    assert!(delivered > 1 << 20 && resent > 10 && failed > 0);
}
