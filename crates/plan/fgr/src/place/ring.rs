//! One dimension of a torus: the streams of a seat along it, and the links that these streams can
//! make the hottest.
//!
//! ```text
//!   streams to a seat S      ─▶ 1 ─▶ 3 ─▶ 4 ─▶ S ◀─ 5 ◀─ 2 ◀─     units grow towards S
//!   capacity of the links       1    9    9      9    9    1
//!                               ▲         ▲      ▲         ▲      the hottest is one of these
//! ```
//!
//! On the path to a seat, every link carries at least as much as the links before it, whichever
//! seats the streams are for. The hottest link of a ring is therefore either the last link before a
//! seat, or a link with less capacity than every link between it and the next seat. For streams
//! from seats the same holds in reverse.

use crate::topology::{Crossing, Direction, Grid, Tie};

/// Units that one instruction multiplies. The lengths of unit vectors are multiples of this number.
const LANES: usize = 8;

/// A direction of traffic, relative to seats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Side {
    /// From clients to a seat.
    #[default]
    Write,
    /// From a seat to clients.
    Read,
}

/// One dimension: distances, and the paths of streams to or from seats.
pub(super) struct Ring {
    pub(super) size: usize,
    pub(super) cost: i64,
    /// Length of a unit vector: one unit for each position, padded with zeros.
    pub(super) lanes: usize,
    distance: Vec<i64>,
    /// Distance by position, stored twice in a row, so that it can be read from any position.
    distances: Vec<i16>,
    /// Halves of a unit that a link carries of one unit at a position. Link and position are
    /// relative to the seat. One row for each link, each stored twice.
    shares: Vec<i16>,
    /// The links that a seat at a position can make the hottest, by position.
    links: Vec<Vec<Link>>,
    /// The largest scale of a link.
    pub(super) steepest: f32,
}

/// A link of a ring.
#[derive(Clone, Copy)]
pub(super) struct Link {
    /// Position of the start of the link. Links down are counted after all links up.
    pub(super) index: usize,
    /// The inverse of the capacity in halves of a unit.
    pub(super) scale: f32,
    /// Index of the link's shares for the seat to which it belongs.
    pub(super) own: usize,
}

impl Ring {
    /// Makes a dimension of the grid, with the paths of streams of this direction.
    pub(super) fn new(grid: &Grid, d: usize, tie: Tie, side: Side) -> Self {
        let dimension = &grid.dimensions()[d];
        let size = usize::from(dimension.size);
        let distance = (0..dimension.size).map(|p| i64::from(grid.distance(d, 0, p)));
        let row = 2 * size + LANES;
        let mut ring = Self {
            size,
            cost: i64::from(dimension.cost),
            lanes: size.next_multiple_of(LANES),
            distance: distance.collect(),
            distances: (0..row)
                .map(|p| grid.distance(d, 0, (p % size) as u16).cast_signed())
                .collect(),
            shares: vec![0; 2 * size * row],
            links: Vec::new(),
            steepest: 0.0,
        };
        for there in 1..dimension.size {
            let (from, to) = match side {
                Side::Write => (there, 0),
                Side::Read => (0, there),
            };
            let up = match grid.crossing(d, from, to, tie) {
                Crossing::Both => 1,
                Crossing::One(Direction::Plus) => 2,
                _ => 0,
            };
            ring.add_stream(usize::from(from), usize::from(to), up);
        }
        let capacity = |p: usize| dimension.capacity[p % dimension.capacity.len()];
        let links = (0..size).map(|at| ring.hottest(at, side, &capacity));
        ring.links = links.collect();
        let scales = ring.links.iter().flatten().map(|link| link.scale);
        ring.steepest = scales.fold(0.0, f32::max);
        ring
    }

    /// Adds the stream between a seat at position 0 and another position to the shares of its
    /// links.
    fn add_stream(&mut self, from: usize, to: usize, up: i16) {
        let distance = self.minus(to, from);
        let there = from.max(to);
        for d in 0..self.size {
            let (link, share) = if d < distance {
                (self.plus(from, d), up)
            } else {
                (self.size + self.minus(from, d - distance), 2 - up)
            };
            let row = link * (2 * self.size + LANES);
            let row = &mut self.shares[row..row + 2 * self.size + LANES];
            for share_of in row[there..].iter_mut().step_by(self.size) {
                *share_of = share;
            }
        }
    }

    /// Returns the links that a seat can make the hottest: the nearest one, and each one with less
    /// capacity than all nearer links.
    fn hottest(&self, at: usize, side: Side, capacity: &impl Fn(usize) -> f64) -> Vec<Link> {
        let mut links = Vec::new();
        for is_up in [true, false] {
            let mut most = 0.0;
            for d in 0..self.size {
                let leaves = match (side, is_up) {
                    (Side::Write, true) => self.minus(self.minus(at, d), 1),
                    (Side::Write, false) => self.plus(self.plus(at, d), 1),
                    (Side::Read, true) => self.plus(at, d),
                    (Side::Read, false) => self.minus(at, d),
                };
                let (index, capacity) = if is_up {
                    (leaves, capacity(leaves))
                } else {
                    (self.size + leaves, capacity(self.minus(leaves, 1)))
                };
                // The precision of a ring's load only ranks placements.
                let scale = (0.5 / capacity) as f32;
                let row = self.row(index, at);
                let mut shares = self.shares[row..row + self.lanes].iter();
                if scale > most && shares.any(|&share| share > 0) {
                    most = scale;
                    links.push(Link {
                        index,
                        scale,
                        own: row,
                    });
                }
            }
        }
        links
    }

