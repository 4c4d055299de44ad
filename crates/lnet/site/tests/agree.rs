//! Compares `site reach` and `fgr check` with the simulator. Sites are drawn at random, with and without errors, some
//! of them as chains of routers. The verdict of each pair must equal the behaviour of simulated nodes that have the same
//! documents, and what `fgr check` finds: without a failure, and after each single failure of a router or of one of its
//! interfaces.
//!
//! ```text
//!   seed ─▶ documents ─▶ site ─▶ verdicts ──────────┐
//!               │          └▶ cores ─▶ answers ─────┼▶ equal
//!               └▶ fgr check ─▶ findings ───────────┘
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::Duration;

use fgr::check::{Direction, Failure, FailureKind, Finding, Loss, When};
use lnet_core::{Globals, Route, RouterBuffers, Tunables};
use lnet_policy::{Profile, RuleList};
use lnet_sim::Random;
use lnet_sim::cores::lnd::LndKind;
use lnet_sim::cores::{
    Fault, NiSpec, NodeSpec, Operation, OperationKind, Options, Plan, PortId, Sim, Speed, Trouble,
    World,
};
use lnet_site::{Site, SiteFile, Verdict, verdicts};
use lnet_types::{Net, Nid};

/// The number of sites in an ordinary run, and with `FINERAIL_LONG=1`.
const SITES: [u64; 2] = [25, 500];

/// The same for chains of routers, whose runs have more nodes and failures.
const CHAINS: [u64; 2] = [50, 500];

/// Seeds whose sites showed once that a model misses something: a router that sends messages back onto their net, a
/// router that pings another as the only one, one that is kept up by what its own gateways answer, and one that shares
/// the messages that it forwards between gateways of two nets.
const DIFFERED: [u64; 11] = [43, 60, 93, 121, 131, 185, 269, 305, 422, 457, 1290];

/// The times in seconds at which a failure begins, messages are sent, and the run ends. At `ASK_S` the failure must
/// have been noticed: gateways are pinged every 6 s, and an interface without traffic counts as down after 10 s.
const BEGIN_S: u64 = 1;
const ASK_S: u64 = 60;
const END_S: u64 = 100;

/// The number of messages of each pair. Each of several equal paths gets some of them.
const MESSAGES: u64 = 12;

/// The number of messages, of all pairs in a drawn order, where routers take turns for the messages of all pairs: those
/// of a pair that always follow each other might come in the turn of the same router every time.
const MIXED: u64 = 2_000;

/// The number of chains that only the check and the site's model examine.
const MODELS: u64 = 500;

const NETS: [&str; 6] = ["tcp", "tcp1", "tcp2", "tcp3", "tcp4", "tcp5"];

/// A drawn node, from which its document is written.
#[derive(Clone, Default)]
struct Draft {
    name: String,
    /// Indices in `NETS`.
    nets: BTreeSet<usize>,
    routing: bool,
    drop_asym: bool,
    /// The net, the gateway's NID, the hop count and the priority of each route.
    routes: Vec<(usize, String, Option<u8>, u32)>,
}

fn nid(node: usize, net: usize) -> String {
    format!("10.{net}.0.{}@{}", node + 1, NETS[net])
}

impl Draft {
    fn text(&self, at: usize, profile: Option<Profile>) -> String {
        let mut text = "net:\n".to_owned();
        for &net in &self.nets {
            let _infallible = write!(
                text,
                "- net type: {}\n  local NI(s):\n  - {{nid: {}, interfaces: {{0: eth{net}}}}}\n",
                NETS[net],
                nid(at, net)
            );
        }
        if !self.routes.is_empty() {
            text.push_str("route:\n");
        }
        for (net, gateway, hop, priority) in &self.routes {
            let hop = hop.map_or(String::new(), |hop| format!(", hop: {hop}"));
            let _infallible = writeln!(
                text,
                "- {{net: {}, gateway: {gateway}{hop}, priority: {priority}}}",
                NETS[*net]
            );
        }
        let profile = profile.map_or(String::new(), |one| format!(", profile: {}", one.name()));
        let _infallible = write!(
            text,
            "routing: {{enable: {}}}\nglobal: {{drop_asym_route: {}{profile}}}\n",
            u8::from(self.routing),
            u8::from(self.drop_asym),
        );
        text
    }
}

