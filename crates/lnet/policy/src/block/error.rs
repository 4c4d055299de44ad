//! Errors of blocks.

use std::fmt;

use lnet_types::LndType;
use thiserror::Error;

use crate::error::PolicyError;

const EINVAL: i32 = 22;
const ENOSPC: i32 = 28;
const E2BIG: i32 = 7;
const EOPNOTSUPP: i32 = 95;

/// The error of a block: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("rule block: {problem} {place}")]
pub struct BlockError {
    /// Where it is.
    pub place: Place,
    /// What is wrong.
    pub problem: BlockProblem,
}

/// A place in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This byte of the block being read, or of the buffer being written.
    Offset(usize),
    /// This rule of the block or list being converted, counted from 0.
    Rule(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => write!(f, "at offset {offset}"),
            Self::Rule(rule) => write!(f, "in rule {rule}"),
        }
    }
}

/// What is wrong with a block.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BlockProblem {
    /// The input ends too early.
    #[error("{needed} bytes are needed, {available} are available")]
    Truncated {
        /// Bytes from the start of the block.
        needed: usize,
        /// Bytes that there are.
        available: usize,
    },
    /// A version other than 1 and 2.
    #[error("unknown version {0:#010x}")]
    UnknownVersion(u32),
    /// A rule type that this version does not have.
    #[error("unknown rule type {0:#x}")]
    UnknownType(u32),
    /// A length or size outside its limits.
    #[error("{field} {value} is not in {min}..={max}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// What it says.
        value: u64,
        /// The smallest valid value.
        min: u64,
        /// The largest valid value.
        max: u64,
    },
    /// A length that is not a multiple of the required number.
    #[error("{field} {value} is not a multiple of {of}")]
    NotAMultiple {
        /// The field, or what was computed from it.
        field: &'static str,
        /// The length.
        value: u32,
        /// What it must be a multiple of.
        of: u32,
    },
    /// A range whose bounds are in the wrong order, whose stride is 0, or which exceeds the maximum
    /// of its position.
    #[error("bad range {low}-{high}/{stride}: numbers here go to {max}")]
    BadRange {
        /// The first number.
        low: u32,
        /// The upper bound.
        high: u32,
        /// The stride.
        stride: u32,
        /// The largest number that the place allows.
        max: u32,
    },
    /// A network type without a name.
    #[error("unknown network type {0}")]
    UnknownNet(u32),
    /// A net id that has a number besides an expression, or that gives loopback a number.
    #[error("net id {0:#010x} does not go with its expression")]
    BadNetId(u32),
    /// An address whose form is not that of networks of this type.
    #[error("the address has not the form of {0} networks")]
    BadAddress(LndType),
    /// A NID rule without an address.
    #[error("a NID rule needs an address")]
    NoAddress,
    /// The priority that stands for none.
    #[error("priority 0xffffffff is reserved")]
    ReservedPriority,
    /// Flags that this version does not have.
    #[error("unknown flags {0:#x}")]
    UnknownFlags(u32),
    /// An unknown action, or one that does not fit the descriptors or the priority.
    #[error("action {0} does not go with the descriptors and the priority")]
    BadAction(u32),
    /// A descriptor whose tag belongs to another position.
    #[error("bad descriptor tag {0:#010x}")]
    BadTag(u32),
    /// A number of address expressions other than 0, 1 and 4.
    #[error("{0} address expressions; there are 0, 1 or 4")]
    BadCount(u32),
    /// More rules than a block may have.
    #[error("{count} rules; the limit is {max}")]
    TooManyRules {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A list expression that expands to too many rules with single ranges.
    #[error("{count} combinations of ranges; the limit is {max}")]
    TooManyProducts {
        /// How many there would be.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// The layout cannot express this.
    #[error("the layout has no place for {0}")]
    NotExpressible(&'static str),
    /// The caller's buffer is too small for the block.
    #[error("a buffer of {needed} bytes is needed, {available} bytes are available")]
    BufferTooSmall {
        /// Bytes of the block.
        needed: usize,
        /// Bytes of the buffer.
        available: usize,
    },
    /// An invalid rule, or two rules with the same descriptors.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

impl BlockProblem {
    pub(super) const fn out_of_range(field: &'static str, value: u64, min: u64, max: u64) -> Self {
        Self::OutOfRange {
            field,
            value,
            min,
            max,
        }
    }
}

impl BlockError {
    pub(crate) const fn at(offset: usize, problem: BlockProblem) -> Self {
        Self {
            place: Place::Offset(offset),
            problem,
        }
    }

    pub(crate) const fn in_rule(rule: usize, problem: BlockProblem) -> Self {
        Self {
            place: Place::Rule(rule),
            problem,
        }
    }

    /// The negative errno with which the request fails.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        match &self.problem {
            BlockProblem::BufferTooSmall { .. } => -ENOSPC,
            BlockProblem::TooManyRules { .. } | BlockProblem::TooManyProducts { .. } => -E2BIG,
            BlockProblem::NotExpressible(_) => -EOPNOTSUPP,
            BlockProblem::Policy(error) => error.errno(),
            _ => -EINVAL,
        }
    }
}
