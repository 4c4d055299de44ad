//! Fat trees of any height, with forwarding by destination as in InfiniBand's linear tables.
//!
//! ```text
//!   level 2        ◯ ◯ ◯ ◯            a switch of level l belongs to one subtree (endpoint / M[l])
//!                 ╱│╳│╳│╳│╲           and is one of the W[l] equal switches above that subtree
//!   level 1      ◯ ◯   ◯ ◯            M[l] = m1·…·ml endpoints, W[l] = w1·…·wl
//!               ╱│ │   │ │╲
//!   endpoints   ○ ○ ○ ○ ○ ○ ○ ○
//! ```
//!
//! A switch of level `l` has `down` children, and each vertex below it has `up` parents on level
//! `l` (an extended generalised fat tree). A message climbs to the lowest level whose subtree holds
//! both ends. The destination alone determines each parent. Two streams to one destination
//! therefore merge early, and two destinations may share a link while other links are idle: the hot
//! spots of such fabrics.

use crate::topology::grid::{check_capacities, check_costs};
use crate::topology::{Link, MAX_LINKS, MAX_VERTICES, TopologyError, Vertex};

/// Most levels of a tree. With [`crate::topology::MAX_COST`] per hop, the cost of a path fits 32 bits.
const MAX_LEVELS: usize = 64;

/// One level of switches of a [`FatTree`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Children of a switch of this level.
    pub down: u16,
    /// Parents on this level of each vertex of the level below.
    pub up: u16,
    /// GB/s of a link to the level below, in each direction.
    pub capacity: f64,
    /// Cost of a hop over such a link.
    pub cost: u32,
}

/// A fat tree; its vertices are its endpoints, leaf by leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct FatTree {
    levels: Vec<Level>,
    /// `M[l]` and `W[l]` for `l` in `0..=levels`.
    spans: Vec<(u32, u32)>,
    /// Number of the first link between levels `l` and `l + 1`; the last entry is the number of
    /// links.
    first: Vec<u32>,
}

impl FatTree {
    /// Creates a tree of these levels, leaf switches first.
    ///
    /// # Errors
    ///
    /// No level, more than 64 of them, a count of 0, too many endpoints or links, a capacity that is not positive.
    pub fn new(levels: Vec<Level>) -> Result<Self, TopologyError> {
        if levels.is_empty() || levels.iter().any(|level| level.down == 0 || level.up == 0) {
            return Err(TopologyError::Zero("levels, down and up"));
        }
        if levels.len() > MAX_LEVELS {
            return Err(TopologyError::TooLarge("the fat tree"));
        }
        let capacities: Vec<f64> = levels.iter().map(|level| level.capacity).collect();
        check_capacities(&capacities)?;
        let costs: Vec<u32> = levels.iter().map(|level| level.cost).collect();
        check_costs(&costs)?;
        let too_large = || TopologyError::TooLarge("the fat tree");
        let mut spans = vec![(1_u32, 1_u32)];
        let (mut endpoints, mut ways) = (1_u32, 1_u32);
        for level in &levels {
            let product = |a: u32, b: u16| a.checked_mul(b.into()).filter(|p| *p <= MAX_VERTICES);
            endpoints = product(endpoints, level.down).ok_or_else(too_large)?;
            ways = product(ways, level.up).ok_or_else(too_large)?;
            spans.push((endpoints, ways));
        }
        let mut first = vec![0_u32];
        let mut links = 0_u64;
        for below in spans.iter().zip(&levels).map(|(&(m, w), level)| {
            u64::from(endpoints / m) * u64::from(w) * u64::from(level.up) * 2
        }) {
            links += below;
            let checked = u32::try_from(links)
                .ok()
                .filter(|&links| links <= MAX_LINKS);
            first.push(checked.ok_or_else(too_large)?);
        }
        Ok(Self {
            levels,
            spans,
            first,
        })
    }

    /// The levels, leaf switches first.
    #[must_use]
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// Number of endpoints.
    #[must_use]
    pub fn vertices(&self) -> u32 {
        self.spans.last().map_or(0, |&(endpoints, _)| endpoints)
    }

