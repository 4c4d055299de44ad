//! `fgr check` against the simulator: for drawn small sites, whole ones and broken ones, what the check says
//! of each pair, direction and single failure is what nodes do that run the very files.
//!
//! ```text
//!   seed ─▶ machine, policy, form, defect ─▶ site ─▶ check ─▶ findings ────────┐
//!                                             └ node files ─▶ cores ─▶ answers ┴▶ equal
//! ```
//!
//! Operations come when a failure must have been noticed by the time that the check states, so this holds that
//! time, too.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

use fgr::check::{Direction, Failure, FailureKind, Finding, When, check};
use fgr::config::{BackupPriority, Class, Form, NodeRole, Scheme, Server, Site, Slots, Timing};
use fgr::{Machine, Metric, Options as PlanOptions, Policy, Synthetic, assign, synthetic};
use lnet_core::{FaultTypes, Globals, Route, RouterBuffers, Tunables};
use lnet_sim::lnd::LndKind;
use lnet_sim::{
    Fault, NiSpec, NodeSpec, Operation, OperationKind, Options, Plan, PortId, Random, Sim, Speed,
    Trouble, World,
};
use lnet_types::{Net, Nid};

const TIMING: Timing = Timing {
    check_interval: 6,
    ping_timeout: 4,
};

/// A net that nobody pings counts as down after this.
const WINDOW: u64 = 10;

/// Seconds until every route is as it stays: quiet interfaces are noticed.
const SETTLED: u64 = WINDOW + 2 * 6 + 5;

/// Seconds until an operation has its answer or its timeout.
const ANSWERED: u64 = 12;

/// What is wrong with a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    /// Backups are used on their own slot nets.
    OwnSlots,
    /// The same, and nobody drops asymmetric messages.
    OwnSlotsKept,
    /// Servers have no routes by siblings.
    NoSiblings,
    /// The same, and nobody drops asymmetric messages.
    NoSiblingsKept,
    /// One server lacks one route.
    ServerRoute,
    /// One client lacks one backup.
    ClientRoute,
    /// The priorities of one server are those of others.
    Priorities,
    /// No route says how long it is.
    NoHops,
}

const DEFECTS: [Defect; 9] = [
    Defect::None,
    Defect::OwnSlots,
    Defect::OwnSlotsKept,
    Defect::NoSiblings,
    Defect::NoSiblingsKept,
    Defect::ServerRoute,
    Defect::ClientRoute,
    Defect::Priorities,
    Defect::NoHops,
];

/// A site as it was drawn.
struct Drawn {
    site: Site,
    defect: Defect,
    /// What was drawn.
    words: String,
}

fn machine(random: &mut Random) -> Machine {
    let dimension = |name: &str, size: u64| topology::Dimension {
        name: name.to_owned(),
        size: size as u16,
        wrap: true,
        cost: 1,
        capacity: vec![1.0],
    };
    let dimensions = vec![
        dimension("x", random.within(3, 4)),
        dimension("y", 4 * random.within(1, 2)),
        dimension("z", 2),
    ];
    let grid = topology::Grid::new(dimensions).unwrap();
    // Two nets at most, of one group or of two.
    let [groups, nets] = *random.of(&[[1, 1], [1, 2], [2, 1]]).unwrap();
    let size = Synthetic {
        groups,
        modules: random.within(2, 3) as u16,
        nets,
    };
    synthetic("drawn", grid, topology::Tie::Split, size).unwrap()
}

