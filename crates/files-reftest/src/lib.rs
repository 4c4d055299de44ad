//! A reference model of file operations, and random operations to compare file systems with it.
//!
//! ```text
//!   steps() ──▶ Steps ──┬─▶ Model              what must come out
//!    (proptest, shrinks) └─▶ FileSystem × n     what comes out, each step by one of several clients
//! ```
//!
//! [`compare`] carries out the same steps on both and compares each result and, at the end, the whole trees. The
//! space of names, offsets and sizes is small on purpose, so that operations meet: three names, three levels,
//! eight handles that later steps use, also after their objects were renamed or removed.
//!
//! [`compare_in_trouble`] does the same while servers fail: each step happens once, or is reported as unknown or unreached.
//!
//! The model has no permissions, no times and no limits; the file system must be empty and everything must be
//! permitted to the caller.

mod compare;
mod model;
mod step;
mod trouble;

pub use compare::{Mismatch, compare};
pub use step::{Steps, steps};
pub use trouble::{Subject, Tally, Trouble, compare_in_trouble};
