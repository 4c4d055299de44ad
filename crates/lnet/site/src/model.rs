//! Follows messages from node to node: every path that the nodes choose, to the destination and back.
//!
//! ```text
//!  from ─ core: source, next hop ─▶ gateway ─ core: next hop ─▶ … ─▶ to ─ response: back to the last gateway ─▶ …
//! ```
//!
//! `lnet-core` makes every choice, in the state that a node reaches after it has pinged its gateways: a route is up
//! if its gateway answers, forwards, and has its interfaces on the remote net up ([`Model::route_state`]). This
//! module only follows the message from node to node.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use lnet_config::RouteShow;
use lnet_core::{Health, PeerSelection};
use lnet_explain::{Node, Settings, Way, from_document, new_peer, new_peer_ni, ways};
use lnet_types::{LndType, Net, Nid};

use crate::site::{Member, Site};
use crate::trouble::Trouble;

/// The limit on the gateways that one message is followed through.
const HOPS_MAX: usize = 8;
/// The limit on the messages that are sent to show all equal paths of one choice. It is twice the number of routers
/// that a fine-grained plan has for a net.
const SENDS_MAX: u32 = 96;
/// The limit on the paths of one pair that are followed.
const PATHS_MAX: usize = 256;

/// A path from node to node, with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// The NID that the sender sends from.
    pub source: Nid,
    /// The gateways on the path in their order, as indices of [`Site::members`].
    pub gateways: Vec<usize>,
    /// The NID that the message is sent to.
    pub destination: Nid,
    /// `Ok` if the message and its response arrive, otherwise the reason why one of them does not.
    pub outcome: Result<(), Trouble>,
}

/// The result of sending messages to a NID on all paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All messages and their responses arrive.
    All,
    /// Messages on some of the paths arrive.
    Some,
    /// No message arrives.
    None,
}

/// The paths that were chosen, by the sending member, the member that handed the message over, and the destination
/// NID.
type Choices = BTreeMap<(usize, Option<usize>, Nid), Result<Vec<Way>, Trouble>>;

/// A site in which some NIDs have failed.
pub(crate) struct Model<'s> {
    pub(crate) site: &'s Site,
    /// The member that has each NID.
    pub(crate) owners: BTreeMap<Nid, usize>,
    /// The NIDs that do not work.
    down: BTreeSet<Nid>,
    /// Routers, each with a net on which another node sends to it.
    heard: BTreeSet<(usize, Net)>,
    bases: RefCell<BTreeMap<usize, Node>>,
    choices: RefCell<Choices>,
}

impl<'s> Model<'s> {
    /// Makes the model of a site with the NIDs in `failed` down, in addition to the NIDs that the files show as
    /// down.
    pub(crate) fn new(site: &'s Site, failed: &BTreeSet<Nid>) -> Self {
        let mut owners = BTreeMap::new();
        let mut down = failed.clone();
        for (at, member) in site.members.iter().enumerate() {
            for nid in member.nids() {
                owners.entry(nid).or_insert(at);
            }
            down.extend(member.failed_nids());
        }
        let mut model = Self {
            site,
            owners,
            down,
            heard: BTreeSet::new(),
            bases: RefCell::default(),
            choices: RefCell::default(),
        };
        model.listen();
        model
    }

    pub(crate) fn is_up(&self, nid: Nid) -> bool {
        !self.down.contains(&nid)
    }

