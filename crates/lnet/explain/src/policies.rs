//! The effects of the rules: which rule sets which value, which rules do nothing, and which rules a kernel may not
//! have applied.

use std::collections::{BTreeMap, BTreeSet};

use lnet_core::SelectionState;
use lnet_policy::{
    Effective, Effects, Gateway, Inert, Peer, PeerEffects, PreferredList, Profile, RuleKind,
    RuleState, Side, Topology, audit, evaluate,
};
use lnet_types::Nid;

use crate::explanation::{Policies, PolicyValue, RuleReport};
use crate::node::{Node, ShownPriority};

/// Returns the rules of a node, and their effects there.
pub(crate) fn policies(node: &Node, to: Nid) -> Policies {
    let mut topology = topology(&node.state);
    // The values of the destination come first, because there may be many values.
    topology.peers.sort_by_key(|peer| !peer.nis.contains(&to));
    Policies {
        values: values(node, &topology),
        rules: rules(node, &topology),
        unapplied: unapplied(node, &topology),
    }
}

/// Returns the objects that rules can match.
pub(crate) fn topology(state: &SelectionState) -> Topology {
    let owned: BTreeSet<Nid> = state
        .peers
        .iter()
        .flat_map(|peer| peer.nids.iter().copied())
        .collect();
    let known = |nid: Nid| owned.contains(&nid);
    let gateways: BTreeSet<Nid> = state.gateways.iter().map(|gateway| gateway.nid).collect();
    let primary = |peer: &lnet_core::PeerSelection| peer.nids.first().copied();
    let is_gateway =
        |peer: &&lnet_core::PeerSelection| peer.nids.iter().any(|nid| gateways.contains(nid));
    let routers = state.peers.iter().filter(is_gateway).filter_map(|peer| {
        Some(Gateway {
            primary: primary(peer)?,
            others: peer.nids.get(1..)?.to_vec(),
        })
    });
    let lone = state.gateways.iter().filter(|gateway| !known(gateway.nid));
    let lone = lone.map(|gateway| Gateway {
        primary: gateway.nid,
        others: Vec::new(),
    });
    let peers = state.peers.iter().filter_map(|peer| {
        Some(Peer {
            primary: primary(peer)?,
            multi_rail: peer.multi_rail,
            nis: peer.nids.clone(),
        })
    });
    let found = state.peer_nis.iter().filter(|ni| !known(ni.nid));
    let found = found.map(|ni| Peer {
        primary: ni.nid,
        multi_rail: false,
        nis: vec![ni.nid],
    });
    Topology {
        local: state.nis.iter().map(|ni| ni.nid).collect(),
        gateways: routers.chain(lone).collect(),
        peers: peers.chain(found).collect(),
    }
}

fn values(node: &Node, topology: &Topology) -> Vec<PolicyValue> {
    let profile = node.state.config.globals.profile;
    let effects = evaluate(&node.state.rules, topology, profile);
    let mut values = Values {
        node,
        list: Vec::new(),
    };
    for (net, effect) in &effects.local_nets {
        values.priority(format!("local net {net}"), effect);
    }
    for (nid, effect) in &effects.local_nis {
        values.priority(format!("local NI {}", node.label(*nid)), effect);
    }
    for peer in &effects.peers {
        for (net, effect) in &peer.nets {
            values.priority(format!("peer net {net} of {}", peer.primary), effect);
        }
        for (nid, effect) in &peer.nis {
            let object = format!("peer NI {nid}");
            values.priority(object.clone(), &effect.priority);
            values.preferred(&object, "preferred source", &effect.sources);
            values.preferred(&object, "preferred gateway", &effect.gateways);
        }
    }
    values.list
}

struct Values<'a> {
    node: &'a Node,
    list: Vec<PolicyValue>,
}

impl Values<'_> {
    fn priority(&mut self, object: String, effect: &Effective) {
        if let Some(rule) = effect.set_by {
            self.push(object, format!("priority {}", effect.priority), rule);
        }
    }

    fn preferred(&mut self, object: &str, what: &str, list: &PreferredList) {
        for entry in list.entries() {
            let value = format!("{what} {}", entry.nid);
            self.push(object.to_owned(), value, entry.set_by);
        }
    }

    fn push(&mut self, object: String, value: String, rule: usize) {
        let text = self.node.state.rules.get(rule).map(ToString::to_string);
        self.list.push(PolicyValue {
            object,
            value,
            rule,
            text: text.unwrap_or_default(),
        });
    }
}

fn rules(node: &Node, topology: &Topology) -> Vec<RuleReport> {
    let profile = node.state.config.globals.profile;
    let rules = &node.state.rules;
    let states = audit(rules, topology, profile);
    let reports = rules.rules().iter().zip(states).enumerate();
    reports
        .map(|(index, (rule, state))| RuleReport {
            index,
            text: rule.to_string(),
            live: state == RuleState::Live,
            state: in_words(&state, rule.kind()) + why_unmatched(node, &state),
        })
        .collect()
}

