//! What the rules do: who set which value, which rules do nothing, and what a kernel may have left out.

use lnet_core::SelectionState;
use lnet_policy::{
    Effective, Gateway, Inert, Peer, PreferredList, Profile, RuleKind, RuleState, Side, Topology,
    audit, evaluate,
};
use lnet_types::Nid;

use crate::explanation::{Policies, PolicyValue, RuleReport};
use crate::node::Node;

/// The rules of a node, and what they do there.
pub(crate) fn policies(node: &Node) -> Policies {
    let topology = topology(&node.state);
    Policies {
        values: values(node, &topology),
        rules: rules(node, &topology),
        unapplied: unapplied(node, &topology),
    }
}

/// What rules can speak of.
pub(crate) fn topology(state: &SelectionState) -> Topology {
    let known = |nid: Nid| state.peers.iter().any(|peer| peer.nids.contains(&nid));
    let primary = |peer: &lnet_core::PeerSelection| peer.nids.first().copied();
    let is_gateway = |peer: &&lnet_core::PeerSelection| {
        let mut gateways = state.gateways.iter();
        gateways.any(|gateway| peer.nids.contains(&gateway.nid))
    };
    let gateways = state.peers.iter().filter(is_gateway).filter_map(|peer| {
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
        gateways: gateways.chain(lone).collect(),
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
            state: in_words(&state, rule.kind()),
        })
        .collect()
}

/// What a rule does, or why it does nothing.
pub(crate) fn in_words(state: &RuleState, kind: RuleKind) -> String {
    match state {
        RuleState::Live if matches!(kind, RuleKind::NidPair | RuleKind::NetPair) => {
            "in force: decides among peer NIs once its source is chosen, and draws nothing to the source"
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
        RuleState::Unmatched(Side::Local) => "matches nothing: no local net or NI is so".to_owned(),
        RuleState::Unmatched(Side::Remote) => "matches nothing: no peer net or NI is so".to_owned(),
        RuleState::Unmatched(Side::Gateway) => "matches nothing: no gateway is so".to_owned(),
        RuleState::Shadowed { by } => {
            let by: Vec<String> = by.iter().map(ToString::to_string).collect();
            format!("shadowed: all that it matches is set by rule {}", by.join(", "))
        }
    }
}

/// In a kernel effective values depend on what came first. What the node itself shows
/// decides; where it shows nothing, the kinds of rule that may be affected are named.
fn unapplied(node: &Node, topology: &Topology) -> Vec<String> {
    if node.state.config.globals.profile != Profile::Lustre {
        return Vec::new();
    }
    let effects = evaluate(&node.state.rules, topology, Profile::Lustre);
    let mut told = Vec::new();
    for shown in &node.facts.shown {
        let expected = if shown.local {
            let of_ni = effects.local_nis.iter().find(|(nid, _)| *nid == shown.nid);
            of_ni.map(|(_, effect)| *effect)
        } else {
            let mut of_peers = effects.peers.iter().flat_map(|peer| &peer.nis);
            let of_ni = of_peers.find(|(nid, _)| *nid == shown.nid);
            of_ni.map(|(_, effect)| effect.priority)
        };
        let Some(expected) = expected else { continue };
        let value = shown
            .own
            .map_or_else(|| "-1".to_owned(), |value| value.to_string());
        if value != expected.priority.to_string() {
            let by = expected
                .set_by
                .map_or(String::new(), |rule| format!(" (rule {rule})"));
            told.push(format!(
                "{}: the node shows NID priority {value}, its rules say {}{by}: not applied since",
                shown.nid, expected.priority
            ));
        }
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
