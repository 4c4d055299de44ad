//! Compares peers: a router of Finerail asks them whether its nets work.
//!
//! Discovery names a peer by another of its NIDs and adds NIDs to it, and traffic adds peers. So a peer of the
//! plan may have any primary NID, and one that has several paths may have more NIDs. Peers that the plan does
//! not have are no difference.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::{Config, PeerConfig};
use lnet_types::Nid;

use super::Difference;

/// The commands for one peer may take NIDs from another one that was compared before, which takes another round.
const ROUNDS: usize = 3;

pub(super) fn peers(planned: &Config, running: &Config, found: &mut Vec<Difference>) {
    let mut peers = Peers::new(&running.peers);
    for _ in 0..ROUNDS {
        let before = found.len();
        for peer in &planned.peers {
            found.extend(peers.difference(peer));
        }
        if found.len() == before {
            return;
        }
    }
}

/// The peers of a node as the commands so far leave them.
struct Peers {
    peers: Vec<PeerConfig>,
    /// The peer of each NID.
    owners: BTreeMap<Nid, usize>,
}

impl Peers {
    fn new(peers: &[PeerConfig]) -> Self {
        let nids = |(index, peer): (usize, &PeerConfig)| -> Vec<(Nid, usize)> {
            peer.nids.iter().map(|&nid| (nid, index)).collect()
        };
        Self {
            peers: peers.to_vec(),
            owners: peers.iter().enumerate().flat_map(nids).collect(),
        }
    }

    fn difference(&mut self, peer: &PeerConfig) -> Option<Difference> {
        let first = *peer.nids.first()?;
        let own = self
            .owners
            .get(&first)
            .map(|&owner| self.peers[owner].clone());
        let Some(own) = own.filter(|own| own.multi_rail == peer.multi_rail) else {
            let what = match self.owners.contains_key(&first) {
                true if peer.multi_rail => format!("peer {first} is not Multi-Rail, planned it is"),
                true => format!("peer {first} is Multi-Rail, planned it is not"),
                false => format!("no peer {first}"),
            };
            let mut commands = self.released(&peer.nids);
            commands.push(self.added(first, &peer.nids[1..], peer.multi_rail));
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
        let mut commands = self.released(&extra);
        commands.extend(self.released(&missing));
        // The removal of the primary NID removed the peer.
        if extra.contains(&primary) {
            commands.push(self.added(first, &peer.nids[1..], peer.multi_rail));
        } else if !missing.is_empty() {
            commands.push(self.added(primary, &missing, peer.multi_rail));
        }
        let what = format!("peer {primary} {}", words.join("; "));
        Some(Difference::new(what, commands))
    }

    /// Takes these NIDs from the peers that have them. Returns the commands.
    fn released(&mut self, nids: &[Nid]) -> Vec<String> {
        let mut of_owner: BTreeMap<usize, Vec<Nid>> = BTreeMap::new();
        for nid in nids.iter().copied().collect::<BTreeSet<Nid>>() {
            if let Some(&owner) = self.owners.get(&nid) {
                of_owner.entry(owner).or_default().push(nid);
            }
        }
        let mut commands = Vec::new();
        for (owner, mut nids) in of_owner {
            let all = &mut self.peers[owner].nids;
            let Some(&primary) = all.first() else {
                continue;
            };
            let mut only = format!(" --nid {}", listed(&nids));
            if nids.contains(&primary) {
                nids.clone_from(all);
                only.clear();
            }
            all.retain(|nid| !nids.contains(nid));
            self.owners.retain(|nid, _| !nids.contains(nid));
            commands.push(format!("lnetctl peer del --prim_nid {primary}{only}"));
        }
        commands
    }

    /// Adds a peer, or NIDs to one. Returns the command.
    fn added(&mut self, primary: Nid, others: &[Nid], multi_rail: bool) -> String {
        let next = self.peers.len();
        let owner = *self.owners.entry(primary).or_insert(next);
        if owner == next {
            self.peers.push(PeerConfig {
                nids: vec![primary],
                multi_rail,
            });
        }
        self.peers[owner].nids.extend(others);
        self.owners.extend(others.iter().map(|&nid| (nid, owner)));
        let nids = match others {
            [] => String::new(),
            _ => format!(" --nid {}", listed(others)),
        };
        let kind = if multi_rail { "" } else { " --non_mr" };
        format!("lnetctl peer add --prim_nid {primary}{nids}{kind}")
    }
}

fn listed(nids: &[Nid]) -> String {
    let words: Vec<String> = nids.iter().map(Nid::to_string).collect();
    words.join(",")
}