/// Adds why a rule matches no peer, if it may match one later or may match one that is not in the input.
fn why_unmatched(node: &Node, state: &RuleState) -> &'static str {
    match state {
        RuleState::Unmatched(Side::Remote) if !node.facts.discovery => {
            "; discovery is off, so that peers have only the NIDs that are configured"
        }
        RuleState::Unmatched(Side::Remote) if !node.is_exact() => {
            "; peers that are not in the input are not considered"
        }
        _ => "",
    }
}

/// Returns what a rule does, or why it does nothing.
pub(crate) fn in_words(state: &RuleState, kind: RuleKind) -> String {
    match state {
        RuleState::Live if matches!(kind, RuleKind::NidPair | RuleKind::NetPair) => {
            "in force: decides among peer NIs after its source is selected, and attracts nothing to the source, except \
             for peers that are not Multi-Rail"
                .to_owned()
        }
        RuleState::Live => "in force".to_owned(),
        RuleState::Disabled => "disabled".to_owned(),
        RuleState::Inert(Inert::NetAsSource) => {
            "can do nothing: its source is a net, and a net matches no local NID".to_owned()
        }
        RuleState::Inert(Inert::NetAsGateway) => {
            "can do nothing: its gateway is a net, and a net matches no gateway".to_owned()
        }
        RuleState::Unmatched(Side::Local) => "matches nothing: there is no such local net or NI".to_owned(),
        RuleState::Unmatched(Side::Remote) => "matches nothing: there is no such peer net or NI".to_owned(),
        RuleState::Unmatched(Side::Gateway) => "matches nothing: there is no such gateway".to_owned(),
        RuleState::Shadowed { by } => {
            let by: Vec<String> = by.iter().map(ToString::to_string).collect();
            format!("shadowed: everything that it matches is set by rule {}", by.join(", "))
        }
    }
}

/// Returns why a kernel may not have applied rules. In a kernel, effective values depend on the order of events
/// (`docs/selection/releases.md`, Q-12 to Q-15). The values that the node shows are compared with its rules; in addition, each rule of a kind
/// that may be affected is named.
fn unapplied(node: &Node, topology: &Topology) -> Vec<String> {
    if !node.state.config.globals.profile.is_lustre() {
        return Vec::new();
    }
    let effects = evaluate(&node.state.rules, topology, Profile::Lustre);
    let mut told = Vec::new();
    let peers = effects.peers.iter();
    let of_peers = peers.flat_map(|peer| peer.nis.iter().map(move |(nid, _)| (*nid, peer)));
    let of_peers: BTreeMap<Nid, &PeerEffects> = of_peers.collect();
    for shown in &node.facts.shown {
        let peer = of_peers.get(&shown.nid).copied();
        let told_of = Shown {
            shown,
            effects: &effects,
            peer,
        };
        told.extend(told_of.net());
        told.extend(told_of.own());
    }
    told.extend(
        node.state
            .rules
            .rules()
            .iter()
            .enumerate()
            .filter_map(|(index, rule)| {
                let why = may_be_unapplied(rule.kind())?;
                Some(format!("rule {index} ({rule}): {why}"))
            }),
    );
    told
}

/// The priorities that a node shows, and the priorities that its rules set.
struct Shown<'a> {
    shown: &'a ShownPriority,
    effects: &'a Effects,
    peer: Option<&'a PeerEffects>,
}

impl Shown<'_> {
    fn own(&self) -> Option<String> {
        let nid = self.shown.nid;
        let by_nid = |of: &&(Nid, Effective)| of.0 == nid;
        let expected = if self.shown.local {
            self.effects.local_nis.iter().find(by_nid)?.1
        } else {
            self.peer?
                .nis
                .iter()
                .find(|(one, _)| *one == nid)?
                .1
                .priority
        };
        unlike("NID", nid, self.shown.own, &expected)
    }

    fn net(&self) -> Option<String> {
        let nid = self.shown.nid;
        let nets = if self.shown.local {
            &self.effects.local_nets
        } else {
            &self.peer?.nets
        };
        let (_, expected) = nets.iter().find(|(net, _)| *net == nid.net())?;
        unlike("net", nid, self.shown.net, expected)
    }
}

fn unlike(of: &str, nid: Nid, shown: Option<u32>, expected: &Effective) -> Option<String> {
    let shown = shown.map_or_else(|| "-1".to_owned(), |value| value.to_string());
    let priority = expected.priority.to_string();
    let by = expected
        .set_by
        .map_or(String::new(), |rule| format!(" (rule {rule})"));
    (shown != priority).then(|| {
        format!("{nid}: the node shows {of} priority {shown}, its rules say {priority}{by}: not applied since")
    })
}

fn may_be_unapplied(kind: RuleKind) -> Option<&'static str> {
    match kind {
        RuleKind::NetPair => Some("does not reach peers created after it (Q-12)"),
        RuleKind::NidPair => Some("does not reach local NIs added after it (Q-14)"),
        RuleKind::Router => {
            Some("does not see routes added after it (Q-15), nor, for a net, later peers (Q-12)")
        }
        _ => None,
    }
}
