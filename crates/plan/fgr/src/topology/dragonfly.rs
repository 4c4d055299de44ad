//! Dragonflies: every switch of a group is linked to every other switch of the group, and every
//! group to every other group.
//!
//! ```text
//!   group g:  switch ══ local, all to all ══ switch        link i of the pair (g, h), d = h - g mod G
//!                └── global ──▶ one switch of group h      leaves switch ((d - 1) · L + i) mod S
//! ```
//!
//! The links of a pair leave consecutive switches, which spreads the global links of a group evenly
//! over its switches. Both ends of a link apply the same formula, each with its own `d`.
//!
//! A node is attached to one switch, or by several interfaces to as many consecutive switches of its
//! group ([`Dragonfly::with_ports`]).
//!
//! [`Routing::Minimal`] takes at most one local, one global and one local link. It spreads messages
//! evenly over the links of the pair that need the fewest hops. [`Routing::Valiant`] spreads
//! messages evenly over all other groups as intermediate groups; inside a group, over all other
//! switches. Adaptive machines lie between the two.

use crate::topology::grid::{check_capacities, check_costs};
use crate::topology::{Link, MAX_LINKS, MAX_VERTICES, TopologyError, Vertex};

/// How a dragonfly routes messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// The fewest hops.
    #[default]
    Minimal,
    /// Through an intermediate group, each with the same share.
    Valiant,
}

/// The parameters of a [`Dragonfly`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DragonflySize {
    /// Groups.
    pub groups: u16,
    /// Switches in a group.
    pub switches: u16,
    /// Links between each two groups, in each direction.
    pub links_per_pair: u16,
    /// GB/s of a link inside a group.
    pub local_capacity: f64,
    /// GB/s of a link between groups.
    pub global_capacity: f64,
    /// Weight of a hop inside a group.
    pub local_cost: u32,
    /// Weight of a hop between groups.
    pub global_cost: u32,
}

/// A dragonfly; its vertices are its switches, group by group.
#[derive(Clone, Debug, PartialEq)]
pub struct Dragonfly {
    size: DragonflySize,
    /// Switches to which a node is attached.
    ports: u16,
}

impl Dragonfly {
    /// Creates a dragonfly of this size.
    ///
    /// # Errors
    ///
    /// A count of 0, too many switches or links, a capacity that is not positive.
    pub fn new(size: DragonflySize) -> Result<Self, TopologyError> {
        if size.groups == 0 || size.switches == 0 {
            return Err(TopologyError::Zero("groups and switches"));
        }
        if size.groups > 1 && size.links_per_pair == 0 {
            return Err(TopologyError::Unconnected(size.groups));
        }
        check_capacities(&[size.local_capacity, size.global_capacity])?;
        check_costs(&[size.local_cost, size.global_cost])?;
        let [groups, switches, links] =
            [size.groups, size.switches, size.links_per_pair].map(u64::from);
        let vertices = groups * switches;
        let local = vertices * switches;
        let global = groups * groups * links;
        if vertices > u64::from(MAX_VERTICES) || local + global > u64::from(MAX_LINKS) {
            return Err(TopologyError::TooLarge("the dragonfly"));
        }
        Ok(Self { size, ports: 1 })
    }

    /// Attaches every node by this number of interfaces: to its own switch and to the switches after
    /// it in its group. Messages use all interfaces of both ends equally. Distances are those of the
    /// nodes' own switches.
    ///
    /// # Errors
    ///
    /// 0 interfaces, or more than a group has switches.
    pub fn with_ports(mut self, ports: u16) -> Result<Self, TopologyError> {
        if ports == 0 || ports > self.size.switches {
            return Err(TopologyError::Ports(ports, self.size.switches));
        }
        self.ports = ports;
        Ok(self)
    }

    /// The switches to which a node at this switch is attached.
    fn attached(&self, switch: Vertex) -> impl Iterator<Item = Vertex> + Clone + use<> {
        let switches = u32::from(self.size.switches);
        let (first, own) = (switch.0 / switches * switches, switch.0 % switches);
        (0..u32::from(self.ports)).map(move |port| Vertex(first + (own + port) % switches))
    }

    /// The parameters.
    #[must_use]
    pub fn size(&self) -> &DragonflySize {
        &self.size
    }

    /// Switches.
    #[must_use]
    pub fn vertices(&self) -> u32 {
        u32::from(self.size.groups) * u32::from(self.size.switches)
    }

    /// One more than the highest link number.
    #[must_use]
    pub fn link_slots(&self) -> u32 {
        let groups = u32::from(self.size.groups);
        self.first_global() + groups * groups * u32::from(self.size.links_per_pair)
    }

