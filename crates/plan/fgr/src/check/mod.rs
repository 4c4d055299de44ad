//! Checks a site: where messages go in normal operation, after every single failure, and while a
//! failed part returns.
//!
//! ```text
//!             requests: best usable route of the client to the server's net
//!   client ──────────────▶ router ──────────────▶ server        or a chain of routers
//!          ◀────────────── router ◀──────────────
//!             what servers start: best usable route of the server to the net of the client's NID that
//!             it knows; bulk data and lock callbacks are of this kind
//! ```
//!
//! Of the usable routes LNet takes those that a selection rule prefers, of these the routes with
//! the lowest priority, and of these the routes with the fewest hops. Messages are spread over the
//! routes that remain. A response takes the router of its request. A message arrives if every
//! interface on its path works and, with `drop_asym_route`, the receiver has a route by the router
//! that forwarded the message. If no node pings an interface of a router, the interface counts as
//! down after a while, and with it the routes over it. A server knows a client by the NID of the
//! client's first request, and the client keeps that NID: if no gateway is left on the net of that
//! NID, requests are lost although the client has a route from another NID. With discovery a server
//! knows all NIDs of a client, and the client may use any of them.
//!
//! Kernel nodes behave as described. Finerail's own nodes differ twice if a configuration is wrong.
//! A kernel node stays with a gateway that answers pings, even if the server drops the messages
//! that come by the gateway, because priority counts before health; a Finerail node leaves the
//! gateway after some losses. A Finerail node also sends from another NID if its NID has no gateway
//! left; messages that the server starts are then lost.
//!
//! The check works on classes, not on nodes: all nodes of a class behave alike, except for rules
//! that name clients. The check reads configurations and does not see what else is wrong with a
//! running node. It assumes that servers answer from the NID to which the request was sent.

mod failures;
mod index;
mod onward;
mod passage;
mod rollout;
mod staged;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use lnet_types::{Net, Nid};
use thiserror::Error;

use crate::config::{Class, NodeRole, Site, Timing};
use failures::{Tally, failures};
use index::{Index, Party, State, discovers, is_on, parties};
use passage::{Conversation, Passages};

pub use failures::{Failure, FailureKind, Outage, Unnoticed};
pub use rollout::{Rollout, Step, rollout};

/// An error in the site, or something doubtful.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Finding {
    /// A class has no route to a net that has servers.
    #[error(
        "{class}: no route to {net}, where {}",
        match .servers { 1 => "1 server is".to_owned(), servers => format!("{servers} servers are") }
    )]
    NoRoute {
        /// The class.
        class: String,
        /// The net.
        net: Net,
        /// Number of servers.
        servers: usize,
    },
    /// A class has only one route to a net.
    #[error("{class}: {net} has no backup")]
    NoBackup {
        /// The class.
        class: String,
        /// The net.
        net: Net,
    },
    /// No node of the site has the NID of a gateway.
    #[error("{class}: {net} by {gateway}, which no node of this site has")]
    UnknownGateway {
        /// The class.
        class: String,
        /// The net.
        net: Net,
        /// The gateway.
        gateway: Nid,
    },
    /// A gateway does not forward at all, or not to the net.
    #[error("{class}: {net} by {gateway}, but {node} does not route to {net}")]
    DeadGateway {
        /// The class.
        class: String,
        /// The net.
        net: Net,
        /// The gateway.
        gateway: Nid,
        /// The node with the NID of the gateway.
        node: String,
    },
    /// A route says that one hop is left, and the gateway is not on the net, so that LNet never
    /// uses the route.
    #[error("{class}: {net} by {gateway} is always down: 'hop: 1', but {node} is not on {net}")]
    WrongHop {
        /// The class.
        class: String,
        /// The net.
        net: Net,
        /// The gateway.
        gateway: Nid,
        /// The node with the NID of the gateway.
        node: String,
    },
    /// An adapter of a router in a chain fails, and LNet does not notice this, because it watches
    /// the far side of a gateway only if the gateway is on the net of the route.
    #[error(
        "{client} and {server} on {net}: {direction} are lost from the failure of {failure} until it is repaired: LNet \
         watches the far side of a router over one hop only"
    )]
    Unwatched {
        /// The client's class.
        client: String,
        /// The server's class.
        server: String,
        /// The server's net.
        net: Net,
        /// Which messages.
        direction: Direction,
        /// The failure.
        failure: Failure,
    },
    /// The class has no interface on the net of a gateway.
    #[error("{class}: {net} by {gateway}, but it has no interface on the net of this gateway")]
    FarGateway {
        /// The class.
        class: String,
        /// The net.
        net: Net,
        /// The gateway.
        gateway: Nid,
    },
    /// A route is down although nothing has failed.
    #[error("{class}: {net} by {gateway} is always down: no node pings {quiet} of the same router")]
    QuietRoute {
        /// The class.
        class: String,
        /// The net.
        net: Net,
        /// The gateway.
        gateway: Nid,
        /// The interface of the router on the net, which no node pings.
        quiet: Nid,
    },
    /// Messages of a pair are lost.
    #[error("{client} and {server} on {net}: {direction} are lost{when}: {loss}")]
    Lost {
        /// The client's class.
        client: String,
        /// The server's class.
        server: String,
        /// The server's net.
        net: Net,
        /// Which messages.
        direction: Direction,
        /// When.
        when: When,
        /// Why.
        loss: Loss,
    },
    /// Messages that a server starts take another router than the requests of the client.
    #[error(
        "{client} and {server} on {net}: requests take {forward}, messages that the server starts take {back}"
    )]
    Asymmetric {
        /// The client's class.
        client: String,
        /// The server's class.
        server: String,
        /// The server's net.
        net: Net,
        /// The routers of requests.
        forward: String,
        /// The routers of messages that the server starts.
        back: String,
        /// Whether one of the two drops messages from routers by which it has no route
        /// (`drop_asym_route`), so that another failure may lose messages.
        drops: bool,
    },
    /// Several routes are equally good primaries, and messages are spread over them.
    #[error("{class}: {net} has {count} primaries, which share its messages")]
    SharedPrimary {
        /// The class.
        class: String,
        /// The net.
        net: Net,
        /// Number of primaries.
        count: usize,
    },
    /// Routes have no hop count, so the far side of their gateways is not watched.
    #[error(
        "{class}: {routes} routes without 'hop: 1', so that the gateways' far side is not watched"
    )]
    HopUnset {
        /// The class.
        class: String,
        /// Number of such routes.
        routes: usize,
    },
    /// Discovery merges the nets of slots, so that the net of the source no longer determines the
    /// gateway.
    #[error("{class}: discovery is on and merges the nets that tell the gateways apart")]
    DiscoveryOn {
        /// The class.
        class: String,
    },
}

