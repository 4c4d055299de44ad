//! A reference model of file operations, and random operations to compare file systems with it.
//!
//! ```text
//!   steps() ──▶ Steps ──┬─▶ Model              what must come out
//!    (proptest, shrinks) └─▶ FileSystem × n     what comes out, each step by one of several clients
//! ```
//!
//! [`compare`] executes the same steps on both and compares each result and, at the end, the whole
//! trees. Names, offsets and sizes are few on purpose, so that operations affect the same objects:
//! three names, three levels, and eight handles that later steps use, even after their objects were
//! renamed or removed.
//!
//! [`compare_in_trouble`] does the same while servers fail: each step is executed once, or its
//! outcome is reported as unknown, or its server as not reached.
//!
//! The model has no permissions, times or limits. The file system must be empty, and its caller
//! must have all permissions.

mod compare;
mod model;
mod step;
mod trouble;

pub use compare::{Mismatch, compare, compare_repeated};
pub use step::{Steps, steps};
pub use trouble::{Subject, Tally, Trouble, compare_in_trouble};
