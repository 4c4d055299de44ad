//! The routers of a site by their NIDs, what is up after a failure, and which of a class's routes
//! LNet takes.

use std::collections::{BTreeMap, BTreeSet};

use lnet_config::RouteConfig;
use lnet_policy::Selector;
use lnet_types::expr::Descriptor;
use lnet_types::{Net, Nid};

use crate::check::passage::Conversation;
use crate::config::{Class, NodeRole, Site, SiteNode, address};

/// A class, its nodes, and its routes by net.
pub(super) struct Party<'a> {
    pub(super) class: &'a Class,
    pub(super) nodes: Vec<&'a SiteNode>,
    routes: BTreeMap<Net, Vec<&'a RouteConfig>>,
}

impl<'a> Party<'a> {
    fn new(class: &'a Class) -> Self {
        let mut routes: BTreeMap<Net, Vec<&RouteConfig>> = BTreeMap::new();
        for route in &class.config.routes {
            routes.entry(route.net).or_default().push(route);
        }
        Self {
            class,
            nodes: Vec::new(),
            routes,
        }
    }

    /// The routes of the class to a net.
    pub(super) fn routes(&self, net: Net) -> &[&'a RouteConfig] {
        self.routes.get(&net).map_or(&[], Vec::as_slice)
    }
}

/// A node that is the gateway of some route.
pub(super) struct Router<'a> {
    pub(super) name: &'a str,
    pub(super) blade: Option<&'a str>,
    class: &'a Class,
    pub(super) nids: Vec<Nid>,
    /// The number of the router.
    pub(super) number: usize,
}

impl Router<'_> {
    /// Whether the router forwards to a net.
    pub(super) fn leads_to(&self, net: Net) -> bool {
        self.class.config.routing == Some(true) && self.nid_on(net).is_some()
    }

    pub(super) fn nid_on(&self, net: Net) -> Option<Nid> {
        self.nids.iter().copied().find(|nid| nid.net() == net)
    }
}

/// What is down.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// Dead routers, by number.
    pub(super) dead: BTreeSet<usize>,
    /// Failed interfaces of routers.
    pub(super) nids: BTreeSet<Nid>,
    /// A failed net, with every interface on it.
    pub(super) net: Option<Net>,
}

/// The routers of one or several sites.
pub(super) struct Index<'a> {
    nodes: Vec<Router<'a>>,
    by_nid: BTreeMap<Nid, usize>,
    /// The interfaces of routers that some node pings. The others count as down once LNet's window
    /// has passed.
    pinged: BTreeSet<Nid>,
    /// Those that other nodes than clients ping, also while no client is up.
    pinged_early: BTreeSet<Nid>,
}