/// Draws a site: ends first, then routers. If `knows_strangers` is set, some routes use a gateway NID that no node
/// has.
fn draw(seed: u64, knows_strangers: bool) -> Vec<Draft> {
    let mut random = Random::stream(seed, 91);
    let nets = random.within(2, 4) as usize;
    let (ends, routers) = (random.within(2, 5) as usize, random.within(1, 3) as usize);
    let mut drafts = Vec::new();
    for at in 0..ends + routers {
        let is_router = at >= ends;
        let wanted = if is_router { random.within(2, 3) } else { 1 };
        let mut own = BTreeSet::new();
        while own.len() < (wanted as usize).min(nets) {
            own.insert(random.below(nets as u64) as usize);
        }
        drafts.push(Draft {
            name: format!("{}{at}", if is_router { "router" } else { "end" }),
            nets: own,
            routing: is_router && !random.one_in(12),
            drop_asym: !is_router && random.one_in(5),
            routes: Vec::new(),
        });
    }
    for at in 0..drafts.len() {
        let far: Vec<usize> = (0..nets)
            .filter(|net| !drafts[at].nets.contains(net))
            .collect();
        for net in far {
            let routes = routes(&drafts, (at, ends, knows_strangers), net, &mut random);
            drafts[at].routes.extend(routes);
        }
    }
    drafts
}

/// Draws routes of a node to a net by routers that it can reach. Most of these routers are on the net.
fn routes(
    drafts: &[Draft],
    (at, ends, knows_strangers): (usize, usize, bool),
    net: usize,
    random: &mut Random,
) -> Vec<(usize, String, Option<u8>, u32)> {
    let mut routes = Vec::new();
    for router in (ends..drafts.len()).filter(|&router| router != at) {
        let mut common = drafts[at].nets.intersection(&drafts[router].nets);
        // A gateway that is pinged on several nets in turn receives traffic on each of them only at times. Its
        // interfaces there would count as down between these times.
        let (Some(&near), None) = (common.next(), common.next()) else {
            continue;
        };
        let leads = drafts[router].nets.contains(&net);
        // Three routers in a circle would forward a message for ever, because LNet does not count hops.
        if !leads && at >= ends && router < at {
            continue;
        }
        let wanted = if leads {
            !random.one_in(6)
        } else {
            random.one_in(3)
        };
        if !wanted {
            continue;
        }
        let gateway = match random.one_in(25) && knows_strangers {
            true => format!("10.{near}.0.99@{}", NETS[near]),
            false => nid(router, near),
        };
        let hop = match random.one_in(3) {
            true => None,
            false => Some(if leads { 1 } else { 2 }),
        };
        routes.push((net, gateway, hop, u32::from(random.one_in(5))));
    }
    routes
}

/// Draws a chain of routers over two to five hops: one or two routers of stage i join nets i and i + 1, and ends are on
/// the first and the last net. A few routes are missing or have other hop counts or priorities.
fn draw_chain(seed: u64) -> Vec<Draft> {
    let mut random = Random::stream(seed, 92);
    let hops = random.within(2, 5) as usize;
    let mut drafts: Vec<Draft> = Vec::new();
    // The net of an end, or the stage of a router, and the draft's number.
    let mut ends: Vec<(usize, usize)> = Vec::new();
    let mut stages: Vec<(usize, usize)> = Vec::new();
    for net in [0, hops, 0, hops]
        .into_iter()
        .take(random.within(2, 4) as usize)
    {
        ends.push((net, drafts.len()));
        drafts.push(Draft {
            name: format!("end{}", drafts.len()),
            nets: BTreeSet::from([net]),
            drop_asym: random.one_in(4),
            ..Draft::default()
        });
    }
    for stage in 0..hops {
        for _ in 0..random.within(1, 2) {
            stages.push((stage, drafts.len()));
            drafts.push(Draft {
                name: format!("router{}", drafts.len()),
                nets: BTreeSet::from([stage, stage + 1]),
                routing: !random.one_in(25),
                ..Draft::default()
            });
        }
    }
    let gateways = |stage: Option<usize>| {
        let of_stage = stages.iter().filter(move |(its, _)| Some(*its) == stage);
        of_stage.map(|(_, router)| *router).collect::<Vec<usize>>()
    };
    let mut connect = |from: usize, near: usize, stage: Option<usize>, net: usize| {
        for router in gateways(stage) {
            let hop = match random.below(12) {
                0 => None,
                1 => Some(1),
                _ => Some(net.abs_diff(near) as u8),
            };
            if !random.one_in(16) {
                let priority = u32::from(random.one_in(6));
                drafts[from]
                    .routes
                    .push((net, nid(router, near), hop, priority));
            }
        }
    };
    for &(own, end) in &ends {
        for net in (0..=hops).filter(|&net| net != own) {
            let stage = if own == 0 {
                Some(0)
            } else {
                own.checked_sub(1)
            };
            connect(end, own, stage, net);
        }
    }
    for &(stage, router) in &stages {
        for net in stage + 2..=hops {
            connect(router, stage + 1, Some(stage + 1), net);
        }
        for net in 0..stage {
            connect(router, stage, stage.checked_sub(1), net);
        }
    }
    drafts
}

