//! Compiles a document into a world.

use std::time::Duration;

use lnet_core::{Globals, Route, RouterBuffers, Tunables};
use lnet_policy::{Action, Priority, Profile, Rule, RuleList, RuleText as Text};
use lnet_types::{LndType, Net, Nid};
use serde_saphyr::Spanned;

use super::document::{
    Document, FabricText, GlobalsText, GroupText, KindText, LinkText, NiText, ProfileText,
    RandomFaults, RuleText, TrafficText,
};
use super::error::ScenarioError;
use super::{fault, shape};
use crate::cores::lnd::LndKind;
use crate::cores::plan::{Fault, NiSpec, NodeSpec, Operation, OperationKind, Speed, World};
use crate::random::Random;

/// The limit on the nodes of a scenario: somewhat more than the largest machines have.
const NODES_MAX: u32 = 200_000;

/// The limit on the operations of a run. Each takes 32 bytes.
const OPERATIONS_MAX: u64 = 20_000_000;

/// The limit on all times: a hundred days, in nanoseconds.
pub(super) const SPAN_MAX_NS: u64 = 8_640_000_000_000_000;

/// The slowest speed of a link: a megabyte a second, in picoseconds per byte.
const PICOSECONDS_MAX: f64 = 1e6;

/// The limit on the interfaces of a node: the last byte of the address is the interface's number.
const NIS_MAX: usize = 254;

/// The limit on the payload of one message, in bytes.
const MTU: u32 = 1 << 20;

/// A scenario whose names are resolved.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub(super) world: World,
    traffic: Vec<Traffic>,
    pub(super) faults: Vec<Fault>,
    pub(super) random_faults: Option<RandomFaults>,
}

/// Traffic of nodes that do the same at the same pace.
#[derive(Clone, Debug)]
struct Traffic {
    from: Vec<u32>,
    to: Vec<u32>,
    kind: OperationKind,
    length: u32,
    every: u64,
    count: u32,
    begin: u64,
}

/// A group of nodes, by their indices in the world.
struct Group {
    name: String,
    nodes: Vec<u32>,
}

pub(super) fn nanoseconds(seconds: f64) -> u64 {
    // The cast saturates, and NaN becomes 0.
    ((seconds * 1e9).round() as u64).min(SPAN_MAX_NS)
}

fn speed(link: LinkText) -> Speed {
    let picoseconds = (1000.0 / link.gigabytes_per_second).round();
    Speed {
        latency_ns: link.latency_ns.into(),
        picoseconds_per_byte: picoseconds.clamp(0.0, PICOSECONDS_MAX) as u64,
    }
}

pub(super) fn compile(document: &Document) -> Result<Compiled, ScenarioError> {
    let mut world = World {
        globals: globals(&document.globals)?,
        ..World::default()
    };
    shape::build(&mut world, checked_shape(document)?, speed(document.link));
    let mut groups = Vec::new();
    for group in &document.nodes {
        let nodes = add_group(&mut world, document, group, &groups)?;
        groups.push(nodes);
    }
    for group in &document.nodes {
        add_routes(&mut world, group, &groups)?;
    }
    let traffic: Result<Vec<_>, _> = document
        .traffic
        .iter()
        .map(|text| traffic(text, &groups))
        .collect();
    let faults: Result<Vec<_>, _> = document
        .faults
        .iter()
        .map(|text| fault::faults(text, &world))
        .collect();
    Ok(Compiled {
        traffic: traffic?,
        faults: faults?.into_iter().flatten().collect(),
        random_faults: document.random_faults,
        world,
    })
}

fn checked_shape(document: &Document) -> Result<FabricText, ScenarioError> {
    let fabric = document.fabric;
    match shape::switches(fabric) {
        Some(_) => Ok(fabric),
        None => Err(ScenarioError {
            line: 1,
            column: 1,
            what: "the fabric has no switches, or too many".to_owned(),
            help: format!("give it 1 to {}", shape::SWITCHES_MAX),
        }),
    }
}

