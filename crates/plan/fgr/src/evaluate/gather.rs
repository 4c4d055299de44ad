//! Gathers the streams of a plan dimension by dimension, for the loads of a grid's links.
//!
//! ```text
//!   write    (x, y, z) ──x──▶ (X, y, z) ──y──▶ (X, Y, z) ──z──▶ (X, Y, Z)    router at X, Y, Z
//!   streams   by x, y, z       by y, z          by z
//!
//!   read     (X, Y, Z) ──x──▶ (x, Y, Z) ──y──▶ (x, y, Z) ──z──▶ (x, y, z)
//!   streams   by x             by x, y          by x, y, z
//! ```
//!
//! Routing is dimension ordered. Behind the first dimension, everything that the clients of one
//! line write to a router is one stream; everything that the clients of one line read from a router
//! is one stream until the last dimension. Clients are visited line by line. Their units are
//! counted by place of the router and position on the line. At the end of a line, a running sum
//! from its far end towards the place gives the loads of its links, and the sum of the line moves
//! on to the next dimension.
//!
//! Loads are integers in halves of a unit, because a split tie sends half in each direction. The
//! order of additions therefore does not affect the loads.

use std::collections::BTreeMap;

use crate::evaluate::loads::{Streams, Traffic};
use crate::evaluate::rings::Positions;
use crate::topology::{Crossing, Direction, Grid, Tie};

/// Returns the loads of all links for one direction of traffic: halves of a unit by dimension,
/// direction and start of the link.
pub(super) fn gather(
    streams: &Streams<'_>,
    (grid, tie): (&Grid, Tie),
    positions: &Positions,
    traffic: Traffic,
) -> Vec<i64> {
    let mut gather = Gather::new(streams, (grid, tie), traffic);
    for row in gather.order(streams, positions) {
        gather.go_to(positions.of(streams.vertex(row as usize)));
        let position = usize::from(gather.at[0]);
        let Some(first) = gather.levels.first_mut() else {
            continue;
        };
        // Clients are below 2^24, parts of a unit below 2^32.
        streams.of_row(row as usize, |place, parts| {
            first.add(place, position, parts as i64);
        });
    }
    for step in 0..gather.levels.len() {
        gather.end_line(step);
    }
    gather.loads
}

/// The streams of one direction of traffic.
struct Gather<'a> {
    grid: &'a Grid,
    traffic: Traffic,
    /// The dimensions, in the order in which they are completed.
    levels: Vec<Level>,
    /// The coordinates of the current clients, in that order.
    at: Vec<u16>,
    /// What the coordinates after each one add to the number of a vertex, in that order.
    ahead: Vec<u32>,
    loads: Vec<i64>,
}

/// One dimension: the streams along the current line.
#[derive(Default)]
struct Level {
    dimension: usize,
    size: usize,
    line: Line,
    /// The distinct ends of streams: a position, and what the coordinates of completed dimensions
    /// add to the number of a vertex.
    ends: Vec<(usize, u32)>,
    /// The end of each place.
    end_of: Vec<usize>,
    /// Units by end and position on the line.
    units: Vec<i64>,
    /// Sums by place.
    sums: Vec<i64>,
    /// The places whose sum is not 0, and scratch memory for their ends.
    used: Vec<usize>,
    used_ends: Vec<usize>,
}

impl Level {
    /// Adds units, never negative, at one position of the line.
    fn add(&mut self, place: usize, position: usize, units: i64) {
        if units == 0 {
            return;
        }
        self.units[self.end_of[place] * self.size + position] += units;
        let sum = &mut self.sums[place];
        if *sum == 0 {
            self.used.push(place);
        }
        *sum += units;
    }

    /// Returns the ends of the places in use, each once.
    fn take_ends(&mut self) -> Vec<usize> {
        let mut ends = std::mem::take(&mut self.used_ends);
        ends.clear();
        ends.extend(self.used.iter().map(|&place| self.end_of[place]));
        ends.sort_unstable();
        ends.dedup();
        ends
    }
}

/// The paths along a dimension.
#[derive(Default)]
struct Line {
    size: usize,
    /// Hops of the longest path.
    reach: usize,
    /// Halves of a stream between two positions that go up, then those that go down. The position
    /// where all streams meet is first.
    halves: [Vec<i64>; 2],
}

impl Line {
    fn new((grid, tie): (&Grid, Tie), dimension: usize, traffic: Traffic) -> Self {
        let size = grid.dimensions()[dimension].size;
        let pairs = (0..size).flat_map(|a| (0..size).map(move |b| (a, b)));
        let up = pairs.map(|(there, end)| {
            let (from, to) = match traffic {
                Traffic::Write => (end, there),
                Traffic::Read => (there, end),
            };
            match grid.crossing(dimension, from, to, tie) {
                Crossing::Both => 1,
                Crossing::One(Direction::Plus) => 2,
                _ => 0,
            }
        });
        let up: Vec<i64> = up.collect();
        let down = up.iter().map(|halves| 2 - halves).collect();
        let reach = if grid.dimensions()[dimension].wrap {
            size / 2
        } else {
            size - 1
        };
        Self {
            size: size.into(),
            reach: reach.into(),
            halves: [up, down],
        }
    }

