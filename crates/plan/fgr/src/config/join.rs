//! Joins several sites: clusters that share servers, rails of one cluster, routers with several
//! nets.
//!
//! ```text
//!   cluster A: clients a, routers ra ─┐
//!                                     ├─▶ servers with the routes of both
//!   cluster B: clients b, routers rb ─┘
//!
//!   rail 1: node n on tcp101, … ─┐
//!                                ├─▶ node n on all of these nets, with the routes of both
//!   rail 2: node n on tcp201, … ─┘
//! ```
//!
//! Nodes with equal names are one node, with the nets and routes of all of them.

use std::collections::BTreeMap;

use lnet_config::Config;
use lnet_types::{Net, Nid};
use thiserror::Error;

use crate::config::{Class, NodeRole, Site, SiteNode};

/// Why sites cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JoinError {
    /// A node has two roles or is on two blades.
    #[error("{0} is not the same node in all sites: its role, blade or parameters differ")]
    Different(String),
    /// A node has different NIDs on one net in two sites.
    #[error("{node} has two addresses on {net}")]
    NetTwice {
        /// The node.
        node: String,
        /// The net.
        net: Net,
    },
    /// Two routes to one net by one gateway differ.
    #[error("{node} has two routes to {net} by {gateway}")]
    RouteTwice {
        /// The node.
        node: String,
        /// The net.
        net: Net,
        /// The gateway.
        gateway: Nid,
    },
    /// Two nodes have the same NID.
    #[error("{nid} belongs to {first} and to {second}")]
    NidTwice {
        /// The NID.
        nid: Nid,
        /// The first node.
        first: String,
        /// The second.
        second: String,
    },
    /// Clients of two sites are on the same net. Replies could take routers of the other site.
    #[error("clients of two sites are on {0}: give each its own nets (--client-net)")]
    ClientNet(Net),
}

/// A node of one or several sites.
struct Joined {
    name: String,
    blade: Option<String>,
    /// The classes of the node: pairs of site and class.
    parts: Vec<(usize, usize)>,
    nids: Vec<Nid>,
}

impl Site {
    /// Joins the nodes of these sites.
    ///
    /// # Errors
    ///
    /// [`JoinError`]: two sites contradict each other, or both have clients on one net.
    pub fn join(sites: &[Self]) -> Result<Self, JoinError> {
        check_client_nets(sites)?;
        let nodes = joined_nodes(sites)?;
        check_nids(&nodes)?;
        let mut site = sites.first().cloned().unwrap_or_default();
        site.classes.clear();
        site.nodes.clear();
        let mut known: BTreeMap<&[(usize, usize)], usize> = BTreeMap::new();
        let mut counts: BTreeMap<NodeRole, usize> = BTreeMap::new();
        for node in &nodes {
            let next = site.classes.len();
            let class = *known.entry(&node.parts).or_insert(next);
            if class == next {
                let mut joined = class_of(sites, node)?;
                let count = counts.entry(joined.role).or_default();
                *count += 1;
                joined.name = format!("{}-{count:03}", joined.role.name());
                site.classes.push(joined);
            }
            site.nodes.push(SiteNode {
                name: node.name.clone(),
                class,
                blade: node.blade.clone(),
                nids: node.nids.iter().copied().collect(),
            });
        }
        Ok(site)
    }
}

/// Collects the nodes of all sites, those with equal names together, in the order of their first
/// sites.
fn joined_nodes(sites: &[Site]) -> Result<Vec<Joined>, JoinError> {
    let mut found: Vec<Joined> = Vec::new();
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, site) in sites.iter().enumerate() {
        for node in &site.nodes {
            let next = found.len();
            let at = *by_name.entry(&node.name).or_insert(next);
            if at == next {
                found.push(Joined {
                    name: node.name.clone(),
                    blade: node.blade.clone(),
                    parts: vec![(index, node.class)],
                    nids: node.nids.iter().collect(),
                });
                continue;
            }
            let known = &mut found[at];
            let role = |&(site, class): &(usize, usize)| sites[site].classes[class].role;
            if known.blade != node.blade || role(&known.parts[0]) != site.class_of(node).role {
                return Err(JoinError::Different(node.name.clone()));
            }
            known.parts.push((index, node.class));
            // Several addresses on one net are those of several interfaces, and each site has all.
            let before = known.nids.clone();
            for nid in node.nids.iter().filter(|nid| !before.contains(nid)) {
                if before.iter().any(|other| other.net() == nid.net()) {
                    let (node, net) = (node.name.clone(), nid.net());
                    return Err(JoinError::NetTwice { node, net });
                }
                known.nids.push(nid);
            }
        }
    }
    Ok(found)
}

/// Makes the class of a node by merging its classes.
fn class_of(sites: &[Site], node: &Joined) -> Result<Class, JoinError> {
    let mut parts = node
        .parts
        .iter()
        .map(|&(site, class)| &sites[site].classes[class]);
    let Some(first) = parts.next() else {
        return Err(JoinError::Different(node.name.clone()));
    };
    let mut class = first.clone();
    for part in parts {
        add(&mut class.config, &part.config, &node.name)?;
        class.rules.extend(part.rules.iter().cloned());
    }
    Ok(class)
}

/// Adds nets and routes. Everything else must be equal.
fn add(config: &mut Config, other: &Config, node: &str) -> Result<(), JoinError> {
    for net in &other.nets {
        if config.nets.iter().all(|known| known.net != net.net) {
            config.nets.push(net.clone());
        }
    }
    for route in &other.routes {
        let same = |known: &&lnet_config::RouteConfig| {
            (known.net, known.gateway) == (route.net, route.gateway)
        };
        match config.routes.iter().find(same) {
            Some(known) if known == route => {}
            Some(_) => {
                let (node, net, gateway) = (node.to_owned(), route.net, route.gateway);
                return Err(JoinError::RouteTwice { node, net, gateway });
            }
            None => config.routes.push(*route),
        }
    }
    let rest = |config: &Config| Config {
        nets: Vec::new(),
        routes: Vec::new(),
        ..config.clone()
    };
    if rest(config) == rest(other) {
        Ok(())
    } else {
        Err(JoinError::Different(node.to_owned()))
    }
}

fn check_nids(nodes: &[Joined]) -> Result<(), JoinError> {
    let mut seen: BTreeMap<Nid, &str> = BTreeMap::new();
    for node in nodes {
        for &nid in &node.nids {
            if let Some(first) = seen.insert(nid, &node.name) {
                let (first, second) = (first.to_owned(), node.name.clone());
                return Err(JoinError::NidTwice { nid, first, second });
            }
        }
    }
    Ok(())
}

fn check_client_nets(sites: &[Site]) -> Result<(), JoinError> {
    let mut owners: BTreeMap<Net, usize> = BTreeMap::new();
    for (index, site) in sites.iter().enumerate() {
        let clients = site
            .classes
            .iter()
            .filter(|class| class.role == NodeRole::Client);
        for net in clients.flat_map(|class| &class.config.nets) {
            if *owners.entry(net.net).or_insert(index) != index {
                return Err(JoinError::ClientNet(net.net));
            }
        }
    }
    Ok(())
}
