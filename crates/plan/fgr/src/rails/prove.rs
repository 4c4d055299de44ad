//! The proof of configured rails, from the configurations alone: every pair meets, no rail is idle,
//! no rule is without effect; and what each leaf switch costs.

use std::collections::{BTreeMap, BTreeSet};

use lnet_policy::{Peer, Policy, Profile, RuleList, RuleState, Topology, audit};
use lnet_types::Nid;
use thiserror::Error;

use crate::config::{Class, NodeRole, SiteNode};
use crate::rails::RailPlan;

/// What is wrong with configured rails.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RailFinding {
    /// Two classes have no common net.
    #[error("{client} and {server} have no net in common")]
    Apart {
        /// The class of clients.
        client: String,
        /// The class of servers.
        server: String,
    },
    /// A rail carries nothing between two classes.
    #[error("rail {rail} of {class} is idle towards {towards}: {why}")]
    Idle {
        /// The class whose rail is idle.
        class: String,
        /// The rail, from 1.
        rail: usize,
        /// The class of its peers.
        towards: String,
        /// The reason.
        why: &'static str,
    },
    /// A rule changes nothing.
    #[error("{class}: the rule {rule} has no effect")]
    NoEffect {
        /// The class.
        class: String,
        /// The rule.
        rule: String,
    },
}

/// What the end of a leaf switch costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafLoss {
    /// The switch.
    pub leaf: String,
    /// Rails on it, from 1.
    pub rails: BTreeSet<usize>,
    /// Hosts that lose an adapter.
    pub hosts: usize,
    /// Pairs of a client and a server that lose some of their rails.
    pub reduced: u64,
    /// Fewest rails that such a pair keeps, of how many.
    pub left: Option<(usize, usize)>,
    /// Pairs that lose all their rails.
    pub lost: u64,
}

/// The result of a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailProof {
    /// Pairs of a client and a server.
    pub pairs: u64,
    /// What is wrong; empty if the proof holds.
    pub findings: Vec<RailFinding>,
    /// The cost of each leaf switch, in the order of their names.
    pub leaves: Vec<LeafLoss>,
}

/// Proves configured rails.
#[must_use]
pub fn prove(plan: &RailPlan) -> RailProof {
    let first = |class: usize| plan.site.nodes.iter().find(|node| node.class == class);
    let mut findings = Vec::new();
    for (index, class) in plan.site.classes.iter().enumerate() {
        let Some(node) = first(index) else { continue };
        // A rule may be of use for one class of peers only.
        let mut used: BTreeSet<usize> = BTreeSet::new();
        for (other, peers) in plan.site.classes.iter().enumerate() {
            if peers.role == class.role {
                continue;
            }
            if let Some(peer) = first(other) {
                let of = Between {
                    plan,
                    class,
                    node,
                    peers,
                    peer,
                };
                of.find(index, &mut used, &mut findings);
            }
        }
        let unused = (0..class.rules.len()).filter(|rule| !used.contains(rule));
        findings.extend(unused.map(|rule| RailFinding::NoEffect {
            class: class.name.clone(),
            rule: class.rules[rule].to_string(),
        }));
    }
    findings.dedup();
    let count = |role: NodeRole| {
        let nodes = plan.site.nodes.iter();
        nodes
            .filter(|node| plan.site.class_of(node).role == role)
            .count() as u64
    };
    RailProof {
        pairs: count(NodeRole::Client) * count(NodeRole::Server),
        findings,
        leaves: losses(plan),
    }
}

/// A node of one class and a peer of another.
struct Between<'a> {
    plan: &'a RailPlan,
    class: &'a Class,
    node: &'a SiteNode,
    peers: &'a Class,
    peer: &'a SiteNode,
}

