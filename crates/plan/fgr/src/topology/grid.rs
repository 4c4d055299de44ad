//! Tori and meshes of any number of dimensions.
//!
//! The last dimension varies fastest in the numbers of vertices. Each vertex has two outgoing links
//! per dimension, `+` to the next position and `-` to the previous one. In a dimension that does
//! not wrap, the vertices at the border have no outward link.
//!
//! ```text
//!   position   0 ──+──▶ 1 ──+──▶ 2 ──+──▶ … N-1 ──+──▶ 0     (the last step only with wrap)
//!   capacity     c[0]     c[1]     c[2]       c[N-1]         the same in both directions
//! ```
//!
//! Routing is dimension ordered: messages cross the first dimension first, each in the shorter
//! direction. If both directions round a ring are equally long, [`Tie`] decides.

use smallvec::SmallVec;

use crate::rates::is_rate;
use crate::topology::{Link, MAX_COST, MAX_LINKS, MAX_SIZE, MAX_VERTICES, TopologyError, Vertex};

/// Position of a vertex in each dimension.
pub type Coordinates = SmallVec<[u16; 6]>;

/// Most dimensions of a grid.
const MAX_DIMENSIONS: usize = 8;

/// One dimension of a [`Grid`].
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    /// Its name in reports: `x`.
    pub name: String,
    /// Number of positions.
    pub size: u16,
    /// Whether the last position is next to the first.
    pub wrap: bool,
    /// Cost of one hop.
    pub cost: u32,
    /// GB/s of the link between positions `p` and `p + 1` in either direction, repeated along the
    /// dimension; its length divides `size`.
    pub capacity: Vec<f64>,
}

/// Which direction round a ring messages take if both are equally long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tie {
    /// Half of the messages in each direction.
    #[default]
    Split,
    /// Towards higher positions.
    Plus,
    /// Towards lower positions.
    Minus,
}

/// A direction along a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Towards higher positions.
    Plus,
    /// Towards lower positions.
    Minus,
}

/// How messages cross one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// They do not: both ends have the same position.
    Same,
    /// All messages in one direction.
    One(Direction),
    /// Half of the messages in each direction.
    Both,
}

/// What a [`Link`] of a grid joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridLink {
    /// The vertex at which the link starts.
    pub from: Vertex,
    /// Index of the dimension along which the link runs.
    pub dimension: usize,
    /// Direction of the link.
    pub direction: Direction,
}

/// A torus or mesh.
///
/// Methods take a dimension as its index in [`Grid::dimensions`]. They panic if there is no such
/// dimension, as a slice does.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    dimensions: Vec<Dimension>,
    strides: Vec<u32>,
    vertices: u32,
}

impl Grid {
    /// Creates a grid of these dimensions, in routing order.
    ///
    /// # Errors
    ///
    /// No dimensions, too many dimensions or vertices, a size of 0, or capacities that do not fit.
    pub fn new(dimensions: Vec<Dimension>) -> Result<Self, TopologyError> {
        if dimensions.is_empty() || dimensions.len() > MAX_DIMENSIONS {
            return Err(TopologyError::Dimensions(dimensions.len()));
        }
        dimensions.iter().try_for_each(check)?;
        let mut strides = vec![1; dimensions.len()];
        let mut vertices = 1_u32;
        for (stride, dimension) in strides.iter_mut().zip(&dimensions).rev() {
            *stride = vertices;
            vertices = vertices
                .checked_mul(u32::from(dimension.size))
                .filter(|&product| product <= MAX_VERTICES)
                .ok_or(TopologyError::TooLarge("the grid"))?;
        }
        // At most 2^22 vertices with 16 links each: MAX_LINKS is never exceeded.
        debug_assert!(vertices * 2 * dimensions.len() as u32 <= MAX_LINKS);
        Ok(Self {
            dimensions,
            strides,
            vertices,
        })
    }

    /// The dimensions in routing order.
    #[must_use]
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// Number of vertices.
    #[must_use]
    pub fn vertices(&self) -> u32 {
        self.vertices
    }

    /// One more than the highest link number.
    #[must_use]
    pub fn link_slots(&self) -> u32 {
        self.vertices * self.ports()
    }

    fn ports(&self) -> u32 {
        2 * self.dimensions.len() as u32
    }

