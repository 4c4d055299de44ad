//! The reverse path: the same analysis on the peer, if the peer's outputs are given.

use std::collections::BTreeSet;

use lnet_core::StateError;
use lnet_types::{LndType, Nid};
use serde::Serialize;

use crate::Question;
use crate::explanation::Explanation;
use crate::finding::{Code, Finding, Severity};
use crate::node::{Assumed, Node};

/// The path from the peer to this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reverse {
    /// The explanation of a message that the peer itself sends to the source NID of the first message.
    pub explanation: Explanation,
    /// The differences between the two paths. Responses (Ack, Reply) return by the path of their request.
    pub asymmetric: Vec<String>,
    /// True if the peer's document lacks the destination, so that the two paths cannot be compared.
    pub is_of_another: bool,
}

/// Explains a message from the peer to the source NID of `forward`; returns `None` if `forward` has no path. `node`
/// is the node that `forward` describes.
///
/// # Errors
///
/// Returns an error if no node can be in the peer's state.
pub fn reverse(
    node: &Node,
    peer: &Node,
    forward: &Explanation,
    question: &Question,
) -> Result<Option<Reverse>, StateError> {
    let Some(there) = &forward.answer.path else {
        return Ok(None);
    };
    let Ok(to) = there.source.parse() else {
        return Ok(None);
    };
    let back = Question {
        to,
        from: None,
        ..*question
    };
    let mut explanation = crate::explain(peer, &back)?;
    let missing = missing(peer, question.to);
    let is_of_another = missing.is_some();
    let asymmetric = match &explanation.answer.path {
        _ if is_of_another => Vec::new(),
        Some(back) => differences(there, back, peer),
        None => vec!["there is no path back".to_owned()],
    };
    let ends = [node, peer];
    // What another node has says nothing of the one that receives.
    let judged = (!is_of_another).then(|| {
        let own = explanation.answer.path.as_ref();
        let own = own.and_then(|back| dropped(node, ends, back));
        [dropped(peer, ends, there), own]
    });
    for finding in judged.into_iter().flatten().flatten().chain(missing) {
        explanation.findings.insert(0, finding);
    }
    if !is_of_another {
        let found = &mut explanation.findings;
        let at = found.partition_point(|one| one.severity >= Severity::Warning);
        found.splice(at..at, agreed(ends, there));
    }
    Ok(Some(Reverse {
        explanation,
        asymmetric,
        is_of_another,
    }))
}

/// Returns a finding if a node does not have the NID that messages go to.
fn missing(peer: &Node, to: Nid) -> Option<Finding> {
    let own = peer.state.nis.iter().map(|ni| ni.nid);
    let own: Vec<String> = own.map(|nid| nid.to_string()).collect();
    // Made-up NIDs stand for those that are not known.
    let is_known = !own.is_empty() && !peer.facts.assumed.contains(&Assumed::Nids);
    if !is_known || own.contains(&to.to_string()) {
        return None;
    }
    Some(Finding {
        code: Code::PeerMissing,
        severity: Severity::Error,
        subject: to.to_string(),
        text: format!(
            "the peer's document has no {to}: it has {}. No node of these files receives messages to {to}",
            own.join(", ")
        ),
        advice: "correct the NID, or give the document of the node that has it".to_owned(),
    })
}

/// Returns a finding if `receiver` drops the messages that arrive by `path`. A node with `drop_asym_route` drops
/// messages from a gateway by which it has no route back: [GATE-24].
///
/// The two ends know a gateway by different NIDs. The peers that either end lists show which NIDs belong to one
/// gateway.
fn dropped(receiver: &Node, ends: [&Node; 2], path: &crate::Path) -> Option<Finding> {
    let by: Nid = path.gateway.as_ref()?.parse().ok()?;
    let source: Nid = path.source.parse().ok()?;
    if !receiver.state.config.globals.drop_asym_route {
        return None;
    }
    let peers = ends.iter().flat_map(|end| &end.state.peers);
    let known: BTreeSet<Nid> = peers
        .filter(|peer| peer.nids.contains(&by))
        .flat_map(|peer| peer.nids.iter().copied())
        .collect();
    let routes = receiver.state.routes.iter();
    let routes = routes.filter(|one| one.route.net == source.net());
    let back: BTreeSet<Nid> = routes.map(|one| one.route.gateway).collect();
    let is_sure = known.iter().any(|nid| nid.net() != by.net()) || back.is_empty();
    if !back.is_disjoint(&known) {
        return None;
    }
    let to = &path.destination;
    let net = source.net();
    let back: Vec<String> = back.iter().map(ToString::to_string).collect();
    let back = if back.is_empty() {
        format!("it has no route to {net}")
    } else {
        format!("its routes to {net} lead by {}", back.join(", "))
    };
    let (severity, text) = if is_sure {
        (
            Severity::Error,
            format!(
                "{to} drops messages that arrive by {by}: drop_asym_route is set there, and {back}"
            ),
        )
    } else {
        (
            Severity::Warning,
            format!(
                "{to} drops messages that arrive by {by} unless one gateway has both NIDs: drop_asym_route is set there, and \
                 {back}"
            ),
        )
    };
    Some(Finding {
        code: Code::AsymmetricRoute,
        severity,
        subject: by.to_string(),
        text,
        advice: format!(
            "give {to} a route to {net} by the same gateway, or lnetctl set drop_asym_route 0 there"
        ),
    })
}

