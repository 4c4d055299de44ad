//! The names of things: operations, addresses, contexts, tags, classes.
//!
//! ```text
//!  bit 63   62 ............ 32   31 ......... 0
//!       0    generation ≥ 1        index
//! ```
//!
//! Operations, addresses and contexts are named by the index of their slot and its generation,
//! which changes with each use. So an id is positive, never 0, and one whose thing is gone is told
//! from its slot's next owner.

use std::fmt;
use std::num::NonZeroI64;

/// A name of 64 bits, which C programs hold as an integer.
macro_rules! id {
    ($(#[$documentation:meta])* $name:ident) => {
        $(#[$documentation])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(NonZeroI64);

        impl $name {
            /// The id that a number names; `None` for 0 and below, which name nothing.
            #[must_use]
            pub fn from_number(number: i64) -> Option<$name> {
                NonZeroI64::new(number)
                    .filter(|number| number.is_positive())
                    .map($name)
            }

            /// The number, for where ids are integers.
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
    /// Somebody to exchange messages with.
    Address
}
id! {
    /// A set of operations that are tested together.
    ContextId
}

/// What a program tells messages apart by. Every value is legal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub i32);

/// Separates streams of unexpected messages; 0 unless a program says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(pub u8);
