//! Successive shortest paths with potentials, for any number of sinks.
//!
//! ```text
//!   site ──cost──▶ sink j ──base[j]──▶ T          every unit reaches T
//!                    └──1──▶ hub ──extra──▶ T     `extra` sinks may take one more than their base
//! ```
//!
//! All units start at their cheapest sink, which is optimal without capacities. Each surplus unit
//! of a sink then moves along a cheapest chain of sinks. A step from `i` to `j` moves the unit of
//! `i` for which `j` costs the least more than `i`. These least differences are in one heap for
//! each pair of sinks; entries of units that have left are dropped when they reach the top.
//! Potentials keep every reduced cost at 0 or above, so each chain is a shortest path by Dijkstra's
//! method, and the result is an exact optimum. The search runs over a matrix of the sinks.
//!
//! If sides are limited, each sink has three doors, and units move between doors:
//!
//! ```text
//!   site ──cost──▶ door of j for the side of the site ──limit of the side──▶ sink j ──▶ as above
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::transport::{Piece, Transport};

/// Returns the pieces of a cheapest flow.
pub(super) fn solve(problem: &Transport) -> Option<Vec<Piece>> {
    let sinks = problem.base.len();
    let mut state = State::new(problem);
    for end in 0..state.ends {
        while state.excess[end] > 0 {
            state.search(end)?;
            state.augment(end);
            state.excess[end] -= 1;
        }
    }
    let mut pieces = Vec::with_capacity(problem.supplies.len());
    for (site, flow) in (0_u32..).zip(state.flow.chunks(sinks.max(1))) {
        for (sink, &units) in flow.iter().enumerate().filter(|(_, units)| **units > 0) {
            pieces.push(Piece { site, sink, units });
        }
    }
    Some(pieces)
}

/// Doors of a sink if sides are limited: one for each side, and one for sites on neither.
const DOORS: usize = 3;

/// Cost of moving a unit of a site from one end to another, and the site.
type Move = Reverse<(i64, u32)>;

/// The state of the search. Vertices are the ends, the sinks (if they are not the ends), the hub,
/// and T.
struct State<'a> {
    problem: &'a Transport,
    sinks: usize,
    /// Number of ends, between which units move: the sinks or their doors.
    ends: usize,
    /// Units by site and sink.
    flow: Vec<u32>,
    /// Units at each end.
    units: Vec<u32>,
    /// Units of each end that do not flow to T yet, and units that do.
    excess: Vec<u32>,
    entered: Vec<u32>,
    /// Units that flow from a sink directly to T, and whether one flows through the hub.
    direct: Vec<u32>,
    through_hub: Vec<bool>,
    hub_used: u32,
    /// Moves by end and next end; empty for an end that never had a unit.
    moves: Vec<Vec<BinaryHeap<Move>>>,
    potential: Vec<i64>,
    distance: Vec<i64>,
    /// Distances of the vertices that are still to be examined.
    open: Vec<i64>,
    previous: Vec<usize>,
}

const FAR: i64 = i64::MAX;

impl<'a> State<'a> {
    fn new(problem: &'a Transport) -> Self {
        let sinks = problem.base.len();
        let ends = match problem.sides {
            Some(_) => sinks * DOORS,
            None => sinks,
        };
        let mut state = Self {
            problem,
            sinks,
            ends,
            flow: vec![0; problem.costs.len()],
            units: vec![0; ends],
            excess: vec![0; ends],
            entered: vec![0; ends],
            direct: vec![0; sinks],
            through_hub: vec![false; sinks],
            hub_used: 0,
            moves: vec![Vec::new(); ends],
            potential: Vec::new(),
            distance: Vec::new(),
            open: Vec::new(),
            previous: Vec::new(),
        };
        let vertices = state.end() + 1;
        state.potential = vec![0; vertices];
        state.distance = vec![FAR; vertices];
        state.open = vec![FAR; vertices];
        state.previous = vec![usize::MAX; vertices];
        state.begin();
        state
    }

    /// Assigns each site to its cheapest sink, and forwards to T what the sink takes.
    fn begin(&mut self) {
        for (site, &units) in (0_u32..).zip(&self.problem.supplies) {
            let cost = |sink| i64::from(self.problem.cost(site, sink));
            let cheapest = (0..self.sinks).min_by_key(|&sink| cost(sink));
            let Some(here) = cheapest.filter(|_| units > 0) else {
                continue;
            };
            self.flow[site as usize * self.sinks + here] = units;
            let end = self.end_of(site, here);
            self.excess[end] += units;
            self.units[end] += units;
            self.offer(site, end);
        }
        for end in 0..self.ends {
            let sink = self.sink_of(end);
            let left = self.problem.base[sink] - self.direct[sink];
            let units = self.excess[end].min(self.room(end)).min(left);
            self.excess[end] -= units;
            self.entered[end] += units;
            self.direct[sink] += units;
        }
    }

    /// Records the cost of moving a unit of a site from an end to every other end.
    fn offer(&mut self, site: u32, end: usize) {
        let mut row = std::mem::take(&mut self.moves[end]);
        row.resize_with(self.ends, BinaryHeap::new);
        let here = self.sink_of(end);
        let cost = |sink| i64::from(self.problem.cost(site, sink));
        for there in (0..self.sinks).filter(|&there| there != here) {
            let dearer = cost(there) - cost(here);
            row[self.end_of(site, there)].push(Reverse((dearer, site)));
        }
        self.moves[end] = row;
    }

