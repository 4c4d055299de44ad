//! Chains of routers: several clusters and servers on nets that are several routers apart.
//!
//! ```text
//!   cluster ─ o2ib1 ─ cr4, cr5 ─ o2ib100 ─ bA2 … bA5 ─ tcp ─ bB2 … bB5 ─ o2ib200 ─ servers
//!              │        stage                stage            stage
//!              └ from each node to each net: by every router on a shortest way, with equal priority
//! ```
//!
//! A node sends towards a net by all routers that it reaches and that are on a shortest way to the
//! net. LNet shares messages equally among gateways of equal priority and hop count, so every stage
//! is balanced; and every step of a shortest way is nearer to the net, so no message goes in a
//! circle. If one router of a stage dies, the nodes before the stage share its messages among the
//! others. A router carries at most what the slower of its two sides carries.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use lnet_config::{Config, Globals, NetConfig, RouteConfig};
use lnet_types::{Net, Nid};

use crate::config::{Class, NodeRole, Site, SiteNode, Timing};
use crate::rates::RateSource;

pub use crate::input::read_chain;

/// A site of clusters, routers and servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// The name of the site.
    pub name: String,
    /// Where the rates come from.
    pub rates: RateSource,
    /// The groups of equal nodes, in the order of the description.
    pub groups: Vec<Group>,
}

/// Nodes with interfaces on the same nets.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The host list that names the group.
    pub list: String,
    /// The names of the nodes.
    pub nodes: Vec<String>,
    /// The role of the nodes.
    pub role: NodeRole,
    /// The interfaces of a node, each on another net.
    pub sides: Vec<Side>,
}

/// The interface of each node of a group on one net.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The configuration of the net, without NIDs.
    pub net: NetConfig,
    /// The NID of the first node. The other nodes have the following addresses.
    pub first: Nid,
    /// GB/s that a node sends and receives on the net, over all its adapters there.
    pub rate: f64,
}

impl Group {
    fn side(&self, net: Net) -> Option<&Side> {
        self.sides.iter().find(|side| side.net.net == net)
    }

    pub(crate) fn nets(&self) -> impl Iterator<Item = Net> + '_ {
        self.sides.iter().map(|side| side.net.net)
    }

    /// The NID of a node of the group on a net.
    pub(crate) fn nid(&self, node: usize, net: Net) -> Option<Nid> {
        let first = self.side(net)?.first;
        // Nodes of a group are fewer than 2^22; the reader checked the last address.
        let number = first.number().checked_add(u32::try_from(node).ok()?)?;
        Some(Nid::from_number(net, number))
    }
}

/// A stage of a way: the routers that join two nets.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// The net from which messages come.
    pub from: Net,
    /// The net to which the routers forward.
    pub to: Net,
    /// The groups of routers.
    pub routers: Vec<String>,
    /// Number of routers.
    pub count: usize,
    /// GB/s of the stage: every router gets the same share, so the slowest router, by its slower
    /// side, limits all of them.
    pub rate: f64,
    /// GB/s if the sides did not limit each other: what the faster sides could carry.
    pub idle: f64,
}

impl Stage {
    /// GB/s after the failure of one router.
    #[must_use]
    pub fn rate_without_one(&self) -> f64 {
        self.rate * (self.count.saturating_sub(1)) as f64 / self.count.max(1) as f64
    }
}

/// The way between a cluster's net and a net of servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// The net of clients.
    pub clients: Net,
    /// The net of servers.
    pub servers: Net,
    /// The stages in the order of requests; empty if there is no way.
    pub stages: Vec<Stage>,
}

impl Way {
    /// The stage that limits the way.
    #[must_use]
    pub fn narrowest(&self) -> Option<&Stage> {
        let stages = self.stages.iter();
        stages.min_by(|a, b| a.rate.total_cmp(&b.rate))
    }
}

impl Chain {
    /// The routers, with the numbers of their groups.
    fn routers(&self) -> impl Iterator<Item = (usize, &Group)> {
        let groups = self.groups.iter().enumerate();
        groups.filter(|(_, group)| group.role == NodeRole::Router)
    }

