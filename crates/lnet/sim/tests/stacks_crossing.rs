//! Both ends dial at almost the same time, one of them with the habits of a kernel node: whatever the time between the
//! two, and whatever types cross, no message is lost, and the connections end as prescribed.

use std::time::Duration;

use lnet_core::{Globals, Tunables};
use lnet_sim::Failure;
use lnet_sim::stacks::{Defect, Kind, Machine, Operation, Options, Plan, Program, World, nid};

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;

/// The time at which both machines have started.
const BEGIN_NS: u64 = 20 * MILLISECOND;

/// The time that both ends need for all their connections, on the slowest lines.
const SETUP_NS: u64 = 6 * MILLISECOND;

/// The steps of the time between the two dials, while connections are made and afterwards.
const FINE_NS: u64 = 60 * MICROSECOND;
const COARSE_NS: u64 = 50 * MILLISECOND;

/// Messages of every kind and of both sizes, so that each type of connection carries some.
fn traffic(from: u32, begin: u64) -> impl Iterator<Item = Operation> {
    let kinds = [
        (Kind::PutAck, 100),
        (Kind::PutAck, 60_000),
        (Kind::Get, 60_000),
        (Kind::Put, 60_000),
    ];
    let times = (0..5).map(move |turn| begin + turn * turn * 30 * MILLISECOND);
    times.flat_map(move |at| {
        kinds.map(|(kind, length)| Operation {
            at,
            from,
            to: 1 - from,
            kind,
            length,
            count: 1,
        })
    })
}

/// One machine begins, and the other one after this time.
fn plan(first: u32, after: u64) -> Plan {
    let begins = [(first, BEGIN_NS), (1 - first, BEGIN_NS + after)];
    Plan {
        seed: after,
        globals: Globals {
            transaction_timeout: Duration::from_secs(10),
            retry_count: 0,
            ..Globals::default()
        },
        tunables: Tunables::default(),
        machines: (0..2)
            .map(|number| Machine {
                nids: vec![nid(number, 0)],
                program: Program::Node,
                routes: Vec::new(),
            })
            .collect(),
        operations: begins
            .into_iter()
            .flat_map(|(machine, begin)| traffic(machine, begin))
            .collect(),
        faults: Vec::new(),
        sound_from: Some(0),
    }
}

fn offsets() -> impl Iterator<Item = u64> {
    let fine = (0..SETUP_NS / FINE_NS).map(|step| step * FINE_NS);
    let coarse = (0..(SECOND - SETUP_NS) / COARSE_NS).map(|step| SETUP_NS + step * COARSE_NS);
    fine.chain(coarse)
}

fn options(defect: Defect) -> Options {
    Options {
        defect: Some(defect),
        ..Options::default()
    }
}

#[test]
fn dials_that_cross_at_any_time_lose_nothing() {
    for (first, after) in offsets().flat_map(|after| [(0, after), (1, after)]) {
        if let Some(failure) = Failure::of(&plan(first, after), options(Defect::Kernel), 100) {
            panic!("machine {first} is {after} ns earlier: {failure}");
        }
    }
}

#[test]
fn a_node_that_takes_the_end_of_a_crossed_connection_for_the_end_of_its_peer_is_found() {
    let mut runs = offsets().flat_map(|after| [(0, after), (1, after)]);
    let found = runs.find_map(|(first, after)| {
        World::run(plan(first, after), options(Defect::TakeCrossed)).violation
    });
    assert!(found.is_some());
}
