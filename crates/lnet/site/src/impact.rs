//! Computes how failures and changes alter which nodes reach each other.
//!
//! Both directions of each pair count, because servers also send messages that no client asked for.

use std::collections::{BTreeMap, BTreeSet};

use lnet_types::Nid;
use serde::Serialize;

use crate::cause::{of_change, of_failure};
use crate::fold::fold;
use crate::gather::Gathered;
use crate::model::Verdict;
use crate::reach::{Direction, Reach, Selection, reach_of};
use crate::site::Site;

/// The limit on the failures that one run tries.
const FAILURES_MAX: usize = 4096;

/// The effects of one failure.
#[derive(Clone, Debug, Serialize)]
pub struct Impact {
    /// The name of what fails.
    pub failed: String,
    /// What the failure takes from gateways: those that no longer forward, and between which nets.
    pub causes: Vec<String>,
    /// Ends without a NID that works after the failure, as a host list: they lose every direction, which `lost` does not
    /// list.
    pub cut_off: String,
    /// Directions in which no message arrives after the failure.
    pub lost: Vec<Change>,
    /// Directions in which only some messages arrive after the failure.
    pub partly: Vec<Change>,
    /// Directions that have fewer gateways or rails after the failure.
    pub thinner: Vec<Change>,
    /// Directions whose messages take other paths after the failure.
    pub moved: Vec<Change>,
    /// Directions whose paths equalled those of the opposite direction before the failure and differ from them
    /// after it.
    pub asymmetric: Vec<Change>,
}

/// One direction before and after a failure or a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The sender.
    pub from: String,
    /// The destination.
    pub to: String,
    /// The paths before, in words.
    pub before: String,
    /// The paths after, in words.
    pub after: String,
}

impl Impact {
    /// Returns true if messages are lost.
    #[must_use]
    pub fn loses(&self) -> bool {
        !self.cut_off.is_empty() || !self.lost.is_empty() || !self.partly.is_empty()
    }
}

/// Returns the effects if the NIDs in `failed` go down. Pairs in which one end has no working NID left are not
/// reported one by one.
#[must_use]
pub fn what_if(site: &Site, failed: &BTreeSet<Nid>, name: &str) -> Impact {
    let small = site.reduced(failed);
    let all = Selection::default();
    let before = reach_of(&small, &all, &all, &BTreeSet::new(), None);
    after(&small, &before, failed, name)
}

/// Returns the effects of the failure of each single router.
#[must_use]
pub fn each_router(site: &Site) -> Vec<Impact> {
    let small = site.reduced(&BTreeSet::new());
    let gateways = small.gateways().into_iter();
    let failures = gateways.filter_map(|at| {
        let member = small.members.get(at)?;
        Some((member.text.name.clone(), member.nids().collect()))
    });
    each(&small, failures.collect())
}

/// Returns the effects of the failure of each single interface: of each gateway, and of one node in each class
/// whose nodes have several interfaces.
#[must_use]
pub fn each_rail(site: &Site) -> Vec<Impact> {
    let small = site.reduced(&BTreeSet::new());
    let gateways = small.gateways();
    let mut failures: Vec<(String, BTreeSet<Nid>)> = Vec::new();
    for (at, member) in small.members.iter().enumerate() {
        if member.nids().count() < 2 && !gateways.contains(&at) {
            continue;
        }
        let name = small.member_name(at);
        let own = member
            .nids()
            .map(|nid| (format!("{nid} of {name}"), BTreeSet::from([nid])));
        failures.extend(own);
    }
    each(&small, failures)
}

fn each(small: &Site, failures: Vec<(String, BTreeSet<Nid>)>) -> Vec<Impact> {
    let all = Selection::default();
    let before = reach_of(small, &all, &all, &BTreeSet::new(), None);
    let failures = failures.into_iter().take(FAILURES_MAX);
    let impacts = failures.map(|(name, failed)| after(small, &before, &failed, &name));
    let mut impacts: Vec<Impact> = impacts.collect();
    impacts.sort_by_key(|one| {
        std::cmp::Reverse((one.lost.len(), one.partly.len(), one.thinner.len()))
    });
    impacts
}

