//! The optimum for numbers of sites and sinks that are too large for a table of costs: rents that
//! rise phase by phase.
//!
//! ```text
//!   each unit at a sink whose cost + rent is least        some sinks above their room, some below
//!   while a chain of tied sinks leads from above to below:  move a unit along it
//!   otherwise: the rents of all sinks that such chains reach rise by 1
//! ```
//!
//! This is the Hungarian method on sinks. Units stay at sinks that are tied for them, because the
//! rents of sinks that share a unit rise together. A sink with a rent is never below its room,
//! because a chain would have ended there. In the end the costs equal those of the dual
//!
//! ```text
//!   D = Σ units · min_j (cost_j + rent_j)  -  Σ base_j · rent_j  -  the largest `extra` of the rents
//! ```
//!
//! and no assignment can cost less than `D`. Every run compares its costs with `D`. Each phase asks
//! for costs row by row and keeps only ties. A hub distributes the tokens for the additional units
//! of some sinks; the rent of the hub is the value of such a unit.

use std::ops::Range;

use rayon::prelude::*;

use crate::transport::Piece;

/// Most pairs of a site and a sink that is tied for it: 256 MiB.
const TIES_MAX: usize = 1 << 27;

/// Number of sites that a thread processes together.
const PART: usize = 2048;

/// The level of a node that no search reached or that leads nowhere.
const NOWHERE: u32 = u32::MAX;

/// Supplies and rooms of a large problem.
pub(crate) struct Large<'a> {
    /// Units at each site.
    pub(crate) supplies: &'a [u32],
    /// Number of units that each sink takes.
    pub(crate) base: &'a [u32],
    /// Number of sinks that take one more unit. The sum of all rooms equals the number of units.
    pub(crate) extra: u32,
}

