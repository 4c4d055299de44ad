//! Priorities.

use std::fmt;
use std::str::FromStr;

use crate::error::PolicyError;

/// How much a rule prefers an object: 0 is best, and every number is better than none (selection
/// 0.2). A lower value is better.
///
/// ```
/// use lnet_policy::Priority;
///
/// assert!(Priority::BEST < Priority::new(7).unwrap());
/// assert!(Priority::new(7).unwrap() < Priority::NONE);
/// assert_eq!(Priority::NONE.to_string(), "-1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u32);

impl Priority {
    /// The best.
    pub const BEST: Self = Self(0);
    /// No rule has set a priority; printed as -1.
    pub const NONE: Self = Self(u32::MAX);

    /// The priority with this value; `None` for 0xFFFFFFFF, which stands for no priority.
    // [UDSP-2]
    #[must_use]
    pub const fn new(value: u32) -> Option<Self> {
        if value == u32::MAX {
            return None;
        }
        Some(Self(value))
    }

    /// The number on the wire; 0xFFFFFFFF for none.
    #[must_use]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Returns true for [`Self::NONE`].
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == u32::MAX
    }

    /// The priority for any number on the wire.
    pub(crate) const fn from_wire(value: u32) -> Self {
        Self(value)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("-1");
        }
        write!(f, "{}", self.0)
    }
}

impl FromStr for Priority {
    type Err = PolicyError;

    /// Parses a decimal number from 0 to 4294967294. Rejects larger numbers, which shipping tools
    /// truncate to 32 bits.
    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse()
            .ok()
            .filter(|_| is_decimal)
            .and_then(Self::new)
            .ok_or_else(|| PolicyError::BadPriority(text.to_owned()))
    }
}