fn after(small: &Site, before: &Reach, failed: &BTreeSet<Nid>, name: &str) -> Impact {
    let all = Selection::default();
    let after = reach_of(small, &all, &all, failed, None);
    let gateways = small.gateways();
    let ends: Vec<usize> = (0..small.members.len())
        .filter(|at| !gateways.contains(at))
        .collect();
    let is_gone = |end: usize| {
        let member = ends.get(end).and_then(|&at| small.members.get(at));
        member.is_some_and(|one| one.nids().all(|nid| failed.contains(&nid)))
    };
    let (old, new) = (by_ends(before), by_ends(&after));
    let joined = old.iter().filter(|(_, was)| was.verdict != Verdict::None);
    let joined: BTreeSet<usize> = joined.flat_map(|(&(from, to), _)| [from, to]).collect();
    let gone = joined.into_iter().filter(|&end| is_gone(end));
    let gone: Vec<String> = gone.map(|end| end_name(before, end)).collect();
    let mut impact = Impact {
        failed: name.to_owned(),
        causes: of_failure(small, failed),
        cut_off: fold(gone.iter().map(String::as_str)),
        lost: Vec::new(),
        partly: Vec::new(),
        thinner: Vec::new(),
        moved: Vec::new(),
        asymmetric: Vec::new(),
    };
    for (&(from, to), was) in old
        .iter()
        .filter(|((from, to), _)| !is_gone(*from) && !is_gone(*to))
    {
        let is = new.get(&(from, to)).copied();
        let back = |all: &BTreeMap<(usize, usize), &Direction>| {
            all.get(&(to, from)).map(|one| one.paths.clone())
        };
        let change = Change {
            from: end_name(before, from),
            to: end_name(before, to),
            before: was.told(),
            after: is.map_or_else(|| "nothing joins them".to_owned(), Direction::told),
        };
        let verdict = is.map_or(Verdict::None, |one| one.verdict);
        let was_even = back(&old).is_none_or(|paths| paths == was.paths);
        if verdict == Verdict::None && was.verdict != Verdict::None {
            impact.lost.push(change);
        } else if verdict == Verdict::Some && was.verdict == Verdict::All {
            impact.partly.push(change);
        } else if let Some(is) = is {
            if is.ways < was.ways {
                impact.thinner.push(change.clone());
            }
            if was_even && back(&new).is_some_and(|paths| paths != is.paths) {
                impact.asymmetric.push(change.clone());
            }
            if is.paths != was.paths {
                impact.moved.push(change);
            }
        }
    }
    impact
}

fn end_name(reach: &Reach, at: usize) -> String {
    reach
        .ends
        .get(at)
        .map_or(String::new(), |end| end.name.clone())
}

fn by_ends(reach: &Reach) -> BTreeMap<(usize, usize), &Direction> {
    let directions = reach.directions.iter();
    directions.map(|one| ((one.from, one.to), one)).collect()
}

impl Direction {
    /// Describes the paths and the redundancy in a few words.
    #[must_use]
    pub fn told(&self) -> String {
        let paths = folded(&self.paths);
        let ways = crate::text::counted(self.ways, "way");
        match self.verdict {
            Verdict::None => "nothing arrives".to_owned(),
            Verdict::Some => format!("some arrive: {paths} ({ways})"),
            Verdict::All => format!("{paths} ({ways})"),
        }
    }
}

/// Returns paths in words, those by one gateway each with the gateways as a host list.
fn folded(paths: &BTreeSet<String>) -> String {
    let gateway = |path: &String| {
        let name = path.strip_prefix("by ")?;
        (!name.contains(", then ")).then(|| name.to_owned())
    };
    let gateways: Vec<String> = paths.iter().filter_map(gateway).collect();
    let others = paths.iter().filter(|path| gateway(path).is_none());
    let names = fold(gateways.iter().map(String::as_str));
    let by = (!names.is_empty()).then(|| format!("by {names}"));
    let all: Vec<String> = others.cloned().chain(by).collect();
    all.join("; ")
}

/// The differences between the behaviour of two sites.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SiteDifference {
    /// Ends that only the new site has, as a host list.
    pub added: String,
    /// Ends that only the old site has, as a host list.
    pub removed: String,
    /// Nodes of which a file of either site cannot be read, or is not a configuration: neither added nor removed.
    pub unreadable: String,
    /// What changed at nodes: gateways that no longer forward, then NIs and routes, with the nodes as host lists.
    pub causes: Vec<String>,
    /// The directions that behave differently.
    pub changes: Vec<Change>,
}