fn draw(seed: u64) -> Drawn {
    let mut random = Random::stream(seed, 77);
    let machine = machine(&mut random);
    let by = Metric::Cost;
    let policies = [
        Policy::STRICT,
        Policy::Nearest { by },
        Policy::Balanced { by },
        Policy::Flat,
    ];
    let policy = *random.of(&policies).unwrap();
    let form = match random.one_in(3) {
        true => Form::MultiRail,
        false => Form::SlotNets,
    };
    let backups = *random
        .of(&[BackupPriority::Ranked, BackupPriority::Equal])
        .unwrap();
    let scheme = Scheme {
        client_net: Net::tcp(100),
        client_interface: "hsn0".to_owned(),
        server_interface: "ib0".to_owned(),
        client_addresses: Ipv4Addr::new(10, 1, 0, 0),
        server_addresses: Ipv4Addr::new(10, 2, 0, 0),
        backups,
        form,
        slots: Slots::All,
        timing: TIMING,
    };
    let own = own_nets(&machine);
    let defect = match random.one_in(3) {
        true => Defect::None,
        false => *random.of(&DEFECTS).unwrap(),
    };
    // One net of clients has no other slots, and sharing routers no siblings.
    let has_slots = form == Form::SlotNets && policy != Policy::Flat;
    let defect = match defect {
        Defect::OwnSlots | Defect::OwnSlotsKept | Defect::NoSiblings | Defect::NoSiblingsKept
            if !has_slots =>
        {
            Defect::None
        }
        // Open: after the first losses the simulated client finds another way, and the check says that
        // it does not.
        Defect::ServerRoute => Defect::None,
        other => other,
    };
    // Backups on their own slot nets need clients on all of these.
    let is_own = matches!(defect, Defect::OwnSlots | Defect::OwnSlotsKept);
    let scheme = match !is_own && Random::stream(seed, 79).one_in(2) {
        true => Scheme {
            slots: Slots::Used,
            ..scheme
        },
        false => scheme,
    };
    let plan = assign(&machine, policy, &PlanOptions::default()).unwrap();
    let nets = machine.nets.iter().map(|entry| entry.net);
    let servers = Server::synthetic(nets, 1, Ipv4Addr::new(10, 3, 0, 0)).unwrap();
    let mut site = Site::new(&machine, &plan, &scheme, &servers).unwrap();
    keep_few_clients(&mut site, &mut random);
    break_site(&mut site, defect, &own, &mut random);
    let words = format!(
        "seed {seed}: {} {form:?} {backups:?} {defect:?}",
        policy.name()
    );
    Drawn {
        site,
        defect,
        words,
    }
}

/// Which slot net is a router's own.
fn own_nets(machine: &Machine) -> BTreeMap<(Net, u32), Net> {
    let mut own = BTreeMap::new();
    let first = Ipv4Addr::new(10, 1, 0, 0).to_bits();
    for entry in &machine.nets {
        for (slot, &router) in (101_u16..).zip(&entry.routers) {
            let id = machine.routers[usize::from(router)].id;
            own.insert((entry.net, first + id), Net::tcp(slot));
        }
    }
    own
}

/// The check looks at the nodes that there are: few, so that a run is short.
fn keep_few_clients(site: &mut Site, random: &mut Random) {
    let is_client =
        |site: &Site, node: usize| site.class_of(&site.nodes[node]).role == NodeRole::Client;
    let clients: Vec<usize> = (0..site.nodes.len())
        .filter(|&node| is_client(site, node))
        .collect();
    let kept: BTreeSet<usize> = (0..4).map(|_| *random.of(&clients).unwrap()).collect();
    let gone: BTreeSet<usize> = clients.into_iter().filter(|n| !kept.contains(n)).collect();
    let mut number = 0..;
    site.nodes.retain(|_| {
        let number = number.next().unwrap();
        !gone.contains(&number)
    });
}

fn classes(site: &mut Site, role: NodeRole) -> Vec<&mut Class> {
    let used: BTreeSet<usize> = site.nodes.iter().map(|node| node.class).collect();
    let classes = site.classes.iter_mut().enumerate();
    classes
        .filter(|(index, class)| class.role == role && used.contains(index))
        .map(|(_, class)| class)
        .collect()
}

