//! Operations on whole trees of files, for any [`FileSystem`](crate::FileSystem): copy, list, add up, compare,
//! remove.
//!
//! ```text
//!   copy(from, to, …)   check(…)   usage(…)   remove(…)   digest(…)
//!         │                 │
//!   Tree ─┴─ lookups by path, Entries: a directory page by page
//!         │
//!   files::FileSystem: a local directory, a gateway over LNet, a forwarder over BMI
//! ```
//!
//! A local directory is one file system among others, so one copy function serves every direction. The crate knows no
//! terminal and no carrier. Its memory is limited: it reads directories page by page, and files in pieces of
//! [`PIECE`] bytes.
//!
//! **Servers are not trusted.** The work on an object ends with an error if the server returns a name that could lead
//! elsewhere, a listing that goes back, an offset before the requested one, or an impossible count.
//!
//! **One failure ends nothing else.** An error of one file is a [`Failure`], and the work on the other files
//! continues. If a server does not answer, the whole operation ends.

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

/// Limit of the bytes of a file that are moved at a time: as many as a gateway accepts in one call.
pub const PIECE: u64 = 4 << 20;
