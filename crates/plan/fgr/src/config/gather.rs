//! Makes a site from its files, or from the configurations of its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use lnet_config::modprobe::{Dialect, ModuleOptions};
use lnet_config::{Config, Globals, NetConfig};
use lnet_policy::Rule;
use lnet_types::{Net, Nid};

use crate::config::files::NodeLine;
use crate::config::nids::address;
use crate::config::{Class, Nids, NodeRole, Site, SiteNode, Timing};
use crate::problem::{InputError, Problems, shown};

/// The contents of the files of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassText {
    /// The document.
    pub config: Config,
    /// The selection rules.
    pub rules: Vec<Rule>,
}

impl Site {
    /// Makes a site of these nodes and classes. Nodes whose class is not in `classes` are left out.
    #[must_use]
    pub fn from_lines(lines: Vec<NodeLine>, classes: &BTreeMap<String, ClassText>) -> Self {
        let mut site = Self::default();
        let mut known: BTreeMap<(Arc<str>, NodeRole), usize> = BTreeMap::new();
        for line in lines {
            let Some(text) = classes.get(&*line.class) else {
                continue;
            };
            let next = site.classes.len();
            let key = (Arc::clone(&line.class), line.role);
            let class = *known.entry(key).or_insert(next);
            if class == next {
                site.classes.push(Class {
                    name: line.class.to_string(),
                    role: line.role,
                    config: text.config.clone(),
                    rules: text.rules.clone(),
                });
            }
            site.nodes.push(SiteNode {
                name: line.name,
                class,
                blade: line.blade,
                nids: line.nids,
            });
        }
        site
    }

    /// Makes a site of nodes with their own configurations, such as exports. A node that forwards
    /// is a router; another node on a net for which `serves` is true is a server; all other nodes
    /// are clients. Nodes with the same routing become one class, named after the first of them.
    #[must_use]
    pub fn from_nodes(
        nodes: impl IntoIterator<Item = (String, Config)>,
        serves: impl Fn(Net) -> bool,
    ) -> Self {
        let mut site = Self::default();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for (name, config) in nodes {
            let nids = nids(&config).into_iter().collect();
            let config = what_routes(config);
            let next = site.classes.len();
            let class = *known.entry(config.to_yaml()).or_insert(next);
            if class == next {
                let role = match config.routing {
                    Some(true) => NodeRole::Router,
                    _ if config.nets.iter().any(|net| serves(net.net)) => NodeRole::Server,
                    _ => NodeRole::Client,
                };
                let rules = config.rules.rules().to_vec();
                site.classes.push(Class {
                    name: name.clone(),
                    role,
                    config,
                    rules,
                });
            }
            let blade = None;
            site.nodes.push(SiteNode {
                name,
                class,
                blade,
                nids,
            });
        }
        site
    }

    /// Returns whether both are plans of one site: a node has its name and one of its NIDs in both. A plan without
    /// nodes is one of every site.
    #[must_use]
    pub fn is_site_of(&self, other: &Self) -> bool {
        if self.nodes.is_empty() || other.nodes.is_empty() {
            return true;
        }
        let nodes = self.nodes.iter();
        let nids: BTreeMap<&str, &Nids> = nodes.map(|node| (&*node.name, &node.nids)).collect();
        other.nodes.iter().any(|node| {
            let known = nids.get(&*node.name);
            known.is_some_and(|known| known.iter().any(|nid| node.nids.iter().any(|of| of == nid)))
        })
    }

    /// Returns the nodes that have one of these NIDs, by NID.
    #[must_use]
    pub fn nodes_by_nid(&self, wanted: impl IntoIterator<Item = Nid>) -> BTreeMap<Nid, &SiteNode> {
        let wanted: BTreeSet<Nid> = wanted.into_iter().collect();
        let addresses: BTreeSet<Nid> = wanted.iter().map(|&nid| address(nid)).collect();
        let mut found = BTreeMap::new();
        for node in &self.nodes {
            if node.nids.addresses().any(|nid| addresses.contains(&nid)) {
                let nids = node.nids.iter().filter(|nid| wanted.contains(nid));
                found.extend(nids.map(|nid| (nid, node)));
            }
        }
        found
    }
}

