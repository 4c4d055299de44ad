//! Draws a world, its traffic and its faults from one seed.
//!
//! Each seed gives another small system: clients and servers with a few rails between them, or routers between two
//! nets, in either profile. Credits and buffers are few, so that queues fill. Every fault begins and ends while
//! there is traffic; afterwards everything must recover.

mod rules;

use std::time::Duration;

use lnet_core::{
    DropRule, FaultFilter, FaultTypes, Globals, MessageStatus, NidFilter, Pace, Route,
    RouterBuffers, Tunables, UsedPaths,
};
use lnet_policy::{Profile, RuleList};
use lnet_types::{LndType, Net, Nid};
use serde::Deserialize;

use crate::cores::lnd::{CompletionError, LndKind};
use crate::cores::plan::{
    Fault, NiSpec, NodeSpec, Operation, OperationKind, Plan, PortId, Speed, SwitchLink, Trouble,
    World,
};
use crate::random::Random;

/// The limits of a drawn world.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The limit on the clients, at least 1.
    pub clients: u32,
    /// The limit on the servers, at least 1.
    pub servers: u32,
    /// The limit on the routers. Half of the worlds have routers; with 0 no world has any.
    pub routers: u32,
    /// The limit on the NIs of a node on each net; in a world without routers, the limit on the nets.
    pub rails: u32,
    /// The limit on the operations.
    pub operations: u32,
    /// The limit on the faults.
    pub faults: u32,
    /// The seconds within which everything happens.
    pub seconds: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 4,
            servers: 4,
            routers: 3,
            rails: 3,
            operations: 400,
            faults: 24,
            seconds: 10,
        }
    }
}

impl Limits {
    /// Reduces the limits of a file to what can be drawn, because the system of one seed is small.
    fn clamped(&self) -> Self {
        Self {
            clients: self.clients.min(64),
            servers: self.servers.min(64),
            routers: self.routers.min(64),
            rails: self.rails.min(8),
            operations: self.operations.min(1_000_000),
            faults: self.faults.min(10_000),
            seconds: self.seconds.min(86_400),
        }
    }
}

/// Draws the plan of a seed. Limits above 64 nodes of a kind, 8 rails, a million operations, 10,000 faults and a
/// day are reduced to these values.
#[must_use]
pub fn draw(limits: &Limits, seed: u64) -> Plan {
    let limits = &limits.clamped();
    let mut random = Random::stream(seed, 4);
    let mut world = world(limits, &mut random);
    // The rules have a random stream of their own, so the rest of a seed's world is the same with and without
    // rules.
    rules::add(&mut world, &mut Random::stream(seed, 6));
    let ends = ends(&world);
    let operations = operations(limits, &ends, &mut random);
    let faults = faults(limits, &world, &mut random);
    Plan {
        seed,
        world,
        operations,
        faults,
    }
}

fn globals(random: &mut Random) -> Globals {
    let design = random.below(4) > 0;
    let seconds = |number| Duration::from_secs(number);
    Globals {
        transaction_timeout: seconds(random.within(6, 20)),
        retry_count: random.within(0, 4) as u32,
        profile: if design {
            Profile::Design
        } else {
            Profile::Lustre
        },
        used_paths: *random
            .of(&[UsedPaths::Pair, UsedPaths::Literal])
            .unwrap_or(&UsedPaths::Pair),
        health_sensitivity: *random.of(&[100, 250, 1000]).unwrap_or(&100),
        max_recovery_ping_interval: seconds(random.within(1, 4)),
        alive_router_check_interval: seconds(random.within(2, 5)),
        router_ping_timeout: seconds(2),
        check_routers_before_use: random.one_in(4),
        ..Globals::default()
    }
}

/// A net with its own switches.
#[derive(Clone, Copy)]
struct DrawnNet {
    net: Net,
    lnd: LndKind,
    switches: [u32; 2],
}

