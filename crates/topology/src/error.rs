//! Why a description is not a fabric.

use thiserror::Error;

/// What is wrong with the description of a fabric.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A grid without dimensions, or with more than eight.
    #[error("{0} dimensions; a grid has 1 to 8")]
    Dimensions(usize),
    /// Something that is counted has the count 0.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// More vertices than [`crate::MAX_VERTICES`], or links than [`crate::MAX_LINKS`].
    #[error("{0} is too large: at most {max} vertices and {links} links", max = crate::MAX_VERTICES, links = crate::MAX_LINKS)]
    TooLarge(&'static str),
    /// A dimension longer than [`crate::MAX_SIZE`].
    #[error("dimension {0} is longer than {max} positions", max = crate::MAX_SIZE)]
    TooLong(String),
    /// A hop dearer than [`crate::MAX_COST`].
    #[error("the cost {0} of a hop is above {max}", max = crate::MAX_COST)]
    TooDear(u32),
    /// The capacities of a dimension do not repeat a whole number of times along it.
    #[error("dimension {dimension}: {given} capacities do not divide its size {size}")]
    Pattern {
        /// The dimension's name.
        dimension: String,
        /// Capacities given.
        given: usize,
        /// Positions of the dimension.
        size: u16,
    },
    /// A capacity that is not a positive, finite number.
    #[error("the capacity {0} is not a positive number of GB/s")]
    Capacity(f64),
    /// Several groups and no link between them.
    #[error("{0} groups without links between them: links_per_pair must be at least 1")]
    Unconnected(u16),
}