/// A NID that two nodes have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The NID.
    pub nid: Nid,
    /// The names of the two nodes.
    pub nodes: [String; 2],
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = &self.nodes;
        write!(f, "{one} and {other} have the same NID, {}", self.nid)
    }
}

impl Site {
    /// Returns the NIDs that two nodes have: for each node the first NID that a node before it has.
    #[must_use]
    pub fn shared_nids(&self) -> Vec<Shared> {
        let nodes = self.nodes.iter().enumerate();
        let mut places: Vec<(Nid, usize)> = nodes
            .flat_map(|(at, node)| node.nids.addresses().map(move |address| (address, at)))
            .collect();
        places.sort_unstable();
        places.dedup();
        let groups = places.chunk_by(|one, other| one.0 == other.0);
        let shared = groups.filter(|group| group.len() > 1).flat_map(|group| {
            let mut owners: BTreeMap<Nid, usize> = BTreeMap::new();
            let mut shared = Vec::new();
            for &(_, at) in group {
                let Some(node) = self.nodes.get(at) else {
                    continue;
                };
                let mut known = node
                    .nids
                    .iter()
                    .filter_map(|nid| Some((nid, *owners.get(&nid)?)));
                if let Some((nid, owner)) = known.next()
                    && let Some(owner) = self.nodes.get(owner)
                {
                    let nodes = [owner.name.to_string(), node.name.to_string()];
                    shared.push(Shared { nid, nodes });
                }
                for nid in node.nids.iter() {
                    owners.entry(nid).or_insert(at);
                }
            }
            shared
        });
        shared.collect()
    }
}

/// The NIDs in a configuration.
#[must_use]
pub fn nids(config: &Config) -> Vec<Nid> {
    let nis = config.nets.iter().flat_map(|net| &net.nis);
    nis.filter_map(|ni| ni.nid).collect()
}

/// Keeps only what affects routing, in a form that nodes can share.
fn what_routes(config: Config) -> Config {
    let nets = config.nets.iter().map(|net| NetConfig {
        net: net.net,
        nis: vec![lnet_config::NiConfig {
            interfaces: vec!["any".to_owned()],
            ..lnet_config::NiConfig::default()
        }],
    });
    let mut routes = config.routes;
    routes.sort_by_key(|route| (route.net, route.priority, route.gateway));
    Config {
        nets: nets.collect(),
        routes,
        rules: config.rules,
        routing: config.routing,
        globals: Globals {
            discovery: config.globals.discovery,
            drop_asym_route: config.globals.drop_asym_route,
            transaction_timeout: config.globals.transaction_timeout,
            alive_router_check_interval: config.globals.alive_router_check_interval,
            router_ping_timeout: config.globals.router_ping_timeout,
            avoid_asym_router_failure: config.globals.avoid_asym_router_failure,
            profile: config.globals.profile,
            ..Globals::default()
        },
        ..Config::default()
    }
}

/// Reads from options of the `lnet` module how nodes watch their gateways. Options that are not set
/// have LNet's defaults.
///
/// # Errors
///
/// A text that is not a file of module options, and values that are not seconds.
pub fn read_timing(file: &str, text: &str) -> Result<Timing, InputError> {
    let mut problems = Problems::new(file);
    let mut timing = Timing::LNET;
    match ModuleOptions::parse(text, Dialect::Kernel) {
        Ok(options) => {
            let Globals {
                transaction_timeout,
                alive_router_check_interval,
                router_ping_timeout,
                ..
            } = options.globals;
            timing = Timing {
                transaction_timeout: transaction_timeout.unwrap_or(timing.transaction_timeout),
                check_interval: alive_router_check_interval.unwrap_or(timing.check_interval),
                ping_timeout: router_ping_timeout.unwrap_or(timing.ping_timeout),
            };
        }
        Err(error) => problems.value(1, "options", &shown(&error.to_string()), "module options"),
    }
    problems.into_result(timing)
}