impl Finding {
    /// Returns whether the finding is an error; otherwise it is only doubtful.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        !matches!(
            self,
            Self::SharedPrimary { .. }
                | Self::HopUnset { .. }
                | Self::Unwatched { .. }
                | Self::Asymmetric { drops: false, .. }
        )
    }
}

/// Which messages between a client and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Requests of the client and their responses.
    Requests,
    /// Messages that the server starts (bulk data, lock callbacks), and their responses.
    ServerStarted,
}

impl Direction {
    /// Both directions.
    pub const ALL: [Self; 2] = [Self::Requests, Self::ServerStarted];
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requests => "requests",
            Self::ServerStarted => "messages that the server starts",
        })
    }
}

/// Why messages do not arrive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Loss {
    /// The sender has no usable route.
    #[error("no usable route")]
    NoRoute,
    /// The client has a usable route, but not from the NID that the server knows.
    #[error(
        "no usable route from the client's NID on {session}; a kernel client keeps that NID, and where a client of Finerail \
         moves to {other}, what the server starts does not reach it"
    )]
    SourceKept {
        /// Net of the NID that the server knows.
        session: Net,
        /// A net of the client that has a route.
        other: Net,
    },
    /// The router is dead, or has no working interface on the receiver's net.
    #[error("{router} does not forward them")]
    NotForwarded {
        /// The router.
        router: String,
    },
    /// A router of a chain has no usable route.
    #[error("{router} has no usable route to {net}")]
    NoWayOn {
        /// The router.
        router: String,
        /// The net.
        net: Net,
    },
    /// Routers of a chain send messages in a circle, or the chain is too long.
    #[error("{router} gets them again, or the chain is too long")]
    Circle {
        /// The router.
        router: String,
    },
    /// A router of a chain sends messages back onto the net from which they came. The next node drops them, because
    /// their sender is another node of that net.
    #[error(
        "{router} sends them back onto {net}, from which they came, and the next node drops them"
    )]
    Turned {
        /// The router.
        router: String,
        /// The net.
        net: Net,
    },
    /// The response is lost on its way back through a chain.
    #[error("of the responses: {0}")]
    Answer(Box<Self>),
    /// The receiver drops messages from this router because it has no route back by it
    /// (`drop_asym_route`).
    #[error(
        "{by} drops messages from {sender} of {router}, because it has no route back by this router"
    )]
    Dropped {
        /// The receiver's class.
        by: String,
        /// The router.
        router: String,
        /// The router's interface.
        sender: Nid,
    },
}

