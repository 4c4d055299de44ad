//! Fabrics with several rails: LNet nets or selection rules for each rail, their proof, and what the
//! end of a leaf switch costs.
//!
//! ```text
//!   rail 1: adapter 1 of every host ─ leaves of rail 1 ─┐         form nets:  rail r is net o2ib(n + r)
//!   rail 2: adapter 2 of every host ─ leaves of rail 2 ─┼─ spines  form pairs: one net; rules keep each
//!   …                                                   ┘                      rail to a rail of the peer
//! ```
//!
//! The number of an address tells host and rail: host `h` has `first + 65536 (r - 1) + h` on rail `r`.
//! So one rule describes a rail of all hosts, and hosts with the same rails share a configuration.
//! Nothing here routes: clients and servers are on the same nets.

mod prove;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use lnet_config::{Config, Globals, NetConfig, NiConfig};
use lnet_policy::{Profile, Rule, RuleText};
use lnet_types::{Net, Nid};
use thiserror::Error;

pub use prove::{LeafLoss, RailFinding, RailProof, prove};

use crate::config::{Class, NodeRole, Site, SiteNode, Timing};
use crate::import::{RailHost, RailHosts};

/// Hosts of one rail: the block of addresses of a rail, without its first and last one.
const MAX_HOSTS: usize = (1 << 16) - 2;

/// How the rails of hosts are kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RailForm {
    /// A net for each rail. A message stays on its rail, because no other one is on the net.
    #[default]
    Nets,
    /// One net. Rules prefer for each rail of a peer the rails that lead to it.
    Pairs,
}

/// How the rails are addressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailScheme {
    /// How rails are kept apart.
    pub form: RailForm,
    /// The net of the first rail, whose successors are the nets of the others; the only net in the
    /// form `Pairs`.
    pub net: Net,
    /// The address before that of the first host on the first rail; it ends in `.0.0`.
    pub addresses: Ipv4Addr,
    /// The interface of the first rail, such as `ib0`; the others have the next numbers.
    pub interface: String,
    /// The CPU partition (NUMA node) beside each rail's adapter, or none.
    pub partitions: Vec<u32>,
}

/// Why rails cannot be configured.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RailError {
    /// No host or every host is a server.
    #[error("{0} of {1} hosts are servers; clients and servers are needed")]
    Roles(usize, usize),
    /// A server is not among the hosts.
    #[error("server '{0}' is not a host of the listing")]
    UnknownServer(String),
    /// There are more hosts or rails than addresses.
    #[error(
        "{hosts} hosts on {rails} rails have no addresses from {first} on: a rail has 65,534, and {first} must end \
         in .0.0"
    )]
    Addresses {
        /// Number of hosts.
        hosts: usize,
        /// Number of rails.
        rails: usize,
        /// The first address.
        first: Ipv4Addr,
    },
    /// There is no net number or no written form for the net of a rail.
    #[error("no net for rail {rail} counted from {first}")]
    NoNet {
        /// The rail, from 1.
        rail: usize,
        /// The net of the first rail.
        first: Net,
    },
    /// The list of CPU partitions has another length.
    #[error("{found} partitions for {rails} rails: name one for each rail")]
    Partitions {
        /// Length of the list.
        found: usize,
        /// Number of rails.
        rails: usize,
    },
}

/// A host with its role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) role: NodeRole,
    /// The rails on which the host has an adapter, from 0.
    pub(crate) rails: Vec<usize>,
}

/// What is to know of a rail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailFacts {
    /// The number of the rail, from 1.
    pub rail: usize,
    /// The different names of its adapters.
    pub adapters: Vec<String>,
    /// Its net.
    pub net: Net,
    /// Its interface.
    pub interface: String,
    /// The CPU partition (NUMA node) beside its adapters, if the scheme names it.
    pub partition: Option<u32>,
    /// Number of its leaf switches.
    pub leaves: usize,
    /// Number of clients with an adapter on it.
    pub clients: usize,
    /// Number of servers with an adapter on it.
    pub servers: usize,
}

/// Configured rails.
#[derive(Clone, Debug)]
pub struct RailPlan {
    /// The hosts with their classes.
    pub site: Site,
    scheme: RailScheme,
    /// The kind of each class.
    pub(crate) kinds: Vec<Kind>,
    /// Leaf switches, each with its host and rail.
    pub(crate) leaves: BTreeMap<String, Vec<(usize, usize)>>,
    rails: usize,
}

