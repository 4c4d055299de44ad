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
//! Switches with hosts are leaves. Every other switch is one level above its lowest neighbour. The
//! subtrees of a level are the parts that stay connected without the levels above.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::import::{Assumed, Shape, ShapeFabric, rejection};
use crate::input::fits;
use crate::problem::{InputError, Problems, Reason};

/// Reads the output of `ibnetdiscover` as a fat tree. The name of a host is the first word of its
/// adapters' descriptions. Of the adapters of a host, the one with number `rail`, from 1, is used.
/// Hosts with fewer adapters are left out, and the assumptions mention them.
///
/// # Errors
///
/// Every line that does not belong to such a listing; links to nodes that are not listed; fabrics
/// that are not fat trees: links within a level, or parts that no switch joins.
pub fn infiniband(
    file: &str,
    text: &str,
    rail: u16,
    assumed: Assumed,
) -> Result<Shape, InputError> {
    let mut problems = Problems::new(file);
    let mut listing = Listing::default();
    let readable = fits(&mut problems, text);
    for (line, content) in (1..).zip(text.lines()).take_while(|_| readable) {
        listing.line(line, content, &mut problems);
    }
    for (line, peer) in std::mem::take(&mut listing.peers) {
        if !listing.by_guid.contains_key(&peer) {
            problems.value(line, "peer", &peer, "a node of the listing");
        }
    }
    let listing = problems.into_result(listing)?;
    let no_tree = |why: &str| rejection(file, Reason::Fabric(why.to_owned()));
    Tree::of(&listing, rail)
        .map_err(no_tree)?
        .shape(assumed)
        .map_err(no_tree)
}

struct Item {
    is_switch: bool,
    /// The name of the host: the first word of the description.
    name: String,
    links: Vec<(String, f64)>,
}

#[derive(Default)]
struct Listing {
    items: Vec<Item>,
    by_guid: BTreeMap<String, usize>,
    peers: Vec<(u32, String)>,
}

impl Listing {
    fn line(&mut self, line: u32, content: &str, problems: &mut Problems) {
        const KEYS: [&str; 6] = [
            "vendid",
            "devid",
            "sysimgguid",
            "switchguid",
            "caguid",
            "rtguid",
        ];
        let content = content.trim();
        let key = content.split('=').next().unwrap_or_default();
        if content.is_empty() || content.starts_with('#') || KEYS.contains(&key) {
            return;
        }
        let (data, comment) = content.split_once('#').unwrap_or((content, ""));
        let taken = match data.split_whitespace().next() {
            Some(kind @ ("Switch" | "Ca" | "Rt")) => self.item(kind, data, comment),
            Some(word) if word.starts_with('[') => self.port(line, data, comment),
            _ => None,
        };
        if taken.is_none() {
            let wanted = "a Switch, Ca or Rt with its number of ports and name, or a port";
            problems.value(line, "line", content, wanted);
        }
    }

    fn item(&mut self, kind: &str, data: &str, comment: &str) -> Option<()> {
        let _ports: u16 = data.split_whitespace().nth(1)?.parse().ok()?;
        let guid = quoted(data)?;
        let name = quoted(comment)?
            .split_whitespace()
            .next()?
            .trim_matches(';')
            .to_owned();
        let index = self.items.len();
        if self.by_guid.insert(guid.to_owned(), index).is_some() {
            return None;
        }
        let is_switch = kind == "Switch";
        self.items.push(Item {
            is_switch,
            name,
            links: Vec::new(),
        });
        Some(())
    }

    fn port(&mut self, line: u32, data: &str, comment: &str) -> Option<()> {
        let peer = quoted(data)?.to_owned();
        let rate = rate(comment.split_whitespace().last()?)?;
        self.items.last_mut()?.links.push((peer.clone(), rate));
        self.peers.push((line, peer));
        Some(())
    }
}

/// Returns the text between the first two quotes.
fn quoted(text: &str) -> Option<&str> {
    text.split('"')
        .nth(1)
        .filter(|_| text.matches('"').count() >= 2)
}

/// Returns the GB/s of `4xEDR`: the data rate of a lane, without coding.
fn rate(word: &str) -> Option<f64> {
    let (width, speed) = word.split_once('x')?;
    let width: f64 = width.parse::<u8>().ok()?.into();
    let lane = match speed {
        "SDR" => 0.25,
        "DDR" => 0.5,
        "QDR" => 1.0,
        "FDR10" => 1.289,
        "FDR" => 1.705,
        "EDR" => 3.125,
        "HDR" => 6.25,
        "NDR" => 12.5,
        "XDR" => 25.0,
        _ => return None,
    };
    Some(width * lane)
}

/// Switches by level, and hosts on leaves.
struct Tree<'a> {
    listing: &'a Listing,
    /// The level of each switch, from 0 for leaves.
    level: BTreeMap<usize, usize>,
    /// Hosts of each leaf, by index of their adapter.
    hosts: BTreeMap<usize, Vec<usize>>,
    left_out: usize,
}

