//! A plain description of a node's interfaces, gateways and peers, and the values that rules give
//! to them.

use lnet_types::{Net, Nid};

use crate::list::RuleList;
use crate::policy::{Effective, PeerNiEffect, Policy};
use crate::rule::Profile;

/// The objects that rules can match: the node's interfaces, its gateways and its peers, in the
/// node's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// NIDs of the local NIs. Their nets are the local nets.
    pub local: Vec<Nid>,
    /// The gateways of all routes, in order.
    pub gateways: Vec<Gateway>,
    /// The peers.
    pub peers: Vec<Peer>,
}

/// A peer that routes use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Its primary NID, which preferred lists hold.
    pub primary: Nid,
    /// Its other NIDs. A router rule that matches one of them prefers the gateway.
    pub others: Vec<Nid>,
}

impl Gateway {
    /// All NIDs of the gateway, the primary NID first.
    pub fn nids(&self) -> impl Iterator<Item = Nid> {
        std::iter::once(self.primary).chain(self.others.iter().copied())
    }
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its primary NID.
    pub primary: Nid,
    /// Whether it is known to be Multi-Rail.
    pub multi_rail: bool,
    /// NIDs of its NIs. Their nets are its peer nets.
    pub nis: Vec<Nid>,
}

/// The values that rules give to the objects of a topology, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Local nets, in the order in which their first NIs are listed.
    pub local_nets: Vec<(Net, Effective)>,
    /// Local NIs.
    pub local_nis: Vec<(Nid, Effective)>,
    /// Peers.
    pub peers: Vec<PeerEffects>,
}

/// The values that rules give to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerEffects {
    /// Its primary NID.
    pub primary: Nid,
    /// Its nets, in the order in which their first NIs are listed.
    pub nets: Vec<(Net, Effective)>,
    /// Its NIs.
    pub nis: Vec<(Nid, PeerNiEffect)>,
}

/// Applies `rules` to all objects of `topology`. The result depends on the arguments only.
///
/// ```
/// use lnet_policy::{Profile, Rule, RuleList, Priority, Topology, evaluate};
///
/// let mut rules = RuleList::new();
/// rules.add(Rule::local("tcp*".parse()?, Priority::new(5).unwrap())?, None)?;
/// let topology = Topology { local: vec!["10.0.0.1@tcp3".parse()?], ..Topology::default() };
/// let effects = evaluate(&rules, &topology, Profile::Design);
/// assert_eq!(effects.local_nets[0].1.priority.value(), 5);
/// assert_eq!(effects.local_nis[0].1.priority, Priority::NONE);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn evaluate(rules: &RuleList, topology: &Topology, profile: Profile) -> Effects {
    let mut policy = Policy::new(rules, profile, &topology.local, &topology.gateways);
    Effects {
        local_nets: nets(&topology.local)
            .into_iter()
            .map(|net| (net, policy.local_net(net)))
            .collect(),
        local_nis: topology
            .local
            .iter()
            .map(|&nid| (nid, policy.local_ni(nid)))
            .collect(),
        peers: topology
            .peers
            .iter()
            .map(|peer| policy.peer(peer))
            .collect(),
    }
}

impl Policy {
    /// The values that the rules give to a peer, its nets and its NIs.
    #[must_use]
    pub fn peer(&mut self, peer: &Peer) -> PeerEffects {
        PeerEffects {
            primary: peer.primary,
            nets: nets(&peer.nis)
                .into_iter()
                .map(|net| (net, self.peer_net(net)))
                .collect(),
            nis: peer
                .nis
                .iter()
                .map(|&nid| (nid, self.peer_ni(nid, peer.multi_rail)))
                .collect(),
        }
    }
}

/// The nets of `nids`, each once, in the order of their first NIDs.
pub(crate) fn nets(nids: &[Nid]) -> Vec<Net> {
    let mut nets = Vec::new();
    for net in nids.iter().map(|nid| nid.net()) {
        // A linear search is enough: nodes and peers have few nets.
        if !nets.contains(&net) {
            nets.push(net);
        }
    }
    nets
}