fn globals(text: &GlobalsText) -> Result<Globals, ScenarioError> {
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let mut globals = Globals::default();
    let timeout = text.transaction_timeout.as_ref();
    globals.transaction_timeout = timeout.map_or(globals.transaction_timeout, |s| seconds(s.value));
    globals.retry_count = text
        .retry_count
        .as_ref()
        .map_or(globals.retry_count, |r| r.value);
    let sensitivity = text.health_sensitivity.as_ref();
    globals.health_sensitivity = sensitivity.map_or(globals.health_sensitivity, |s| s.value);
    let ping = text.max_recovery_ping_interval;
    globals.max_recovery_ping_interval = ping.map_or(globals.max_recovery_ping_interval, seconds);
    let check = text.alive_router_check_interval;
    globals.alive_router_check_interval =
        check.map_or(globals.alive_router_check_interval, seconds);
    globals.router_ping_timeout = text
        .router_ping_timeout
        .map_or(globals.router_ping_timeout, seconds);
    globals.profile = match text.profile {
        Some(ProfileText::Lustre) => Profile::Lustre,
        Some(ProfileText::Lustre217) => Profile::Lustre217,
        Some(ProfileText::Design) | None => Profile::Design,
    };
    if let Some(timeout) = timeout.filter(|timeout| timeout.value <= globals.retry_count) {
        let help = "write more seconds than resends";
        return Err(ScenarioError::of(
            timeout,
            "no longer than retry_count",
            help,
        ));
    }
    if let Some(sensitivity) = sensitivity.filter(|value| !(1..=1000).contains(&value.value)) {
        let what = "a health sensitivity that lets nothing heal";
        return Err(ScenarioError::of(sensitivity, what, "write 1 to 1000"));
    }
    Ok(globals)
}

fn add_group(
    world: &mut World,
    document: &Document,
    group: &GroupText,
    before: &[Group],
) -> Result<Group, ScenarioError> {
    let name = &group.name;
    if before.iter().any(|known| known.name == name.value) {
        let what = format!("the group '{}' stands twice", name.value);
        return Err(ScenarioError::of(name, what, "give it another name"));
    }
    let total = world.nodes.len() as u64 + u64::from(group.count);
    if total > u64::from(NODES_MAX) || group.nis.is_empty() || group.nis.len() > NIS_MAX {
        let what = format!("{total} nodes in all, {} interfaces each", group.nis.len());
        let help = format!("at most {NODES_MAX} nodes, with 1 to {NIS_MAX} interfaces each");
        return Err(ScenarioError::of(name, what, help));
    }
    let rules = rules(&group.rules)?;
    let first = world.nodes.len() as u32;
    let base = first_address(before);
    for number in 0..group.count {
        let mut nis = Vec::with_capacity(group.nis.len());
        for (index, text) in group.nis.iter().enumerate() {
            let address = 0x0A00_0000 + (base << 16) + (number << 8) + index as u32 + 1;
            nis.push(ni(world, document, text, address, number)?);
        }
        world.nodes.push(NodeSpec {
            name: format!("{}{number}", name.value),
            nis,
            routing: group.routing,
            buffers: RouterBuffers::default(),
            discovery: true,
            drop_asym_route: false,
            routes: Vec::new(),
            rules: rules.clone(),
        });
    }
    Ok(Group {
        name: name.value.clone(),
        nodes: (first..first + group.count).collect(),
    })
}

/// Returns the first value of the second address byte for a group. Each group starts with a new value.
fn first_address(before: &[Group]) -> u32 {
    let sizes = before
        .iter()
        .map(|group| (group.nodes.len() as u32).div_ceil(256).max(1));
    sizes.sum()
}