impl Between<'_> {
    fn find(&self, index: usize, used: &mut BTreeSet<usize>, findings: &mut Vec<RailFinding>) {
        let local: Vec<Nid> = self.node.nids.iter().collect();
        let remote: Vec<Nid> = self.peer.nids.iter().collect();
        if !local
            .iter()
            .any(|nid| remote.iter().any(|peer| peer.net() == nid.net()))
        {
            if self.class.role == NodeRole::Client {
                let (client, server) = (self.class.name.clone(), self.peers.name.clone());
                findings.push(RailFinding::Apart { client, server });
            }
            return;
        }
        let mut rules = RuleList::new();
        for rule in &self.class.rules {
            // A list of this length was accepted when the classes were made.
            let _added = rules.add(rule.clone(), None);
        }
        let topology = Topology {
            local: local.clone(),
            gateways: Vec::new(),
            peers: vec![Peer {
                primary: remote[0],
                multi_rail: true,
                nis: remote.clone(),
            }],
        };
        let states = audit(&rules, &topology, Profile::Lustre)
            .into_iter()
            .enumerate();
        used.extend(
            states
                .filter(|(_, state)| *state == RuleState::Live)
                .map(|(rule, _)| rule),
        );
        let mut policy = Policy::new(&rules, Profile::Lustre, &local, &[]);
        let mut reached: BTreeSet<Nid> = BTreeSet::new();
        for &peer in &remote {
            let preferred: Vec<Nid> = policy.peer_ni(peer, true).sources.nids().collect();
            let on_net = local.iter().filter(|nid| nid.net() == peer.net());
            reached.extend(on_net.filter(|nid| preferred.is_empty() || preferred.contains(nid)));
        }
        for (nid, &rail) in local.iter().zip(&self.plan.kinds[index].rails) {
            if !reached.contains(nid) {
                let is_alone = remote.iter().all(|peer| peer.net() != nid.net());
                findings.push(RailFinding::Idle {
                    class: self.class.name.clone(),
                    rail: rail + 1,
                    towards: self.peers.name.clone(),
                    why: if is_alone {
                        "none of these is on its net"
                    } else {
                        "the rules prefer others"
                    },
                });
            }
        }
    }
}

/// Nodes with equal classes that lose the same rails.
type Groups = BTreeMap<(usize, BTreeSet<usize>), u64>;

fn losses(plan: &RailPlan) -> Vec<LeafLoss> {
    let mut all: BTreeMap<usize, u64> = BTreeMap::new();
    for node in &plan.site.nodes {
        *all.entry(node.class).or_default() += 1;
    }
    let mut found: Vec<LeafLoss> = Vec::new();
    for (leaf, adapters) in &plan.leaves {
        let mut hosts: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for &(host, rail) in adapters {
            hosts.entry(host).or_default().insert(rail);
        }
        let mut groups: Groups = BTreeMap::new();
        let mut whole = all.clone();
        for (&host, rails) in &hosts {
            let class = plan.site.nodes[host].class;
            *groups.entry((class, rails.clone())).or_default() += 1;
            if let Some(count) = whole.get_mut(&class) {
                *count -= 1;
            }
        }
        groups.extend(
            whole
                .into_iter()
                .map(|(class, count)| ((class, BTreeSet::new()), count)),
        );
        let mut loss = LeafLoss {
            leaf: leaf.clone(),
            rails: adapters.iter().map(|(_, rail)| rail + 1).collect(),
            hosts: hosts.len(),
            reduced: 0,
            left: None,
            lost: 0,
        };
        plan.count_pairs(&groups, &mut loss);
        found.push(loss);
    }
    found
}

impl RailPlan {
    fn count_pairs(&self, groups: &Groups, loss: &mut LeafLoss) {
        let of_role = |role: NodeRole| {
            groups
                .iter()
                .filter(move |((class, _), _)| self.kinds[*class].role == role)
        };
        for ((client, client_lost), clients) in of_role(NodeRole::Client) {
            for ((server, server_lost), servers) in of_role(NodeRole::Server) {
                let none = BTreeSet::new();
                let before = self.ways((*client, &none), (*server, &none));
                let after = self.ways((*client, client_lost), (*server, server_lost));
                let pairs = clients * servers;
                if after == before || pairs == 0 {
                    continue;
                }
                match after {
                    0 => loss.lost += pairs,
                    _ => {
                        loss.reduced += pairs;
                        let left = loss.left.filter(|(left, of)| left * before <= after * of);
                        loss.left = left.or(Some((after, before)));
                    }
                }
            }
        }
    }

    /// Rails of a client by which it still meets a server.
    fn ways(&self, client: (usize, &BTreeSet<usize>), server: (usize, &BTreeSet<usize>)) -> usize {
        let rails = |(class, lost): (usize, &BTreeSet<usize>)| -> Vec<usize> {
            let rails = self.kinds[class].rails.iter().copied();
            rails.filter(|rail| !lost.contains(rail)).collect()
        };
        let (client, server) = (rails(client), rails(server));
        let meets = |rail: &&usize| {
            server
                .iter()
                .any(|other| self.net(*other) == self.net(**rail))
        };
        client.iter().filter(meets).count()
    }
}
