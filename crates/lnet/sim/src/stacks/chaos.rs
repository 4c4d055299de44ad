//! Draws plans with faults during the setup of connections: resets at every byte of a handshake, dials from both
//! ends at once, peers that restart between request and answer, stale incarnations, half-open peers.

use std::time::Duration;

use lnet_core::{Globals, Tunables};

use crate::random::Random;
use crate::stacks::plan::{End, Fault, Kind, Machine, Operation, Plan, Program, Trouble, nid};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;

/// The time at which all machines have started and begin to send to each other.
const BEGIN_NS: u64 = 20 * MILLISECOND;

/// The bytes of the dialler's part of a handshake (a connection request and a HELLO of version 3), and of the
/// acceptor's part.
const DIALLER_BYTES: u64 = 16 + 56;
const ACCEPTOR_BYTES: u64 = 56;

/// The number of places for a reset: each byte of both parts, including the places before the first and after the
/// last byte.
const PLACES: u64 = DIALLER_BYTES + 1 + ACCEPTOR_BYTES + 1;

/// The time after the last fault at which messages are sent that may fail. They find the remains of old
/// connections. By then all earlier messages have timed out (16 s), and no pause between dials (8 s) lasts.
const PROBE_NS: u64 = 25 * SECOND;

/// The time after the last fault at which all messages must succeed. By then the problems that the probes and a
/// keepalive (30 s) found are repaired.
const PROOF_NS: u64 = 70 * SECOND;

/// Draws the plan of a round: two or three nodes on a net, with most faults within the handshakes. The place of a
/// reset follows from the number of the round, so a few hundred consecutive rounds cover every place.
#[must_use]
pub fn chaos(seed: u64) -> Plan {
    let mut random = Random::stream(seed, 3);
    let count = if random.one_in(4) { 3 } else { 2 };
    let mut faults = first_faults(&mut random, seed, count);
    if random.one_in(2) {
        faults.push(later_fault(&mut random, seed, count));
    }
    let over = faults.iter().map(|fault| fault.until).max();
    let over = over.unwrap_or(0).max(BEGIN_NS + 3 * SECOND);
    let sound_from = over + PROOF_NS;
    let mut operations = Vec::new();
    for (from, to) in pairs(count) {
        for _ in 0..random.within(1, 3) {
            operations.push(operation(&mut random, (from, to), BEGIN_NS));
        }
        for _ in 0..random.below(4) {
            let at = BEGIN_NS + random.below(3 * SECOND);
            operations.push(operation(&mut random, (from, to), at));
        }
        for at in [over + PROBE_NS, sound_from] {
            operations.push(Operation {
                kind: Kind::PutAck,
                ..operation(&mut random, (from, to), at)
            });
        }
    }
    Plan {
        seed,
        globals: globals(&mut random),
        tunables: Tunables::default(),
        machines: (0..count).map(machine).collect(),
        operations,
        faults,
        sound_from: Some(sound_from),
    }
}

fn pairs(count: u32) -> impl Iterator<Item = (u32, u32)> {
    let all = (0..count).flat_map(move |from| (0..count).map(move |to| (from, to)));
    all.filter(|(from, to)| from != to)
}

fn machine(number: u32) -> Machine {
    Machine {
        nids: vec![nid(number, 0)],
        program: Program::Node,
        routes: Vec::new(),
    }
}

/// Returns parameters without resends, so a message that is delivered twice is a defect.
fn globals(random: &mut Random) -> Globals {
    Globals {
        transaction_timeout: Duration::from_secs(random.within(7, 16)),
        retry_count: 0,
        max_recovery_ping_interval: Duration::from_secs(8),
        recovery_limit: Duration::from_secs(0),
        health_sensitivity: 250,
        gateway_sensitivity: 250,
        discovery: random.one_in(4),
        ..Globals::default()
    }
}

fn operation(random: &mut Random, (from, to): (u32, u32), at: u64) -> Operation {
    let kinds = [Kind::Put, Kind::PutAck, Kind::PutAck, Kind::Get];
    let length = match random.below(8) {
        0 => random.within(4_097, 65_536),
        1 => 0,
        _ => random.within(1, 4_096),
    };
    Operation {
        at: at + random.below(2 * MILLISECOND),
        from,
        to,
        kind: random.of(&kinds).copied().unwrap_or(Kind::PutAck),
        length: length as u32,
        count: 1,
    }
}

/// Draws the faults that strike the first handshakes. One round in eight has none: in it, dials from both ends
/// cross.
fn first_faults(random: &mut Random, seed: u64, count: u32) -> Vec<Fault> {
    let mut fault = |what, at, span| Fault {
        at,
        until: at + span,
        machine: random.below(count.into()) as u32,
        what,
    };
    let mut times = Random::stream(seed, 4);
    let short = times.below(3 * MILLISECOND);
    let long = times.below(6 * SECOND);
    let span = if times.one_in(2) { short } else { long };
    let strikes = BEGIN_NS + times.below(5 * MILLISECOND);
    let end = if times.one_in(2) {
        End::Dialler
    } else {
        End::Acceptor
    };
    match seed % 8 {
        0 => Vec::new(),
        1..=3 => vec![fault(reset_at(seed), 0, BEGIN_NS + span)],
        4 => vec![fault(Trouble::KillInHandshake(end), 0, BEGIN_NS + long)],
        5 => vec![fault(Trouble::PowerOffInHandshake(end), 0, BEGIN_NS + long)],
        6 => vec![fault(Trouble::Kill, strikes, span)],
        _ => vec![fault(Trouble::PowerOff, strikes, span)],
    }
}

fn reset_at(seed: u64) -> Trouble {
    let place = (seed / 8 * 3 + seed % 8 - 1) % PLACES;
    match place.checked_sub(DIALLER_BYTES + 1) {
        None => Trouble::ResetAt(End::Dialler, place as u32),
        Some(place) => Trouble::ResetAt(End::Acceptor, place as u32),
    }
}

/// Draws a fault that may strike established connections.
fn later_fault(random: &mut Random, seed: u64, count: u32) -> Fault {
    let at = BEGIN_NS + random.below(3 * SECOND);
    let span = match random.below(3) {
        0 => random.below(5 * MILLISECOND),
        1 => random.below(500 * MILLISECOND),
        _ => random.below(12 * SECOND),
    };
    let what = match random.below(8) {
        0 => Trouble::Reset(random.within(1, 3) as u32),
        1 => Trouble::Cut,
        2 => Trouble::Reject,
        3 => Trouble::Standstill,
        4 => Trouble::Kill,
        5 => reset_at(seed | 1),
        _ => Trouble::PowerOff,
    };
    Fault {
        at,
        until: at + span,
        machine: random.below(count.into()) as u32,
        what,
    }
}