fn world(limits: &Limits, random: &mut Random) -> World {
    let routed = limits.routers > 0 && random.one_in(2);
    let nets = if routed {
        2
    } else {
        random.within(1, limits.rails.max(1).into())
    };
    let mut world = World {
        globals: globals(random),
        ..World::default()
    };
    let nets: Vec<DrawnNet> = (0..nets)
        .map(|number| net(number as u16, &mut world, random))
        .collect();
    let count = |most: u32, random: &mut Random| random.within(1, most.max(1).into()) as u32;
    let (clients, servers) = (count(limits.clients, random), count(limits.servers, random));
    let routers = if routed {
        count(limits.routers, random)
    } else {
        0
    };
    let (near, far) = match nets[..] {
        [near, far] if routed => (vec![near], vec![far]),
        _ => (nets.clone(), nets.clone()),
    };
    for (name, nodes, on) in [
        ("client", clients, &near),
        ("server", servers, &far),
        ("router", routers, &nets),
    ] {
        for number in 0..nodes {
            node(
                &mut world,
                format!("{name}{number}"),
                on,
                limits.rails,
                random,
            );
        }
    }
    if routed {
        join(&mut world, &nets);
    }
    world
}

fn net(number: u16, world: &mut World, random: &mut Random) -> DrawnNet {
    let lnd = if random.one_in(3) {
        LndKind::Sock
    } else {
        LndKind::O2ib
    };
    let net = match lnd {
        LndKind::Sock => Net::tcp(number),
        LndKind::O2ib => Net::new(LndType::O2IB, number),
    };
    let first = world.switches;
    world.switches += 2;
    world.links.push(SwitchLink {
        a: first,
        b: first + 1,
        speed: speed(random),
    });
    world.link_names.push(format!("spine of {net}"));
    world.rails.push(net.to_string());
    DrawnNet {
        net,
        lnd,
        switches: [first, first + 1],
    }
}

fn speed(random: &mut Random) -> Speed {
    Speed {
        latency_ns: random.within(200, 5000),
        picoseconds_per_byte: random.within(80, 2000),
    }
}

fn node(world: &mut World, name: String, on: &[DrawnNet], rails: u32, random: &mut Random) {
    let address = (world.nodes.len() as u32 + 1) << 8;
    let each = random.within(1, rails.max(1).into()) as u32;
    let routing = name.starts_with("router");
    let mut nis = Vec::new();
    for drawn in on {
        for rail in 0..each {
            let ni = nis.len() as u32;
            nis.push(NiSpec {
                nid: Nid::from_number(drawn.net, 0x0A00_0000 | address | ni),
                tunables: tunables(random),
                lnd: drawn.lnd,
                switch: drawn.switches[rail as usize % 2],
                speed: speed(random),
                rail: world
                    .rails
                    .iter()
                    .position(|r| *r == drawn.net.to_string())
                    .unwrap_or(0) as u16,
            });
        }
    }
    let few = |random: &mut Random| random.within(1, 6) as u32;
    world.nodes.push(NodeSpec {
        name,
        nis,
        routing,
        buffers: RouterBuffers {
            tiny: few(random),
            small: few(random),
            large: few(random),
        },
        discovery: true,
        drop_asym_route: false,
        routes: Vec::new(),
        rules: RuleList::new(),
    });
}

fn tunables(random: &mut Random) -> Tunables {
    Tunables {
        credits: random.within(4, 64) as u32,
        peer_credits: random.within(1, 8) as u32,
        peer_timeout: Duration::from_secs(random.within(0, 10)),
        ..Tunables::default()
    }
}

/// Gives every node without routing a route to the other net through every router.
fn join(world: &mut World, nets: &[DrawnNet]) {
    let of_routers = |net: Net| -> Vec<Nid> {
        let routers = world.nodes.iter().filter(|node| node.routing);
        routers
            .filter_map(|node| {
                node.nis
                    .iter()
                    .map(|ni| ni.nid)
                    .find(|nid| nid.net() == net)
            })
            .collect()
    };
    let gateways: Vec<(Net, Vec<Nid>)> = nets
        .iter()
        .map(|drawn| (drawn.net, of_routers(drawn.net)))
        .collect();
    for node in world.nodes.iter_mut().filter(|node| !node.routing) {
        let Some(own) = node.nis.first().map(|ni| ni.nid.net()) else {
            continue;
        };
        for (_, of_net) in gateways.iter().filter(|(net, _)| *net == own) {
            let remote = gateways
                .iter()
                .map(|(net, _)| *net)
                .filter(|net| *net != own);
            node.routes = remote
                .flat_map(|net| {
                    of_net.iter().map(move |&gateway| Route {
                        net,
                        gateway,
                        hops: None,
                        priority: 0,
                    })
                })
                .collect();
        }
    }
}

/// Returns the nodes that run programs: the clients, and the servers.
fn ends(world: &World) -> [Vec<u32>; 2] {
    let named = |prefix: &str| -> Vec<u32> {
        let nodes = world.nodes.iter().enumerate();
        nodes
            .filter(|(_, node)| node.name.starts_with(prefix))
            .map(|(number, _)| number as u32)
            .collect()
    };
    [named("client"), named("server")]
}

