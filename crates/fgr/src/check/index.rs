//! The routers of a site by their NIDs, and which of a class's routes LNet takes.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::RouteConfig;
use lnet_policy::Selector;
use lnet_types::expr::Descriptor;
use lnet_types::{Net, Nid};

use crate::check::Failed;
use crate::config::{Class, NodeRole, Site};

/// A node that is somebody's gateway.
pub(super) struct Gateway<'a> {
    pub(super) name: &'a str,
    blade: Option<&'a str>,
    class: &'a Class,
    /// Its number among the gateways.
    number: usize,
}

impl Gateway<'_> {
    /// Whether it forwards to a net.
    pub(super) fn leads_to(&self, net: Net) -> bool {
        let on_net = self.class.config.nets.iter().any(|local| local.net == net);
        self.class.role == NodeRole::Router && self.class.config.routing == Some(true) && on_net
    }
}

/// What is dead, by number of gateway.
pub(super) struct State {
    pub(super) failed: Failed,
    pub(super) dead: BTreeSet<usize>,
}

/// The gateways of one or several sites.
pub(super) struct Index<'a> {
    nodes: Vec<Gateway<'a>>,
    by_nid: BTreeMap<Nid, usize>,
}

impl<'a> Index<'a> {
    /// The nodes of these sites that a route of `routes` names; a later site's node replaces an
    /// earlier one's.
    pub(super) fn new(sites: &[&'a Site], routes: &[&Site]) -> Self {
        let classes = routes.iter().flat_map(|site| &site.classes);
        let routes = classes.flat_map(|class| &class.config.routes);
        let wanted: BTreeSet<Nid> = routes.map(|route| route.gateway).collect();
        let mut index = Self {
            nodes: Vec::new(),
            by_nid: BTreeMap::new(),
        };
        for site in sites {
            for node in &site.nodes {
                let nids = node.nids.iter().filter(|nid| wanted.contains(nid));
                let mut nids = nids.peekable();
                if nids.peek().is_none() {
                    continue;
                }
                let number = index.nodes.len();
                index.by_nid.extend(nids.map(|&nid| (nid, number)));
                index.nodes.push(Gateway {
                    name: &node.name,
                    blade: node.blade.as_deref(),
                    class: site.class_of(node),
                    number,
                });
            }
        }
        index
    }

    /// The node that has this NID.
    pub(super) fn gateway(&self, nid: Nid) -> Option<&Gateway<'a>> {
        self.by_nid.get(&nid).map(|&number| &self.nodes[number])
    }

    /// The gateways that a class's messages to a net may take when these are dead.
    pub(super) fn best(&self, class: &Class, net: Net, dead: &BTreeSet<usize>) -> Vec<Nid> {
        let is_usable = |route: &&RouteConfig| {
            let gateway = self.gateway(route.gateway);
            gateway.is_some_and(|g| g.leads_to(net) && !dead.contains(&g.number))
        };
        let is_local = |route: &&RouteConfig| {
            let mut nets = class.config.nets.iter();
            nets.any(|local| local.net == route.gateway.net())
        };
        let routes = class.config.routes.iter().filter(|route| route.net == net);
        let usable: Vec<_> = routes.filter(is_local).filter(is_usable).collect();
        let key = |route: &RouteConfig| {
            let preferred = prefers(class, net, route.gateway);
            (!preferred, route.priority, route.hop.unwrap_or(1))
        };
        let lowest = usable.iter().map(|route| key(route)).min();
        let best = usable.iter().filter(|route| Some(key(route)) == lowest);
        best.map(|route| route.gateway).collect()
    }

    /// Nothing dead; then each gateway of the pair; then each blade with several of them.
    pub(super) fn states(&self, client: &Class, server: &Class, net: Net) -> Vec<State> {
        let there = client.config.routes.iter().filter(|route| route.net == net);
        let there: Vec<Nid> = there.map(|route| route.gateway).collect();
        let is_back = |route: &&RouteConfig| there.iter().any(|nid| nid.net() == route.net);
        let back = server.config.routes.iter().filter(is_back);
        let nids = there.iter().copied().chain(back.map(|route| route.gateway));
        let numbers: BTreeSet<usize> = nids
            .filter_map(|nid| self.by_nid.get(&nid).copied())
            .collect();
        let mut states = vec![State {
            failed: Failed(None),
            dead: BTreeSet::new(),
        }];
        let mut blades: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for &number in &numbers {
            let node = &self.nodes[number];
            states.push(State {
                failed: Failed(Some(format!("router {}", node.name))),
                dead: BTreeSet::from([number]),
            });
            if let Some(blade) = node.blade {
                blades.entry(blade).or_default().insert(number);
            }
        }
        blades.retain(|_, dead| dead.len() > 1);
        states.extend(blades.into_iter().map(|(blade, dead)| State {
            failed: Failed(Some(format!("blade {blade}"))),
            dead,
        }));
        states
    }
}

/// Whether a selection rule of the class prefers this gateway for the net.
fn prefers(class: &Class, net: Net, nid: Nid) -> bool {
    class.rules.iter().any(|rule| match rule.selector() {
        Selector::Router {
            remote: Descriptor::Net(remote),
            gateway: Descriptor::Nid(gateway),
        } => remote.matches(net) && gateway.matches(nid),
        _ => false,
    })
}