fn break_site(
    site: &mut Site,
    defect: Defect,
    own: &BTreeMap<(Net, u32), Net>,
    random: &mut Random,
) {
    match defect {
        Defect::None => {}
        Defect::OwnSlots | Defect::OwnSlotsKept => {
            for client in classes(site, NodeRole::Client) {
                for route in &mut client.config.routes {
                    let net = own[&(route.net, route.gateway.number())];
                    route.gateway = Nid::from_number(net, route.gateway.number());
                }
            }
        }
        Defect::NoSiblings | Defect::NoSiblingsKept => {
            for server in classes(site, NodeRole::Server) {
                server.config.routes.retain(|route| route.priority == 0);
            }
        }
        Defect::ServerRoute => {
            let mut servers = classes(site, NodeRole::Server);
            let which = random.below(servers.len() as u64) as usize;
            let routes = &mut servers[which].config.routes;
            let which = random.below(routes.len() as u64) as usize;
            routes.remove(which);
        }
        Defect::ClientRoute => {
            let mut clients = classes(site, NodeRole::Client);
            let which = random.below(clients.len() as u64) as usize;
            let routes = &mut clients[which].config.routes;
            // The first one to each net is the primary.
            let is_backup = |n: &usize| *n > 0 && routes[*n].net == routes[*n - 1].net;
            let backups: Vec<usize> = (0..routes.len()).filter(is_backup).collect();
            if let Some(&which) = random.of(&backups) {
                routes.remove(which);
            }
        }
        Defect::Priorities => {
            let mut servers = classes(site, NodeRole::Server);
            let which = random.below(servers.len() as u64) as usize;
            for route in &mut servers[which].config.routes {
                route.priority = random.below(3) as u32;
            }
        }
        Defect::NoHops => {
            for class in &mut site.classes {
                let routes = class.config.routes.iter_mut();
                routes.for_each(|route| route.hop = None);
            }
        }
    }
    if matches!(defect, Defect::OwnSlotsKept | Defect::NoSiblingsKept) {
        for class in &mut site.classes {
            class.config.globals.drop_asym_route = None;
        }
    }
}

// --- the site as a world ---

/// The world of the nodes' own files.
fn world(site: &Site) -> World {
    let mut nets: BTreeMap<Net, u32> = BTreeMap::new();
    let mut nodes = Vec::new();
    for (path, text) in site.node_files() {
        let config = lnet_config::parse(&text).unwrap();
        let name = path.rsplit('/').next().unwrap().to_owned();
        let nids = fgr::config::nids(&config).into_iter();
        let nis = nids.map(|nid| {
            let next = nets.len() as u32;
            ni(nid, *nets.entry(nid.net()).or_insert(next))
        });
        let routes = config.routes.iter().map(|route| Route {
            net: route.net,
            gateway: route.gateway,
            hops: route.hop,
            priority: route.priority,
        });
        nodes.push(NodeSpec {
            name,
            nis: nis.collect(),
            routing: config.routing == Some(true),
            buffers: RouterBuffers::default(),
            discovery: config.globals.discovery != Some(false),
            drop_asym_route: config.globals.drop_asym_route == Some(true),
            routes: routes.collect(),
            rules: config.rules.clone(),
        });
    }
    World {
        globals: Globals {
            alive_router_check_interval: Duration::from_secs(TIMING.check_interval.into()),
            router_ping_timeout: Duration::from_secs(TIMING.ping_timeout.into()),
            transaction_timeout: Duration::from_secs(9),
            // A run waits for twenty of these until it takes a route that stays down for granted.
            max_recovery_ping_interval: Duration::from_secs(2),
            ..Globals::default()
        },
        switches: nets.len() as u32,
        nodes,
        rails: vec!["all".to_owned()],
        ..World::default()
    }
}

fn ni(nid: Nid, switch: u32) -> NiSpec {
    NiSpec {
        nid,
        tunables: Tunables::default(),
        lnd: LndKind::O2ib,
        switch,
        speed: Speed {
            latency_ns: 500,
            picoseconds_per_byte: 80,
        },
        rail: 0,
    }
}

/// The ports of these NIDs.
fn ports(world: &World, wanted: impl Fn(u32, Nid) -> bool) -> Vec<PortId> {
    let mut found = Vec::new();
    for (node, spec) in (0_u32..).zip(&world.nodes) {
        for (ni, at) in (0_u16..).zip(&spec.nis) {
            if wanted(node, at.nid) {
                found.push(PortId { node, ni });
            }
        }
    }
    found
}

