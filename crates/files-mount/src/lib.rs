//! A file system of [`files`] as a mounted directory, through FUSE.
//!
//! ```text
//!   programs ── system calls ──▶ kernel ── /dev/fuse ──▶ threads ── adapter ──▶ tree ──▶ files::FileSystem
//! ```
//!
//! [`Mounted::open`] mounts and serves with several threads until somebody unmounts the directory or an
//! [`Ender`] ends it. `adapter.rs` alone speaks FUSE, by the crate `fuser`; `tree.rs` has the rules.
//!
//! * **What is written is at the server when `write` returns, or when the file is closed.** The kernel keeps no written
//!   data back, except that of maps, which come with `msync`, `fsync`, `munmap` or the end of the mount. Large pieces go
//!   behind ([`Options::write_behind`]): `close`, `fsync` and all that looks at the file wait for them, and the next
//!   `write`, `fsync` or `close` says what went wrong. Only `fsync` brings data to the server's disk.
//! * **Close-to-open.** Each `open` asks the server for the file and drops what the kernel kept of its content. Names
//!   and attributes may be as old as [`Options::cache`].
//! * **Files that are removed while they are open** go when they are closed: they get a hidden name in their directory
//!   meanwhile ([`HIDDEN_PREFIX`]), as with NFS, because [`files::FileSystem`] has no open and no close.
//! * **Identity.** Each operation carries user, group and, where [`Options::groups`] says so, the other groups of the
//!   process that makes it; reading and writing those of the process that opened the file. The kernel checks
//!   permission bits first.
//! * **Memory** grows with the inodes that the kernel keeps, some 200 bytes each, and with open files.
//!
//! `docs/files-semantics.md` has the promises with their tests.

mod adapter;
mod behind;
mod callers;
mod convert;
mod nodes;
mod session;
mod stream;
mod tree;

pub use nodes::HIDDEN_PREFIX;
pub use session::{Ender, MountError, Mounted, Options, THREADS_MAX};