    /// One more than the highest link number.
    #[must_use]
    pub fn link_slots(&self) -> u32 {
        self.first.last().copied().unwrap_or(0)
    }

    /// Returns the lowest level whose subtree holds both endpoints: 0 if they are equal, 1 if they
    /// share a leaf switch.
    #[must_use]
    pub fn common_level(&self, a: Vertex, b: Vertex) -> usize {
        let holds_both = |&(m, _): &(u32, u32)| a.0 / m == b.0 / m;
        let levels = self.levels.len();
        self.spans.iter().position(holds_both).unwrap_or(levels)
    }

    /// Number of links from `a` to `b`.
    #[must_use]
    pub fn hops(&self, a: Vertex, b: Vertex) -> u32 {
        2 * self.common_level(a, b) as u32
    }

    /// Cost of the path from `a` to `b`: the sum of the costs of its links.
    #[must_use]
    pub fn cost(&self, a: Vertex, b: Vertex) -> u32 {
        let climbed = self.levels.iter().take(self.common_level(a, b));
        climbed.map(|level| 2 * level.cost).sum()
    }

    /// GB/s of a link, or `None` if no link has this number.
    #[must_use]
    pub fn capacity(&self, link: Link) -> Option<f64> {
        let above = self.first.iter().position(|&first| link.0 < first)?;
        self.levels
            .get(above.checked_sub(1)?)
            .map(|level| level.capacity)
    }

    /// The ends of a link: an endpoint as `endpoint` names it, `leaf 3`, `spine 5` on the highest of several levels, or
    /// `level 2 switch 1.0` between: the number of the subtree below the switch, and of the switch among the equal
    /// switches above that subtree.
    #[must_use]
    pub fn link_ends(&self, link: Link, endpoint: impl Fn(Vertex) -> String) -> (String, String) {
        let above = self.first.iter().position(|&first| link.0 < first);
        let Some((l, level)) = above
            .and_then(|above| above.checked_sub(1))
            .and_then(|l| Some((l, self.levels.get(l)?)))
        else {
            return (String::new(), String::new());
        };
        let wire = (link.0 - self.first[l]) / 2;
        let is_down = (link.0 - self.first[l]) % 2 == 1;
        let (vertex, parent) = (wire / u32::from(level.up), wire % u32::from(level.up));
        let ways = self.spans[l].1;
        let (subtree, equal) = (vertex / ways, vertex % ways);
        let below = match l {
            0 => endpoint(Vertex(subtree)),
            _ => self.switch_name(l, subtree, equal),
        };
        let upper = self.switch_name(
            l + 1,
            subtree / u32::from(level.down),
            equal + parent * ways,
        );
        match is_down {
            true => (upper, below),
            false => (below, upper),
        }
    }

    fn switch_name(&self, level: usize, subtree: u32, equal: u32) -> String {
        let is_one = self.spans[level].1 == 1;
        match level {
            1 if is_one => format!("leaf {subtree}"),
            1 => format!("leaf {subtree}.{equal}"),
            _ if level == self.levels.len() => format!("spine {equal}"),
            _ => format!("level {level} switch {subtree}.{equal}"),
        }
    }

    /// Calls `visit` for every link that messages take, first upwards, then downwards, with share
    /// 1.
    pub fn walk(&self, from: Vertex, to: Vertex, visit: &mut dyn FnMut(Link, f64)) {
        let top = self.common_level(from, to);
        // Index of the path's switch among the equal switches of its subtree, level by level.
        let mut equal = 0;
        let mut downwards = Vec::with_capacity(top);
        for (l, level) in self.levels.iter().enumerate().take(top) {
            let (endpoints, ways) = self.spans[l];
            let parent = to.0 / ways % u32::from(level.up);
            let link = |subtree: u32, down: u32| {
                let vertex = subtree * ways + equal;
                let wire = vertex * u32::from(level.up) + parent;
                Link(self.first[l] + 2 * wire + down)
            };
            visit(link(from.0 / endpoints, 0), 1.0);
            downwards.push(link(to.0 / endpoints, 1));
            equal += parent * ways;
        }
        for link in downwards.into_iter().rev() {
            visit(link, 1.0);
        }
    }
}
