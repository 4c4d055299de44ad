//! Lints of the selection rules.

use std::collections::BTreeSet;

use lnet_config::{PeerShow, Problem, Step, UdspAction};
use lnet_policy::{
    Argument, Policy, PolicyError, Priority, Profile, RuleState, Selector, Topology, audit,
};
use lnet_types::expr::{Descriptor, NetExpr};
use lnet_types::{Net, Nid};

use crate::lint::catalogue::{
    PAIR_DOES_NOT_ATTRACT, PRIORITIES_CONFLICT, RULE_DEAD, RULE_IMPORT, RULE_WITHOUT_EFFECT,
    Severity,
};
use crate::lint::finding::Finding;
use crate::lint::node::{Node, PlacedRule, listed};

const fn at(entry: usize) -> [Step<'static>; 2] {
    [Step::Key("udsp"), Step::Item(entry)]
}

/// Reports rules that no node can apply.
pub(super) fn rule_dead(node: &Node<'_>) -> Vec<Finding> {
    let refused = node.dead.iter().map(|(entry, error)| {
        let reason = format!("the rule has no effect anywhere: {error}");
        let [section, item] = at(*entry);
        let path = match error {
            PolicyError::Unparsable { argument, .. } | PolicyError::SeveralNetRanges(argument) => {
                vec![section, item, Step::Key(key(*argument))]
            }
            _ => vec![section, item],
        };
        let fix = Problem::Rule(error.clone()).help();
        node.finding(&RULE_DEAD, &path, reason, format!("delete it, or: {fix}"))
    });
    let inert = node.rules.iter().filter_map(|placed| {
        let (side, what) = match placed.rule.selector() {
            Selector::Pair {
                local: Descriptor::Net(net),
                ..
            } => ("src", net.to_string()),
            Selector::Router {
                gateway: Descriptor::Net(net),
                ..
            } => ("rte", net.to_string()),
            _ => return None,
        };
        let reason = format!(
            "the rule has {side} {what}, a net, which matches no NID: no preferred list gets an entry"
        );
        let fix = format!("write {side} as NIDs, such as *.*.*.*@{what}");
        Some(node.finding(&RULE_DEAD, &at(placed.entry), reason, fix))
    });
    refused.chain(inert).collect()
}

const fn key(argument: Argument) -> &'static str {
    match argument {
        Argument::Src => "src",
        Argument::Dst => "dst",
        Argument::Rte => "rte",
    }
}

/// Reports rules that match nothing on this node, or whose values other rules set.
pub(super) fn rule_without_effect(node: &Node<'_>) -> Vec<Finding> {
    if node.is_partial() || node.lacks(&["route", "peer"]) {
        return Vec::new();
    }
    let hidden = hidden(node);
    let surroundings = Surroundings::new(node);
    let told = node.rules.iter().filter_map(|placed| {
        let why = surroundings.unmatched(node, placed).or_else(|| {
            let by = hidden.get(placed.index)?.as_ref()?;
            Some(format!(
                "everything that it matches is set by rule {}",
                listed(by)
            ))
        })?;
        let reason = format!(
            "rule {} ({}) does nothing here: {why}",
            placed.index, placed.rule
        );
        let fix = "delete it, or correct its expressions".to_owned();
        Some(node.finding(&RULE_WITHOUT_EFFECT, &at(placed.entry), reason, fix))
    });
    told.collect()
}

/// Returns, for each rule about local nets and NIs, the rules that hide it. Rules about peers are not examined,
/// because the peers of a node change.
fn hidden(node: &Node<'_>) -> Vec<Option<Vec<usize>>> {
    if !node.knows_nids() {
        return Vec::new();
    }
    let topology = Topology {
        local: node.nids().collect(),
        ..Topology::default()
    };
    let states = audit(&node.list, &topology, Profile::Design);
    let by = states.into_iter().map(|state| match state {
        RuleState::Shadowed { by } => Some(by),
        _ => None,
    });
    by.collect()
}

/// The objects that rules of this node can match, apart from local NIs.
struct Surroundings {
    /// The nets of this node, of its routes and of its peers. Other peers may appear later.
    nets: BTreeSet<Net>,
    /// The NIDs of gateways that the document names.
    gateways: BTreeSet<Nid>,
}

impl Surroundings {
    fn new(node: &Node<'_>) -> Self {
        let mut nets = node.reached().clone();
        let mut gateways: BTreeSet<Nid> =
            node.routes.iter().map(|route| route.show.gateway).collect();
        for (_, peer) in node.peers() {
            let nids = peer.nis.iter().map(|ni| ni.nid).chain([peer.primary]);
            let nids: Vec<Nid> = nids.collect();
            nets.extend(nids.iter().map(|nid| nid.net()));
            if nids.iter().any(|nid| gateways.contains(nid)) {
                gateways.extend(nids);
            }
        }
        Self { nets, gateways }
    }

