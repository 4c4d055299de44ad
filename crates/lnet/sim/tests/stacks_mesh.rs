//! A mesh of eight nodes with two rails, two routers and a third net recovers to full health after its last fault.

#![allow(
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use lnet_sim::Failure;
use lnet_sim::stacks::{Defect, Options, World, mesh};

/// The number of seeds in an ordinary run, and with `FINERAIL_LONG=1`.
const SEEDS: u64 = 20;
const SEEDS_LONG: u64 = 500;

const SHRINK_RUNS_MAX: u32 = 100;

/// Returns the seeds to run. `FINERAIL_SEEDS=FIRST-LAST` selects other seeds.
fn seeds() -> std::ops::RangeInclusive<u64> {
    if let Ok(given) = std::env::var("FINERAIL_SEEDS") {
        return range(&given).unwrap_or_else(|| panic!("FINERAIL_SEEDS={given}: not FIRST-LAST"));
    }
    let is_long = std::env::var_os("FINERAIL_LONG").is_some_and(|value| value == "1");
    1..=if is_long { SEEDS_LONG } else { SEEDS }
}

/// Parses `FIRST-LAST`; returns `None` if the text has another form.
fn range(text: &str) -> Option<std::ops::RangeInclusive<u64>> {
    let (first, last) = text.split_once('-')?;
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[test]
fn the_mesh_heals_to_full_health_after_the_last_fault() {
    let mut longest_ns = 0;
    for seed in seeds() {
        let outcome = World::run(mesh(seed), Options::default());
        if outcome.violation.is_some() {
            let failure = Failure::of(&mesh(seed), Options::default(), SHRINK_RUNS_MAX);
            panic!(
                "seed {seed}: {:?}\n{}",
                outcome.violation,
                failure.map_or(String::new(), |failure| failure.to_string())
            );
        }
        longest_ns = longest_ns.max(outcome.summary.worst_recovery_ns);
    }
    println!(
        "healed after {} s at the latest",
        longest_ns / 1_000_000_000
    );
}

#[test]
fn a_mesh_whose_nodes_lose_wake_ups_is_not_taken_for_healed() {
    let options = Options {
        defect: Some(Defect::LoseWakeups),
        ..Options::default()
    };
    let found = (1..=10).find_map(|seed| World::run(mesh(seed), options).violation);
    assert!(found.is_some());
}
