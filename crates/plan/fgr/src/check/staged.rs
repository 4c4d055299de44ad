//! Orders of a roll-out for sites with chains of routers, where routers send by other routers.
//!
//! ```text
//!   nothing changed ──▶ routers of one class ──▶ … ──▶ everything changed
//!                        │                              every state on the way is checked as a site of
//!                        └ another class first          its own, and a state with a loss is no step
//! ```
//!
//! A router that is changed early may send by one that does not forward yet, so the routers of a
//! chain do not change in any order. A class of routers is a step of its own, as are all servers
//! and all clients.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::index::{Index, parties};
use crate::check::rollout::{Rollout, Step, on_every_net};
use crate::check::{Finding, with_role};
use crate::config::{Class, NodeRole, Site, SiteNode};

/// Most states that are checked in the search for a safe order.
const STATES_MAX: usize = 1_000;

/// Returns whether a site has routers that send by other routers.
pub(super) fn is_chained(site: &Site) -> bool {
    let mut classes = site.classes.iter();
    classes.any(|class| class.role == NodeRole::Router && !class.config.routes.is_empty())
}

/// Returns the first safe order of the steps; without one, the order that gets furthest without a
/// loss, with the losses of the rest of its way.
pub(super) fn staged(old: &Site, new: &Site) -> Rollout {
    let units = units(old, new);
    let usual = [losses(old), losses(new)].concat();
    let mut search = Search {
        change: [old, new],
        units: &units,
        usual: usual.into_iter().collect(),
        seen: BTreeSet::new(),
        best: Vec::new(),
    };
    let mut order = Vec::new();
    search.extend(&mut order);
    let mut order = std::mem::take(&mut search.best);
    let mut open = BTreeSet::new();
    for unit in 0..units.len() {
        if !order.contains(&unit) {
            order.push(unit);
            open.extend(search.lost(&order));
        }
    }
    let mut units: Vec<Option<Unit>> = units.into_iter().map(Some).collect();
    // Every number occurs once in the order.
    let steps = order.into_iter().filter_map(|unit| units[unit].take());
    Rollout {
        steps: steps.map(|unit| unit.step).collect(),
        open: open.into_iter().collect(),
    }
}

/// Nodes that change in the same step.
struct Unit {
    step: Step,
    names: BTreeSet<String>,
}

/// Returns the routers by class, then the servers and the clients, as far as they change.
fn units(old: &Site, new: &Site) -> Vec<Unit> {
    let (before, after) = (by_name(old), by_name(new));
    let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let mut units: BTreeMap<(usize, Option<&str>), Unit> = BTreeMap::new();
    for name in names {
        let [was, is] = [before.get(name), after.get(name)];
        let is_same = was.zip(is).is_some_and(|(was, is)| {
            let same_class = (&was.0.config, &was.0.rules) == (&is.0.config, &is.0.rules);
            same_class && was.1.nids == is.1.nids
        });
        let Some((class, _)) = is.or(was).filter(|_| !is_same) else {
            continue;
        };
        let (rank, own) = match class.role {
            NodeRole::Router => (0, Some(class.name.as_str())),
            NodeRole::Server => (1, None),
            NodeRole::Client => (2, None),
        };
        let unit = units.entry((rank, own)).or_insert_with(|| Unit {
            step: Step {
                role: class.role,
                class: own.map(str::to_owned),
                nodes: 0,
            },
            names: BTreeSet::new(),
        });
        unit.step.nodes += 1;
        unit.names.insert(name.to_owned());
    }
    units.into_values().collect()
}

/// The nodes of a site with their classes, by name.
fn by_name(site: &Site) -> BTreeMap<&str, (&Class, &SiteNode)> {
    let nodes = site.nodes.iter();
    let named = nodes.map(|node| (node.name.as_str(), (site.class_of(node), node)));
    named.collect()
}

/// A search through the orders, in depth.
struct Search<'a> {
    change: [&'a Site; 2],
    units: &'a [Unit],
    /// The losses of the old and the new site.
    usual: BTreeSet<Finding>,
    /// The states that were tried.
    seen: BTreeSet<BTreeSet<usize>>,
    /// The longest order without a loss.
    best: Vec<usize>,
}

impl Search<'_> {
    /// Extends an order by steps without losses. Returns whether all steps are in it.
    fn extend(&mut self, order: &mut Vec<usize>) -> bool {
        if order.len() > self.best.len() {
            self.best.clone_from(order);
        }
        for unit in 0..self.units.len() {
            if order.contains(&unit) || self.seen.len() >= STATES_MAX {
                continue;
            }
            order.push(unit);
            let is_new = self.seen.insert(order.iter().copied().collect());
            if is_new && self.lost(order).is_empty() && self.extend(order) {
                return true;
            }
            order.pop();
        }
        order.len() == self.units.len()
    }

    /// Returns what is lost after these steps that neither the old nor the new site loses.
    fn lost(&self, done: &[usize]) -> Vec<Finding> {
        let [old, new] = self.change;
        let changed = |name: &str| {
            done.iter()
                .any(|&unit| self.units[unit].names.contains(name))
        };
        let mut site = Site {
            classes: [&old.classes[..], &new.classes[..]].concat(),
            ..Site::default()
        };
        let stay = old.nodes.iter().filter(|node| !changed(&node.name));
        site.nodes.extend(stay.cloned());
        let moved = new.nodes.iter().filter(|node| changed(&node.name));
        site.nodes.extend(moved.map(|node| SiteNode {
            class: old.classes.len() + node.class,
            ..node.clone()
        }));
        let mut lost = losses(&site);
        lost.retain(|loss| !self.usual.contains(loss));
        lost
    }
}

/// Returns what the pairs of a site lose if nothing has failed.
fn losses(site: &Site) -> Vec<Finding> {
    let index = Index::new(&[site], &[site]);
    let parties = parties(site);
    let mut found = Vec::new();
    for client in with_role(&parties, NodeRole::Client) {
        for server in with_role(&parties, NodeRole::Server) {
            on_every_net(&index, client, server, &mut |loss| found.push(loss));
        }
    }
    found
}