    /// Returns the reason why a rule matches nothing here; `None` if it matches something.
    fn unmatched(&self, node: &Node<'_>, placed: &PlacedRule) -> Option<String> {
        if placed.rule.is_disabled() {
            return None;
        }
        let [src, dst, rte] = placed.rule.selector().descriptors();
        if let Some(src) = src.filter(|src| !matches_local(node, src)) {
            return Some(format!("no local network or NI is {src}"));
        }
        if let Some(dst) = dst.filter(|dst| !self.matches_remote(dst)) {
            return Some(format!(
                "no network that this node reaches, and none that a peer has, is in {dst}"
            ));
        }
        if let Some(why) = cannot_matter(node, placed.rule.selector()) {
            return Some(why);
        }
        match rte {
            Some(Descriptor::Nid(rte)) => {
                let is_known = self.gateways.iter().any(|&nid| rte.matches(nid));
                (!is_known).then(|| format!("no gateway is {rte}"))
            }
            _ => None,
        }
    }

    fn matches_remote(&self, descriptor: &Descriptor) -> bool {
        let expr = match descriptor {
            Descriptor::Net(net) => net,
            Descriptor::Nid(nid) => nid.net(),
        };
        self.nets.iter().any(|&net| expr.matches(net))
    }
}

/// Returns the reason why a matching rule decides nothing: the sender has no choice between the objects that the
/// rule ranks. Messages to a peer that is not Multi-Rail always go to the NID
/// that the sender names.
fn cannot_matter(node: &Node<'_>, selector: &Selector) -> Option<String> {
    let ranked: &dyn Fn(Nid) -> bool = match selector {
        Selector::Remote(Descriptor::Nid(expr)) => &|nid| expr.matches(nid),
        Selector::Remote(Descriptor::Net(expr)) | Selector::Local(Descriptor::Net(expr)) => {
            &|nid| expr.matches(nid.net())
        }
        _ => return None,
    };
    let peers = &node.document().peers;
    let is_off = node.document().globals.discovery == Some(false);
    if is_off && !peers.is_empty() && !peers.iter().any(|peer| peer.multi_rail) {
        return Some(
            "no peer is Multi-Rail, and discovery is off, and none can become so: messages go to the NID that \
             the sender names"
                .to_owned(),
        );
    }
    let matched = peers.iter().filter(|peer| {
        let nids = peer.nis.iter().map(|ni| ni.nid).chain([peer.primary]);
        let nids: Vec<Nid> = nids.collect();
        nids.into_iter().any(ranked)
    });
    let matched: Vec<_> = matched.collect();
    let by_dst = matches!(selector, Selector::Remote(_));
    if by_dst && !matched.is_empty() && matched.iter().all(|peer| !peer.multi_rail) {
        return Some(format!(
            "its matches belong to {}, which is not Multi-Rail: messages go to the NID that the sender names",
            listed(matched.iter().take(3).map(|peer| peer.primary))
        ));
    }
    None
}

fn matches_local(node: &Node<'_>, descriptor: &Descriptor) -> bool {
    let any_net = |expr: &NetExpr| node.local().iter().any(|&net| expr.matches(net));
    match descriptor {
        Descriptor::Net(net) => any_net(net),
        Descriptor::Nid(nid) if node.knows_nids() => node.nids().any(|local| nid.matches(local)),
        Descriptor::Nid(nid) => any_net(nid.net()),
    }
}

/// Returns whether no peer that a rule concerns is Multi-Rail: messages to such a peer leave by the source that a pair
/// rule prefers.
fn is_for_single_rail(node: &Node<'_>, remote: &Descriptor) -> bool {
    let is_meant = |nid: Nid| match remote {
        Descriptor::Nid(nids) => nids.matches(nid),
        Descriptor::Net(nets) => nets.matches(nid.net()),
    };
    let meant =
        |peer: &PeerShow| is_meant(peer.primary) || peer.nis.iter().any(|ni| is_meant(ni.nid));
    let mut peers = node.peers().filter(|(_, peer)| meant(peer)).peekable();
    peers.peek().is_some() && peers.all(|(_, peer)| !peer.multi_rail)
}