    fn first_global(&self) -> u32 {
        self.vertices() * u32::from(self.size.switches)
    }

    /// The group of a switch.
    #[must_use]
    pub fn group(&self, switch: Vertex) -> u16 {
        (switch.0 / u32::from(self.size.switches)) as u16
    }

    /// Returns a switch by its number within a group, or `None` if there is no such switch.
    #[must_use]
    pub fn switch(&self, group: u16, switch: u16) -> Option<Vertex> {
        let is_there = group < self.size.groups && switch < self.size.switches;
        let first = u32::from(group) * u32::from(self.size.switches);
        is_there.then(|| Vertex(first + u32::from(switch)))
    }

    /// Returns the two switches that link `i` from group `g` to group `h` joins.
    #[must_use]
    pub fn ends(&self, g: u16, h: u16, i: u16) -> (Vertex, Vertex) {
        (self.port(g, h, i), self.port(h, g, i))
    }

    fn port(&self, here: u16, there: u16, i: u16) -> Vertex {
        let groups = u32::from(self.size.groups);
        let away = (u32::from(there) + groups - u32::from(here)) % groups;
        let port = away.saturating_sub(1) * u32::from(self.size.links_per_pair) + u32::from(i);
        let switches = u32::from(self.size.switches);
        Vertex(u32::from(here) * switches + port % switches)
    }

    /// Hops from `a` to `b` by the minimal path.
    #[must_use]
    pub fn hops(&self, a: Vertex, b: Vertex) -> u32 {
        self.weigh(a, b, 1, 1)
    }

    /// Cost of the cheapest minimal path: the sum of the costs of its hops.
    #[must_use]
    pub fn cost(&self, a: Vertex, b: Vertex) -> u32 {
        self.weigh(a, b, self.size.local_cost, self.size.global_cost)
    }

    fn weigh(&self, a: Vertex, b: Vertex, local: u32, global: u32) -> u32 {
        let (g, h) = (self.group(a), self.group(b));
        if g == h {
            return if a == b { 0 } else { local };
        }
        self.detours(a, b, g, h).min().unwrap_or(0) * local + global
    }