impl<'a> Index<'a> {
    /// Indexes the nodes of these sites that a route of `routes` names. A node of a later site
    /// replaces the node of an earlier site.
    pub(super) fn new(sites: &[&'a Site], routes: &[&Site]) -> Self {
        let used = routes.iter().flat_map(|site| parties(site));
        let used: Vec<&Class> = used.map(|party| party.class).collect();
        let wanted: BTreeSet<Nid> = used
            .iter()
            .flat_map(|class| &class.config.routes)
            .map(|route| route.gateway)
            .collect();
        let addresses: BTreeSet<Nid> = wanted.iter().map(|&nid| address(nid)).collect();
        let mut index = Self {
            nodes: Vec::new(),
            by_nid: BTreeMap::new(),
            pinged: BTreeSet::new(),
            pinged_early: BTreeSet::new(),
        };
        for site in sites {
            for node in &site.nodes {
                let may_be = node.nids.addresses().any(|nid| addresses.contains(&nid));
                if !may_be || !node.nids.iter().any(|nid| wanted.contains(&nid)) {
                    continue;
                }
                let number = index.nodes.len();
                index
                    .by_nid
                    .extend(node.nids.iter().map(|nid| (nid, number)));
                index.nodes.push(Router {
                    name: &node.name,
                    blade: node.blade.as_deref(),
                    class: site.class_of(node),
                    nids: node.nids.iter().collect(),
                    number,
                });
            }
        }
        for class in used {
            index.add_pings_of(class);
        }
        index
    }

    /// A node pings the NIDs that its routes name and, with discovery, the other NIDs of the same
    /// routers that it can reach.
    fn add_pings_of(&mut self, class: &Class) {
        for route in &class.config.routes {
            if !is_on(class, route.gateway.net()) {
                continue;
            }
            let router = self.by_nid.get(&route.gateway);
            let others = router.filter(|_| discovers(class));
            let others = others.map_or(&[][..], |&router| &self.nodes[router].nids[..]);
            let others = others.iter().copied();
            let others = others.filter(|nid| is_on(class, nid.net()));
            let pinged: Vec<Nid> = others.chain([route.gateway]).collect();
            if class.role != NodeRole::Client {
                self.pinged_early.extend(&pinged);
            }
            self.pinged.extend(pinged);
        }
    }

    /// Returns whether the server of a conversation has no usable route to the client's net until a
    /// client on this net has pinged the routers.
    pub(super) fn waits_at_start(&self, talk: &Conversation<'_>) -> bool {
        let routes = talk.server.routes(talk.session);
        let mut far = routes.iter().filter_map(|route| {
            let router = self.router(route.gateway)?;
            router.nid_on(talk.session)
        });
        !routes.is_empty() && !far.any(|nid| self.pinged_early.contains(&nid))
    }

    /// Returns whether a net has a single router, which has no other to ask whether the net works.
    pub(super) fn has_one_router(&self, net: Net) -> bool {
        let on_net = self.nodes.iter().filter(|node| node.nid_on(net).is_some());
        on_net.take(2).count() == 1
    }

    /// Returns the router with this NID.
    pub(super) fn router(&self, nid: Nid) -> Option<&Router<'a>> {
        self.by_nid.get(&nid).map(|&number| &self.nodes[number])
    }