/// Reports pair rules whose source NI is not preferred: a pair rule attracts no traffic to its source, because the
/// local NI is chosen first.
pub(super) fn pair_does_not_attract(node: &Node<'_>) -> Vec<Finding> {
    if !node.knows_nids() || node.lacks(&["udsp"]) {
        return Vec::new();
    }
    let local: Vec<Nid> = node.nids().collect();
    let policy = Policy::new(&node.list, Profile::Design, &local, &[]);
    let told = node.rules.iter().filter_map(|placed| {
        let Selector::Pair { local: Descriptor::Nid(source), remote } = placed.rule.selector() else {
            return None;
        };
        if is_for_single_rail(node, remote) {
            return None;
        }
        let best_of = |nids: &mut dyn Iterator<Item = &Nid>| nids.map(|&nid| policy.local_ni(nid).priority).min();
        let ours = best_of(&mut local.iter().filter(|nid| source.matches(**nid)))?;
        let nets: Vec<Net> = local.iter().filter(|nid| source.matches(**nid)).map(|nid| nid.net()).collect();
        let is_rival = |nid: &&Nid| nets.contains(&nid.net()) && !source.matches(**nid);
        let rivals = best_of(&mut local.iter().filter(is_rival))?;
        let (severity, what) = match ours.cmp(&rivals) {
            std::cmp::Ordering::Less => return None,
            std::cmp::Ordering::Equal => (Severity::Note, "other NIs of its net are selected as often"),
            std::cmp::Ordering::Greater => (Severity::Warning, "rules give another NI of its net a better priority"),
        };
        let reason = format!(
            "rule {} prefers {source}, and {what}: the local NI is selected before any preferred list is used",
            placed.index
        );
        let fix = format!("to attract traffic to it: lnetctl udsp add --src {source} --priority 0");
        let made = node.finding(&PAIR_DOES_NOT_ATTRACT, &at(placed.entry), reason, fix);
        Some(made.with_severity(severity))
    });
    told.collect()
}

/// Reports rules that rank the nets of the local side and of the remote side in opposite order.
pub(super) fn priorities_conflict(node: &Node<'_>) -> Vec<Finding> {
    if node.lacks(&["udsp"]) {
        return Vec::new();
    }
    let mut policy = Policy::new(&node.list, Profile::Design, &[], &[]);
    // One net stands for all nets with the same ranks.
    let mut seen = BTreeSet::new();
    let ranks = node.nets().into_iter().filter_map(|net| {
        let (local, peer) = (policy.local_net(net), policy.peer_net(net));
        let is_new = seen.insert((local.priority, peer.priority));
        is_new.then_some((net, local.priority, peer.priority, local.set_by))
    });
    let ranks: Vec<(Net, Priority, Priority, Option<usize>)> = ranks.collect();
    let mut found = Vec::new();
    for (at_net, &(a, local_a, peer_a, rule_a)) in ranks.iter().enumerate() {
        for &(b, local_b, peer_b, rule_b) in ranks.iter().skip(at_net + 1) {
            let opposite = local_a.cmp(&local_b) == peer_a.cmp(&peer_b).reverse();
            if local_a == local_b || !opposite {
                continue;
            }
            let (by_src, by_dst) = if local_a < local_b { (a, b) } else { (b, a) };
            let placed = node
                .rules
                .iter()
                .find(|one| Some(one.index) == rule_a.or(rule_b));
            let path = placed.map_or([Step::Key("udsp"), Step::Item(0)], |one| at(one.entry));
            let reason = format!(
                "src rules put {by_src} before {by_dst} and dst rules put {by_dst} before {by_src}: the dst rules win \
                 if a peer has both"
            );
            let fix = "rank the two networks on one side only".to_owned();
            found.push(node.finding(&PRIORITIES_CONFLICT, &path, reason, fix));
        }
    }
    found
}

/// Reports rules that the import of kernel nodes reads wrongly.
pub(super) fn rule_import(node: &Node<'_>) -> Vec<Finding> {
    let dead: BTreeSet<usize> = node.dead.iter().map(|(entry, _)| *entry).collect();
    let mut earlier_priority = false;
    let mut found = Vec::new();
    for (entry, rule) in node.document().udsp.iter().enumerate() {
        // Another lint reports rules that are not valid.
        if dead.contains(&entry) {
            continue;
        }
        let mut what = Vec::new();
        match rule.action {
            Some(UdspAction::Priority(0)) => what.push("rejects a priority of 0 (Q-21)"),
            None if earlier_priority => {
                what.push("gives it the priority of an entry before (Q-24)")
            }
            None => what.push("gives it a priority of -1, with which a list rule is dead (Q-23)"),
            _ => {}
        }
        if rule.idx.is_none() {
            what.push("ignores an entry without idx (Q-22)");
        }
        earlier_priority |= matches!(rule.action, Some(UdspAction::Priority(_)));
        if !what.is_empty() {
            let reason = format!("the import of kernel nodes {}", what.join(", and "));
            let fix = RULE_IMPORT.helps.to_owned();
            found.push(node.finding(&RULE_IMPORT, &at(entry), reason, fix));
        }
    }
    found
}
