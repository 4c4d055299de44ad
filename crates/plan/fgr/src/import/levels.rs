//! Fat trees from graphs of switches: the subtrees of each level, and the place of each host.
//!
//! ```text
//!   level 1     s4   s5        both spines join the same leaves: one subtree with two parents a leaf
//!               │╲ ╱│
//!   level 0     s0   s1        a subtree of level l: the switches that stay connected up to level l
//! ```

use std::collections::BTreeMap;

use crate::import::{ShapeFabric, ShapeLevel};

/// Most levels of switches: no fabric has more.
pub(super) const MAX_LEVELS: usize = 8;

/// Switches with their levels, and the links between them.
#[derive(Default)]
pub(super) struct Switches {
    /// Names, for messages.
    pub(super) names: Vec<String>,
    /// The level of each switch, from 0.
    pub(super) level: Vec<usize>,
    /// GB/s of all cables from a switch to one above it; `None` if not known.
    pub(super) up: BTreeMap<(usize, usize), Option<f64>>,
}

/// A fat tree with hosts.
pub(super) struct Placed {
    pub(super) fabric: ShapeFabric,
    /// The endpoint of each host, in the order of the hosts.
    pub(super) endpoints: Vec<u32>,
    /// The first switch of each part, if no switch joins the parts.
    pub(super) parts: Vec<String>,
}

impl Switches {
    /// Places hosts below these switches, each host given by its switch. `host_link` and `link` are
    /// GB/s where a rate is not known.
    pub(super) fn place(
        &self,
        hosts: &[usize],
        host_link: f64,
        link: f64,
    ) -> Result<Placed, String> {
        let top = self.level.iter().copied().max().unwrap_or(0);
        let mut leaves: Vec<usize> = hosts.to_vec();
        leaves.sort_unstable();
        leaves.dedup();
        // The subtree of each leaf by level.
        let mut chains: Vec<BTreeMap<usize, usize>> = Vec::new();
        let mut joined = Joined::new(self.level.len());
        for level in 0..=top {
            for &(child, parent) in self.up.keys().filter(|pair| self.level[pair.1] == level) {
                joined.join(child, parent);
            }
            chains.push(
                leaves
                    .iter()
                    .map(|&leaf| (leaf, joined.root(leaf)))
                    .collect(),
            );
        }
        let parts = self.parts(&chains[top]);
        if parts.len() > 1 {
            chains.push(leaves.iter().map(|&leaf| (leaf, usize::MAX)).collect());
        }
        let places = places(&leaves, &chains);
        let mut levels = vec![(host_link, 1)];
        levels.extend((1..chains.len()).map(|level| self.links(level, link)));
        let (fabric, endpoints) = tree(hosts, &places, &levels)?;
        Ok(Placed {
            fabric,
            endpoints,
            parts,
        })
    }

    /// Names the first switch of each subtree of the highest level.
    fn parts(&self, chain: &BTreeMap<usize, usize>) -> Vec<String> {
        let mut seen = BTreeMap::new();
        for (&leaf, &root) in chain {
            seen.entry(root).or_insert(leaf);
        }
        seen.into_values()
            .map(|leaf| self.names[leaf].clone())
            .collect()
    }

    /// Mean GB/s to one parent, and most parents, of the switches below a level.
    fn links(&self, level: usize, link: f64) -> (f64, usize) {
        let mut above: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for (&(child, parent), rate) in &self.up {
            if self.level.get(parent) == Some(&level) {
                above.entry(child).or_default().push(rate.unwrap_or(link));
            }
        }
        let most = above.values().max_by_key(|rates| rates.len());
        most.map_or((link, 1), |rates| {
            let sum: f64 = rates.iter().sum();
            (sum / rates.len() as f64, rates.len())
        })
    }
}

/// Returns for each leaf its positions from the top down.
fn places(leaves: &[usize], chains: &[BTreeMap<usize, usize>]) -> BTreeMap<usize, Vec<usize>> {
    let mut taken: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut counts: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for &leaf in leaves {
        let mut path = Vec::new();
        for level in (1..chains.len()).rev() {
            let (parent, child) = (chains[level][&leaf], chains[level - 1][&leaf]);
            let count = counts.entry((level, parent)).or_default();
            let place = *taken.entry((level - 1, child)).or_insert(*count);
            *count = (*count).max(place + 1);
            path.push(place);
        }
        found.insert(leaf, path);
    }
    found
}

/// Makes the tree, and the endpoint of each host. `levels` has GB/s and parents, leaf level first.
fn tree(
    hosts: &[usize],
    places: &BTreeMap<usize, Vec<usize>>,
    levels: &[(f64, usize)],
) -> Result<(ShapeFabric, Vec<u32>), String> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let slots: Vec<usize> = hosts
        .iter()
        .map(|leaf| {
            let count = counts.entry(*leaf).or_default();
            *count += 1;
            *count - 1
        })
        .collect();
    let widest = |level: usize| match level {
        0 => counts.values().copied().max().unwrap_or(0),
        _ => {
            let at = levels.len() - 1 - level;
            places.values().map(|path| path[at] + 1).max().unwrap_or(1)
        }
    };
    let mut made = Vec::new();
    for (level, &(capacity, up)) in levels.iter().enumerate() {
        let narrow = |count: usize| {
            u16::try_from(count).map_err(|_| format!("{count} ports of one switch are too many"))
        };
        made.push(ShapeLevel {
            down: narrow(widest(level))?,
            up: narrow(up)?,
            capacity,
        });
    }
    let endpoint = |(leaf, slot): (&usize, usize)| {
        let positions = places[leaf].iter().chain([&slot]).zip(made.iter().rev());
        // Trees with more endpoints than a fabric may have are rejected when the file is read.
        positions.fold(0_u32, |sum, (&position, level)| {
            sum.saturating_mul(level.down.into())
                .saturating_add(position as u32)
        })
    };
    let endpoints = hosts.iter().zip(slots).map(endpoint).collect();
    Ok((ShapeFabric::FatTree(made), endpoints))
}

/// Switches that are joined, as a forest.
struct Joined(Vec<usize>);

impl Joined {
    fn new(switches: usize) -> Self {
        Self((0..switches).collect())
    }

    fn root(&mut self, mut switch: usize) -> usize {
        while self.0[switch] != switch {
            self.0[switch] = self.0[self.0[switch]];
            switch = self.0[switch];
        }
        switch
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}