/// Every single failure of a site, with what happens in the world.
fn failures(site: &Site, world: &World, random: &mut Random) -> Vec<(Failure, Vec<Trouble>)> {
    let mut found = Vec::new();
    let mut blades: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut leaves: BTreeSet<Net> = BTreeSet::new();
    let failure = |kind, name: &str| Failure {
        kind,
        name: name.to_owned(),
    };
    for (number, node) in (0_u32..).zip(&site.nodes) {
        let class = site.class_of(node);
        match class.role {
            NodeRole::Client => {}
            NodeRole::Server => leaves.extend(node.nids.iter().map(|nid| nid.net())),
            NodeRole::Router => {
                let dead = match random.one_in(2) {
                    true => Trouble::Crash(number),
                    false => Trouble::Partition(vec![number]),
                };
                found.push((failure(FailureKind::Router, &node.name), vec![dead]));
                let blade = node.blade.as_deref().unwrap();
                blades.entry(blade).or_default().push(number);
                let is_client_side = |nid: Nid| nid.net().lnd == Net::tcp(0).lnd;
                for (kind, client_side) in [
                    (FailureKind::ClientSide, true),
                    (FailureKind::ServerSide, false),
                ] {
                    let ports = ports(world, |at, nid| {
                        at == number && is_client_side(nid) == client_side
                    });
                    let shows = random.one_in(2);
                    let down = ports.into_iter().map(|port| match shows {
                        true => Trouble::Port(port),
                        false => Trouble::Loss(port, FaultTypes::empty(), 1),
                    });
                    found.push((failure(kind, &node.name), down.collect()));
                }
            }
        }
    }
    found.extend(blades.into_iter().map(|(blade, nodes)| {
        let dead = nodes.into_iter().map(Trouble::Crash);
        (failure(FailureKind::Module, blade), dead.collect())
    }));
    found.extend(leaves.into_iter().map(|net| {
        let ports = ports(world, |_, nid| nid.net() == net);
        let down = ports.into_iter().map(Trouble::Port).collect();
        (failure(FailureKind::Leaf, &net.to_string()), down)
    }));
    found
}

// --- what is asked, and what the check says of it ---

/// A question: nodes, the server's net, direction, when.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    client: String,
    server: String,
    net: Net,
    direction: Direction,
    when: When,
    /// Which of several times.
    phase: u64,
}

struct Asked {
    operations: Vec<Operation>,
    /// The question of each operation.
    questions: Vec<Question>,
}

impl Asked {
    /// Some messages in both directions of every pair, at this second.
    fn ask(&mut self, site: &Site, second: u64, when: &When) {
        let roles = |role| {
            let nodes = (0_u32..).zip(&site.nodes);
            nodes.filter(move |(_, node)| site.class_of(node).role == role)
        };
        for (client, client_node) in roles(NodeRole::Client) {
            for (server, server_node) in roles(NodeRole::Server) {
                let net = server_node.nids.first().unwrap().net();
                let class = site.class_of(client_node);
                let routes = class.config.routes.iter().filter(|route| route.net == net);
                let Some(primary) = routes.min_by_key(|route| route.priority) else {
                    continue;
                };
                let session = primary.gateway.net();
                let nids = &client_node.nids;
                let session = nids.iter().position(|nid| nid.net() == session).unwrap();
                for direction in Direction::ALL {
                    let (from, to, to_ni) = match direction {
                        Direction::Requests => (client, server, 0),
                        Direction::ServerStarted => (server, client, session as u16),
                    };
                    let question = Question {
                        client: class.name.clone(),
                        server: site.class_of(server_node).name.clone(),
                        net,
                        direction,
                        when: when.clone(),
                        phase: second,
                    };
                    self.add([from, to], to_ni, second, &question);
                }
            }
        }
    }

    /// Enough of them that each of several equal routes gets one.
    fn add(&mut self, [from, to]: [u32; 2], to_ni: u16, second: u64, question: &Question) {
        for turn in 0..4 {
            let at = second * 1_000_000_000 + self.questions.len() as u64 * 100_000 + turn;
            self.operations.push(Operation {
                at,
                from,
                to,
                to_ni,
                kind: OperationKind::PutAck,
                length: 64,
                cancel_after: 0,
            });
            self.questions.push(question.clone());
        }
    }
}

/// Those that the check says are lost.
fn foretold(site: &Site, asked: &Asked) -> BTreeSet<Question> {
    let findings = check(site).findings;
    let lost: BTreeSet<_> = findings
        .into_iter()
        .filter_map(|finding| match finding {
            Finding::Lost {
                client,
                server,
                net,
                direction,
                when,
                ..
            } => Some((client, server, net, direction, when)),
            _ => None,
        })
        .collect();
    let is_lost = |question: &&Question| {
        let Question {
            client,
            server,
            net,
            direction,
            when,
            ..
        } = (*question).clone();
        let at = |when| lost.contains(&(client.clone(), server.clone(), net, direction, when));
        let leaf = Failure {
            kind: FailureKind::Leaf,
            name: net.to_string(),
        };
        // What is lost always is lost after a failure, too, unless that changes the way.
        when == When::After(leaf) || at(when)
    };
    asked.questions.iter().filter(is_lost).cloned().collect()
}

