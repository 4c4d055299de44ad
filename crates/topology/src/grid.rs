//! Tori and meshes of any number of dimensions.
//!
//! Vertices are numbered with the last dimension fastest. Each vertex has two outgoing links a
//! dimension, `+` to the next position and `-` to the one before; where a dimension does not wrap,
//! the outward links of its border are missing.
//!
//! ```text
//!   position   0 ──+──▶ 1 ──+──▶ 2 ──+──▶ … N-1 ──+──▶ 0     (the last step only with wrap)
//!   capacity     c[0]     c[1]     c[2]       c[N-1]         the same in both directions
//! ```
//!
//! Routing is dimension ordered: first dimension first, the shortest way round. Exactly half way
//! round a ring both ways are shortest, and [`Tie`] decides.

use smallvec::SmallVec;

use crate::{Link, MAX_COST, MAX_LINKS, MAX_SIZE, MAX_VERTICES, TopologyError, Vertex};

/// Positions of a vertex, one a dimension.
pub type Coordinates = SmallVec<[u16; 6]>;

/// Dimensions of the largest grid.
const MAX_DIMENSIONS: usize = 8;

/// One dimension of a [`Grid`].
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    /// Its name in reports: `x`.
    pub name: String,
    /// Positions along it.
    pub size: u16,
    /// Whether the last position is next to the first.
    pub wrap: bool,
    /// Weight of one hop in the planner's cost.
    pub cost: u32,
    /// GB/s of the link between positions `p` and `p + 1` in either direction, repeated along the
    /// dimension; its length divides `size`.
    pub capacity: Vec<f64>,
}

/// Which way round a ring when both are equally long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tie {
    /// Half of the stream each way.
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

/// How one dimension is crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Not at all.
    Stay,
    /// All of the stream one way.
    One(Direction),
    /// Half of the stream each way.
    Both,
}

/// What a [`Link`] of a grid is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridLink {
    /// The vertex that it leaves.
    pub from: Vertex,
    /// Index of the dimension that it runs along.
    pub dimension: usize,
    /// Its direction.
    pub direction: Direction,
}

/// A torus or mesh.
///
/// A dimension is named by its index in [`Grid::dimensions`]; another index panics, as in a slice.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    dimensions: Vec<Dimension>,
    strides: Vec<u32>,
    vertices: u32,
}

impl Grid {
    /// A grid with these dimensions, routed in this order.
    ///
    /// # Errors
    ///
    /// No or too many dimensions or vertices, a size of 0, capacities that do not fit.
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

    /// Vertices.
    #[must_use]
    pub fn vertices(&self) -> u32 {
        self.vertices
    }

    /// One more than the highest number of a link.
    #[must_use]
    pub fn link_slots(&self) -> u32 {
        self.vertices * self.ports()
    }

    fn ports(&self) -> u32 {
        2 * self.dimensions.len() as u32
    }

    /// How far apart, in vertex numbers, neighbours along a dimension are.
    #[must_use]
    pub fn stride(&self, dimension: usize) -> u32 {
        self.strides[dimension]
    }

    /// The vertex at a place, or `None` outside the grid or with another number of dimensions.
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

    /// The place of a vertex.
    #[must_use]
    pub fn coordinates(&self, vertex: Vertex) -> Coordinates {
        (0..self.dimensions.len())
            .map(|d| self.position(vertex, d))
            .collect()
    }

    /// The position of a vertex along one dimension.
    #[must_use]
    pub fn position(&self, vertex: Vertex, dimension: usize) -> u16 {
        let size = u32::from(self.dimensions[dimension].size);
        (vertex.0 / self.strides[dimension] % size) as u16
    }

    /// Hops between two positions of a dimension.
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

    /// Where position `to` stands as seen from `from`: in `[-⌊N/2⌋, ⌈N/2⌉)` on a ring of `N`, the
    /// plain difference without wrap.
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

    /// How a message crosses a dimension.
    #[must_use]
    pub fn way(&self, dimension: usize, from: u16, to: u16, tie: Tie) -> Way {
        if from == to {
            return Way::Stay;
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
                Tie::Split => Way::Both,
                Tie::Plus => Way::One(Direction::Plus),
                Tie::Minus => Way::One(Direction::Minus),
            };
        }
        Way::One(if plus {
            Direction::Plus
        } else {
            Direction::Minus
        })
    }

    /// Hops from `a` to `b`.
    #[must_use]
    pub fn hops(&self, a: Vertex, b: Vertex) -> u32 {
        self.sum(a, b, |_, hops| hops)
    }

    /// Hops from `a` to `b`, each weighted with the cost of its dimension.
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

    /// The links that leave a vertex, with where they lead.
    pub fn neighbours(&self, vertex: Vertex) -> impl Iterator<Item = (Link, Vertex)> + '_ {
        (0..self.dimensions.len())
            .flat_map(|d| [(d, Direction::Plus), (d, Direction::Minus)])
            .filter_map(move |(d, direction)| {
                let next = self.step(vertex, d, direction)?;
                Some((self.slot(vertex, d, direction), next))
            })
    }

    /// The next vertex along a dimension, or `None` at a border.
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
        // On a ring of one position every step would lead back to where it began.
        (size > 1).then(|| Vertex(base + u32::from(next) * self.strides[dimension]))
    }

    /// The number of the link that leaves a vertex this way, whether or not there is one.
    #[must_use]
    pub fn slot(&self, from: Vertex, dimension: usize, direction: Direction) -> Link {
        let port = 2 * dimension as u32 + u32::from(direction == Direction::Minus);
        Link(from.0 * self.ports() + port)
    }

    /// What a link is.
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

    /// GB/s of a link, or `None` where a border has none.
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

    /// Tells every link that messages from one vertex to another cross, in order, with the share of
    /// the stream that crosses it: 1, or one half where a tie is split.
    pub fn walk(&self, from: Vertex, to: Vertex, tie: Tie, visit: &mut dyn FnMut(Link, f64)) {
        let mut at = from;
        for d in 0..self.dimensions.len() {
            let (a, b) = (self.position(at, d), self.position(to, d));
            let target =
                Vertex(at.0 - u32::from(a) * self.strides[d] + u32::from(b) * self.strides[d]);
            let (directions, share): (&[Direction], f64) = match self.way(d, a, b, tie) {
                Way::Stay => (&[], 0.0),
                Way::One(Direction::Plus) => (&[Direction::Plus], 1.0),
                Way::One(Direction::Minus) => (&[Direction::Minus], 1.0),
                Way::Both => (&[Direction::Plus, Direction::Minus], 0.5),
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

/// Refuses a hop dearer than [`MAX_COST`].
pub(crate) fn check_costs(costs: &[u32]) -> Result<(), TopologyError> {
    match costs.iter().find(|&&cost| cost > MAX_COST) {
        Some(&bad) => Err(TopologyError::TooDear(bad)),
        None => Ok(()),
    }
}

/// Refuses what is not a positive number of GB/s.
pub(crate) fn check_capacities(capacities: &[f64]) -> Result<(), TopologyError> {
    match capacities.iter().find(|c| !(c.is_finite() && **c > 0.0)) {
        Some(&bad) => Err(TopologyError::Capacity(bad)),
        None => Ok(()),
    }
}
