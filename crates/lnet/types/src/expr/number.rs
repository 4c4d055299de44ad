//! Sets of numbers: the part of an expression between two dots.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::parse::{self, ParseExprError};
use super::{ExpandError, check_limit};

/// The numbers `low`, `low + stride`, … up to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    low: u32,
    high: u32,
    stride: u32,
}

impl Range {
    /// Returns the range, or `None` if `low` is above `high` or the stride is 0.
    ///
    /// A range of one number has stride 1, so that equal sets are equal values.
    // [UDSP-20] [UDSP-21]
    #[must_use]
    pub const fn new(low: u32, high: u32, stride: u32) -> Option<Self> {
        if low > high || stride == 0 {
            return None;
        }
        let stride = if low == high { 1 } else { stride };
        Some(Self { low, high, stride })
    }

    /// The range of one number.
    #[must_use]
    pub const fn single(number: u32) -> Self {
        Self {
            low: number,
            high: number,
            stride: 1,
        }
    }

    /// The first number.
    #[must_use]
    pub const fn low(self) -> u32 {
        self.low
    }

    /// The upper bound; a member only if a whole number of strides reaches it.
    #[must_use]
    pub const fn high(self) -> u32 {
        self.high
    }

    /// The distance between members, at least 1.
    #[must_use]
    pub const fn stride(self) -> u32 {
        self.stride
    }

    /// Returns true if `number` is a member.
    #[must_use]
    pub const fn contains(self, number: u32) -> bool {
        self.low <= number && number <= self.high && (number - self.low).is_multiple_of(self.stride)
    }

    /// How many members there are.
    #[must_use]
    pub const fn count(self) -> u64 {
        ((self.high - self.low) / self.stride) as u64 + 1
    }

    fn members(self) -> impl Iterator<Item = u32> {
        // The stride of a valid range is at least 1; a stride beyond the address space gives one
        // member.
        let stride = usize::try_from(self.stride).unwrap_or(usize::MAX);
        (self.low..=self.high).step_by(stride)
    }
}

/// A set of numbers: one or more ranges up to the maximum of their position in the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NumberExpr {
    ranges: Vec<Range>,
    max: u32,
}

impl NumberExpr {
    /// Maximum of one element of a quad.
    pub const OCTET_MAX: u32 = 0xFF;
    /// Maximum of a network number.
    pub const NET_MAX: u32 = 0xFFFF;
    /// Maximum of a single-number address.
    pub const ADDRESS_MAX: u32 = u32::MAX;

    /// The numbers of `ranges`, each within 0 to `max`. Returns `None` if there is no range, or if
    /// a range reaches beyond `max`.
    #[must_use]
    pub fn new(ranges: Vec<Range>, max: u32) -> Option<Self> {
        let fits = !ranges.is_empty() && ranges.iter().all(|range| range.high <= max);
        fits.then_some(Self { ranges, max })
    }

    /// Every number up to `max`: `*`.
    #[must_use]
    pub fn any(max: u32) -> Self {
        Self {
            ranges: vec![Range {
                low: 0,
                high: max,
                stride: 1,
            }],
            max,
        }
    }

    /// The ranges as written; at least one.
    #[must_use]
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// The largest number of this position in the text; a full range up to it prints as `*`.
    #[must_use]
    pub const fn max(&self) -> u32 {
        self.max
    }

    /// Returns true if `number` is a member.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        self.ranges.iter().any(|range| range.contains(number))
    }

    /// The members in ascending order, each once.
    ///
    /// # Errors
    ///
    /// [`ExpandError`] when there are more than `limit`.
    pub fn expand(&self, limit: usize) -> Result<Vec<u32>, ExpandError> {
        check_limit(self.count(), limit)?;
        Ok(self.members())
    }

    /// Counts the members; members of overlapping ranges count twice.
    pub(super) fn count(&self) -> u128 {
        self.ranges
            .iter()
            .map(|range| u128::from(range.count()))
            .sum()
    }

    /// The members in ascending order, each once. The caller has checked [`Self::count`].
    pub(super) fn members(&self) -> Vec<u32> {
        let members: BTreeSet<u32> = self
            .ranges
            .iter()
            .flat_map(|range| range.members())
            .collect();
        members.into_iter().collect()
    }

    fn fmt_range(&self, range: Range, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { low, high, stride } = range;
        match (low, high, stride) {
            (0, high, 1) if high == self.max => f.write_str("*"),
            (low, high, _) if low == high => write!(f, "{low}"),
            (low, high, 1) => write!(f, "{low}-{high}"),
            (low, high, stride) => write!(f, "{low}-{high}/{stride}"),
        }
    }
}

impl FromStr for NumberExpr {
    type Err = ParseExprError;

    /// Parses a set of 32-bit numbers: `[0,2-4]`, `7`, `*`.
    fn from_str(text: &str) -> Result<Self, ParseExprError> {
        parse::numbers(text)
    }
}

impl fmt::Display for NumberExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [range] = self.ranges[..]
            && (range.low == range.high || range == Self::any(self.max).ranges[0])
        {
            return self.fmt_range(range, f);
        }
        for (index, range) in self.ranges.iter().enumerate() {
            f.write_str(if index == 0 { "[" } else { "," })?;
            self.fmt_range(*range, f)?;
        }
        f.write_str("]")
    }
}