    /// Number of local hops of the paths through each link of the pair.
    fn detours(&self, a: Vertex, b: Vertex, g: u16, h: u16) -> impl Iterator<Item = u32> + '_ {
        (0..self.size.links_per_pair).map(move |i| {
            let (near, far) = self.ends(g, h, i);
            u32::from(near != a) + u32::from(far != b)
        })
    }

    /// GB/s of a link, or `None` if no link has this number.
    #[must_use]
    pub fn capacity(&self, link: Link) -> Option<f64> {
        let switches = u32::from(self.size.switches);
        if link.0 < self.first_global() {
            let (from, to) = (link.0 / switches, link.0 % switches);
            return (from % switches != to).then_some(self.size.local_capacity);
        }
        let groups = u32::from(self.size.groups);
        let pair = (link.0 - self.first_global()) / u32::from(self.size.links_per_pair.max(1));
        let is_link = pair / groups != pair % groups && link.0 < self.link_slots();
        is_link.then_some(self.size.global_capacity)
    }

    /// The ends of a link: `group 12 switch 3` and `group 40 switch 9`.
    #[must_use]
    pub fn link_ends(&self, link: Link) -> (String, String) {
        let switches = u32::from(self.size.switches);
        let name =
            |vertex: u32| format!("group {} switch {}", vertex / switches, vertex % switches);
        if link.0 < self.first_global() {
            let (from, to) = (link.0 / switches, link.0 % switches);
            return (name(from), name(from / switches * switches + to));
        }
        let links = u32::from(self.size.links_per_pair.max(1));
        let groups = u32::from(self.size.groups);
        let global = link.0 - self.first_global();
        let (pair, i) = (global / links, global % links);
        // Groups and links of a pair are numbered in 16 bits.
        let (near, far) = self.ends((pair / groups) as u16, (pair % groups) as u16, i as u16);
        (name(near.0), name(far.0))
    }

    /// Returns whether messages from `from` to `to` may use a link: under minimal routing only links that
    /// start at the one or end at the other, and those between their groups. A false positive is possible.
    #[must_use]
    pub fn may_carry(&self, from: Vertex, to: Vertex, link: Link, routing: Routing) -> bool {
        if routing == Routing::Valiant {
            return true;
        }
        let switches = u32::from(self.size.switches);
        if link.0 < self.first_global() {
            let start = link.0 / switches;
            let end = start / switches * switches + link.0 % switches;
            if self.ports == 1 {
                return start == from.0 || end == to.0;
            }
            let is_first = self.attached(from).any(|switch| switch.0 == start);
            return is_first || self.attached(to).any(|switch| switch.0 == end);
        }
        let ends = (u32::from(self.group(from)), u32::from(self.group(to)));
        let groups = u32::from(self.size.groups);
        let pair = (link.0 - self.first_global()) / u32::from(self.size.links_per_pair.max(1));
        (pair / groups, pair % groups) == ends
    }

    /// Returns whether messages from a switch to some other one, or to it if `is_end`, may use a link. A
    /// false positive is possible.
    #[must_use]
    pub fn may_touch(&self, switch: Vertex, is_end: bool, link: Link, routing: Routing) -> bool {
        if routing == Routing::Valiant || link.0 < self.first_global() {
            return true;
        }
        let groups = u32::from(self.size.groups);
        let pair = (link.0 - self.first_global()) / u32::from(self.size.links_per_pair.max(1));
        let group = if is_end { pair % groups } else { pair / groups };
        u32::from(self.group(switch)) == group
    }

    /// Calls `visit` for every link that messages take, with the share of the messages on that
    /// link.
    pub fn walk(
        &self,
        from: Vertex,
        to: Vertex,
        routing: Routing,
        visit: &mut dyn FnMut(Link, f64),
    ) {
        let share = 1.0 / f64::from(self.ports).powi(2);
        for from in self.attached(from) {
            for to in self.attached(to) {
                match routing {
                    Routing::Minimal => self.minimal(from, to, share, visit),
                    Routing::Valiant => self.valiant(from, to, share, visit),
                }
            }
        }
    }

    fn minimal(&self, from: Vertex, to: Vertex, share: f64, visit: &mut dyn FnMut(Link, f64)) {
        let (g, h) = (self.group(from), self.group(to));
        if g == h {
            self.local(from, to, share, visit);
            return;
        }
        let fewest = self.detours(from, to, g, h).min();
        let best = |detour: &u32| Some(*detour) == fewest;
        let ways = self.detours(from, to, g, h).filter(best).count();
        let share = share / ways as f64;
        for (i, detour) in (0..).zip(self.detours(from, to, g, h)) {
            if best(&detour) {
                let far = self.cross(from, g, h, i, share, visit);
                self.local(far, to, share, visit);
            }
        }
    }

    /// Visits the links up to and including global link `i`, and returns the far end of link `i`.
    fn cross(
        &self,
        from: Vertex,
        g: u16,
        h: u16,
        i: u16,
        share: f64,
        visit: &mut dyn FnMut(Link, f64),
    ) -> Vertex {
        let (near, far) = self.ends(g, h, i);
        self.local(from, near, share, visit);
        let pair = u32::from(g) * u32::from(self.size.groups) + u32::from(h);
        let link = pair * u32::from(self.size.links_per_pair) + u32::from(i);
        visit(Link(self.first_global() + link), share);
        far
    }

    fn local(&self, from: Vertex, to: Vertex, share: f64, visit: &mut dyn FnMut(Link, f64)) {
        if from != to {
            let switches = u32::from(self.size.switches);
            visit(Link(from.0 * switches + to.0 % switches), share);
        }
    }

    fn valiant(&self, from: Vertex, to: Vertex, share: f64, visit: &mut dyn FnMut(Link, f64)) {
        let (g, h) = (self.group(from), self.group(to));
        if from == to {
            return;
        }
        if g == h {
            self.valiant_local(from, to, share, visit);
            return;
        }
        let others = (0..self.size.groups).filter(|&other| other != g && other != h);
        let ways = others.clone().count() * usize::from(self.size.links_per_pair);
        if ways == 0 {
            self.minimal(from, to, share, visit);
            return;
        }
        let share = share / ways as f64;
        for other in others {
            for i in 0..self.size.links_per_pair {
                let middle = self.cross(from, g, other, i, share, visit);
                self.minimal(middle, to, share, visit);
            }
        }
    }

    fn valiant_local(
        &self,
        from: Vertex,
        to: Vertex,
        share: f64,
        visit: &mut dyn FnMut(Link, f64),
    ) {
        let g = self.group(from);
        let switches = (0..self.size.switches).filter_map(|switch| self.switch(g, switch));
        let others = switches.filter(|&switch| switch != from && switch != to);
        let ways = others.clone().count();
        if ways == 0 {
            self.local(from, to, share, visit);
        }
        for middle in others {
            self.local(from, middle, share / ways as f64, visit);
            self.local(middle, to, share / ways as f64, visit);
        }
    }
}
