//! Draws a plan from a seed.

use std::time::Duration;

use lnet_core::{Globals, Route, RouterBuffers, Tunables};
use lnet_types::{LndType, Net};

use crate::random::Random;
use crate::stacks::plan::{
    Fault, Kind, Machine, Operation, Plan, Program, Trouble, nid, over_rdma,
};

const MILLISECOND: u64 = 1_000_000;

/// The time within which all operations begin.
const BUSY_NS: u64 = 3_000 * MILLISECOND;

/// The number of messages in a storm: somewhat more than one turn of a node carries out.
const STORM: (u64, u64) = (1_200, 2_500);

/// Draws the plan of a seed: two to five machines on one net, or on two nets with routers between them. One run in
/// four is calm, and one in four has hostile machines. In one run of three, nodes discover their peers instead of
/// having them configured.
#[must_use]
pub fn draw(seed: u64) -> Plan {
    plan(seed, true)
}

/// Draws the plan of a seed as [`draw`] does, with o2ib networks in the place of one or both tcp networks, more payload
/// that moves by RDMA, and no hostile machines.
#[must_use]
pub fn draw_over_rdma(seed: u64) -> Plan {
    let mut plan = plan(seed, false);
    let mut random = Random::stream(seed, 6);
    let replaced = *random
        .of(&[[true, true], [true, false], [false, true]])
        .unwrap_or(&[true; 2]);
    let has = |number: u16| {
        let mut nids = plan.machines.iter().flat_map(|machine| &machine.nids);
        nids.any(|nid| nid.net() == Net::tcp(number))
    };
    // A single network is of the o2ib LND.
    let replaced = if has(1) { replaced } else { [true; 2] };
    let of_rdma = |net: Net| replaced.get(usize::from(net.number)) == Some(&true);
    for machine in &mut plan.machines {
        for nid in machine.nids.iter_mut().filter(|nid| of_rdma(nid.net())) {
            *nid = over_rdma(*nid);
        }
        for route in &mut machine.routes {
            if of_rdma(route.gateway.net()) {
                route.gateway = over_rdma(route.gateway);
            }
            if of_rdma(route.net) {
                route.net = Net::new(LndType::O2IB, route.net.number);
            }
        }
    }
    let strikes: Vec<u64> = plan.faults.iter().map(|fault| fault.at).collect();
    for operation in plan.operations.iter_mut().filter(|one| one.count == 1) {
        if random.one_in(2) {
            operation.length = random.within(3_900, 20_000) as u32;
        }
        // A transfer takes some 100 microseconds, and many are under way when a fault strikes.
        if let Some(&strike) = random.of(&strikes).filter(|_| random.one_in(2)) {
            operation.at = strike.saturating_sub(random.below(300_000));
        }
    }
    for fault in &mut plan.faults {
        fault.what = match fault.what {
            Trouble::Reject => Trouble::PortDown,
            Trouble::Slow(_) => Trouble::Pause,
            other => other,
        };
    }
    plan
}

fn plan(seed: u64, has_strangers: bool) -> Plan {
    let mut random = Random::stream(seed, 1);
    let mut machines = if random.one_in(3) {
        routed(&mut random)
    } else {
        flat(&mut random)
    };
    let ends = ends(&machines);
    let mood = random.below(4);
    let strangers = mood == 1 && has_strangers;
    if strangers {
        let on = machines.len() as u32;
        machines.push(stranger(on, Program::Thief));
        machines.push(stranger(on + 1, Program::Forger));
    }
    let mut operations = operations(&mut random, &ends);
    if strangers {
        operations_with_thief(&mut random, &machines, &mut operations);
    }
    let faults = match mood {
        0 => Vec::new(),
        _ => faults(&mut random, machines.len() as u64),
    };
    Plan {
        seed,
        globals: Globals {
            discovery: Random::stream(seed, 2).one_in(3),
            ..globals(&mut random)
        },
        tunables: tunables(&mut random),
        machines,
        operations,
        faults,
        sound_from: None,
    }
}

fn globals(random: &mut Random) -> Globals {
    Globals {
        transaction_timeout: Duration::from_secs(random.within(7, 16)),
        retry_count: random.below(3) as u32,
        max_recovery_ping_interval: Duration::from_secs(8),
        recovery_limit: Duration::from_secs(0),
        router_ping_timeout: Duration::from_secs(5),
        alive_router_check_interval: Duration::from_secs(20),
        // A few pings restore full health.
        health_sensitivity: 250,
        gateway_sensitivity: 250,
        ..Globals::default()
    }
}

fn tunables(random: &mut Random) -> Tunables {
    Tunables {
        peer_credits: random.of(&[1, 8, 64]).copied().unwrap_or(8),
        ..Tunables::default()
    }
}

