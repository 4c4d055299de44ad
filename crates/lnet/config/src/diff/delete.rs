//! The changes of `import --del`.

use std::collections::BTreeSet;

use lnet_policy::Profile;
use lnet_types::Nid;

use super::Change;
use crate::document::{Document, PeerShow};
use crate::model::Config;

/// The changes that remove everything in `named` from a node with the configuration `current`, in
/// an order in which they can be made.
///
/// A peer is removed as a whole if the document lists none of its NIDs or its primary NID;
/// otherwise the listed NIDs are removed. A network is removed with the last of its interfaces. Of
/// the parameters, `numa_range`, `max_interfaces` and `discovery` return to their defaults, and the
/// others stay. Rules are named by their descriptors. An object that does not exist makes a change
/// that [`Change::apply`] rejects.
// [CONF-4]
#[must_use]
pub fn deletion(current: &Config, named: &Document) -> Vec<Change> {
    let routes = named.routes.iter().map(|route| Change::DelRoute {
        net: route.net,
        gateway: route.gateway,
    });
    let mut changes: Vec<Change> = routes.collect();
    changes.extend(named.peers.iter().map(peer));
    nets(current, named, &mut changes);
    globals(current, named, &mut changes);
    rules(current, named, &mut changes);
    changes
}

fn peer(peer: &PeerShow) -> Change {
    let primary = peer.primary;
    let nids: Vec<Nid> = peer.nis.iter().map(|ni| ni.nid).collect();
    if nids.is_empty() || nids.contains(&primary) {
        return Change::DelPeer { primary };
    }
    Change::DelPeerNids { primary, nids }
}

fn nets(current: &Config, named: &Document, changes: &mut Vec<Change>) {
    for net in &named.nets {
        let names: BTreeSet<_> = net.nis.iter().map(|ni| ni.config.name()).collect();
        let there = current.nets.iter().find(|other| other.net == net.net);
        let all_go =
            there.is_none_or(|there| there.nis.iter().all(|ni| names.contains(&ni.name())));
        if all_go {
            changes.push(Change::DelNet(net.net));
            continue;
        }
        let net = net.net;
        changes.extend(names.into_iter().map(|ni| Change::DelNi { net, ni }));
    }
}

// [CONF-5]
fn globals(current: &Config, named: &Document, changes: &mut Vec<Change>) {
    let mut left = current.globals;
    if named.globals.numa_range.is_some() {
        left.numa_range = None;
    }
    if named.globals.max_interfaces.is_some() {
        left.max_interfaces = None;
    }
    if named.globals.discovery.is_some() {
        left.discovery = None;
    }
    if left != current.globals {
        changes.push(Change::Globals(Box::new(left)));
    }
}

/// Goes from the last index to the first, because a removal moves the rules after it.
fn rules(current: &Config, named: &Document, changes: &mut Vec<Change>) {
    let rules = current.rules.rules();
    let named = named.udsp.iter().filter_map(|entry| {
        let rule = entry.rule(Profile::Design).ok()?;
        let found = rules
            .iter()
            .position(|other| other.selector() == rule.selector());
        Some(found.unwrap_or(rules.len()))
    });
    let indices: BTreeSet<usize> = named.collect();
    let backwards = indices.into_iter().rev();
    changes.extend(backwards.map(|index| Change::DelRule { index }));
}
