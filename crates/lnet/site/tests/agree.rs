//! Compares `site reach` with the simulator. Sites are drawn at random, with and without errors. The verdict of
//! each pair must equal the behaviour of simulated nodes that have the same documents: without a failure, and after
//! each single failure of a router or of one of its interfaces.
//!
//! ```text
//!   seed ─▶ documents ─▶ site ─▶ verdicts ──────────┐
//!                          └▶ cores ─▶ answers ─────┴▶ equal
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

/// The times in seconds at which a failure begins, messages are sent, and the run ends. At `ASK_S` the failure must
/// have been noticed: gateways are pinged every 6 s, and an interface without traffic counts as down after 10 s.
const BEGIN_S: u64 = 1;
const ASK_S: u64 = 60;
const END_S: u64 = 100;

/// The number of messages of each pair. Each of several equal paths gets some of them.
const MESSAGES: u64 = 12;

const NETS: [&str; 4] = ["tcp", "tcp1", "tcp2", "tcp3"];

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
    fn text(&self, at: usize, profile: Profile) -> String {
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
        let _infallible = write!(
            text,
            "routing: {{enable: {}}}\nglobal: {{drop_asym_route: {}, profile: {}}}\n",
            u8::from(self.routing),
            u8::from(self.drop_asym),
            profile.name()
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

fn site(drafts: &[Draft], profile: Profile) -> Site {
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

/// Returns how many messages of each question are answered.
fn answered(site: &Site, profile: Profile, seed: u64, troubles: &[Trouble]) -> Vec<u64> {
    let questions = questions(site);
    let mut operations = Vec::new();
    // The questions run one after another. If they ran at the same time, messages of other questions would take
    // turns with these messages at equal paths, and a question might use the same path every time.
    for (number, &(from, to, to_ni)) in (0_u64..).zip(&questions) {
        for round in 0..MESSAGES {
            operations.push(Operation {
                at: ASK_S * 1_000_000_000 + (number * MESSAGES + round) * 10_000_000,
                from,
                to,
                to_ni,
                kind: OperationKind::PutAck,
                length: 64,
                cancel_after: 0,
            });
        }
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
    let mut answered = vec![MESSAGES; questions.len()];
    for operation in outcome.unanswered {
        answered[operation as usize / MESSAGES as usize] -= 1;
    }
    answered
}

/// Returns the differences in words, and counts the verdicts of each kind.
fn differences(seed: u64, profile: Profile, counts: &mut BTreeMap<Verdict, u64>) -> Vec<String> {
    let site = site(&draw(seed, !profile.is_lustre()), profile);
    let mut wrong = Vec::new();
    for (failed, troubles) in failures(&site) {
        let seen = answered(&site, profile, seed, &troubles);
        let mut known = BTreeMap::new();
        for (number, &(from, to, ni)) in questions(&site).iter().enumerate() {
            let (from, to) = (from as usize, to as usize);
            let told = known
                .entry((from, to))
                .or_insert_with(|| verdicts(&site, &failed, from, to));
            let (nid, verdict) = told[usize::from(ni)];
            *counts.entry(verdict).or_default() += 1;
            let count = seen[number];
            // Unlike kernels, Finerail's own nodes try another path if a gateway is silent, and count a gateway as
            // up if they receive messages from it.
            let agrees = match verdict {
                Verdict::All => count == MESSAGES,
                Verdict::Some => (1..MESSAGES).contains(&count),
                Verdict::None => count == 0 || profile == Profile::Design && count < MESSAGES,
            };
            if !agrees {
                let name = &site.members[from].text.name;
                wrong.push(format!(
                    "seed {seed}, without {failed:?}: {name} to {nid}: {verdict:?}, and {count} of {MESSAGES} arrive"
                ));
            }
        }
    }
    wrong
}

fn agree(profile: Profile) {
    let is_long = std::env::var_os("FINERAIL_LONG").is_some_and(|value| value == "1");
    let mut counts = BTreeMap::new();
    let mut wrong = Vec::new();
    for seed in 0..SITES[usize::from(is_long)] {
        wrong.extend(differences(seed, profile, &mut counts));
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
    agree(Profile::Lustre);
}

#[test]
fn what_is_said_of_each_pair_is_what_finerails_nodes_do() {
    agree(Profile::Design);
}
