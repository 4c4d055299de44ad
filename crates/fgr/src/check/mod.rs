//! Proof of a site: what its configurations do, now, after every single failure, and on the return to
//! normal.
//!
//! ```text
//!             requests: best usable route of the client to the server's net
//!   client ──────────────▶ router ──────────────▶ server
//!          ◀────────────── router ◀──────────────
//!             what servers start: best usable route of the server to the net of the client's NID that
//!             it knows; bulk data and lock callbacks are of this kind
//! ```
//!
//! LNet takes of the usable routes those that a selection rule prefers, of these the ones of lowest
//! priority, of these the ones of fewest hops, and shares its messages among what is left (planning,
//! section 3.2). Answers take the router of their request. A message arrives when each interface on its
//! way works and the receiver has a route by the router that it came from, if it drops others
//! (`drop_asym_route`). An interface of a router that nobody pings counts as down after a while, and the
//! routes over it with it. A server knows a client by the NID of its first request, and the client keeps that NID
//! (selection, section 2.11): when no gateway on its net is left, requests are lost although the client has a route
//! from another NID. With discovery a server knows all NIDs of a client, which may use any of them.
//!
//! This is what kernel nodes do. Finerail's own nodes differ twice where a configuration is wrong. Kernels keep to a
//! gateway that answers pings, even where the server drops what comes by it, because priority counts before health;
//! Finerail's nodes leave it after some losses. And they send from another NID when that one has no gateway
//! left; what the server starts is lost then.
//!
//! Checked are classes, not nodes: nodes of a class do the same, but for rules that name clients. This
//! reads configurations as they are; it does not know what else is wrong with a running node. Servers
//! are taken to answer from the NID that they were asked at.

mod failures;
mod index;
mod passage;
mod rollout;

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

/// Something that is not as it should be, or doubtful.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Finding {
    /// Servers on a net that a class has no route to.
    #[error("{class}: no route to {net}, where {servers} servers are")]
    NoRoute {
        /// The class.
        class: String,
        /// The net.
        net: Net,
        /// How many servers.
        servers: usize,
    },
    /// One route only.
    #[error("{class}: {net} has no backup")]
    NoBackup {
        /// The class.
        class: String,
        /// The net.
        net: Net,
    },
    /// A gateway that no node of the site has.
    #[error("{class}: {net} by {gateway}, which is no node of this site")]
    UnknownGateway {
        /// The class.
        class: String,
        /// The net.
        net: Net,
        /// The gateway.
        gateway: Nid,
    },
    /// A gateway that does not forward, or not to the net.
    #[error("{class}: {net} by {gateway}, but {node} does not route to {net}")]
    DeadGateway {
        /// The class.
        class: String,
        /// The net.
        net: Net,
        /// The gateway.
        gateway: Nid,
        /// Its node.
        node: String,
    },
    /// A gateway on a net that the class has no interface on.
    #[error("{class}: {net} by {gateway}, on whose net it has no interface")]
    FarGateway {
        /// The class.
        class: String,
        /// The net.
        net: Net,
        /// The gateway.
        gateway: Nid,
    },
    /// A route that is down although nothing has failed.
    #[error("{class}: {net} by {gateway} is always down: nobody pings {quiet} of the same router")]
    QuietRoute {
        /// The class.
        class: String,
        /// The net.
        net: Net,
        /// The gateway.
        gateway: Nid,
        /// Its interface on the net.
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
    /// What a server starts takes another router than the client's requests.
    #[error(
        "{client} and {server} on {net}: requests by {forward}, what the server starts by {back}"
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
        /// Those of what the server starts.
        back: String,
    },
    /// Several equal primaries: messages are shared among them.
    #[error("{class}: {net} has {count} primaries, which share its messages")]
    SharedPrimary {
        /// The class.
        class: String,
        /// The net.
        net: Net,
        /// How many.
        count: usize,
    },
    /// Routes without hops, whose far side nobody watches.
    #[error(
        "{class}: {routes} routes without 'hop: 1', so that the gateways' far side is not watched"
    )]
    HopUnset {
        /// The class.
        class: String,
        /// How many.
        routes: usize,
    },
    /// Discovery merges the nets of slots, so that the net of the source does not tell the gateway.
    #[error("{class}: discovery is on and merges the nets that tell the gateways apart")]
    DiscoveryOn {
        /// The class.
        class: String,
    },
}

impl Finding {
    /// Whether the site does not do what it should; otherwise it is only doubtful.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        !matches!(self, Self::SharedPrimary { .. } | Self::HopUnset { .. })
    }
}

/// Which messages between a client and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// What the client asks, with the answers.
    Requests,
    /// What the server starts: bulk data, lock callbacks; with the answers.
    ServerStarted,
}

impl Direction {
    /// Both.
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
    /// The client has a usable route, but from another NID than the one that the server knows.
    #[error(
        "no usable route from the client's NID on {session}; a kernel client keeps that NID, and where a client of Finerail \
         moves to {other}, what the server starts does not reach it"
    )]
    SourceKept {
        /// The net of the NID that the server knows.
        session: Net,
        /// A net of the client from which there is a route.
        other: Net,
    },
    /// The router is dead, or has no working interface on the receiver's net.
    #[error("{router} does not forward them")]
    NotForwarded {
        /// The router.
        router: String,
    },
    /// The receiver has no route back by this router (`drop_asym_route`).
    #[error("{by} drops what comes from {sender} of {router}, by which it has no route back")]
    Dropped {
        /// The receiver's class.
        by: String,
        /// The router.
        router: String,
        /// The router's interface.
        sender: Nid,
    },
}

