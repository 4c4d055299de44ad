//! The shapes of machines: tori, meshes, dragonflies, fat trees. Where things stand, which links
//! join them, which links a message takes.
//!
//! ```text
//!              Fabric
//!    ┌───────────┼──────────────┐
//!   Grid     Dragonfly       FatTree        vertices ── Link ──▶ vertices
//!  X then Y   minimal,      up by the       walk(from, to, |link, share|)
//!  then Z     Valiant      destination
//! ```
//!
//! A [`Vertex`] is what messages enter and leave the fabric at: a switch of a torus or dragonfly, an
//! endpoint of a fat tree. A [`Link`] is directed. A path is told link by link with the share of the
//! message stream that crosses it, because adaptive or tied routing uses several links at once.
//!
//! This crate is arithmetic: it opens nothing, keeps no time, and knows nothing of LNet. Its sizes
//! come from files, so constructors check them ([`TopologyError`]); a vertex of another fabric gives
//! a wrong answer or none, never a panic.

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
pub use grid::{Coordinates, Dimension, Direction, Grid, GridLink, Tie, Way};

/// Most vertices of a fabric: more than twenty times the largest machine of today.
pub const MAX_VERTICES: u32 = 1 << 22;

/// Most directed links of a fabric: their loads take half a gigabyte.
pub const MAX_LINKS: u32 = 1 << 26;

/// Longest dimension of a grid, so that a table of all pairs of its positions stays small.
pub const MAX_SIZE: u16 = 4_096;

/// Largest cost of a hop, so that no sum of hops overflows 32 bits.
pub const MAX_COST: u32 = 10_000;

/// Where messages enter and leave a fabric, as a dense number from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vertex(pub u32);

/// A directed link, as a number below the fabric's `link_slots`. Not every number is a link: a mesh
/// has none leaving its border.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link(pub u32);
