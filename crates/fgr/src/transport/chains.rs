//! Successive shortest paths with potentials, for any number of sinks.
//!
//! ```text
//!   site ──cost──▶ sink j ──base[j]──▶ T          every unit reaches T
//!                    └──1──▶ hub ──extra──▶ T     `extra` sinks may take one more than their base
//! ```
//!
//! All units begin at their cheapest sink, which is optimal without capacities; then each unit that a
//! sink has too many of goes on along a cheapest chain of sinks, where a step from `i` to `j` moves the
//! unit of `i` for which `j` is least dearer. Those least differences are kept in one heap for each
//! pair of sinks; entries of units that have left are dropped when they come up. Potentials keep every
//! reduced cost at 0 or above, so that each chain is a shortest path by Dijkstra's method and the
//! result is an exact optimum. The search is over a matrix of the sinks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::transport::{Piece, Transport};

/// The pieces of a cheapest flow.
pub(super) fn solve(problem: &Transport) -> Option<Vec<Piece>> {
    let sinks = problem.base.len();
    let mut state = State::new(problem);
    for sink in 0..sinks {
        while state.excess[sink] > 0 {
            state.search(sink)?;
            state.augment(sink);
            state.excess[sink] -= 1;
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

/// Cost of going from one sink to another by moving a site's unit, and the site.
type Move = Reverse<(i64, u32)>;

struct State<'a> {
    problem: &'a Transport,
    sinks: usize,
    flow: Vec<u32>,
    excess: Vec<u32>,
    /// Units that go from a sink straight to T, and whether one goes through the hub.
    direct: Vec<u32>,
    through_hub: Vec<bool>,
    hub_used: u32,
    moves: Vec<BinaryHeap<Move>>,
    /// Of the sinks, then the hub, then T.
    potential: Vec<i64>,
    distance: Vec<i64>,
    previous: Vec<usize>,
}

const FAR: i64 = i64::MAX;

impl<'a> State<'a> {
    fn new(problem: &'a Transport) -> Self {
        let sinks = problem.base.len();
        let mut flow = vec![0; problem.costs.len()];
        let mut load = vec![0_u32; sinks];
        let mut moves = vec![Vec::new(); sinks * sinks];
        for (site, &units) in (0_u32..).zip(&problem.supplies) {
            let cost = |sink| i64::from(problem.cost(site, sink));
            let cheapest = (0..sinks).min_by_key(|&sink| cost(sink));
            let Some(here) = cheapest.filter(|_| units > 0) else {
                continue;
            };
            flow[site as usize * sinks + here] = units;
            load[here] += units;
            for there in (0..sinks).filter(|&there| there != here) {
                let dearer = cost(there) - cost(here);
                moves[here * sinks + there].push(Reverse((dearer, site)));
            }
        }
        let direct: Vec<u32> = load
            .iter()
            .zip(&problem.base)
            .map(|(l, b)| *l.min(b))
            .collect();
        Self {
            problem,
            sinks,
            flow,
            excess: load.iter().zip(&direct).map(|(l, d)| l - d).collect(),
            direct,
            through_hub: vec![false; sinks],
            hub_used: 0,
            moves: moves.into_iter().map(BinaryHeap::from).collect(),
            potential: vec![0; sinks + 2],
            distance: vec![FAR; sinks + 2],
            previous: vec![usize::MAX; sinks + 2],
        }
    }

    fn hub(&self) -> usize {
        self.sinks
    }

    fn end(&self) -> usize {
        self.sinks + 1
    }

    /// Cost of the step between two vertices of the residual graph, or `None` when there is none.
    fn step(&mut self, from: usize, to: usize) -> Option<i64> {
        let (hub, end) = (self.hub(), self.end());
        let is_open = if from == hub {
            if to == end {
                self.hub_used < self.problem.extra
            } else {
                self.through_hub[to]
            }
        } else if to == hub {
            !self.through_hub[from]
        } else if to == end {
            self.direct[from] < self.problem.base[from]
        } else {
            return self.cheapest_move(from, to).map(|(dearer, _)| dearer);
        };
        is_open.then_some(0)
    }

    /// The unit of sink `from` that is cheapest to move to sink `to`.
    fn cheapest_move(&mut self, from: usize, to: usize) -> Option<(i64, u32)> {
        let heap = &mut self.moves[from * self.sinks + to];
        while let Some(&Reverse((dearer, site))) = heap.peek() {
            if self.flow[site as usize * self.sinks + from] > 0 {
                return Some((dearer, site));
            }
            heap.pop();
        }
        None
    }

    /// Finds a shortest path from a sink to T and updates the potentials; `None` without a path.
    fn search(&mut self, source: usize) -> Option<()> {
        let end = self.end();
        self.distance.fill(FAR);
        self.distance[source] = 0;
        let mut done = vec![false; end + 1];
        loop {
            let open = (0..=end).filter(|&v| !done[v] && self.distance[v] < FAR);
            let nearest = open.min_by_key(|&v| self.distance[v])?;
            if nearest == end {
                break;
            }
            done[nearest] = true;
            for to in (0..=end).filter(|&to| to != nearest) {
                if done[to] {
                    continue;
                }
                let Some(cost) = self.step(nearest, to) else {
                    continue;
                };
                let reduced = cost + self.potential[nearest] - self.potential[to];
                let distance = self.distance[nearest] + reduced;
                if distance < self.distance[to] {
                    self.distance[to] = distance;
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
            if to == end {
                if from == hub {
                    self.hub_used += 1;
                } else {
                    self.direct[from] += 1;
                }
            } else if to == hub {
                self.through_hub[from] = true;
            } else if from == hub {
                self.through_hub[to] = false;
            } else if let Some((_, site)) = self.cheapest_move(from, to) {
                self.shift(site, from, to);
            }
            to = from;
        }
    }

    fn shift(&mut self, site: u32, from: usize, to: usize) {
        let first = site as usize * self.sinks;
        self.flow[first + from] -= 1;
        self.flow[first + to] += 1;
        if self.flow[first + to] > 1 {
            return;
        }
        let cost = |sink| i64::from(self.problem.cost(site, sink));
        for other in (0..self.sinks).filter(|&other| other != to) {
            let dearer = cost(other) - cost(to);
            self.moves[to * self.sinks + other].push(Reverse((dearer, site)));
        }
    }
}