fn ni(
    world: &mut World,
    document: &Document,
    text: &NiText,
    address: u32,
    number: u32,
) -> Result<NiSpec, ScenarioError> {
    let net = net(&text.net)?;
    let rail = text.rail.clone().unwrap_or_else(|| net.to_string());
    let switch = match text
        .switches
        .get(number as usize % text.switches.len().max(1))
    {
        None => switch_of_net(world, document, net),
        Some(switch) if switch.value < world.switches => switch.value,
        Some(switch) => {
            let what = format!("no switch {}", switch.value);
            let help = format!("the fabric has {}, counted from 0", world.switches);
            return Err(ScenarioError::of(switch, what, help));
        }
    };
    let tunables = Tunables::default();
    let is_stream = net.lnd == LndType::TCP;
    let of_net = if is_stream {
        LndKind::Sock
    } else {
        LndKind::O2ib
    };
    Ok(NiSpec {
        nid: Nid::from_number(net, address),
        tunables: Tunables {
            credits: text.credits.unwrap_or(tunables.credits).max(1),
            peer_credits: text.peer_credits.unwrap_or(tunables.peer_credits).max(1),
            ..tunables
        },
        lnd: text.lnd.unwrap_or(of_net),
        switch,
        speed: speed(text.link.unwrap_or(document.link)),
        rail: rail_of(world, rail),
    })
}

fn net(text: &Spanned<String>) -> Result<Net, ScenarioError> {
    let parsed = text.value.parse::<Net>().ok();
    parsed
        .filter(|net| *net != Net::LO && *net != Net::ANY)
        .ok_or_else(|| {
            let what = format!("'{}' is not a net", text.value);
            ScenarioError::of(text, what, "write one such as o2ib1 or tcp")
        })
}

/// Returns the switch of a net. A star has one switch for each net; other shapes use their first switch.
fn switch_of_net(world: &mut World, document: &Document, net: Net) -> u32 {
    if !matches!(document.fabric, FabricText::Star) {
        return 0;
    }
    let of_net = |node: &NodeSpec| {
        let ni = node.nis.iter().find(|ni| ni.nid.net() == net);
        ni.map(|ni| ni.switch)
    };
    if let Some(known) = world.nodes.iter().find_map(of_net) {
        return known;
    }
    // The interfaces of the node that is being made are not in the world yet, so switches are numbered by the order
    // of the nets in the document.
    let mut seen: Vec<Net> = Vec::new();
    for text in document.nodes.iter().flat_map(|group| &group.nis) {
        if let Ok(other) = text.net.value.parse::<Net>()
            && !seen.contains(&other)
        {
            seen.push(other);
        }
    }
    let switch = seen.iter().position(|other| *other == net).unwrap_or(0) as u32;
    world.switches = world.switches.max(switch + 1);
    switch
}

fn rail_of(world: &mut World, name: String) -> u16 {
    if let Some(at) = world.rails.iter().position(|known| *known == name) {
        return at as u16;
    }
    world.rails.push(name);
    (world.rails.len() - 1) as u16
}

fn rules(texts: &[Spanned<RuleText>]) -> Result<RuleList, ScenarioError> {
    let mut rules = RuleList::new();
    for text in texts {
        let RuleText {
            src,
            dst,
            rte,
            priority,
        } = &text.value;
        let wrong = |error: &dyn std::fmt::Display| {
            ScenarioError::of(text, format!("this rule is rejected: {error}"), "")
        };
        let action = priority.and_then(Priority::new).map(Action::Priority);
        let rule = Text {
            src: src.as_deref(),
            dst: dst.as_deref(),
            rte: rte.as_deref(),
            action,
        };
        let rule = Rule::from_text(&rule, Profile::Design).map_err(|error| wrong(&error))?;
        rules.add(rule, None).map_err(|error| wrong(&error))?;
    }
    Ok(rules)
}

fn group<'a>(name: &Spanned<String>, groups: &'a [Group]) -> Result<&'a Group, ScenarioError> {
    groups
        .iter()
        .find(|group| group.name == name.value)
        .ok_or_else(|| {
            let known: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
            let what = format!("no group of nodes '{}'", name.value);
            ScenarioError::of(name, what, format!("groups are: {}", known.join(", ")))
        })
}

