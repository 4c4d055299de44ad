//! Reads the output of `ibnetdiscover`.
//!
//! ```text
//!   Switch  36 "S-0002c903"       # "leaf 1" enhanced port 0 lid 1 lmc 0
//!   [1]     "H-0002c9f1"[1](2c9)  # "node1 HCA-1" lid 4 4xEDR
//!   [33]    "S-0002c904"[2]       # "spine 1" lid 2 4xEDR
//!
//!   Ca      1 "H-0002c9f1"        # "node1 HCA-1"
//!   [1](2c9) "S-0002c903"[1]      # lid 4 lmc 0 "leaf 1" lid 1 4xEDR
//! ```
//!
//! `listing` reads the lines, `naming` the descriptions, `endpoints` finds the rails. Switches with
//! hosts are leaves. Every other switch is one level above its lowest neighbour.

mod endpoints;
mod listing;
mod naming;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::import::levels::{MAX_LEVELS, Switches};
use crate::import::{Assumed, Shape, ShapeFabric, ShapeNode, rejection};
use crate::problem::{InputError, Reason};
use crate::rates::{Known, RateSource};
use endpoints::{Endpoint, Endpoints, Notes};
use listing::{ItemKind, Listing};

pub(super) use naming::listed;

/// Reads the output of `ibnetdiscover`, also in its grouped form, as a fat tree, or as one group of
/// switches if each switch has hosts and is linked to each other one. The name of a host is the
/// first word of its adapters' descriptions. Of the rails, the one with number `rail`, from 1, is
/// used. The shape lists what was skipped, and warns of what is doubtful.
///
/// # Errors
///
/// Every line that does not belong to such a listing; links to nodes that are not listed; a rail
/// that no adapter is on; fabrics that are neither of the two.
pub fn infiniband(
    file: &str,
    text: &str,
    rail: u16,
    assumed: Assumed,
) -> Result<Shape, InputError> {
    let listing = Listing::read(file, text)?;
    let endpoints = Endpoints::of(&listing);
    let rejected = |why: String| rejection(file, Reason::Fabric(why));
    let (chosen, notes) = on_rail(&endpoints, rail).map_err(rejected)?;
    shape(&listing, &endpoints, &chosen, notes, assumed).map_err(rejected)
}

/// The source of the rates of links in a listing.
pub(crate) const WIDTH_AND_SPEED: &str =
    "the data rate of InfiniBand for the width and speed of each link that ibnetdiscover shows";

/// A host of a fabric with several rails.
#[derive(Clone, Debug, PartialEq)]
pub struct RailHost {
    /// Its name.
    pub name: String,
    /// Its adapter on each rail, if it has one.
    pub adapters: Vec<Option<RailAdapter>>,
}

/// An adapter of a host, or one port of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RailAdapter {
    /// The name in the description: `mlx5_0`.
    pub name: String,
    /// The leaf switch.
    pub leaf: String,
    /// GB/s in one direction.
    pub rate: f64,
}

/// The hosts of a fabric with their rails.
#[derive(Clone, Debug, PartialEq)]
pub struct RailHosts {
    /// Hosts in natural order of their names.
    pub hosts: Vec<RailHost>,
    /// Number of rails.
    pub rails: usize,
    /// What is doubtful.
    pub warnings: Vec<String>,
    /// What was left out, each with the count and the reason.
    pub skipped: Vec<String>,
}

/// Reads the hosts of a listing with their adapters on all rails.
///
/// # Errors
///
/// Every line that does not belong to such a listing; a listing without a host.
pub fn rail_hosts(file: &str, text: &str) -> Result<RailHosts, InputError> {
    let listing = Listing::read(file, text)?;
    let endpoints = Endpoints::of(&listing);
    if endpoints.list.is_empty() {
        return Err(rejection(file, Reason::Fabric(no_host(&endpoints.notes))));
    }
    let rails = endpoints.rails.len();
    let mut hosts: Vec<RailHost> = Vec::new();
    let mut notes = endpoints.notes;
    let mut second = Vec::new();
    for Endpoint {
        host,
        adapter,
        leaf,
        rate,
        rail,
    } in endpoints.list
    {
        if hosts.last().is_none_or(|last| last.name != host) {
            hosts.push(RailHost {
                name: host.clone(),
                adapters: vec![None; rails],
            });
        }
        let slot = hosts
            .last_mut()
            .and_then(|last| last.adapters.get_mut(rail));
        match slot {
            Some(slot @ None) => {
                *slot = Some(RailAdapter {
                    name: adapter,
                    leaf: listing.items[leaf].title(),
                    rate: rate.capacity(),
                });
            }
            _ => second.push(format!("{host} {adapter}")),
        }
    }
    skip_second(&mut notes, &second);
    Ok(RailHosts {
        hosts,
        rails,
        warnings: notes.warnings,
        skipped: notes.skipped,
    })
}

