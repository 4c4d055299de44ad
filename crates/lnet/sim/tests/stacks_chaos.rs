//! Connections under faults: whatever strikes the handshakes, both ends finally have the connections that sections
//! 2.5 to 2.8 of the wire protocol prescribe, and no acknowledged message is lost or delivered twice.

use std::collections::BTreeSet;

use lnet_sim::stacks::{Defect, Options, Trouble, World, chaos};
use lnet_sim::{Failure, Invariant};

/// The number of rounds in an ordinary run, and with `FINERAIL_LONG=1`. An ordinary run covers each byte of a
/// handshake.
const ROUNDS: u64 = 400;
const ROUNDS_LONG: u64 = 10_000;

const SHRINK_RUNS_MAX: u32 = 200;

fn rounds() -> u64 {
    let is_long = std::env::var_os("FINERAIL_LONG").is_some_and(|value| value == "1");
    if is_long { ROUNDS_LONG } else { ROUNDS }
}

#[test]
fn connections_end_as_prescribed_and_nothing_acknowledged_is_lost_or_doubled() {
    let mut bytes = BTreeSet::new();
    for seed in 0..rounds() {
        let plan = chaos(seed);
        for fault in &plan.faults {
            if let Trouble::ResetAt(end, byte) = fault.what {
                bytes.insert(format!("{end:?} {byte}"));
            }
        }
        if let Some(failure) = Failure::of(&plan, Options::default(), SHRINK_RUNS_MAX) {
            panic!("{failure}");
        }
    }
    assert_eq!(bytes.len(), 73 + 57, "{bytes:?}");
}

#[test]
fn the_rounds_have_races_and_falls_in_handshakes() {
    let (mut races, mut falls) = (0, 0);
    for seed in 0..40 {
        let options = Options {
            trace: true,
            ..Options::default()
        };
        let trace = World::run(chaos(seed), options).trace.unwrap_or_default();
        races += u32::from(!trace.contains("after 0 races"));
        falls += u32::from(trace.contains("in a handshake: "));
    }
    assert!(races >= 10 && falls >= 5, "{races} races, {falls} falls");
}

#[test]
fn a_node_that_ignores_the_rule_of_races_is_found() {
    let options = Options {
        defect: Some(Defect::IgnoreRaces),
        ..Options::default()
    };
    let mut found = (0..20).filter_map(|seed| World::run(chaos(seed), options).violation);
    assert_eq!(
        found.next().map(|violation| violation.invariant),
        Some(Invariant::Connections)
    );
}