impl RailPlan {
    /// Makes the configuration of every host. The hosts in `servers` are servers, the others
    /// clients.
    ///
    /// # Errors
    ///
    /// [`RailError`]: servers that are not listed, too few addresses or nets, and more.
    pub fn new(
        hosts: &RailHosts,
        servers: &[String],
        scheme: &RailScheme,
    ) -> Result<Self, RailError> {
        check(hosts, servers, scheme)?;
        let servers: BTreeSet<&str> = servers.iter().map(String::as_str).collect();
        let kind = |host: &RailHost| Kind {
            role: match servers.contains(host.name.as_str()) {
                true => NodeRole::Server,
                false => NodeRole::Client,
            },
            rails: (0..hosts.rails)
                .filter(|&rail| host.adapters[rail].is_some())
                .collect(),
        };
        let kinds: BTreeSet<Kind> = hosts.hosts.iter().map(kind).collect();
        let kinds: Vec<Kind> = kinds.into_iter().collect();
        let mut plan = Self {
            site: Site {
                timing: Timing::PLANNED,
                ..Site::default()
            },
            scheme: scheme.clone(),
            leaves: BTreeMap::new(),
            rails: hosts.rails,
            kinds,
        };
        plan.classes();
        for (number, host) in hosts.hosts.iter().enumerate() {
            let kind = kind(host);
            // Every kind of a host was collected above.
            let class = plan.kinds.binary_search(&kind).unwrap_or(0);
            plan.site.nodes.push(SiteNode {
                name: host.name.clone(),
                class,
                blade: None,
                nids: kind
                    .rails
                    .iter()
                    .map(|&rail| plan.nid(number, rail))
                    .collect(),
            });
            for (rail, adapter) in host.adapters.iter().enumerate() {
                if let Some(adapter) = adapter {
                    plan.leaves
                        .entry(adapter.leaf.clone())
                        .or_default()
                        .push((number, rail));
                }
            }
        }
        Ok(plan)
    }

    /// Number of rails.
    #[must_use]
    pub const fn rails(&self) -> usize {
        self.rails
    }

    /// Returns what is to know of each rail. `hosts` are those of the plan.
    #[must_use]
    pub fn facts(&self, hosts: &RailHosts) -> Vec<RailFacts> {
        (0..self.rails)
            .map(|rail| self.facts_of(hosts, rail))
            .collect()
    }

    fn facts_of(&self, hosts: &RailHosts, rail: usize) -> RailFacts {
        let (mut adapters, mut leaves) = (BTreeSet::new(), BTreeSet::new());
        let (mut clients, mut servers) = (0, 0);
        for (host, node) in hosts.hosts.iter().zip(&self.site.nodes) {
            let Some(adapter) = &host.adapters[rail] else {
                continue;
            };
            adapters.insert(adapter.name.clone());
            leaves.insert(adapter.leaf.as_str());
            match self.site.class_of(node).role {
                NodeRole::Server => servers += 1,
                _ => clients += 1,
            }
        }
        RailFacts {
            rail: rail + 1,
            adapters: adapters.into_iter().collect(),
            net: self.net(rail),
            interface: self.interface(rail),
            partition: self.scheme.partitions.get(rail).copied(),
            leaves: leaves.len(),
            clients,
            servers,
        }
    }

    /// The net of a rail, from 0.
    #[must_use]
    pub fn net(&self, rail: usize) -> Net {
        let Net { lnd, number } = self.scheme.net;
        match self.scheme.form {
            // The numbers of all rails were checked.
            RailForm::Nets => Net::new(lnd, number.saturating_add(rail as u16)),
            RailForm::Pairs => self.scheme.net,
        }
    }

    /// The interface of a rail, from 0.
    #[must_use]
    pub fn interface(&self, rail: usize) -> String {
        crate::config::numbered(&self.scheme.interface, rail)
    }

    fn nid(&self, host: usize, rail: usize) -> Nid {
        // Numbers of hosts and rails were checked to fit.
        let number = self.scheme.addresses.to_bits() + ((rail as u32) << 16) + host as u32 + 1;
        Nid::from_number(self.net(rail), number)
    }

    fn classes(&mut self) {
        let mut counts: BTreeMap<NodeRole, usize> = BTreeMap::new();
        for kind in self.kinds.clone() {
            let count = counts.entry(kind.role).or_default();
            *count += 1;
            let rules = self.rules(&kind);
            self.site.classes.push(Class {
                name: format!("{}-{count:03}", kind.role.name()),
                role: kind.role,
                config: Config {
                    nets: self.nets(&kind),
                    globals: Globals {
                        discovery: Some(true),
                        transaction_timeout: Some(self.site.timing.transaction_timeout),
                        ..Globals::default()
                    },
                    ..Config::default()
                },
                rules,
            });
        }
    }