fn operations(limits: &Limits, ends: &[Vec<u32>; 2], random: &mut Random) -> Vec<Operation> {
    let span = u64::from(limits.seconds) * SECOND;
    let count = random.within(u64::from(limits.operations) / 4, limits.operations.into());
    let mut operations: Vec<Operation> = (0..count)
        .filter_map(|_| {
            let upward = random.below(4) > 0;
            let [clients, servers] = ends;
            let (from, to) = if upward {
                (clients, servers)
            } else {
                (servers, clients)
            };
            Some(Operation {
                // The times are rounded, so that some operations begin at the same time.
                at: random.below(span) / (SECOND / 50) * (SECOND / 50),
                from: *random.of(from)?,
                to: *random.of(to)?,
                to_ni: 0,
                kind: *random.of(&KINDS)?,
                length: *random.of(&[0, 64, 4096, 65_536, 1 << 20])?,
                cancel_after: if random.one_in(20) {
                    1 + random.below(SECOND)
                } else {
                    0
                },
            })
        })
        .collect();
    operations.sort_by_key(|operation| operation.at);
    operations
}

const SECOND: u64 = 1_000_000_000;

const KINDS: [OperationKind; 3] = [
    OperationKind::Put,
    OperationKind::PutAck,
    OperationKind::Get,
];

fn faults(limits: &Limits, world: &World, random: &mut Random) -> Vec<Fault> {
    let lies = random.one_in(4);
    some_faults((limits.faults, limits.seconds), world, lies, random)
}

/// Draws faults for a world of a scenario: at most `count`, within `seconds`. No driver makes false reports.
pub(crate) fn faults_for(
    count: u32,
    seconds: u32,
    world: &World,
    random: &mut Random,
) -> Vec<Fault> {
    some_faults((count, seconds), world, false, random)
}

fn some_faults(
    (count, seconds): (u32, u32),
    world: &World,
    lies: bool,
    random: &mut Random,
) -> Vec<Fault> {
    let span = u64::from(seconds) * SECOND;
    let count = random.within(0, count.into());
    (0..count)
        .filter_map(|_| {
            let at = random.below(span);
            let length = random.within(1, 3000) * random.within(1, 3000) * 1000;
            let what = trouble(world, lies, random)?;
            Some(Fault {
                at,
                until: (at + length).min(span),
                what,
            })
        })
        .collect()
}

fn trouble(world: &World, lies: bool, random: &mut Random) -> Option<Trouble> {
    let node = random.below(world.nodes.len() as u64) as u32;
    let nis = world.nodes.get(node as usize)?.nis.len();
    let port = PortId {
        node,
        ni: random.below(nis as u64) as u16,
    };
    let link = random.below(world.links.len() as u64) as u32;
    let rate = random.within(2, 20) as u32;
    Some(match random.below(if lies { 14 } else { 13 }) {
        0 => Trouble::Link(link),
        1 => Trouble::Port(port),
        2 => Trouble::Device(port),
        3 => Trouble::Interrupt(port),
        4 => Trouble::Crash(node),
        5 => Trouble::Partition(vec![node]),
        6 => Trouble::SlowLink(link, 10 * rate),
        7 => Trouble::SlowPort(port, 10 * rate),
        8 => Trouble::Loss(port, types(random), rate),
        9 => Trouble::LostCompletions(port),
        10 => Trouble::Completion(port, *random.of(&CompletionError::ALL)?),
        11 => Trouble::Reject(node),
        12 => Trouble::Rule(node, Box::new(rule(random)?)),
        _ => Trouble::Lie(port, *random.of(&MessageStatus::ALL[1..])?),
    })
}

fn types(random: &mut Random) -> FaultTypes {
    FaultTypes::from_bits_truncate(random.below(16) as u32)
}

fn rule(random: &mut Random) -> Option<DropRule> {
    let on_send = random.one_in(2);
    let classes = if on_send {
        vec![*random.of(&MessageStatus::ALL[1..])?]
    } else {
        Vec::new()
    };
    Some(DropRule {
        filter: FaultFilter {
            source: NidFilter::Any,
            types: types(random),
            ..FaultFilter::default()
        },
        pace: Pace::Rate(random.within(1, 6) as u32),
        classes,
        all: false,
    })
}
