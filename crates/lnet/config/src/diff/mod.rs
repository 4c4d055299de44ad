//! The difference of two configurations, as changes in an order in which a running node can make
//! them.
//!
//! ```text
//!  globals ─▶ del route ─▶ del peer, del peer NIDs ─▶ del NI, del net
//!                                                          │
//!  rules ◀─ routing, buffers ◀─ add route ◀─ add peer ◀─ add net, add NI
//! ```
//!
//! Parameters come first, because discovery must be off before the first interface is added.
//! Removals come before additions, because a remote network may become local, and a NID may move
//! from one peer to another. Routes are removed before the networks of their gateways and added
//! after them. Rules come last, because their effect depends on everything else.
//!
//! The order of networks, interfaces, routes and peers is not a difference: a node keeps the order
//! in which they were added. The order of rules is a difference.

mod apply;
mod delete;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use lnet_policy::Rule;
use lnet_types::{Net, Nid};

pub use apply::ApplyError;
pub use delete::deletion;

use crate::ip2nets::Ip2Nets;
use crate::model::{Buffers, Config, NetConfig, NiConfig, PeerConfig, RouteConfig};
use crate::parameters::Globals;

/// One step from a configuration to another. [`Change::apply`] makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets all node-wide parameters; those that are `None` return to their defaults.
    Globals(Box<Globals>),
    /// Removes a route.
    DelRoute {
        /// The remote network.
        net: Net,
        /// The gateway.
        gateway: Nid,
    },
    /// Removes a peer with all its NIDs.
    DelPeer {
        /// Its primary NID.
        primary: Nid,
    },
    /// Removes NIDs of a peer; the primary NID is not among them.
    DelPeerNids {
        /// Its primary NID.
        primary: Nid,
        /// The removed NIDs, at least one.
        nids: Vec<Nid>,
    },
    /// Removes interfaces of a network that stays.
    DelNi {
        /// The network.
        net: Net,
        /// The name of the interfaces.
        ni: NiName,
    },
    /// Removes a network with all its interfaces.
    DelNet(Net),
    /// Adds a network with all its interfaces.
    AddNet(NetConfig),
    /// Adds interfaces to an existing network.
    AddNi {
        /// The network.
        net: Net,
        /// The interfaces.
        ni: NiConfig,
    },
    /// Changes the settings of interfaces.
    SetNi {
        /// The network.
        net: Net,
        /// The interfaces with their new settings.
        ni: NiConfig,
    },
    /// Replaces the networks by addresses.
    Ip2Nets(Vec<Ip2Nets>),
    /// Adds a peer.
    AddPeer(PeerConfig),
    /// Adds NIDs to a peer.
    AddPeerNids {
        /// Its primary NID.
        primary: Nid,
        /// The added NIDs, at least one.
        nids: Vec<Nid>,
    },
    /// Adds a route.
    AddRoute(RouteConfig),
    /// Changes the hops or the priority of a route.
    SetRoute(RouteConfig),
    /// Switches forwarding on, off, or to the default.
    Routing(Option<bool>),
    /// Changes the sizes of the router's pools.
    Buffers(Buffers),
    /// Removes a rule; the rules after it move by one.
    DelRule {
        /// The index of the rule at the time of this change.
        index: usize,
    },
    /// Adds a rule; the rules after it move by one.
    AddRule {
        /// Its index.
        index: usize,
        /// The rule.
        rule: Rule,
    },
    /// Changes the value of a rule.
    SetRule {
        /// Its index.
        index: usize,
        /// The rule with its new value.
        rule: Rule,
    },
}

/// The name of interfaces in a network: a NID, names of system interfaces, or both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NiName {
    /// The NID.
    pub nid: Option<Nid>,
    /// The names.
    pub interfaces: Vec<String>,
}

impl NiConfig {
    /// The name of these interfaces.
    #[must_use]
    pub fn name(&self) -> NiName {
        NiName {
            nid: self.nid,
            interfaces: self.interfaces.clone(),
        }
    }
}