impl<'a> Tree<'a> {
    fn of(listing: &'a Listing, rail: u16) -> Result<Self, &'static str> {
        let mut adapters: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, item) in listing
            .items
            .iter()
            .enumerate()
            .filter(|(_, item)| !item.is_switch)
        {
            adapters.entry(&item.name).or_default().push(index);
        }
        let rail = usize::from(rail.max(1)) - 1;
        let chosen: BTreeSet<usize> = adapters
            .values()
            .filter_map(|of| of.get(rail))
            .copied()
            .collect();
        let mut tree = Self {
            listing,
            level: BTreeMap::new(),
            hosts: BTreeMap::new(),
            left_out: adapters.len() - chosen.len(),
        };
        for &adapter in &chosen {
            let links = tree.neighbours(adapter).into_keys();
            let leaf = links
                .into_iter()
                .find(|&peer| listing.items[peer].is_switch);
            tree.hosts
                .entry(leaf.ok_or("a host is on no switch")?)
                .or_default()
                .push(adapter);
        }
        tree.levels()?;
        Ok(tree)
    }

    /// Neighbours, with the number of cables to each and the rate of one cable.
    fn neighbours(&self, index: usize) -> BTreeMap<usize, (u16, f64)> {
        let mut found: BTreeMap<usize, (u16, f64)> = BTreeMap::new();
        for (guid, rate) in &self.listing.items[index].links {
            if let Some(&peer) = self.listing.by_guid.get(guid) {
                let entry = found.entry(peer).or_insert((0, *rate));
                entry.0 = entry.0.saturating_add(1);
            }
        }
        found
    }