    pub(super) fn between(&self, a: usize, b: usize) -> i64 {
        self.distance[a.abs_diff(b)]
    }

    /// The links that a seat at this position can make the hottest.
    pub(super) fn links(&self, at: usize) -> &[Link] {
        &self.links[at]
    }

    /// Index of a link's shares for a seat at a position.
    pub(super) fn row(&self, link: usize, at: usize) -> usize {
        let seen = if link < self.size {
            self.minus(link, at)
        } else {
            self.size + self.minus(link - self.size, at)
        };
        seen * (2 * self.size + LANES) + self.size - at
    }

    /// Halves of a unit that a link carries of one unit between a position and a seat.
    pub(super) fn share(&self, row: usize, from: usize) -> i32 {
        self.shares[row + from].into()
    }

    /// Halves of units on a link for these streams of a seat.
    #[inline]
    pub(super) fn flow(&self, row: usize, units: &[i16]) -> i32 {
        dot(&self.shares[row..row + self.lanes], units)
    }

    /// Hops of these units between their positions and a seat.
    pub(super) fn hops(&self, at: usize, units: &[i16]) -> i64 {
        let first = self.size - at;
        dot(&self.distances[first..first + self.lanes], units).into()
    }

    /// For each two positions, a bit for each position that is nearer to the first of them.
    pub(super) fn nearer(&self) -> Vec<u64> {
        let pairs = (0..self.size).flat_map(|a| (0..self.size).map(move |b| (a, b)));
        let of = |(a, b)| {
            let near = (0..self.size).filter(|&x| self.between(x, a) < self.between(x, b));
            near.fold(0, |set, x| set | 1 << x)
        };
        pairs.map(of).collect()
    }

    fn plus(&self, at: usize, by: usize) -> usize {
        let sum = at + by;
        if sum >= self.size {
            sum - self.size
        } else {
            sum
        }
    }

    fn minus(&self, at: usize, by: usize) -> usize {
        if at >= by {
            at - by
        } else {
            at + self.size - by
        }
    }
}

/// The sum of the products of two vectors of whole lanes, in a form that compilers turn into one
/// instruction.
#[inline]
fn dot(a: &[i16], b: &[i16]) -> i32 {
    let lanes = a.as_chunks::<LANES>().0.iter().zip(b.as_chunks().0);
    let product = |(a, b): (&[i16; LANES], &[i16; LANES])| -> i32 {
        let each = a.iter().zip(b);
        each.map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
    };
    lanes.map(product).sum()
}

/// Adds a vector of whole lanes to another.
pub(super) fn add(sums: &mut [i16], more: &[i16]) {
    let more = more.as_chunks::<LANES>().0.iter();
    for (sums, more) in sums.as_chunks_mut::<LANES>().0.iter_mut().zip(more) {
        for (sum, more) in sums.iter_mut().zip(more) {
            *sum += more;
        }
    }
}

/// Subtracts a vector of whole lanes from another.
pub(super) fn subtract(sums: &mut [i16], less: &[i16]) {
    let less = less.as_chunks::<LANES>().0.iter();
    for (sums, less) in sums.as_chunks_mut::<LANES>().0.iter_mut().zip(less) {
        for (sum, less) in sums.iter_mut().zip(less) {
            *sum -= less;
        }
    }
}

/// The larger of two numbers, in a form that compilers turn into one instruction.
pub(super) fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::topology::{Dimension, Vertex};

    proptest! {
        #[test]
        fn the_hottest_link_of_a_ring_is_one_of_those_of_its_seats(
            capacity in prop::collection::vec(1_u8..4, 2..24),
            units in prop::collection::vec((0_usize..24, prop::collection::vec(0_i16..9, 24)), 1..4),
            tie in prop::sample::select(vec![Tie::Split, Tie::Plus, Tie::Minus]),
            side in prop::sample::select(vec![Side::Write, Side::Read]),
        ) {
            let size = capacity.len();
            let grid = Grid::new(vec![Dimension {
                name: "x".to_owned(),
                size: size as u16,
                wrap: true,
                cost: 1,
                capacity: capacity.into_iter().map(f64::from).collect(),
            }]).unwrap();
            let ring = Ring::new(&grid, 0, tie, side);
            let seats: Vec<_> = units.into_iter().map(|(at, mut units)| {
                units.resize(ring.lanes, 0);
                units[size.min(24)..].fill(0);
                (at % size, units)
            }).collect();
            let mut loads = vec![0.0; grid.link_slots() as usize];
            for (at, units) in &seats {
                for (from, &units) in units.iter().enumerate().take(size) {
                    let ends = [Vertex(from as u32), Vertex(*at as u32)];
                    let [from, to] = if side == Side::Write { ends } else { [ends[1], ends[0]] };
                    grid.walk(from, to, tie, &mut |link, share| {
                        loads[link.0 as usize] += share * f64::from(units);
                    });
                }
            }
            let slots = (0..).map(crate::topology::Link).zip(&loads);
            let wanted = slots.filter_map(|(link, load)| grid.capacity(link).map(|c| load / c));
            let wanted = wanted.fold(0.0, f64::max);
            let links = seats.iter().flat_map(|(at, _)| ring.links(*at));
            let heat = |link: &Link| {
                let flows = seats.iter().map(|(at, units)| ring.flow(ring.row(link.index, *at), units));
                flows.sum::<i32>() as f32 * link.scale
            };
            let found = links.map(heat).fold(0.0, f32::max);
            prop_assert!((f64::from(found) - wanted).abs() < 1e-4, "{found} {wanted}");
        }
    }
}
