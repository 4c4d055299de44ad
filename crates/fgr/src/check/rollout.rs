//! In which order a change can be rolled out without a moment in which a reply takes another gateway
//! than its request.
//!
//! ```text
//!   step 1          step 2          step 3          nodes of a step change in any order,
//!   routers ──────▶ servers ──────▶ clients         one after the other
//! ```
//!
//! During a step each of its nodes is old or new, nodes of earlier steps are new, of later ones old.
//! Every pair is checked in every such mixture. A router that changes is for that time a failed one,
//! which the check of single failures covers.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::index::{Index, State};
use crate::check::{Failed, Finding, asymmetries};
use crate::config::{Class, NodeRole, Site};

/// One step of a roll-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whose configuration changes.
    pub role: NodeRole,
    /// How many nodes change.
    pub nodes: usize,
}

/// An order of steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// The steps.
    pub steps: [Step; 3],
    /// Pairs that are asymmetric on the way although they are not so at its ends; empty when the
    /// order is safe.
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

/// The first order that opens no asymmetric pair, or the one that opens the fewest. Nodes are
/// compared by name; `old` without nodes means a site without routes.
#[must_use]
pub fn rollout(old: &Site, new: &Site) -> Rollout {
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
                nodes: change.changed.get(&role).copied().unwrap_or(0),
            });
            best = Some(Rollout { steps, open });
        }
    }
    // There are six orders.
    best.unwrap_or(Rollout {
        steps: ORDERS[0].map(|role| Step { role, nodes: 0 }),
        open: Vec::new(),
    })
}

/// The class of a node before, if there was one, and after.
type Pair<'a> = (Option<&'a Class>, Option<&'a Class>);

struct Change<'a> {
    before: Index<'a>,
    after: Index<'a>,
    clients: Vec<Pair<'a>>,
    servers: Vec<Pair<'a>>,
    changed: BTreeMap<NodeRole, usize>,
}

impl<'a> Change<'a> {
    fn new(old: &'a Site, new: &'a Site) -> Self {
        let mut nodes: BTreeMap<&str, Pair<'a>> = BTreeMap::new();
        for node in &old.nodes {
            nodes.entry(&node.name).or_default().0 = Some(old.class_of(node));
        }
        for node in &new.nodes {
            nodes.entry(&node.name).or_default().1 = Some(new.class_of(node));
        }
        let mut changed: BTreeMap<NodeRole, usize> = BTreeMap::new();
        let mut distinct: BTreeMap<(Option<&str>, Option<&str>), Pair<'a>> = BTreeMap::new();
        for (before, after) in nodes.into_values() {
            let content =
                |class: Option<&'a Class>| class.map(|class| (&class.config, &class.rules));
            if let Some(class) = after
                .or(before)
                .filter(|_| content(before) != content(after))
            {
                *changed.entry(class.role).or_default() += 1;
            }
            let name = |class: Option<&'a Class>| class.map(|class| class.name.as_str());
            distinct.insert((name(before), name(after)), (before, after));
        }
        let of = |role: NodeRole| {
            let pairs = distinct.values().copied();
            let is = move |pair: &Pair<'a>| pair.1.or(pair.0).is_some_and(|c| c.role == role);
            pairs.filter(is).collect()
        };
        Self {
            before: Index::new(&[old], &[old, new]),
            after: Index::new(&[new], &[old, new]),
            clients: of(NodeRole::Client),
            servers: of(NodeRole::Server),
            changed,
        }
    }

    /// Asymmetric pairs on the way.
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
                for &client in &clients {
                    for &server in &servers {
                        found.extend(on_every_net(index, client, server));
                    }
                }
            }
        }
        for (index, side) in [(&self.before, 0), (&self.after, 3)] {
            for &client in &in_step(&self.clients, 1, side) {
                for &server in &in_step(&self.servers, 1, side) {
                    for known in on_every_net(index, client, server) {
                        found.remove(&known);
                    }
                }
            }
        }
        found.into_iter().collect()
    }
}

/// The classes that nodes may have in a step, when they change in step `own`.
fn in_step<'a>(pairs: &[Pair<'a>], own: usize, step: usize) -> Vec<&'a Class> {
    let mut found: Vec<&Class> = Vec::new();
    for &(before, after) in pairs {
        let classes = [
            before.filter(|_| step <= own),
            after.filter(|_| step >= own),
        ];
        // A class of the old site and one of the new site may have the same name.
        for class in classes.into_iter().flatten() {
            if !found.iter().any(|known| std::ptr::eq(*known, class)) {
                found.push(class);
            }
        }
    }
    found
}

fn on_every_net(index: &Index<'_>, client: &Class, server: &Class) -> Vec<Finding> {
    let state = State {
        failed: Failed(None),
        dead: BTreeSet::new(),
    };
    let nets = server.config.nets.iter().map(|net| net.net);
    nets.flat_map(|net| asymmetries(index, [client, server], net, &state))
        .collect()
}
