//! Draws plans of a mesh: eight nodes with two rails each, six of them on two nets and two on a third net, two
//! routers between the nets, and faults of links and programs. After the last fault the mesh must recover by
//! itself.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use lnet_core::{Globals, Route, RouterBuffers, Tunables};
use lnet_types::{Net, Nid};

use crate::random::Random;
use crate::stacks::plan::{Fault, Kind, Machine, Operation, Plan, Program, Trouble, nid};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;

const ROUTERS: u32 = 2;
/// The number of nodes on the nets 0 and 1. Their numbers follow those of the routers.
const NEAR: u32 = 6;
/// The number of nodes with two interfaces on net 2.
const FAR: u32 = 2;
const FAR_NET: u16 = 2;

/// The time within which operations and faults begin.
const BUSY_NS: u64 = 20 * SECOND;
const OPERATIONS: u64 = 80;

/// Draws the plan of a mesh with the faults of a seed.
#[must_use]
pub fn mesh(seed: u64) -> Plan {
    let mut random = Random::stream(seed, 5);
    let mut operations: Vec<Operation> = (0..OPERATIONS).map(|_| busy(&mut random)).collect();
    let faults: Vec<Fault> = (0..random.within(3, 9))
        .map(|_| fault(&mut random))
        .collect();
    let mut plan = Plan {
        seed,
        globals: globals(&mut random),
        tunables: Tunables::default(),
        machines: machines(),
        operations: Vec::new(),
        faults,
        sound_from: None,
    };
    let over = plan.faults.iter().map(|fault| fault.until).max();
    let sound_from = over.unwrap_or(0).max(BUSY_NS) + plan.patience();
    operations.extend(proofs(&mut random, sound_from));
    plan.operations = operations;
    plan.sound_from = Some(sound_from);
    plan
}

fn globals(random: &mut Random) -> Globals {
    Globals {
        transaction_timeout: Duration::from_secs(random.within(8, 16)),
        retry_count: random.within(1, 2) as u32,
        max_recovery_ping_interval: Duration::from_secs(8),
        recovery_limit: Duration::ZERO,
        router_ping_timeout: Duration::from_secs(5),
        alive_router_check_interval: Duration::from_secs(20),
        // A few pings restore full health.
        health_sensitivity: 250,
        gateway_sensitivity: 250,
        discovery: true,
        ..Globals::default()
    }
}

fn machines() -> Vec<Machine> {
    let routers = (0..ROUTERS).map(|number| Machine {
        nids: [0, 1, FAR_NET].map(|net| nid(number, net)).to_vec(),
        program: Program::Router(RouterBuffers {
            tiny: 64,
            small: 64,
            large: 8,
        }),
        routes: Vec::new(),
    });
    let near = (ROUTERS..ROUTERS + NEAR).map(|number| Machine {
        nids: vec![nid(number, 0), nid(number, 1)],
        program: Program::Node,
        routes: vec![route(FAR_NET, nid(0, 0)), route(FAR_NET, nid(1, 1))],
    });
    let far = (ROUTERS + NEAR..ROUTERS + NEAR + FAR).map(|number| Machine {
        nids: vec![nid(number, FAR_NET), second(number)],
        program: Program::Node,
        routes: [0, 1]
            .into_iter()
            .flat_map(|net| (0..ROUTERS).map(move |router| route(net, nid(router, FAR_NET))))
            .collect(),
    });
    routers.chain(near).chain(far).collect()
}

fn route(net: u16, gateway: Nid) -> Route {
    Route {
        net: Net::tcp(net),
        gateway,
        hops: None,
        priority: 0,
    }
}

/// Returns the NID of a machine's second interface on the third net.
fn second(machine: u32) -> Nid {
    let address = Ipv4Addr::new(10, FAR_NET as u8, 1, 1 + machine as u8);
    Nid::from_ip(Net::tcp(FAR_NET), IpAddr::V4(address))
}

fn ends() -> std::ops::Range<u32> {
    ROUTERS..ROUTERS + NEAR + FAR
}

/// Draws an operation between two nodes.
fn busy(random: &mut Random) -> Operation {
    let count = u64::from(NEAR + FAR);
    let from = random.below(count);
    let to = (from + random.within(1, count - 1)) % count;
    let kinds = [Kind::PutAck, Kind::Get];
    let length = match random.below(12) {
        0 => random.within(65_537, 256 << 10),
        1..=4 => random.within(4_097, 65_536),
        _ => random.within(1, 4_096),
    };
    Operation {
        at: random.below(BUSY_NS),
        from: ROUTERS + from as u32,
        to: ROUTERS + to as u32,
        kind: random.of(&kinds).copied().unwrap_or(Kind::Get),
        length: length as u32,
        count: 1,
    }
}

/// Returns operations from each node to each other node.
fn proofs(random: &mut Random, at: u64) -> Vec<Operation> {
    let pairs = ends().flat_map(|from| ends().map(move |to| (from, to)));
    let others = pairs.filter(|(from, to)| from != to);
    others
        .map(|(from, to)| Operation {
            at: at + random.below(SECOND),
            from,
            to,
            kind: if random.one_in(2) {
                Kind::Get
            } else {
                Kind::PutAck
            },
            length: random.within(1, 16 << 10) as u32,
            count: 1,
        })
        .collect()
}

fn fault(random: &mut Random) -> Fault {
    let machine = random.below(u64::from(ROUTERS + NEAR + FAR)) as u32;
    let at = random.below(BUSY_NS);
    let span = match random.below(3) {
        0 => random.below(500 * MILLISECOND),
        1 => random.below(5 * SECOND),
        _ => random.below(20 * SECOND),
    };
    let link = match machine {
        0 | 1 => random.below(3) as u16,
        2..=7 => random.below(2) as u16,
        _ => FAR_NET,
    };
    let what = match random.below(8) {
        0 | 1 => Trouble::CutLink(link),
        2 => Trouble::Cut,
        3 | 4 => Trouble::Kill,
        5 => Trouble::Standstill,
        6 => Trouble::PowerOff,
        _ => Trouble::Reset(2),
    };
    Fault {
        at,
        until: at + span,
        machine,
        what,
    }
}