    /// Difference between the numbers of two neighbours along a dimension.
    #[must_use]
    pub fn stride(&self, dimension: usize) -> u32 {
        self.strides[dimension]
    }

    /// Returns the vertex at these coordinates, or `None` if they are outside the grid or have
    /// another number of dimensions.
    #[must_use]
    pub fn vertex(&self, coordinates: &[u16]) -> Option<Vertex> {
        if coordinates.len() != self.dimensions.len() {
            return None;
        }
        let mut index = 0;
        for (d, &position) in coordinates.iter().enumerate() {
            if position >= self.dimensions[d].size {
                return None;
            }
            index += u32::from(position) * self.strides[d];
        }
        Some(Vertex(index))
    }

    /// Coordinates of a vertex.
    #[must_use]
    pub fn coordinates(&self, vertex: Vertex) -> Coordinates {
        (0..self.dimensions.len())
            .map(|d| self.position(vertex, d))
            .collect()
    }

    /// Position of a vertex along one dimension.
    #[must_use]
    pub fn position(&self, vertex: Vertex, dimension: usize) -> u16 {
        let size = u32::from(self.dimensions[dimension].size);
        (vertex.0 / self.strides[dimension] % size) as u16
    }

    /// Number of hops between two positions of a dimension.
    #[must_use]
    pub fn distance(&self, dimension: usize, a: u16, b: u16) -> u16 {
        let direct = a.abs_diff(b);
        let dimension = &self.dimensions[dimension];
        if dimension.wrap {
            direct.min(dimension.size - direct)
        } else {
            direct
        }
    }

    /// Offset of position `to` from position `from`: in `[-⌊N/2⌋, ⌈N/2⌉)` on a ring of `N`
    /// positions, the plain difference without wrap.
    #[must_use]
    pub fn offset(&self, dimension: usize, from: u16, to: u16) -> i32 {
        let difference = i32::from(to) - i32::from(from);
        let dimension = &self.dimensions[dimension];
        if dimension.wrap {
            let size = i32::from(dimension.size);
            (difference + size / 2).rem_euclid(size) - size / 2
        } else {
            difference
        }
    }

    /// How messages cross a dimension.
    #[must_use]
    pub fn crossing(&self, dimension: usize, from: u16, to: u16, tie: Tie) -> Crossing {
        if from == to {
            return Crossing::Same;
        }
        let Dimension { size, wrap, .. } = self.dimensions[dimension];
        let up = if to > from {
            to - from
        } else {
            size - (from - to)
        };
        let plus = if wrap { up <= size - up } else { to > from };
        if wrap && up == size - up {
            return match tie {
                Tie::Split => Crossing::Both,
                Tie::Plus => Crossing::One(Direction::Plus),
                Tie::Minus => Crossing::One(Direction::Minus),
            };
        }
        Crossing::One(if plus {
            Direction::Plus
        } else {
            Direction::Minus
        })
    }

    /// Number of hops from `a` to `b`.
    #[must_use]
    pub fn hops(&self, a: Vertex, b: Vertex) -> u32 {
        self.sum(a, b, |_, hops| hops)
    }

    /// Cost of the path from `a` to `b`: the sum of the costs of its hops.
    #[must_use]
    pub fn cost(&self, a: Vertex, b: Vertex) -> u32 {
        self.sum(a, b, |dimension, hops| hops * dimension.cost)
    }

    fn sum(&self, a: Vertex, b: Vertex, weigh: impl Fn(&Dimension, u32) -> u32) -> u32 {
        (0..self.dimensions.len())
            .map(|d| {
                let hops = self.distance(d, self.position(a, d), self.position(b, d));
                weigh(&self.dimensions[d], u32::from(hops))
            })
            .sum()
    }