/// The changes that lead from `old` to `new`, in the order in which they must be made. Empty if the
/// configurations differ only in the order of networks, interfaces, routes and peers.
#[must_use]
pub fn diff(old: &Config, new: &Config) -> Vec<Change> {
    let mut changes = Vec::new();
    if old.globals != new.globals {
        changes.push(Change::Globals(Box::new(new.globals)));
    }
    let nets = Nets::new(old, new);
    let peers = Peers::new(old, new);
    let routes = Routes::new(old, new);
    routes.removals(&mut changes);
    peers.removals(&mut changes);
    nets.removals(&mut changes);
    nets.additions(&mut changes);
    if old.ip2nets != new.ip2nets {
        changes.push(Change::Ip2Nets(new.ip2nets.clone()));
    }
    peers.additions(&mut changes);
    routes.additions(&mut changes);
    if old.routing != new.routing {
        changes.push(Change::Routing(new.routing));
    }
    if old.buffers != new.buffers {
        changes.push(Change::Buffers(new.buffers));
    }
    rules::changes(&old.rules, &new.rules, &mut changes);
    changes
}

/// The interfaces of each network, by name.
struct Nets<'a> {
    old: BTreeMap<Net, BTreeMap<NiName, &'a NiConfig>>,
    new: BTreeMap<Net, BTreeMap<NiName, &'a NiConfig>>,
    /// The new networks in their order.
    order: &'a [NetConfig],
}

impl<'a> Nets<'a> {
    fn new(old: &'a Config, new: &'a Config) -> Self {
        let by_name = |config: &'a Config| {
            let named = |net: &'a NetConfig| {
                let nis = net.nis.iter().map(|ni| (ni.name(), ni));
                (net.net, nis.collect())
            };
            config.nets.iter().map(named).collect()
        };
        Self {
            old: by_name(old),
            new: by_name(new),
            order: &new.nets,
        }
    }

    fn removals(&self, changes: &mut Vec<Change>) {
        for (&net, nis) in &self.old {
            let Some(new) = self.new.get(&net) else {
                changes.push(Change::DelNet(net));
                continue;
            };
            let gone = nis.keys().filter(|name| !new.contains_key(name));
            changes.extend(gone.map(|name| Change::DelNi {
                net,
                ni: name.clone(),
            }));
        }
    }

    fn additions(&self, changes: &mut Vec<Change>) {
        for net in self.order {
            let Some(old) = self.old.get(&net.net) else {
                changes.push(Change::AddNet(net.clone()));
                continue;
            };
            for ni in &net.nis {
                let (net, ni) = (net.net, ni.clone());
                match old.get(&ni.name()) {
                    None => changes.push(Change::AddNi { net, ni }),
                    Some(&before) if *before != ni => changes.push(Change::SetNi { net, ni }),
                    Some(_) => {}
                }
            }
        }
    }
}

/// The peers by primary NID.
struct Peers<'a> {
    old: BTreeMap<Nid, &'a PeerConfig>,
    new: BTreeMap<Nid, &'a PeerConfig>,
    order: &'a [PeerConfig],
}

impl<'a> Peers<'a> {
    fn new(old: &'a Config, new: &'a Config) -> Self {
        let by_primary = |peers: &'a [PeerConfig]| {
            let named = peers
                .iter()
                .filter_map(|peer| Some((*peer.nids.first()?, peer)));
            named.collect()
        };
        Self {
            old: by_primary(&old.peers),
            new: by_primary(&new.peers),
            order: &new.peers,
        }
    }

    /// The counterpart of a peer in the other configuration, unless Multi-Rail differs.
    fn same<'p>(
        others: &BTreeMap<Nid, &'p PeerConfig>,
        peer: &PeerConfig,
    ) -> Option<&'p PeerConfig> {
        let other = others.get(peer.nids.first()?).copied()?;
        (other.multi_rail == peer.multi_rail).then_some(other)
    }

    fn removals(&self, changes: &mut Vec<Change>) {
        for (&primary, peer) in &self.old {
            match Self::same(&self.new, peer) {
                None => changes.push(Change::DelPeer { primary }),
                Some(new) => {
                    let nids = missing(peer, new);
                    if !nids.is_empty() {
                        changes.push(Change::DelPeerNids { primary, nids });
                    }
                }
            }
        }
    }

    fn additions(&self, changes: &mut Vec<Change>) {
        for peer in self.order {
            match (Self::same(&self.old, peer), peer.nids.first()) {
                (Some(old), Some(&primary)) => {
                    let nids = missing(peer, old);
                    if !nids.is_empty() {
                        changes.push(Change::AddPeerNids { primary, nids });
                    }
                }
                _ => changes.push(Change::AddPeer(peer.clone())),
            }
        }
    }
}