fn no_host(notes: &Notes) -> String {
    let mut text = "there is no host on a switch".to_owned();
    for skipped in &notes.skipped {
        text += &format!("; skipped: {skipped}");
    }
    text
}

fn skip_second(notes: &mut Notes, second: &[String]) {
    if !second.is_empty() {
        let (count, names) = (second.len(), listed(second));
        let reason = "the host has another one on the same rail";
        notes
            .skipped
            .push(format!("{count} adapters, because {reason}: {names}"));
    }
}

/// Returns one adapter of each host on a rail.
fn on_rail(endpoints: &Endpoints, rail: u16) -> Result<(Vec<&Endpoint>, Notes), String> {
    let mut notes = endpoints.notes.clone();
    if endpoints.list.is_empty() {
        return Err(no_host(&notes));
    }
    let index = usize::from(rail).saturating_sub(1);
    let names = |rail: usize| -> String {
        let names: Vec<String> = endpoints.rails[rail].iter().cloned().collect();
        listed(&names)
    };
    if index >= endpoints.rails.len() {
        let all = (0..endpoints.rails.len()).map(|rail| format!("{} ({})", rail + 1, names(rail)));
        let all: Vec<String> = all.collect();
        return Err(format!(
            "there is no rail {rail}; the rails are {}",
            listed(&all)
        ));
    }
    let mut chosen: Vec<&Endpoint> = Vec::new();
    let mut second = Vec::new();
    for endpoint in endpoints.list.iter().filter(|e| e.rail == index) {
        match chosen.last() {
            Some(last) if last.host == endpoint.host => {
                second.push(format!("{} {}", endpoint.host, endpoint.adapter));
            }
            _ => chosen.push(endpoint),
        }
    }
    skip_second(&mut notes, &second);
    let on: BTreeSet<&str> = chosen.iter().map(|e| e.host.as_str()).collect();
    let absent: Vec<String> = endpoints
        .hosts
        .iter()
        .filter(|host| !on.contains(host.as_str()))
        .cloned()
        .collect();
    if !absent.is_empty() {
        let (count, hosts) = (absent.len(), listed(&absent));
        notes.skipped.push(format!(
            "{count} hosts, because they have no adapter on rail {rail}: {hosts}"
        ));
    }
    if endpoints.rails.len() > 1 {
        let (count, names) = (endpoints.rails.len(), names(index));
        notes
            .assumptions
            .push(format!("rail {rail} of {count}: the adapters {names}"));
    }
    if chosen.is_empty() {
        return Err(format!("no adapter is on rail {rail}"));
    }
    Ok((chosen, notes))
}

fn shape(
    listing: &Listing,
    endpoints: &Endpoints,
    chosen: &[&Endpoint],
    mut notes: Notes,
    assumed: Assumed,
) -> Result<Shape, String> {
    let rate = chosen.iter().map(|e| e.rate.capacity()).fold(0.0, f64::max);
    let mut graph = Graph::new(listing, endpoints, chosen);
    let (fabric, places) = match graph.mesh(chosen) {
        Some(found) => found,
        None => {
            let kept = graph.tree_hosts(chosen, &mut notes)?;
            graph.tree(&kept, rate, assumed, &mut notes)?
        }
    };
    let id_of: BTreeMap<&str, u32> = endpoints
        .hosts
        .iter()
        .map(String::as_str)
        .zip(0..)
        .collect();
    let nodes = chosen.iter().zip(places).filter_map(|(endpoint, at)| {
        Some(ShapeNode {
            id: id_of.get(endpoint.host.as_str()).copied()?,
            name: endpoint.host.clone(),
            at: at?,
            computes: true,
            nics: Vec::new(),
        })
    });
    Ok(Shape {
        fabric,
        nodes: nodes.collect(),
        rates: RateSource::new(Known::Published, WIDTH_AND_SPEED),
        assumptions: notes.assumptions,
        warnings: notes.warnings,
        skipped: notes.skipped,
    })
}

