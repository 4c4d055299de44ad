//! File operations on one directory of the local machine, confined to it.
//!
//! [`LocalDirectory`] implements [`files::FileSystem`]: what a forwarder and a gateway export, and what tests
//! compare the other carriers with.
//!
//! * **Confinement.** Each name is opened relative to the descriptor of its directory, by `openat2` with
//!   `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`. No operation leaves the directory, whatever others put in
//!   place of a name between two operations. Names are never `.` or `..` ([`files::Path`]).
//! * **Handles** (`table.rs`) name an object by number and by the start of this program, so that a handle of an
//!   earlier start is `ESTALE`. An object keeps its handle when it is renamed through this program. One that
//!   others moved or replaced is `ESTALE`, unless its descriptor is still open here.
//! * **Memory is bounded** by [`Options::objects_max`] and [`Options::descriptors_max`]: the objects that were
//!   not used for longest are forgotten.
//! * **Identity** ([`Identity`]): operations run as this process, or as the caller with rules for root, which
//!   needs the capabilities to change identity.
//! * **Permission to read and write** is checked when the file is opened here, and holds as long as the descriptor is
//!   kept. So whoever created a file can write to it, whatever its permission bits say meanwhile.
//!
//! The process's umask applies to what is created; a server that wants the caller's bits as they are sets it to 0.
//! `/proc` must be mounted, because files that are known by a descriptor are reopened through it.

mod attributes;
mod content;
mod directory;
mod identity;
mod listing;
mod names;
mod table;

pub use directory::{DirectoryError, LocalDirectory, Options};
pub use identity::{Identity, Squash, obey_quotas};
