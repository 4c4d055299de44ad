//! Proof of a site: what its configurations do, now and after every single failure.
//!
//! ```text
//!             forward: best usable route of the client to the server's net
//!   client ──────────────▶ gateway ──────────────▶ server
//!          ◀── reply: best usable route of the server to the net of the client's source NID
//! ```
//!
//! LNet takes of the usable routes those that a selection rule prefers, of these the ones of lowest
//! priority, of these the ones of fewest hops, and shares its messages among what is left (planning,
//! section 3.2). A pair is symmetric when, for each gateway that the client may take, the server's
//! reply can only take the same node. The source NID is the client's one on the gateway's net.
//!
//! Checked are classes, not nodes: nodes of a class do the same. This reads configurations as they
//! are; it does not know what else is wrong with a running node.

mod index;
mod rollout;

use std::collections::{BTreeMap, BTreeSet};

use lnet_types::{Net, Nid};
use thiserror::Error;

use crate::config::{Class, NodeRole, Site};
use index::Index;

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
    /// No usable route.
    #[error("{class}: {net} is out of reach{failed}")]
    Unreachable {
        /// The class.
        class: String,
        /// The net.
        net: Net,
        /// After which failure.
        failed: Failed,
    },
    /// A reply that does not take the gateway of its request.
    #[error("{client} to {server} on {net}: there by {forward}, back by {back}{failed}")]
    Asymmetric {
        /// The client's class.
        client: String,
        /// The server's class.
        server: String,
        /// The server's net.
        net: Net,
        /// The gateway of the request.
        forward: String,
        /// Those that the reply may take; "no route" for none.
        back: String,
        /// After which failure.
        failed: Failed,
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
    /// Discovery merges the nets of a peer, so that the net of the source does not tell the gateway.
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
        !matches!(
            self,
            Self::SharedPrimary { .. } | Self::HopUnset { .. } | Self::DiscoveryOn { .. }
        )
    }
}

/// What has failed: nothing, a router, a blade of routers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[error("{}", .0.as_ref().map_or(String::new(), |what| format!(" after {what} failed")))]
pub struct Failed(pub Option<String>);

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Everything that is wrong or doubtful, in the order of the classes.
    pub findings: Vec<Finding>,
    /// Pairs of a client and a server that were looked at.
    pub pairs: u64,
    /// Pairs of classes times states (nothing failed, one thing failed) that were looked at.
    pub states: u64,
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
    let mut report = Report::default();
    for class in &site.classes {
        routes(&index, class, &mut report.findings);
    }
    let servers = servers(site);
    let population = population(site);
    for (client, clients) in with_role(site, &population, NodeRole::Client) {
        for (&net, classes) in &servers {
            if client.config.nets.iter().any(|local| local.net == net) {
                continue;
            }
            reach(
                client,
                net,
                classes.iter().map(|&(_, count)| count).sum(),
                &mut report,
            );
            for &(server, count) in classes {
                report.pairs += clients as u64 * count as u64;
                pair(&index, client, server, net, &mut report);
            }
        }
    }
    let mut seen = BTreeSet::new();
    report
        .findings
        .retain(|finding| seen.insert(finding.clone()));
    report
}

/// How many nodes each class has.
fn population(site: &Site) -> Vec<usize> {
    let mut population = vec![0; site.classes.len()];
    for node in &site.nodes {
        population[node.class] += 1;
    }
    population
}

fn with_role<'a>(
    site: &'a Site,
    population: &'a [usize],
    role: NodeRole,
) -> impl Iterator<Item = (&'a Class, usize)> {
    let classes = site.classes.iter().zip(population.iter().copied());
    classes.filter(move |(class, count)| class.role == role && *count > 0)
}

/// The classes of servers on each net, with their numbers of nodes.
fn servers(site: &Site) -> BTreeMap<Net, Vec<(&Class, usize)>> {
    let population = population(site);
    let mut by_net: BTreeMap<Net, Vec<(&Class, usize)>> = BTreeMap::new();
    for (class, count) in site.classes.iter().zip(population) {
        if class.role == NodeRole::Server && count > 0 {
            for net in &class.config.nets {
                by_net.entry(net.net).or_default().push((class, count));
            }
        }
    }
    by_net
}

/// What can be said of a class's routes without a second class.
fn routes(index: &Index<'_>, class: &Class, findings: &mut Vec<Finding>) {
    let name = || class.name.clone();
    for route in &class.config.routes {
        let (net, gateway) = (route.net, route.gateway);
        let is_local = |net: Net| class.config.nets.iter().any(|local| local.net == net);
        if !is_local(gateway.net()) {
            findings.push(Finding::FarGateway {
                class: name(),
                net,
                gateway,
            });
        }
        match index.gateway(gateway) {
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
            Some(_) => {}
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
    let merges = class.config.globals.discovery != Some(false) && class.config.nets.len() > 1;
    if merges && class.role == NodeRole::Client {
        findings.push(Finding::DiscoveryOn { class: name() });
    }
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

/// A pair in every state that can make a difference to it.
fn pair(index: &Index<'_>, client: &Class, server: &Class, net: Net, report: &mut Report) {
    let mut is_first = true;
    for state in index.states(client, server, net) {
        report.states += 1;
        let forward = index.best(client, net, &state.dead);
        if forward.is_empty() && client.config.routes.iter().any(|route| route.net == net) {
            let (class, failed) = (client.name.clone(), state.failed.clone());
            report
                .findings
                .push(Finding::Unreachable { class, net, failed });
        }
        if is_first && forward.len() > 1 {
            let (class, count) = (client.name.clone(), forward.len());
            report
                .findings
                .push(Finding::SharedPrimary { class, net, count });
        }
        is_first = false;
        report
            .findings
            .extend(asymmetries(index, [client, server], net, &state));
    }
}

/// The gateways of a pair that the reply may not take, or not alone.
fn asymmetries(
    index: &Index<'_>,
    [client, server]: [&Class; 2],
    net: Net,
    state: &index::State,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for gateway in index.best(client, net, &state.dead) {
        let Some(forward) = index.gateway(gateway) else {
            continue;
        };
        let back = index.best(server, gateway.net(), &state.dead);
        let names: BTreeSet<&str> = back
            .iter()
            .filter_map(|&nid| index.gateway(nid))
            .map(|router| router.name)
            .collect();
        if names.len() == 1 && names.contains(forward.name) {
            continue;
        }
        let back = match names.len() {
            0 => "no route".to_owned(),
            _ => names.into_iter().collect::<Vec<_>>().join(", "),
        };
        found.push(Finding::Asymmetric {
            client: client.name.clone(),
            server: server.name.clone(),
            net,
            forward: forward.name.to_owned(),
            back,
            failed: state.failed.clone(),
        });
    }
    found
}
