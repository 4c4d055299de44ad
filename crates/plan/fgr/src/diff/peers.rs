//! Compares peers: a router of Finerail asks them whether its nets work.
//!
//! Discovery names a peer by another of its NIDs and adds NIDs to it, and traffic adds peers. So a peer of the
//! plan may have any primary NID, and one that has several paths may have more NIDs. Peers that the plan does
//! not have are no difference.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::{Config, PeerConfig};
use lnet_types::Nid;

use super::Difference;

pub(super) fn peers(planned: &Config, running: &Config, found: &mut Vec<Difference>) {
    let mut owners: BTreeMap<Nid, &PeerConfig> = BTreeMap::new();
    for peer in &running.peers {
        owners.extend(peer.nids.iter().map(|&nid| (nid, peer)));
    }
    for peer in &planned.peers {
        found.extend(difference(peer, &owners));
    }
}

fn difference(peer: &PeerConfig, owners: &BTreeMap<Nid, &PeerConfig>) -> Option<Difference> {
    let first = *peer.nids.first()?;
    let own = owners.get(&first).copied();
    let Some(own) = own.filter(|own| own.multi_rail == peer.multi_rail) else {
        let what = match own {
            Some(_) if peer.multi_rail => format!("peer {first} is not Multi-Rail, planned it is"),
            Some(_) => format!("peer {first} is Multi-Rail, planned it is not"),
            None => format!("no peer {first}"),
        };
        let mut commands = released(&peer.nids, owners);
        commands.push(add(first, &peer.nids[1..], peer.multi_rail));
        return Some(Difference::new(what, commands));
    };
    let primary = own.nids.first().copied().unwrap_or(first);
    let lacks = |nid: &&Nid| !own.nids.contains(nid);
    let missing: Vec<Nid> = peer.nids.iter().filter(lacks).copied().collect();
    let is_extra = |nid: &&Nid| !peer.multi_rail && !peer.nids.contains(nid);
    let extra: Vec<Nid> = own.nids.iter().filter(is_extra).copied().collect();
    if missing.is_empty() && extra.is_empty() {
        return None;
    }
    let mut words = Vec::new();
    if !missing.is_empty() {
        words.push(format!("lacks {}", listed(&missing)));
    }
    if !extra.is_empty() {
        words.push(format!("has {}, which is not in the plan", listed(&extra)));
    }
    let mut commands;
    if extra.contains(&primary) {
        // The removal of the primary NID removes the peer.
        let all: Vec<Nid> = own.nids.iter().chain(&missing).copied().collect();
        commands = released(&all, owners);
        commands.push(add(first, &peer.nids[1..], peer.multi_rail));
    } else {
        commands = released(&missing, owners);
        commands.extend(released(&extra, owners));
        if !missing.is_empty() {
            commands.push(add(primary, &missing, peer.multi_rail));
        }
    }
    let what = format!("peer {primary} {}", words.join("; "));
    Some(Difference::new(what, commands))
}

/// Returns the commands that take these NIDs from the peers that have them.
fn released(nids: &[Nid], owners: &BTreeMap<Nid, &PeerConfig>) -> Vec<String> {
    let mut commands = Vec::new();
    let mut of_owner: BTreeMap<Nid, Vec<Nid>> = BTreeMap::new();
    for nid in nids.iter().copied().collect::<BTreeSet<Nid>>() {
        if let Some(&primary) = owners.get(&nid).and_then(|owner| owner.nids.first()) {
            of_owner.entry(primary).or_default().push(nid);
        }
    }
    for (primary, nids) in of_owner {
        let only = match nids.contains(&primary) {
            true => String::new(),
            false => format!(" --nid {}", listed(&nids)),
        };
        commands.push(format!("lnetctl peer del --prim_nid {primary}{only}"));
    }
    commands
}

fn add(primary: Nid, others: &[Nid], multi_rail: bool) -> String {
    let nids = match others {
        [] => String::new(),
        _ => format!(" --nid {}", listed(others)),
    };
    let kind = if multi_rail { "" } else { " --non_mr" };
    format!("lnetctl peer add --prim_nid {primary}{nids}{kind}")
}

fn listed(nids: &[Nid]) -> String {
    let words: Vec<String> = nids.iter().map(Nid::to_string).collect();
    words.join(",")
}