    fn levels(&mut self) -> Result<(), &'static str> {
        let mut waiting: VecDeque<usize> = self.hosts.keys().copied().collect();
        self.level.extend(waiting.iter().map(|&leaf| (leaf, 0)));
        while let Some(switch) = waiting.pop_front() {
            let above = self.level[&switch] + 1;
            for peer in self.neighbours(switch).into_keys() {
                if self.listing.items[peer].is_switch && !self.level.contains_key(&peer) {
                    self.level.insert(peer, above);
                    waiting.push_back(peer);
                }
            }
        }
        for (&switch, &level) in &self.level {
            for peer in self.neighbours(switch).into_keys() {
                if self
                    .level
                    .get(&peer)
                    .is_some_and(|&other| other.abs_diff(level) != 1)
                {
                    return Err("two switches of one level are linked: this is not a fat tree");
                }
            }
        }
        Ok(())
    }

    fn shape(&self, assumed: Assumed) -> Result<Shape, &'static str> {
        let top = self
            .level
            .values()
            .max()
            .copied()
            .ok_or("there is no host")?;
        // The subtree of each switch by level. The first switch of a subtree names it.
        let subtrees: Vec<BTreeMap<usize, usize>> =
            (0..=top).map(|level| self.subtrees(level)).collect();
        let roots: BTreeSet<usize> = subtrees[top].values().copied().collect();
        if roots.len() > 1 {
            return Err("no switch joins the parts of the fabric");
        }
        let (mut paths, mut names) = (Vec::new(), Vec::new());
        let mut places: BTreeMap<(usize, usize), u16> = BTreeMap::new();
        let mut counts: BTreeMap<(usize, usize), u16> = BTreeMap::new();
        for (leaf, hosts) in &self.hosts {
            let mut path = Vec::new();
            for level in (1..=top).rev() {
                let (parent, child) = (subtrees[level][leaf], subtrees[level - 1][leaf]);
                let count = counts.entry((level, parent)).or_default();
                let place = *places.entry((level - 1, child)).or_insert(*count);
                *count = (*count).max(place.saturating_add(1));
                path.push(place);
            }
            for (slot, &host) in (0_u16..).zip(hosts) {
                paths.push([&path[..], &[slot]].concat());
                names.push(self.listing.items[host].name.clone());
            }
        }
        let links: Vec<(u16, f64)> = (0..=top).map(|level| self.links(level, assumed)).collect();
        let (fabric, endpoints) = ShapeFabric::tree(&paths, &links);
        let endpoints = endpoints.into_iter().map(|endpoint| vec![endpoint]);
        let mut assumptions = vec![
            "every subtree of a level is as wide as the widest one, with as many links".to_owned(),
            "messages take the link that their destination selects, as linear tables do".to_owned(),
        ];
        if self.left_out > 0 {
            assumptions.push(format!(
                "{} hosts have no adapter on this rail",
                self.left_out
            ));
        }
        Ok(Shape {
            fabric,
            nodes: names.into_iter().zip(endpoints).collect(),
            assumptions,
        })
    }

    /// For each switch up to a level, the first switch that is connected with it below that level.
    fn subtrees(&self, level: usize) -> BTreeMap<usize, usize> {
        let mut found = BTreeMap::new();
        for &start in self
            .level
            .iter()
            .filter(|(_, of)| **of <= level)
            .map(|(switch, _)| switch)
        {
            if found.contains_key(&start) {
                continue;
            }
            let mut waiting = vec![start];
            while let Some(switch) = waiting.pop() {
                if found.insert(switch, start).is_none() {
                    let peers = self.neighbours(switch).into_keys();
                    waiting
                        .extend(peers.filter(|p| self.level.get(p).is_some_and(|&of| of <= level)));
                }
            }
        }
        found
    }

    /// Most parents of the vertices below a level, and GB/s to one parent.
    fn links(&self, level: usize, assumed: Assumed) -> (u16, f64) {
        if level == 0 {
            let hosts = self.hosts.values().flatten();
            let rates = hosts.flat_map(|&host| self.neighbours(host).into_values());
            let rate = rates
                .map(|(cables, rate)| f64::from(cables) * rate)
                .fold(0.0, f64::max);
            return (1, if rate > 0.0 { rate } else { assumed.capacity });
        }
        let below = self.level.iter().filter(|(_, of)| **of + 1 == level);
        let mut most: (u16, f64) = (1, assumed.capacity);
        for (&switch, _) in below {
            let up = self.neighbours(switch).into_iter();
            let up: Vec<f64> = up
                .filter(|(peer, _)| self.level.get(peer) == Some(&level))
                .map(|(_, (cables, rate))| f64::from(cables) * rate)
                .collect();
            if up.len() >= usize::from(most.0) {
                let sum: f64 = up.iter().sum();
                // A switch has no more neighbours than ports.
                most = (up.len() as u16, sum / up.len() as f64);
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSUMED: Assumed = Assumed {
        capacity: 25.0,
        links_per_pair: 1,
    };

    /// Two leaves with two hosts each under two spines; each host has two adapters on its leaf.
    fn listing() -> String {
        let mut text =
            "#\n# Topology file: generated on Sun\n#\nvendid=0x2c9\ndevid=0xb924\n".to_owned();
        for leaf in 0..2 {
            text += &format!(
                "switchguid=0x{leaf}({leaf})\nSwitch\t36 \"S-{leaf}\"\t# \"leaf {leaf}\" base port 0 lid {leaf} lmc 0\n"
            );
            for host in 0..2 {
                for rail in 1..3 {
                    text += &format!(
                        "[{host}{rail}]\t\"H-{leaf}{host}{rail}\"[1](9)\t# \"n{leaf}{host} HCA-{rail}\" lid 4 4xEDR\n"
                    );
                }
            }
            for spine in 2..4 {
                text += &format!("[3{spine}]\t\"S-{spine}\"[{leaf}]\t# \"spine\" lid 2 4xHDR\n");
            }
        }
        for spine in 2..4 {
            text += &format!("\nSwitch 36 \"S-{spine}\" # \"spine {spine}\" lid 5\n");
            for leaf in 0..2 {
                text += &format!("[{leaf}] \"S-{leaf}\"[3{spine}] # \"leaf\" lid 2 4xHDR\n");
            }
        }
        for (leaf, host, rail) in (0..8).map(|n| (n / 4, n / 2 % 2, n % 2 + 1)) {
            text += &format!(
                "caguid=0x9\nCa\t1 \"H-{leaf}{host}{rail}\"\t# \"n{leaf}{host} HCA-{rail}\"\n[1](9)\t\"S-{leaf}\"[1]\t# lid 4 lmc 0 \"leaf\" lid 1 4xEDR\n"
            );
        }
        text
    }

    #[test]
    fn a_listing_is_a_fat_tree_and_a_rail_takes_one_adapter_of_each_host() {
        for rail in [1, 2] {
            let shape = infiniband("ib", &listing(), rail, ASSUMED).unwrap();
            let ShapeFabric::FatTree(levels) = &shape.fabric else {
                unreachable!("a tree");
            };
            let levels: Vec<(u16, u16, f64)> = levels
                .iter()
                .map(|level| (level.down, level.up, level.capacity))
                .collect();
            assert_eq!(levels, [(2, 1, 12.5), (2, 2, 25.0)]);
            let nodes = shape
                .nodes
                .iter()
                .map(|(name, at)| format!("{name}@{}", at[0]));
            assert_eq!(
                nodes.collect::<Vec<_>>(),
                ["n00@0", "n01@1", "n10@2", "n11@3"]
            );
        }
    }

    #[test]
    fn other_texts_and_fabrics_that_are_no_fat_tree_are_rejected() {
        let rejection = |text: &str| infiniband("ib", text, 1, ASSUMED).unwrap_err().to_string();
        assert!(rejection(&(listing() + "oops\n")).contains("'oops' is not a Switch"));
        assert!(rejection(&listing().replace("4xHDR", "4xABC")).contains("or a port"));
        assert!(
            rejection(&listing().replace("\"S-3\"[0]", "\"S-9\"[0]"))
                .contains("'S-9' is not a node")
        );
        let ring = listing().replacen(
            "[32]\t\"S-2\"[0]",
            "[35]\t\"S-1\"[9] # \"leaf\" lid 2 4xHDR\n[32]\t\"S-2\"[0]",
            1,
        );
        assert!(
            rejection(&ring).contains("not a fat tree"),
            "{}",
            rejection(&ring)
        );
        assert!(rejection("").contains("no host"));
    }
}