/// The NIDs of a peer that `other` lacks.
fn missing(peer: &PeerConfig, other: &PeerConfig) -> Vec<Nid> {
    let there: BTreeSet<&Nid> = other.nids.iter().collect();
    peer.nids
        .iter()
        .filter(|nid| !there.contains(nid))
        .copied()
        .collect()
}

/// The routes by network and gateway.
struct Routes<'a> {
    old: BTreeMap<(Net, Nid), &'a RouteConfig>,
    new: BTreeMap<(Net, Nid), &'a RouteConfig>,
    order: &'a [RouteConfig],
}

impl<'a> Routes<'a> {
    fn new(old: &'a Config, new: &'a Config) -> Self {
        let by_key = |routes: &'a [RouteConfig]| {
            let keyed = routes
                .iter()
                .map(|route| ((route.net, route.gateway), route));
            keyed.collect()
        };
        Self {
            old: by_key(&old.routes),
            new: by_key(&new.routes),
            order: &new.routes,
        }
    }

    fn removals(&self, changes: &mut Vec<Change>) {
        let gone = self.old.keys().filter(|key| !self.new.contains_key(key));
        changes.extend(gone.map(|&(net, gateway)| Change::DelRoute { net, gateway }));
    }

    fn additions(&self, changes: &mut Vec<Change>) {
        for route in self.order {
            match self.old.get(&(route.net, route.gateway)) {
                None => changes.push(Change::AddRoute(*route)),
                Some(&before) if before != route => changes.push(Change::SetRoute(*route)),
                Some(_) => {}
            }
        }
    }
}

impl Display for Change {
    /// The change as arguments of `lnetctl`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Globals(_) => write!(f, "set global parameters"),
            Self::DelRoute { net, gateway } => {
                write!(f, "route del --net {net} --gateway {gateway}")
            }
            Self::DelPeer { primary } => write!(f, "peer del --prim_nid {primary}"),
            Self::DelPeerNids { primary, nids } => {
                write!(f, "peer del --prim_nid {primary} --nid {}", listed(nids))
            }
            Self::DelNi { net, ni } => write!(f, "net del --net {net}{ni}"),
            Self::DelNet(net) => write!(f, "net del --net {net}"),
            Self::AddNet(net) => {
                let nis: Vec<_> = net.nis.iter().map(|ni| ni.name().to_string()).collect();
                write!(f, "net add --net {}{}", net.net, nis.concat())
            }
            Self::AddNi { net, ni } => write!(f, "net add --net {net}{}", ni.name()),
            Self::SetNi { net, ni } => write!(f, "net set --net {net}{}", ni.name()),
            Self::Ip2Nets(rules) => write!(f, "ip2nets of {} rules", rules.len()),
            Self::AddPeer(peer) => write!(f, "peer add --nid {}", listed(&peer.nids)),
            Self::AddPeerNids { primary, nids } => {
                write!(f, "peer add --prim_nid {primary} --nid {}", listed(nids))
            }
            Self::AddRoute(route) => write!(f, "route add {}", RouteText(route)),
            Self::SetRoute(route) => write!(f, "route set {}", RouteText(route)),
            Self::Routing(on) => write!(f, "set routing {}", u8::from(on.unwrap_or(false))),
            Self::Buffers(_) => write!(f, "set router buffers"),
            Self::DelRule { index } => write!(f, "udsp del --idx {index}"),
            Self::AddRule { index, rule } => write!(f, "udsp add --idx {index} {rule}"),
            Self::SetRule { rule, .. } => write!(f, "udsp add {rule}"),
        }
    }
}

impl Display for NiName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(nid) = self.nid {
            write!(f, " --nid {nid}")?;
        }
        if !self.interfaces.is_empty() {
            write!(f, " --if {}", self.interfaces.join(","))?;
        }
        Ok(())
    }
}

fn listed(nids: &[Nid]) -> String {
    nids.iter()
        .map(Nid::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

struct RouteText<'a>(&'a RouteConfig);

impl Display for RouteText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RouteConfig {
            net,
            gateway,
            hop,
            priority,
        } = self.0;
        let hop = hop.map_or(-1, i32::from);
        write!(
            f,
            "--net {net} --gateway {gateway} --hop {hop} --priority {priority}"
        )
    }
}
