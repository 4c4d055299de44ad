//! Identifiers: operations, addresses, contexts, tags, classes.
//!
//! ```text
//!  bit 63   62 ............ 32   31 ......... 0
//!       0    generation ≥ 1        index
//! ```
//!
//! The id of an operation, an address or a context holds the index of its slot and the slot's generation,
//! which changes with each use. An id is therefore positive, and a stale id is distinguished from the id of
//! the slot's next owner.

use std::fmt;
use std::num::NonZeroI64;

/// An id of 64 bits, which C programs hold as an integer.
macro_rules! id {
    ($(#[$documentation:meta])* $name:ident) => {
        $(#[$documentation])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(NonZeroI64);

        impl $name {
            /// Converts an integer to an id. `None` for 0 and negative numbers, which are never ids.
            #[must_use]
            pub fn from_number(number: i64) -> Option<$name> {
                NonZeroI64::new(number)
                    .filter(|number| number.is_positive())
                    .map($name)
            }

            /// Returns the id as an integer.
            #[must_use]
            pub fn number(self) -> i64 {
                self.0.get()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let number = self.number();
                write!(f, "{}({}#{})", stringify!($name), number & 0xffff_ffff, number >> 32)
            }
        }
    };
}

id! {
    /// An operation that was posted and has not been collected.
    OpId
}
id! {
    /// A peer to exchange messages with.
    Address
}
id! {
    /// A set of operations that are tested together.
    ContextId
}

/// Distinguishes messages between the same peers. Every value is legal.
// [BMI-15]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub i32);

/// Separates streams of unexpected messages. The default is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(pub u8);
