//! Errors in the description of a fabric.

use thiserror::Error;

/// Why a description of a fabric is invalid.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A grid has no dimensions, or more than eight.
    #[error("{0} dimensions; a grid has 1 to 8")]
    Dimensions(usize),
    /// A count is 0.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// There are more vertices than [`crate::topology::MAX_VERTICES`], or more links than
    /// [`crate::topology::MAX_LINKS`].
    #[error("{0} is too large: at most {max} vertices and {links} links", max = crate::topology::MAX_VERTICES, links = crate::topology::MAX_LINKS)]
    TooLarge(&'static str),
    /// A dimension is longer than [`crate::topology::MAX_SIZE`].
    #[error("dimension {0} is longer than {max} positions", max = crate::topology::MAX_SIZE)]
    TooLong(String),
    /// A hop costs more than [`crate::topology::MAX_COST`].
    #[error("the cost {0} of a hop is above {max}", max = crate::topology::MAX_COST)]
    CostTooHigh(u32),
    /// The number of capacities does not divide the size of the dimension.
    #[error("dimension {dimension}: {given} capacities do not divide its size {size}")]
    Pattern {
        /// The dimension's name.
        dimension: String,
        /// Number of capacities given.
        given: usize,
        /// Positions of the dimension.
        size: u16,
    },
    /// A capacity is not in the range of rates.
    #[error("the capacity {0} is not {RATE}", RATE = crate::rates::RATE)]
    Capacity(f64),
    /// There are several groups, but no links between them.
    #[error("{0} groups without links between them: links_per_pair must be at least 1")]
    Unconnected(u16),
    /// A node has no interface, or more than its group has switches.
    #[error(
        "{0} interfaces of a node: at least 1, and at most one for each of the {1} switches of a group"
    )]
    Ports(u16, u16),
}