    /// Returns the routers with these numbers.
    pub(super) fn routers(&self, numbers: &BTreeSet<usize>) -> impl Iterator<Item = &Router<'a>> {
        numbers.iter().map(|&number| &self.nodes[number])
    }

    /// Returns whether an interface of a router works.
    pub(super) fn works(&self, nid: Nid, state: &State) -> bool {
        let dead = self
            .by_nid
            .get(&nid)
            .is_none_or(|number| state.dead.contains(number));
        !dead && !state.nids.contains(&nid) && state.net != Some(nid.net())
    }

    /// Returns the router's interface on a net if the interface works but no node pings it, so that
    /// it counts as down.
    pub(super) fn quiet(&self, router: &Router<'_>, net: Net) -> Option<Nid> {
        let nid = router.nid_on(net)?;
        (!self.pinged.contains(&nid)).then_some(nid)
    }

    /// Returns whether LNet uses a route once it has noticed what is down. The far side counts if
    /// the route has one hop, or if the router is known to be on the net.
    fn is_usable(&self, class: &Class, route: &RouteConfig, state: &State) -> bool {
        let near = route.gateway.net();
        let Some(router) = self.router(route.gateway) else {
            return false;
        };
        if !is_on(class, near) || !self.works(route.gateway, state) {
            return false;
        }
        let far = router.nid_on(route.net);
        let is_far_up = far.is_some_and(|nid| self.works(nid, state) && self.pinged.contains(&nid));
        let counts = route.hop == Some(1) || far.is_some();
        router.class.config.routing == Some(true) && (is_far_up || !counts)
    }

    /// Returns the gateways that a class's messages to a net may take, those of `preferred` first.
    /// If `source` is given, the messages leave from an interface on `source`.
    pub(super) fn best(
        &self,
        party: &Party<'_>,
        net: Net,
        source: Option<Net>,
        preferred: &[Nid],
        state: &State,
    ) -> Vec<Nid> {
        let is_from_source =
            |route: &RouteConfig| source.is_none_or(|net| route.gateway.net() == net);
        let routes = party.routes(net).iter();
        let usable: Vec<_> = routes
            .filter(|route| is_from_source(route))
            .filter(|route| self.is_usable(party.class, route, state))
            .collect();
        let key = |route: &RouteConfig| {
            let is_preferred = preferred.contains(&route.gateway);
            (!is_preferred, route.priority, route.hop.unwrap_or(1))
        };
        let lowest = usable.iter().map(|route| key(route)).min();
        let best = usable.iter().filter(|route| Some(key(route)) == lowest);
        best.map(|route| route.gateway).collect()
    }

    /// Returns which gateways the rules of a class prefer towards the nodes of another class on a
    /// net: each list that occurs.
    pub(super) fn preferences(&self, from: &Party<'_>, to: &Party<'_>, net: Net) -> Vec<Vec<Nid>> {
        if from.class.rules.is_empty() {
            return vec![Vec::new()];
        }
        let routes = from.routes(net).iter();
        let gateways: Vec<Nid> = routes.map(|route| route.gateway).collect();
        let targets = to.nodes.iter().flat_map(|node| node.nids.iter());
        let lists: BTreeSet<Vec<Nid>> = targets
            .filter(|target| target.net() == net)
            .map(|target| self.preferred(from.class, target, &gateways))
            .collect();
        lists.into_iter().collect()
    }

    fn preferred(&self, from: &Class, target: Nid, gateways: &[Nid]) -> Vec<Nid> {
        let rules = from.rules.iter().filter_map(|rule| match rule.selector() {
            Selector::Router {
                remote,
                gateway: Descriptor::Nid(gateway),
            } => {
                let applies = match remote {
                    Descriptor::Net(remote) => remote.matches(target.net()),
                    Descriptor::Nid(remote) => remote.matches(target),
                };
                applies.then_some(gateway)
            }
            _ => None,
        });
        let rules: Vec<_> = rules.collect();
        let is_named = |nid: &Nid| {
            let others = self.router(*nid).filter(|_| discovers(from));
            let others = others.map_or(&[][..], |router| &router.nids[..]);
            let names = || others.iter().chain([nid]);
            rules
                .iter()
                .any(|rule| names().any(|&nid| rule.matches(nid)))
        };
        gateways.iter().copied().filter(is_named).collect()
    }

    /// Returns whether a class has a route to `net` by the router with the interface `sender`, dead
    /// or alive. Without such a route it drops messages from that router (`drop_asym_route`). If
    /// discovery is off, each NID of a router is a gateway of its own.
    pub(super) fn accepts(&self, party: &Party<'_>, net: Net, sender: Nid) -> bool {
        let class = party.class;
        let is_same = |gateway: Nid| match discovers(class) {
            true => self.by_nid.get(&gateway) == self.by_nid.get(&sender),
            false => gateway == sender,
        };
        class.config.globals.drop_asym_route != Some(true)
            || party.routes(net).iter().any(|route| is_same(route.gateway))
    }
}

/// Returns whether a class has an interface on a net.
pub(super) fn is_on(class: &Class, net: Net) -> bool {
    class.config.nets.iter().any(|local| local.net == net)
}

/// Returns whether discovery is on. It is on by default.
pub(super) fn discovers(class: &Class) -> bool {
    class.config.globals.discovery != Some(false)
}

/// Returns the classes of a site that nodes have, each with its nodes.
pub(super) fn parties(site: &Site) -> Vec<Party<'_>> {
    let mut parties: Vec<Party<'_>> = site.classes.iter().map(Party::new).collect();
    for node in &site.nodes {
        parties[node.class].nodes.push(node);
    }
    parties.retain(|party| !party.nodes.is_empty());
    parties
}