struct Compared {
    states: usize,
    lost: usize,
}

/// What fails when, and what is asked meanwhile: in health, when each failure must have been noticed, right
/// after its end, and when all is as before.
fn schedule(
    drawn: &Drawn,
    mut left: Vec<(Failure, Vec<Trouble>)>,
    failures_max: usize,
    random: &mut Random,
) -> (Asked, Vec<Fault>) {
    let site = &drawn.site;
    let mut faults = Vec::new();
    let mut asked = Asked {
        operations: Vec::new(),
        questions: Vec::new(),
    };
    let mut second = SETTLED;
    asked.ask(site, second, &When::Now);
    second += ANSWERED;
    for _ in 0..failures_max.min(left.len()) {
        let (failure, troubles) = left.remove(random.below(left.len() as u64) as usize);
        let begin = second;
        second += unnoticed(failure.kind) + 1;
        asked.ask(site, second, &When::After(failure.clone()));
        second += ANSWERED;
        let end = second;
        faults.extend(troubles.into_iter().map(|what| Fault {
            at: begin * 1_000_000_000,
            until: end * 1_000_000_000,
            what,
        }));
        if drawn.defect == Defect::None && failure.kind != FailureKind::Leaf {
            for after in [1, 2, 5, 9] {
                asked.ask(site, end + after, &When::OnReturn(failure.clone()));
            }
        }
        second = end + SETTLED + ANSWERED;
        asked.ask(site, second, &When::Now);
        second += ANSWERED;
    }
    (asked, faults)
}

/// Seconds that a failure goes unnoticed, as the check states them, at most.
fn unnoticed(kind: FailureKind) -> u64 {
    let times = Direction::ALL.map(|direction| kind.unnoticed(direction, TIMING));
    let longest = times.into_iter().flatten().map(|time| time.silent).max();
    longest.unwrap_or(TIMING.check_interval).into()
}

/// Runs a site through some of its failures, and compares.
fn compare(seed: u64, failures_max: usize) -> Compared {
    let drawn = draw(seed);
    let Drawn { site, words, .. } = &drawn;
    let mut random = Random::stream(seed, 78);
    let world = world(site);
    let possible = failures(site, &world, &mut random);
    let (asked, faults) = schedule(&drawn, possible, failures_max, &mut random);
    let expected = foretold(site, &asked);
    let plan = Plan {
        seed,
        world,
        operations: asked.operations.clone(),
        faults,
    };
    let outcome = Sim::run(Rc::new(plan), Options::default());
    let unanswered = outcome.unanswered.iter();
    let seen: BTreeSet<Question> = unanswered
        .map(|&operation| asked.questions[operation as usize].clone())
        .collect();
    let told = |set: &BTreeSet<Question>, other: &BTreeSet<Question>| -> Vec<Question> {
        set.difference(other).take(4).cloned().collect()
    };
    let (too_many, too_few) = (told(&expected, &seen), told(&seen, &expected));
    assert!(
        too_many.is_empty() && too_few.is_empty(),
        "{words}: lost by the check only {too_many:#?}, in the run only {too_few:#?}; {:?}",
        outcome.violation
    );
    let states: BTreeSet<&Question> = asked.questions.iter().collect();
    Compared {
        states: states.len(),
        lost: seen.len(),
    }
}

/// Many sites; the parts run side by side.
fn part(number: u64) {
    const PARTS: u64 = 4;
    let (mut states, mut lost) = (0, 0);
    for seed in (0..200).filter(|seed| seed % PARTS == number) {
        let compared = compare(seed, 2);
        states += compared.states;
        lost += compared.lost;
    }
    println!("{states} verdicts are equal, {lost} of them: lost");
    assert!(lost > 0 && lost < states / 2, "{lost} of {states}");
}

#[test]
fn verdicts_of_the_check_are_those_of_the_simulator_first_part() {
    part(0);
}

#[test]
fn verdicts_of_the_check_are_those_of_the_simulator_second_part() {
    part(1);
}

#[test]
fn verdicts_of_the_check_are_those_of_the_simulator_third_part() {
    part(2);
}

#[test]
fn verdicts_of_the_check_are_those_of_the_simulator_fourth_part() {
    part(3);
}
