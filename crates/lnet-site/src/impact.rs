//! What failures and changes do to who reaches whom.
//!
//! Both directions of each pair count, so that what servers start counts as much as what clients ask.

use std::collections::{BTreeMap, BTreeSet};

use lnet_types::Nid;
use serde::Serialize;

use crate::fold::fold;
use crate::gather::Gathered;
use crate::model::Verdict;
use crate::reach::{Direction, Reach, Selection, reach_of};
use crate::site::Site;

/// Failures that one run tries.
const FAILURES_MAX: usize = 4096;

/// What one failure does.
#[derive(Clone, Debug, Serialize)]
pub struct Impact {
    /// What fails.
    pub failed: String,
    /// Directions in which nothing arrives any more.
    pub lost: Vec<Change>,
    /// Directions in which some messages do not arrive any more.
    pub partly: Vec<Change>,
    /// Directions that have fewer gateways or rails than before.
    pub thinner: Vec<Change>,
    /// Directions whose messages take other paths.
    pub moved: Vec<Change>,
    /// Directions that no longer take the paths of the way back.
    pub asymmetric: Vec<Change>,
}

/// A direction before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Who sends.
    pub from: String,
    /// To whom.
    pub to: String,
    /// How, before.
    pub before: String,
    /// How, afterwards.
    pub after: String,
}

impl Impact {
    /// Whether messages are lost.
    #[must_use]
    pub fn loses(&self) -> bool {
        !self.lost.is_empty() || !self.partly.is_empty()
    }
}

/// What the failure of these NIDs does. Pairs of which one end has no interface left are left out.
#[must_use]
pub fn what_if(site: &Site, failed: &BTreeSet<Nid>, name: &str) -> Impact {
    let small = site.reduced(failed);
    let all = Selection::default();
    let before = reach_of(&small, &all, &all, &BTreeSet::new(), false);
    after(&small, &before, failed, name)
}

/// What each single failure of a router does.
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

/// What each single failure of an interface does: of gateways, and of one node of each class that has several.
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
    let before = reach_of(small, &all, &all, &BTreeSet::new(), false);
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
    let after = reach_of(small, &all, &all, failed, false);
    let gateways = small.gateways();
    let ends: Vec<usize> = (0..small.members.len())
        .filter(|at| !gateways.contains(at))
        .collect();
    let is_gone = |end: usize| {
        let member = ends.get(end).and_then(|&at| small.members.get(at));
        member.is_some_and(|one| one.nids().all(|nid| failed.contains(&nid)))
    };
    let (old, new) = (by_ends(before), by_ends(&after));
    let mut impact = Impact {
        failed: name.to_owned(),
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
    /// Paths and redundancy in a few words.
    #[must_use]
    pub fn told(&self) -> String {
        let paths: Vec<&str> = self.paths.iter().map(String::as_str).collect();
        let ways = crate::text::counted(self.ways, "way");
        match self.verdict {
            Verdict::None => "nothing arrives".to_owned(),
            Verdict::Some => format!("some arrive: {} ({ways})", paths.join("; ")),
            Verdict::All => format!("{} ({ways})", paths.join("; ")),
        }
    }
}

/// How the behaviour of two sites differs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SiteDifference {
    /// Ends that the new site has and the old one has not, as a host list.
    pub added: String,
    /// Ends that the old site has and the new one has not.
    pub removed: String,
    /// Ends of which a file of either site cannot be read, or is no configuration: neither added nor removed.
    pub unreadable: String,
    /// Pairs that behave differently, in each direction.
    pub changes: Vec<Change>,
}

impl SiteDifference {
    /// Whether both sites behave the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changes.is_empty()
    }

    /// Whether messages are lost that arrived before.
    #[must_use]
    pub fn loses(&self) -> bool {
        let mut changes = self.changes.iter();
        changes.any(|one| one.after.starts_with("nothing") || one.after.starts_with("some arrive"))
    }
}

/// Compares which pairs reach each other and how, not lines. Nodes are known by their names.
#[must_use]
pub fn differences(old: &Site, new: &Site) -> SiteDifference {
    let all = Selection::default();
    let none = BTreeSet::new();
    let reach = |site: &Site| reach_of(&site.reduced(&none), &all, &all, &none, false);
    let unreadable = &old.unknown() | &new.unknown();
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
            // A node alone in its class says nothing of nodes like it.
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

/// The end of each node, by its name.
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

/// A site's texts with those of some nodes in place of what they were.
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