/// When a finding applies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum When {
    /// Always.
    #[error("")]
    Now,
    /// After a failure, once every node has noticed it.
    #[error(" after the failure of {0}")]
    After(Failure),
    /// After the repair, while not every node has noticed it.
    #[error(" on the return of {0}")]
    OnReturn(Failure),
}

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Errors and doubtful points, in the order of the classes.
    pub findings: Vec<Finding>,
    /// Number of checked pairs of a client and a server.
    pub pairs: u64,
    /// Number of checked combinations of a pair of classes and a state (nothing failed, or one
    /// failure).
    pub states: u64,
    /// What the worst failure of each kind costs in each direction.
    pub outages: Vec<Outage>,
    /// How nodes watch their gateways, with the longest transaction timeout of clients and servers.
    pub timing: Timing,
    /// Nets on which a server's messages wait for the first client when the site starts, if the
    /// routers are kernel nodes: as long as no client is up, no node pings the routers' interfaces
    /// on these nets, so servers hold the routes to them down until their next check.
    pub waits_at_start: BTreeSet<Net>,
    /// Those of them on which messages wait with Finerail routers as well: the net has one router,
    /// which can ask no other whether the net works.
    pub waits_alone: BTreeSet<Net>,
}

impl Report {
    /// Returns whether no finding is an error.
    #[must_use]
    pub fn is_proved(&self) -> bool {
        !self.findings.iter().any(Finding::is_error)
    }
}

/// Checks every client against every server.
#[must_use]
pub fn check(site: &Site) -> Report {
    let index = Index::new(&[site], &[site]);
    let timing = timing(site);
    let mut check = Check {
        index: &index,
        report: Report {
            timing,
            ..Report::default()
        },
        tally: Tally::default(),
    };
    for class in &site.classes {
        routes(&index, class, &mut check.report.findings);
    }
    let parties = parties(site);
    let servers = servers(&parties);
    for client in with_role(&parties, NodeRole::Client) {
        for (&net, servers) in &servers {
            if is_on(client.class, net) {
                continue;
            }
            let count = servers.iter().map(|server| server.nodes.len()).sum();
            reach(client.class, net, count, &mut check.report);
            for &server in servers {
                check.pair(client, server, net);
            }
        }
    }
    check.complete(timing)
}

/// Returns how the nodes of a site watch their gateways: for each parameter the longest time that the
/// configuration of a node gives, otherwise that of the site; the transaction timeout of clients and
/// servers.
fn timing(site: &Site) -> Timing {
    let longest = |usual: u32, of: fn(&Class) -> Option<u32>| {
        let set = site.classes.iter().map(|class| of(class).unwrap_or(usual));
        set.max().unwrap_or(usual)
    };
    let Timing {
        check_interval,
        ping_timeout,
        transaction_timeout,
    } = site.timing;
    Timing {
        check_interval: longest(check_interval, |class| {
            class.config.globals.alive_router_check_interval
        }),
        ping_timeout: longest(ping_timeout, |class| {
            class.config.globals.router_ping_timeout
        }),
        transaction_timeout: longest(transaction_timeout, |class| match class.role {
            NodeRole::Router => Some(0),
            _ => class.config.globals.transaction_timeout,
        }),
    }
}

fn with_role<'a>(parties: &'a [Party<'a>], role: NodeRole) -> impl Iterator<Item = &'a Party<'a>> {
    parties.iter().filter(move |party| party.class.role == role)
}

/// Returns the classes of servers on each net.
fn servers<'a>(parties: &'a [Party<'a>]) -> BTreeMap<Net, Vec<&'a Party<'a>>> {
    let mut by_net: BTreeMap<Net, Vec<&Party<'_>>> = BTreeMap::new();
    for server in with_role(parties, NodeRole::Server) {
        for net in &server.class.config.nets {
            by_net.entry(net.net).or_default().push(server);
        }
    }
    by_net
}