/// Returns the pieces of a cheapest flow in ascending order of sites, or `None` if the rooms do not
/// add up to the units or the ties do not fit in memory. `rows` returns the costs of a range of
/// sites, sink by sink, in order.
pub(crate) fn solve<R>(problem: &Large<'_>, rows: &R) -> Option<Vec<Piece>>
where
    R: Fn(Range<usize>, &mut dyn FnMut(usize, &[u32])) + Sync,
{
    let room: u64 = problem.base.iter().map(|&base| u64::from(base)).sum();
    let units: u64 = problem.supplies.iter().map(|&units| u64::from(units)).sum();
    let fits = u32::try_from(units).is_ok() && problem.extra as usize <= problem.base.len();
    if !fits || room + u64::from(problem.extra) != units {
        return None;
    }
    let mut state = State::new(problem);
    loop {
        let ties = Ties::new(problem, &state.rents, rows)?;
        if state.at.iter().all(Vec::is_empty) {
            state.begin(&ties);
        }
        while state.search(&ties) {
            state.level(&ties);
        }
        if state.is_level() {
            return (state.cost(rows, problem) == state.dual(&ties, problem))
                .then(|| state.pieces());
        }
        state.rise();
    }
}

/// The sinks that are tied for each site, and the cost of a unit there including the rent.
struct Ties {
    ends: Vec<u32>,
    sinks: Vec<u16>,
    least: Vec<u32>,
}

impl Ties {
    fn new<R>(problem: &Large<'_>, rents: &[u32], rows: &R) -> Option<Self>
    where
        R: Fn(Range<usize>, &mut dyn FnMut(usize, &[u32])) + Sync,
    {
        let sites = problem.supplies.len();
        let parts = (0..sites.div_ceil(PART)).into_par_iter().map(|part| {
            let mut found = (Vec::new(), Vec::new(), Vec::new());
            let (counts, sinks, leasts) = &mut found;
            let mut sums = vec![0_u32; rents.len()];
            rows(part * PART..sites.min((part + 1) * PART), &mut |_, row| {
                let mut least = u32::MAX;
                for ((sum, &cost), &rent) in sums.iter_mut().zip(row).zip(rents) {
                    *sum = cost + rent;
                    least = least.min(*sum);
                }
                let before = sinks.len();
                let tied = (0_u16..).zip(&sums).filter(|(_, sum)| **sum == least);
                sinks.extend(tied.map(|(sink, _)| sink));
                // There are no more sinks than numbers of 16 bits.
                counts.push((sinks.len() - before) as u32);
                leasts.push(least);
            });
            found
        });
        let parts: Vec<(Vec<u32>, Vec<u16>, Vec<u32>)> = parts.collect();
        if parts.iter().map(|part| part.1.len()).sum::<usize>() > TIES_MAX {
            return None;
        }
        let mut ties = Self {
            ends: vec![0],
            sinks: Vec::new(),
            least: Vec::with_capacity(sites),
        };
        let mut end = 0;
        for (counts, sinks, least) in parts {
            ties.ends.extend(counts.iter().map(|count| {
                end += count;
                end
            }));
            ties.sinks.extend(sinks);
            ties.least.extend(least);
        }
        Some(ties)
    }

    fn of(&self, site: u32) -> &[u16] {
        let site = site as usize;
        &self.sinks[self.ends[site] as usize..self.ends[site + 1] as usize]
    }
}

/// The position of every unit.
struct State {
    /// The site of each unit, in ascending order.
    site_of: Vec<u32>,
    sink_of: Vec<u16>,
    /// The units at each sink.
    at: Vec<Vec<u32>>,
    /// Number of units that each sink may keep: its base, and one more with a token.
    room: Vec<usize>,
    has_token: Vec<bool>,
    tokens_left: u32,
    rents: Vec<u32>,
    hub_rent: u32,
    /// Number of steps from a sink above its room. The hub comes after all sinks.
    levels: Vec<u32>,
    /// The next unit or sink to examine at each node.
    next: Vec<usize>,
}

/// How a chain continues from a node.
#[derive(Clone, Copy)]
enum Step {
    /// A unit of the sink moves to the next sink.
    Unit { index: usize, to: usize },
    /// The sink takes a token from the hub.
    Ask,
    /// The hub takes back the token of this sink.
    Take { from: usize },
}

impl State {
    fn new(problem: &Large<'_>) -> Self {
        let sinks = problem.base.len();
        let sites = (0_u32..).zip(problem.supplies);
        let units = sites.flat_map(|(site, &units)| std::iter::repeat_n(site, units as usize));
        Self {
            site_of: units.collect(),
            sink_of: Vec::new(),
            at: vec![Vec::new(); sinks],
            room: problem.base.iter().map(|&base| base as usize).collect(),
            has_token: vec![false; sinks],
            tokens_left: problem.extra,
            rents: vec![0; sinks],
            hub_rent: 0,
            levels: vec![NOWHERE; sinks + 1],
            next: vec![0; sinks + 1],
        }
    }

    fn hub(&self) -> usize {
        self.at.len()
    }

    /// Puts each unit on the first of its cheapest sinks.
    fn begin(&mut self, ties: &Ties) {
        for (unit, &site) in (0_u32..).zip(&self.site_of) {
            let sink = ties.of(site)[0];
            self.sink_of.push(sink);
            self.at[usize::from(sink)].push(unit);
        }
    }

    fn is_above(&self, sink: usize) -> bool {
        self.at[sink].len() > self.room[sink]
    }

    fn is_level(&self) -> bool {
        (0..self.at.len()).all(|sink| !self.is_above(sink))
    }

    /// Returns whether a chain may end at a node.
    fn is_end(&self, node: usize) -> bool {
        if node == self.hub() {
            return self.tokens_left > 0;
        }
        self.at[node].len() < self.room[node]
    }

    fn may_ask(&self, sink: usize) -> bool {
        !self.has_token[sink] && self.rents[sink] == self.hub_rent
    }

    fn may_give(&self, sink: usize) -> bool {
        self.has_token[sink] && self.rents[sink] == self.hub_rent
    }

    /// Finds the level of every node that chains reach from sinks above their room. Returns whether
    /// one of these nodes can end a chain.
    fn search(&mut self, ties: &Ties) -> bool {
        self.levels.fill(NOWHERE);
        self.next.fill(0);
        let mut queue: Vec<usize> = (0..self.at.len()).filter(|&s| self.is_above(s)).collect();
        for &sink in &queue {
            self.levels[sink] = 0;
        }
        let (mut first, mut ends) = (0, false);
        let mut looked_at = vec![false; ties.least.len()];
        while let Some(&node) = queue.get(first) {
            first += 1;
            ends |= self.is_end(node);
            let level = self.levels[node] + 1;
            let mut reach = |levels: &mut [u32], to: usize| {
                if levels[to] == NOWHERE {
                    levels[to] = level;
                    queue.push(to);
                }
            };
            if node == self.hub() {
                for sink in 0..self.at.len() {
                    if self.may_give(sink) {
                        reach(&mut self.levels, sink);
                    }
                }
                continue;
            }
            for &unit in &self.at[node] {
                let site = self.site_of[unit as usize];
                if !std::mem::replace(&mut looked_at[site as usize], true) {
                    for &to in ties.of(site) {
                        reach(&mut self.levels, to.into());
                    }
                }
            }
            if self.may_ask(node) {
                let hub = self.hub();
                reach(&mut self.levels, hub);
            }
        }
        ends
    }

    /// Moves units along chains with ascending levels until there are no more chains.
    fn level(&mut self, ties: &Ties) {
        let mut chain = Vec::new();
        for sink in 0..self.at.len() {
            while self.is_above(sink) && self.chain(ties, sink, &mut chain) {
                self.carry(&mut chain);
            }
        }
    }

    /// Finds a chain from a sink to a node that can end it.
    fn chain(&mut self, ties: &Ties, from: usize, chain: &mut Vec<(usize, Step)>) -> bool {
        chain.clear();
        let mut node = from;
        loop {
            if self.is_end(node) {
                return true;
            }
            if let Some((step, to)) = self.step(ties, node) {
                chain.push((node, step));
                node = to;
                continue;
            }
            self.levels[node] = NOWHERE;
            match chain.pop() {
                Some((before, _)) => node = before,
                None => return false,
            }
        }
    }

    /// Returns the next step from a node to a node of the next level.
    fn step(&mut self, ties: &Ties, node: usize) -> Option<(Step, usize)> {
        let level = self.levels[node].checked_add(1)?;
        let hub = self.hub();
        if node == hub {
            while self.next[node] < hub {
                let from = self.next[node];
                if self.levels[from] == level && self.may_give(from) {
                    return Some((Step::Take { from }, from));
                }
                self.next[node] += 1;
            }
            return None;
        }
        if self.levels[hub] == level && self.may_ask(node) {
            return Some((Step::Ask, hub));
        }
        while let Some(&unit) = self.at[node].get(self.next[node]) {
            let mut tied = ties.of(self.site_of[unit as usize]).iter();
            let index = self.next[node];
            let is_next = |sink: &&u16| self.levels[usize::from(**sink)] == level;
            if let Some(to) = tied.find(is_next).map(|&to| usize::from(to)) {
                return Some((Step::Unit { index, to }, to));
            }
            self.next[node] += 1;
        }
        None
    }

    /// Moves a unit along a chain.
    fn carry(&mut self, chain: &mut Vec<(usize, Step)>) {
        let hub_ends = matches!(chain.last(), Some((_, Step::Ask)));
        if hub_ends {
            self.tokens_left -= 1;
        }
        for (node, step) in chain.drain(..).rev() {
            match step {
                Step::Unit { index, to } => {
                    let unit = self.at[node].swap_remove(index);
                    self.at[to].push(unit);
                    // Sinks are numbered in 16 bits.
                    self.sink_of[unit as usize] = to as u16;
                }
                Step::Ask => {
                    self.has_token[node] = true;
                    self.room[node] += 1;
                }
                Step::Take { from } => {
                    self.has_token[from] = false;
                    self.room[from] -= 1;
                }
            }
        }
    }

    /// Raises the rents of the sinks that the last search reached.
    fn rise(&mut self) {
        let hub = self.hub();
        for (rent, &level) in self.rents.iter_mut().zip(&self.levels) {
            *rent += u32::from(level != NOWHERE);
        }
        self.hub_rent += u32::from(self.levels[hub] != NOWHERE);
    }

    fn cost<R>(&self, rows: &R, problem: &Large<'_>) -> u64
    where
        R: Fn(Range<usize>, &mut dyn FnMut(usize, &[u32])) + Sync,
    {
        let mut units = self.site_of.iter().zip(&self.sink_of).peekable();
        let mut sum = 0;
        rows(0..problem.supplies.len(), &mut |site, row| {
            while let Some((_, &sink)) = units.next_if(|(of, _)| **of as usize == site) {
                sum += u64::from(row[usize::from(sink)]);
            }
        });
        sum
    }

    fn dual(&self, ties: &Ties, problem: &Large<'_>) -> u64 {
        let sites = problem.supplies.iter().zip(&ties.least);
        let sites: u64 = sites
            .map(|(&units, &least)| u64::from(units) * u64::from(least))
            .sum();
        let base = problem.base.iter().zip(&self.rents);
        let base: u64 = base
            .map(|(&base, &rent)| u64::from(base) * u64::from(rent))
            .sum();
        let mut rents = self.rents.clone();
        rents.sort_unstable_by(|a, b| b.cmp(a));
        let extra = rents.iter().take(problem.extra as usize);
        let extra: u64 = extra.map(|&rent| u64::from(rent)).sum();
        sites.saturating_sub(base + extra)
    }

    /// Returns the units that go from each site to each sink, by site and sink.
    fn pieces(&self) -> Vec<Piece> {
        let mut pairs: Vec<(u32, u16)> = self
            .site_of
            .iter()
            .copied()
            .zip(self.sink_of.iter().copied())
            .collect();
        pairs.sort_unstable();
        let runs = pairs.chunk_by(|a, b| a == b);
        let piece = |run: &[(u32, u16)]| Piece {
            site: run[0].0,
            sink: run[0].1.into(),
            // Units are numbered in 32 bits.
            units: run.len() as u32,
        };
        runs.map(piece).collect()
    }
}
