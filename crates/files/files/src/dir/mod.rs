//! File operations on one directory of the local machine, confined to it.
//!
//! [`LocalDirectory`] implements [`FileSystem`](crate::FileSystem). A forwarder and a gateway export it, and tests compare the
//! other carriers with it.
//!
//! * **Confinement.** Each name is opened relative to the descriptor of its directory, by `openat2` with
//!   `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`. No operation leaves the directory, even if another process replaces
//!   a name between two operations. Names are never `.` or `..` ([`Path`](crate::Path)).
//! * **Handles** (`table.rs`) name an object by a number and by the start of this program, so a handle from an
//!   earlier start is `ESTALE`. An object keeps its handle when it is renamed through this program. The handle of an
//!   object that another process moved or replaced is `ESTALE`, unless this program still has a descriptor of the
//!   object open.
//! * **Memory is limited** by [`Options::objects_max`], [`Options::descriptors_max`] and [`Options::held_max`]: the
//!   least recently used objects are forgotten.
//! * **Holds** (`holds.rs`): a file that is held for a client keeps its handle after its last name was removed.
//! * **Identity** ([`Identity`]): operations run as this process, or as the caller with rules for root. The latter
//!   needs the capabilities to change identity.
//! * **Permission to read and write** is checked when this program opens the file, and stays valid as long as it
//!   keeps the descriptor. The user who created a file can therefore write to it, even if its permission bits change
//!   later.
//!
//! The process's umask applies to objects that are created. A server that must use the caller's bits unchanged sets
//! the umask to 0. `/proc` must be mounted, because files with a descriptor are reopened through it.

mod attributes;
mod content;
mod directory;
mod holds;
mod identity;
mod listing;
mod locks;
mod names;
mod table;

pub use directory::{DirectoryError, LocalDirectory, Options};
pub use identity::{Identity, Squash, obey_quotas};
