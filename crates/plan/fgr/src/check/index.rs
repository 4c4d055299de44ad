//! The routers of a site by their NIDs, what is up after a failure, and which of its routes a node
//! takes.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use lnet_config::RouteConfig;
use lnet_policy::Selector;
use lnet_types::expr::Descriptor;
use lnet_types::{Net, Nid};

use crate::check::passage::Conversation;
use crate::config::{Class, NodeRole, Site, SiteNode, address};

/// The routes of a class by net.
type Routes<'a> = Rc<BTreeMap<Net, Vec<&'a RouteConfig>>>;

/// A class, its nodes, and its routes by net.
#[derive(Clone)]
pub(super) struct Party<'a> {
    pub(super) class: &'a Class,
    pub(super) nodes: Vec<&'a SiteNode>,
    routes: Routes<'a>,
    /// If the party is one router, its number.
    router: Option<usize>,
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
            routes: Rc::new(routes),
            router: None,
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
    /// The router as a sender of what it forwards.
    pub(super) party: Party<'a>,
    pub(super) nids: Vec<Nid>,
    /// The number of the router.
    pub(super) number: usize,
}

impl Router<'_> {
    pub(super) fn forwards(&self) -> bool {
        self.party.class.config.routing == Some(true)
    }

    /// Whether the router forwards to a net: it is on the net, or has a route to the net.
    pub(super) fn leads_to(&self, net: Net) -> bool {
        let has_way = self.nid_on(net).is_some() || !self.party.routes(net).is_empty();
        self.forwards() && has_way
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

/// Who pings an interface of a router.
#[derive(Clone, Debug, Default)]
struct Pingers {
    /// Whether a node pings that is the gateway of no route.
    by_ends: bool,
    /// Whether another node than a client pings, also while no client is up.
    is_early: bool,
    /// The gateways of routes that ping, whether they forward or not.
    routers: BTreeSet<usize>,
}

/// The routers of one or several sites.
pub(super) struct Index<'a> {
    nodes: Vec<Router<'a>>,
    by_nid: BTreeMap<Nid, usize>,
    /// The interfaces of routers that some node pings. The others count as down once LNet's window
    /// has passed.
    pinged: BTreeMap<Nid, Pingers>,
}

