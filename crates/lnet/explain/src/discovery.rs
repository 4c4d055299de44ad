//! The facts that discovery has about the peer: why it is Multi-Rail or not, and since when.

use lnet_core::{DiscoveryView, Errno, Heard, PeerState};
use lnet_types::{Nid, Time};
use lnet_wire::PingFeatures;

use crate::node::Node;

/// Returns how and when a Multi-Rail peer said that it is Multi-Rail, or that only an administrator configured it so;
/// `None` if the peer was never heard.
pub(crate) fn why_multi_rail(node: &Node, to: Nid) -> Option<String> {
    let heard = discovery_of(node, to)?.heard?;
    if let Some(said) = says_otherwise(&heard, node.now) {
        return Some(format!("an administrator has configured it so; {said}"));
    }
    let interfaces = match heard.nids {
        1 => "one interface".to_owned(),
        many => format!("{many} interfaces"),
    };
    Some(format!("{} with {interfaces}", how(&heard, node.now)))
}

/// Returns the reason why a peer is not Multi-Rail; `None` if only a configuration is known, because it holds no
/// reason.
pub(crate) fn why_single_rail(node: &Node, to: Nid) -> Option<String> {
    if !node.is_exact() {
        return None;
    }
    if !node.facts.discovery {
        return Some("this node has discovery switched off".to_owned());
    }
    let Some(known) = discovery_of(node, to) else {
        return Some(
            "it was never discovered; the first message to it waits for its discovery".to_owned(),
        );
    };
    if known.state.contains(PeerState::DISCOVERING) {
        return Some("its discovery is in progress".to_owned());
    }
    if let Some(errno) = known.failure {
        let why = describe(errno);
        return Some(format!(
            "its last discovery failed: {why}; the next message to it starts another"
        ));
    }
    let heard = known.heard?;
    Some(says_otherwise(&heard, node.now).unwrap_or_else(|| {
        let said = how(&heard, node.now);
        format!("{said}, and an administrator has configured it otherwise")
    }))
}

/// Returns what the peer reported about itself, if the report does not make the peer Multi-Rail.
fn says_otherwise(heard: &Heard, now: Time) -> Option<String> {
    let features = PingFeatures::from_bits_retain(heard.features);
    let what = if !features.contains(PingFeatures::MULTI_RAIL) {
        "it is not"
    } else if !features.contains(PingFeatures::DISCOVERY) {
        "its discovery is switched off"
    } else {
        return None;
    };
    let said = how(heard, now);
    Some(format!(
        "{said} that {what} (features {:#x})",
        heard.features
    ))
}

fn discovery_of(node: &Node, to: Nid) -> Option<DiscoveryView> {
    let state = &node.state;
    let peer = state.peers.iter().find(|peer| peer.nids.contains(&to));
    let primary = peer.and_then(|peer| peer.nids.first()).unwrap_or(&to);
    let known = state.peer_nis.iter().find(|known| known.nid == *primary);
    known?.discovery
}

fn how(heard: &Heard, now: Time) -> String {
    let ago = now.saturating_since(heard.at).as_secs_f64();
    if heard.pushed {
        format!("it pushed {ago:.1} s ago")
    } else {
        format!("it answered a ping {ago:.1} s ago")
    }
}

fn describe(errno: Errno) -> String {
    let text = std::io::Error::from_raw_os_error(errno.0).to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