/// Checks the routes of one class, without looking at a second class.
fn routes(index: &Index<'_>, class: &Class, findings: &mut Vec<Finding>) {
    let name = || class.name.clone();
    for route in &class.config.routes {
        let (net, gateway) = (route.net, route.gateway);
        if !is_on(class, gateway.net()) {
            findings.push(Finding::FarGateway {
                class: name(),
                net,
                gateway,
            });
        }
        match index.router(gateway) {
            None => findings.push(Finding::UnknownGateway {
                class: name(),
                net,
                gateway,
            }),
            Some(router) if !router.leads_to(net) => findings.push(Finding::DeadGateway {
                class: name(),
                net,
                gateway,
                node: router.name.to_owned(),
            }),
            Some(router) if route.hop == Some(1) && router.nid_on(net).is_none() => {
                findings.push(Finding::WrongHop {
                    class: name(),
                    net,
                    gateway,
                    node: router.name.to_owned(),
                });
            }
            Some(router) => {
                if let Some(quiet) = index.quiet(router, net) {
                    findings.push(Finding::QuietRoute {
                        class: name(),
                        net,
                        gateway,
                        quiet,
                    });
                }
            }
        }
    }
    let unset = class
        .config
        .routes
        .iter()
        .filter(|route| route.hop.is_none() && index.is_single_hop(route));
    match unset.count() {
        0 => {}
        routes => findings.push(Finding::HopUnset {
            class: name(),
            routes,
        }),
    }
    if class.role == NodeRole::Client && discovers(class) && shares_an_interface(class) {
        findings.push(Finding::DiscoveryOn { class: name() });
    }
}

/// Returns whether two nets of a class share an interface, as the nets of slots do. Nets of rails
/// have an interface each and differ in their routers.
fn shares_an_interface(class: &Class) -> bool {
    let nis = class.config.nets.iter().flat_map(|net| &net.nis);
    let mut seen = BTreeSet::new();
    let mut interfaces = nis.flat_map(|ni| &ni.interfaces);
    interfaces.any(|interface| !seen.insert(interface))
}

/// Checks that a client has a primary and a backup to a net.
fn reach(client: &Class, net: Net, servers: usize, report: &mut Report) {
    let class = || client.name.clone();
    let routes = client.config.routes.iter().filter(|route| route.net == net);
    match routes.count() {
        0 => report.findings.push(Finding::NoRoute {
            class: class(),
            net,
            servers,
        }),
        1 => report.findings.push(Finding::NoBackup {
            class: class(),
            net,
        }),
        _ => {}
    }
}

/// A check in progress.
struct Check<'a> {
    index: &'a Index<'a>,
    report: Report,
    tally: Tally,
}