/// When something happens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum When {
    /// Always.
    #[error("")]
    Now,
    /// After a failure, when every node has noticed it.
    #[error(" after the failure of {0}")]
    After(Failure),
    /// When what failed is back, and not every node has noticed that.
    #[error(" on the return of {0}")]
    OnReturn(Failure),
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Everything that is wrong or doubtful, in the order of the classes.
    pub findings: Vec<Finding>,
    /// Pairs of a client and a server that were looked at.
    pub pairs: u64,
    /// Pairs of classes times states (nothing failed, one thing failed) that were looked at.
    pub states: u64,
    /// What the worst failure of each kind costs each direction.
    pub outages: Vec<Outage>,
    /// How gateways are watched.
    pub timing: Timing,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_proved(&self) -> bool {
        !self.findings.iter().any(Finding::is_error)
    }
}

/// Checks every client against every server.
#[must_use]
pub fn check(site: &Site) -> Report {
    let index = Index::new(&[site], &[site]);
    let mut check = Check {
        index: &index,
        report: Report {
            timing: site.timing,
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
    check.finish(site.timing)
}

fn with_role<'a>(parties: &'a [Party<'a>], role: NodeRole) -> impl Iterator<Item = &'a Party<'a>> {
    parties.iter().filter(move |party| party.class.role == role)
}

/// The classes of servers on each net.
fn servers<'a>(parties: &'a [Party<'a>]) -> BTreeMap<Net, Vec<&'a Party<'a>>> {
    let mut by_net: BTreeMap<Net, Vec<&Party<'_>>> = BTreeMap::new();
    for server in with_role(parties, NodeRole::Server) {
        for net in &server.class.config.nets {
            by_net.entry(net.net).or_default().push(server);
        }
    }
    by_net
}

/// What can be said of a class's routes without a second class.
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
        .filter(|route| route.hop.is_none());
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

/// Whether two nets of a class are on one interface, as the nets of slots are. The nets of rails each have an interface of
/// their own, and are told apart by the routers on them.
fn shares_an_interface(class: &Class) -> bool {
    let nis = class.config.nets.iter().flat_map(|net| &net.nis);
    let mut seen = BTreeSet::new();
    let mut interfaces = nis.flat_map(|ni| &ni.interfaces);
    interfaces.any(|interface| !seen.insert(interface))
}

/// Whether a client has a primary and a backup to a net.
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

/// A check under way.
struct Check<'a> {
    index: &'a Index<'a>,
    report: Report,
    tally: Tally,
}

impl Check<'_> {
    fn finish(mut self, timing: Timing) -> Report {
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

    /// Nothing has failed: all arrives, and takes the same router in both directions.
    fn healthy(&mut self, talk: &Conversation<'_>, usual: &[(Direction, Passages); 2]) {
        self.report.states += 1;
        let [forward, back] = usual.each_ref().map(|(_, passages)| {
            let gateways = passages.gateways.iter();
            let routers = gateways.filter_map(|&gateway| self.index.router(gateway));
            routers.map(|router| router.name).collect::<BTreeSet<_>>()
        });
        if forward.len() > 1 {
            let (class, net, count) = (talk.client.class.name.clone(), talk.net, forward.len());
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
            });
        }
        for (direction, passages) in usual {
            let loss = talk.loss(self.index, *direction, passages, &State::default());
            self.found_loss(talk, *direction, || When::Now, loss);
        }
    }

    /// Something has failed: unnoticed, then noticed, then it returns.
    fn failed(
        &mut self,
        talk: &Conversation<'_>,
        direction: Direction,
        usual: &Passages,
        failure: &Failure,
        state: &State,
    ) {
        let pairs = talk.client.nodes.len() as u64 * talk.server.nodes.len() as u64;
        let unnoticed = talk.loss(self.index, direction, usual, state);
        let evading = talk.passages(self.index, direction, state);
        let noticed = talk.loss(self.index, direction, &evading, state);
        if unnoticed.is_some() || noticed.is_some() {
            self.tally.add(failure, direction, pairs, noticed.is_some());
        }
        if failure.kind == FailureKind::Leaf {
            // Nothing leads to servers whose leaf is gone.
            return;
        }
        self.found_loss(talk, direction, || When::After(failure.clone()), noticed);
        if !evading.gateways.is_empty() {
            let returning = talk.loss(self.index, direction, &evading, &State::default());
            self.found_loss(
                talk,
                direction,
                || When::OnReturn(failure.clone()),
                returning,
            );
        }
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

/// What a client without a usable route to a net loses, if it has routes there.
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

/// How a pair may talk: by which of the client's NIDs, and whom the rules of both prefer.
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

/// Every way in which nodes of a pair talk; none without a usable route of the client.
fn conversations(index: &Index<'_>, client: &Party<'_>, server: &Party<'_>, net: Net) -> Vec<Talk> {
    let mut found = Vec::new();
    for by_client in index.preferences(client, server, net) {
        let first = index.best(client, net, None, &by_client, &State::default());
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
