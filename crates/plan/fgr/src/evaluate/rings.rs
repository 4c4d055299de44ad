//! Link loads of a grid from differences instead of walked paths.
//!
//! A message crosses each dimension along one stretch of one ring. A stream of `u` units adds `u`
//! at the first link of the stretch and subtracts `u` behind the last link: two additions for any
//! length. At the end one running sum over every ring gives the load of each link.
//!
//! ```text
//!   stretch 2 → 5 of a ring    diff   0  0 +u  0  0 -u  0        sum   0 0 u u u 0 0
//!   stretch 5 → 1 round it     diff  +u -u  0  0  0 +u  0        sum   u 0 0 0 0 u u
//! ```
//!
//! Loads are integers in halves of a unit, because a split tie sends half in each direction. The
//! order of additions therefore does not affect the loads.

use std::sync::Arc;

use crate::topology::{Crossing, Direction, Grid, Tie, Vertex};

/// Halves in a unit.
const HALVES: i64 = 2;

/// The position of every vertex along every dimension, as a table instead of divisions.
pub(super) struct Positions {
    dimensions: usize,
    of: Vec<u16>,
}

impl Positions {
    pub(super) fn new(grid: &Grid) -> Self {
        let dimensions = grid.dimensions();
        let mut of = Vec::with_capacity(grid.vertices() as usize * dimensions.len());
        let mut at = vec![0; dimensions.len()];
        for _ in 0..grid.vertices() {
            of.extend_from_slice(&at);
            for (position, dimension) in at.iter_mut().zip(dimensions).rev() {
                *position += 1;
                if *position < dimension.size {
                    break;
                }
                *position = 0;
            }
        }
        Self {
            dimensions: dimensions.len(),
            of,
        }
    }

    pub(super) fn of(&self, vertex: Vertex) -> &[u16] {
        let first = vertex.0 as usize * self.dimensions;
        &self.of[first..first + self.dimensions]
    }
}

/// Differences along every ring of a grid, in both directions.
#[derive(Clone)]
pub(super) struct Rings<'a> {
    grid: &'a Grid,
    positions: Arc<Positions>,
    /// How messages get from one position to another, by dimension.
    crossings: Arc<[Vec<Crossing>]>,
    /// Differences by dimension, direction and vertex.
    differences: Vec<i64>,
}

impl<'a> Rings<'a> {
    pub(super) fn new(grid: &'a Grid, tie: Tie) -> Self {
        let dimensions = grid.dimensions();
        let vertices = grid.vertices();
        let crossings = (0..dimensions.len())
            .map(|d| {
                let size = dimensions[d].size;
                let pairs = (0..size).flat_map(|a| (0..size).map(move |b| (a, b)));
                pairs.map(|(a, b)| grid.crossing(d, a, b, tie)).collect()
            })
            .collect();
        Self {
            grid,
            positions: Arc::new(Positions::new(grid)),
            crossings,
            differences: vec![0; 2 * dimensions.len() * vertices as usize],
        }
    }

    /// Adds a stream of `units`, which may be negative, from one vertex to another.
    pub(super) fn add(&mut self, from: Vertex, to: Vertex, units: i64) {
        let dimensions = self.grid.dimensions().len();
        let positions = Arc::clone(&self.positions);
        let (here, there) = (positions.of(from), positions.of(to));
        let mut at = from.0;
        for d in 0..dimensions {
            let stride = self.grid.stride(d);
            let start = at - u32::from(here[d]) * stride;
            self.add_along(d, start, (here[d], there[d]), units);
            at = start + u32::from(there[d]) * stride;
        }
    }

    /// Adds a stream from one position to another of the ring that starts at vertex `start`.
    fn add_along(&mut self, d: usize, start: u32, (a, b): (u16, u16), units: i64) {
        let (a, b, start) = (usize::from(a), usize::from(b), start as usize);
        let size = usize::from(self.grid.dimensions()[d].size);
        match self.crossings[d][a * size + b] {
            Crossing::Same => {}
            Crossing::One(direction) => {
                self.stretch(d, direction, start, (a, b), units * HALVES);
            }
            Crossing::Both => {
                self.stretch(d, Direction::Plus, start, (a, b), units);
                self.stretch(d, Direction::Minus, start, (a, b), units);
            }
        }
    }

    /// Adds to the links from position `a` to position `b` of the ring that starts at `start`.
    fn stretch(
        &mut self,
        d: usize,
        direction: Direction,
        start: usize,
        (a, b): (usize, usize),
        halves: i64,
    ) {
        let stride = self.grid.stride(d) as usize;
        let size = usize::from(self.grid.dimensions()[d].size);
        let vertices = self.grid.vertices() as usize;
        // A link belongs to the vertex at its start: a, …, b - 1 upwards, b + 1, …, a downwards.
        let (plane, first, behind) = match direction {
            Direction::Plus => (2 * d, a, b),
            Direction::Minus => (2 * d + 1, b + 1, a + 1),
        };
        let ring = plane * vertices + start;
        let first = if first == size { 0 } else { first };
        self.differences[ring + first * stride] += halves;
        if behind < size {
            self.differences[ring + behind * stride] -= halves;
        }
        // The stretch passes the end of the ring and also covers its beginning.
        if behind <= first && behind < size {
            self.differences[ring] += halves;
        }
    }

    /// Calls `visit` for every link with its dimension, direction, start, and load in halves of a
    /// unit.
    pub(super) fn each(&self, mut visit: impl FnMut(usize, Direction, u32, i64)) {
        let vertices = self.grid.vertices();
        let mut sums = Vec::new();
        for (d, dimension) in self.grid.dimensions().iter().enumerate() {
            let stride = self.grid.stride(d);
            for (side, direction) in [Direction::Plus, Direction::Minus].into_iter().enumerate() {
                let plane = (2 * d + side) * vertices as usize;
                let plane = &self.differences[plane..plane + vertices as usize];
                // Rings side by side, position by position: the order of the numbers in memory.
                let mut lines = (0..)
                    .step_by(stride as usize)
                    .zip(plane.chunks(stride as usize));
                for _ in 0..vertices / (stride * u32::from(dimension.size)) {
                    sums.clear();
                    sums.resize(stride as usize, 0);
                    for (first, line) in lines.by_ref().take(dimension.size.into()) {
                        for ((vertex, load), &more) in (first..).zip(&mut sums).zip(line) {
                            *load += more;
                            visit(d, direction, vertex, *load);
                        }
                    }
                }
            }
        }
    }
}