    /// Returns the end at which units of a site enter a sink.
    fn end_of(&self, site: u32, sink: usize) -> usize {
        match &self.problem.sides {
            Some(sides) => {
                let side = sides.of[sink * self.problem.supplies.len() + site as usize];
                sink * DOORS + usize::from(side)
            }
            None => sink,
        }
    }

    /// Returns the sink of an end.
    fn sink_of(&self, end: usize) -> usize {
        match self.problem.sides {
            Some(_) => end / DOORS,
            None => end,
        }
    }

    /// Most units that flow through an end.
    fn room(&self, end: usize) -> u32 {
        match &self.problem.sides {
            Some(sides) if !end.is_multiple_of(DOORS) => sides.limit,
            _ => u32::MAX,
        }
    }

    /// The vertex of the first sink.
    fn first_sink(&self) -> usize {
        match self.problem.sides {
            Some(_) => self.ends,
            None => 0,
        }
    }

    fn hub(&self) -> usize {
        self.first_sink() + self.sinks
    }

    fn end(&self) -> usize {
        self.hub() + 1
    }

    /// Returns the sink of a vertex, if the vertex is a sink.
    fn sink_at(&self, vertex: usize) -> Option<usize> {
        let sink = vertex.checked_sub(self.first_sink())?;
        (sink < self.sinks).then_some(sink)
    }

    /// Returns the cost of the step between two vertices of the residual graph, or `None` if there
    /// is no step.
    fn step(&mut self, from: usize, to: usize) -> Option<i64> {
        if from < self.ends && to < self.ends {
            return self.cheapest_move(from, to).map(|(dearer, _)| dearer);
        }
        let (hub, end) = (self.hub(), self.end());
        let is_open = match (self.sink_at(from), self.sink_at(to)) {
            (Some(sink), None) if to == end => self.direct[sink] < self.problem.base[sink],
            (Some(sink), None) if to == hub => !self.through_hub[sink],
            (Some(sink), None) => self.sink_of(to) == sink && self.entered[to] > 0,
            (None, Some(sink)) if from == hub => self.through_hub[sink],
            (None, Some(sink)) if from < self.ends => {
                self.sink_of(from) == sink && self.entered[from] < self.room(from)
            }
            _ => from == hub && to == end && self.hub_used < self.problem.extra,
        };
        is_open.then_some(0)
    }

    /// Returns the unit of end `from` that is cheapest to move to end `to`.
    fn cheapest_move(&mut self, from: usize, to: usize) -> Option<(i64, u32)> {
        let sink = self.sink_of(from);
        let heap = self.moves[from].get_mut(to)?;
        while let Some(&Reverse((dearer, site))) = heap.peek() {
            if self.flow[site as usize * self.sinks + sink] > 0 {
                return Some((dearer, site));
            }
            heap.pop();
        }
        None
    }

    /// Finds a shortest path from an end to T and updates the potentials; returns `None` if there
    /// is no path.
    fn search(&mut self, source: usize) -> Option<()> {
        let end = self.end();
        self.distance.fill(FAR);
        self.distance[source] = 0;
        self.open.fill(FAR);
        self.open[source] = 0;
        loop {
            let least = self.open.iter().copied().min().filter(|&d| d < FAR)?;
            let nearest = self.open.iter().position(|&distance| distance == least)?;
            if nearest == end {
                break;
            }
            self.open[nearest] = FAR;
            // An end without units has none to move away.
            let is_empty = self.units.get(nearest) == Some(&0);
            let first = if is_empty { self.ends } else { 0 };
            for to in first..=end {
                // Steps never shorten a path, so completed vertices keep their distance.
                if self.distance[to] <= least {
                    continue;
                }
                let Some(cost) = self.step(nearest, to) else {
                    continue;
                };
                let reduced = cost + self.potential[nearest] - self.potential[to];
                let distance = least + reduced;
                if distance < self.distance[to] {
                    self.distance[to] = distance;
                    self.open[to] = distance;
                    self.previous[to] = nearest;
                }
            }
        }
        let length = self.distance[end];
        for (potential, &distance) in self.potential.iter_mut().zip(&self.distance) {
            *potential += distance.min(length);
        }
        Some(())
    }

    /// Sends one unit along the path that [`Self::search`] found.
    fn augment(&mut self, source: usize) {
        let (hub, end) = (self.hub(), self.end());
        let mut to = end;
        while to != source {
            let from = self.previous[to];
            match (self.sink_at(from), self.sink_at(to)) {
                _ if from < self.ends && to < self.ends => {
                    if let Some((_, site)) = self.cheapest_move(from, to) {
                        self.shift(site, from, to);
                    }
                }
                (Some(sink), None) if to == end => self.direct[sink] += 1,
                (Some(sink), None) if to == hub => self.through_hub[sink] = true,
                (Some(_), None) => self.entered[to] -= 1,
                (None, Some(sink)) if from == hub => self.through_hub[sink] = false,
                (None, Some(_)) => self.entered[from] += 1,
                _ => self.hub_used += 1,
            }
            to = from;
        }
    }

    fn shift(&mut self, site: u32, from: usize, to: usize) {
        let first = site as usize * self.sinks;
        let (here, there) = (self.sink_of(from), self.sink_of(to));
        self.units[from] -= 1;
        self.units[to] += 1;
        self.flow[first + here] -= 1;
        self.flow[first + there] += 1;
        if self.flow[first + there] == 1 {
            self.offer(site, to);
        }
    }
}