    /// Adds the streams between all positions and one of them to the links that go up or down.
    fn cross(
        &self,
        (traffic, direction): (Traffic, Direction),
        (there, units): (usize, &[i64]),
        mut add: impl FnMut(usize, i64),
    ) {
        let is_up = direction == Direction::Plus;
        let is_below = is_up == (traffic == Traffic::Write);
        let first = there * self.size;
        let halves = &self.halves[usize::from(!is_up)][first..first + self.size];
        let (before, behind) = (
            |position: usize| position.checked_sub(1).unwrap_or(self.size - 1),
            |position: usize| {
                if position + 1 == self.size {
                    0
                } else {
                    position + 1
                }
            },
        );
        let far = if is_below {
            there + self.size - self.reach
        } else {
            there + self.reach
        };
        let mut end = if far >= self.size {
            far - self.size
        } else {
            far
        };
        let mut sum = 0;
        for _ in 0..self.reach {
            sum += units[end] * halves[end];
            let next = if is_below { behind(end) } else { before(end) };
            // A link is counted at its start: for writes `end`, for reads the position on the other
            // side.
            add(if traffic == Traffic::Write { end } else { next }, sum);
            end = next;
        }
    }
}

impl<'a> Gather<'a> {
    fn new(streams: &Streams<'_>, (grid, tie): (&'a Grid, Tie), traffic: Traffic) -> Self {
        let mut dimensions: Vec<usize> = (0..grid.dimensions().len()).collect();
        if traffic == Traffic::Read {
            dimensions.reverse();
        }
        let count = streams.places.len();
        let mut bases = vec![0; count];
        let level = |&d: &usize| {
            let line = Line::new((grid, tie), d, traffic);
            let mut level = Level {
                dimension: d,
                size: line.size,
                line,
                ..Level::default()
            };
            let mut ends = BTreeMap::new();
            for (&vertex, base) in streams.places.iter().zip(&mut bases) {
                let position = grid.position(vertex, d);
                let end = (usize::from(position), *base);
                level
                    .end_of
                    .push(*ends.entry(end).or_insert(level.ends.len()));
                if level.ends.len() < ends.len() {
                    level.ends.push(end);
                }
                *base += u32::from(position) * grid.stride(d);
            }
            level.units = vec![0; ends.len() * level.size];
            level.sums = vec![0; count];
            level
        };
        Self {
            grid,
            traffic,
            levels: dimensions.iter().map(level).collect(),
            at: vec![0; dimensions.len()],
            ahead: vec![0; dimensions.len()],
            loads: vec![0; grid.link_slots() as usize],
        }
    }

    /// Orders the rows of the plan so that the dimension that is completed first changes fastest.
    fn order(&self, streams: &Streams<'_>, positions: &Positions) -> Vec<u32> {
        let number = |row: usize| {
            let at = positions.of(streams.vertex(row));
            let levels = self.levels.iter().rev();
            levels.fold(0, |number, level| {
                number * level.size + usize::from(at[level.dimension])
            })
        };
        // Counting sort: the numbers are as dense as vertices.
        let rows = streams.rows();
        let mut ends = vec![0_u32; self.grid.vertices() as usize];
        let numbers: Vec<usize> = (0..rows).map(number).collect();
        numbers.iter().for_each(|&number| ends[number] += 1);
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        let mut order = vec![0; rows];
        for (row, &number) in numbers.iter().enumerate().rev() {
            ends[number] -= 1;
            // There are no more rows than clients.
            order[ends[number] as usize] = row as u32;
        }
        order
    }

    /// Moves on to the clients at these coordinates, and completes the lines that these clients are
    /// not on.
    fn go_to(&mut self, at: &[u16]) {
        let changed = |&step: &usize| self.at[step] != at[self.levels[step].dimension];
        let last = (0..self.levels.len()).rev().find(changed).unwrap_or(0);
        for step in 0..last {
            self.end_line(step);
        }
        let mut sum = 0;
        for (step, level) in self.levels.iter().enumerate().rev() {
            self.at[step] = at[level.dimension];
            self.ahead[step] = sum;
            sum += u32::from(self.at[step]) * self.grid.stride(level.dimension);
        }
    }

    /// Adds the loads of the links of a line, and carries its streams to the next dimension.
    fn end_line(&mut self, step: usize) {
        let mut level = std::mem::take(&mut self.levels[step]);
        let (stride, vertices) = (
            self.grid.stride(level.dimension) as usize,
            self.grid.vertices() as usize,
        );
        let ends = level.take_ends();
        for &end in &ends {
            let (there, base) = level.ends[end];
            let units = &mut level.units[end * level.size..(end + 1) * level.size];
            let start = (base + self.ahead[step]) as usize;
            for (side, direction) in [Direction::Plus, Direction::Minus].into_iter().enumerate() {
                let first = (2 * level.dimension + side) * vertices + start;
                let way = (self.traffic, direction);
                level.line.cross(way, (there, units), |link, halves| {
                    self.loads[first + link * stride] += halves;
                });
            }
            units.fill(0);
        }
        level.used_ends = ends;
        for place in level.used.drain(..) {
            let sum = std::mem::take(&mut level.sums[place]);
            if let Some(next) = self.levels.get_mut(step + 1) {
                next.add(place, self.at[step + 1].into(), sum);
            }
        }
        self.levels[step] = level;
    }
}