/// The most fragments of a descriptor, which a node has that maps the memory of a transfer as a whole.
// [IB-6]
const FRAGMENTS_MAX: u32 = 257;

/// Returns a finding for each setting that the two ends of a connection over o2ib agree on because it differs.
// [IB-11] [IB-17]
fn agreed(ends: [&Node; 2], path: &crate::Path) -> Vec<Finding> {
    let nids = [&path.source, &path.destination].map(|nid| nid.parse::<Nid>().ok());
    let [Some(from), Some(to)] = nids else {
        return Vec::new();
    };
    if path.gateway.is_some() || from.net().lnd != LndType::O2IB {
        return Vec::new();
    }
    let [here, there] = ends;
    let depth = |node: &Node, nid| {
        let ni = node.state.nis.iter().find(|ni| ni.nid == nid)?;
        Some(ni.tunables.peer_credits)
    };
    let depths = depth(here, from).zip(depth(there, to));
    let depths = depths.filter(|(own, other)| own != other);
    let map = |node: &Node, nid| node.facts.map_on_demand.get(&nid).copied();
    let maps = map(here, from).zip(map(there, to));
    let maps = maps.filter(|(own, other)| own != other);
    let found = [
        depths.map(|depths| depth_differs(from, to, depths)),
        maps.map(|maps| map_differs(from, to, maps)),
    ];
    found.into_iter().flatten().collect()
}

fn depth_differs(from: Nid, to: Nid, (own, other): (u32, u32)) -> Finding {
    let agreed = own.min(other);
    Finding {
        code: Code::QueueDepthDiffers,
        severity: Severity::Warning,
        subject: to.to_string(),
        text: format!(
            "{from} has peer_credits {own} and {to} has {other}: the end with more is rejected once when it connects, and \
             their connections then have a queue of {agreed} messages"
        ),
        advice: format!(
            "no connection fails by it; for the same queue from the start give both ends one peer_credits, such as {agreed}"
        ),
    }
}

fn map_differs(from: Nid, to: Nid, (own, other): (u32, u32)) -> Finding {
    // 0 and 1 switch the mapping off and on; other values are numbers of fragments.
    let fragments = |given: u32| {
        if given <= 1 {
            FRAGMENTS_MAX
        } else {
            given.min(FRAGMENTS_MAX)
        }
    };
    let agreed = fragments(own).min(fragments(other));
    Finding {
        code: Code::MapOnDemandDiffers,
        severity: Severity::Warning,
        subject: to.to_string(),
        text: format!(
            "{from} has map_on_demand {own} and {to} has {other}: the end with more fragments is rejected once when it \
             connects, and their connections then have {agreed} fragments"
        ),
        advice: "no connection fails by it, but few fragments make transfers slow: give both ends one map_on_demand".to_owned(),
    }
}

fn differences(there: &crate::Path, back: &crate::Path, peer: &Node) -> Vec<String> {
    let mut told = Vec::new();
    // Made-up NIDs stand for those that are not known.
    let is_known = !peer.facts.assumed.contains(&Assumed::Nids);
    if is_known && back.source != there.destination {
        told.push(format!(
            "back it comes from {}, not {}",
            back.source, there.destination
        ));
    }
    if back.destination != there.source {
        told.push(format!(
            "back it goes to {}, not {}",
            back.destination, there.source
        ));
    }
    match (&there.gateway, &back.gateway) {
        (Some(gateway), None) => told.push(format!("there it goes by {gateway}, back directly")),
        (None, Some(gateway)) => told.push(format!("there it goes directly, back by {gateway}")),
        _ => {}
    }
    told
}
