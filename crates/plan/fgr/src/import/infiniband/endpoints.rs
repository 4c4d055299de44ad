//! The adapters of hosts, and the rail of each.
//!
//! ```text
//!   gpu000 mlx5_0 ─ leaf-01-01 ┐ rail 1: the first adapter by name, on the leaves that
//!   gpu001 mlx5_0 ─ leaf-01-01 ┘         mostly have first adapters
//!   gpu000 mlx5_1 ─ leaf-01-02 ─ rail 2
//! ```
//!
//! The place of a name among all names of the listing gives the rail, so that a host without its
//! first adapter has no adapter on the first rail. A leaf whose adapters are of one rail gives its
//! rail to the others on it: their cables are swapped, or their names.

use std::collections::{BTreeMap, BTreeSet};

use super::listing::{Item, ItemKind, Listing, Port, Rate};
use super::naming::{Unnamed, host, listed, natural, stem};

/// A port of a host's adapter.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) host: String,
    /// The adapter: `mlx5_0`; with its port if the adapter has several.
    pub(super) adapter: String,
    /// Index of the switch.
    pub(super) leaf: usize,
    pub(super) rate: Rate,
    /// The rail, from 0.
    pub(super) rail: usize,
}

impl Endpoint {
    fn title(&self) -> String {
        format!("{} {}", self.host, self.adapter)
            .trim_end()
            .to_owned()
    }
}

/// The adapters of a listing.
#[derive(Default)]
pub(super) struct Endpoints {
    /// In natural order of hosts, then of rails.
    pub(super) list: Vec<Endpoint>,
    /// Names of the adapters of each rail.
    pub(super) rails: Vec<BTreeSet<String>>,
    /// Hosts in natural order.
    pub(super) hosts: Vec<String>,
    pub(super) notes: Notes,
}

/// What a reader has to tell about a listing.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    pub(super) assumptions: Vec<String>,
    pub(super) warnings: Vec<String>,
    pub(super) skipped: Vec<String>,
}

impl Endpoints {
    pub(super) fn of(listing: &Listing) -> Self {
        let mut found = Self::default();
        let named = found.named(listing);
        found.collect(listing, &named);
        let by_name = |e: &Endpoint| (natural(&e.host), natural(&e.adapter));
        found.list.sort_by_cached_key(by_name);
        found.drop_repeated();
        found.number();
        found.follow_leaves(listing);
        found
            .list
            .sort_by_cached_key(|e| (natural(&e.host), e.rail, natural(&e.adapter)));
        found.hosts = found.list.iter().map(|e| e.host.clone()).collect();
        found.hosts.dedup();
        found.count_rails();
        found.compare_rates(listing);
        found.compare_ends(listing);
        found
    }

    /// Returns adapters with their hosts and names. If no adapter has a host name, GUIDs name them.
    fn named(&mut self, listing: &Listing) -> Vec<(usize, String, String)> {
        let mut named = Vec::new();
        let mut unnamed: BTreeMap<Unnamed, Vec<usize>> = BTreeMap::new();
        let mut routers = Vec::new();
        for (index, item) in listing.items.iter().enumerate() {
            match item.kind {
                ItemKind::Switch => {}
                ItemKind::Router => routers.push(item.title()),
                ItemKind::Adapter => match host(&item.description) {
                    Ok((host, adapter)) => named.push((index, host, adapter)),
                    Err(reason) => unnamed.entry(reason).or_default().push(index),
                },
            }
        }
        if named.is_empty() {
            let defaults = unnamed.remove(&Unnamed::Default).unwrap_or_default();
            if !defaults.is_empty() {
                let text = "no description names a host: each adapter is a host named by its GUID";
                self.notes.assumptions.push(text.to_owned());
            }
            let guid = |index: usize| listing.items[index].guid.replace("H-", "ca-");
            named.extend(
                defaults
                    .into_iter()
                    .map(|index| (index, guid(index), String::new())),
            );
        }
        for (reason, items) in unnamed {
            let titles = items
                .iter()
                .map(|&index| where_it_is(listing, &listing.items[index]));
            self.skip("adapters", reason.reason(), &titles.collect::<Vec<_>>());
        }
        self.skip("routers", "only switches and adapters are read", &routers);
        named
    }

    fn skip(&mut self, what: &str, reason: &str, names: &[String]) {
        if !names.is_empty() {
            let (count, names) = (names.len(), listed(names));
            self.notes
                .skipped
                .push(format!("{count} {what}, because {reason}: {names}"));
        }
    }