impl SiteDifference {
    /// Returns true if both sites behave the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changes.is_empty()
    }

    /// Returns true if messages are lost in the new site that arrived in the old site.
    #[must_use]
    pub fn loses(&self) -> bool {
        let mut changes = self.changes.iter();
        changes.any(|one| one.after.starts_with("nothing") || one.after.starts_with("some arrive"))
    }
}

/// Compares which pairs reach each other, and by which paths. The texts of the files are not compared. A node of
/// one site corresponds to the node of the same name in the other site.
#[must_use]
pub fn differences(old: &Site, new: &Site) -> SiteDifference {
    let all = Selection::default();
    let none = BTreeSet::new();
    let reach = |site: &Site| reach_of(&site.reduced(&none), &all, &all, &none, None);
    let unreadable = &old.unknown() | &new.unknown();
    let causes = of_change(old, new);
    let (old, new) = (reach(old), reach(new));
    let (of_old, of_new) = (ends_of(&old), ends_of(&new));
    let mut groups: BTreeMap<(usize, usize), Vec<&str>> = BTreeMap::new();
    for (name, &before) in &of_old {
        if let Some(&after) = of_new.get(name) {
            groups.entry((before, after)).or_default().push(name);
        }
    }
    let groups: Vec<((usize, usize), String, usize)> = groups
        .into_iter()
        .map(|(ends, names)| (ends, fold(names.iter().copied()), names.len()))
        .collect();
    let (by_old, by_new) = (by_ends(&old), by_ends(&new));
    let mut difference = SiteDifference {
        added: only(&of_new, &of_old, &unreadable),
        removed: only(&of_old, &of_new, &unreadable),
        unreadable: fold(unreadable.iter().map(String::as_str)),
        causes,
        changes: Vec::new(),
    };
    for ((from_old, from_new), from, count) in &groups {
        for ((to_old, to_new), to, _) in &groups {
            let told = |all: &BTreeMap<(usize, usize), &Direction>, ends| {
                let found = all.get(&ends).copied();
                found.map_or_else(|| "nothing joins them".to_owned(), Direction::told)
            };
            let before = told(&by_old, (*from_old, *to_old));
            let after = told(&by_new, (*from_new, *to_new));
            // A class of one node has no messages within the class.
            let is_alone = from == to && *count < 2;
            if before != after && !is_alone {
                difference.changes.push(Change {
                    from: from.clone(),
                    to: to.clone(),
                    before,
                    after,
                });
            }
        }
    }
    difference
}

/// Returns the index of each node's end, by the node's name.
fn ends_of(reach: &Reach) -> BTreeMap<String, usize> {
    let mut ends = BTreeMap::new();
    for (at, end) in reach.ends.iter().enumerate() {
        for name in fgr::hosts(&end.name).unwrap_or_default() {
            ends.insert(name, at);
        }
    }
    ends
}

fn only(
    these: &BTreeMap<String, usize>,
    those: &BTreeMap<String, usize>,
    unreadable: &BTreeSet<String>,
) -> String {
    let names = these.keys();
    let names = names.filter(|name| !those.contains_key(*name) && !unreadable.contains(*name));
    fold(names.map(String::as_str))
}

/// Replaces the texts of the nodes that `new` contains, and keeps the other nodes of `old`.
#[must_use]
pub fn overlay(mut old: Gathered, new: Gathered) -> Gathered {
    let hosts = |name: &str| fgr::hosts(name).unwrap_or_default();
    let replaced: BTreeSet<String> = new
        .nodes
        .iter()
        .flat_map(|node| hosts(&node.name))
        .collect();
    for node in &mut old.nodes {
        let names = hosts(&node.name);
        let left: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| !replaced.contains(*name))
            .collect();
        if left.len() < names.len() {
            node.count = left.len();
            node.name = fold(left);
        }
    }
    old.nodes.retain(|node| node.count > 0);
    old.nodes.extend(new.nodes);
    old.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    old.passed_over.extend(new.passed_over);
    old.unnamed.extend(new.unnamed);
    old.unreadable.extend(new.unreadable);
    old
}