impl<'a> Index<'a> {
    /// Indexes the nodes of these sites that a route of `routes` names. A node of a later site
    /// replaces the node of an earlier site.
    pub(super) fn new(sites: &[&'a Site], routes: &[&Site]) -> Self {
        let used: Vec<Party<'_>> = routes.iter().flat_map(|site| parties(site)).collect();
        let wanted: BTreeSet<Nid> = used
            .iter()
            .flat_map(|party| &party.class.config.routes)
            .map(|route| route.gateway)
            .collect();
        let addresses: BTreeSet<Nid> = wanted.iter().map(|&nid| address(nid)).collect();
        let mut index = Self {
            nodes: Vec::new(),
            by_nid: BTreeMap::new(),
            pinged: BTreeMap::new(),
        };
        for site in sites {
            let classes: Vec<Party<'_>> = site.classes.iter().map(Party::new).collect();
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
                    party: Party {
                        router: Some(number),
                        ..classes[node.class].clone()
                    },
                    nids: node.nids.iter().collect(),
                    number,
                });
            }
        }
        for party in &used {
            index.add_pings_of(party);
        }
        index
    }

    /// A node pings the NIDs that its routes name and, with discovery, the other NIDs of the same
    /// routers that it can reach.
    fn add_pings_of(&mut self, party: &Party<'_>) {
        let class = party.class;
        if !asks_gateways(class) {
            return;
        }
        let own = self.gateways_among(party);
        for route in &class.config.routes {
            if !is_on(class, route.gateway.net()) {
                continue;
            }
            let router = self.by_nid.get(&route.gateway).copied();
            let others = router.filter(|_| discovers(class));
            let others = others.map_or(&[][..], |router| &self.nodes[router].nids[..]);
            let others = others.iter().copied();
            let others = others.filter(|nid| is_on(class, nid.net()));
            let pinged: Vec<Nid> = others.chain([route.gateway]).collect();
            for nid in pinged {
                let pingers = self.pinged.entry(nid).or_default();
                // No router pings itself.
                let routers = own.iter().copied().filter(|&own| Some(own) != router);
                pingers.routers.extend(routers);
                pingers.by_ends |= own.len() < party.nodes.len();
                pingers.is_early |= class.role != NodeRole::Client;
            }
            self.add_answers(&own, route.gateway, class);
        }
    }

    /// Returns the nodes of a party that are gateways of routes.
    fn gateways_among(&self, party: &Party<'_>) -> BTreeSet<usize> {
        if party.class.config.routes.is_empty() {
            return BTreeSet::new();
        }
        let nids = party.nodes.iter().flat_map(|node| node.nids.iter());
        nids.filter_map(|nid| self.by_nid.get(&nid).copied())
            .collect()
    }

    /// A router of `design` counts what its gateways answer as pings from their nets. A configuration that names no profile
    /// may be that of kernels.
    // [GATE-37]
    fn add_answers(&mut self, routers: &BTreeSet<usize>, gateway: Nid, class: &Class) {
        let profile = class.config.globals.profile;
        let counts_answers = profile.is_some_and(|profile| !profile.is_lustre());
        let Some(&answering) = self.by_nid.get(&gateway).filter(|_| counts_answers) else {
            return;
        };
        for &router in routers.iter().filter(|&&router| router != answering) {
            let nids = self.nodes[router].nids.iter();
            for &nid in nids.filter(|nid| nid.net() == gateway.net()) {
                let pingers = self.pinged.entry(nid).or_default();
                pingers.routers.insert(answering);
                pingers.is_early = true;
            }
        }
    }

    /// Returns whether a node pings this interface, so that it does not count as down.
    fn is_heard(&self, nid: Nid, state: &State) -> bool {
        let Some(pingers) = self.pinged.get(&nid) else {
            return false;
        };
        let reaches = |&router: &usize| self.is_router_on(router, nid.net(), state);
        pingers.by_ends || pingers.routers.iter().any(reaches)
    }

    /// Returns whether a router has a working interface on a net.
    pub(super) fn is_router_on(&self, router: usize, net: Net, state: &State) -> bool {
        let mut nids = self.nodes[router].nids.iter();
        nids.any(|&nid| nid.net() == net && self.works(nid, state))
    }

    /// Returns whether the server of a conversation has no usable route to the client's net until a
    /// client on this net has pinged the routers.
    pub(super) fn waits_at_start(&self, talk: &Conversation<'_>) -> bool {
        let routes = talk.server.routes(talk.session);
        let far = routes.iter().filter_map(|route| {
            let router = self.router(route.gateway)?;
            router.nid_on(talk.session)
        });
        let far: Vec<Nid> = far.collect();
        let is_early = |nid: &Nid| self.pinged.get(nid).is_some_and(|pingers| pingers.is_early);
        !far.is_empty() && !far.iter().any(is_early)
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

    /// Returns the router with this number.
    pub(super) fn numbered(&self, number: usize) -> &Router<'a> {
        &self.nodes[number]
    }

    /// Returns the routers with these numbers.
    pub(super) fn routers(&self, numbers: &BTreeSet<usize>) -> impl Iterator<Item = &Router<'a>> {
        numbers.iter().map(|&number| &self.nodes[number])
    }

    /// Returns the routers that messages of a party to a net may cross: its gateways and, behind
    /// those that are not on the net, their gateways.
    pub(super) fn on_the_way(&self, party: &Party<'_>, net: Net) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open: Vec<usize> = self.next(party, net).into_iter().collect();
        while let Some(number) = open.pop() {
            let router = &self.nodes[number];
            if found.insert(number) && router.nid_on(net).is_none() {
                open.extend(self.next(&router.party, net));
            }
        }
        found
    }

    /// Returns the routers whose pings alone keep interfaces of these routers from counting as down.
    pub(super) fn only_pingers_of(&self, numbers: &BTreeSet<usize>) -> BTreeSet<usize> {
        let nids = self.routers(numbers).flat_map(|router| &router.nids);
        let pingers = nids.filter_map(|nid| self.pinged.get(nid));
        let alone = pingers.filter(|pingers| !pingers.by_ends);
        alone
            .flat_map(|pingers| &pingers.routers)
            .copied()
            .collect()
    }

    /// Returns the routers by which a party has routes to a net.
    pub(super) fn next(&self, party: &Party<'_>, net: Net) -> BTreeSet<usize> {
        let routes = party.routes(net).iter();
        let found = routes.filter_map(|route| self.by_nid.get(&route.gateway));
        found.copied().collect()
    }

    /// Returns whether an interface of a router works.
    pub(super) fn works(&self, nid: Nid, state: &State) -> bool {
        let dead = self
            .by_nid
            .get(&nid)
            .is_none_or(|number| state.dead.contains(number));
        !dead && !state.nids.contains(&nid) && state.net != Some(nid.net())
    }

    /// Returns whether the gateway of a route is on the net of the route.
    pub(super) fn is_single_hop(&self, route: &RouteConfig) -> bool {
        let router = self.router(route.gateway);
        router.is_none_or(|router| router.nid_on(route.net).is_some())
    }

    /// Returns the router's interface on a net if the interface works but no node pings it, so that
    /// it counts as down.
    pub(super) fn quiet(&self, router: &Router<'_>, net: Net) -> Option<Nid> {
        let nid = router.nid_on(net)?;
        (!self.is_heard(nid, &State::default())).then_some(nid)
    }

    /// Returns whether messages of a class reach a gateway. With discovery the class knows all
    /// interfaces of the router, and any of them on the gateway's net will do.
    pub(super) fn takes(&self, class: &Class, gateway: Nid, state: &State) -> bool {
        let of_router = || self.by_nid.get(&gateway);
        let on_net = |&router: &usize| self.is_router_on(router, gateway.net(), state);
        self.works(gateway, state) || discovers(class) && of_router().is_some_and(on_net)
    }

    /// Returns whether LNet uses a route once it has noticed what is down. The far side counts if
    /// the route has one hop, or if the router is known to be on the net.
    fn is_usable(&self, party: &Party<'_>, route: &RouteConfig, state: &State) -> bool {
        let (class, near) = (party.class, route.gateway.net());
        let gateway = self.router(route.gateway);
        let Some(router) = gateway.filter(|gateway| Some(gateway.number) != party.router) else {
            return false;
        };
        let is_near_up = match party.router {
            Some(own) => self.is_router_on(own, near, state),
            None => is_on(class, near),
        };
        if !is_near_up || !asks_gateways(class) {
            return is_near_up;
        }
        if !self.takes(class, route.gateway, state) || !router.forwards() {
            return false;
        }
        let is_watched = class.config.globals.avoid_asym_router_failure != Some(false);
        let counts = route.hop == Some(1) || router.nid_on(route.net).is_some();
        let mut far = router.nids.iter().filter(|nid| nid.net() == route.net);
        !(is_watched && counts)
            || far.any(|&nid| self.works(nid, state) && self.is_heard(nid, state))
    }

    /// Returns the gateways that a node's messages to a net may take, those of `preferred` first.
    /// If `source` is given, the messages leave from an interface on `source`. A router does not
    /// give a message back to the router `from` that it came from.
    pub(super) fn best(
        &self,
        party: &Party<'_>,
        net: Net,
        source: Option<Net>,
        from: Option<usize>,
        preferred: &[Nid],
        state: &State,
    ) -> Vec<Nid> {
        let is_from_source =
            |route: &RouteConfig| source.is_none_or(|net| route.gateway.net() == net);
        let is_onward = |route: &RouteConfig| {
            from.is_none() || self.by_nid.get(&route.gateway) != from.as_ref()
        };
        let routes = party.routes(net).iter();
        let usable: Vec<_> = routes
            .filter(|route| is_from_source(route) && is_onward(route))
            .filter(|route| self.is_usable(party, route, state))
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

/// Returns whether the nodes of a class ping their gateways; without pings each route counts as up.
fn asks_gateways(class: &Class) -> bool {
    class.config.globals.alive_router_check_interval != Some(0)
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