    fn member(&self, at: usize) -> Option<&'s Member> {
        self.site.members.get(at)
    }

    /// Decides whether a member has a working NI on a net.
    fn is_on(&self, member: &Member, net: Net) -> bool {
        member.nids().any(|nid| nid.net() == net && self.is_up(nid))
    }

    /// Finds the NIs of routers that receive traffic. A router counts an NI as down that has received nothing for
    /// some time [GATE-33]; the nodes with routes through the router ping it.
    fn listen(&mut self) {
        let mut heard = BTreeSet::new();
        for (at, member) in self.site.members.iter().enumerate() {
            for route in member
                .document
                .routes
                .iter()
                .filter(|_| member.asks_gateways())
            {
                let near = route.gateway.net();
                let owner = self.owners.get(&route.gateway).copied();
                let Some(owner) = owner.filter(|_| self.is_on(member, near)) else {
                    continue;
                };
                if owner == at || !self.is_up(route.gateway) {
                    continue;
                }
                heard.insert((owner, near));
                // A router of `design` counts what its gateways answer as pings from their net. A document that names
                // no profile may be a kernel's. [GATE-37]
                let profile = member.document.globals.profile;
                let counts_answers = profile.is_some_and(|profile| !profile.is_lustre());
                if member.is_router() && counts_answers {
                    heard.insert((at, near));
                }
                let Some(router) = self.member(owner).filter(|one| one.discovers()) else {
                    continue;
                };
                // If discovery has found all the router's NIDs, the member pings it on every net that both have.
                let nets: BTreeSet<Net> = router.nids().map(|nid| nid.net()).collect();
                let common = nets.into_iter().filter(|_| member.discovers());
                for net in common.filter(|&net| self.is_on(member, net) && self.is_on(router, net))
                {
                    heard.insert((owner, net));
                }
            }
        }
        self.heard = heard;
    }

    /// Returns `Ok` if a route of a member is up after its gateway was pinged, otherwise the reason why the route is
    /// down.
    pub(crate) fn route_state(&self, at: usize, route: &RouteShow) -> Result<(), Trouble> {
        let gateway = route.gateway;
        let Some(member) = self.member(at) else {
            return Err(Trouble::GatewayUnknown(gateway));
        };
        if !self.is_on(member, gateway.net()) {
            return Err(Trouble::GatewayNotLocal(gateway));
        }
        let owner = self
            .owners
            .get(&gateway)
            .copied()
            .filter(|&owner| owner != at);
        let owner = owner.ok_or(Trouble::GatewayUnknown(gateway))?;
        let Some(router) = self.member(owner) else {
            return Err(Trouble::GatewayUnknown(gateway));
        };
        self.ports(at, owner, gateway.net())?;
        if !member.asks_gateways() {
            return Ok(());
        }
        // If the gateway was discovered, any of its NIDs may be pinged.
        let answers = router.nids().any(|nid| {
            let is_asked = nid == gateway || member.discovers();
            is_asked && self.is_up(nid) && self.is_on(member, nid.net())
        });
        if !answers {
            return Err(Trouble::GatewayDown(gateway));
        }
        if !router.is_router() {
            return Err(Trouble::NotRouting(owner));
        }
        if !self.is_on(router, gateway.net()) {
            return Err(Trouble::GatewayDown(gateway));
        }
        let is_near = router.nids().any(|nid| nid.net() == route.net);
        let counts = member.document.globals.avoid_asym_router_failure != Some(false);
        if counts && (is_near || route.hop == Some(1)) {
            if !self.is_on(router, route.net) {
                return Err(Trouble::FarSideDown(owner, route.net));
            }
            if !self.heard.contains(&(owner, route.net)) {
                return Err(Trouble::FarSideQuiet(owner, route.net));
            }
        }
        Ok(())
    }

    /// Returns an error if two members cannot connect on a net: a node listens and dials on its own port. A port that is
    /// not known counts as the same.
    // [CONN-1]
    fn ports(&self, at: usize, next: usize, net: Net) -> Result<(), Trouble> {
        let port = |at: usize| self.member(at).and_then(|member| member.port);
        match (port(at), port(next)) {
            (Some(one), Some(other)) if net.lnd == LndType::TCP && one != other => {
                Err(Trouble::PortsDiffer([at, next], [one, other]))
            }
            _ => Ok(()),
        }
    }

    /// Returns the state of a member that has pinged its gateways and knows no peer.
    fn base(&self, at: usize) -> Option<Node> {
        if let Some(known) = self.bases.borrow().get(&at) {
            return Some(known.clone());
        }
        let member = self.member(at)?;
        let mut document = member.document.clone();
        if member.discovers() {
            document.peers.clear();
        }
        // If the same route is listed twice, the first one counts, as `lnetctl import` does it.
        let mut known = BTreeSet::new();
        document
            .routes
            .retain(|route| known.insert((route.net, route.gateway)));
        let mut node = from_document(&document, &Settings::default());
        for ni in &mut node.state.nis {
            let is_up = self.is_up(ni.nid);
            (ni.up, ni.fatal) = (is_up, !is_up);
        }
        let mut alive = BTreeSet::new();
        for one in &mut node.state.routes {
            let (net, gateway) = (one.route.net, one.route.gateway);
            let mut routes = member.document.routes.iter();
            let shown = routes.find(|route| (route.net, route.gateway) == (net, gateway));
            one.up = shown.is_some_and(|route| self.route_state(at, route).is_ok());
            if one.up {
                alive.insert(gateway);
            }
        }
        for gateway in &mut node.state.gateways {
            gateway.alive = alive.contains(&gateway.nid);
        }
        let gateways: BTreeSet<usize> = alive
            .iter()
            .filter_map(|nid| self.owners.get(nid).copied())
            .collect();
        if member.discovers() {
            for owner in gateways {
                self.introduce(&mut node, owner, false);
            }
        }
        self.bases.borrow_mut().insert(at, node.clone());
        Some(node)
    }

    /// Adds another member as a peer with all its NIDs, and marks the NIDs that do not work.
    fn introduce(&self, node: &mut Node, other: usize, configured: bool) {
        let Some(other) = self.member(other) else {
            return;
        };
        let nids: Vec<Nid> = other.nids().collect();
        for &nid in &nids {
            self.record_peer_ni(node, nid);
        }
        if node
            .state
            .peers
            .iter()
            .any(|peer| peer.nids.iter().any(|nid| nids.contains(nid)))
        {
            return;
        }
        if nids.len() > 1 && other.discovers() {
            let peer = PeerSelection {
                configured,
                ..new_peer(nids, true)
            };
            node.state.peers.push(peer);
        }
    }

    fn record_peer_ni(&self, node: &mut Node, nid: Nid) {
        let known = node.state.peer_nis.iter().position(|ni| ni.nid == nid);
        let at = known.unwrap_or_else(|| {
            node.state.peer_nis.push(new_peer_ni(nid));
            node.state.peer_nis.len() - 1
        });
        if let Some(ni) = node.state.peer_nis.get_mut(at)
            && !self.is_up(nid)
        {
            (ni.up, ni.health) = (false, Health::ZERO);
        }
    }

    /// Returns the paths that a member chooses for messages to a NID: for its own messages, or for messages that
    /// `from` handed over.
    fn choose(&self, at: usize, from: Option<usize>, to: Nid) -> Result<Vec<Way>, Trouble> {
        let key = (at, from, to);
        if let Some(known) = self.choices.borrow().get(&key) {
            return known.clone();
        }
        let chosen = self.choose_anew(at, from, to);
        self.choices.borrow_mut().insert(key, chosen.clone());
        chosen
    }

    fn choose_anew(&self, at: usize, from: Option<usize>, to: Nid) -> Result<Vec<Way>, Trouble> {
        let Some(mut node) = self.base(at).filter(|node| !node.state.nis.is_empty()) else {
            return Err(Trouble::NoPath(at, "no network".to_owned()));
        };
        if let Some(from) = from {
            // A router never forwards a message to the gateway that it came from.
            let is_back = |nid: Nid| self.owners.get(&nid) == Some(&from);
            keep_gateways(&mut node, |nid| !is_back(nid));
            self.record_peer_ni(&mut node, to);
        } else if let Some(&owner) = self.owners.get(&to)
            && self.member(at).is_some_and(Member::discovers)
        {
            self.introduce(&mut node, owner, true);
        }
        let (nis, routes) = (node.state.nis.len(), self.routes_towards(&node, to));
        let peers = node.state.peer_nis.len();
        let sends = u32::try_from(2 * (nis + routes + peers)).unwrap_or(SENDS_MAX);
        match ways(&node, to, sends.min(SENDS_MAX), from.is_some()) {
            Ok(Ok(ways)) => Ok(ways),
            Ok(Err(error)) => Err(self.why(at, to, &error.to_string())),
            Err(error) => Err(Trouble::NoPath(at, error.to_string())),
        }
    }

    /// Counts the routes of a node to the nets of the member that has a NID.
    fn routes_towards(&self, node: &Node, to: Nid) -> usize {
        let member = self.owners.get(&to).and_then(|&owner| self.member(owner));
        let nets: BTreeSet<Net> = match member {
            Some(member) => member.nids().map(|nid| nid.net()).collect(),
            None => BTreeSet::from([to.net()]),
        };
        let routes = node.state.routes.iter();
        routes.filter(|one| nets.contains(&one.route.net)).count()
    }

    /// Returns why there is no path: the reason why the first broken route is down, if the member has a route to
    /// the net.
    fn why(&self, at: usize, to: Nid, error: &str) -> Trouble {
        let routes = self.member(at).map(|member| member.document.routes.iter());
        let mut routes = routes
            .into_iter()
            .flatten()
            .filter(|route| route.net == to.net());
        let broken = routes.find_map(|route| self.route_state(at, route).err());
        broken.unwrap_or_else(|| Trouble::NoPath(at, error.to_owned()))
    }

    /// Follows messages of one member to a NID and their responses, on every path that the member chooses.
    pub(crate) fn tracks(&self, from: usize, to: Nid) -> Vec<Track> {
        let mut tracks = Vec::new();
        let ways = match self.choose(from, None, to) {
            Ok(ways) => ways,
            Err(trouble) => {
                return vec![Track {
                    source: Nid::ANY,
                    gateways: Vec::new(),
                    destination: to,
                    outcome: Err(trouble),
                }];
            }
        };
        for way in ways {
            self.follow(&Leg::new(way), from, way, &mut tracks);
            if tracks.len() >= PATHS_MAX {
                break;
            }
        }
        tracks.truncate(PATHS_MAX);
        tracks
    }

    /// Decides whether messages of a member to a NID arrive if all of them take this gateway.
    pub(crate) fn carries(&self, from: usize, gateway: usize, to: Nid) -> bool {
        let Some(mut node) = self.base(from) else {
            return false;
        };
        if let Some(&owner) = self.owners.get(&to)
            && self.member(from).is_some_and(Member::discovers)
        {
            self.introduce(&mut node, owner, true);
        }
        keep_gateways(&mut node, |nid| self.owners.get(&nid) == Some(&gateway));
        let Ok(Ok(ways)) = ways(&node, to, SENDS_MAX / 8, false) else {
            return false;
        };
        let mut tracks = Vec::new();
        for way in ways {
            self.follow(&Leg::new(way), from, way, &mut tracks);
        }
        verdict(&tracks) == Verdict::All
    }

    /// Follows a message that `at` sends on the path `way`.
    fn follow(&self, leg: &Leg, at: usize, way: Way, tracks: &mut Vec<Track>) {
        if tracks.len() >= PATHS_MAX {
            return;
        }
        let mut done = |outcome| {
            tracks.push(Track {
                source: leg.source,
                gateways: leg.gateways.clone(),
                destination: leg.destination,
                outcome,
            });
        };
        let hop = way.next_hop;
        let Some(&next) = self.owners.get(&hop) else {
            return done(Err(Trouble::NobodyHas(hop)));
        };
        if !self.is_up(hop) || !self.is_up(way.source) {
            return done(Err(Trouble::NidDown(if self.is_up(hop) {
                way.source
            } else {
                hop
            })));
        }
        if let Err(trouble) = self.ports(at, next, hop.net()) {
            return done(Err(trouble));
        }
        // [MSG-11]
        if !leg.gateways.is_empty() && hop.net() == leg.source.net() {
            return done(Err(Trouble::Turned(at, hop.net())));
        }
        if hop == leg.destination {
            return self.arrive(leg, next, way).into_iter().for_each(done);
        }
        let Some(router) = self.member(next).filter(|member| member.is_router()) else {
            return done(Err(Trouble::NotRouting(next)));
        };
        if leg.gateways.contains(&next) || leg.gateways.len() >= HOPS_MAX {
            return done(Err(Trouble::Loop(next)));
        }
        if router.nids().any(|nid| nid == leg.destination) {
            return self.arrive(leg, next, way).into_iter().for_each(done);
        }
        match self.choose(next, Some(at), leg.destination) {
            Err(trouble) => done(Err(trouble)),
            Ok(ways) => {
                let leg = leg.through(next);
                for way in ways {
                    self.follow(&leg, next, way, tracks);
                }
            }
        }
    }

    /// Decides whether the destination accepts a message that has reached it, and follows the response. Returns one
    /// outcome for each path that the response may take.
    fn arrive(&self, leg: &Leg, at: usize, way: Way) -> Vec<Result<(), Trouble>> {
        if let Err(trouble) = self.takes(at, way.source, leg.source.net(), leg) {
            return vec![Err(trouble)];
        }
        let Some(&last) = leg.gateways.last() else {
            return vec![Ok(())];
        };
        // A response goes back to the gateway that the request came by; this gateway then chooses the path.
        let back = Leg {
            source: leg.destination,
            destination: leg.source,
            gateways: Vec::new(),
        };
        let mut outcomes = Vec::new();
        self.return_from(&back, last, at, &mut outcomes);
        let told = outcomes
            .into_iter()
            .map(|outcome| outcome.map_err(|trouble| Trouble::Answer(Box::new(trouble))));
        told.collect()
    }

    /// Follows a response that has reached a gateway, and adds one outcome for each path that the response may
    /// take.
    fn return_from(
        &self,
        leg: &Leg,
        gateway: usize,
        from: usize,
        outcomes: &mut Vec<Result<(), Trouble>>,
    ) {
        if leg.gateways.contains(&gateway) || leg.gateways.len() >= HOPS_MAX {
            return outcomes.push(Err(Trouble::Loop(gateway)));
        }
        let leg = leg.through(gateway);
        let ways = match self.choose(gateway, Some(from), leg.destination) {
            Ok(ways) => ways,
            Err(trouble) => return outcomes.push(Err(trouble)),
        };
        for way in ways.into_iter().take(PATHS_MAX) {
            let hop = way.next_hop;
            let down = [way.source, hop].into_iter().find(|nid| !self.is_up(*nid));
            let owner = self.owners.get(&hop).copied();
            let ports = owner.map_or(Ok(()), |next| self.ports(gateway, next, hop.net()));
            match (down, owner) {
                (Some(nid), _) => outcomes.push(Err(Trouble::NidDown(nid))),
                (None, Some(_)) if ports.is_err() => outcomes.push(ports),
                (None, None) => outcomes.push(Err(Trouble::NobodyHas(hop))),
                (None, Some(_)) if hop.net() == leg.source.net() => {
                    outcomes.push(Err(Trouble::Turned(gateway, hop.net())));
                }
                (None, Some(next)) if hop == leg.destination => {
                    outcomes.push(self.takes(next, way.source, leg.source.net(), &leg));
                }
                (None, Some(next)) if !self.member(next).is_some_and(Member::is_router) => {
                    outcomes.push(Err(Trouble::NotRouting(next)));
                }
                (None, Some(next)) if outcomes.len() < PATHS_MAX => {
                    self.return_from(&leg, next, gateway, outcomes);
                }
                (None, Some(_)) => {}
            }
        }
    }

    /// Decides whether a node accepts a message from a gateway: with `drop_asym_route` the node must have a route
    /// back by that gateway.
    fn takes(&self, at: usize, sender: Nid, origin: Net, leg: &Leg) -> Result<(), Trouble> {
        let Some(member) = self.member(at) else {
            return Ok(());
        };
        let drops = member.document.globals.drop_asym_route == Some(true);
        if leg.gateways.is_empty() || !drops || sender.net() == origin {
            return Ok(());
        }
        let by = self.owners.get(&sender);
        let mut routes = member.document.routes.iter();
        let has = routes.any(|route| route.net == origin && self.owners.get(&route.gateway) == by);
        match has {
            true => Ok(()),
            false => Err(Trouble::Dropped(at, origin, sender)),
        }
    }
}

