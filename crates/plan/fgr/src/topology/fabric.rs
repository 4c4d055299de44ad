//! One type for every fabric, with what all of them offer: distances and link loads.

use crate::topology::{Dragonfly, FatTree, Grid, Link, Routing, Tie, Vertex};

/// A machine's fabric and its routing.
#[derive(Clone, Debug, PartialEq)]
pub enum Fabric {
    /// A torus or mesh with dimension-ordered routing.
    Grid(Grid, Tie),
    /// A dragonfly.
    Dragonfly(Dragonfly, Routing),
    /// A fat tree.
    FatTree(FatTree),
}

impl Fabric {
    /// Number of vertices.
    #[must_use]
    pub fn vertices(&self) -> u32 {
        match self {
            Self::Grid(grid, _) => grid.vertices(),
            Self::Dragonfly(dragonfly, _) => dragonfly.vertices(),
            Self::FatTree(tree) => tree.vertices(),
        }
    }

    /// One more than the highest link number.
    #[must_use]
    pub fn link_slots(&self) -> u32 {
        match self {
            Self::Grid(grid, _) => grid.link_slots(),
            Self::Dragonfly(dragonfly, _) => dragonfly.link_slots(),
            Self::FatTree(tree) => tree.link_slots(),
        }
    }

    /// Number of hops of the shortest path between two vertices.
    #[must_use]
    pub fn hops(&self, a: Vertex, b: Vertex) -> u32 {
        match self {
            Self::Grid(grid, _) => grid.hops(a, b),
            Self::Dragonfly(dragonfly, _) => dragonfly.hops(a, b),
            Self::FatTree(tree) => tree.hops(a, b),
        }
    }

    /// Cost of the shortest path between two vertices: the sum of the costs of its hops.
    #[must_use]
    pub fn cost(&self, a: Vertex, b: Vertex) -> u32 {
        match self {
            Self::Grid(grid, _) => grid.cost(a, b),
            Self::Dragonfly(dragonfly, _) => dragonfly.cost(a, b),
            Self::FatTree(tree) => tree.cost(a, b),
        }
    }

    /// GB/s of a link, or `None` if no link has this number.
    #[must_use]
    pub fn capacity(&self, link: Link) -> Option<f64> {
        match self {
            Self::Grid(grid, _) => grid.capacity(link),
            Self::Dragonfly(dragonfly, _) => dragonfly.capacity(link),
            Self::FatTree(tree) => tree.capacity(link),
        }
    }

    /// Calls `visit` for every link that messages take, with the share of the messages on that
    /// link.
    pub fn walk(&self, from: Vertex, to: Vertex, visit: &mut dyn FnMut(Link, f64)) {
        match self {
            Self::Grid(grid, tie) => grid.walk(from, to, *tie, visit),
            Self::Dragonfly(dragonfly, routing) => dragonfly.walk(from, to, *routing, visit),
            Self::FatTree(tree) => tree.walk(from, to, visit),
        }
    }
}
