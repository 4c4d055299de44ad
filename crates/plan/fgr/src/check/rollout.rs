//! Orders in which a change can be rolled out without losing messages.
//!
//! ```text
//!   step 1          step 2          step 3          nodes of a step change in any order,
//!   routers ──────▶ servers ──────▶ clients         one after the other
//! ```
//!
//! During a step each node of the step is old or new; nodes of earlier steps are new, those of
//! later steps old. Every pair is checked in every such mixture. A router that is being changed
//! counts as a failed one, which the check of single failures covers. Routers of chains change
//! class by class (`staged`).

use std::collections::{BTreeMap, BTreeSet};

use crate::check::index::{Index, Party, State, parties};
use crate::check::staged::{is_chained, staged};
use crate::check::{Direction, Finding, When, conversations, lost, unreachable};
use crate::config::{Class, NodeRole, Site};

/// One step of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Role of the nodes whose configuration changes.
    pub role: NodeRole,
    /// If only the nodes of one class change: its name in the new site, or in the old one if the
    /// nodes are removed. Routers of chains change class by class.
    pub class: Option<String>,
    /// Number of nodes that change.
    pub nodes: usize,
}

/// An order of steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// The steps.
    pub steps: Vec<Step>,
    /// Losses during the rollout that neither the old nor the new site has; empty if the order is
    /// safe.
    pub open: Vec<Finding>,
}

/// All orders, the usual one first.
const ORDERS: [[NodeRole; 3]; 6] = {
    use NodeRole::{Client, Router, Server};
    [
        [Router, Server, Client],
        [Router, Client, Server],
        [Server, Router, Client],
        [Server, Client, Router],
        [Client, Router, Server],
        [Client, Server, Router],
    ]
};

/// Returns the first order without losses, or the order with the fewest. Nodes are matched by name.
/// An `old` site without nodes stands for a site without routes.
#[must_use]
pub fn rollout(old: &Site, new: &Site) -> Rollout {
    if is_chained(old) || is_chained(new) {
        return staged(old, new);
    }
    let change = Change::new(old, new);
    let mut best: Option<Rollout> = None;
    for order in ORDERS {
        if best.as_ref().is_some_and(|best| best.open.is_empty()) {
            break;
        }
        let open = change.open(order);
        if best
            .as_ref()
            .is_none_or(|best| open.len() < best.open.len())
        {
            let steps = order.map(|role| Step {
                role,
                class: None,
                nodes: change.changed.get(&role).copied().unwrap_or(0),
            });
            let steps = steps.to_vec();
            best = Some(Rollout { steps, open });
        }
    }
    // There are six orders, so one is the best.
    best.unwrap_or(Rollout {
        steps: Vec::new(),
        open: Vec::new(),
    })
}

/// The party of a node before the change, if the node exists then, and after it.
type Pair = [Option<usize>; 2];

struct Change<'a> {
    before: Index<'a>,
    after: Index<'a>,
    /// The parties of the old site, then those of the new site.
    parties: Vec<Party<'a>>,
    clients: BTreeSet<Pair>,
    servers: BTreeSet<Pair>,
    changed: BTreeMap<NodeRole, usize>,
}

impl<'a> Change<'a> {
    fn new(old: &'a Site, new: &'a Site) -> Self {
        let mut all = parties(old);
        let olds = all.len();
        all.extend(parties(new));
        let mut nodes: BTreeMap<&str, Pair> = BTreeMap::new();
        for (number, party) in all.iter().enumerate() {
            let side = usize::from(number >= olds);
            for node in &party.nodes {
                nodes.entry(&node.name).or_default()[side] = Some(number);
            }
        }
        let (mut clients, mut servers) = (BTreeSet::new(), BTreeSet::new());
        let mut changed: BTreeMap<NodeRole, usize> = BTreeMap::new();
        for pair in nodes.into_values() {
            let [before, after] = pair.map(|party| party.map(|number| all[number].class));
            let content =
                |class: Option<&'a Class>| class.map(|class| (&class.config, &class.rules));
            let Some(role) = after.or(before).map(|class| class.role) else {
                continue;
            };
            if content(before) != content(after) {
                *changed.entry(role).or_default() += 1;
            }
            match role {
                NodeRole::Client => clients.insert(pair),
                NodeRole::Server => servers.insert(pair),
                NodeRole::Router => false,
            };
        }
        Self {
            before: Index::new(&[old], &[old, new]),
            after: Index::new(&[new], &[old, new]),
            parties: all,
            clients,
            servers,
            changed,
        }
    }

    /// Returns what is lost during the rollout.
    fn open(&self, order: [NodeRole; 3]) -> Vec<Finding> {
        let place = |role| order.iter().position(|&other| other == role).unwrap_or(0);
        let [routers, servers, clients] =
            [NodeRole::Router, NodeRole::Server, NodeRole::Client].map(place);
        let mut found = BTreeSet::new();
        for step in 0..order.len() {
            let indices: &[&Index<'a>] = match routers.cmp(&step) {
                std::cmp::Ordering::Less => &[&self.after],
                std::cmp::Ordering::Equal => &[&self.before, &self.after],
                std::cmp::Ordering::Greater => &[&self.before],
            };
            let clients = in_step(&self.clients, clients, step);
            let servers = in_step(&self.servers, servers, step);
            for index in indices {
                self.losses(index, &clients, &servers, &mut |loss| {
                    found.insert(loss);
                });
            }
        }
        for (index, side) in [(&self.before, 0), (&self.after, 3)] {
            let clients = in_step(&self.clients, 1, side);
            let servers = in_step(&self.servers, 1, side);
            self.losses(index, &clients, &servers, &mut |loss| {
                found.remove(&loss);
            });
        }
        found.into_iter().collect()
    }

    /// Returns what these parties lose if nothing has failed.
    fn losses(
        &self,
        index: &Index<'_>,
        clients: &BTreeSet<usize>,
        servers: &BTreeSet<usize>,
        each: &mut dyn FnMut(Finding),
    ) {
        for client in clients.iter().map(|&number| &self.parties[number]) {
            for server in servers.iter().map(|&number| &self.parties[number]) {
                on_every_net(index, client, server, each);
            }
        }
    }
}

/// Returns the parties of nodes during a step, if the nodes change in step `own`.
fn in_step(pairs: &BTreeSet<Pair>, own: usize, step: usize) -> BTreeSet<usize> {
    let of = |&[before, after]: &Pair| {
        let before = before.filter(|_| step <= own);
        [before, after.filter(|_| step >= own)]
    };
    pairs.iter().flat_map(of).flatten().collect()
}

pub(super) fn on_every_net(
    index: &Index<'_>,
    client: &Party<'_>,
    server: &Party<'_>,
    each: &mut dyn FnMut(Finding),
) {
    let calm = State::default();
    for net in server.class.config.nets.iter().map(|net| net.net) {
        let talks = conversations(index, client, server, net);
        if talks.is_empty() {
            unreachable(client, server, net)
                .into_iter()
                .for_each(&mut *each);
        }
        for talk in talks {
            let talk = talk.as_conversation(client, server, net);
            for direction in Direction::ALL {
                let passages = talk.passages(index, direction, &calm);
                let loss = talk.loss(index, direction, &passages, &calm, &calm);
                let lost = loss.map(|loss| lost(&talk, direction, When::Now, loss));
                lost.into_iter().for_each(&mut *each);
            }
        }
    }
}