impl Check<'_> {
    fn complete(mut self, timing: Timing) -> Report {
        let mut seen = BTreeSet::new();
        self.report
            .findings
            .retain(|finding| seen.insert(finding.clone()));
        self.report.outages = self.tally.outages(timing);
        self.report
    }

    fn pair(&mut self, client: &Party<'_>, server: &Party<'_>, net: Net) {
        self.report.pairs += client.nodes.len() as u64 * server.nodes.len() as u64;
        let talks = conversations(self.index, client, server, net);
        if talks.is_empty() {
            let found = unreachable(client, server, net);
            self.report.findings.extend(found);
        }
        for talk in talks {
            let talk = talk.as_conversation(client, server, net);
            let calm = State::default();
            if self.index.waits_at_start(&talk) {
                self.report.waits_at_start.insert(talk.session);
                if self.index.has_one_router(talk.session) {
                    self.report.waits_alone.insert(talk.session);
                }
            }
            let usual = Direction::ALL
                .map(|direction| (direction, talk.passages(self.index, direction, &calm)));
            self.healthy(&talk, &usual);
            for (failure, state) in failures(self.index, &talk) {
                self.report.states += 1;
                for (direction, usual) in &usual {
                    self.failed(&talk, *direction, usual, &failure, &state);
                }
            }
        }
    }

    /// Checks the state without failures: all messages arrive and take the same router in both
    /// directions.
    fn healthy(&mut self, talk: &Conversation<'_>, usual: &[(Direction, Passages); 2]) {
        self.report.states += 1;
        let [forward, back] = usual.each_ref().map(|(direction, passages)| {
            let crossed = talk.crossed(self.index, *direction, passages);
            let routers = self.index.routers(&crossed);
            routers.map(|router| router.name).collect::<BTreeSet<_>>()
        });
        let [(_, requests), _] = usual;
        let gateways = requests.gateways.iter();
        let routers = gateways.filter_map(|&gateway| self.index.router(gateway));
        let routers: BTreeSet<usize> = routers.map(|router| router.number).collect();
        if routers.len() > 1 {
            let (class, net) = (talk.client.class.name.clone(), talk.net);
            let count = routers.len();
            self.report
                .findings
                .push(Finding::SharedPrimary { class, net, count });
        }
        if !back.is_subset(&forward) {
            let joined = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
            self.report.findings.push(Finding::Asymmetric {
                client: talk.client.class.name.clone(),
                server: talk.server.class.name.clone(),
                net: talk.net,
                forward: joined(forward),
                back: joined(back),
                drops: [talk.client, talk.server]
                    .iter()
                    .any(|party| party.class.config.globals.drop_asym_route == Some(true)),
            });
        }
        for (direction, passages) in usual {
            let calm = State::default();
            let loss = talk.loss(self.index, *direction, passages, &calm, &calm);
            self.found_loss(talk, *direction, || When::Now, loss);
        }
    }

    /// Checks one failure: unnoticed, noticed, and during the return.
    fn failed(
        &mut self,
        talk: &Conversation<'_>,
        direction: Direction,
        usual: &Passages,
        failure: &Failure,
        state: &State,
    ) {
        let pairs = talk.client.nodes.len() as u64 * talk.server.nodes.len() as u64;
        let calm = State::default();
        let unnoticed = talk.loss(self.index, direction, usual, &calm, state);
        let evading = talk.passages(self.index, direction, state);
        let noticed = talk.loss(self.index, direction, &evading, state, state);
        if unnoticed.is_some() || noticed.is_some() {
            self.tally.add(failure, direction, pairs, noticed.is_some());
        }
        if failure.kind == FailureKind::Leaf {
            // No route leads to servers whose leaf switch is dead.
            return;
        }
        if noticed.is_some() && self.is_unwatched(talk, failure, state) {
            self.report.findings.push(Finding::Unwatched {
                client: talk.client.class.name.clone(),
                server: talk.server.class.name.clone(),
                net: talk.net,
                direction,
                failure: failure.clone(),
            });
            return;
        }
        self.found_loss(talk, direction, || When::After(failure.clone()), noticed);
        if !evading.gateways.is_empty() {
            let returning = talk.loss(self.index, direction, &evading, state, &calm);
            self.found_loss(
                talk,
                direction,
                || When::OnReturn(failure.clone()),
                returning,
            );
        }
    }

    /// Returns whether a failure of an adapter concerns a router of a chain: a router that is not on
    /// both nets of the pair.
    fn is_unwatched(&self, talk: &Conversation<'_>, failure: &Failure, state: &State) -> bool {
        let routers = state.nids.iter().filter_map(|&nid| self.index.router(nid));
        let is_adapter = !matches!(failure.kind, FailureKind::Router | FailureKind::Module);
        let mut chained = routers.filter(|router| {
            router.nid_on(talk.net).is_none() || router.nid_on(talk.session).is_none()
        });
        is_adapter && chained.next().is_some()
    }

    fn found_loss(
        &mut self,
        talk: &Conversation<'_>,
        direction: Direction,
        when: impl FnOnce() -> When,
        loss: Option<Loss>,
    ) {
        let found = loss.map(|loss| lost(talk, direction, when(), loss));
        self.report.findings.extend(found);
    }
}

fn lost(talk: &Conversation<'_>, direction: Direction, when: When, loss: Loss) -> Finding {
    Finding::Lost {
        client: talk.client.class.name.clone(),
        server: talk.server.class.name.clone(),
        net: talk.net,
        direction,
        when,
        loss,
    }
}

/// Returns what a client without a usable route to a net loses, if it has routes to the net.
fn unreachable(client: &Party<'_>, server: &Party<'_>, net: Net) -> Option<Finding> {
    client.routes(net).first()?;
    Some(Finding::Lost {
        client: client.class.name.clone(),
        server: server.class.name.clone(),
        net,
        direction: Direction::Requests,
        when: When::Now,
        loss: Loss::NoRoute,
    })
}

/// How a pair may communicate: the NID of the client, and the gateways that the rules of both sides
/// prefer.
struct Talk {
    session: Net,
    by_client: Vec<Nid>,
    by_server: Vec<Nid>,
}

impl Talk {
    fn as_conversation<'a>(
        &'a self,
        client: &'a Party<'a>,
        server: &'a Party<'a>,
        net: Net,
    ) -> Conversation<'a> {
        Conversation {
            client,
            server,
            net,
            session: self.session,
            by_client: &self.by_client,
            by_server: &self.by_server,
        }
    }
}

/// Returns every combination of NID and preferences with which nodes of a pair communicate; empty
/// if the client has no usable route.
fn conversations(index: &Index<'_>, client: &Party<'_>, server: &Party<'_>, net: Net) -> Vec<Talk> {
    let mut found = Vec::new();
    for by_client in index.preferences(client, server, net) {
        let first = index.best(client, net, None, None, &by_client, &State::default());
        let sessions: BTreeSet<Net> = first.iter().map(|gateway| gateway.net()).collect();
        for session in sessions {
            for by_server in index.preferences(server, client, session) {
                found.push(Talk {
                    session,
                    by_client: by_client.clone(),
                    by_server,
                });
            }
        }
    }
    found
}