    fn collect(&mut self, listing: &Listing, named: &[(usize, String, String)]) {
        let (mut unlinked, mut direct) = (Vec::new(), Vec::new());
        // Adapters with the same name have the same number of ports in their names, or none has.
        let many: BTreeSet<&str> = named
            .iter()
            .filter(|(index, ..)| switch_ports(listing, *index).count() > 1)
            .map(|(.., adapter)| adapter.as_str())
            .collect();
        for (index, host, adapter) in named {
            let title = format!("{host} {adapter}");
            if listing.items[*index].ports.is_empty() {
                unlinked.push(title);
                continue;
            }
            if switch_ports(listing, *index).count() < listing.items[*index].ports.len() {
                direct.push(title);
            }
            for port in switch_ports(listing, *index) {
                let adapter = match many.contains(adapter.as_str()) {
                    true => format!("{adapter}/{}", port.number),
                    false => adapter.clone(),
                };
                self.list.push(Endpoint {
                    host: host.clone(),
                    adapter,
                    leaf: port.peer,
                    rate: port.rate,
                    rail: 0,
                });
            }
        }
        self.skip("adapters", "they have no link", &unlinked);
        self.skip(
            "links",
            "they lead to another adapter, not to a switch",
            &direct,
        );
    }

    /// Leaves out adapters that have the host and the name of another one. Expects sorted ones.
    fn drop_repeated(&mut self) {
        let mut repeated = Vec::new();
        self.list.dedup_by(|again, first| {
            let same = (&again.host, &again.adapter) == (&first.host, &first.adapter);
            if same {
                repeated.push(again.title());
            }
            same
        });
        self.skip(
            "adapters",
            "another adapter has the same description",
            &repeated,
        );
    }

    /// Numbers the rails by the names of adapters. Names with another stem are numbered from the
    /// first rail again: servers may have `HCA-1` where clients have `mlx5_0`.
    fn number(&mut self) {
        let mut names: BTreeMap<String, BTreeMap<Vec<(u64, String)>, String>> = BTreeMap::new();
        for Endpoint { adapter, .. } in &self.list {
            let whole = adapter.split('/').next().unwrap_or_default();
            let names = names.entry(stem(whole).to_owned()).or_default();
            names.insert(natural(adapter), adapter.clone());
        }
        let mut rail_of: BTreeMap<&str, usize> = BTreeMap::new();
        for names in names.values() {
            rail_of.extend(
                names
                    .values()
                    .enumerate()
                    .map(|(rail, name)| (name.as_str(), rail)),
            );
        }
        for endpoint in &mut self.list {
            endpoint.rail = rail_of.get(endpoint.adapter.as_str()).copied().unwrap_or(0);
        }
        let rails = self.list.iter().map(|e| e.rail + 1).max().unwrap_or(0);
        self.rails = vec![BTreeSet::new(); rails];
    }

    /// Gives adapters the rail of their leaf, if at least three quarters of the leaf's adapters are
    /// of one rail and nine tenths of all adapters are on leaves of their rail.
    fn follow_leaves(&mut self, listing: &Listing) {
        let mut by_leaf: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
        for endpoint in &self.list {
            let rails = by_leaf.entry(endpoint.leaf).or_default();
            *rails.entry(endpoint.rail).or_default() += 1;
        }
        let main: BTreeMap<usize, (usize, usize, usize)> = by_leaf
            .iter()
            .filter_map(|(&leaf, rails)| {
                let all = rails.values().sum();
                let (&rail, &most) = rails
                    .iter()
                    .max_by_key(|(rail, count)| (**count, usize::MAX - **rail))?;
                Some((leaf, (rail, most, all)))
            })
            .collect();
        let pure: usize = main.values().map(|(_, most, _)| most).sum();
        let is_by_leaf = self.rails.len() > 1 && pure * 10 >= self.list.len() * 9;
        let mut swapped = Vec::new();
        for endpoint in &mut self.list {
            let Some(&(rail, most, all)) = main.get(&endpoint.leaf) else {
                continue;
            };
            if is_by_leaf && most * 4 >= all * 3 && endpoint.rail != rail {
                let (title, leaf) = (endpoint.title(), listing.items[endpoint.leaf].title());
                swapped.push(format!("{title} on {leaf} of rail {}", rail + 1));
                endpoint.rail = rail;
            }
        }
        if !swapped.is_empty() {
            self.notes.warnings.push(format!(
                "{} adapters are on leaves of another rail than their names say, and are taken as \
                 adapters of that rail: {}",
                swapped.len(),
                listed(&swapped)
            ));
        }
        for endpoint in &self.list {
            self.rails[endpoint.rail].insert(endpoint.adapter.clone());
        }
    }