fn add_routes(world: &mut World, of: &GroupText, groups: &[Group]) -> Result<(), ScenarioError> {
    for route in &of.routes {
        let remote = net(&route.net)?;
        let gateways = group(&route.gateways, groups)?;
        let members = group(&of.name, groups)?;
        for &member in &members.nodes {
            let Some(node) = world.nodes.get(member as usize) else {
                continue;
            };
            let local = |nid: Nid| node.nis.iter().any(|ni| ni.nid.net() == nid.net());
            let is_local = local(Nid::from_number(remote, 1));
            let reached = gateways.nodes.iter().filter_map(|&gateway| {
                let nis = &world.nodes.get(gateway as usize)?.nis;
                nis.iter()
                    .map(|ni| ni.nid)
                    .find(|&nid| local(nid) && nid.net() != remote)
            });
            let routes: Vec<Route> = reached
                .map(|gateway| Route {
                    net: remote,
                    gateway,
                    hops: None,
                    priority: route.priority,
                })
                .collect();
            if is_local || routes.is_empty() {
                let what = format!("no route to {remote} by '{}'", route.gateways.value);
                let help =
                    "gateways have an interface on a net of these nodes, which are not on it";
                return Err(ScenarioError::of(&route.gateways, what, help));
            }
            if let Some(node) = world.nodes.get_mut(member as usize) {
                node.routes.extend(routes);
            }
        }
    }
    Ok(())
}

fn traffic(text: &TrafficText, groups: &[Group]) -> Result<Traffic, ScenarioError> {
    let (from, to) = (group(&text.from, groups)?, group(&text.to, groups)?);
    if text.size.value > MTU {
        let what = format!(
            "{} bytes are more than one message carries",
            text.size.value
        );
        return Err(ScenarioError::of(
            &text.size,
            what,
            format!("write at most {MTU}"),
        ));
    }
    let operations = from.nodes.len() as u64 * u64::from(text.count);
    if operations > OPERATIONS_MAX || to.nodes.is_empty() {
        let what = format!("{operations} operations to {} nodes", to.nodes.len());
        let help = format!("at most {OPERATIONS_MAX}, to at least one node");
        return Err(ScenarioError::of(&text.to, what, help));
    }
    Ok(Traffic {
        from: from.nodes.clone(),
        to: to.nodes.clone(),
        kind: match text.kind {
            KindText::Put => OperationKind::Put,
            KindText::PutAck => OperationKind::PutAck,
            KindText::Get => OperationKind::Get,
        },
        length: text.size.value,
        every: text.every_us.saturating_mul(1000).min(SPAN_MAX_NS),
        count: text.count,
        begin: nanoseconds(text.begin),
    })
}

impl Compiled {
    /// Returns the operations of all nodes. Each node begins at a random time within its first pause, and uses its
    /// targets in turn.
    pub(super) fn operations(&self, random: &mut Random) -> Vec<Operation> {
        let mut operations = Vec::new();
        for traffic in &self.traffic {
            for (number, &from) in traffic.from.iter().enumerate() {
                let begin = traffic.begin + random.below(traffic.every);
                let targets = traffic.to.iter().filter(|&&to| to != from);
                let targets: Vec<u32> = targets.copied().collect();
                for turn in 0..traffic.count {
                    let target = (number + turn as usize) % targets.len().max(1);
                    let Some(&to) = targets.get(target) else {
                        break;
                    };
                    operations.push(Operation {
                        at: u64::from(turn)
                            .saturating_mul(traffic.every)
                            .saturating_add(begin)
                            .min(SPAN_MAX_NS),
                        from,
                        to,
                        to_ni: 0,
                        kind: traffic.kind,
                        length: traffic.length,
                        cancel_after: 0,
                    });
                }
            }
        }
        operations.sort_by_key(|operation| operation.at);
        operations
    }
}
