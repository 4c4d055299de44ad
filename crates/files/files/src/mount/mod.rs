//! Mounts a file system of `files` in a directory, through FUSE.
//!
//! ```text
//!   programs ── system calls ──▶ kernel ── /dev/fuse ──▶ threads ── adapter ──▶ tree ──▶ files::FileSystem
//! ```
//!
//! [`Mounted::open`] mounts, and serves with several threads until a user unmounts the directory or an
//! [`Ender`] ends the mount. Only `adapter.rs` speaks FUSE, with the crate `fuser`; `tree.rs` has the rules.
//!
//! * **Data is at the server when `write` returns, or when the file is closed.** The kernel keeps no written
//!   data back except that of maps, which it sends at `msync`, `fsync`, `munmap` or the end of the mount. For large
//!   pieces, `write` may return before the server has the data ([`Options::write_behind`]): `close`, `fsync` and all
//!   operations that read the file or its attributes wait for these pieces, and the next `write`, `fsync` or `close`
//!   returns an error of a piece. Only `fsync` writes data to the server's stable storage.
//! * **Close-to-open.** Each `open` asks the server for the attributes of the file, and the kernel drops the contents
//!   that it has cached, unless the file is unchanged. Attributes may be as old as [`Options::file_attributes`], names as
//!   old as [`Options::directory_attributes`].
//! * **Locks** are the server's ([`Locking`]). Whoever gets a lock on a file sees what was written before.
//! * **Files that are removed while they are open** stay until they are closed, under a hidden name in their
//!   directory ([`HIDDEN_PREFIX`]). NFS clients do the same. The reason is that [`FileSystem`](crate::FileSystem) has no open and
//!   no close.
//! * **Identity.** Each operation carries the user, the group and, with [`Options::groups`], the supplementary groups
//!   of the process that calls. Reads and writes carry those of the process that opened the file. The kernel checks
//!   permission bits first.
//! * **Memory** grows with the inodes that the kernel keeps, about 200 bytes each, and with open files.
//!
//! `docs/files-semantics.md` has the promises with their tests.

mod adapter;
mod behind;
mod callers;
mod closes;
mod convert;
mod flags;
mod holds;
mod interrupt;
mod locking;
mod locks;
mod nodes;
mod session;
mod stream;
mod tree;

pub use nodes::HIDDEN_PREFIX;
pub use session::{Ender, Locking, MountError, Mounted, Options, THREADS_MAX};
