//! What people do with trees of files, on any [`FileSystem`](files::FileSystem): copy, list, add up, compare, remove.
//!
//! ```text
//!   copy(from, to, …)   check(…)   usage(…)   remove(…)   digest(…)
//!         │                 │
//!   Tree ─┴─ lookups by path, Entries: a directory page by page
//!         │
//!   files::FileSystem: a local directory, a gateway over LNet, a forwarder over BMI
//! ```
//!
//! A local directory is one file system among others, so there is one way to copy, whatever the direction. The crate
//! knows no terminal and no carrier. Everything works in bounded memory: directories are read page by page, files in
//! pieces of [`PIECE`] bytes.
//!
//! **Servers are not trusted.** A name that could lead elsewhere, a listing that goes back, a position that lies before
//! the one that was asked for, and counts that cannot be end the work on that object with an error.
//!
//! **One failure ends nothing else.** What is wrong with one file is a [`Failure`]; the others go on. A server that does
//! not answer ends the whole operation.

mod below;
mod check;
mod copy;
mod digest;
mod entries;
mod failure;
mod parts;
mod progress;
mod remove;
mod tree;
mod usage;

pub use below::Below;
pub use check::{CheckOptions, Difference, check};
pub use copy::{Item, Options, PART_PREFIX, Verify, copy, is_part};
pub use digest::{Digest, Manifest, ManifestError, digest, digest_line};
pub use entries::{Entries, Found};
pub use failure::{Failure, Why};
pub use parts::old_parts;
pub use progress::{Failures, Progress};
pub use remove::remove;
pub use tree::Tree;
pub use usage::{Usage, usage};

/// Most bytes of a file that are moved at a time: as many as a gateway takes in one call.
pub const PIECE: u64 = 4 << 20;