/// A fabric, and the place of each chosen adapter, if it has one.
type Places = (ShapeFabric, Vec<Option<Vec<u32>>>);

/// Switches with their links to other switches.
struct Graph<'a> {
    listing: &'a Listing,
    /// For each switch its neighbours, with GB/s of all cables to each.
    links: BTreeMap<usize, BTreeMap<usize, f64>>,
    /// Hosts of each switch, on any rail.
    hosts: BTreeMap<usize, usize>,
}

impl<'a> Graph<'a> {
    fn new(listing: &'a Listing, endpoints: &Endpoints, chosen: &[&Endpoint]) -> Self {
        let mut links: BTreeMap<usize, BTreeMap<usize, f64>> = BTreeMap::new();
        for (index, item) in listing.items.iter().enumerate() {
            for port in item.ports.iter().filter(|port| port.peer != index) {
                let peer = &listing.items[port.peer];
                if (item.kind, peer.kind) == (ItemKind::Switch, ItemKind::Switch) {
                    let neighbours = links.entry(index).or_default();
                    *neighbours.entry(port.peer).or_default() += port.rate.capacity();
                }
            }
        }
        let mut hosts: BTreeMap<usize, usize> = chosen.iter().map(|e| (e.leaf, 0)).collect();
        for endpoint in &endpoints.list {
            *hosts.entry(endpoint.leaf).or_default() += 1;
        }
        Self {
            listing,
            links,
            hosts,
        }
    }

    fn neighbours(&self, switch: usize) -> impl Iterator<Item = (usize, f64)> {
        let links = self.links.get(&switch).into_iter().flatten();
        links.map(|(&peer, &rate)| (peer, rate))
    }

    /// Returns one group of switches, if each switch has hosts and is linked to each other one.
    fn mesh(&self, chosen: &[&Endpoint]) -> Option<Places> {
        let switches: Vec<usize> = self.hosts.keys().copied().collect();
        let is_whole = |&switch: &usize| {
            let peers: Vec<usize> = self.neighbours(switch).map(|(peer, _)| peer).collect();
            peers.len() + 1 == switches.len()
                && peers.iter().all(|peer| self.hosts.contains_key(peer))
        };
        if switches.len() < 2 || !switches.iter().all(is_whole) {
            return None;
        }
        let rates = switches
            .iter()
            .flat_map(|&s| self.neighbours(s).map(|(_, rate)| rate));
        let capacity = rates.fold(f64::INFINITY, f64::min);
        let fabric = ShapeFabric::Dragonfly {
            groups: 1,
            switches: u16::try_from(switches.len()).ok()?,
            ports: 1,
            links_per_pair: 1,
            local: capacity,
            global: capacity,
        };
        let place = |e: &&Endpoint| {
            switches
                .binary_search(&e.leaf)
                .ok()
                .map(|at| vec![0, at as u32])
        };
        Some((fabric, chosen.iter().map(place).collect()))
    }

