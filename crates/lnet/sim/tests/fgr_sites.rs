//! Compares `fgr check` with the simulator. Small sites are drawn at random, with and without errors. For each
//! pair, direction and single failure, the verdict of the check must equal the behaviour of simulated nodes that
//! run the same files.
//!
//! ```text
//!   seed ─▶ machine, policy, form, defect ─▶ site ─▶ check ─▶ findings ────────┐
//!                                             └ node files ─▶ cores ─▶ answers ┴▶ equal
//! ```
//!
//! Operations begin at the time by which a failure must have been noticed according to the check, so the test
//! covers that time, too.
//!
//! The check predicts the behaviour of kernel nodes, and nodes of the `lustre` profile behave exactly like that.
//! Nodes of the `design` profile find a path in two cases in which kernels do not: messages that the check counts
//! as lost for one of these reasons may arrive.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

use fgr::check::{Direction, Failure, FailureKind, Finding, Loss, When, check};
use fgr::config::{BackupPriority, Class, Form, NodeRole, Scheme, Server, Site, Slots, Timing};
use fgr::{Machine, Metric, Options as PlanOptions, Policy, Synthetic, assign, synthetic};
use lnet_core::{FaultTypes, Globals, Route, RouterBuffers, Tunables};
use lnet_policy::Profile;
use lnet_sim::Random;
use lnet_sim::cores::lnd::LndKind;
use lnet_sim::cores::{
    Fault, NiSpec, NodeSpec, Operation, OperationKind, Options, Plan, PortId, Sim, Speed, Trouble,
    World,
};
use lnet_types::{Net, Nid};

const TIMING: Timing = Timing {
    check_interval: 6,
    ping_timeout: 4,
    transaction_timeout: 150,
};

/// The seconds after which a net without pings counts as down.
const WINDOW: u64 = 10;

/// The seconds until the state of every route is final: interfaces without traffic have been noticed.
const SETTLED: u64 = WINDOW + 2 * 6 + 5;

/// The seconds within which an operation has its response or its timeout.
const ANSWERED: u64 = 12;

/// The number of sites that are drawn.
const SITES: u64 = 200;

/// The defect of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    /// Backups are used on their own slot nets.
    OwnSlots,
    /// Like `OwnSlots`, and no node drops asymmetric messages.
    OwnSlotsKept,
    /// Servers have no routes by siblings.
    NoSiblings,
    /// Like `NoSiblings`, and no node drops asymmetric messages.
    NoSiblingsKept,
    /// One server lacks one route.
    ServerRoute,
    /// One client lacks one backup.
    ClientRoute,
    /// The routes of one server have wrong priorities.
    Priorities,
    /// No route has a hop count.
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

/// A drawn site.
struct Drawn {
    site: Site,
    /// The same site without the defect.
    whole: Site,
    defect: Defect,
    /// A description of what was drawn.
    words: String,
}