/// Draws machines on one net, or with two interfaces each on two nets.
fn flat(random: &mut Random) -> Vec<Machine> {
    let count = random.within(2, 4) as u32;
    let rails = if random.one_in(4) { 2 } else { 1 };
    let machine = |number| Machine {
        nids: (0..rails).map(|net| nid(number, net)).collect(),
        program: Program::Node,
        routes: Vec::new(),
    };
    (0..count).map(machine).collect()
}

/// Draws machines on two nets, with one or two routers between the nets.
fn routed(random: &mut Random) -> Vec<Machine> {
    let routers = random.within(1, 2) as u32;
    let count = random.within(2, 3) as u32;
    let buffers = RouterBuffers {
        tiny: random.within(4, 16) as u32,
        small: random.within(2, 16) as u32,
        large: random.within(1, 4) as u32,
    };
    let router = |number| Machine {
        nids: vec![nid(number, 0), nid(number, 1)],
        program: Program::Router(buffers),
        routes: Vec::new(),
    };
    let leaf = |number: u32| {
        let own = (number % 2) as u16;
        let route = |gateway| Route {
            net: Net::tcp(1 - own),
            gateway: nid(gateway, own),
            hops: None,
            priority: 0,
        };
        Machine {
            nids: vec![nid(number, own)],
            program: Program::Node,
            routes: (0..routers).map(route).collect(),
        }
    };
    let leaves = (routers..routers + count).map(leaf);
    (0..routers).map(router).chain(leaves).collect()
}

fn stranger(number: u32, program: Program) -> Machine {
    Machine {
        nids: vec![nid(number, 0)],
        program,
        routes: Vec::new(),
    }
}

/// Returns the machines whose programs put and get.
fn ends(machines: &[Machine]) -> Vec<u32> {
    let numbered = (0..).zip(machines);
    numbered
        .filter(|(_, machine)| machine.program == Program::Node)
        .map(|(number, _)| number)
        .collect()
}

fn operations(random: &mut Random, ends: &[u32]) -> Vec<Operation> {
    let count = random.within(4, 40);
    let mut operations: Vec<Operation> = (0..count).map(|_| operation(random, ends)).collect();
    if random.one_in(8) {
        let mut storm = operation(random, ends);
        storm.kind = Kind::Put;
        storm.length = random.below(65) as u32;
        storm.count = random.within(STORM.0, STORM.1) as u32;
        operations.push(storm);
    }
    operations
}

fn operation(random: &mut Random, ends: &[u32]) -> Operation {
    let from = random.of(ends).copied().unwrap_or(0);
    let to = random.of(ends).copied().unwrap_or(0);
    Operation {
        at: random.below(BUSY_NS),
        from,
        to,
        kind: *random
            .of(&[Kind::Put, Kind::PutAck, Kind::PutAck, Kind::Get, Kind::Get])
            .unwrap_or(&Kind::Get),
        length: length(random),
        count: 1,
    }
}

/// Draws a length. Few lengths are large, because a copy of a megabyte costs as much as a thousand small messages.
fn length(random: &mut Random) -> u32 {
    let length = match random.below(64) {
        0 => random.within(65_537, 1 << 20),
        1..=6 => random.within(4_097, 65_536),
        7..=30 => random.within(129, 4_096),
        31..=40 => 0,
        _ => random.within(1, 128),
    };
    length as u32
}

/// Adds operations to the thief, from machines that can reach it.
fn operations_with_thief(
    random: &mut Random,
    machines: &[Machine],
    operations: &mut Vec<Operation>,
) {
    let thief = machines.len() as u32 - 2;
    let neighbours: Vec<u32> = ends(machines)
        .into_iter()
        .filter(|&number| {
            let machine = machines.get(number as usize);
            machine.is_some_and(|machine| machine.nids.contains(&nid(number, 0)))
        })
        .collect();
    for _ in 0..random.within(1, 4) {
        let mut robbed = operation(random, &neighbours);
        robbed.to = thief;
        robbed.length = robbed.length.min(4096);
        robbed.kind = *random.of(&[Kind::PutAck, Kind::Get]).unwrap_or(&Kind::Get);
        operations.push(robbed);
    }
}

fn faults(random: &mut Random, machines: u64) -> Vec<Fault> {
    let count = random.within(1, 5);
    (0..count).map(|_| fault(random, machines)).collect()
}

fn fault(random: &mut Random, machines: u64) -> Fault {
    let at = random.below(BUSY_NS);
    let span = match random.below(3) {
        0 => random.below(300 * MILLISECOND),
        1 => random.below(3_000 * MILLISECOND),
        _ => random.below(12_000 * MILLISECOND),
    };
    let what = match random.below(8) {
        0 | 1 => Trouble::Reset(random.within(1, 3) as u32),
        2 => Trouble::Cut,
        3 => Trouble::Reject,
        4 => Trouble::Standstill,
        5 => Trouble::Kill,
        6 => Trouble::PowerOff,
        _ => Trouble::Slow(random.within(2, 100) as u32),
    };
    Fault {
        at,
        until: at + span,
        machine: random.below(machines) as u32,
        what,
    }
}