    /// Returns which of the adapters are below leaves. Single hosts on switches above leaves, such
    /// as a subnet manager, are left out.
    fn tree_hosts<'e>(
        &mut self,
        chosen: &[&'e Endpoint],
        notes: &mut Notes,
    ) -> Result<Vec<Option<&'e Endpoint>>, String> {
        let all: usize = self.hosts.values().sum();
        let mut by_count: Vec<(usize, usize)> =
            self.hosts.iter().map(|(&s, &count)| (count, s)).collect();
        by_count.sort_unstable();
        let (mut above, mut removed) = (BTreeSet::new(), 0);
        for (count, switch) in by_count {
            let Some((peer, _)) = self
                .neighbours(switch)
                .find(|(peer, _)| self.hosts.contains_key(peer))
            else {
                continue;
            };
            removed += count;
            if removed * 10 > all {
                let [few, many] = [switch, peer].map(|switch| self.listing.items[switch].title());
                return Err(format!(
                    "{few} and {many} have hosts and are linked: this is not a fat tree, and not every switch is \
                     linked to every other one"
                ));
            }
            self.hosts.remove(&switch);
            above.insert(switch);
        }
        let kept = chosen
            .iter()
            .map(|e| Some(*e).filter(|e| !above.contains(&e.leaf)));
        let kept: Vec<Option<&Endpoint>> = kept.collect();
        let lost = chosen.iter().filter(|e| above.contains(&e.leaf));
        let lost: Vec<String> = lost.map(|e| format!("{} {}", e.host, e.adapter)).collect();
        if !lost.is_empty() {
            let (count, names) = (lost.len(), listed(&lost));
            notes.skipped.push(format!(
                "{count} adapters, because they are on switches above leaves: {names}"
            ));
        }
        match kept.iter().all(Option::is_none) {
            true => Err(no_host(notes)),
            false => Ok(kept),
        }
    }

    fn tree(
        &self,
        kept: &[Option<&Endpoint>],
        rate: f64,
        assumed: Assumed,
        notes: &mut Notes,
    ) -> Result<Places, String> {
        let level = self.levels()?;
        let used = self.above(kept.iter().flatten().map(|e| e.leaf), &level)?;
        let number: BTreeMap<usize, usize> = used.iter().copied().zip(0..).collect();
        let mut switches = Switches::default();
        for &switch in &used {
            switches.names.push(self.listing.items[switch].title());
            switches.level.push(level[&switch]);
            for (peer, rate) in self.neighbours(switch) {
                if let Some(&parent) = number.get(&peer).filter(|_| level[&peer] > level[&switch]) {
                    switches.up.insert((number[&switch], parent), Some(rate));
                }
            }
        }
        let leaves: Vec<usize> = kept.iter().flatten().map(|e| number[&e.leaf]).collect();
        let placed = switches.place(&leaves, rate, assumed.capacity)?;
        if placed.parts.len() > 1 {
            notes.warnings.push(format!(
                "no switch of the listing joins {} parts, and a level above them is assumed: the parts of {}",
                placed.parts.len(),
                listed(&placed.parts)
            ));
        }
        notes.assumptions.extend([
            "every subtree of a level is as wide as the widest one, with as many links".to_owned(),
            "messages take the link that their destination selects, as linear tables do".to_owned(),
        ]);
        let mut endpoints = placed.endpoints.into_iter();
        let mut next = |kept: &Option<&Endpoint>| match kept {
            Some(_) => endpoints.next().map(|endpoint| vec![endpoint]),
            None => None,
        };
        Ok((placed.fabric, kept.iter().map(&mut next).collect()))
    }

    /// Returns the level of each switch that is connected with a leaf.
    fn levels(&self) -> Result<BTreeMap<usize, usize>, String> {
        let mut level: BTreeMap<usize, usize> = self.hosts.keys().map(|&leaf| (leaf, 0)).collect();
        let mut waiting: VecDeque<usize> = level.keys().copied().collect();
        while let Some(switch) = waiting.pop_front() {
            let above = level[&switch] + 1;
            for (peer, _) in self.neighbours(switch) {
                level.entry(peer).or_insert_with(|| {
                    waiting.push_back(peer);
                    above
                });
            }
            if above > MAX_LEVELS {
                return Err(format!(
                    "more than {MAX_LEVELS} levels of switches: this is no fat tree"
                ));
            }
        }
        Ok(level)
    }

    /// Returns these leaves and all switches above them.
    fn above(
        &self,
        leaves: impl Iterator<Item = usize>,
        level: &BTreeMap<usize, usize>,
    ) -> Result<BTreeSet<usize>, String> {
        let mut used: BTreeSet<usize> = leaves.collect();
        let mut waiting: Vec<usize> = used.iter().copied().collect();
        while let Some(switch) = waiting.pop() {
            for (peer, _) in self.neighbours(switch) {
                if level[&peer] == level[&switch] {
                    let [a, b] = [switch, peer].map(|s| self.listing.items[s].title());
                    return Err(format!(
                        "the switches {a} and {b} of one level are linked: this is not a fat tree"
                    ));
                }
                if level[&peer] > level[&switch] && used.insert(peer) {
                    waiting.push(peer);
                }
            }
        }
        Ok(used)
    }
}