fn machine(random: &mut Random) -> Machine {
    let dimension = |name: &str, size: u64| fgr::topology::Dimension {
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
    let grid = fgr::topology::Grid::new(dimensions).unwrap();
    // At most two nets, in one group or in two.
    let [groups, nets] = *random.of(&[[1, 1], [1, 2], [2, 1]]).unwrap();
    let size = Synthetic {
        groups,
        modules: random.within(2, 3) as u16,
        nets,
    };
    synthetic("drawn", grid, fgr::topology::Tie::Split, size).unwrap()
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
    // A single net of clients has no other slots, and shared routers have no siblings.
    let has_slots = form == Form::SlotNets && policy != Policy::Flat;
    let defect = match defect {
        Defect::OwnSlots | Defect::OwnSlotsKept | Defect::NoSiblings | Defect::NoSiblingsKept
            if !has_slots =>
        {
            Defect::None
        }
        other => other,
    };
    // If backups use their own slot nets, the clients must be on all these nets.
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
    let whole = site.clone();
    break_site(&mut site, defect, &own, &mut random);
    let words = format!(
        "seed {seed}: {} {form:?} {backups:?} {defect:?}",
        policy.name()
    );
    Drawn {
        site,
        whole,
        defect,
        words,
    }
}

/// Returns the slot net of each router.
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

/// Keeps few clients, so that a run is short: the check examines only the nodes that exist.
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
            // The first route to each net is the primary one.
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

/// Returns the world that the nodes' own files describe.
fn world(site: &Site, profile: Profile) -> World {
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
            profile,
            // A run waits for twenty times this interval before it accepts that a route stays down.
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

/// Returns the ports whose NIDs are wanted.
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

/// Returns every single failure of a site, with its faults in the world.
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

// --- the questions, and the verdicts of the check ---

/// A question: the nodes, the server's net, the direction and the state of the site.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    client: String,
    server: String,
    net: Net,
    direction: Direction,
    when: When,
    /// The second at which the question is asked, because a question is asked several times.
    phase: u64,
}

struct Asked {
    operations: Vec<Operation>,
    /// The question of each operation.
    questions: Vec<Question>,
}

impl Asked {
    /// Adds messages in both directions of every pair, at this second.
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

    /// Adds so many messages that each of several equal routes gets one.
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

/// The questions whose messages are lost according to the check.
#[derive(Default)]
struct Foretold {
    /// The messages that kernel nodes lose.
    by_kernels: BTreeSet<Question>,
    /// The messages that Finerail's own nodes lose, too.
    by_all: BTreeSet<Question>,
}

fn foretold(site: &Site, asked: &Asked) -> Foretold {
    // Client, server, net, direction and state of the site; and whether Finerail's own nodes find another path.
    let mut lost: BTreeMap<_, bool> = BTreeMap::new();
    for finding in check(site).findings {
        if let Finding::Lost {
            client,
            server,
            net,
            direction,
            when,
            loss,
        } = finding
        {
            let is_evaded = matches!(loss, Loss::Dropped { .. } | Loss::SourceKept { .. });
            let all = lost.entry((client, server, net, direction, when));
            *all.or_insert(true) &= is_evaded;
        }
    }
    let mut foretold = Foretold::default();
    for question in &asked.questions {
        let at = |when: When| {
            let (client, server) = (question.client.clone(), question.server.clone());
            lost.get(&(client, server, question.net, question.direction, when))
        };
        let found = match &question.when {
            // No path leads to servers whose leaf switch failed. The check does not report this for each pair.
            When::After(failure) if failure.name == question.net.to_string() => Some(&false),
            When::After(failure) if !concerns(site, failure, question) => at(When::Now),
            when => at(when.clone()),
        };
        if let Some(is_evaded) = found {
            foretold.by_kernels.insert(question.clone());
            if !is_evaded {
                foretold.by_all.insert(question.clone());
            }
        }
    }
    foretold
}

/// Returns true if a failure affects a router that the pair has a route by. The check does not report other
/// failures.
fn concerns(site: &Site, failure: &Failure, question: &Question) -> bool {
    let class = |name: &str| {
        site.classes
            .iter()
            .find(|class| class.name == name)
            .unwrap()
    };
    let routes = |name: &str| class(name).config.routes.iter();
    let there = || routes(&question.client).filter(|route| route.net == question.net);
    let least = there().map(|route| route.priority).min();
    let primaries = there().filter(|route| Some(route.priority) == least);
    let sessions: BTreeSet<Net> = primaries.map(|route| route.gateway.net()).collect();
    let back = routes(&question.server).filter(|route| sessions.contains(&route.net));
    let gateways: BTreeSet<Nid> = there().chain(back).map(|route| route.gateway).collect();
    let mut nodes = site.nodes.iter();
    nodes.any(|node| {
        let is_of_it = node.name == failure.name || node.blade.as_ref() == Some(&failure.name);
        is_of_it && node.nids.iter().any(|nid| gateways.contains(&nid))
    })
}

/// Plans the faults and the questions: without a failure, when each failure must have been noticed, right after its
/// end, and when everything has recovered.
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

/// Returns the longest time for which a failure stays unnoticed according to the check, in seconds.
fn unnoticed(kind: FailureKind) -> u64 {
    let times = Direction::ALL.map(|direction| kind.unnoticed(direction, TIMING));
    let longest = times.into_iter().flatten().map(|time| time.finerail).max();
    longest.unwrap_or(TIMING.check_interval).into()
}

/// The questions about a site, and the faults meanwhile. It compares the check with a run.
struct Comparison {
    drawn: Drawn,
    asked: Asked,
    faults: Vec<Fault>,
    seed: u64,
    profile: Profile,
}

/// The questions that are lost only according to the check, or only in the run.
#[derive(Debug, Default)]
struct Differences {
    by_check: Vec<Question>,
    by_run: Vec<Question>,
}

impl Comparison {
    fn new(seed: u64, profile: Profile) -> Self {
        let drawn = draw(seed);
        let mut random = Random::stream(seed, 78);
        let possible = failures(&drawn.site, &world(&drawn.site, profile), &mut random);
        let (asked, faults) = schedule(&drawn, possible, 2, &mut random);
        Self {
            drawn,
            asked,
            faults,
            seed,
            profile,
        }
    }

    /// Returns the questions without a response when nodes run the files of this site.
    fn run(&self, site: &Site) -> BTreeSet<Question> {
        let plan = Plan {
            seed: self.seed,
            world: world(site, self.profile),
            operations: self.asked.operations.clone(),
            faults: self.faults.clone(),
        };
        let outcome = Sim::run(Rc::new(plan), Options::default());
        let unanswered = outcome.unanswered.iter();
        unanswered
            .map(|&operation| self.asked.questions[operation as usize].clone())
            .collect()
    }

    /// Compares the check of one site with the nodes of another site.
    fn differences(&self, checked: &Site, seen: &BTreeSet<Question>) -> Differences {
        let Foretold { by_kernels, by_all } = foretold(checked, &self.asked);
        let certain = match self.profile {
            Profile::Lustre | Profile::Lustre217 => &by_kernels,
            Profile::Design => &by_all,
        };
        Differences {
            by_check: certain.difference(seen).cloned().collect(),
            by_run: seen.difference(&by_kernels).cloned().collect(),
        }
    }
}

/// Compares a part of the sites. The parts run in parallel.
fn part(number: u64, profile: Profile) {
    const PARTS: u64 = 4;
    let (mut states, mut lost, mut wrong) = (0, 0, Vec::new());
    for seed in (0..SITES).filter(|seed| seed % PARTS == number) {
        let comparison = Comparison::new(seed, profile);
        let site = &comparison.drawn.site;
        let seen = comparison.run(site);
        let differences = comparison.differences(site, &seen);
        if !differences.by_check.is_empty() || !differences.by_run.is_empty() {
            wrong.push(format!("{}: {differences:#?}", comparison.drawn.words));
        }
        let questions: BTreeSet<&Question> = comparison.asked.questions.iter().collect();
        states += questions.len();
        lost += seen.len();
    }
    println!("{states} verdicts, {lost} of them: lost");
    assert!(
        wrong.is_empty(),
        "{} sites differ: {}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(lost > 0 && lost < states / 2, "{lost} of {states}");
}

#[test]
fn verdicts_of_the_check_are_those_of_kernels_first_part() {
    part(0, Profile::Lustre);
}

#[test]
fn verdicts_of_the_check_are_those_of_kernels_second_part() {
    part(1, Profile::Lustre);
}

#[test]
fn verdicts_of_the_check_are_those_of_kernels_third_part() {
    part(2, Profile::Lustre);
}

#[test]
fn verdicts_of_the_check_are_those_of_kernels_fourth_part() {
    part(3, Profile::Lustre);
}

#[test]
fn verdicts_of_the_check_are_those_of_finerails_nodes_first_part() {
    part(0, Profile::Design);
}

#[test]
fn verdicts_of_the_check_are_those_of_finerails_nodes_second_part() {
    part(1, Profile::Design);
}

#[test]
fn verdicts_of_the_check_are_those_of_finerails_nodes_third_part() {
    part(2, Profile::Design);
}

#[test]
fn verdicts_of_the_check_are_those_of_finerails_nodes_fourth_part() {
    part(3, Profile::Design);
}

/// Shows that the comparison can fail: the check of a site without a defect does not match the nodes of the site
/// with the defect, nor the other way round.
#[test]
fn a_check_of_another_site_differs_in_both_directions() {
    let mut pairs = 0;
    for seed in 0..60 {
        let comparison = Comparison::new(seed, Profile::Lustre);
        let Drawn { site, whole, .. } = &comparison.drawn;
        let lost = |site| foretold(site, &comparison.asked).by_kernels;
        if lost(site) == lost(whole) {
            continue;
        }
        let missed = comparison.differences(whole, &comparison.run(site));
        let invented = comparison.differences(site, &comparison.run(whole));
        assert!(!missed.by_run.is_empty() && !invented.by_check.is_empty());
        pairs += 1;
    }
    assert!(pairs > 5, "{pairs}");
}