/// A message on its path.
struct Leg {
    source: Nid,
    destination: Nid,
    gateways: Vec<usize>,
}

impl Leg {
    fn new(way: Way) -> Self {
        Self {
            source: way.source,
            destination: way.destination,
            gateways: Vec::new(),
        }
    }

    fn through(&self, gateway: usize) -> Self {
        let mut gateways = self.gateways.clone();
        gateways.push(gateway);
        Self {
            source: self.source,
            destination: self.destination,
            gateways,
        }
    }
}

/// Removes the routes whose gateways are not wanted.
fn keep_gateways(node: &mut Node, is_wanted: impl Fn(Nid) -> bool) {
    let state = &mut node.state;
    state.routes.retain(|one| is_wanted(one.route.gateway));
    let left: BTreeSet<Nid> = state.routes.iter().map(|one| one.route.gateway).collect();
    state.gateways.retain(|gateway| left.contains(&gateway.nid));
}

/// Summarizes the outcomes of several tracks.
pub(crate) fn verdict(tracks: &[Track]) -> Verdict {
    let arrived = tracks.iter().filter(|track| track.outcome.is_ok()).count();
    match arrived {
        0 => Verdict::None,
        all if all == tracks.len() => Verdict::All,
        _ => Verdict::Some,
    }
}