    /// Number of routers between each net and `target`; nets without a way are missing.
    fn distances(&self, target: Net) -> BTreeMap<Net, u8> {
        let mut found = BTreeMap::from([(target, 0)]);
        let mut last = vec![target];
        // Routes hold up to 255 hops.
        for hops in 1..=u8::MAX {
            let mut next = Vec::new();
            for (_, group) in self.routers() {
                if !group.nets().any(|net| last.contains(&net)) {
                    continue;
                }
                for net in group.nets() {
                    if let Entry::Vacant(entry) = found.entry(net) {
                        entry.insert(hops);
                        next.push(net);
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            last = next;
        }
        found
    }

    /// The nets, in ascending order.
    fn nets(&self) -> BTreeSet<Net> {
        self.groups.iter().flat_map(Group::nets).collect()
    }

    /// The nets of the nodes with a role.
    fn nets_of(&self, role: NodeRole) -> BTreeSet<Net> {
        let groups = self.groups.iter().filter(|group| group.role == role);
        groups.flat_map(Group::nets).collect()
    }

    /// Returns the routes of the nodes of a group: to every net on which they are not, by all routers
    /// on a shortest way.
    fn routes(&self, group: &Group) -> Vec<RouteConfig> {
        let own: BTreeSet<Net> = group.nets().collect();
        let mut routes = Vec::new();
        for target in self.nets().difference(&own) {
            let distances = self.distances(*target);
            let of = |router: &Group| router.nets().filter_map(|net| distances.get(&net)).min();
            let near: Vec<(&Group, Net, u8)> = self
                .routers()
                .filter_map(|(_, router)| {
                    let shared = router.nets().find(|net| own.contains(net))?;
                    Some((router, shared, of(router)?.checked_add(1)?))
                })
                .collect();
            let least = near.iter().map(|(.., hop)| *hop).min();
            for (router, net, hop) in near.iter().filter(|(.., hop)| Some(*hop) == least) {
                let gateways = (0..router.nodes.len()).filter_map(|node| router.nid(node, *net));
                routes.extend(gateways.map(|gateway| RouteConfig {
                    net: *target,
                    gateway,
                    hop: Some(*hop),
                    priority: 0,
                }));
            }
        }
        routes
    }

    /// Makes the configuration of every node.
    #[must_use]
    pub fn site(&self, timing: Timing) -> Site {
        let mut site = Site {
            timing,
            ..Site::default()
        };
        let mut numbers: BTreeMap<NodeRole, usize> = BTreeMap::new();
        for group in &self.groups {
            let number = numbers.entry(group.role).or_default();
            *number += 1;
            let class = site.classes.len();
            let nets = group.sides.iter().map(|side| side.net.clone());
            site.classes.push(Class {
                name: format!("{}-{number:03}", group.role.name()),
                role: group.role,
                config: Config {
                    nets: nets.collect(),
                    routes: self.routes(group),
                    routing: (group.role == NodeRole::Router).then_some(true),
                    globals: Globals {
                        transaction_timeout: Some(timing.transaction_timeout),
                        ..Globals::default()
                    },
                    ..Config::default()
                },
                rules: Vec::new(),
            });
            for (index, name) in group.nodes.iter().enumerate() {
                let nids = group.nets().filter_map(|net| group.nid(index, net));
                site.nodes.push(SiteNode {
                    name: name.clone(),
                    class,
                    blade: None,
                    nids: nids.collect(),
                });
            }
        }
        site
    }

    /// Returns the way of each pair of a net of clients and another net of servers.
    #[must_use]
    pub fn ways(&self) -> Vec<Way> {
        let mut ways = Vec::new();
        for clients in self.nets_of(NodeRole::Client) {
            for servers in self.nets_of(NodeRole::Server) {
                if clients != servers {
                    ways.push(Way {
                        clients,
                        servers,
                        stages: self.stages(clients, servers),
                    });
                }
            }
        }
        ways
    }

    /// Returns the stages from one net to another: at each step all routers on a shortest way. Where
    /// shortest ways use different nets, each net is a stage of its own.
    fn stages(&self, from: Net, to: Net) -> Vec<Stage> {
        let distances = self.distances(to);
        let mut stages = Vec::new();
        let mut nets = BTreeSet::from([from]);
        while let Some(&net) = nets.iter().next().filter(|_| !nets.contains(&to)) {
            let Some(left) = distances.get(&net) else {
                return Vec::new();
            };
            let mut next: BTreeSet<Net> = BTreeSet::new();
            for &net in &nets {
                let nearer = |other: &Net| distances.get(other).is_some_and(|d| d + 1 == *left);
                let mut onward: BTreeMap<Net, Vec<&Group>> = BTreeMap::new();
                for (_, router) in self
                    .routers()
                    .filter(|(_, router)| router.side(net).is_some())
                {
                    if let Some(other) = router.nets().find(nearer) {
                        onward.entry(other).or_default().push(router);
                    }
                }
                next.extend(onward.keys());
                stages.extend(
                    onward
                        .into_iter()
                        .map(|(other, routers)| stage(net, other, &routers)),
                );
            }
            nets = next;
        }
        stages
    }
}

fn stage(from: Net, to: Net, routers: &[&Group]) -> Stage {
    let count: usize = routers.iter().map(|router| router.nodes.len()).sum();
    let rates = routers.iter().filter_map(|router| {
        let (near, far) = (router.side(from)?.rate, router.side(to)?.rate);
        Some((near.min(far), near.max(far)))
    });
    let rates: Vec<(f64, f64)> = rates.collect();
    let slowest = rates
        .iter()
        .map(|rate| rate.0)
        .fold(f64::INFINITY, f64::min);
    let fastest = rates.iter().map(|rate| rate.1).fold(0.0, f64::max);
    let rate = slowest * count as f64;
    Stage {
        from,
        to,
        routers: routers.iter().map(|router| router.list.clone()).collect(),
        count,
        rate,
        idle: fastest * count as f64 - rate,
    }
}
