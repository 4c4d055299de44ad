//! Network topologies of parallel machines: tori, meshes, dragonflies and fat trees.
//!
//! ```text
//!              Fabric
//!    ┌───────────┼──────────────┐
//!   Grid     Dragonfly       FatTree        vertices ── Link ──▶ vertices
//!  X then Y   minimal,      up by the       walk(from, to, |link, share|)
//!  then Z     Valiant      destination
//! ```
//!
//! Messages enter and leave a fabric at a [`Vertex`]: a switch of a torus or dragonfly, an endpoint
//! of a fat tree. A [`Link`] is directed. [`Fabric::walk`] visits the links of a path one by one,
//! each with the share of the messages on that link, because adaptive or tied routing uses several
//! links at once.
//!
//! # Example
//!
//! ```
//! use fgr::topology::{Dimension, Fabric, Grid, Tie, Vertex};
//!
//! // A ring of four switches with links of 10 GB/s.
//! let ring = Dimension {
//!     name: "x".to_owned(),
//!     size: 4,
//!     wrap: true,
//!     cost: 1,
//!     capacity: vec![10.0],
//! };
//! let fabric = Fabric::Grid(Grid::new(vec![ring])?, Tie::Split);
//! assert_eq!(fabric.hops(Vertex(0), Vertex(3)), 1);
//!
//! // Both directions to the opposite switch are equally long: each carries half of the messages.
//! let mut shares = Vec::new();
//! fabric.walk(Vertex(0), Vertex(2), &mut |_link, share| shares.push(share));
//! assert_eq!(shares, [0.5; 4]);
//! # Ok::<(), fgr::topology::TopologyError>(())
//! ```
//!
//! # Limits
//!
//! This crate calculates only: it opens no file, reads no clock, and knows nothing of LNet. Sizes
//! come from files, so constructors check them ([`TopologyError`]) against [`MAX_VERTICES`],
//! [`MAX_LINKS`], [`MAX_SIZE`] and [`MAX_COST`]. A [`Vertex`] of another fabric gives a wrong
//! answer or none, never a panic.

mod dragonfly;
mod error;
mod fabric;
mod fat_tree;
mod grid;
pub mod titan;

pub use dragonfly::{Dragonfly, DragonflySize, Routing};
pub use error::TopologyError;
pub use fabric::Fabric;
pub use fat_tree::{FatTree, Level};
pub use grid::{Coordinates, Crossing, Dimension, Direction, Grid, GridLink, Tie};

/// Most vertices of a fabric: more than twenty times those of the largest machine of 2025.
pub const MAX_VERTICES: u32 = 1 << 22;

/// Most directed links of a fabric. Their loads take half a gigabyte.
pub const MAX_LINKS: u32 = 1 << 26;

/// Most positions of a dimension of a grid, so that a table of all pairs of positions stays small.
pub const MAX_SIZE: u16 = 4_096;

/// Highest cost of a hop. No sum of hops overflows 32 bits.
pub const MAX_COST: u32 = 10_000;

/// A point at which messages enter and leave a fabric. Vertices are numbered from 0 without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vertex(pub u32);

/// A directed link. Its number is below the fabric's `link_slots`. Some numbers have no link: a
/// mesh has none outwards at its border.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link(pub u32);