    /// The links that leave a vertex, each with the vertex at its other end.
    pub fn neighbours(&self, vertex: Vertex) -> impl Iterator<Item = (Link, Vertex)> + '_ {
        (0..self.dimensions.len())
            .flat_map(|d| [(d, Direction::Plus), (d, Direction::Minus)])
            .filter_map(move |(d, direction)| {
                let next = self.step(vertex, d, direction)?;
                Some((self.slot(vertex, d, direction), next))
            })
    }

    /// Returns the next vertex along a dimension, or `None` at a border.
    #[must_use]
    pub fn step(&self, from: Vertex, dimension: usize, direction: Direction) -> Option<Vertex> {
        let Dimension { size, wrap, .. } = self.dimensions[dimension];
        let position = self.position(from, dimension);
        let next = match direction {
            Direction::Plus if position + 1 < size => position + 1,
            Direction::Plus if wrap => 0,
            Direction::Minus if position > 0 => position - 1,
            Direction::Minus if wrap => size - 1,
            _ => return None,
        };
        let base = from.0 - u32::from(position) * self.strides[dimension];
        // In a dimension of one position, every step would return to its start.
        (size > 1).then(|| Vertex(base + u32::from(next) * self.strides[dimension]))
    }

    /// Returns the number of the link that leaves a vertex in this direction, even if there is no
    /// such link.
    #[must_use]
    pub fn slot(&self, from: Vertex, dimension: usize, direction: Direction) -> Link {
        let port = 2 * dimension as u32 + u32::from(direction == Direction::Minus);
        Link(from.0 * self.ports() + port)
    }

    /// Returns what a link joins.
    #[must_use]
    pub fn describe(&self, link: Link) -> GridLink {
        let port = link.0 % self.ports();
        GridLink {
            from: Vertex(link.0 / self.ports()),
            dimension: (port / 2) as usize,
            direction: if port.is_multiple_of(2) {
                Direction::Plus
            } else {
                Direction::Minus
            },
        }
    }

    /// GB/s of a link, or `None` if a border has no such link.
    #[must_use]
    pub fn capacity(&self, link: Link) -> Option<f64> {
        let GridLink {
            from,
            dimension,
            direction,
        } = self.describe(link);
        let next = self.step(from, dimension, direction)?;
        let lower = match direction {
            Direction::Plus => from,
            Direction::Minus => next,
        };
        let pattern = &self.dimensions[dimension].capacity;
        let position = usize::from(self.position(lower, dimension));
        Some(pattern[position % pattern.len()])
    }

    /// Calls `visit` for every link that messages from one vertex to another take, in order, with
    /// the share of the messages on that link: 1, or one half if a tie is split.
    pub fn walk(&self, from: Vertex, to: Vertex, tie: Tie, visit: &mut dyn FnMut(Link, f64)) {
        let mut at = from;
        for d in 0..self.dimensions.len() {
            let (a, b) = (self.position(at, d), self.position(to, d));
            let target =
                Vertex(at.0 - u32::from(a) * self.strides[d] + u32::from(b) * self.strides[d]);
            let (directions, share): (&[Direction], f64) = match self.crossing(d, a, b, tie) {
                Crossing::Same => (&[], 0.0),
                Crossing::One(Direction::Plus) => (&[Direction::Plus], 1.0),
                Crossing::One(Direction::Minus) => (&[Direction::Minus], 1.0),
                Crossing::Both => (&[Direction::Plus, Direction::Minus], 0.5),
            };
            for &direction in directions {
                let mut here = at;
                while here != target
                    && let Some(next) = self.step(here, d, direction)
                {
                    visit(self.slot(here, d, direction), share);
                    here = next;
                }
            }
            at = target;
        }
    }
}

fn check(dimension: &Dimension) -> Result<(), TopologyError> {
    let Dimension { size, capacity, .. } = dimension;
    if *size == 0 {
        return Err(TopologyError::Zero("the size of a dimension"));
    }
    if *size > MAX_SIZE {
        return Err(TopologyError::TooLong(dimension.name.clone()));
    }
    if capacity.is_empty() || usize::from(*size) % capacity.len() != 0 {
        return Err(TopologyError::Pattern {
            dimension: dimension.name.clone(),
            given: capacity.len(),
            size: *size,
        });
    }
    check_costs(&[dimension.cost])?;
    check_capacities(capacity)
}

/// Rejects a hop that costs more than [`MAX_COST`].
pub(crate) fn check_costs(costs: &[u32]) -> Result<(), TopologyError> {
    match costs.iter().find(|&&cost| cost > MAX_COST) {
        Some(&bad) => Err(TopologyError::CostTooHigh(bad)),
        None => Ok(()),
    }
}

/// Rejects a capacity that is no rate.
pub(crate) fn check_capacities(capacities: &[f64]) -> Result<(), TopologyError> {
    match capacities.iter().find(|c| !is_rate(**c)) {
        Some(&bad) => Err(TopologyError::Capacity(bad)),
        None => Ok(()),
    }
}