fn site(drafts: &[Draft], profile: Option<Profile>) -> Site {
    let files = drafts.iter().enumerate().map(|(at, draft)| SiteFile {
        path: format!("{}.yaml", draft.name),
        text: draft.text(at, profile),
    });
    lnet_site::read(&files.collect::<Vec<_>>()).unwrap()
}

fn world(site: &Site, profile: Profile) -> World {
    let mut switches: BTreeMap<Net, u32> = BTreeMap::new();
    let nodes = site.members.iter().map(|member| {
        let nis = member.nids().map(|nid| {
            let next = switches.len() as u32;
            ni(nid, *switches.entry(nid.net()).or_insert(next))
        });
        let document = &member.document;
        NodeSpec {
            name: member.text.name.clone(),
            nis: nis.collect(),
            routing: member.is_router(),
            buffers: RouterBuffers::default(),
            discovery: true,
            drop_asym_route: document.globals.drop_asym_route == Some(true),
            routes: document
                .routes
                .iter()
                .map(|route| Route {
                    net: route.net,
                    gateway: route.gateway,
                    hops: route.hop,
                    priority: route.priority.unwrap_or(0),
                })
                .collect(),
            rules: RuleList::new(),
        }
    });
    let nodes = nodes.collect();
    World {
        globals: Globals {
            alive_router_check_interval: Duration::from_secs(6),
            router_ping_timeout: Duration::from_secs(4),
            transaction_timeout: Duration::from_secs(9),
            max_recovery_ping_interval: Duration::from_secs(2),
            profile,
            ..Globals::default()
        },
        switches: switches.len() as u32,
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

/// Returns the failures to try: none, each router, and each interface of a router.
fn failures(site: &Site) -> Vec<(BTreeSet<Nid>, Vec<Trouble>)> {
    let mut found = vec![(BTreeSet::new(), Vec::new())];
    for (node, member) in (0_u32..).zip(&site.members) {
        if !member.text.name.starts_with("router") {
            continue;
        }
        let nids: Vec<Nid> = member.nids().collect();
        found.push((nids.iter().copied().collect(), vec![Trouble::Crash(node)]));
        for (ni, nid) in (0_u16..).zip(nids) {
            found.push((
                BTreeSet::from([nid]),
                vec![Trouble::Port(PortId { node, ni })],
            ));
        }
    }
    found
}

/// Returns the sender, the destination and the index of the destination's NID for each question: all pairs of ends,
/// in both directions.
fn questions(site: &Site) -> Vec<(u32, u32, u16)> {
    let is_end = |at: u32| site.members[at as usize].text.name.starts_with("end");
    let ends: Vec<u32> = (0..site.members.len() as u32)
        .filter(|&at| is_end(at))
        .collect();
    let mut questions = Vec::new();
    for &from in &ends {
        for &to in ends.iter().filter(|&&to| to != from) {
            let nids = site.members[to as usize].nids().count() as u16;
            questions.extend((0..nids).map(|ni| (from, to, ni)));
        }
    }
    questions
}

/// Returns the sender and the destination of each question.
fn pairs(site: &Site) -> BTreeSet<(usize, usize)> {
    let questions = questions(site).into_iter();
    questions
        .map(|(from, to, _)| (from as usize, to as usize))
        .collect()
}

/// Returns how many messages of each question are answered, `MESSAGES` of each.
fn answered(site: &Site, profile: Profile, seed: u64, troubles: &[Trouble]) -> Vec<u64> {
    // The questions run one after another. If they ran at the same time, messages of other questions would take
    // turns with these messages at equal paths, and a question might use the same path every time.
    let all = 0..questions(site).len();
    let order = all.flat_map(|question| (0..MESSAGES).map(move |_| question));
    let counts = sent(site, profile, seed, troubles, &order.collect::<Vec<_>>());
    counts.into_iter().map(|(arrived, _)| arrived).collect()
}

/// Returns whether some messages of a question arrive and some do not, if those of all questions are mixed.
fn is_divided(
    site: &Site,
    profile: Profile,
    seed: u64,
    troubles: &[Trouble],
    question: usize,
) -> bool {
    let (mut random, count) = (Random::stream(seed, 93), questions(site).len() as u64);
    let order: Vec<usize> = (0..MIXED).map(|_| random.below(count) as usize).collect();
    let (arrived, of) = sent(site, profile, seed, troubles, &order)[question];
    (1..of).contains(&arrived)
}

/// Sends a message for each question of a list, one after another. Returns how many of each question arrive, and of how
/// many.
fn sent(
    site: &Site,
    profile: Profile,
    seed: u64,
    troubles: &[Trouble],
    order: &[usize],
) -> Vec<(u64, u64)> {
    let questions = questions(site);
    let mut operations = Vec::new();
    for (number, &question) in (0_u64..).zip(order) {
        let (from, to, to_ni) = questions[question];
        operations.push(Operation {
            at: ASK_S * 1_000_000_000 + number * 10_000_000,
            from,
            to,
            to_ni,
            kind: OperationKind::PutAck,
            length: 64,
            cancel_after: 0,
        });
    }
    let faults = troubles.iter().map(|what| Fault {
        at: BEGIN_S * 1_000_000_000,
        until: END_S * 1_000_000_000,
        what: what.clone(),
    });
    let plan = Plan {
        seed,
        world: world(site, profile),
        operations,
        faults: faults.collect(),
    };
    let outcome = Sim::run(Rc::new(plan), Options::default());
    // After `END_S` the simulator may report a violation, because some nodes stay broken.
    let early = outcome
        .violation
        .filter(|told| told.at < END_S * 1_000_000_000);
    assert!(early.is_none(), "seed {seed}: {early:?}");
    let mut counts = vec![(0, 0); questions.len()];
    for &question in order {
        counts[question] = (counts[question].0 + 1, counts[question].1 + 1);
    }
    for operation in outcome.unanswered {
        counts[order[operation as usize]].0 -= 1;
    }
    counts
}

/// What `fgr check` finds about the pairs of a drawn site, for the ends of each net as servers.
struct Checked {
    sites: BTreeMap<Net, (fgr::config::Site, Vec<Finding>)>,
}

impl Checked {
    fn new(drafts: &[Draft], profile: Option<Profile>) -> Self {
        let nodes = drafts.iter().enumerate().map(|(at, draft)| {
            // A configuration rejects a route that is given twice; of two the first counts.
            let (mut draft, mut known) = (draft.clone(), BTreeSet::new());
            draft
                .routes
                .retain(|(net, gateway, ..)| known.insert((*net, gateway.clone())));
            let config = lnet_config::parse(&draft.text(at, profile)).unwrap();
            (draft.name.clone(), config)
        });
        let nodes: Vec<_> = nodes.collect();
        let mut nets: BTreeSet<Net> = BTreeSet::new();
        for (name, config) in &nodes {
            if name.starts_with("end") {
                nets.extend(config.nets.iter().map(|net| net.net));
            }
        }
        let checked = nets.into_iter().map(|net| {
            let site = fgr::config::Site::from_nodes(nodes.clone(), |other| other == net);
            let findings = fgr::check::check(&site).findings;
            (net, (site, findings))
        });
        Self {
            sites: checked.collect(),
        }
    }

    /// Returns whether messages from one end to another are lost on some path, now or after a failure of a router or of
    /// one of its interfaces; `None` if the check does not say so, because the client of the pair has no route now.
    fn loses(
        &self,
        (client, server): (&str, &str),
        direction: Direction,
        failed: Option<(&str, Option<Nid>, &[Nid])>,
    ) -> Option<bool> {
        let of = |site: &fgr::config::Site, name: &str| {
            let node = site.nodes.iter().find(|node| node.name == name).unwrap();
            (
                site.class_of(node).name.clone(),
                node.nids.iter().next().unwrap().net(),
            )
        };
        let server_net = self.sites.values().find_map(|(site, _)| {
            let node = site.nodes.iter().find(|node| node.name == server)?;
            Some(node.nids.iter().next()?.net())
        })?;
        let (site, findings) = &self.sites[&server_net];
        let ((client, session), (server, net)) = (of(site, client), of(site, server));
        let mut mute = false;
        let mut now = false;
        let mut after = false;
        for finding in findings {
            match finding {
                Finding::NoRoute { class, net: of, .. } if *class == client && *of == net => {
                    mute = true
                }
                Finding::Lost {
                    client: c,
                    server: s,
                    direction: d,
                    when,
                    loss,
                    ..
                } if *c == client && *s == server => {
                    mute |=
                        *when == When::Now && *d == Direction::Requests && *loss == Loss::NoRoute;
                    now |= *when == When::Now && *d == direction;
                    if let (When::After(failure), Some(failed)) = (when, failed) {
                        after |= *d == direction && is_same(failure, failed, session, net);
                    }
                }
                Finding::Unwatched {
                    client: c,
                    server: s,
                    direction: d,
                    failure,
                    ..
                } if *c == client && *s == server && *d == direction => {
                    after |= failed.is_some_and(|failed| is_same(failure, failed, session, net));
                }
                _ => {}
            }
        }
        match (mute, direction, failed) {
            (true, Direction::Requests, _) => Some(true),
            (true, ..) => None,
            (_, _, None) => Some(now),
            // A pair that loses messages now may lose them by another router than the failed one.
            (_, _, Some(_)) if now && !after => None,
            (_, _, Some(_)) => Some(after),
        }
    }
}

/// Returns whether a failure of the check is that of this router, or of this interface of it.
fn is_same(
    failure: &Failure,
    (router, failed, nids): (&str, Option<Nid>, &[Nid]),
    session: Net,
    net: Net,
) -> bool {
    let Some(nid) = failed else {
        return failure.kind == FailureKind::Router && failure.name == router;
    };
    let is_on = |net: Net| nids.iter().any(|nid| nid.net() == net);
    let side = match nid.net() {
        own if own == net => FailureKind::ServerSide,
        own if own != session && !(is_on(net) && is_on(session)) => FailureKind::Between,
        _ => FailureKind::ClientSide,
    };
    let with_nid = format!("{router} {nid}");
    failure.kind == side && (failure.name == router || failure.name == with_nid)
}

/// Returns whether a message of some end may cross two routers.
fn is_chain(drafts: &[Draft]) -> bool {
    let leads = |gateway: &str, net: usize| {
        let at = (0..drafts.len()).find(|&at| {
            let mut nets = drafts[at].nets.iter();
            nets.any(|&own| nid(at, own) == gateway)
        });
        at.is_none_or(|at| drafts[at].nets.contains(&net))
    };
    let mut routes = drafts.iter().flat_map(|draft| &draft.routes);
    routes.any(|(net, gateway, ..)| !leads(gateway, *net))
}

/// Returns the differences in words, and counts the verdicts of each kind.
fn differences(
    seed: u64,
    drafts: &[Draft],
    profile: Profile,
    counts: &mut BTreeMap<Verdict, u64>,
) -> Vec<String> {
    let site = site(drafts, Some(profile));
    let checked = Checked::new(drafts, Some(profile));
    let mut wrong = Vec::new();
    for (failed, troubles) in failures(&site) {
        let seen = answered(&site, profile, seed, &troubles);
        let told = verdicts(&site, &failed, pairs(&site));
        for (number, &(from, to, ni)) in questions(&site).iter().enumerate() {
            let (from, to) = (from as usize, to as usize);
            let (nid, verdict) = told[&(from, to)][usize::from(ni)];
            wrong.extend(differs_from_check(
                seed,
                &site,
                &checked,
                (from, to),
                &failed,
                verdict,
            ));
            *counts.entry(verdict).or_default() += 1;
            // Unlike kernels, Finerail's own nodes try another path if a gateway is silent, and count a gateway as
            // up if they receive messages from it.
            let is_told = |count| match verdict {
                Verdict::All => count == MESSAGES,
                Verdict::Some if is_chain(drafts) && !(1..MESSAGES).contains(&count) => {
                    is_divided(&site, profile, seed, &troubles, number)
                }
                Verdict::Some => (1..MESSAGES).contains(&count),
                Verdict::None => count == 0 || profile == Profile::Design && count < MESSAGES,
            };
            // Messages of another question that wait for a dead interface of a router hold its buffers. A question
            // that differs is asked alone.
            let mut count = seen[number];
            if !is_told(count) {
                let order = [number; MESSAGES as usize];
                (count, _) = sent(&site, profile, seed, &troubles, &order)[number];
            }
            if !is_told(count) {
                let name = &site.members[from].text.name;
                wrong.push(format!(
                    "seed {seed}, without {failed:?}: {name} to {nid}: {verdict:?}, and {count} of {MESSAGES} arrive"
                ));
            }
        }
    }
    wrong
}

/// Returns in words how a verdict differs from what the check finds about the pair, as client and server and, in the
/// other direction, as server and client.
fn differs_from_check(
    seed: u64,
    site: &Site,
    checked: &Checked,
    (from, to): (usize, usize),
    failed: &BTreeSet<Nid>,
    verdict: Verdict,
) -> Vec<String> {
    let (from, to) = (&site.members[from], &site.members[to]);
    let net = |member: &lnet_site::Member| member.nids().next().unwrap().net();
    if net(from) == net(to) {
        return Vec::new();
    }
    let router = failed.first().map(|nid| {
        let owner = site
            .members
            .iter()
            .find(|member| member.nids().any(|own| own == *nid));
        let nids: Vec<Nid> = owner.unwrap().nids().collect();
        (owner.unwrap(), nids)
    });
    let failure = router.as_ref().map(|(owner, nids)| {
        let one = failed.first().copied().filter(|_| failed.len() == 1);
        (owner.text.name.as_str(), one, nids.as_slice())
    });
    let (from, to) = (from.text.name.as_str(), to.text.name.as_str());
    let ways = [
        ((from, to), Direction::Requests),
        ((to, from), Direction::ServerStarted),
    ];
    let found = ways.into_iter().filter_map(|(pair, direction)| {
        let loses = checked.loses(pair, direction, failure)?;
        (loses != (verdict != Verdict::All)).then(|| {
            format!("seed {seed}, without {failed:?}: {from} to {to}: {verdict:?}, and the check says of {direction}: lost is {loses}")
        })
    });
    found.collect()
}

fn agree(profile: Profile, draw: impl Fn(u64) -> Vec<Draft>, sites: [u64; 2]) {
    let is_long = std::env::var_os("FINERAIL_LONG").is_some_and(|value| value == "1");
    let mut counts = BTreeMap::new();
    let mut wrong = Vec::new();
    let count = sites[usize::from(is_long)];
    let once = DIFFERED.into_iter().filter(|&seed| seed >= count);
    for seed in (0..count).chain(once) {
        wrong.extend(differences(seed, &draw(seed), profile, &mut counts));
    }
    println!("{counts:?}");
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        counts[&Verdict::All] > 100 && counts[&Verdict::None] > 100,
        "{counts:?}"
    );
}

#[test]
fn what_is_said_of_each_pair_is_what_kernels_do() {
    agree(Profile::Lustre, |seed| draw(seed, false), SITES);
}

#[test]
fn what_is_said_of_each_pair_is_what_finerails_nodes_do() {
    agree(Profile::Design, |seed| draw(seed, true), SITES);
}

#[test]
fn what_is_said_of_chains_of_routers_is_what_kernels_do_and_what_the_check_finds() {
    agree(Profile::Lustre, draw_chain, CHAINS);
}

/// What its gateways answer keeps the net of a router up where the document names the profile `design`. A document that
/// names none may be a kernel's.
// [GATE-37]
#[test]
fn answers_of_gateways_count_only_where_the_profile_is_named() {
    let drafts = draw(93, false);
    for (profile, verdict) in [
        (Some(Profile::Design), Verdict::All),
        (Some(Profile::Lustre), Verdict::None),
        (None, Verdict::None),
    ] {
        let (site, checked) = (site(&drafts, profile), Checked::new(&drafts, profile));
        let told = verdicts(&site, &BTreeSet::new(), pairs(&site));
        assert_eq!(told[&(1, 0)][0].1, verdict, "{profile:?}");
        let lost = checked.loses(("end1", "end0"), Direction::Requests, None);
        assert_eq!(lost, Some(verdict == Verdict::None), "{profile:?}");
    }
}

/// Chains without the simulator: the check and the site's model agree on each pair and each single failure.
#[test]
fn the_check_and_the_model_of_a_site_agree_on_chains() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for seed in 0..MODELS {
        let drafts = draw_chain(seed);
        let (site, checked) = (
            site(&drafts, Some(Profile::Lustre)),
            Checked::new(&drafts, Some(Profile::Lustre)),
        );
        for (failed, _) in failures(&site) {
            let told = verdicts(&site, &failed, pairs(&site));
            for (from, to, ni) in questions(&site) {
                let pair = (from as usize, to as usize);
                let (_, verdict) = told[&pair][usize::from(ni)];
                compared += 1;
                wrong.extend(differs_from_check(
                    seed, &site, &checked, pair, &failed, verdict,
                ));
            }
        }
    }
    assert!(compared > 10_000, "{compared}");
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