    /// Warns of rails with fewer hosts than others, and names the hosts.
    fn count_rails(&mut self) {
        let mut on_rail: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); self.rails.len()];
        for endpoint in &self.list {
            on_rail[endpoint.rail].insert(&endpoint.host);
        }
        let counts: BTreeSet<usize> = on_rail.iter().map(BTreeSet::len).collect();
        if counts.len() < 2 {
            return;
        }
        for (rail, hosts) in on_rail.iter().enumerate() {
            let absent = self
                .hosts
                .iter()
                .filter(|host| !hosts.contains(host.as_str()));
            let absent: Vec<String> = absent.cloned().collect();
            if !absent.is_empty() {
                self.notes.warnings.push(format!(
                    "uneven rails: rail {} has {} of {} hosts, without {}",
                    rail + 1,
                    hosts.len(),
                    self.hosts.len(),
                    listed(&absent)
                ));
            }
        }
    }

    /// Warns of links that are slower or narrower than most of their kind.
    fn compare_rates(&mut self, listing: &Listing) {
        let hosts = self.list.iter().map(|e| (e.rate, e.title()));
        let hosts = compared("links of hosts", hosts.collect());
        let mut inner = Vec::new();
        for (index, item) in listing.items.iter().enumerate() {
            for port in item.ports.iter().filter(|port| port.peer > index) {
                let peer = &listing.items[port.peer];
                if (item.kind, peer.kind) == (ItemKind::Switch, ItemKind::Switch) {
                    inner.push((port.rate, format!("{} to {}", item.title(), peer.title())));
                }
            }
        }
        self.notes.warnings.extend(hosts);
        self.notes
            .warnings
            .extend(compared("links between switches", inner));
    }

    /// Warns of links that only one of their ends lists.
    fn compare_ends(&mut self, listing: &Listing) {
        let mut ends: BTreeMap<(usize, usize), (u32, u32)> = BTreeMap::new();
        for (index, item) in listing.items.iter().enumerate() {
            for port in &item.ports {
                let (low, high) = (index.min(port.peer), index.max(port.peer));
                let count = ends.entry((low, high)).or_default();
                match index == low {
                    true => count.0 += 1,
                    false => count.1 += 1,
                }
            }
        }
        let differ = ends
            .iter()
            .filter(|((a, b), count)| a != b && count.0 != count.1);
        let names: Vec<String> = differ
            .map(|((a, b), _)| {
                format!(
                    "{} to {}",
                    listing.items[*a].title(),
                    listing.items[*b].title()
                )
            })
            .collect();
        if !names.is_empty() {
            let (count, names) = (names.len(), listed(&names));
            self.notes
                .warnings
                .push(format!("{count} links are listed at one end only: {names}"));
        }
    }
}

/// Ports of an adapter that lead to switches.
fn switch_ports(listing: &Listing, index: usize) -> impl Iterator<Item = &Port> {
    let is_switch = |port: &&Port| listing.items[port.peer].kind == ItemKind::Switch;
    listing.items[index].ports.iter().filter(is_switch)
}

/// Returns the GUID of an adapter, and its switch.
fn where_it_is(listing: &Listing, item: &Item) -> String {
    let leaf = item
        .ports
        .first()
        .map(|port| listing.items[port.peer].title());
    match leaf {
        Some(leaf) => format!("{} on {leaf}", item.guid),
        None => item.guid.clone(),
    }
}

/// Compares links with the most frequent rate.
fn compared(what: &str, links: Vec<(Rate, String)>) -> Vec<String> {
    let mut counts: BTreeMap<String, (usize, Rate)> = BTreeMap::new();
    for (rate, _) in &links {
        counts.entry(rate.to_string()).or_insert((0, *rate)).0 += 1;
    }
    let Some((usual, &(_, most))) = counts.iter().max_by_key(|(_, (count, _))| *count) else {
        return Vec::new();
    };
    let names = |wanted: &dyn Fn(Rate) -> bool| -> Vec<String> {
        let found = links.iter().filter(|(rate, _)| wanted(*rate));
        found
            .map(|(rate, name)| format!("{name} ({rate})"))
            .collect()
    };
    let is_slower = |rate: Rate| rate.capacity() < most.capacity();
    let is_odd = |rate: Rate| !is_slower(rate) && rate.width != most.width;
    let mut warnings = Vec::new();
    for (word, found) in [
        ("degraded", names(&is_slower)),
        ("odd widths", names(&is_odd)),
    ] {
        if !found.is_empty() {
            let (count, found) = (found.len(), listed(&found));
            warnings.push(format!(
                "{word}: {count} {what} are not {usual} as most are: {found}"
            ));
        }
    }
    warnings
}