    fn nets(&self, kind: &Kind) -> Vec<NetConfig> {
        let mut nets: Vec<NetConfig> = Vec::new();
        for &rail in &kind.rails {
            let ni = NiConfig {
                interfaces: vec![self.interface(rail)],
                cpts: self
                    .scheme
                    .partitions
                    .get(rail)
                    .copied()
                    .into_iter()
                    .collect(),
                ..NiConfig::default()
            };
            let net = self.net(rail);
            match nets.last_mut().filter(|last| last.net == net) {
                Some(last) => last.nis.push(ni),
                None => nets.push(NetConfig { net, nis: vec![ni] }),
            }
        }
        nets
    }

    /// Makes the rules of a class: for each rail of the other role the local rails that lead to it.
    /// A rule that would name all local rails has no effect and is left out.
    fn rules(&self, kind: &Kind) -> Vec<Rule> {
        if self.scheme.form == RailForm::Nets {
            return Vec::new();
        }
        let mut towards: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (rail, peer) in self.partners(kind) {
            towards.entry(peer).or_default().push(rail);
        }
        let towards = towards
            .into_iter()
            .filter(|(_, local)| local.len() < kind.rails.len());
        towards
            .filter_map(|(peer, local)| self.rule(&local, peer))
            .collect()
    }

    /// Returns for each rail of a class the rail of the other role to which it leads: the same one,
    /// or in turn one of those that there are.
    fn partners(&self, kind: &Kind) -> Vec<(usize, usize)> {
        let others = self.kinds.iter().filter(|other| other.role != kind.role);
        let there: BTreeSet<usize> = others
            .flat_map(|other| other.rails.iter().copied())
            .collect();
        let there: Vec<usize> = there.into_iter().collect();
        let mut turn = there.iter().cycle();
        let partner = |&rail: &usize| match there.contains(&rail) {
            true => Some((rail, rail)),
            false => turn.next().map(|&peer| (rail, peer)),
        };
        kind.rails.iter().filter_map(partner).collect()
    }

    fn rule(&self, local: &[usize], peer: usize) -> Option<Rule> {
        let [a, b, ..] = self.scheme.addresses.octets();
        let octets = |rails: &[usize]| -> String {
            let numbers: Vec<String> = rails
                .iter()
                .map(|&r| (usize::from(b) + r).to_string())
                .collect();
            match &numbers[..] {
                [one] => one.clone(),
                several => format!("[{}]", several.join(",")),
            }
        };
        let side = |rails: &[usize]| format!("{a}.{}.*.*@{}", octets(rails), self.scheme.net);
        let (src, dst) = (side(local), side(&[peer]));
        let text = RuleText {
            src: Some(&src),
            dst: Some(&dst),
            ..RuleText::default()
        };
        Rule::from_text(&text, Profile::Lustre).ok()
    }
}

fn check(hosts: &RailHosts, servers: &[String], scheme: &RailScheme) -> Result<(), RailError> {
    let (count, rails) = (hosts.hosts.len(), hosts.rails);
    let known: BTreeSet<&str> = hosts.hosts.iter().map(|host| host.name.as_str()).collect();
    let named: BTreeSet<&str> = servers.iter().map(String::as_str).collect();
    if let Some(unknown) = named.iter().find(|name| !known.contains(**name)) {
        return Err(RailError::UnknownServer(crate::problem::shown(unknown)));
    }
    if named.is_empty() || named.len() == count {
        return Err(RailError::Roles(named.len(), count));
    }
    let first = scheme.addresses;
    let last_rail = (first.to_bits() >> 16 & 0xFF) as usize + rails;
    if count > MAX_HOSTS || last_rail > 256 || first.to_bits() & 0xFFFF != 0 {
        let hosts = count;
        return Err(RailError::Addresses {
            hosts,
            rails,
            first,
        });
    }
    let has_addresses = Nid::from_number(scheme.net, 1).ip().is_some();
    let fits = |rail: usize| match scheme.form {
        RailForm::Nets => {
            u16::try_from(rail).is_ok_and(|rail| scheme.net.number.checked_add(rail).is_some())
        }
        RailForm::Pairs => true,
    };
    if let Some(rail) = (0..rails).find(|&rail| !has_addresses || !fits(rail)) {
        let (rail, first) = (rail + 1, scheme.net);
        return Err(RailError::NoNet { rail, first });
    }
    match scheme.partitions.len() {
        0 => Ok(()),
        found if found == rails => Ok(()),
        found => Err(RailError::Partitions { found, rails }),
    }
}
